"""States by key: rows are reduced by a key and their class at once."""

import numpy as np
import pytest

from streamgda import ClassStatistics, ExactClassStatistics, IncompleteStatistics
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.block import folds_of_groups, folds_of_rows
from streamgda.statistics.folded import Keyed, states_by_key
from streamgda.statistics.kernels import Workspace
from tests.strategies import KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sort", [ClassStatistics, ExactClassStatistics, IncompleteStatistics])
def test_rows_by_class_and_subclass_have_the_states_of_the_rows_of_each_class(kind, sort):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.choice(["ant", "bee", "cow"], 500)
    subclasses = np.where(y == "bee", 5, rng.integers(0, 4, 500))
    if sort is IncompleteStatistics:
        X[rng.random(X.shape) < 0.2] = np.nan
    keyed = Keyed()
    for part in np.array_split(np.arange(500), 3):
        (block,) = array_blocks(X[part], subclasses[part])
        keys, codes = np.unique(y[part], return_inverse=True)
        for key, state in states_by_key(sort(kind), block, keys, codes, Workspace()):
            keyed.add(key, state)
    assert list(keyed) == ["ant", "bee", "cow"]
    assert keyed["bee"].classes.tolist() == [5]
    for key, state in keyed.items():
        assert state.allclose(sort(kind).update(X[y == key], subclasses[y == key]))
    assert keyed.nbytes == sum(state.nbytes for state in keyed.values())


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
