"""The scores of rows with categories as a few arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgda.gaussians.products import large_mean_tails
from streamgda.statistics.floating.arrays import two_sum


def with_categories(formula: Any, densities: Any) -> Any:
    """The scores of x − c − B z as those of the features (x, z), and what a table of probabilities adds."""
    n_classes, (p, n_dummies) = len(densities.log_tables), (formula.centres.shape[1], len(densities.groups))
    slopes = np.zeros((n_classes, p, n_dummies))
    for k in range(n_classes) if densities.slopes else ():
        slopes[k] = densities.slopes[min(k, len(densities.slopes) - 1)]
    if formula.kind == "linear":
        matrices = np.vstack([formula.matrices, -slopes[0].T @ formula.matrices])
    elif formula.kind == "diagonal":
        matrices = np.hstack([formula.matrices, np.zeros((n_classes, n_dummies))])
    else:
        of_dummies = -np.swapaxes(slopes, 1, 2) @ formula.matrices
        matrices = np.concatenate([formula.matrices, of_dummies], axis=1)
    beside = ((0, 0), (0, n_dummies))
    centres, rest = two_sum(formula.centres, densities.centre)
    constants, mean_tails = formula.constants, None
    if formula.kind == "linear":
        constants = constants - (rest @ formula.matrices)[0]
    else:
        rest = rest if formula.mean_tails is None else rest + formula.mean_tails
        variances = [np.diag(densities.of_numbers.covariance(k)) for k in range(n_classes)]
        mean_tails = large_mean_tails(rest, np.array(variances))
    return replace(
        formula,
        centres=np.pad(centres, beside),
        mean_tails=None if mean_tails is None else np.pad(mean_tails, beside),
        matrices=matrices,
        constants=constants,
        linear=np.pad(densities.log_tables, ((0, 0), (p, 0))),
    )
