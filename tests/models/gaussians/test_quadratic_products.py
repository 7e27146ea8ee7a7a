"""With many classes, QDA scores rows by one product, and by squared distances from classes that are far."""

from fractions import Fraction

import numpy as np
import pytest

from streamgda.models.gaussians.base import FAR
from streamgda.models.gaussians.densities import SeparateGaussians
from streamgda.models.gaussians.whitening import TriangularWhitening

N_CLASSES = 40


def classes(offset=0.0, gap=1.0, ratio=1.0, n_far=0):
    """Classes of two features; the last few are `gap` deviations away, and thinner by `ratio`."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(N_CLASSES, 2, 2)) * 0.3 + np.eye(2)
    means = rng.normal(size=(N_CLASSES, 2)) + offset
    if n_far:
        means[-n_far:, 0] += gap
        factors[-n_far:, 0] *= ratio
    covariances = factors @ factors.transpose(0, 2, 1)
    whitenings = [TriangularWhitening.of_regular(one, 0.0) for one in covariances]
    return SeparateGaussians(means, whitenings, mean_tails=np.zeros_like(means))


def exact_squares(densities, row):
    squares = []
    for mean, whitening in zip(densities.means.tolist(), densities.whitenings, strict=True):
        (a, b), (_, c) = [[Fraction(one) for one in line] for line in whitening.covariance.tolist()]
        u, v = (Fraction(x) - Fraction(m) for x, m in zip(row.tolist(), mean, strict=True))
        squares.append((c * u * u - 2 * b * u * v + a * v * v) / (a * c - b * b))
    return squares


@pytest.mark.slow_cases("0.0-1.0-1.0-0", "1000000.0-30", "1000000.0-0.0")
@pytest.mark.parametrize(
    ("offset", "gap", "ratio", "n_far", "is_product"),
    [
        (0.0, 1.0, 1.0, 0, True),
        (1e6, 1.0, 1.0, 0, True),
        (1e6, 0.3 * FAR, 1.0, 2, True),
        (0.0, 3 * FAR, 1.0, 2, True),
        (1e6, 1e6, 1.0, 2, True),
        (0.0, 0.0, 0.05, 2, True),
        (1e6, 0.0, 1e-4, 2, True),
        (1e6, 1e3, 1.0, 10, False),
        (0.0, 0.0, 1e-4, 10, False),
    ],
)
def test_scores_keep_their_digits_on_both_sides_of_the_line(offset, gap, ratio, n_far, is_product):
    densities = classes(offset, gap, ratio, n_far)
    assert densities.scores_from_distances is not is_product
    rng = np.random.default_rng(1)
    X, log_priors = densities.means.copy(), np.log(rng.uniform(size=N_CLASSES))
    X += rng.normal(size=X.shape)
    determinants = np.array([whitening.log_pdet for whitening in densities.whitenings])
    scores = densities.posterior_scores(X, log_priors) - log_priors + 0.5 * determinants
    for row, own in zip(X, scores, strict=True):
        exact = exact_squares(densities, row)
        nearest = int(np.argmin(np.array(exact, float)))
        for found, square in zip(own - own[nearest], exact, strict=True):
            error = abs(float(Fraction(found) + (square - exact[nearest]) / 2))
            assert error <= 3e-12 * max(1.0, float(square))


def test_a_row_has_the_same_scores_in_any_company_however_far_it_is():
    densities = classes()
    X = np.random.default_rng(2).normal(size=(5000, 2))
    X[[3, 4000]] = [[1e120, -1e130], [0.0, 1e150]]
    scores = densities.posterior_scores(X)
    alone = np.concatenate([densities.posterior_scores(row[None]) for row in X[[0, 3, 4, 4000]]])
    np.testing.assert_array_equal(scores[[0, 3, 4, 4000]], alone)
    np.testing.assert_allclose(
        scores, densities.posterior_scores_from(densities.squared_distances(X)), rtol=1e-11, atol=1e-13
    )
