"""Sets of labels by split conformal prediction: what they cover, and where they are written."""

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from streamgda import (
    Evaluation,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    evaluate,
    predict_dataset,
    scan_parquet,
)

RNG = np.random.default_rng(0)
Y = np.array(["ant", "bee", "cat"])[RNG.integers(0, 3, 900)]
X = RNG.normal(size=(900, 2)) + 1.5 * np.searchsorted(["ant", "bee", "cat"], Y)[:, None]
MODEL = QuadraticDiscriminantAnalysis().fit(X[:300], Y[:300])


def odds_of(scores):
    """ln p / (1 − p) of each class, by the definition."""
    others = [np.logaddexp.reduce(np.delete(scores, k, axis=1), axis=1) for k in range(scores.shape[1])]
    return scores - np.transpose(others)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    st.sampled_from([0.05, 0.5, 0.8, 0.9, 0.99]),
    st.booleans(),
)
def test_the_quantile_is_that_of_split_conformal_prediction(odds, coverage, by_class):
    """The k-th least of n log-odds of true classes, k = ⌊(n + 1)(1 − coverage)⌋; ties may be."""
    codes = np.arange(len(odds)) % 2
    scores = np.array(odds)[:, None] / 2 * np.where(codes == 0, 1, -1)[:, None] * [1.0, -1.0]
    evaluation = Evaluation().update(codes, scores, [0, 1])
    found = evaluation.conformal_quantile(coverage, by="class" if by_class else "all")
    for k in (0, 1) if by_class else (None,):
        own = np.sort(odds_of(scores)[np.arange(len(codes)), codes][(codes == k) | (k is None)])
        place = int(np.floor((len(own) + 1) * (1 - coverage) + 1e-9))
        expected = own[place - 1] if place else -np.inf
        assert (found[k] if by_class else found) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("by", ["all", "class"])
def test_the_scale_of_weights_does_not_matter(scale, by):
    """Ten rows are ten rows, whatever they weigh: too few for 95 %."""
    y, scores = RNG.integers(0, 2, 300), RNG.normal(size=(300, 2))
    plain, weighted = Evaluation().update(y, scores, [0, 1]), Evaluation()
    for rows in (slice(0, 100), slice(100, 300)):
        weighted += Evaluation().update(y[rows], scores[rows], [0, 1], np.full(len(y[rows]), scale))
    weighted = Evaluation.from_bytes(weighted.to_bytes())
    np.testing.assert_array_equal(
        weighted.conformal_quantile(0.9, by=by), plain.conformal_quantile(0.9, by=by)
    )
    few = Evaluation().update(y[:10], scores[:10], [0, 1], np.full(10, scale))
    assert np.max(few.conformal_quantile(0.95, by=by)) == -np.inf
    decayed = Evaluation().update(y, scores, [0, 1]).decay(0.001)
    np.testing.assert_array_equal(
        decayed.conformal_quantile(0.9, by=by), plain.conformal_quantile(0.9, by=by)
    )


def test_heavy_rows_are_few():
    """One row of weight 99 beside 99 of weight 1 are four effective rows: too few for 90 %."""
    y, scores = np.zeros(100, int), RNG.normal(size=(100, 2))
    weights = np.where(np.arange(100) == 0, 99.0, 1.0)
    evaluation = Evaluation().update(y, scores, [0, 1], weights)
    assert evaluation.conformal_quantile(0.9) == -np.inf
    assert evaluation.conformal_quantile(0.5) > -np.inf


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_sets_of_other_rows_hold_their_class_as_often_as_they_should(coverage):
    """Of many draws, the mean coverage is between the nominal one and 1 / (n + 1) above it."""
    covered = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, 99)
        rows = rng.normal(size=(99, 2)) * 1.5 + 1.5 * y[:, None]  # more spread than the model has learnt
        quantile = evaluate(MODEL, rows[:49], MODEL.classes_[y[:49]]).conformal_quantile(coverage)
        sets = MODEL.predict_set(rows[49:], quantile)
        covered.append(sets[np.arange(50), y[49:]].mean())
    noise = 3 * np.std(covered) / np.sqrt(200)
    assert coverage - noise < np.mean(covered) < coverage + 1 / 50 + noise


def test_by_class_each_class_is_covered():
    model = LinearDiscriminantAnalysis().fit(X[:300], Y[:300])
    evaluation = evaluate(model, X[300:600], Y[300:600])
    quantile = evaluation.conformal_quantile(0.9, by="class")
    assert quantile.shape == (3,)
    held_out = model.predict_set(X[300:600], quantile)
    for k, label in enumerate(model.classes_):
        own = Y[300:600] == label
        assert 0.9 * own.sum() <= held_out[own, k].sum() <= 0.9 * own.sum() + 2
    odds = odds_of(model.predict_log_proba(X[300:600]))
    np.testing.assert_array_equal(held_out | (odds > quantile + 1e-9), held_out)
    np.testing.assert_array_equal(held_out & (odds > quantile - 1e-9), held_out)


def test_where_there_are_too_few_rows_all_classes_are_in_each_set():
    evaluation = evaluate(MODEL, X[300:305], Y[300:305])
    assert evaluation.conformal_quantile(0.9) == -np.inf
    assert MODEL.predict_set(X[:4], -np.inf).all()
    assert not MODEL.predict_set(X[:4], np.inf).any()
    one = evaluate(MODEL, X[300:600][Y[300:600] == "ant"], ["ant"] * (Y[300:600] == "ant").sum())
    by_class = one.conformal_quantile(0.5, by="class")
    np.testing.assert_array_equal(np.isfinite(by_class), [True, False, False])


def test_binned_log_odds_cover_no_less():
    y = RNG.integers(0, 2, 30_000)
    scores = RNG.normal(size=(30_000, 2)) + 2.0 * np.eye(2)[y]
    quantile = Evaluation().update(y, scores, [0, 1]).conformal_quantile(0.9)
    covered = (odds_of(scores)[np.arange(30_000), y] >= quantile).mean()
    assert 0.9 <= covered < 0.902


@pytest.mark.parametrize("quantile", [-1.0, [-2.0, -1.0, 0.5]])
def test_they_are_a_column_of_predictions(quantile, tmp_path):
    expected = odds_of(MODEL.predict_log_proba(X)) >= quantile
    np.testing.assert_array_equal(MODEL.predict_set(X, quantile), expected)
    lazy = da.from_array(X, chunks=(250, -1))
    answer = MODEL.predict_set(lazy, quantile)
    assert answer.dtype == bool
    np.testing.assert_array_equal(answer.compute(), expected)
    names = [f"in_set_{label}" for label in MODEL.classes_]
    pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1]}), tmp_path / "rows.parquet")
    source = scan_parquet(tmp_path / "rows.parquet")
    how = {"columns": ["label", "set"], "quantile": quantile}
    predict_dataset(MODEL, source, tmp_path / "scored", **how)
    table = pq.read_table(tmp_path / "scored")
    assert table.schema.field("in_set_ant").type == pa.bool_()
    np.testing.assert_array_equal(table.select(names).to_pandas(), expected)
    assert predict_dataset(MODEL, source, tmp_path / "scored", **how).n_found == 1
    assert predict_dataset(MODEL, source, tmp_path / "scored", **{**how, "quantile": 3.0}).n_found == 0
    predict_dataset(MODEL, source, tmp_path / "scored.zarr", **how)
    sets = zarr.open_group(tmp_path / "scored.zarr", mode="r")["set"]
    np.testing.assert_array_equal(sets[:], expected)
    assert sets.attrs["classes"] == MODEL.classes_.tolist()


def test_bad_input_is_named():
    evaluation = evaluate(MODEL, X[300:], Y[300:])
    for coverage, by in ((0.0, "all"), (90, "all"), (float("nan"), "all"), (0.9, "label")):
        with pytest.raises(ValueError, match="coverage is a number between 0 and 1, and by 'all' or"):
            evaluation.conformal_quantile(coverage, by)
    for quantile in ([0.0, 1.0], float("nan")):
        with pytest.raises(
            ValueError, match="one for each of the 3 classes, as Evaluation.conformal_quantile"
        ):
            MODEL.predict_set(X, quantile)
    for more in ({"columns": ["set"]}, {"quantile": 1.0}):
        with pytest.raises(ValueError, match="the column 'set' needs a quantile, as Evaluation.conformal"):
            predict_dataset(MODEL, "rows.parquet", "scored", **more)


def test_letter_is_covered(real_data):
    """Rows 16,001 to 20,000 by the quantile of rows 12,001 to 16,000, within three standard errors."""
    table = pq.read_table(real_data / "letter.parquet").to_pandas()
    y = table.pop("letter").to_numpy()
    rows = table.to_numpy(np.float64)
    for model in (QuadraticDiscriminantAnalysis(), LinearDiscriminantAnalysis(), GaussianNB()):
        model.fit(rows[:12_000], y[:12_000])
        evaluation = evaluate(model, rows[12_000:16_000], y[12_000:16_000])
        truth = np.searchsorted(model.classes_, y[16_000:])
        for coverage in (0.9, 0.95, 0.99):
            sets = model.predict_set(rows[16_000:], evaluation.conformal_quantile(coverage))
            covered = sets[np.arange(4000), truth].mean()
            assert abs(covered - coverage) < 3 * np.sqrt(coverage * (1 - coverage) * 2 / 4000)
