"""Naive Bayes scores rows by one product, and by squared distances from classes that are far."""

from fractions import Fraction

import numpy as np
import pytest

from streamgda.models.gaussians.base import FAR
from streamgda.models.gaussians.densities import DiagonalGaussians

EPS = np.finfo(np.float64).eps


def classes(distance, offset=0.0, n_features=3):
    """Two classes whose means are at this distance from their centre, in standard deviations of the first."""
    means = np.zeros((2, n_features))
    means[0, 0], means[1, 0] = offset - distance, offset + distance
    variances = np.array([np.full(n_features, 1.0), np.full(n_features, 1.5)])
    return DiagonalGaussians(means, variances, mean_tails=np.zeros_like(means))


def exact_squares(densities, row):
    """The squared distances of a row from the classes, in rational arithmetic."""
    return [
        sum(
            (Fraction(x) - Fraction(m)) ** 2 / Fraction(v)
            for x, m, v in zip(row.tolist(), mean.tolist(), variance.tolist(), strict=True)
        )
        for mean, variance in zip(densities.means, densities.variances, strict=True)
    ]


def exact_gap(densities, row):
    """The difference of the squared distances of a row from the two classes."""
    squares = exact_squares(densities, row)
    return squares[0] - squares[1]


@pytest.mark.parametrize(("distance", "is_product"), [(0.99 * FAR, True), (1.01 * FAR, False), (1e9, False)])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_scores_keep_their_digits_on_both_sides_of_the_line(distance, offset, is_product):
    densities = classes(distance, offset)
    assert densities.scores_from_distances is not is_product
    rng = np.random.default_rng(0)
    X = densities.means[rng.integers(2, size=40)] + rng.normal(size=(40, 3))
    scores = densities.posterior_scores(X)
    gaps = scores[:, 0] - scores[:, 1] + 0.5 * (densities.log_normalisers[0] - densities.log_normalisers[1])
    for row, gap in zip(X, gaps, strict=True):
        exact = exact_gap(densities, row)
        assert abs(float(Fraction(gap) + exact / 2)) <= 16 * EPS * max(FAR**2, abs(float(exact)))


@pytest.mark.slow_cases("1000000000.0", "99.0")
@pytest.mark.parametrize("distance", [0.99 * FAR, 1.01 * FAR, 1e9])
def test_a_few_far_classes_take_no_digits_from_themselves_and_the_others(distance):
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(60, 3)), rng.uniform(0.5, 2, (60, 3))
    means[[7, 8], 0] += distance
    variances[[7, 8, 9]] = [[1, 1, 1], [1, 1, 1], [1, 1, 1 / distance**2]]
    densities = DiagonalGaussians(means, variances, mean_tails=np.zeros_like(means))
    assert not densities.scores_from_distances
    X, log_priors = means + rng.normal(size=means.shape) * np.sqrt(variances), np.log(rng.uniform(size=60))
    scores = densities.posterior_scores(X, log_priors) + 0.5 * densities.log_normalisers - log_priors
    for k, (row, own) in enumerate(zip(X, scores, strict=True)):
        exact = exact_squares(densities, row)
        for gap, square in zip(own - own[k], exact, strict=True):
            difference = float(Fraction(gap) + (square - exact[k]) / 2)
            assert abs(difference) <= 16 * EPS * max(FAR**2, float(square))


def test_rows_far_from_all_classes_lose_no_more_digits_than_their_distances_have():
    densities = classes(3.0)
    X = np.array([[1e8, -1e8, 3.0], [-1e7, 0.5, 1e3]])
    gaps = np.diff(densities.posterior_scores(X), axis=1)[:, 0]
    normalisers = 0.5 * np.diff(densities.log_normalisers)[0]
    for row, gap in zip(X, gaps, strict=True):
        exact = float(exact_gap(densities, row)) / 2 - normalisers
        assert gap == pytest.approx(exact, rel=16 * EPS * np.square(row).sum() / abs(exact))
