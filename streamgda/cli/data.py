"""The options that say which data is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.options import Option, bad_usage, bundled, split_names

if TYPE_CHECKING:
    from streamgda.sources.base import Source

Comparison = tuple[str, str, Any]

_ZARR = re.compile(r"\.zarr(/|$)")


@dataclass(frozen=True)
class Data:
    """The paths of the data, and the columns to read."""

    data: tuple[str, ...]
    features: list[str] | None = None
    missing: str | None = None
    target: str | None = None
    weight: str | None = None
    filters: list[Comparison] | None = None
    exclude: Sequence[str] | None = None

    def without(self, *names: str | None) -> Data:
        """The same data, of which these columns are no features unless they are named as such."""
        if self.features:
            return self
        return replace(self, exclude=[*(self.exclude or ()), *filter(None, names)])

    def labelled(self, model_features: Sequence[str] | None = None) -> Source:
        """The source of rows with labels; without ``--features``, of the features of the model."""
        if self._is_zarr:
            return self._zarr(self.target or "y")
        if self.target is None:
            raise bad_usage("Missing option '--target': the column of labels.")
        return self._parquet(self.target, model_features)

    def unlabelled(self, model_features: Sequence[str] | None = None) -> Source:
        """The source of rows without labels; without ``--features``, of the features of the model."""
        return self._zarr(None) if self._is_zarr else self._parquet(None, model_features)

    @property
    def _is_zarr(self) -> bool:
        return any(_ZARR.search(path) for path in self.data)

    def _zarr(self, target: str | None) -> Source:
        from streamgda import scan_zarr

        if len(self.data) > 1:
            raise bad_usage("A Zarr store is read alone.")
        if self.filters:
            raise bad_usage("--filter is for Parquet files.")
        if self.features and len(self.features) > 1:
            raise bad_usage("Of a Zarr store, --features names the one array of rows.")
        if self.exclude:
            raise bad_usage("--exclude is for Parquet files.")
        (array,) = self.features or ["X"]
        return scan_zarr(self.data[0], target, features=array, **self._options())

    def _parquet(self, target: str | None, model_features: Sequence[str] | None) -> Source:
        from streamgda import scan_parquet

        path = self.data[0] if len(self.data) == 1 else self.data  # one folder may have partitions
        features = self.features or (None if model_features is None else list(model_features))
        if self.features and self.exclude:
            raise bad_usage("--exclude is for all columns but some; give it or --features, not both.")
        options = {**self._options(), "filters": self.filters, "exclude": self.exclude or ()}
        return scan_parquet(path, target, features=features, **options)

    def _options(self) -> dict[str, Any]:
        """The options of both kinds of source. With ``--missing marginal`` the model takes such rows."""
        kept = {"marginal": "keep", "drop": "drop"}
        return {"weight": self.weight, "missing": kept.get(self.missing or "", "raise")}


# ---------------------------------------------------------------------- the values of options


def _paths(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    if "" in paths:  # a shell variable that is not set; it would mean the working directory
        raise click.BadParameter("a path is empty.")
    return paths


_COMPARISON = re.compile(r"\s*(.+?)\s*(==|!=|>=|<=|=|>|<)\s*(.*?)\s*")


def _filters(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[Comparison] | None:
    """Comparisons such as ``day>=3``, as `scan_parquet` takes them."""
    comparisons: list[Comparison] = []
    for value in values:
        match = _COMPARISON.fullmatch(value)
        if match is None:
            raise click.BadParameter(f"{value!r} is no comparison such as 'day>=3' or 'region=north'.")
        comparisons.append((match[1], match[2], literal(match[3])))
    return comparisons or None


def literal(text: str) -> Any:
    """A number, bool, date or time where the text is one and not in quotes, else a string."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for convert in (int, float, date.fromisoformat, datetime.fromisoformat):
        with suppress(ValueError):
            return convert(text)
    return text


# ---------------------------------------------------------------------- the options


def _data(*, required: bool) -> Option:
    metavar = "DATA..." if required else "[DATA]..."
    return click.argument("data", nargs=-1, required=required, metavar=metavar, callback=_paths)


def _features(what: str, default: str) -> Option:
    text = f"{what}, with commas between them; or the array of rows of a Zarr store.  [default: {default}]"
    return click.option("--features", metavar="A,B,...", callback=split_names, help=text)


_FEATURES_TO_LEARN = _features(
    "The columns to learn from, by names or patterns such as 'x*'", "all but target and weight; Zarr: X"
)

_FEATURES_OF_MODEL = _features(
    "The features of the model, in its order", "the columns of these names; Zarr: X"
)

_EXCLUDE = click.option(
    "--exclude",
    metavar="A,B,...",
    callback=split_names,
    help="Columns not to learn from, by names or patterns such as 'id*'; an identifier is one.  "
    "[default: none]",
)

_FILTER = click.option(
    "--filter",
    "filters",
    metavar="COLUMN>=VALUE",
    multiple=True,
    callback=_filters,
    help="Read only rows for which this holds: =, !=, <, <=, > or >=. Several must all hold. Partitions and "
    "row groups without such rows are not read. A value in quotes is a string.  [default: all rows]",
)

_TARGET = click.option(
    "--target",
    metavar="COLUMN",
    help="The column of labels, or the array of a Zarr store.  [required; Zarr: y]",
)

_WEIGHT = click.option(
    "--weight", metavar="COLUMN", help="A column of sample weights: repetitions of a row.  [default: none]"
)

_MISSING = click.option(
    "--missing",
    type=click.Choice(["raise", "drop", "marginal"]),
    default="raise",
    show_default=True,
    help="A row with a null or NaN is an error that names it, is left out, or is learnt by the features that "
    "it has, if features are missing at random.",
)

_MISSING_TO_SCORE = click.option(
    "--missing",
    type=click.Choice(["raise", "drop", "marginal"]),
    help="A row with a null or NaN is an error that names it, is left out, or is judged by the features "
    "that it has.  [default: as the model was made, raise]",
)

_LABELS: list[Option] = [_TARGET, _WEIGHT]

_TO_LEARN = [*_LABELS, _FEATURES_TO_LEARN, _EXCLUDE, _FILTER, _MISSING]

to_learn = bundled("data", Data, [_data(required=True), *_TO_LEARN])

to_learn_more = bundled("data", Data, [_data(required=True), *_LABELS, _FEATURES_OF_MODEL, _FILTER, _MISSING])

to_predict = bundled("data", Data, [_data(required=True), _FEATURES_OF_MODEL, _FILTER, _MISSING_TO_SCORE])

_TO_EVALUATE = [*_LABELS, _FEATURES_OF_MODEL, _FILTER, _MISSING_TO_SCORE]

to_evaluate = bundled("data", Data, [_data(required=True), *_TO_EVALUATE])

to_plot = bundled("data", Data, [_data(required=False), *_TO_EVALUATE])
