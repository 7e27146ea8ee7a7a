"""``streamgda merge``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streamgda.cli.errors import describe
from streamgda.cli.models import ModelOptions, model_options
from streamgda.cli.options import bad_usage
from streamgda.cli.outputs import check_replaceable, file_of_model
from streamgda.cli.running import Reporting, reporting_options
from streamgda.cli.saved import document_of, statistics_of, summary_of, warn_of_fault


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@model_options(otherwise="that of the files")
@click.option(
    "--out", required=True, callback=file_of_model, metavar="FILE", help="Where to save: a file or a URL."
)
@reporting_options
def merge(files: tuple[str, ...], model: ModelOptions, out: str, run: Reporting) -> None:
    """Add up models or statistics of different data.

    FILE is what fit, update, merge or refresh have saved. The sum is of the same kind as the files, with the
    parameters of the first. With --model, a model is made of their statistics; so one FILE of statistics
    becomes a model.

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
    saved.save(out)
    warn_of_fault(saved)
    run.report({**document_of(saved), "out": out}, f"{summary_of(saved)}\nsaved in {out}")


def _check_different(files: tuple[str, ...]) -> None:
    seen: dict[str, str] = {}
    for file in files:
        place = file if "://" in file else str(Path(file).expanduser().resolve())
        if place in seen:
            raise bad_usage(f"{file} is {seen[place]} again: its rows would count twice.")
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
