"""What becomes of ln p(x, k), one row for each x and one column for each class k."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST_SUM = 1e-290  # below, shares lose digits


def log_evidence(scores: Array) -> Array:
    """Ln p(x) = ln Σ p(x, k) of each row: (n,)."""
    with np.errstate(invalid="ignore"):  # of a row that no class reaches
        evidence: Array = np.logaddexp.reduce(scores, axis=1)
    return evidence


def log_posteriors(scores: Array) -> Array:
    """Ln p(k | x): (n, K).

    The largest score is taken off first: beside it, what the others add would lose its digits.
    """
    gaps = scores - scores.max(axis=1, keepdims=True)
    log_shares: Array = gaps - log_evidence(gaps)[:, None]
    return log_shares


def posteriors(scores: Array) -> Array:
    """The posterior p(k | x): (n, K)."""
    shares: Array = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= _sums_over_classes(shares)[:, None]
    return shares


def decisions(scores: Array) -> Array:
    """The scores (n, K); for two classes the log-odds of the second, (n,), as scikit-learn has it."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def posteriors_and_odds(scores: Array, truth: NDArray[np.intp]) -> tuple[Array, Array, Array]:
    """p(k | x), ln p(k | x) / (1 − p(k | x)), both (n, K), and ln p(true class | x), (n,).

    The odds of the likeliest class come from the sum over the others, which does not cancel.
    """
    rows, best = np.arange(len(scores)), scores.argmax(axis=1)
    gaps = scores - scores[rows, best][:, None]
    shares = np.exp(gaps)
    total = _sums_over_classes(shares)
    log_odds = gaps - np.log(np.maximum(total[:, None] - shares, 0.5))
    log_probability = gaps[rows, truth] - np.log(total)
    probabilities = shares / total[:, None]
    gaps[rows, best], shares[rows, best] = -np.inf, 0.0
    log_odds[rows, best] = -_log_sums(gaps, shares)
    return probabilities, log_odds, log_probability


def _log_sums(gaps: Array, shares: Array) -> Array:
    """Ln of the sum of the shares of each row, exp(gaps), also where all of these have become zero."""
    sums = _sums_over_classes(shares)
    lost = np.flatnonzero(sums < _LEAST_SUM)
    with np.errstate(divide="ignore"):
        logs: Array = np.log(sums)
    top = gaps[lost].max(axis=1)
    logs[lost] = top
    some = np.isfinite(top)
    lost, top = lost[some], top[some]
    logs[lost] += np.log(np.exp(gaps[lost] - top[:, None]).sum(axis=1))
    return logs


def _sums_over_classes(shares: Array) -> Array:
    """The sum of each row, added up class by class, also where NumPy would add a single row pairwise."""
    columns = np.asfortranarray(shares if len(shares) > 1 else shares.repeat(2, axis=0))
    sums: Array = columns.sum(axis=1)
    return sums[: len(shares)]
