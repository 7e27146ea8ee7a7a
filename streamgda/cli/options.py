"""Options that several commands share, handed to a command as one object of each kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from streamgda.sources.base import Source
import csv
import functools
import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields

Command = Callable[..., Any]

Option = Callable[[Command], Command]


def bad_usage(message: str) -> click.UsageError:
    """The error of options that do not go together, which points to the help of the command."""
    return click.UsageError(message, click.get_current_context())


def bundled(name: str, kind: type[Any], options: Sequence[Option]) -> Option:
    """Options for a command that takes their values as one dataclass, in the argument `name`."""

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


def some_of(*choices: str) -> Any:
    """The callback of an option that takes some of a few names, with commas between them."""

    def split(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
        names = split_names(context, parameter, value) or []
        for name in names:
            if name not in choices:
                raise click.BadParameter(f"{name!r} is none of {', '.join(choices)}.")
        return names

    return split


def split_names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Names with commas between them; one that holds a comma itself is put in double quotes."""
    if value is None:
        return None
    (names,) = csv.reader([value])
    return names


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

NAMES = {
    "qda": "QuadraticDiscriminantAnalysis",
    "lda": "LinearDiscriminantAnalysis",
    "nb": "GaussianNB",
}


@dataclass(frozen=True)
class ModelOptions:
    """A kind of model and its parameters; those that are not given are those of the library."""

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
        """Refuse parameters that the model does not take, and those that are given without a model."""
        taken = inspect.signature(self.kind).parameters if self.model else ()
        for name in self.params:
            if name not in taken:
                option = "--" + name.replace("_", "-")
                if self.model:
                    raise bad_usage(f"{option} is none of the parameters of --model {self.model}.")
                raise bad_usage(f"{option} is a parameter of a model: choose one with --model.")

    @property
    def kind(self) -> Any:
        """The class of the estimator."""
        import streamgda

        return getattr(streamgda, NAMES[self.model or "qda"])

    def build(self, statistics: Any) -> Any:
        """The model that statistics make."""
        return self.kind.from_statistics(statistics, **self.params)


def _priors(context: click.Context, parameter: click.Parameter, value: str | None) -> list[float] | None:
    """Probabilities that sum to 1; seen to here, since the library sees them when all the data is read."""
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


def model_options(*, default: str | None) -> Option:
    """The options of the argument ``wanted``."""
    return bundled(
        "wanted",
        ModelOptions,
        [
            click.option(
                "--model",
                type=click.Choice(list(NAMES)),
                default=default,
                show_default=True,
                help="Quadratic or linear discriminant analysis, or Gaussian naive Bayes.",
            ),
            click.option(
                "--shrinkage",
                metavar="auto|oas|SHARE",
                callback=_shrinkage,
                help="qda, lda: how far covariances are pulled towards a multiple of the identity.  "
                "[default: not]",
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
        ],
    )
