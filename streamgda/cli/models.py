"""The options that say which model is made; its parameters are those of the estimators."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.errors import describe
from streamgda.cli.running import Option, bad_usage, bundled, documented, of_library
from streamgda.estimators import ESTIMATORS

if TYPE_CHECKING:
    from streamgda.estimators.classifier import GaussianClassifier
    from streamgda.statistics.base import Statistics

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
            if name not in taken:
                option = "--" + name.replace("_", "-")
                if self.model:
                    raise bad_usage(f"{option} is none of the parameters of --model {self.model}.")
                raise bad_usage(f"{option} is a parameter of a model: choose one with --model.")
        if self.params:
            try:
                self.kind(**self.params)._validate_params()
            except ValueError as error:
                raise bad_usage(describe(error)) from error

    @property
    def kind(self) -> type[GaussianClassifier[Any]]:
        """The class of the estimator."""
        import streamgda

        kind: type[GaussianClassifier[Any]] = getattr(streamgda, MODELS[self.model or _DEFAULT])
        return kind

    def build(self, statistics: Statistics, missing: str | None = None) -> GaussianClassifier[Any]:
        """Make the model from statistics; if `missing` is "marginal", it predicts incomplete rows too."""
        params = {"missing": missing, **self.params} if missing == "marginal" else self.params
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
    "n_subclasses": _parameter("n_subclasses"),
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
