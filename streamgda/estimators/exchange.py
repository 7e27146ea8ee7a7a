"""Exchange of fitted models with scikit-learn: checks and parameters. A `peer` is one of its estimators."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from streamgda.blocks.wording import listed
from streamgda.estimators.learning import StatisticsLearner
from streamgda.estimators.priors import ClassCounts
from streamgda.statistics.covariances import Array
from streamgda.statistics.floating.state import ClassStatistics

L = TypeVar("L", bound=StatisticsLearner)


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


def class_counts(peer: Any, kind: type[Any], class_count: ClassCounts) -> Array:
    """The number of rows of each class that a peer of this kind was fitted to.

    If `class_count` is None, these are the counts that the peer keeps, as few peers do.

    Raises
    ------
    TypeError
        If the peer is of another class.
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    ValueError
        If there are no counts, not one for each class, or not with the shares that the peer saw.
    KeyError
        If the counts are by label, and lack a class.
    """
    if not isinstance(peer, kind):
        raise TypeError(f"a fitted {kind.__module__.split('._')[0]}.{kind.__name__} is needed; got {peer!r}")
    check_is_fitted(peer)
    if class_count is None:
        class_count = getattr(peer, "class_count_", None)
    if class_count is None:
        raise ValueError(
            f"scikit-learn's {type(peer).__name__} does not keep how many rows it has seen; give "
            "class_count, such as numpy.unique(y, return_counts=True)[1]"
        )
    classes = peer.classes_.tolist()
    values: Any = class_count
    if hasattr(values, "keys"):
        by_label = dict(values)
        values = [by_label[label] for label in classes]
    counts = np.asarray(values, dtype=np.float64)
    if counts.shape != (len(classes),):
        raise ValueError(f"class_count must have shape ({len(classes)},); got shape {counts.shape}")
    shares = peer.class_prior_ if hasattr(peer, "class_prior_") else peer.priors_
    if peer.priors is None and not np.allclose(counts / counts.sum(), shares):
        raise ValueError(
            f"class_count {counts.tolist()} does not have the shares of the classes that the estimator saw, "
            f"{np.round(shares, 4).tolist()}; give counts in the order of classes_, or by label, as a dict"
        )
    return counts


def check_not_shrunk(peer: Any) -> None:
    """Raise ValueError if the covariances of the rows cannot be recovered from a peer's regularised ones."""
    fully_regularised = getattr(peer, "reg_param", 0) == 1 and peer.solver == "svd"
    if peer.shrinkage not in (None, 0) or peer.covariance_estimator is not None or fully_regularised:
        raise ValueError(
            f"the covariances of {peer!r} are regularised, so those of the rows are not known; fit it without"
        )


def from_moments(
    kind: type[L], peer: Any, classes: Any, counts: Any, means: Array, scatter: Array, **params: Any
) -> L:
    """A model with these moments of a peer, and with its feature names."""
    statistics = ClassStatistics.from_moments(
        classes,
        np.maximum(np.rint(counts), 1),
        means,
        scatter,
        weights=counts,
        covariance_type=kind._covariance_type,
        feature_names=getattr(peer, "feature_names_in_", None),
    )
    return kind.from_statistics(statistics, **params)
