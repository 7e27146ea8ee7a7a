"""The options that say which model is made."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.options import Number, Option, bad_usage, bundled
from streamgda.estimators import ESTIMATORS

if TYPE_CHECKING:
    from streamgda.estimators.classifier import GaussianClassifier
    from streamgda.statistics.base import Statistics

MODELS = {entry.option: name for name, entry in ESTIMATORS.items()}
"""The estimator for each value of ``--model``."""

_DEFAULT = "qda"


@dataclass(frozen=True)
class ModelOptions:
    """The kind of a model and its parameters; the others have the library's defaults."""

    model: str | None
    priors: list[float] | None
    shrinkage: float | str | None
    reg_param: float | None
    var_smoothing: float | None
    singular: str | None
    covariance_model: str | None
    pooling: float | str | None
    predictive: str | None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that are given."""
        return {name: value for name, value in vars(self).items() if name != "model" and value is not None}

    def or_default(self) -> ModelOptions:
        """The same, of the default kind where none is named."""
        return replace(self, model=self.model or _DEFAULT)

    def check(self) -> None:
        """Raise UsageError for parameters that the model does not take, or that are given without one."""
        taken = inspect.signature(self.kind).parameters if self.model else ()
        for name in self.params:
            if name not in taken:
                option = "--" + name.replace("_", "-")
                if self.model:
                    raise bad_usage(f"{option} is none of the parameters of --model {self.model}.")
                raise bad_usage(f"{option} is a parameter of a model: choose one with --model.")
        if self.pooling and isinstance(self.shrinkage, str):
            raise bad_usage("With --pooling, --shrinkage is a number.")

    @property
    def kind(self) -> type[GaussianClassifier[Any]]:
        """The class of the estimator."""
        import streamgda

        kind: type[GaussianClassifier[Any]] = getattr(streamgda, MODELS[self.model or _DEFAULT])
        return kind

    @property
    def remedy(self) -> str:
        """Options with which any statistics make a model of this kind."""
        if self.priors:
            return "--priors ..."
        remedies = {"qda": "--reg-param 0.01", "nb": "--var-smoothing 1e-9", "edda": "--covariance-model EII"}
        return remedies.get(self.model or "", "--priors ...")

    def build(self, statistics: Statistics, missing: str | None = None) -> GaussianClassifier[Any]:
        """Make the model from statistics; if `missing` is "marginal", it predicts incomplete rows too."""
        params = {"missing": missing, **self.params} if missing == "marginal" else self.params
        return self.kind.from_statistics(statistics, **params)


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


def _share_or(*names: str) -> Callable[[click.Context, click.Parameter, str | None], str | float | None]:
    """The callback of an option that takes one of a few names, or a share."""

    def share(context: click.Context, parameter: click.Parameter, value: str | None) -> str | float | None:
        if value is None or value in names:
            return value
        with suppress(ValueError):
            if 0 <= float(value) <= 1:
                return float(value)
        raise click.BadParameter(f"{value!r} is none of {', '.join(names)} and a number from 0 to 1.")

    return share


def _covariance_model(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A model of the covariances, checked here so that a mistyped one costs no read."""
    from streamgda.gaussians.parsimonious import models

    names = ("bic", *models.MODELS)
    if value is None or value in names:
        return value
    raise click.BadParameter(f"{value!r} is none of {', '.join(names)}.")


def model_options(*, otherwise: str, default: str | None = None) -> Option:
    """The options of the argument `model`; the help says what holds otherwise."""
    return bundled(
        "model",
        ModelOptions,
        [
            click.option(
                "--model",
                type=click.Choice(list(MODELS)),
                default=default,
                help="Quadratic or linear discriminant analysis, Gaussian naive Bayes, or the best of "
                "fourteen models of the covariances.  "
                f"[default: {otherwise}]",
            ),
            *_PARAMETERS,
        ],
    )


_PARAMETERS = [
    click.option(
        "--shrinkage",
        metavar="auto|oas|SHARE",
        callback=_share_or("auto", "oas"),
        help="qda, lda: how far covariances are pulled towards a multiple of the identity.  [default: not]",
    ),
    click.option(
        "--pooling",
        metavar="bayes|SHARE",
        callback=_share_or("bayes"),
        help="qda, nb: how far classes lean on the pooled covariance; bayes: by how few rows they have.  "
        "[default: not]",
    ),
    click.option(
        "--predictive",
        type=click.Choice(["plugin", "student"]),
        help="qda, lda, nb: score rows by normal densities, or by Student t ones, which allow for the rows "
        "that they were learnt from.  [default: plugin]",
    ),
    click.option(
        "--reg-param",
        type=Number(0, 1),
        help="qda: the share of the identity in each covariance.  [default: 0]",
    ),
    click.option(
        "--singular",
        type=click.Choice(["raise", "skip"]),
        help="qda: a class with a singular covariance is an error, or is never predicted.  [default: raise]",
    ),
    click.option(
        "--var-smoothing",
        type=Number(0),
        help="nb: the share of the largest variance that is added to all.  [default: 1e-9]",
    ),
    click.option(
        "--covariance-model",
        metavar="bic|NAME",
        callback=_covariance_model,
        help="edda: what the covariances of the classes have in common, such as VEV, or bic for "
        "the best.  "
        "[default: bic]",
    ),
    click.option(
        "--priors",
        metavar="P,Q,...",
        callback=_priors,
        help="Prior probabilities of the classes in the order of their labels.  "
        "[default: their shares in the data]",
    ),
]
