"""What becomes of ln p(x, k), one row for each x and one column for each class k."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def log_evidence(scores: Array) -> Array:
    """Ln p(x) = ln Σ p(x, k) of each row: (n,)."""
    evidence: Array = np.logaddexp.reduce(scores, axis=1)
    return evidence


def log_posteriors(scores: Array) -> Array:
    """Ln p(k | x): (n, K).

    The largest score is taken off first: beside it, what the others add would lose its digits.
    """
    contrasts = scores - scores.max(axis=1, keepdims=True)
    log_shares: Array = contrasts - log_evidence(contrasts)[:, None]
    return log_shares


def posteriors(scores: Array) -> Array:
    """The posterior p(k | x): (n, K)."""
    shares: Array = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def decisions(scores: Array) -> Array:
    """The scores (n, K); for two classes the log-odds of the second, (n,), as scikit-learn has it."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
