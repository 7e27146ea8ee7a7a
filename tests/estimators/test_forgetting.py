"""Models that forget: with a half-life, a row counts by its age, as by a weight of a single fit."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    SubclassCenters,
    from_bytes,
    scan_arrow,
)
from streamgda.estimators import ESTIMATORS, estimator_named

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, size=240)
X = RNG.normal(size=(240, 3)) + Y[:, None] * [1.0, 0.5, -1.0]
SIZES = [40, 1, 0, 1, 98, 60, 40]
ENDS = np.cumsum(SIZES)
BATCHES = [slice(end - size, end) for end, size in zip(ENDS, SIZES, strict=True)]
LEARNT_LATER = np.concatenate([np.full(size, 240 - end) for size, end in zip(SIZES, ENDS, strict=True)])
CENTERS = SubclassCenters({label: X[Y == label][:2] for label in range(3)}, np.eye(3))
KINDS = [estimator_named(name) for name in ESTIMATORS if name != "MixtureDiscriminantAnalysis"]
MODELS = [
    *(kind() for kind in KINDS if "half_life" in kind().get_params()),
    MixtureDiscriminantAnalysis(subclasses=CENTERS),
    LinearDiscriminantAnalysis(missing="marginal"),
]


def same(model, other, rtol=1e-12):
    return model.statistics_.allclose(other.statistics_, rtol=rtol) and np.allclose(
        model.predict_proba(X), other.predict_proba(X), rtol=1e-8, atol=1e-12
    )


@pytest.mark.slow_cases("1000.0")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model}"[:45])
@pytest.mark.parametrize("half_life", [20, 1000.0])
def test_a_model_that_forgets_is_one_fit_with_weights_by_age(model, half_life):
    weighted = type(model)(**model.get_params()).fit(X, Y, 0.5 ** (LEARNT_LATER / half_life))
    model.set_params(half_life=half_life)
    rows, source = (type(model)(**model.get_params()) for _ in range(2))
    for batch in BATCHES:
        rows.partial_fit(X[batch], Y[batch])
        if len(Y[batch]):
            table = pa.table({**dict(zip("abc", X[batch].T, strict=True)), "y": Y[batch]})
            source.partial_fit(scan_arrow(table, "y"))
    assert same(rows, weighted)
    assert rows.statistics_.n_rows == 240
    np.testing.assert_allclose(source.statistics_.weights, rows.statistics_.weights, rtol=1e-12)
    assert rows.fit(X, Y).statistics_.weights.sum() == 240  # one batch, whose rows are of one age


@pytest.mark.slow
@settings(max_examples=25)
@given(order=st.permutations(range(6)), cut=st.integers(0, 6), unit=st.sampled_from(["D", "h"]))
def test_with_times_rows_count_by_age_in_any_order_and_across_models(order, cut, unit):
    days = np.sort(RNG.uniform(0, 30, size=240))
    ages = days.max() - days
    weighted = QuadraticDiscriminantAnalysis().fit(X, Y, 0.5 ** (ages / 7))
    times = pd.Timestamp("2026-01-01", tz="Europe/Berlin") + pd.to_timedelta(days, unit="D")
    if unit == "h":
        times = days * 24
    models = [QuadraticDiscriminantAnalysis(half_life=7 if unit == "D" else 168) for _ in range(2)]
    for i, part in enumerate(order):
        rows = slice(40 * part, 40 * part + 40)
        model = models[i >= cut]
        model.partial_fit(X[rows], Y[rows], sample_weight=np.ones(40), time=times[rows])
        models[i >= cut] = from_bytes(model.to_bytes())
    one, other = models if cut < 6 else models[::-1]
    assert same(one.merge(other) if 0 < cut < 6 else models[int(cut == 0)], weighted, rtol=1e-9)


def test_times_may_be_objects_and_durations():
    days = [0, 1, 2, 5]
    weights = GaussianNB(half_life=2).partial_fit(X[:4], Y[:4], time=days).statistics_.weights
    for times in (np.array(days, object), pd.to_timedelta(days, unit="D"), [timedelta(day) for day in days]):
        learner = GaussianNB(half_life=2).partial_fit(X[:4], Y[:4], time=times)
        np.testing.assert_array_equal(learner.statistics_.weights, weights)
    with pytest.raises(ValueError, match=r"X has 4 rows.*\(0,\)"):
        learner.partial_fit(X[:4], Y[:4], time=[])


def test_the_rows_of_a_source_are_of_one_time():
    table = pa.table({**dict(zip("abc", X.T, strict=True)), "y": Y})
    model = GaussianNB(half_life=2).partial_fit(X, Y)
    for day in ("2026-03-01", pd.Timestamp("2026-03-05"), np.datetime64("2026-03-03")):
        model.partial_fit(scan_arrow(table, "y"), time=day)
    assert model.statistics_.weights.sum() == pytest.approx(240 * (1 / 4 + 1 / 4 + 1 + 1 / 2), rel=1e-12)


def test_a_class_of_which_nothing_came_for_long_is_gone():
    model = LinearDiscriminantAnalysis(half_life=1).partial_fit(X, Y)
    for _ in range(5):
        model.partial_fit(X[Y > 0], Y[Y > 0])
    assert model.classes_.tolist() == [1, 2]
    np.testing.assert_allclose(model.means_, [X[Y == label].mean(axis=0) for label in (1, 2)], rtol=1e-9)


def test_a_batch_that_is_refused_ages_nothing():
    model = GaussianNB(half_life=10).partial_fit(X, Y, time=1.0)
    before = model.to_bytes()
    for wrong in (
        lambda: model.partial_fit([[np.nan, 0, 0]], [0], time=9.0),
        lambda: model.partial_fit([[0.0, 0, 0]], ["a"], time=9.0),
        lambda: model.partial_fit(X, Y, time=np.nan),
        lambda: model.partial_fit(X, Y),
        lambda: model.partial_fit(scan_arrow(pa.table({"a": X[:, 0], "y": Y}), "y"), time=np.ones(240)),
    ):
        with pytest.raises(ValueError, match=r"NaN|labels|no time|give time|one number or date"):
            wrong()
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("params", "time", "message"),
    [
        ({}, 1.0, "time says how old rows are"),
        ({"half_life": 0}, None, "half_life"),
        ({"half_life": 2, "exact": True}, None, "exact=True needs half_life=None"),
    ],
)
def test_half_lives_that_make_no_sense_are_refused(params, time, message):
    with pytest.raises(ValueError, match=message):
        GaussianNB(**params).partial_fit(X, Y, time=time)
