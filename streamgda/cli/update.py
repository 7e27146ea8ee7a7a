"""``streamgda update``."""

from __future__ import annotations

import click

from streamgda.cli.options import Data, to_learn_more
from streamgda.cli.outputs import check_apart, check_replaceable
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import counted, document_of, statistics_of, summary_of, warn_of_faults


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_learn_more
@click.option("--out", metavar="FILE", help="Where to save.  [default: in place of MODEL]")
@running_options
def update(saved_in: str, data: Data, out: str | None, run: Running) -> None:
    """Let a saved model learn from more data.

    Saved statistics can be updated too. The result is the model of one fit to all the data. The file is
    replaced in one piece at the end, and stays as it was after an error. Data that the model has learnt
    before would count twice; to keep up with files that come, change and go, use refresh.

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
    statistics.merge(new)
    saved.save(out)
    warn_of_faults(saved)
    learnt = {"rows_learnt": new.n_rows, "rows_dropped": new.n_dropped}
    run.report(
        {**document_of(saved), **learnt, "out": out},
        f"{counted(new.n_rows, 'row')} learnt\n{summary_of(saved)}\nsaved in {out}",
    )
