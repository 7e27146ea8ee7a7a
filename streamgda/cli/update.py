"""``streamgda update``."""

from __future__ import annotations

import click

from streamgda.cli.options import Data, to_learn_more
from streamgda.cli.outputs import check_apart, check_replaceable
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import document_of, statistics_of, summary_of, warn_of_faults


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_learn_more
@click.option("--out", metavar="FILE", help="Where to save.  [default: in place of MODEL]")
@running_options
def update(saved_in: str, data: Data, out: str | None, run: Running) -> None:
    """Let a saved model learn from more data.

    So do saved statistics. The model is then that of one fit of all the data. It is replaced in one piece
    when it has learnt, and stays as it was if anything goes wrong. What it has learnt already would count
    twice; to keep up with files that come, change and go, use refresh.

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
    kind = {"fourth_moments": statistics.has_fourth_moments, "exact": statistics.exact}
    with run.scheduler_options() as where:
        new = accumulate(source, statistics.covariance_type, **kind, **where)
    statistics.merge(new)
    saved.save(out)
    warn_of_faults(saved)
    learnt = {"rows_learnt": new.n_rows, "rows_dropped": new.n_dropped}
    run.report(
        {**document_of(saved), **learnt, "out": out},
        f"{new.n_rows:,} rows learnt\n{summary_of(saved)}\nsaved in {out}",
    )
