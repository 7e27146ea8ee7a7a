"""A state is as before or as after, wherever a change of it is interrupted."""

from functools import singledispatch

import numpy as np
import pytest

from streamgda import ClassStatistics, ExactClassStatistics, IncompleteStatistics, WindowedStatistics
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.block import FoldRule
from streamgda.extensions.subclasses.sampled import SampledStatistics
from streamgda.statistics.folded import FoldStatistics
from tests.interrupted import check_interruptions

rng = np.random.default_rng(0)
X, LABELS = rng.normal(size=(30, 3)), np.arange(30) % 3
GAPS = np.where(rng.random(X.shape) < 0.2, np.nan, X)

KINDS = {
    "full": lambda: ClassStatistics().update(X, LABELS),
    "tied": lambda: ClassStatistics("tied").update(X, LABELS),
    "diag": lambda: ClassStatistics("diag").update(X, LABELS),
    "fourth": lambda: ClassStatistics(fourth_moments=True).update(X, LABELS),
    "exact": lambda: ExactClassStatistics().update(X, LABELS),
    "gaps": lambda: IncompleteStatistics().update(GAPS, LABELS),
    "each feature": lambda: IncompleteStatistics("diag").update(GAPS, LABELS),
}
CHANGES = {
    "a row": lambda state: state.update(X[:1], LABELS[:1]),
    "rows of some classes": lambda state: state.update(X[:9] + 1, LABELS[:9] % 2),
    "rows of all classes": lambda state: state.update(X + 1, LABELS, np.arange(30)),
    "rows of a new class": lambda state: state.update(X[:3], [7, 1, 1]),
    "a merge of all classes": lambda state: state.merge(state.copy()),
    "a merge of some classes": lambda state: state.merge(state.copy().drop_class(0)),
    "in place": lambda state: state.__iadd__(state.copy().drop_class(0)),
    "decay": lambda state: state.decay(0.5),
    "drop_class": lambda state: state.drop_class(1),
}
POOLED = {"a merge of some classes", "in place", "drop_class"}  # out of which no class can be taken


def look(state):
    return state.digest(), state.n_rows, repr(state)


@pytest.mark.slow_cases("new class", "all classes", "gaps", "each feature", "exact", "tied", "diag", "fourth")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_done_or_not_begun(kind, change):
    if (kind, change) == ("exact", "decay") or (kind == "tied" and change in POOLED):
        return
    is_merged_in_place = kind in {"full", "tied", "diag"}
    check_interruptions(KINDS[kind], CHANGES[change], look, step=5 if is_merged_in_place else 37)


def of_folds():
    return FoldStatistics(ClassStatistics("diag"), FoldRule(2))


SEVERAL = {"folds": of_folds, "sampled": lambda: SampledStatistics(ClassStatistics("diag"), 4)}


def learnt(state, rows):
    state.update_blocks([*array_blocks(X[rows], LABELS[rows]), *array_blocks(X[rows], LABELS[rows])])
    return state


@singledispatch
def seen(state):
    return state.total().digest(), state.n_dropped


@seen.register
def _(state: SampledStatistics):
    return state.statistics.digest(), [own.weights.tolist() for own in state.samples.values()]


@pytest.mark.parametrize("kind", SEVERAL)
def test_several_states_change_together(kind):
    def made():
        return learnt(SEVERAL[kind](), slice(20))

    other = learnt(SEVERAL[kind](), slice(10, 30))
    check_interruptions(made, lambda state: learnt(state, slice(25, 30)), seen, step=149)
    check_interruptions(made, lambda state: state.__iadd__(other), seen, step=149)
    if hasattr(other, "decay"):
        check_interruptions(made, lambda state: state.decay(0.5), seen, step=7)


@pytest.mark.slow
@pytest.mark.parametrize("n_before", [0, 1])
def test_a_batch_enters_a_window_as_the_oldest_leaves(n_before):
    def made():
        some = WindowedStatistics(covariance_type="diag", seconds=1e10)
        for row in range(4):
            some.update(X[[row]], LABELS[[row]], time=row)
        for _ in range(n_before):
            some.update(X[:2], LABELS[:2], time=0.9e10)
        return some

    def look_at(some):
        return some.statistics.digest(), len(some), some.to_bytes()

    check_interruptions(made, lambda some: some.update(X[:3], LABELS[:3], time=2e10), look_at, step=11)


def test_folds_that_do_not_merge_stay_as_they_were():
    ours, theirs = learnt(of_folds(), slice(20)), learnt(of_folds(), slice(20))
    theirs._by_fold[1] = ClassStatistics("diag").update(X, LABELS.astype(str))
    before = seen(ours)
    with pytest.raises(ValueError, match="label"):
        ours.merge(theirs)
    assert seen(ours) == before
