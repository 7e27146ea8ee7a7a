"""The options that say which data is read, and which model is made of it."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from streamgda.blocks.options import OPTIONS
from streamgda.cli.errors import describe
from streamgda.cli.running import NAMES, Option, bundled, documented, literal, of_library
from streamgda.estimators import ESTIMATORS, estimator_named

if TYPE_CHECKING:
    from streamgda.estimators.classifier import GaussianClassifier
    from streamgda.sources.base import Source
    from streamgda.sources.encoding import Encoding
    from streamgda.statistics.base import Statistics


Comparison = tuple[str, str, Any]

_ZARR = re.compile(r"\.zarr(/|$)")


@dataclass(frozen=True)
class Data:
    """The paths of the data, and the columns to read."""

    data: tuple[str, ...]
    features: list[str] | None = None
    missing: Any = None
    target: str | None = None
    weight: str | None = None
    filters: list[Comparison] | None = None
    exclude: Sequence[str] | None = None
    categories: list[str] | None = None

    @property
    def of_models(self) -> Any:
        """The value of `missing` for models, to which rows that are left out do not come."""
        return "raise" if self.missing in (None, "drop") else self.missing

    def without(self, *names: str | None) -> Data:
        """Exclude these columns from the features; with ``--features``, change nothing."""
        if self.features:
            return self
        return replace(self, exclude=[*(self.exclude or ()), *filter(None, names)])

    def labelled(self, learnt: Sequence[str] | None = None, encoding: Encoding | None = None) -> Source:
        """The source of rows with labels. Without ``--features`` it reads the columns in `learnt`."""
        if self._is_zarr:
            return self._zarr(self.target or "y")
        if self.target is None:
            raise click.UsageError("Missing option '--target': the column of labels.")
        return self._parquet(self.target, learnt, encoding)

    def unlabelled(self, learnt: Sequence[str] | None = None, encoding: Encoding | None = None) -> Source:
        """The source of rows without labels. Without ``--features`` it reads the columns in `learnt`."""
        return self._zarr(None) if self._is_zarr else self._parquet(None, learnt, encoding)

    def of_model(self, model: Any, *, labelled: bool = True) -> Source:
        """The source of the rows that a model, or a pipeline that ends in one, is to score."""
        from streamgda.scoring.inference import features_of

        read = self.labelled if labelled else self.unlabelled
        statistics = getattr(model, "statistics_", None)  # maps have none
        return read(features_of(model), None if statistics is None else statistics.schema.encoding)

    @property
    def _is_zarr(self) -> bool:
        return any(_ZARR.search(path) for path in self.data)

    def _zarr(self, target: str | None) -> Source:
        from streamgda import scan_zarr

        if len(self.data) > 1:
            raise click.UsageError("A Zarr store is read alone.")
        if self.features and len(self.features) > 1:
            raise click.UsageError("Of a Zarr store, --features names the one array of rows.")
        for option in ("filters", "exclude", "categories"):
            if getattr(self, option):
                name = option.replace("filters", "filter")
                raise click.UsageError(f"--{name} is for Parquet files.")
        (array,) = self.features or ["X"]
        return scan_zarr(self.data[0], target, features=array, **self._kept())

    def _parquet(self, target: str | None, learnt: Sequence[str] | None, encoding: Encoding | None) -> Source:
        from streamgda import scan_parquet

        path = self.data[0] if len(self.data) == 1 else self.data  # one folder may have partitions
        features = self.features or (None if learnt is None else list(learnt))
        options = {**self._kept(), "filters": self.filters, "exclude": self.exclude or ()}
        options["categories"] = self._encoding if learnt is None else encoding
        return scan_parquet(path, target, features=features, **options)

    @property
    def _encoding(self) -> Any:
        from streamgda import Categorical

        names = self.categories or ["auto"]
        if names == ["from_dtype"]:
            raise click.UsageError("--categories from_dtype is now --categories auto.")
        return {"auto": "auto", "none": None}.get(",".join(names), Categorical(names))

    def _kept(self) -> dict[str, Any]:
        """The options of both kinds of source, for which ``--missing`` is a word."""
        word = self.missing if isinstance(self.missing, str) else OPTIONS["missing"].word
        return {"weight": self.weight, "missing": "raise" if self.missing is None else word}


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


def _options(options: dict[str, Option]) -> Option:
    """The options of the argument `data`."""
    data = click.argument("data", nargs=-1, required=True, metavar="DATA...", callback=_paths)
    return bundled("data", Data, {"data": data, **options})


def _features(what: str, default: str) -> Option:
    text = f"{what}, with commas between them; or the array of rows of a Zarr store.  [default: {default}]"
    return click.option("--features", **NAMES, help=text)


def _missing_rows(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """A word, or the option that a word and parameters give, as in ``marginal max_reads=20``."""
    if value is None:
        return None
    word, *params = value.split() or [""]
    entry = OPTIONS["missing"]
    if word not in {"raise", "drop", entry.word} or (params and word != entry.word):
        raise click.BadParameter(f"{value!r} is not one of 'raise', 'drop', {entry.word!r}.")
    if not params:
        return word
    try:
        return entry.kind().with_params(**{n: literal(v) for n, _, v in (p.partition("=") for p in params)})
    except ValueError as error:
        raise click.BadParameter(describe(error)) from error


def _missing(what_else: str, **default: Any) -> Option:
    text = f"A row with a null or NaN is an error that names it, is left out, or is {what_else}"
    return click.option(
        "--missing",
        metavar="[raise|drop|marginal]",
        callback=_missing_rows,
        is_eager=True,  # the candidates of a search, which are checked as an option, have it too
        help=text,
        **default,
    )


_TO_LEARN = _missing(
    "learnt by the features that it has, if features are missing at random; 'marginal max_reads=20' sets a "
    "parameter.  [default: raise]",
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
        "exclude": of_library(_SCAN, "exclude", sentences=2, **NAMES),
        "categories": click.option(
            "--categories",
            **NAMES,
            help="Columns with categories, by names or patterns; auto, for all columns of strings and "
            "dictionaries; or none.  [default: auto]",
        ),
        "filters": _FILTER,
        "missing": _TO_LEARN,
    }
)

to_learn_more = _options({**_LABELS, **_OF_MODEL, "missing": _TO_LEARN})

to_predict = _options({**_OF_MODEL, "missing": _TO_SCORE})

to_evaluate = _options({**_LABELS, **_OF_MODEL, "missing": _TO_SCORE})


# ---------------------------------------------------------------------- which model is made

MODELS = {entry.option: name for name, entry in ESTIMATORS.items()}
"""The estimator for each value of ``--model``."""

_DEFAULT = "qda"


@dataclass(frozen=True)
class ModelOptions:
    """The kind of a model and the parameters that are given; the others have the library's defaults."""

    model: str | None
    params: dict[str, Any]

    @classmethod
    def of(cls, model: str | None, **params: Any) -> ModelOptions:
        """Collect these options. A value of None means that the option is not given."""
        return cls(model, {name: value for name, value in params.items() if value is not None})

    def or_default(self) -> ModelOptions:
        """The same options, with the default kind of model if ``--model`` is not given."""
        return replace(self, model=self.model or _DEFAULT)

    def check(self) -> None:
        """Raise UsageError for parameters that the model does not have, or that lack ``--model``."""
        taken = inspect.signature(self.kind).parameters if self.model else ()
        for name in self.params:
            if name.partition("__")[0] not in taken:
                option = "--" + name.replace("__", "_").replace("_", "-")
                if self.model:
                    raise click.UsageError(f"{option} is none of the parameters of --model {self.model}.")
                raise click.UsageError(f"{option} is a parameter of a model: choose one with --model.")
        if self.params:
            try:
                self.new()._validate_params()
            except ValueError as error:
                raise click.UsageError(describe(error)) from error

    @property
    def kind(self) -> type[GaussianClassifier[Any]]:
        """The class of the estimator."""
        return estimator_named(MODELS[self.model or _DEFAULT])

    def new(self) -> GaussianClassifier[Any]:
        """An estimator with these parameters."""
        estimator: GaussianClassifier[Any] = self.kind().set_params(**self.params)
        return estimator

    def build(self, statistics: Statistics, missing: Any = "raise") -> GaussianClassifier[Any]:
        """Make the model from statistics. Unless `missing` is "raise", the model gets it."""
        params = self.params if missing == "raise" else {"missing": missing, **self.params}
        return self.kind.from_statistics(statistics, **params)


def model_options(*, otherwise: str, default: str | None = None) -> Option:
    """The options of the argument `model`. `otherwise` is the default that the help shows."""
    text = (
        "Quadratic or linear discriminant analysis, Gaussian naive Bayes, the best of fourteen models of the "
        f"covariances, or a mixture for each class.  [default: {otherwise}]"
    )
    model: Option = click.option("--model", type=click.Choice(list(MODELS)), default=default, help=text)
    return bundled("model", ModelOptions.of, {"model": model, **_PARAMETERS})


def _parameter(name: str, **settings: Any) -> Option:
    """The option of a parameter. Its help comes from the first estimator that has this parameter."""
    whole, _, part = name.partition("__")
    if part:
        return of_library(OPTIONS[whole].place, part, name, **settings)
    places = {entry.option: f"{entry.module}:{kind}" for kind, entry in ESTIMATORS.items()}
    having = [option for option, place in places.items() if name in documented(place)]
    return of_library(places[having[0]], name, applies_to=", ".join(having), **settings)


def _priors(context: click.Context, parameter: click.Parameter, value: str | None) -> list[float] | None:
    """Parse the priors and check their sum now. The library checks them only after the data is read."""
    if value is None:
        return None
    try:
        priors = [float(prior) for prior in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of numbers with commas between them.") from None
    if min(priors) < 0 or not math.isclose(sum(priors), 1, rel_tol=1e-6):
        raise click.BadParameter(f"{value!r} does not sum to 1, or a number is negative.")
    return priors


_PARAMETERS: dict[str, Option] = {
    "shrinkage": _parameter("shrinkage", default="not"),
    "pooling": _parameter("pooling", default="not"),
    "predictive": _parameter("predictive", sentences=3),
    "temperature": _parameter("temperature"),
    "reg_param": _parameter("reg_param"),
    "categories__model": _parameter("categories__model", sentences=3, applies_to="lda", default="dummies"),
    "subclasses": click.option(
        "--subclasses",
        "--n-subclasses",
        "subclasses",
        type=click.IntRange(min=1),
        metavar="N",
        help="mda: the number of subclasses of each class.  [default: 3]",
    ),
    "singular": _parameter("singular", sentences=3, default="raise"),
    "var_smoothing": _parameter("var_smoothing"),
    "covariance_model": _parameter(
        "covariance_model",
        metavar="bic|NAME",
        help="edda: what the covariances of the classes have in common, such as VEV, or bic for the best.  "
        "[default: bic]",
    ),
    "priors": click.option(
        "--priors",
        metavar="P,Q,...",
        callback=_priors,
        help="Prior probabilities of the classes in the order of their labels.  "
        "[default: their shares in the data]",
    ),
}
