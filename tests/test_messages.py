"""What errors and warnings say: names that can be seen, lists that end, remedies in the terms of the call."""

import re

import numpy as np
import pyarrow as pa
import pytest

from streamgda import (
    ClassStatistics,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    load,
    scan_arrow,
)

RNG = np.random.default_rng(8)
X = RNG.normal(size=(60, 2))
MANY = [f"f{i:02}" for i in range(30)]


# ---------------------------------------------------------------------- labels and names


@pytest.mark.parametrize("label", ["", " ", "ant ", "\tbee"])
def test_a_label_that_cannot_be_seen_is_in_quotes(label):
    y = np.array([label, *["x"] * 59])
    with pytest.raises(np.linalg.LinAlgError, match=re.escape(f"class {label!r}, covariance is ill defined")):
        QuadraticDiscriminantAnalysis().fit(X, y)
    with pytest.warns(UserWarning, match=re.escape(f"class {label!r} gets no posterior")):
        QuadraticDiscriminantAnalysis(singular="skip").fit(X, [label, *"x" * 30, *"z" * 29])
    with pytest.raises(ValueError, match=re.escape(f"only 1 class: {label!r}")):
        GaussianNB().fit(X, [label] * 60)


def test_other_labels_are_as_they_were():
    with pytest.raises(np.linalg.LinAlgError, match="class ant, covariance is ill defined"):
        QuadraticDiscriminantAnalysis().fit(X, ["ant", *["x"] * 59])
    with pytest.raises(np.linalg.LinAlgError, match="class 7, covariance is ill defined"):
        QuadraticDiscriminantAnalysis().fit(X, [7, *[8] * 59])


def test_lists_that_are_cut_end_in_an_ellipsis():
    rows = RNG.normal(size=(60, 30))
    state = ClassStatistics("diag", feature_names=MANY).update(rows, np.arange(60) % 12)
    with pytest.raises(ValueError, match="the features are 'f00', .*, 'f09', …$"):
        state.select(["g"])
    with pytest.raises(ValueError, match=r"12 classes, 0, 1, .*, 9, …; priors have shape \(2,\)"):
        GaussianNB.from_statistics(state, priors=[0.5, 0.5])
    table = pa.table({name: rows[:, i] for i, name in enumerate(MANY)})
    with pytest.raises(ValueError, match="there is no column 'zzz'; there are 'f00', .*, 'f19', …$"):
        scan_arrow(table, "zzz")


def test_lists_that_are_whole_have_none():
    state = ClassStatistics("diag", feature_names=MANY[:10]).update(
        RNG.normal(size=(60, 10)), np.arange(60) % 2
    )
    with pytest.raises(ValueError, match="'f09'$"):
        state.select(["g"])


def test_text_labels_have_the_same_type_wherever_they_come_from(tmp_path):
    """As wide as the longest of them, in whatever width they were given, when loaded, and when classes go."""
    y = np.array(["ant", "bee", "elephant"] * 20, dtype="U20")
    model = LinearDiscriminantAnalysis().fit(X, y)
    assert model.classes_.dtype == model.predict(X).dtype == np.dtype("U8")
    model.save(tmp_path / "model.parquet")
    assert load(tmp_path / "model.parquet").classes_.dtype == np.dtype("U8")
    some = ClassStatistics().update(X, y).drop_class("elephant")
    some.save(tmp_path / "some.parquet")
    assert some.classes.dtype == load(tmp_path / "some.parquet").classes.dtype == np.dtype("U3")
