"""A singular LDA whose collinear features are in different units, beside rational arithmetic."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from streamgda import LinearDiscriminantAnalysis


def collinear_rows():
    """Three features of integers, and as the fourth the sum of the first two."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.integers(-9, 10, size=(90, 3)) + 4 * y[:, None]
    return np.column_stack([X, X[:, 0] + X[:, 1]]), y


def in_units(units):
    X, y = collinear_rows()
    with pytest.warns(UserWarning, match="rank 3 of 4"):
        model = LinearDiscriminantAnalysis().fit(X * units, y)
    return model, X * units


def log_pseudo_determinant(units):
    """Of the scatter within classes, in rational arithmetic: the sum of the principal minors of order 3."""
    X, y = collinear_rows()
    units = [Fraction(unit) for unit in units]
    scatter = [[Fraction(0)] * 4 for _ in units]
    for label in range(3):
        rows = [[int(x) * unit for x, unit in zip(row, units, strict=True)] for row in X[y == label]]
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        for i, j in itertools.product(range(4), repeat=2):
            scatter[i][j] += sum((row[i] - means[i]) * (row[j] - means[j]) for row in rows)
    total = sum(minor(scatter, kept) for kept in itertools.combinations(range(4), 3))
    return math.log(total.numerator) - math.log(total.denominator)


def minor(matrix, kept):
    (a, b, c), (d, e, f), (g, h, i) = ([matrix[row][column] for column in kept] for row in kept)
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


@pytest.mark.parametrize("exponent", [0, -10, -27])
def test_the_density_of_collinear_features_in_units_that_are_not_too_far_apart(exponent):
    """2²⁷ is 1.3e8. All units are powers of two, so the rows are exactly collinear."""
    units = np.array([2.0**exponent, 2.0**exponent, 1.0, 1.0])
    plain, X = in_units(np.ones(4))
    model, scaled = in_units(units)
    expected = (log_pseudo_determinant(np.ones(4)) - log_pseudo_determinant(units)) / 2
    np.testing.assert_allclose(
        model.score_samples(scaled) - plain.score_samples(X), expected, rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("exponent", [-27, -66])
def test_units_of_collinear_features_change_no_probability_and_no_distance(exponent):
    """2⁶⁶ is 7e19. The level of the log density has no correct digit there, its differences have."""
    plain, X = in_units(np.ones(4))
    model, scaled = in_units(np.array([2.0**exponent, 2.0**exponent, 1.0, 1.0]))
    np.testing.assert_allclose(model.predict_proba(scaled), plain.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(model.mahalanobis(scaled), plain.mahalanobis(X), rtol=1e-10)
    shift = model.score_samples(scaled) - plain.score_samples(X)
    np.testing.assert_allclose(shift, shift[0], rtol=1e-10)
