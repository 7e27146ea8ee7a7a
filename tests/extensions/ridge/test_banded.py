"""The banded form has the traces of the matrix, whatever its size and rank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgda.extensions.ridge.banded import Banded

RNG = np.random.default_rng(0)


def products_of(rows, n_constant=0):
    matrix = rows.T @ rows / len(rows)
    matrix[:n_constant] = matrix[:, :n_constant] = 0.0
    return matrix


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 12), st.integers(0, 3), st.floats(1e-4, 10))
def test_traces_are_those_of_the_matrix(n_features, n_rows, width, n_constant, shift):
    rng = np.random.default_rng(n_features)
    matrix = products_of(rng.normal(size=(n_rows, n_features)), n_constant)
    vectors = rng.normal(size=(n_features, 3))
    traces, products = Banded.of(matrix, vectors, width).powers(shift)
    inverse = np.linalg.inv(matrix + shift * np.eye(n_features))
    slopes = inverse @ vectors
    expected = [np.vdot(vectors, slopes), np.vdot(slopes, slopes), np.vdot(slopes, inverse @ slopes)]
    np.testing.assert_allclose(traces, [np.trace(inverse), np.vdot(inverse, inverse)], rtol=1e-10)
    np.testing.assert_allclose(products, expected, rtol=1e-10)


def test_traces_are_right_where_a_shift_is_small_beside_the_matrix():
    rows = RNG.normal(size=(8, 150)) + 3 * RNG.normal(size=150)
    matrix, vectors = products_of(rows), rows.T @ RNG.normal(size=(8, 2))
    values = np.append(np.linalg.svd(rows, compute_uv=False) ** 2 / 8, np.zeros(142))
    for shift in values[0] * np.geomspace(1e-9, 1e-3, 7):
        traces, products = Banded.of(matrix, vectors).powers(shift)
        df = len(values) - shift * traces[0]
        assert df == pytest.approx(np.sum(values / (values + shift)), abs=1e-4)
        explained = np.sum(np.linalg.lstsq(rows.T, vectors)[0] ** 2) * 8  # without a shift
        assert products[0] == pytest.approx(explained, rel=10 * shift / values[7] + 1e-6)


def test_a_matrix_that_is_singular_but_for_rounding_has_traces():
    rows = RNG.normal(size=(3, 150)) * 1e4
    traces, products = Banded.of(products_of(rows), rows.T).powers(1e-8)
    assert np.isfinite(traces).all()
    assert np.isfinite(products).all()
