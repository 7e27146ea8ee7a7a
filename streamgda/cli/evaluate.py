"""``streamgda evaluate``."""

from __future__ import annotations

import click

from streamgda.cli.data import Data, to_evaluate
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import load_model


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
    run.output(evaluation.to_dict(), str(evaluation))
