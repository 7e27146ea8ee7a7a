"""The empty state, floating or exact."""

from __future__ import annotations

from collections.abc import Sequence

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.exact.state import ExactClassStatistics, check_no_fourth_moments
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.state import MAX_PATTERNS, IncompleteStatistics


def empty_statistics(
    covariance_type: CovarianceType,
    *,
    fourth_moments: bool = False,
    exact: bool = False,
    incomplete: bool = False,
    max_patterns: int = MAX_PATTERNS,
    feature_names: Sequence[str] | None = None,
) -> Statistics:
    """The state that has seen no rows.

    Parameters
    ----------
    covariance_type, fourth_moments, feature_names
        As for `ClassStatistics`.
    exact : bool, default=False
        Whether sums are to be exact, as those of `ExactClassStatistics`.
    incomplete : bool, default=False
        Whether rows may lack features, as those of `IncompleteStatistics`, which has `max_patterns`.

    Raises
    ------
    ValueError
        If there is no such kind: exact sums come without fourth moments.
    """
    if incomplete:
        return IncompleteStatistics(
            covariance_type,
            exact=exact,
            max_patterns=max_patterns,
            feature_names=feature_names,
            fourth_moments=fourth_moments,
        )
    if not exact:
        return ClassStatistics(covariance_type, fourth_moments=fourth_moments, feature_names=feature_names)
    check_no_fourth_moments(fourth_moments)
    return ExactClassStatistics(covariance_type, feature_names=feature_names)
