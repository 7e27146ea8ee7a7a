"""The model that a command makes, as its options say; and what it is saved in."""

from __future__ import annotations

import inspect
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from streamgda.cli.options import Option, bad_usage, bundled

NAMES = {
    "qda": "QuadraticDiscriminantAnalysis",
    "lda": "LinearDiscriminantAnalysis",
    "nb": "GaussianNB",
}


@dataclass(frozen=True)
class Wanted:
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

    def made_of(self, statistics: Any) -> Any:
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
        Wanted,
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
