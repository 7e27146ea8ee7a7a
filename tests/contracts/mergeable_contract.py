"""One contract for all that adds up: the laws of merging, stated once.

A subclass says how rows become a state and when two states agree; its tests are then the laws of its states.
"""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import labelled_rows, partitions

often = settings(
    max_examples=settings.default.max_examples * 2 // 5,  # in each of the many subclasses
    # Every subclass runs these tests. Hypothesis warns since its database could mix them up; there is none.
    suppress_health_check=[HealthCheck.differing_executors, *settings.default.suppress_health_check],
)


class MergeableContract:
    """What states that add up must do."""

    def datasets(self, min_rows=1):
        """A strategy for datasets, tuples that `of` takes; the first entry has an item for each row."""
        return labelled_rows(min_rows)

    def cut(self, data, rows):
        """Some of the rows of a dataset."""
        return tuple(column[rows] for column in data)

    def of(self, *data):
        """The state of the rows of a dataset; of no rows where there is none."""
        raise NotImplementedError

    def total(self, parts):
        """The state of all the rows of some states."""
        return sum(parts)

    def copy(self, state):
        """A state of the same rows that does not change with another."""
        return state.copy()

    def assert_agree(self, a, b, data, whole=None):
        """Check that states agree up to rounding; they are of rows of the data, perhaps out of a whole."""
        assert a == b

    def spoil(self, state, data):
        """Change a state in every way that there is."""
        state.update(*data)
        for name in ("means", "scatter", "sums", "counts", "weights"):
            getattr(state, name)[...] = 0

    # ------------------------------------------------------------------ addition

    @often
    @given(st.data())
    def test_any_partition_in_any_order_is_the_whole(self, draw):
        data = draw.draw(self.datasets())
        parts = [self.of(*self.cut(data, rows)) for rows in draw.draw(partitions(len(data[0])))]
        whole = self.of(*data)
        self.assert_agree(self.total(parts), whole, data)
        self.assert_agree(self.total(parts[::-1]), whole, data)
        in_place = parts[0]
        for part in parts[1:]:
            in_place += part
        self.assert_agree(in_place, whole, data)

    @often
    @given(st.data())
    def test_row_by_row_in_any_order_is_the_whole(self, draw):
        data = draw.draw(self.datasets())
        state = self.of()
        for i in draw.draw(st.permutations(range(len(data[0])))):
            state += self.of(*self.cut(data, [i]))
        self.assert_agree(state, self.of(*data), data)

    @often
    @given(st.data())
    def test_merging_commutes_to_the_last_bit(self, draw):
        a, b, _ = self.two(draw)
        assert self.total([a, b]) == self.total([b, a])

    @often
    @given(st.data())
    def test_the_empty_state_is_the_identity(self, draw):
        state = self.of(*draw.draw(self.datasets()))
        assert self.total([self.of(), state]) == state
        assert self.total([state, self.of()]) == state
        assert self.total([state]) == state
        assert 0 + state == state

    # ------------------------------------------------------------------ states of their own

    @often
    @given(st.data())
    def test_operands_are_neither_mutated_nor_shared(self, draw):
        a, b, data = self.two(draw)
        before = copy.deepcopy(a), copy.deepcopy(b)
        total = self.total([a, b])
        self.spoil(total, data)
        assert (a, b) == before

    @often
    @given(st.data())
    def test_a_state_can_be_added_to_itself(self, draw):
        state = self.of(*draw.draw(self.datasets()))
        twice = self.total([state, copy.deepcopy(state)])
        assert self.total([state, state]) == twice
        state += state
        assert state == twice

    @often
    @given(st.data())
    def test_a_copy_does_not_change_with_the_state(self, draw):
        data = draw.draw(self.datasets())
        state = self.of(*data)
        twin, before = self.copy(state), copy.deepcopy(state)
        assert twin == state
        self.spoil(twin, data)
        assert state == before

    @often
    @given(st.data())
    def test_a_state_survives_pickling_to_the_bit(self, draw):
        state = self.of(*draw.draw(self.datasets()))
        assert pickle.loads(pickle.dumps(state)) == state

    def two(self, draw):
        """States of the two sides of a cut, the first with rows, and their data."""
        data = draw.draw(self.datasets(min_rows=2))
        at = draw.draw(st.integers(1, len(data[0])))
        sides = self.cut(data, slice(None, at)), self.cut(data, slice(at, None))
        return *(self.of(*side) for side in sides), data


class SubtractableContract(MergeableContract):
    """What states must do besides, of which rows can be taken out again."""

    @pytest.mark.filterwarnings("ignore:.*fewer than six correct digits:RuntimeWarning")
    @often
    @given(st.data())
    def test_subtraction_undoes_addition(self, draw):
        kept, removed, data = self.two(draw)
        whole = self.total([kept, removed])
        before = copy.deepcopy(whole), copy.deepcopy(removed)
        rest = whole - removed
        assert rest.classes.tolist() == kept.classes.tolist()
        assert rest.counts.tolist() == kept.counts.tolist()
        self.assert_agree(rest, kept, data, whole)
        self.spoil(rest, data)
        assert (whole, removed) == before

    @often
    @given(st.data())
    def test_nothing_is_left_of_a_state_without_itself(self, draw):
        state = self.of(*draw.draw(self.datasets()))
        assert (state - state).n_rows == 0
        assert (state - state) + state == state


class DecayingContract(MergeableContract):
    """What states must do besides, whose rows can be made to weigh less."""

    @often
    @given(st.data(), st.floats(0.01, 1))
    def test_decay_weighs_all_that_was_seen(self, draw, factor):
        data = draw.draw(self.datasets())
        state, decayed = self.of(*data), self.of(*data).decay(factor)
        weighted = self.of(*data, np.full(len(data[0]), factor))
        assert decayed.counts.tolist() == state.counts.tolist()
        np.testing.assert_allclose(decayed.weights, weighted.weights, rtol=1e-12)
        np.testing.assert_allclose(decayed.means, weighted.means, rtol=1e-12)
        np.testing.assert_allclose(decayed.covariance(), state.covariance(), rtol=1e-12)
        np.testing.assert_allclose(decayed.scatter, factor * state.scatter, rtol=1e-15)
