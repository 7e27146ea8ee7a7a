"""States of tables with categories, against dense dummies computed here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgda import ClassStatistics, ExactClassStatistics, IncompleteStatistics, load
from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import encode
from streamgda.extensions.categories.columns import Categories, MixedColumns, coded

NUMBERS, COLUMNS = ("age", "size"), ("colour", "fast", "grade")


def block_of(rows, weights=None):
    """A block of rows (label, numbers, values), whose categories are those of these rows alone."""
    classes, codes, _ = encode([label for label, _, _ in rows])
    found = []
    for values in zip(*(values for _, _, values in rows), strict=True):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        found.append(coded(*encode(column)))
    categories = Categories(NUMBERS, COLUMNS, tuple(values for values, _ in found))
    numbers = list(np.array([numbers for _, numbers, _ in rows], dtype=np.float64).T)
    features = MixedColumns(categories, numbers, [codes for _, codes in found])
    return Block(features, classes, codes, weights, categories.feature_names)


def state_of(rows, kind, weights=None, **kept):
    state = ClassStatistics(kind, **kept)
    state.update_blocks([block_of(rows, weights)])
    return state


def dense(rows, values):
    """The rows as numbers and dummies of the given values, one at a time."""
    return np.array(
        [
            [
                *numbers,
                *(
                    float(value == other)
                    for value, known in zip(given, values, strict=True)
                    for other in known
                ),
            ]
            for _, numbers, given in rows
        ]
    )


def values_of(rows):
    columns = zip(*(values for _, _, values in rows), strict=True)
    return tuple(
        (*sorted({v for v in column if v is not None}), *((None,) if None in column else ()))
        for column in columns
    )


ROW = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.tuples(*[st.integers(-50, 50).map(lambda n: n / 8)] * 2),
    st.tuples(
        st.sampled_from(["blue", "red", "green", "", None]),
        st.sampled_from([True, False, None]),
        st.integers(1, 5),
    ),
)
ROWS = st.lists(ROW, min_size=1, max_size=40)


@given(ROWS, st.data(), st.sampled_from(["full", "tied", "diag"]), st.booleans())
def test_any_division_of_rows_is_the_whole(rows, data, kind, weighted):
    weights = np.array([data.draw(st.integers(1, 4)) for _ in rows], float) if weighted else None
    part = np.array([data.draw(st.integers(0, 3)) for _ in rows])
    total = ClassStatistics(kind)
    for which in np.unique(part):
        chosen = np.flatnonzero(part == which)
        of_part = [rows[i] for i in chosen]
        total.merge(state_of(of_part, kind, None if weights is None else weights[chosen]))
    expected = ClassStatistics(kind).update(
        dense(rows, values_of(rows)), [label for label, _, _ in rows], weights
    )
    assert total.schema == Categories(NUMBERS, COLUMNS, values_of(rows))
    assert total.feature_names == total.schema.feature_names
    np.testing.assert_array_equal(total.counts, expected.counts)
    np.testing.assert_allclose(total.means, expected.means, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(total.scatter, expected.scatter, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*six correct digits:RuntimeWarning")  # of numbers that hardly vary
@given(ROWS, ROWS, st.sampled_from(["full", "tied", "diag"]))
def test_rows_are_taken_out(kept, removed, kind):
    whole = state_of(kept + removed, kind)
    rest = whole - state_of(removed, kind)
    assert rest.schema == whole.schema
    expected = state_of(kept, kind).in_schema(whole.schema)
    np.testing.assert_array_equal(rest.classes, expected.classes)
    np.testing.assert_allclose(rest.means, expected.means, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(rest.scatter, expected.scatter, rtol=1e-8, atol=1e-8)


RED = [("a", (1.0, 2.0), ("red", True, 1)), ("b", (3.0, 5.0), ("blue", False, 2))]
GREEN = [("a", (2.0, 2.5), ("green", True, 1)), ("a", (0.0, 1.0), (None, True, 3))]


def test_a_state_is_saved_with_its_categories(tmp_path):
    state = state_of(RED, "full") + state_of(GREEN, "full")
    state.save(tmp_path / "state.parquet")
    found = load(tmp_path / "state.parquet")
    assert found == state
    assert found.digest() == state.digest()
    assert found.schema.values == (("blue", "green", "red", None), (False, True), (1, 2, 3))
    assert found.feature_names[4:6] == ("colour=red", "colour=(missing)")
    more = [("b", (2.0, 2.0), ("teal", True, 1))]
    assert (found + state_of(more, "full")).allclose(state_of(RED + GREEN + more, "full"))


def test_fourth_moments_of_late_categories():
    state = state_of(RED, "full", fourth_moments=True) + state_of(GREEN, "full", fourth_moments=True)
    assert state.allclose(state_of(RED + GREEN, "full", fourth_moments=True))


def test_categories_of_two_types_do_not_merge_and_nothing_changes():
    state = state_of(RED, "tied")
    before = state.digest()
    other = state_of([("a", (1.0, 2.0), ("red", True, "high"))], "tied")
    with pytest.raises(ValueError, match="column 'grade' has categories of different types"):
        state.merge(other)
    assert state.digest() == before


def test_a_column_of_more_categories_than_fit_is_refused():
    rows = [("a", (1.0, 2.0), (f"user {i}", True, 1)) for i in range(2_001)]
    with pytest.raises(
        ValueError, match=r"column 'colour' has 2,001 categories in 2,001 rows: it identifies"
    ):
        state_of(rows, "diag")


def test_exact_sums_of_parts_are_those_of_the_whole():
    parts = [ExactClassStatistics("full") for _ in range(2)]
    for part, rows in zip(parts, (RED, GREEN), strict=True):
        part.update_blocks([block_of(rows)])
    whole = ExactClassStatistics("full")
    whole.update_blocks([block_of(GREEN + RED)])
    assert parts[0] + parts[1] == whole
    assert whole.to_float().schema == whole.schema
    assert (whole - parts[0]).select(parts[1].feature_names) == parts[1].select(parts[1].feature_names)


HOLES = st.lists(st.sampled_from([(False, False), (True, False), (False, True), (True, True)]), min_size=40)


def with_holes(rows, holes):
    lacking = zip(rows, holes, strict=False)
    return [(k, tuple(np.where(own, np.nan, x).tolist()), v) for (k, x, v), own in lacking]


@given(ROWS, HOLES, st.data(), st.sampled_from(["full", "tied", "diag"]), st.booleans())
def test_any_division_of_incomplete_rows_is_the_whole(rows, holes, data, kind, exact):
    rows = with_holes(rows, holes)
    part = np.array([data.draw(st.integers(0, 3)) for _ in rows])
    total = IncompleteStatistics(kind, exact=exact)
    for which in np.unique(part):
        of_part = [rows[i] for i in np.flatnonzero(part == which)]
        blocks = [block_of(some) for some in (of_part[:3], of_part[3:]) if some]
        total.update_blocks(blocks)
    names = total.schema.feature_names
    expected = IncompleteStatistics(kind, exact=exact, feature_names=names).update(
        dense(rows, values_of(rows)), [label for label, _, _ in rows]
    )
    assert total.schema == Categories(NUMBERS, COLUMNS, values_of(rows))
    assert not total.allclose(expected)  # which has columns of numbers
    expected.schema = total.schema
    assert total.allclose(expected, rtol=1e-9)
    if kind != "tied" and len(total.classes) > 1:  # the classes of "tied" share one scatter
        others = total.of_classes(np.arange(1, len(total.classes)))
        assert (total - others).schema == total.schema


def test_incomplete_rows_with_categories_are_saved_and_forgotten(tmp_path):
    rows = with_holes(RED + GREEN + RED, [(False, False), (True, False), (False, True), (False, False)] * 2)
    for kind in ("full", "diag"):
        state = IncompleteStatistics(kind).merge(state_of(GREEN, kind))
        state.update_blocks([block_of(rows)])
        state.save(tmp_path / "state.parquet")
        assert load(tmp_path / "state.parquet") == state
        added = IncompleteStatistics(kind)
        added.update_blocks([block_of(rows)])
        rest = (state - added).simplest()
        expected = state_of(GREEN, kind).in_schema(rest.schema)
        np.testing.assert_allclose(rest.means, expected.means, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(rest.scatter, expected.scatter, rtol=1e-12, atol=1e-14)
