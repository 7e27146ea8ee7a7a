"""The log loss at other temperatures, and the temperature at which it is least."""

import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from streamgda import (
    Evaluation,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    evaluate,
    progressive_score,
)

RNG = np.random.default_rng(0)
GRID = 2.0 ** (np.arange(41) / 4 - 2)
CLASSES = ["ant", "bee", "cat"]


def rows_of(n=600, sureness=4.0):
    """Labels, and scores that are surer of them than they should be."""
    y = RNG.integers(0, 3, n)
    logits = RNG.normal(size=(n, 3))
    logits[np.arange(n), y] += 1.0
    return np.array(CLASSES)[y], sureness * logits


def log_loss(y, scores, temperature, weight=None):
    """The mean of −max(ln p, ln 2⁻⁵²) of the true classes, by the definition."""
    with np.errstate(invalid="ignore"):
        own = log_softmax(scores / temperature, axis=1)[np.arange(len(y)), np.searchsorted(CLASSES, y)]
    return np.average(-np.maximum(own, np.log(2.0**-52)), weights=weight)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 30.0, 1e5]), st.booleans())
def test_losses_are_those_of_divided_scores(seed, scale, is_weighted):
    rng = np.random.default_rng(seed)
    y, scores = np.array(CLASSES)[rng.integers(0, 3, 20)], rng.normal(size=(20, 3)) * scale
    scores[rng.random((20, 3)) < 0.1] = -np.inf
    scores[np.arange(20), rng.integers(0, 3, 20)] = rng.normal()
    weight = rng.uniform(0, 2, 20) if is_weighted else None
    evaluation = Evaluation().update(y, scores, CLASSES, weight)
    for temperature in GRID:
        expected = log_loss(y, scores, temperature, weight)
        assert evaluation.log_loss_at(temperature) == pytest.approx(expected, rel=1e-10, abs=1e-11)


@pytest.mark.slow
def test_between_those_of_the_grid_too():
    y, scores = rows_of()
    evaluation = Evaluation().update(y, scores, CLASSES)
    for temperature in (0.25, 0.3, 1.1, 4.5, 200.0, 256.0):
        expected = log_loss(y, scores, temperature)
        assert evaluation.log_loss_at(temperature) == pytest.approx(expected, rel=3e-4)
    least = min(log_loss(y, scores, t) for t in np.linspace(2, 8, 6001))
    assert evaluation.log_loss_at(evaluation.best_temperature) == pytest.approx(least, rel=1e-4)
    assert log_loss(y, scores, evaluation.best_temperature) == pytest.approx(least, rel=1e-5)
    for outside in (0.2, 300.0, float("nan")):
        with pytest.raises(ValueError, match="known from temperature 0.25 to 256; got"):
            evaluation.log_loss_at(outside)


@pytest.mark.parametrize("model", [GaussianNB(), QuadraticDiscriminantAnalysis()])
def test_as_scikit_learn_calibrates_models_of_rows_without_outliers(model):
    """Its loss is not clipped; with labels of strings it finds the least."""
    means = RNG.normal(size=(3, 2))
    labels = RNG.integers(0, 3, 3000)
    rows = means[labels] + RNG.uniform(-1.5, 1.5, size=(3000, 2)).cumsum(axis=1)
    y = np.array(CLASSES)[labels]
    model.fit(rows[:1000], y[:1000])
    peer = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(rows[1000:], y[1000:])
    expected = peer.predict_proba(rows)
    inverse = peer.calibrated_classifiers_[0].calibrators[0].beta_
    evaluation = evaluate(model, rows[1000:], y[1000:])
    assert 1 / evaluation.best_temperature == pytest.approx(inverse, rel=5e-3)
    model.set_params(temperature=1 / inverse)
    np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-6, atol=1e-12)


def test_it_is_that_of_the_model_whatever_its_temperature():
    X = RNG.normal(size=(400, 2)) + RNG.integers(0, 2, 400)[:, None]
    y = (X[:, 0] + RNG.normal(size=400) > 0.5).astype(int)
    model = GaussianNB().fit(X[:200], y[:200])
    before = evaluate(model, X[200:], y[200:])
    model.set_params(temperature=before.best_temperature)
    after = evaluate(model, X[200:], y[200:])
    assert after.best_temperature == pytest.approx(before.best_temperature, rel=1e-9)
    assert after.log_loss == pytest.approx(before.log_loss_at(before.best_temperature), rel=1e-3)
    assert after.log_loss_at(1.0) == pytest.approx(before.log_loss, rel=1e-12)


def test_it_adds_up_fades_and_is_saved(tmp_path):
    y, scores = rows_of()
    parts = [Evaluation().update(y[a::3], scores[a::3], CLASSES) for a in range(3)]
    whole = Evaluation().update(y, scores, CLASSES)
    assert sum(parts).best_temperature == pytest.approx(whole.best_temperature, rel=1e-12)
    assert whole.to_dict()["best_temperature"] == whole.best_temperature
    whole.save(tmp_path / "evaluation.parquet")
    assert Evaluation.load(tmp_path / "evaluation.parquet").best_temperature == whole.best_temperature
    columns, document = whole._to_saved()
    del document["losses"]  # as in files of before
    assert np.isnan(Evaluation._from_saved(columns, document).best_temperature)
    weight = np.where(np.arange(600) < 300, 0.25, 1.0)
    faded = Evaluation().update(y[:300], scores[:300], CLASSES).decay(0.25)
    faded.update(y[300:], scores[300:], CLASSES)
    weighted = Evaluation().update(y, scores, CLASSES, weight)
    assert faded.best_temperature == pytest.approx(weighted.best_temperature, rel=1e-12)


def test_where_the_rows_do_not_tell_it():
    nothing = Evaluation()
    assert np.isnan([nothing.best_temperature, nothing.log_loss_at(1.0)]).all()
    one_class = Evaluation().update(["ant"] * 3, [[-1.0], [-2.0], [-3.0]], ["ant"])
    unknown = Evaluation().update(["dog"] * 3, RNG.normal(size=(3, 3)), CLASSES)
    alike = Evaluation().update(["ant", "bee"], 1e-15 * RNG.normal(size=(2, 3)), CLASSES)
    for evaluation in (one_class, unknown, alike):
        assert evaluation.best_temperature == 1.0
    y, scores = rows_of()
    some = y != "cat"  # of a class that the model knows, no row is held out
    expected = min(GRID, key=lambda temperature: log_loss(y[some], scores[some], temperature))
    found = Evaluation().update(y[some], scores[some], CLASSES).best_temperature
    assert abs(np.log2(found / expected)) <= 0.125 + 1e-12


def test_a_model_keeps_its_temperature_where_no_row_counts():
    X, y = RNG.normal(size=(60, 2)), np.arange(60) % 2
    model = LinearDiscriminantAnalysis(temperature=2.0).fit(X, y)
    with pytest.raises(ValueError, match="no row counts, so that no temperature is the best"):
        model.calibrate(X, y, np.zeros(60))
    assert model.temperature == 2.0


def test_an_end_of_the_grid_is_said():
    y, scores = rows_of()
    sure = np.where(np.array(CLASSES) == y[:, None], 3.0, 0.0)
    with pytest.warns(UserWarning, match="a temperature of 0.25, the end of the grid"):
        assert Evaluation().update(y, sure, CLASSES).best_temperature == 0.25
    evaluation = Evaluation().update(y, -scores, CLASSES)
    with pytest.warns(UserWarning, match="a temperature of 256, the end of the grid"):
        assert evaluation.best_temperature == 256
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluation.to_dict()["best_temperature"] == 256


def test_it_can_be_left_out():
    y = np.arange(40) % 2
    X = RNG.normal(size=(40, 2)) + y[:, None]
    model = GaussianNB().fit(X, y)
    without = evaluate(model, X, y, temperatures=False)
    assert without == evaluate(model, X, y, temperatures=False)
    assert without.log_loss == evaluate(model, X, y).log_loss
    both = without + evaluate(model, X, y)
    assert np.isnan([without.best_temperature, both.to_dict()["best_temperature"]]).all()
    scored = progressive_score(GaussianNB(), [(X[:20], y[:20]), (X[20:], y[20:])])
    assert 0.25 <= scored.best_temperature <= 256


def test_letter_as_published_by_hand(real_data):
    """1 / T of rows 12,001 to 16,000 by 41 sums, of models of the first 12,000."""
    table = pq.read_table(real_data / "letter.parquet").to_pandas()
    y = table.pop("letter").to_numpy()
    rows, learnt, calibrated = table.to_numpy(np.float64), slice(12_000), slice(12_000, 16_000)
    for kind, inverse in (
        (QuadraticDiscriminantAnalysis, 0.490161),
        (LinearDiscriminantAnalysis, 0.659560),
        (GaussianNB, 0.522772),
    ):
        evaluation = evaluate(kind().fit(rows[learnt], y[learnt]), rows[calibrated], y[calibrated])
        assert 1 / evaluation.best_temperature == pytest.approx(inverse, abs=6e-7)


def test_of_many_rows_a_sample_tells_it_and_its_sums_add():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 100_000)
    X = rng.normal(size=(100_000, 2)) * [1.0, 3.0] + y[:, None]
    model = GaussianNB().fit(np.repeat(X[:500], 2, axis=1), y[:500])  # features twice, so it is too sure
    rows = np.repeat(X, 2, axis=1)
    whole = Evaluation().update(y, model.predict_log_proba(rows), [0, 1])
    sample = evaluate(model, rows, y)
    assert sample._loss_weight == pytest.approx(100_000, rel=1e-3)
    assert sample.log_loss == pytest.approx(whole.log_loss, rel=1e-12)
    assert sample.best_temperature == pytest.approx(whole.best_temperature, rel=0.05)
    both = evaluate(model, rows[:50_000], y[:50_000]) + evaluate(model, rows[50_000:], y[50_000:])
    assert both.best_temperature == pytest.approx(whole.best_temperature, rel=0.05)
    assert both._loss_weight == pytest.approx(100_000, rel=1e-3)
