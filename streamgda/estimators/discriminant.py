"""What linear and quadratic discriminant analysis have in common: parameters, priors and means."""

from __future__ import annotations

from math import sqrt
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from streamgda.estimators.classifier import G, finalised
from streamgda.estimators.generative import GenerativeClassifier
from streamgda.estimators.likelihood import BayesianCriterion
from streamgda.estimators.shrinkage import Shrinkage
from streamgda.statistics.covariances import Array


class DiscriminantAnalysis(BayesianCriterion[G], GenerativeClassifier[G]):
    """A discriminant analysis with the parameters and fitted attributes of scikit-learn's."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GenerativeClassifier._parameter_constraints,
        "shrinkage": [StrOptions({"auto", "oas"}), Interval(Real, 0, 1, closed="both"), None],
        "store_covariance": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "covariance_estimator": [None],
    }

    solver: str
    shrinkage: Shrinkage
    store_covariance: bool
    tol: float
    covariance_estimator: Any

    @property
    def _least_eigenvalue(self) -> float:
        """The eigenvalue of a correlation matrix up to which a direction counts as singular.

        `tol` bounds singular values of standardised rows, whose squares are these eigenvalues.
        """
        return float(self.tol) ** 2

    @property
    def priors_(self) -> Array:
        """Prior probabilities of the classes."""
        return finalised(self).priors.copy()

    @property
    def means_(self) -> Array:
        """Means of the classes."""
        return self.statistics_.means

    @classmethod
    def _upgraded(cls, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a saved model; before there were solvers, `tol` bounded eigenvalues."""
        if "solver" in params:
            return params
        before = {"solver": "eigen", "store_covariance": True}
        return {**params, **before, "tol": sqrt(params.get("tol", 1e-10))}
