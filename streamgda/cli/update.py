"""``streamgda update``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streamgda.blocks.wording import counted
from streamgda.cli.data import Data, to_learn_more
from streamgda.cli.outputs import check_apart, check_replaceable, file_of_model
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import (
    Saved,
    document_of,
    fault_of,
    is_model,
    statistics_of,
    summary_of,
    warn_of_fault,
)

if TYPE_CHECKING:
    from streamgda.statistics.base import Statistics


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_learn_more
@click.option(
    "--out", callback=file_of_model, metavar="FILE", help="Where to save.  [default: in place of MODEL]"
)
@click.option("--force", is_flag=True, help="Replace a model even by one that cannot predict.")
@running_options
def update(saved_in: str, data: Data, out: str | None, force: bool, run: Running) -> None:
    """Let a saved model learn from more data.

    Saved statistics can be updated too. The result is the model of one fit to all the data. The file is
    replaced in one piece at the end, and stays as it was after an error. Data that the model has learnt
    before would count twice; to keep up with files that come, change and go, use refresh. A model that can
    predict is not replaced by one that cannot.

    \b
    Example:
      streamgda update model.parquet wednesday.parquet --target kind
    """
    from streamgda import accumulate, load

    saved = load(saved_in)
    statistics = statistics_of(saved)
    out = saved_in if out is None else out
    check_replaceable(out)
    source = data.labelled(statistics.feature_names)
    check_apart(out, source)
    with run.scheduler_options() as options:
        new = accumulate(
            source,
            statistics.covariance_type,
            fourth_moments=statistics.has_fourth_moments,
            exact=statistics.exact,
            **options,
        )
    could_predict = fault_of(saved) is None
    saved = _with_rows(saved, new)
    if out == saved_in and could_predict and not force:
        _check_predicts(saved, saved_in)
    saved.save(out)
    warn_of_fault(saved)
    learnt = {"rows_learnt": new.n_rows, "rows_dropped": new.n_dropped}
    run.report(
        {**document_of(saved), **learnt, "out": out},
        f"{counted(new.n_rows, 'row')} learnt\n{summary_of(saved)}\nsaved in {out}",
    )


def _with_rows(saved: Saved, new: Statistics) -> Saved:
    """What is saved with the rows of new statistics, in which features may be missing for the first time."""
    if is_model(saved):
        return saved.merge(new)
    statistics = statistics_of(saved)
    goes_over = new.keeps_patterns and not statistics.keeps_patterns
    return new.merge(statistics) if goes_over else statistics.merge(new)


def _check_predicts(model: Saved, path: str) -> None:
    fault = fault_of(model)
    if fault is not None:
        raise ValueError(
            f"with these rows {path} could not predict any more: {fault}. It is left as it was; --out saves "
            "the new model elsewhere, and --force replaces it"
        )
