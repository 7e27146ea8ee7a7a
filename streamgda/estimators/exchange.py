"""What an estimator of scikit-learn's must hold to be taken over."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.covariance import OAS
from sklearn.utils.validation import check_is_fitted

from streamgda.statistics.covariances import Array


def check_kind(peer: Any, kind: type) -> None:
    """Refuse an estimator of another kind, with a TypeError, and one that is not fitted."""
    if not isinstance(peer, kind):
        raise TypeError(f"a fitted {kind.__module__.split('._')[0]}.{kind.__name__} is needed; got {peer!r}")
    check_is_fitted(peer)


def class_counts(peer: Any, class_count: ArrayLike | None) -> Array:
    """How many rows of each class a peer of scikit-learn's has seen, which most of them do not know.

    Raises
    ------
    ValueError
        If it is not known, or cannot be.
    """
    if class_count is None:
        raise ValueError(
            f"scikit-learn's {type(peer).__name__} does not keep how many rows it has seen; give "
            "class_count, such as numpy.unique(y, return_counts=True)[1]"
        )
    counts = np.asarray(class_count, dtype=np.float64)
    if counts.shape != (len(peer.classes_),):
        raise ValueError(f"class_count must have {len(peer.classes_)} entries; got shape {counts.shape}")
    return counts


def shrinkage_for_peer(shrinkage: Any) -> dict[str, Any]:
    """The parameters that shrink covariances in scikit-learn's estimators as `shrinkage` does here."""
    if shrinkage == "oas":
        return {"shrinkage": None, "covariance_estimator": OAS()}
    return {"shrinkage": shrinkage, "covariance_estimator": None}


def check_not_shrunk(peer: Any, *, more: bool = False) -> None:
    """Refuse an estimator whose covariances are no longer those of the rows."""
    if peer.shrinkage not in (None, 0) or peer.covariance_estimator is not None or more:
        raise ValueError(
            f"the covariances of {peer!r} are regularised, so those of the rows are not known; fit it without"
        )
