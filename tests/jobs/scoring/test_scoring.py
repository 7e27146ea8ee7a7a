"""evaluate and progressive_score on real sources and schedulers."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import NotFittedError

from streamgda import (
    Evaluation,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    evaluate,
    progressive_score,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from streamgda.data.sources.base import Source
from tests.data.tables import parquet_files, zarr_group
from tests.strategies import FOUR_MODELS

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, 3000)
Y = np.array(["ant", "bee", "cow"])[CODES]
X = pd.DataFrame(RNG.normal(size=(3000, 2)) + CODES[:, None], columns=["u", "v"])
WEIGHTS = RNG.uniform(0.1, 3, 3000)


@pytest.fixture
def folder(tmp_path):
    return parquet_files(tmp_path, pa.table(X.assign(y=Y, w=WEIGHTS)), 7, row_group_size=100)


def agree(a, b):
    """Whether two evaluations are of the same rows, up to rounding."""
    assert a.n_rows == b.n_rows
    np.testing.assert_allclose(a.confusion_matrix, b.confusion_matrix, rtol=1e-12)
    for name in ("accuracy", "log_loss", "brier_score", "roc_auc", "average_precision"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9)
    return True


@pytest.mark.slow_cases("Discriminant")
@pytest.mark.parametrize("model", FOUR_MODELS)
def test_a_source_is_judged_as_the_scores_of_its_rows(folder, model):
    fitted = model().fit(X, Y)
    evaluation = evaluate(fitted, scan_parquet(folder, "y", features=["u", "v"], weight="w"))
    expected = Evaluation().update(Y, fitted.predict_log_proba(X), fitted.classes_, WEIGHTS)
    assert agree(evaluation, expected)
    assert evaluation.accuracy == pytest.approx(fitted.score(X, Y, WEIGHTS))


def test_the_columns_of_a_data_frame_are_matched_by_name():
    fitted = GaussianNB().fit(X, Y)
    expected = evaluate(fitted, X, Y, WEIGHTS)
    frame = dd.from_pandas(X.assign(y=Y, w=WEIGHTS, id=np.arange(3000.0), note="a"), npartitions=3)
    frame = frame[["id", "v", "y", "note", "u", "w"]]
    assert agree(evaluate(fitted, frame, "y", "w"), expected)
    assert agree(evaluate(fitted, frame, frame["y"], frame["w"]), expected)
    found = fitted.predict(frame[["u", "v"]]).compute()
    assert evaluate(fitted, frame, "y").accuracy == np.mean(found == Y)
    for y in ("y", frame["y"]):
        with pytest.raises(ValueError, match="no column 'u'"):
            evaluate(fitted, frame[["v", "y"]], y)


@pytest.mark.slow_cases("cluster", "threads")
@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "cluster"])
def test_every_scheduler_gives_the_same_bits(folder, scheduler, request, monkeypatch):
    monkeypatch.setattr("streamgda.data.sources.splits.ROWS_PER_TASK", 200)  # or all would be one task
    fitted = QuadraticDiscriminantAnalysis().fit(X, Y)
    source = scan_parquet(folder, "y", features=["u", "v"], weight="w")
    expected = evaluate(fitted, source, scheduler="synchronous")
    used = request.getfixturevalue("client") if scheduler == "cluster" else scheduler
    assert evaluate(fitted, source, scheduler=used) == expected
    assert evaluate(fitted, source, scheduler=used, progress=True) == expected


def test_rows_with_missing_values(tmp_path):
    holed = X.assign(y=Y)
    holed.loc[7, "u"] = np.nan
    holed.to_parquet(tmp_path / "in.parquet")
    file = tmp_path / "in.parquet"
    fitted = LinearDiscriminantAnalysis().fit(X, Y)
    with pytest.raises(ValueError, match=r"in\.parquet, row group 0, row 7: feature 'u' is NaN"):
        evaluate(fitted, scan_parquet(file, "y"))
    dropped = evaluate(fitted, scan_parquet(file, "y", missing="drop"))
    assert (dropped.n_rows, dropped.n_dropped) == (2999, 1)
    assert "2,999 rows (1 dropped)" in str(dropped)
    marginal = LinearDiscriminantAnalysis(missing="marginal").fit(X, Y)
    evaluation = evaluate(marginal, scan_parquet(file, "y"))
    assert evaluation.n_rows == 3000
    assert evaluation.accuracy == pytest.approx(marginal.score(holed[["u", "v"]], Y))
    assert agree(evaluate(marginal, holed[["u", "v"]], Y), evaluation)


def test_what_cannot_be_judged_is_refused(folder):
    fitted = GaussianNB().fit(X, Y)
    source = scan_parquet(folder, "y", features=["u", "v"])
    with pytest.raises(NotFittedError):
        evaluate(GaussianNB(), source)
    with pytest.raises(TypeError, match="got str; load reads one from a file"):
        evaluate("m.parquet", source)
    with pytest.raises(ValueError, match="a source brings its own target"):
        evaluate(fitted, source, Y)
    with pytest.raises(ValueError, match="the target y is None"):
        evaluate(fitted, X)
    with pytest.raises(ValueError, match=r"no target is named"):
        evaluate(fitted, scan_parquet(folder, features=["u", "v"]))
    with pytest.raises(ValueError, match=r"no row is of a class .* knows 'ant', .* labels are 'x'"):
        evaluate(fitted, X, np.full(3000, "x"))
    with pytest.raises(ValueError, match="different kinds"):
        evaluate(fitted, X, CODES)
    with pytest.raises(ValueError, match="nothing to evaluate"):
        evaluate(fitted, scan_parquet(folder, "y", features=["u", "v"], filters=[("u", ">", 1e9)]))


def test_columns_of_a_source_are_matched_by_name(folder):
    """In any order, among others, from any kind of source that knows names; of the others, by position."""
    fitted = GaussianNB().fit(X, Y)
    expected = evaluate(fitted, X, Y)
    frame = X.assign(y=Y, w=WEIGHTS)[["w", "v", "y", "u"]]
    table = pa.Table.from_pandas(frame, preserve_index=False)
    ds.write_dataset(table, folder / "arrow", format="arrow")
    zarr_group(folder / "rows.zarr", 500, zarr_format=2, X=X, y=Y)
    for source in (
        scan_parquet(folder, "y"),
        scan_parquet(folder, "y", features=["v", "u"]),
        scan_arrow(table, "y"),
        scan_arrow(ds.dataset(folder / "arrow", format="arrow"), "y"),
        scan_arrow(ds.dataset(table), "y"),
        scan_arrow(frame, "y", features=["v", "u"]),
        scan_dask(dd.from_pandas(frame, npartitions=3), "y"),
        scan_dask(dd.from_pandas(frame, npartitions=3), "y", exclude=["w"]),
        scan_dask(dd.from_pandas(X[["v", "u"]], 3), dd.from_pandas(frame["y"], 3)),
        scan_dask(da.from_array(X.to_numpy(), chunks=(700, 1)), da.from_array(Y, chunks=700)),
        scan_zarr(folder / "rows.zarr"),
    ):
        assert agree(evaluate(fitted, source), expected)
        assert source.feature_names != ("u", "v")

    class OneOrder(Source):
        feature_names = ("v", "u")

        def splits(self):
            return []

    with pytest.raises(ValueError, match=r"or another order; scan it with the features \['u', 'v'\]"):
        evaluate(fitted, OneOrder())


# ---------------------------------------------------------------------- test, then train


def batches(size=500):
    return [(X[i : i + size], Y[i : i + size], WEIGHTS[i : i + size]) for i in range(0, 3000, size)]


@pytest.mark.slow_cases("GaussianDisc")
@pytest.mark.parametrize("model", FOUR_MODELS)
def test_each_batch_is_judged_by_the_model_of_those_before_it(model):
    learner = model()
    evaluation = progressive_score(learner, batches())
    expected = Evaluation()
    for i, (rows, labels, weights) in enumerate(batches()):
        if i:
            before = model().fit(X[: 500 * i], Y[: 500 * i], WEIGHTS[: 500 * i])
            scores = before.predict_log_proba(rows)
            expected.update(labels, scores, before.classes_, weights)
    assert agree(evaluation, expected)
    assert evaluation.n_rows == 2500
    assert learner.statistics_.allclose(model().fit(X, Y, WEIGHTS).statistics_)


def test_a_class_that_appears_late():
    order = np.argsort(CODES == 2, kind="stable")
    late = int((CODES != 2).sum())
    stream = [(X.iloc[rows], Y[rows]) for rows in np.array_split(order, 10)]
    evaluation = progressive_score(GaussianNB(), stream)
    first = len(stream[0][0])
    assert evaluation.classes.tolist() == ["ant", "bee", "cow"]
    assert evaluation.n_rows == 3000 - first
    assert evaluation.support[2] == 3000 - late
    assert 0 < evaluation.recall[2] < 1


@pytest.mark.slow_cases("GaussianDisc")
@pytest.mark.parametrize("model", FOUR_MODELS)
def test_batches_are_judged_once_two_classes_are_known(model):
    ants = Y == "ant"
    stream = [(X[ants], Y[ants]), (X[ants][:100], Y[ants][:100]), (X[~ants], Y[~ants]), (X, Y)]
    assert progressive_score(model(), stream).n_rows == 3000
    assert progressive_score(model(), []) == Evaluation()
    fitted, source = model(), scan_arrow(X.assign(y=Y), "y", features=["u", "v"])
    with pytest.warns(UserWarning, match="none of 1 was scored; give smaller batches"):
        assert progressive_score(fitted, source).n_rows == 0
    assert fitted.statistics_.n_rows == 3000


def test_a_batch_without_rows_is_passed_over():
    gaps = [batch for full in batches() for batch in ((X[:0], Y[:0]), full)]
    assert progressive_score(GaussianNB(), gaps) == progressive_score(GaussianNB(), batches())


def test_a_model_that_already_knows_something_is_judged_from_the_first_batch():
    assert progressive_score(GaussianNB().fit(X, Y), batches()).n_rows == 3000


def test_a_source_is_a_stream_of_its_blocks(folder):
    fitted = GaussianNB()
    evaluation = progressive_score(fitted, scan_parquet(folder, "y", features=["u", "v"], weight="w"))
    assert evaluation.n_rows == 2900  # all but the first row group
    assert fitted.statistics_.n_rows == 3000
    assert fitted.feature_names_in_.tolist() == ["u", "v"]
    lazy = scan_dask(dd.from_pandas(X.assign(y=Y), npartitions=5), "y")
    assert progressive_score(GaussianNB(), lazy).n_rows == 2400


def test_the_curve_over_time_adds_up_to_the_evaluation_of_all():
    whole = progressive_score(GaussianNB(), batches())
    sizes = [len(batch[1]) for batch in batches()][1:]
    for step in (1, 2 * sizes[0], 10**9):
        curve = progressive_score(GaussianNB(), batches(), step=step)
        np.testing.assert_allclose(sum(curve).confusion_matrix, whole.confusion_matrix, rtol=1e-12)
        assert sum(curve).log_loss == pytest.approx(whole.log_loss)
        assert all(point.n_rows >= step for point in curve[:-1])
        assert len(curve) == {1: len(sizes), 10**9: 1}.get(step, -(-len(sizes) // 2))
    assert progressive_score(GaussianNB(), [], step=5) == []
    for step in (0, np.nan):
        with pytest.raises(ValueError, match="step must be a positive number of rows"):
            progressive_score(GaussianNB(), batches(), step=step)


def test_rows_of_a_half_life_ago_count_by_half():
    def stream():
        yield X, Y
        yield X[:1000], Y[:1000]
        yield X[1000:2000], np.roll(Y[1000:2000], 1)

    fitted = GaussianNB()
    points = progressive_score(fitted, stream(), step=1000, half_life=1000)
    alone = progressive_score(GaussianNB(), stream(), step=1000)
    assert [point.n_rows for point in points] == [1000, 2000]
    assert points[1] == progressive_score(GaussianNB(), stream(), half_life=1000)
    expected = (alone[0].accuracy * 0.5 + alone[1].accuracy) / 1.5
    assert points[1].accuracy == pytest.approx(expected)
    assert fitted.statistics_.n_rows == 5000  # what was learnt stays
    for wrong in ({"half_life": 0}, {"half_life": np.nan}, {"step": 0}):
        with pytest.raises(ValueError, match="must be a positive number"):
            progressive_score(GaussianNB(), stream(), **wrong)


@pytest.mark.parametrize("unit", ["D", "h"])
def test_with_times_rows_count_by_their_age_in_the_evaluation_and_in_the_model(unit, tmp_path):
    days = RNG.uniform(0, 30, size=len(Y))
    if unit == "D":  # the rows of a day come in any order
        days = np.sort(days.round()) + RNG.uniform(-0.4, 0.4, size=len(Y))
    when = pd.Timestamp("2026-01-01") + pd.to_timedelta(days, unit="D") if unit == "D" else days * 24
    half_life = {"D": 5, "h": 120}[unit]
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(when=when)
    parts = [slice(start, start + 500) for start in range(0, len(Y), 500)]
    model, fading = GaussianNB(half_life=half_life), {"half_life": half_life, "time": "when"}
    found = progressive_score(model, [(frame[rows], Y[rows]) for rows in parts], **fading)
    assert model.feature_names_in_.tolist() == ["u", "v"]
    same, right, weights = GaussianNB(half_life=half_life), [], []
    for rows in parts:
        batch, labels, times = frame[rows].drop(columns="when"), Y[rows], when[rows]
        if rows.start:
            right.append(same.predict(batch) == labels)
            weights.append(0.5 ** ((days.max() - days[rows]) / 5))
        same.partial_fit(batch, labels, time=times)
    assert found.accuracy == pytest.approx(np.average(np.concatenate(right), weights=np.concatenate(weights)))
    pq.write_table(pa.table(frame.assign(y=Y)), tmp_path / "rows.parquet", row_group_size=500)
    source = scan_parquet(tmp_path, "y")
    assert progressive_score(GaussianNB(half_life=half_life), source, **fading) == found
    with pytest.raises(ValueError, match="which counts with half_life alone"):
        progressive_score(GaussianNB(), source, time="when")
    with pytest.raises(ValueError, match="there is no column 'wen'; did you mean 'when'"):
        progressive_score(GaussianNB(), source, half_life=5, time="wen")
