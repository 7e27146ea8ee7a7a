"""``streamgda evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.options import Data, to_judge
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import loaded_model

if TYPE_CHECKING:
    from streamgda.scoring.evaluation import Evaluation


@click.command()
@click.argument("model", metavar="MODEL")
@to_judge
@running_options
def evaluate(model: str, data: Data, run: Running) -> None:
    """Judge a saved model on labelled data, in one read.

    DATA is as for fit. Accuracy, log loss and Brier score are printed, and for each class precision, recall,
    F1, and the areas under its ROC and precision-recall curves; with --json the confusion matrix too, whose
    rows are the true classes.

    \b
    Example:
      streamgda evaluate model.parquet labelled.parquet --target kind
    """
    from streamgda import evaluate as judge

    trained = loaded_model(model, data)
    source = data.labelled(trained.statistics_.feature_names)
    with run.scheduler_options() as where:
        evaluation = judge(trained, source, **where)
    run.output(_document(evaluation), str(evaluation))


def _document(evaluation: Evaluation) -> dict[str, Any]:
    measures = ("n_rows", "n_dropped", "accuracy", "log_loss", "brier_score", "confusion_matrix")
    by_class = evaluation.to_frame().reset_index(names="label")
    return {
        **{name: getattr(evaluation, name) for name in measures},
        "classes": by_class.to_dict(orient="records"),
    }
