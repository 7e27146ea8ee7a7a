"""RandomFeatureClassifier: map, statistics and model in one read, and what becomes of the sample."""

import os
import pickle
import re
import subprocess
import sys

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.frozen import FrozenEstimator

from streamgda import (
    LinearDiscriminantAnalysis,
    RandomFeatureClassifier,
    RandomFeatures,
    RidgeClassifier,
    evaluate,
    load,
    predict_dataset,
    scan_arrow,
    scan_parquet,
)

X, Y = load_wine(return_X_y=True)
FRAME = pd.DataFrame(X, columns=[f"c{j}" for j in range(13)]).assign(kind=np.array(["a", "b", "c"])[Y])
MAP = RandomFeatures(60).fit(X[::2])
V3 = "X86_V3 AVX2 FMA3"  # newer and older names of what NumPy's cosine of float32 needs
FIXED = {"features": FrozenEstimator(MAP), "products": "float64", "calibration": "temperature"}


def test_it_is_a_ridge_on_the_mapped_rows():
    model = RandomFeatureClassifier(**{**FIXED, "calibration": None}).fit(X, Y)
    plain = RidgeClassifier().fit(MAP.transform(X), Y)
    assert model.alpha_ == pytest.approx(plain.alpha_, rel=1e-4)
    np.testing.assert_allclose(
        model.decision_function(X), plain.decision_function(MAP.transform(X)), rtol=0, atol=1e-4
    )
    np.testing.assert_allclose(model.to_sklearn().decision_function(X), model.decision_function(X), atol=1e-4)


DIGEST = """
from sklearn.datasets import load_digits
from streamgda import RandomFeatureClassifier

for products in "float32", "float64":
    model = RandomFeatureClassifier(features=90, products=products).fit(*load_digits(return_X_y=True))
    print(model.statistics_.digest())
"""


@pytest.mark.slow
def test_the_state_does_not_depend_on_threads_or_on_the_cosine_of_numpy():
    others = {"OPENBLAS_NUM_THREADS": "1"}, {"OPENBLAS_NUM_THREADS": "2"}, {"NPY_DISABLE_CPU_FEATURES": V3}
    found = [
        subprocess.check_output([sys.executable, "-W", "ignore", "-c", DIGEST], env=os.environ | other)
        for other in others
    ]
    assert len(set(found)) == 1


@pytest.mark.slow_cases("digits")
@pytest.mark.parametrize(("rows", "most_errors", "most_loss"), [("digits", 0.035, 0.13), ("iris", 0.06, 0.2)])
def test_its_defaults_are_accurate_and_it_says_how_accurate(rows, most_errors, most_loss):
    X, y = {"digits": load_digits, "iris": load_iris}[rows](return_X_y=True)
    model = RandomFeatureClassifier().fit(X[::2], y[::2])
    evaluation = evaluate(model, X[1::2], y[1::2])
    assert 1 - evaluation.accuracy <= most_errors
    assert evaluation.log_loss <= most_loss
    assert model.validation_error_ == pytest.approx(1 - evaluation.accuracy, abs=0.03)
    assert model.validation_log_loss_ == pytest.approx(evaluation.log_loss, abs=0.08)


@pytest.mark.parametrize(("cuts", "seed"), [((60,), 0), ((1, 90, 177), 1)])
def test_batches_and_merges_give_one_fit_and_its_calibration(cuts, seed):
    order = np.random.default_rng(seed).permutation(178)
    params = {**FIXED, "calibration_rows": 100}
    whole = RandomFeatureClassifier(**params).fit(X, Y)
    batches, merged = RandomFeatureClassifier(**params), RandomFeatureClassifier(**params)
    for part in np.split(order, cuts):
        batches.partial_fit(X[part], Y[part])
        merged.merge(RandomFeatureClassifier(**params).partial_fit(X[part], Y[part]))
    for model in (batches, merged):
        assert model.alpha_ == pytest.approx(whole.alpha_, rel=1e-9)
        np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-5)
        assert model.validation_log_loss_ == pytest.approx(whole.validation_log_loss_, rel=1e-5)


def test_a_source_is_read_once_with_the_same_bits_for_any_scheduler(tmp_path):
    (tmp_path / "data").mkdir()
    for i in range(4):
        pq.write_table(pa.Table.from_pandas(FRAME[i::4]), tmp_path / "data" / f"{i}.parquet")
    source = scan_parquet(tmp_path / "data", "kind")
    models = [
        RandomFeatureClassifier(features=50).fit(source, scheduler=scheduler)
        for scheduler in ("threads", "synchronous")
    ]
    assert models[0].n_reads_ == 1
    assert models[0].statistics_.digest() == models[1].statistics_.digest()
    rows = FRAME.drop(columns="kind")
    np.testing.assert_array_equal(models[0].predict_proba(rows), models[1].predict_proba(rows))
    assert models[0].score(rows, FRAME["kind"]) > 0.95
    assert evaluate(models[0], source).accuracy == pytest.approx(models[0].score(rows, FRAME["kind"]))
    predict_dataset(models[0], source, tmp_path / "out", columns=["label"])
    written = pd.read_parquet(tmp_path / "out")["predicted_label"]
    assert sorted(written) == sorted(models[0].predict(rows))


def test_saved_copied_and_sent_models_predict_the_same(tmp_path):
    model = RandomFeatureClassifier(features=RandomFeatures(40, kind="relu")).fit(X, Y)
    model.save(tmp_path / "model.parquet")
    twins = [load(tmp_path / "model.parquet"), pickle.loads(pickle.dumps(model)), model.snapshot()]
    for twin in twins:
        np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
        assert twin.validation_error_ == model.validation_error_
    assert twins[0].features.kind == "relu"
    np.testing.assert_array_equal(
        model.predict(da.from_array(X, chunks=(50, 13))).compute(), model.predict(X)
    )
    assert clone(model).get_params()["features__n_components"] == 40


def test_the_sample_is_left_out_when_it_is_not_of_the_rows_learnt():
    model = RandomFeatureClassifier(**FIXED).fit(X, Y)
    assert model.validation_error_ < 0.05
    model.statistics_.decay(0.5)
    with pytest.warns(UserWarning, match="the sample that probabilities are calibrated by is left out"):
        model.predict_proba(X)
    with pytest.raises(AttributeError, match="has not been calibrated"):
        _ = model.validation_error_
    model.calibrate(X, Y, np.full(178, 0.5))
    assert model.validation_error_ < 0.05
    merged = RandomFeatureClassifier(**FIXED).fit(X[::2], Y[::2])
    merged.merge(RandomFeatureClassifier(**FIXED).fit(X[1::2], Y[1::2]).statistics_)
    with pytest.warns(UserWarning, match="is left out"):
        assert merged.score(X, Y) > 0.95


def test_maps_must_be_equal_and_rows_mapped():
    one, other = (RandomFeatureClassifier(features=30).fit(X[i::2], Y[i::2]) for i in (0, 1))
    probabilities = one.predict_proba(X)
    for refused in (other, other.statistics_):
        with pytest.raises(ValueError, match="went through other maps"):
            one.merge(refused)
    np.testing.assert_array_equal(one.predict_proba(X), probabilities)
    assert not {"_more", "_source"} & set(vars(one))
    with pytest.raises(ValueError, match="were not mapped"):
        RandomFeatureClassifier.from_statistics(RidgeClassifier().fit(X, Y).statistics_)
    plain = LinearDiscriminantAnalysis.from_statistics(one.statistics_)
    mapped = pd.DataFrame(one.features_.transform(X), columns=one.statistics_.feature_names)
    assert plain.score(mapped, Y) > 0.95
    again = RandomFeatureClassifier.from_statistics(one.statistics_, calibration=None)
    np.testing.assert_array_equal(again.predict(X), one.predict(X))


def test_categories_are_inputs_and_missing_values_are_refused():
    frame = FRAME.drop(columns="kind")
    frame["size"] = pd.Categorical(np.where(X[:, 0] > 13, "l", "s"))
    model = RandomFeatureClassifier(features=50).fit(frame, Y)
    assert model.n_features_in_ == 14
    assert model.score(frame, Y) > 0.95
    other = frame.assign(size=pd.Categorical(["new"] * 178))
    with pytest.warns(UserWarning, match="categories that no learnt row has"):
        assert model.predict(other).shape == (178,)
    source = scan_arrow(pa.Table.from_pandas(frame.assign(kind=Y)), "kind")
    assert evaluate(RandomFeatureClassifier(features=50).fit(source), source).accuracy > 0.95
    frame.loc[7, "c3"] = np.nan
    with pytest.raises(ValueError, match="'c3' is NaN"):
        RandomFeatureClassifier(features=50).fit(frame, Y)


def test_streams_that_are_read_once_need_a_map():
    reader = pa.Table.from_pandas(FRAME).to_reader(max_chunksize=50)
    with pytest.raises(ValueError, match="can be read once, and a map must be fitted first"):
        RandomFeatureClassifier().fit(scan_arrow(reader, "kind"))
    reader = pa.Table.from_pandas(FRAME).to_reader(max_chunksize=50)
    features = RandomFeatures(60).fit(FRAME.drop(columns="kind"))
    model = RandomFeatureClassifier(features=FrozenEstimator(features)).fit(scan_arrow(reader, "kind"))
    assert model.score(FRAME.drop(columns="kind"), FRAME["kind"]) > 0.95


def test_a_plain_ridge_of_the_same_state_does_not_depend_on_what_was_asked_before():
    params = {**FIXED, "products": "float32"}
    asked, fresh = (RandomFeatureClassifier(**params).partial_fit(X, Y) for _ in range(2))
    _ = asked.alpha_
    ours, theirs = (RidgeClassifier.from_statistics(model.statistics_) for model in (asked, fresh))
    np.testing.assert_array_equal(ours.alphas_, theirs.alphas_)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)


@pytest.mark.parametrize(("n_rows", "n_features"), [(4_999, 1_000), (5_000, 2_000), (250_000, 2_000)])
def test_few_rows_have_fewer_features_by_default(n_rows, n_features):
    kind = np.arange(n_rows) % 2
    source = scan_arrow(pa.table({"x": np.arange(n_rows) / n_rows, "kind": kind}), "kind")
    (rule,), _ = RandomFeatureClassifier.rules_for([RandomFeatureClassifier()], None, source)
    assert rule.features.n_components == n_features


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="the size of the memory is not known")
def test_memory_that_is_not_there_is_told_before_rows_are_read():
    with pytest.raises(MemoryError, match=r"1,280\.0 GB: 320\.0 GB for a state") as error:
        RandomFeatureClassifier(features=200_000).fit(X, Y)
    most = int(re.search(r"features=([\d_]+)", str(error.value))[1])
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0.9 * there < 32 * most**2 <= there


def test_a_source_is_planned_once(tmp_path):
    pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "0.parquet")

    plans = []
    source = scan_parquet(tmp_path, "kind")
    planned = type(source).planned
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(source), "planned", lambda *args: plans.append(1) or planned(*args))
        RandomFeatureClassifier(features=30).fit(source, scheduler="synchronous")
    assert len(plans) == 1


@pytest.mark.parametrize(("n_features", "n_rows"), [(20, 200), (60, 400)])
def test_features_of_one_column_are_collinear_but_for_rounding(n_features, n_rows):
    y = np.arange(n_rows) % 2
    X = np.round(np.random.default_rng(0).normal(size=(n_rows, 1)) + y[:, None])
    errors = {}
    for products in ("float32", "float64"):
        features = RandomFeatures(n_features)
        model = RandomFeatureClassifier(features=features, products=products, calibration=None).fit(X, y)
        errors[products] = 1 - model.score(X, y)
        assert 1 < model.df_ < 20  # there are few different rows
    assert errors["float32"] == pytest.approx(errors["float64"], abs=0.02)
