"""Full rank is proved by a Cholesky factor; where it is in doubt, the spectrum decides."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import solve_triangular

from streamgda import ClassStatistics
from streamgda.models.gaussians.whitening import (
    Correlations,
    TriangularWhitening,
    Whitening,
    inverse_of_triangle,
)

NO_MEANS = np.zeros((1, 5))


def covariance_with(values, scale):
    """A covariance of five features whose correlation matrix has nearly these eigenvalues."""
    rng = np.random.default_rng(0)
    axes, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    matrix = (axes * values) @ axes.T
    roots = np.sqrt(np.diag(matrix)) / scale
    return matrix / np.outer(roots, roots)


@given(
    st.lists(st.floats(-14, 0), min_size=5, max_size=5),
    st.lists(st.sampled_from([1e-6, 1.0, 1e9]), min_size=5, max_size=5),
    st.sampled_from([0.0, 1e-10, 1e-4]),
)
def test_the_rank_is_that_of_the_spectrum_in_any_units(logs, scale, tol):
    covariance = covariance_with(10.0 ** np.array(logs), np.array(scale))
    whitening, by_spectrum = (
        how(covariance, NO_MEANS, tol) for how in (Whitening.of, Whitening.from_spectrum)
    )
    assert whitening.rank == by_spectrum.rank
    # Either way is exact for correlations that differ by at most d² eps, as is_certain says, and both divide
    # by the scales in their own order: to first order the log determinants differ by three times this.
    values = Correlations.of(covariance, NO_MEANS, tol).values[-whitening.rank :]
    rounding = 3 * len(covariance) ** 2 * 2.0**-52 * (1 / values).sum()
    assert_allclose(whitening.log_pdet, by_spectrum.log_pdet, rtol=1e-14, atol=rounding)


@pytest.mark.parametrize(("factor", "is_certain"), [(1e-3, False), (0.99, False), (1.01, False), (1e3, True)])
def test_a_spectrum_is_taken_only_where_full_rank_is_in_doubt(factor, is_certain):
    tol = 1e-6
    covariance = covariance_with([1.0, 1.0, 1.0, 1.0, 1e-9], np.ones(5))
    smallest = np.linalg.eigvalsh(covariance)[0]
    covariance += (factor * tol - smallest) * np.eye(5)
    whitening = Whitening.of(covariance, NO_MEANS, tol)
    assert isinstance(whitening, TriangularWhitening) == is_certain
    assert whitening.rank == (4 if factor < 1 else 5)


def test_features_that_differ_in_their_last_digits_are_two_and_copies_are_one_after_a_hundred_merges():
    """The correlation of integers that differ by a multiple of 2⁻²³ is 1 − 30 eps."""
    u, v, w = np.random.default_rng(0).integers(-9, 10, size=(3, 4000)) / 3
    for X, rank in ((np.stack([u, u + v / 2**23], 1), 2), (np.stack([u, v, w, u + v + w], 1), 3)):
        parts = (ClassStatistics("tied").update(rows, np.zeros(len(rows))) for rows in np.split(X, 100))
        state = sum(parts, ClassStatistics("tied"))
        assert Whitening.of(state.covariance(), state.means, 0.0).rank == rank


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_constant_and_repeated_features_are_left_to_the_spectrum(offset):
    rows = offset + np.random.default_rng(0).normal(size=(100, 3))
    for others in (rows[:, :1], np.full((100, 1), 0.1 + offset)):
        all_rows = np.hstack([rows, others])
        covariance, mean = np.cov(all_rows.T, ddof=0), all_rows.mean(axis=0)
        covariance[3] *= covariance[3, 3] > 1e-3  # the scatter of a constant feature is zero in a state
        covariance[:, 3] *= covariance[3, 3] > 1e-3
        assert Whitening.of(covariance, mean[None], 1e-10).rank == 3


def test_the_inverse_and_the_determinant_are_those_of_rational_arithmetic():
    matrix = [[Fraction(1, i + j + 1) for j in range(5)] for i in range(5)]  # Hilbert's
    inverse, determinant = inverse_of(matrix)
    covariance = np.array(matrix, dtype=float)
    whitening = Whitening.of(covariance, NO_MEANS, 0.0)
    assert isinstance(whitening, TriangularWhitening)
    assert_allclose(whitening.precision, np.array(inverse, dtype=float), rtol=1e-9)
    assert_allclose(whitening.log_pdet, np.log(float(determinant)), rtol=1e-12)
    assert_allclose(whitening.colorizer @ whitening.colorizer.T, covariance, rtol=1e-12)
    rows = np.arange(10.0).reshape(2, 5)
    whitened = whitening.whiten(rows.copy())
    assert_allclose(whitening.slopes(whitened), rows @ np.array(inverse, dtype=float), rtol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 64, 65, 131, 300])
def test_a_triangle_is_inverted_by_blocks_as_row_by_row(n):
    rng = np.random.default_rng(n)
    triangle = np.asfortranarray(
        np.tril(rng.normal(size=(n, n)), -1) / np.sqrt(n) + np.diag(rng.uniform(1, 2, n))
    )
    inverse = inverse_of_triangle(triangle)
    assert_allclose(inverse, solve_triangular(triangle, np.eye(n), lower=True), rtol=1e-9, atol=1e-12)
    assert not np.triu(inverse, 1).any()


def inverse_of(matrix):
    """The inverse and determinant of a matrix of fractions, by Gauss and Jordan."""
    n, determinant = len(matrix), Fraction(1)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(n))] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot, determinant = rows[i][i], determinant * rows[i][i]
        rows[i] = [value / pivot for value in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[n:] for row in rows], determinant
