"""A class with one number of changes in two states has the same rows in both, whatever was done to them."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgda import ClassStatistics, ExactClassStatistics, IncompleteStatistics

SORTS = [ClassStatistics, ExactClassStatistics, IncompleteStatistics]
labels = st.lists(st.integers(0, 4), max_size=4)


def learnt(sort, codes, start=0.0):
    rows = start + np.arange(2.0 * len(codes)).reshape(-1, 2) ** 2
    return sort().update(rows, np.array(codes, dtype=int)) if codes else sort()


STEPS = {
    "update": lambda state, codes: learnt(type(state), [0, 0, 1]).merge(state).update(np.eye(2), [1, 1]),
    "merge": lambda state, codes: state.merge(learnt(type(state), codes, 7.0)),
    "rows": lambda state, codes: state.update(np.ones((1, 2)), codes[:1]) if codes else state,
    "copy": lambda state, codes: state.copy(),
    "pickle": lambda state, codes: pickle.loads(pickle.dumps(state)),
    "pickle as of Python 2": lambda state, codes: pickle.loads(pickle.dumps(state, 0)),
    "subtract": lambda state, codes: state + learnt(type(state), codes) - learnt(type(state), codes),
    "drop": lambda state, codes: state.drop_class(state.classes[0]) if len(state.classes) > 1 else state,
}


@pytest.mark.filterwarnings("ignore:class .* fewer than six correct digits:RuntimeWarning")
@pytest.mark.parametrize("sort", SORTS)
@given(first=labels, steps=st.lists(st.tuples(st.sampled_from(list(STEPS)), labels), max_size=6))
def test_one_number_is_of_the_same_rows(sort, first, steps):
    state, digests = learnt(sort, first), {}
    for step, codes in [("copy", []), *steps]:
        state = STEPS[step](state, codes)
        assert len(state.changes) == len(state.classes)
        for k, key in enumerate(zip(state.classes.tolist(), state.changes.tolist(), strict=True)):
            digest = state.of_classes(np.array([k])).digest()
            assert digests.setdefault(key, digest) == digest


@pytest.mark.parametrize("sort", SORTS)
def test_only_classes_with_new_rows_get_another_number(sort):
    state = learnt(sort, [0, 1, 1, 3])
    before = state.changes
    state.update(np.ones((3, 2)), [1, 2, 1])
    assert (state.changes[[0, 3]] == before[[0, 2]]).all()
    assert (state.changes[[1, 2]] > before.max()).all()
    assert (state.copy().changes == state.changes).all()
