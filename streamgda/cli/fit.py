"""``streamgda fit``."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.data import Data, to_learn
from streamgda.cli.errors import describe
from streamgda.cli.models import ModelOptions, model_options
from streamgda.cli.running import Running, bundled, of_library, running_options
from streamgda.cli.saved import check_apart, check_replaceable, out_option, save

if TYPE_CHECKING:
    from streamgda.statistics.base import Statistics


def _how_to_read(*, once: bool, **given: Any) -> dict[str, Any]:
    """The arguments of `accumulate` for rows with missing features. `once` limits them to a single read."""
    from streamgda.statistics.incomplete.reads import MAX_READS

    given = {name: value for name, value in given.items() if value is not None}
    return {"max_reads": MAX_READS, **given, **({"max_reads": 1} if once else {})}


_QDA = "streamgda.estimators.qda:QuadraticDiscriminantAnalysis"

em_options = bundled(
    "em", dict, {name: of_library(_QDA, name) for name in ("max_patterns", "max_reads", "em_tol")}
)


@click.command()
@to_learn
@model_options(default="qda", otherwise="qda")
@em_options
@of_library("streamgda.passes.accumulate:accumulate", "exact")
@click.option(
    "--statistics",
    is_flag=True,
    help="Save the statistics that a model is made of, and no model; merge makes models of them.",
)
@out_option("Where to save: a file or a URL.", required=True)
@running_options
def fit(
    data: Data, model: ModelOptions, em: dict[str, Any], exact: bool, statistics: bool, out: str, run: Running
) -> None:
    """Learn a model from labelled data.

    Data of any size is read once, in bounded memory; with --missing marginal, up to ten times (or
    --max-reads), if the rows have very many patterns of missing features.

    DATA is a Parquet file, folder, glob or URL, or several of them; or a Zarr store, whose name ends in
    .zarr. The model is saved as a small Parquet file. It replaces a model that is there, but no other file.

    If no model can be made from the data, for example because a covariance is singular, the statistics are
    saved beside the output file. The error says how to go on without reading the data again.

    \b
    Examples:
      streamgda fit monday.parquet --target kind --features length,width --out model.parquet
      streamgda fit days --target kind --filter 'day>=3' --model lda --out model.parquet
      streamgda fit flowers.zarr --model nb --out s3://bucket/model.parquet
    """
    from streamgda import MixtureDiscriminantAnalysis, accumulate

    model.check()
    check_replaceable(out)
    source = data.labelled()
    check_apart(out, source)
    estimator = model.kind(**model.params)
    kept = estimator.required_statistics()
    with run.scheduler_options() as options:
        if isinstance(estimator, MixtureDiscriminantAnalysis):
            missing = "marginal" if data.missing == "marginal" else "raise"
            estimator.set_params(exact=exact, missing=missing)
            kept["subclass_centers"] = estimator.draw_centers(source, **options)
        learnt = accumulate(source, exact=exact, **_how_to_read(once=statistics, **em), **kept, **options)
    try:
        saved = learnt if statistics else model.build(learnt, missing=data.missing)
    except ValueError as error:
        raise ValueError(f"{describe(error).rstrip('.')}. {_rescue(learnt, model, out)}".rstrip()) from error
    save(saved, out, run)


def _rescue(learnt: Statistics, model: ModelOptions, out: str) -> str:
    """Save the statistics when no model can be made from them with these options. Say how to go on."""
    beside = f"{out.removesuffix(PurePath(out).suffix)}.statistics.parquet"
    try:
        check_replaceable(beside)
    except (ValueError, OSError):
        return ""
    learnt.save(beside)
    saved = f"The statistics are saved in {beside}; go on with"
    if len(learnt.classes) < 2:
        return f"{saved} rows of other classes: streamgda update {beside} DATA --target ..."
    command = f"streamgda merge {beside} --model {model.model} {model.remedy} --out {out}"
    return f"{saved} other options, such as: {command}"
