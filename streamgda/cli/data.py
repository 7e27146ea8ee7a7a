"""The options that say which data is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.running import Option, bad_usage, bundled, literal, of_library, split_names

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
    categorical: list[str] | None = None

    def without(self, *names: str | None) -> Data:
        """Exclude these columns from the features; with ``--features``, change nothing."""
        if self.features:
            return self
        return replace(self, exclude=[*(self.exclude or ()), *filter(None, names)])

    def labelled(self, learnt: Sequence[str] | None = None, categorical: Iterable[str] = ()) -> Source:
        """The source of rows with labels. Without ``--features`` it reads the columns in `learnt`."""
        if self._is_zarr:
            return self._zarr(self.target or "y")
        if self.target is None:
            raise bad_usage("Missing option '--target': the column of labels.")
        return self._parquet(self.target, learnt, categorical)

    def unlabelled(self, learnt: Sequence[str] | None = None, categorical: Iterable[str] = ()) -> Source:
        """The source of rows without labels. Without ``--features`` it reads the columns in `learnt`."""
        return self._zarr(None) if self._is_zarr else self._parquet(None, learnt, categorical)

    def of_model(self, model: Any, *, labelled: bool = True) -> Source:
        """The source of the rows that a model, or a pipeline that ends in one, is to score."""
        from streamgda.scoring.inference import features_of

        read = self.labelled if labelled else self.unlabelled
        return read(features_of(model), getattr(model, "categories_", ()))

    @property
    def _is_zarr(self) -> bool:
        return any(_ZARR.search(path) for path in self.data)

    def _zarr(self, target: str | None) -> Source:
        from streamgda import scan_zarr

        if len(self.data) > 1:
            raise bad_usage("A Zarr store is read alone.")
        if self.features and len(self.features) > 1:
            raise bad_usage("Of a Zarr store, --features names the one array of rows.")
        for option in ("filters", "exclude", "categorical"):
            if getattr(self, option):
                raise bad_usage(f"--{option.removesuffix('s')} is for Parquet files.")
        (array,) = self.features or ["X"]
        return scan_zarr(self.data[0], target, features=array, **self._kept())

    def _parquet(
        self, target: str | None, learnt: Sequence[str] | None, categorical: Iterable[str]
    ) -> Source:
        from streamgda import scan_parquet

        path = self.data[0] if len(self.data) == 1 else self.data  # one folder may have partitions
        features = self.features or (None if learnt is None else list(learnt))
        options = {**self._kept(), "filters": self.filters, "exclude": self.exclude or ()}
        options["categorical_features"] = self._categorical if learnt is None else list(categorical) or None
        return scan_parquet(path, target, features=features, **options)

    @property
    def _categorical(self) -> list[str] | str | None:
        named = self.categorical or ["from_dtype"]
        return {"from_dtype": "from_dtype", "none": None}.get(named[0], named) if len(named) == 1 else named

    def _kept(self) -> dict[str, Any]:
        """The options of both kinds of source. ``--missing marginal`` keeps rows with missing features."""
        kept = {"marginal": "keep", "drop": "drop"}
        return {"weight": self.weight, "missing": kept.get(self.missing or "", "raise")}


# ---------------------------------------------------------------------- the values of options


def _paths(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    if "" in paths:  # an unset shell variable; an empty path would mean the working directory
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


# ---------------------------------------------------------------------- the options

_SCAN = "streamgda.sources.parquet:scan_parquet"


def _options(options: dict[str, Option], *, required: bool = True) -> Option:
    """The options of the argument `data`."""
    metavar = "DATA..." if required else "[DATA]..."
    data = click.argument("data", nargs=-1, required=required, metavar=metavar, callback=_paths)
    return bundled("data", Data, {"data": data, **options})


def _features(what: str, default: str) -> Option:
    text = f"{what}, with commas between them; or the array of rows of a Zarr store.  [default: {default}]"
    return click.option("--features", metavar="A,B,...", callback=split_names, help=text)


def _missing(what_else: str, **default: Any) -> Option:
    text = f"A row with a null or NaN is an error that names it, is left out, or is {what_else}"
    return click.option("--missing", type=click.Choice(["raise", "drop", "marginal"]), help=text, **default)


_TO_LEARN = _missing(
    "learnt by the features that it has, if features are missing at random.  [default: raise]",
    default="raise",
)

_TO_SCORE = _missing("judged by the features that it has.  [default: as the model was made, raise]")

_FILTER = click.option(
    "--filter",
    "filters",
    metavar="COLUMN>=VALUE",
    multiple=True,
    callback=_filters,
    help="Read only rows for which this holds: =, !=, <, <=, > or >=. Several must all hold. Partitions and "
    "row groups without such rows are not read. A value in quotes is a string.  [default: all rows]",
)

_LABELS: dict[str, Option] = {
    "target": click.option(
        "--target",
        metavar="COLUMN",
        help="The column of labels, or the array of a Zarr store.  [required; Zarr: y]",
    ),
    "weight": of_library(_SCAN, "weight", metavar="COLUMN"),
}

_OF_MODEL: dict[str, Option] = {
    "features": _features("The features of the model, in its order", "the columns of these names; Zarr: X"),
    "filters": _FILTER,
}

to_learn = _options(
    {
        **_LABELS,
        "features": _features(
            "The columns to learn from, by names or patterns such as 'x*'",
            "all but target and weight; Zarr: X",
        ),
        "exclude": of_library(_SCAN, "exclude", sentences=2, metavar="A,B,...", callback=split_names),
        "categorical": click.option(
            "--categorical",
            metavar="A,B,...",
            callback=split_names,
            help="Columns with categories, by names or patterns; from_dtype, for all columns of strings and "
            "dictionaries; or none.  [default: from_dtype]",
        ),
        "filters": _FILTER,
        "missing": _TO_LEARN,
    }
)

to_learn_more = _options({**_LABELS, **_OF_MODEL, "missing": _TO_LEARN})

to_predict = _options({**_OF_MODEL, "missing": _TO_SCORE})

to_evaluate = _options({**_LABELS, **_OF_MODEL, "missing": _TO_SCORE})

to_plot = _options({**_LABELS, **_OF_MODEL, "missing": _TO_SCORE}, required=False)
