"""``streamgda fit``, ``update`` and ``merge``: the rows that saved models have learnt."""

from __future__ import annotations

from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from streamgda.blocks.wording import counted
from streamgda.cli.data import Data, ModelOptions, model_options, to_learn, to_learn_more
from streamgda.cli.errors import describe
from streamgda.cli.running import Reporting, Running, of_library, reporting_options, running_options
from streamgda.cli.saved import check_replaceable, fault_of, is_model, out_option, save, statistics_of

if TYPE_CHECKING:
    from streamgda.statistics.base import Statistics


@click.command()
@to_learn
@model_options(default="qda", otherwise="qda")
@of_library("streamgda.passes.accumulate:accumulate", "exact")
@click.option(
    "--statistics",
    is_flag=True,
    help="Save the statistics that a model is made of, and no model; merge makes models of them.",
)
@out_option("Where to save: a file or a URL.", required=True)
@running_options
def fit(data: Data, model: ModelOptions, exact: bool, statistics: bool, out: str, run: Running) -> None:
    """Learn a model from labelled data.

    Data of any size is read once, in bounded memory; with --missing marginal, up to ten times (or max_reads),
    if the rows have very many patterns of missing features.

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
    from streamgda import accumulate
    from streamgda.passes.accumulate import read_into

    model.check()
    source = data.labelled()
    check_replaceable(out, source)
    estimator = model.new().set_params(exact=exact)
    kept = estimator.required_statistics().keywords()
    with run.scheduler_options() as options:
        if estimator.divides_rows:
            estimator.set_params(missing=data.of_models)
            (kept["rule"],), _ = estimator.rules_for([estimator], partial(read_into, source, **options))
        one_read = statistics and isinstance(data.missing, str)
        missing = None if one_read else data.of_models
        learnt = accumulate(source, missing=missing, **kept, **options)
    try:
        saved = learnt if statistics else model.build(learnt, data.of_models)
    except ValueError as error:
        raise ValueError(f"{describe(error).rstrip('.')}. {_rescue(learnt, out)}".rstrip()) from error
    save(saved, out, run)


def _rescue(learnt: Statistics, out: str) -> str:
    """Save the statistics when no model can be made from them. Say how to go on."""
    beside = f"{out.removesuffix(PurePath(out).suffix)}.statistics.parquet"
    try:
        check_replaceable(beside)
    except (ValueError, OSError):
        return ""
    learnt.save(beside)
    return (
        f"The statistics are saved in {beside}; go on with other options, by streamgda merge {beside} "
        f"--model ... --out {out}, or with more rows, by streamgda update {beside} DATA --target ..."
    )


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_learn_more
@out_option("Where to save.  [default: in place of MODEL]")
@click.option("--force", is_flag=True, help="Replace a model even by one that cannot predict.")
@running_options
def update(saved_in: str, data: Data, out: str | None, force: bool, run: Running) -> None:
    """Let a saved model learn from more data.

    Saved statistics can be updated too. The result is the same as one fit to all the data. The file is
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
    source = data.labelled(statistics.schema.names, statistics.schema.encoding)
    check_replaceable(out, source)
    with run.scheduler_options() as options:
        new = accumulate(source, **statistics.required.keywords(), rule=statistics.rule, **options)
    could_predict = fault_of(saved) is None
    saved = saved.merge(new) if is_model(saved) else statistics + new
    if out == saved_in and could_predict and not force:
        fault = fault_of(saved)
        if fault is not None:
            raise ValueError(
                f"with these rows {out} could not predict any more: {fault}. It is left as it was; --out "
                "saves the new model elsewhere, and --force replaces it"
            )
    said = f"{counted(new.n_rows, 'row')} learnt"
    save(saved, out, run, said, rows_learnt=new.n_rows, rows_dropped=new.n_dropped)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@model_options(otherwise="that of the files")
@out_option("Where to save: a file or a URL.", required=True)
@reporting_options
def merge(files: tuple[str, ...], model: ModelOptions, out: str, run: Reporting) -> None:
    """Add up models or statistics of different data.

    FILE is what fit, update, merge or refresh have saved. The sum is of the same kind as the files, with the
    parameters of the first. With --model, a model is made of their statistics; thus a single
    FILE of statistics can become a model.

    \b
    Examples:
      streamgda merge monday.parquet tuesday.parquet --out week.parquet
      streamgda merge statistics.parquet --model lda --shrinkage 0.1 --out model.parquet
    """
    model.check()
    _check_different(files)
    check_replaceable(out)
    total = _sum_of(files, as_statistics=model.model is not None)
    saved = total if model.model is None else model.build(total)
    save(saved, out, run)


def _check_different(files: tuple[str, ...]) -> None:
    seen: dict[str, str] = {}
    for file in files:
        place = file if "://" in file else str(Path(file).expanduser().resolve())
        if place in seen:
            raise click.UsageError(f"{file} is {seen[place]} again: its rows would count twice.")
        seen[place] = file


def _sum_of(files: tuple[str, ...], *, as_statistics: bool) -> Any:
    from streamgda import load

    total: Any = None
    for file in files:
        part = statistics_of(load(file)) if as_statistics else load(file)
        try:
            total = part if total is None else total.merge(part)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file} cannot be added to {files[0]}: {describe(error)}") from error
    return total
