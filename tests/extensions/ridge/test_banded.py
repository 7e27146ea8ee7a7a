"""The banded form has the traces of the matrix, whatever its size and rank."""

import numpy as np
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


def test_the_matrix_has_the_eigenvalues_of_its_banded_form():
    matrix = products_of(RNG.normal(size=(300, 200)) * np.geomspace(1, 1e-6, 200))
    banded = Banded.of(matrix, np.eye(200))
    full = np.zeros((200, 200))
    for i, block in enumerate(banded.blocks):
        start, stop = 64 * i, 64 * i + len(block)
        full[start:stop, start:stop] = block
        if i < len(banded.below):
            below = banded.below[i]
            full[stop : stop + len(below), start:stop] = below
            full[start:stop, stop : stop + len(below)] = below.T
    basis = banded.vectors
    np.testing.assert_allclose(basis @ basis.T, np.eye(200), atol=1e-13)
    np.testing.assert_allclose(basis @ matrix @ basis.T, full, atol=1e-14)
    assert not np.tril(full, -65).any()
