"""``streamgda evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.data import Data, to_evaluate
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import load_model

if TYPE_CHECKING:
    from streamgda.scoring.evaluation import Evaluation


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_evaluate
@running_options
def evaluate(saved_in: str, data: Data, run: Running) -> None:
    """Evaluate a saved model on labelled data, in one read.

    DATA is as for fit. Accuracy, log loss and Brier score are printed, and for each class precision, recall,
    F1, and the areas under its ROC and precision-recall curves; with --json the confusion matrix too, whose
    rows are the true classes.

    \b
    Example:
      streamgda evaluate model.parquet labelled.parquet --target kind
    """
    import streamgda

    model = load_model(saved_in, data)
    source = data.labelled(model.statistics_.feature_names)
    with run.scheduler_options() as options:
        evaluation = streamgda.evaluate(model, source, **options)
    run.output(_document(evaluation), str(evaluation))


def _document(evaluation: Evaluation) -> dict[str, Any]:
    measures = ("n_rows", "n_dropped", "accuracy", "log_loss", "brier_score", "confusion_matrix")
    by_class = evaluation.to_frame().reset_index(names="label")
    return {
        **{name: getattr(evaluation, name) for name in measures},
        "classes": by_class.to_dict(orient="records"),
    }
