"""Options that several commands share: the data to read, and the model to make.

A command takes the options of one kind together, as the argument `data` or `model`.
"""

from __future__ import annotations

import csv
import functools
import inspect
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from streamgda.estimators import ESTIMATORS

if TYPE_CHECKING:
    from streamgda.estimators.classifier import GaussianClassifier
    from streamgda.sources.base import Source
    from streamgda.statistics.base import Statistics

Command = Callable[..., Any]

Option = Callable[[Command], Command]

MODELS = {entry.option: name for name, entry in ESTIMATORS.items()}
"""The estimator for each value of ``--model``."""


def bad_usage(message: str) -> click.UsageError:
    """The error for options that do not go together; it points to the help of the command."""
    return click.UsageError(message, click.get_current_context())


def bundled(name: str, kind: type[Any], options: Sequence[Option]) -> Option:
    """Add options to a command, which takes their values as one dataclass in the argument `name`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_bundle(**values: Any) -> Any:
            own = {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}
            return command(**values, **{name: kind(**own)})

        decorated: Command = with_bundle
        for option in reversed(options):  # click lists last what decorates first
            decorated = option(decorated)
        return decorated

    return decorate


# ---------------------------------------------------------------------- the values of options


def split_names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Split names at commas; a name that holds a comma is put in double quotes."""
    if value is None:
        return None
    (names,) = csv.reader([value])
    return names


def some_of(*choices: str) -> Any:
    """The callback of an option that takes some of a few names, with commas between them."""

    def split(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
        names = split_names(context, parameter, value) or []
        for name in names:
            if name not in choices:
                raise click.BadParameter(f"{name!r} is none of {', '.join(choices)}.")
        return names

    return split


def _paths(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    if "" in paths:  # a shell variable that is not set; it would mean the working directory
        raise click.BadParameter("a path is empty.")
    return paths


def _priors(context: click.Context, parameter: click.Parameter, value: str | None) -> list[float] | None:
    """Probabilities that sum to 1, checked here because the library checks them after the data is read."""
    if value is None:
        return None
    try:
        priors = [float(prior) for prior in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of numbers with commas between them.") from None
    if min(priors) < 0 or not math.isclose(sum(priors), 1, rel_tol=1e-6):
        raise click.BadParameter(f"{value!r} does not sum to 1, or a number is negative.")
    return priors


def _shrinkage(context: click.Context, parameter: click.Parameter, value: str | None) -> str | float | None:
    if value is None or value in ("auto", "oas"):
        return value
    with suppress(ValueError):
        if 0 <= float(value) <= 1:
            return float(value)
    raise click.BadParameter(f"{value!r} is none of auto, oas and a number from 0 to 1.")


# ---------------------------------------------------------------------- data

_ZARR = re.compile(r"\.zarr(/|$)")


@dataclass(frozen=True)
class Data:
    """The paths of the data, and the columns to read."""

    data: tuple[str, ...]
    features: list[str] | None = None
    missing: str | None = None
    target: str | None = None
    weight: str | None = None

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
        if self.features and len(self.features) > 1:
            raise bad_usage("Of a Zarr store, --features names the one array of rows.")
        (array,) = self.features or ["X"]
        return scan_zarr(self.data[0], target, features=array, **self._options())

    def _parquet(self, target: str | None, model_features: Sequence[str] | None) -> Source:
        from streamgda import scan_parquet

        path = self.data[0] if len(self.data) == 1 else self.data  # one folder may have partitions
        features = self.features or (None if model_features is None else list(model_features))
        return scan_parquet(path, target, features=features, **self._options())

    def _options(self) -> dict[str, Any]:
        """The options of both kinds of source. With ``--missing marginal`` the model takes such rows."""
        return {"weight": self.weight, "missing": "drop" if self.missing == "drop" else "raise"}


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
    type=click.Choice(["raise", "drop"]),
    default="raise",
    show_default=True,
    help="A row with a null, NaN or infinity is an error that names it, or is left out.",
)

_MISSING_TO_SCORE = click.option(
    "--missing",
    type=click.Choice(["raise", "drop", "marginal"]),
    help="A row with a null or NaN is an error that names it, is left out, or is judged by the features "
    "that it has.  [default: as the model was made, raise]",
)

to_learn = bundled("data", Data, [_data(required=True), _TARGET, _FEATURES_TO_LEARN, _WEIGHT, _MISSING])

to_learn_more = bundled("data", Data, [_data(required=True), _TARGET, _FEATURES_OF_MODEL, _WEIGHT, _MISSING])

to_predict = bundled("data", Data, [_data(required=True), _FEATURES_OF_MODEL, _MISSING_TO_SCORE])

to_evaluate = bundled(
    "data", Data, [_data(required=True), _TARGET, _FEATURES_OF_MODEL, _WEIGHT, _MISSING_TO_SCORE]
)

to_plot = bundled(
    "data", Data, [_data(required=False), _TARGET, _FEATURES_OF_MODEL, _WEIGHT, _MISSING_TO_SCORE]
)


# ---------------------------------------------------------------------- models


@dataclass(frozen=True)
class ModelOptions:
    """The kind of a model and its parameters; the others have the library's defaults."""

    model: str | None
    priors: list[float] | None
    shrinkage: float | str | None
    reg_param: float | None
    var_smoothing: float | None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that are given."""
        return {name: value for name, value in vars(self).items() if name != "model" and value is not None}

    def check(self) -> None:
        """Raise UsageError for parameters that the model does not take, or that are given without one."""
        taken = inspect.signature(self.kind).parameters if self.model else ()
        for name in self.params:
            if name not in taken:
                option = "--" + name.replace("_", "-")
                if self.model:
                    raise bad_usage(f"{option} is none of the parameters of --model {self.model}.")
                raise bad_usage(f"{option} is a parameter of a model: choose one with --model.")

    @property
    def kind(self) -> type[GaussianClassifier[Any]]:
        """The class of the estimator."""
        import streamgda

        kind: type[GaussianClassifier[Any]] = getattr(streamgda, MODELS[self.model or "qda"])
        return kind

    def build(self, statistics: Statistics) -> GaussianClassifier[Any]:
        """Make the model from statistics."""
        return self.kind.from_statistics(statistics, **self.params)


def model_options(*, default: str | None) -> Option:
    """The options of the argument `model`."""
    return bundled(
        "model",
        ModelOptions,
        [
            click.option(
                "--model",
                type=click.Choice(list(MODELS)),
                default=default,
                show_default=True,
                help="Quadratic or linear discriminant analysis, or Gaussian naive Bayes.",
            ),
            *_PARAMETERS,
        ],
    )


_PARAMETERS = [
    click.option(
        "--shrinkage",
        metavar="auto|oas|SHARE",
        callback=_shrinkage,
        help="qda, lda: how far covariances are pulled towards a multiple of the identity.  [default: not]",
    ),
    click.option(
        "--reg-param",
        type=click.FloatRange(0, 1),
        help="qda: the share of the identity in each covariance.  [default: 0]",
    ),
    click.option(
        "--var-smoothing",
        type=click.FloatRange(0),
        help="nb: the share of the largest variance that is added to all.  [default: 1e-9]",
    ),
    click.option(
        "--priors",
        metavar="P,Q,...",
        callback=_priors,
        help="Prior probabilities of the classes in the order of their labels.  "
        "[default: their shares in the data]",
    ),
]
