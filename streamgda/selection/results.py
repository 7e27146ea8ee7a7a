"""The table of a search, with the keys of scikit-learn's `GridSearchCV`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from streamgda.statistics.covariances import Array

Results = dict[str, Any]


def results_table(
    params: Sequence[Mapping[str, Any]],
    times: Mapping[str, Array],
    errors: Sequence[str],
) -> Results:
    """The columns of `cv_results_` without the scores.

    Parameters
    ----------
    params : sequence of dict
        The parameters of each candidate.
    times : dict of str to ndarray of shape (n_candidates, n_splits)
        Seconds, by the name of the step, such as fitting.
    errors : sequence of str
        Why a candidate has no score; "" if it has a score.
    """
    table: Results = {}
    for name, seconds in times.items():
        table |= {f"mean_{name}": seconds.mean(axis=1), f"std_{name}": seconds.std(axis=1)}
    table |= _columns_of_params(params)
    table["params"] = [dict(chosen) for chosen in params]
    table["fit_error"] = np.array(errors, dtype=object)
    return table


def splits_table(name: str, scores: Array) -> Results:
    """The scores (n_candidates, n_splits) of each split, with their means, deviations and ranks."""
    table: Results = {f"split{i}_test_{name}": column for i, column in enumerate(scores.T)}
    with np.errstate(invalid="ignore"):
        return table | scores_table(name, scores.mean(axis=1), scores.std(axis=1))


def scores_table(name: str, means: Array, deviations: Array) -> Results:
    """The means, deviations and ranks of the scores of candidates."""
    return {
        f"mean_test_{name}": means,
        f"std_test_{name}": deviations,
        f"rank_test_{name}": _ranks(means),
    }


def _ranks(means: Array) -> NDArray[np.int32]:
    """The ranks: 1 is the best, and candidates without a score come last."""
    known = ~np.isnan(means)
    lowest = np.nanmin(means) - 1 if known.any() else 0.0
    ranks: NDArray[np.int32] = rankdata(-np.where(known, means, lowest), method="min").astype(np.int32)
    return ranks


def _columns_of_params(params: Sequence[Mapping[str, Any]]) -> Results:
    """A masked array for each parameter. Candidates without the parameter are masked."""
    held: dict[str, dict[int, Any]] = defaultdict(dict)
    for i, chosen in enumerate(params):
        for name, value in chosen.items():
            held[f"param_{name}"][i] = value
    return {name: _masked(values, len(params)) for name, values in held.items()}


def _masked(values: Mapping[int, Any], n: int) -> Any:
    kinds = {type(value) for value in values.values()}
    dtype = kinds.pop() if len(kinds) == 1 and kinds <= {bool, int, float} else object
    column: Any = np.ma.MaskedArray(np.empty(n, dtype=dtype), mask=True)
    for i, value in values.items():
        column[i] = value
    return column
