"""Exchange of fitted models with scikit-learn: checks and parameters. A `peer` is one of its estimators."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

from sklearn.utils.validation import check_is_fitted

from streamgda.data.blocks.wording import listed
from streamgda.models.estimators.learning import StatisticsLearner


def describe(peer: Any, model: StatisticsLearner, fitted: Iterable[str] = ()) -> Any:
    """Copy classes, features and these fitted attributes of a model to a peer, and return the peer."""
    for name in ("classes_", "n_features_in_", "feature_names_in_", *fitted):
        if hasattr(model, name):
            setattr(peer, name, copy(getattr(model, name)))
    return peer


def shrinkage_for_peer(shrinkage: Any, covariance_estimator: Any) -> dict[str, Any]:
    """The parameters of a peer that regularise covariances as these do here."""
    if shrinkage == "oas":
        from sklearn.covariance import OAS  # which takes a tenth of a second to import

        return {"shrinkage": None, "covariance_estimator": OAS()}
    return {"shrinkage": shrinkage, "covariance_estimator": covariance_estimator}


def check_plugin(model: Any) -> None:
    """Raise ValueError for Student t densities or tables of categories, which scikit-learn does not have.

    A model that is not fitted raises NotFittedError.
    """
    check_is_fitted(model)
    if model.predictive != "plugin":
        raise ValueError(f"scikit-learn has no {model.predictive} densities; set predictive='plugin'")
    schema = model.statistics_.schema
    if not schema.is_normal_for(model):
        raise ValueError(
            f"scikit-learn has no model of numbers together with {listed(schema.encoded)}; "
            "LinearDiscriminantAnalysis() makes features of 0 and 1 of these"
        )


def check_has_peer(model: Any) -> None:
    """Raise ValueError for a model of Student t densities, or with a temperature: no peer has either."""
    check_plugin(model)
    if model.temperature != 1.0:
        raise ValueError(
            "scikit-learn has no temperature; set temperature=1. LinearDiscriminantAnalysis keeps it in its "
            "coefficients"
        )
