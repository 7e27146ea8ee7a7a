"""Labels become classes and codes, whether they lie close together or far apart."""

import numpy as np
import pytest

from streamgda.data.blocks.labels import encode


@pytest.mark.parametrize("n_rows", [2, 1000, 100_000])
@pytest.mark.parametrize("labels_per_row", [0.9, 1.9, 2.1, 1e6])
@pytest.mark.parametrize("lowest", [0, -(2**62)])
def test_codes_are_the_positions_of_labels_among_the_classes(n_rows, labels_per_row, lowest):
    rng = np.random.default_rng(0)
    y = lowest + rng.integers(0, int(labels_per_row * n_rows), n_rows)
    classes, codes, unlabelled = encode(y)
    assert unlabelled is None
    assert (np.diff(classes) > 0).all()
    assert len(classes) == len(set(y.tolist()))
    np.testing.assert_array_equal(classes[codes], y)
