"""The data that a command reads: Parquet files or a Zarr store, and the roles of their columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.options import Option, bad_usage, bundled, split_names

if TYPE_CHECKING:
    from streamgda.source import Source

_ZARR = re.compile(r"\.zarr(/|$)")


@dataclass(frozen=True)
class Data:
    """Where data is, and what is read of it."""

    data: tuple[str, ...]
    features: list[str] | None = None
    missing: str | None = None
    target: str | None = None
    weight: str | None = None

    def labelled(self, known: Sequence[str] | None = None) -> Any:
        """The source of rows with their labels; its features, where not named, are those known."""
        if self._is_zarr:
            return self._zarr(self.target or "y")
        if self.target is None:
            raise bad_usage("Missing option '--target': the column of labels.")
        return self._parquet(self.target, known)

    def unlabelled(self, known: Sequence[str] | None = None) -> Source:
        """The source of rows without labels."""
        return self._zarr(None) if self._is_zarr else self._parquet(None, known)

    @property
    def _is_zarr(self) -> bool:
        return any(_ZARR.search(path) for path in self.data)

    def _zarr(self, target: str | None) -> Source:
        from streamgda import scan_zarr

        if len(self.data) > 1:
            raise bad_usage("A Zarr store is read alone.")
        if self.features and len(self.features) > 1:
            raise bad_usage("Of a Zarr store, --features names the one array of rows.")
        (array,) = self.features or ["X"]
        return scan_zarr(self.data[0], target, features=array, **self._options())

    def _parquet(self, target: str | None, known: Sequence[str] | None) -> Source:
        from streamgda import scan_parquet

        path = self.data[0] if len(self.data) == 1 else self.data  # one folder may have partitions
        features = self.features or (None if known is None else list(known))
        return scan_parquet(path, target, features=features, **self._options())

    def _options(self) -> dict[str, Any]:
        """What both kinds have in common. Rows that are judged by what they have are not refused here."""
        return {"weight": self.weight, "missing": "drop" if self.missing == "drop" else "raise"}


_TARGET = click.option(
    "--target",
    metavar="COLUMN",
    help="The column of labels, or the array of a Zarr store.  [required; Zarr: y]",
)
_WEIGHT = click.option(
    "--weight", metavar="COLUMN", help="A column of sample weights: repetitions of a row.  [default: none]"
)


def _paths(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    if "" in paths:  # as of a variable that is not set; it would stand for the working directory
        raise click.BadParameter("a path is empty.")
    return paths


def _data(*, required: bool) -> Option:
    metavar = "DATA..." if required else "[DATA]..."
    return click.argument("data", nargs=-1, required=required, metavar=metavar, callback=_paths)


def _features(what: str, default: str) -> Option:
    text = f"{what}, with commas between them; or the array of rows of a Zarr store.  [default: {default}]"
    return click.option("--features", metavar="A,B,...", callback=split_names, help=text)


_FEATURES_TO_LEARN = _features("The columns to learn from", "all but target and weight; Zarr: X")
_FEATURES_OF_MODEL = _features(
    "The features of the model, in its order", "the columns of these names; Zarr: X"
)

_MISSING = click.option(
    "--missing",
    type=click.Choice(["raise", "drop"]),
    default="raise",
    show_default=True,
    help="What becomes of a null, NaN or infinity: an error that names it, or the row is left out.",
)
_MISSING_TO_JUDGE = click.option(
    "--missing",
    type=click.Choice(["raise", "drop", "marginal"]),
    help="What becomes of a null or NaN: an error that names it, the row is left out, or it is judged by "
    "what it has.  [default: as the model was made, raise]",
)

to_learn = bundled("data", Data, [_data(required=True), _TARGET, _FEATURES_TO_LEARN, _WEIGHT, _MISSING])
to_learn_more = bundled("data", Data, [_data(required=True), _TARGET, _FEATURES_OF_MODEL, _WEIGHT, _MISSING])
to_score = bundled("data", Data, [_data(required=True), _FEATURES_OF_MODEL, _MISSING_TO_JUDGE])
to_judge = bundled(
    "data", Data, [_data(required=True), _TARGET, _FEATURES_OF_MODEL, _WEIGHT, _MISSING_TO_JUDGE]
)
to_draw = bundled(
    "data", Data, [_data(required=False), _TARGET, _FEATURES_OF_MODEL, _WEIGHT, _MISSING_TO_JUDGE]
)
