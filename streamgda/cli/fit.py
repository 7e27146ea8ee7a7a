"""``streamgda fit``."""

from __future__ import annotations

import click

from streamgda.cli.options import Data, ModelOptions, model_options, to_learn
from streamgda.cli.outputs import check_apart, check_replaceable
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import document_of, summary_of


@click.command()
@to_learn
@model_options(default="qda")
@click.option("--exact", is_flag=True, help="Exact sums: the same bits however the rows are cut or ordered.")
@click.option(
    "--statistics",
    is_flag=True,
    help="Save the statistics that a model is made of, and no model; merge makes models of them.",
)
@click.option("--out", required=True, metavar="FILE", help="Where to save: a file or a URL.")
@running_options
def fit(data: Data, model: ModelOptions, exact: bool, statistics: bool, out: str, run: Running) -> None:
    """Learn a model from labelled data.

    Data of any size is read once, in bounded memory.

    DATA is a Parquet file, folder, glob or URL, or several of them; or a Zarr store, whose name ends in
    .zarr. The model is saved as a small Parquet file. It replaces a model that is there, but no other file.

    \b
    Examples:
      streamgda fit monday.parquet --target kind --features length,width --out model.parquet
      streamgda fit days --target kind --model lda --out model.parquet
      streamgda fit flowers.zarr --model nb --out s3://bucket/model.parquet
    """
    from streamgda import accumulate

    model.check()
    check_replaceable(out)
    source = data.labelled()
    check_apart(out, source)
    kept = model.kind(**model.params).required_statistics()
    with run.scheduler_options() as options:
        learnt = accumulate(source, exact=exact, **kept, **options)
    saved = learnt if statistics else model.build(learnt)
    saved.save(out)
    run.report({**document_of(saved), "out": out}, f"{summary_of(saved)}\nsaved in {out}")
