"""Posterior probabilities and log-odds from scores ln p(x, k): one row per x, one column per class k."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MANY_CLASSES = 64  # from here on, scores of a row are fastest side by side
_VALUES_AT_ONCE = 1 << 17  # 1 MB; with fewer, threads wait for each other in Python
_FEW_LARGEST = 5  # up to so many are found one by one; from there on, sorting takes less time
_LEAST_LOG = -707.0  # below -708 exp is subnormal, and NumPy takes up to a hundred times as long
_LEAST_EXP = float(np.exp(_LEAST_LOG))
_LOG_OF_ZERO = -746.0  # exp of this is 0
_TO_INFINITY = np.errstate(over="ignore")  # where a difference of scores exceeds float64
_LEAST_SUM = 1e-290  # below this, terms may be subnormal and lose digits


def order_of(n_classes: int) -> Literal["C", "F"]:
    """The order in memory in which scores of rows are fastest: class by class if there are few classes."""
    return "C" if n_classes >= _MANY_CLASSES else "F"


def log_evidence(scores: Array) -> Array:
    """Ln p(x) = ln Σ p(x, k) of each row: (n,)."""
    with np.errstate(invalid="ignore"):  # all scores of a row may be -inf
        evidence: Array = np.logaddexp.reduce(scores, axis=1)
    return evidence


@_TO_INFINITY
def tempered(scores: Array, temperature: float) -> Array:
    """The scores of posteriors p(k | x) ∝ p(x, k)^(1 / temperature), up to a term for each row: (n, K).

    Above 1, probabilities are less sure. The order of the scores of a row stays.
    """
    gaps: Array = scores - scores.max(axis=1, keepdims=True)
    return gaps / temperature


@_TO_INFINITY
def log_posteriors(scores: Array) -> Array:
    """Ln p(k | x): (n, K).

    The largest score of each row is subtracted first. Added to a large score, the terms of the other classes
    would lose their digits.
    """
    gaps = scores - scores.max(axis=1, keepdims=True)
    log_probabilities: Array = gaps - log_evidence(gaps)[:, None]
    return log_probabilities


def posteriors(scores: Array) -> Array:
    """The posterior probabilities p(k | x): (n, K)."""
    probabilities = np.empty_like(scores)
    write_posteriors(scores, probabilities)
    return probabilities


@np.errstate(over="ignore", invalid="ignore")  # a row may have no finite score
def write_posteriors(scores: Array, out: Array, temperature: float = 1.0) -> bool:
    """Write the posteriors of scores / temperature to `out` (n, K), which may be the scores.

    Return whether each row has a finite score. The posteriors of a row without one are NaN.
    """
    step, are_numbers = max(1, _VALUES_AT_ONCE // scores.shape[1]), True
    for start in range(0, len(scores), step):
        some = slice(start, start + step)
        gaps = scores[some] - scores[some].max(axis=1, keepdims=True)
        if temperature != 1.0:
            gaps /= temperature
        least = gaps.min()
        are_numbers &= not np.isnan(least)
        ratios = _exponentials(gaps, least)
        np.divide(ratios, _sums_over_classes(ratios)[:, None], out=out[some])
    return are_numbers


def _exponentials(logs: Array, least: np.float64) -> Array:
    """Exponentials, as of NumPy. Subnormal ones come from a product, which takes a tenth of the time."""
    if least >= _LEAST_LOG:
        return np.exp(logs)
    are_normal = logs >= _LEAST_LOG
    exponentials: Array = np.exp(np.maximum(logs, _LEAST_LOG))
    exponentials *= are_normal
    subnormal = ~are_normal & (logs > _LOG_OF_ZERO)
    flat, positions = exponentials.ravel(order="K"), np.flatnonzero(subnormal.ravel(order="K"))
    flat[positions] = np.exp(logs.ravel(order="K")[positions] - _LEAST_LOG) * _LEAST_EXP
    return exponentials


def largest(scores: Array, n: int) -> NDArray[np.intp]:
    """The positions of the `n` largest scores of each row, of equal ones the first first: (n_rows, n)."""
    if n == 1:
        best: NDArray[np.intp] = scores.argmax(axis=1)
        return best[:, None]
    if scores.shape[1] == 2:
        best = scores.argmax(axis=1)
        return np.column_stack([best, 1 - best])
    if n <= _FEW_LARGEST:
        rows, rest = np.arange(len(scores)), scores.copy(order="K")
        positions: NDArray[np.intp] = np.empty((len(scores), n), np.intp)
        for j in range(n):
            positions[:, j] = rest.argmax(axis=1)
            if (rest[rows, positions[:, j]] == -np.inf).any():
                break  # which may be one that was found before
            rest[rows, positions[:, j]] = -np.inf
        else:
            return positions
    least = np.partition(scores, -n, axis=1)[:, [-n]]
    rows, columns = np.nonzero(~(scores < least))
    order = np.lexsort((columns, -scores[rows, columns], rows))
    firsts = np.searchsorted(rows, np.arange(len(scores)))
    return np.asarray(columns[order[firsts[:, None] + np.arange(n)]])


@_TO_INFINITY
def decisions(scores: Array) -> Array:
    """The scores (n, K); for two classes the log-odds of the second, (n,), as in scikit-learn."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


@_TO_INFINITY
def posteriors_and_odds(
    scores: Array, truth: NDArray[np.intp], best: NDArray[np.intp] | None = None
) -> tuple[Array, Array, Array]:
    """Posteriors, log-odds, and the log posterior of the true class.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        ln p(x, k), up to a constant for each row.
    truth : ndarray of int of shape (n,)
        The position of the true class of each row.
    best : ndarray of int of shape (n,), optional
        The position of the largest score of each row, where it is known.

    Returns
    -------
    probabilities : ndarray of shape (n, K)
        p(k | x).
    log_odds : ndarray of shape (n, K)
        ln p(k | x) / (1 − p(k | x)). For the most likely class, 1 − p is summed over the other classes,
        since the difference would cancel.
    log_probability : ndarray of shape (n,)
        ln p(true class | x).
    """
    rows, best = np.arange(len(scores)), scores.argmax(axis=1) if best is None else best
    gaps = scores - scores[rows, best][:, None]
    ratios = _exponentials(gaps, gaps.min())
    total = _sums_over_classes(ratios)
    log_odds = gaps - np.log(np.maximum(total[:, None] - ratios, 0.5))
    log_probability = gaps[rows, truth] - np.log(total)
    probabilities = ratios / total[:, None]
    gaps[rows, best], ratios[rows, best] = -np.inf, 0.0
    log_odds[rows, best] = -_log_sums(gaps, ratios)
    return probabilities, log_odds, log_probability


def _log_sums(logs: Array, values: Array) -> Array:
    """Ln Σ exp(logs) of each row, where values = exp(logs); accurate also if these underflow."""
    sums = _sums_over_classes(values)
    with np.errstate(divide="ignore"):
        log_sums: Array = np.log(sums)
    underflown = np.flatnonzero(sums < _LEAST_SUM)
    largest = logs[underflown].max(axis=1)
    log_sums[underflown] = largest
    finite = np.isfinite(largest)
    underflown, largest = underflown[finite], largest[finite]
    log_sums[underflown] += np.log(np.exp(logs[underflown] - largest[:, None]).sum(axis=1))
    return log_sums


def _sums_over_classes(values: Array) -> Array:
    """The sum of each row, with the same bits for any number of rows and either order in memory.

    NumPy adds up a row class by class or pairwise, depending on the order in memory, and a single row always
    pairwise. Here few classes are added class by class, and many pairwise.
    """
    if values.shape[1] >= _MANY_CLASSES:
        pairwise: Array = np.ascontiguousarray(values).sum(axis=1)
        return pairwise
    if len(values) == 1:
        return values.cumsum(axis=1)[:, -1]
    sums: Array = np.asfortranarray(values).sum(axis=1)
    return sums
