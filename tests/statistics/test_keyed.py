"""States by key: rows are reduced by a key and their class at once."""

import numpy as np
import pytest

from streamgda import ClassStatistics
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.block import folds_of_groups, folds_of_rows
from streamgda.statistics.folded import states_by_key
from streamgda.statistics.kernels import Workspace


@pytest.mark.parametrize(("n_keys", "n_classes"), [(1, 256), (2, 300), (256, 256)])
def test_keys_and_classes_of_any_number(n_keys, n_classes):
    labels, keys = np.arange(n_classes), np.arange(n_classes) % n_keys
    X = labels[:, None] * 1.0
    (block,) = array_blocks(X, labels)
    empty, codes = ClassStatistics("diag"), keys.astype(np.uint8)
    states = dict(states_by_key(empty, block, np.arange(n_keys), codes, Workspace()))
    assert {key: state.means.ravel().tolist() for key, state in states.items()} == {
        key: X[keys == key].ravel().tolist() for key in range(n_keys)
    }


def test_more_folds_than_16_bits_number():
    folds = folds_of_rows(np.arange(300_000), 100_000)
    assert folds.max() > 2**16
    assert folds_of_groups(np.arange(3000), 100_000).max() > 2**16
