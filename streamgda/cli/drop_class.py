"""``streamgda drop-class``."""

from __future__ import annotations

import click

from streamgda.blocks.wording import counted
from streamgda.cli.outputs import check_replaceable, file_of_model
from streamgda.cli.running import Reporting, reporting_options
from streamgda.cli.saved import document_of, statistics_of, summary_of, warn_of_fault


@click.command("drop-class")
@click.argument("saved_in", metavar="MODEL")
@click.argument("labels", nargs=-1, required=True, metavar="LABEL...")
@click.option(
    "--out", callback=file_of_model, metavar="FILE", help="Where to save.  [default: in place of MODEL]"
)
@reporting_options
def drop_class(saved_in: str, labels: tuple[str, ...], out: str | None, run: Reporting) -> None:
    """Let a saved model or statistics forget all rows of some classes.

    This is the way out of a mistyped label, or of a class that cannot be estimated. A model of what is left
    is that of one fit without these rows.

    \b
    Example:
      streamgda drop-class model.parquet setsoa
    """
    from streamgda import load

    saved = load(saved_in)
    statistics = statistics_of(saved)
    out = saved_in if out is None else out
    check_replaceable(out)
    before, known = statistics.n_rows, {str(label): label for label in statistics.classes.tolist()}
    for label in dict.fromkeys(labels):
        if label not in known:
            raise ValueError(f"{saved_in} has no class {label!r}; it has {', '.join(known)}")
        statistics.drop_class(known[label])
    saved.save(out)
    warn_of_fault(saved)
    forgotten = before - statistics.n_rows
    run.report(
        {**document_of(saved), "rows_forgotten": forgotten, "out": out},
        f"{counted(forgotten, 'row')} forgotten\n{summary_of(saved)}\nsaved in {out}",
    )
