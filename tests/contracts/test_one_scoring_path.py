"""Rows have the same scores, to the last bit, in memory, from files and on Dask, however they are cut."""

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    evaluate,
    predict_dataset,
    scan_parquet,
)
from streamgda.jobs.scoring.columns import COLUMNS
from streamgda.jobs.scoring.outputs.base import Field

MODELS = [
    GaussianNB(),
    LinearDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.1),
    GaussianDiscriminantAnalysis(covariance_model="VEI"),
    GaussianNB(predictive="student"),
]
METHODS = [
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score_samples",
    "mahalanobis",
    "p_values",
]


def rows_of(n_features, n_classes, n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    centres = rng.normal(size=(n_classes, n_features)) * 3
    return centres[y] + rng.normal(size=(n_rows, n_features)) * rng.uniform(0.1, 10, n_features), y


def written(tmp_path, X, y, rows_in_group):
    names = [f"x{i}" for i in range(X.shape[1])]
    table = pa.table({**dict(zip(names, X.T, strict=True)), "y": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=rows_in_group)
    return scan_parquet(tmp_path / "rows.parquet", "y", features=names)


@pytest.mark.slow_cases(
    "50-4-120-GaussianNB1", "marginal-3-26", "raise-3-26-120-GaussianNB1", "marginal-17-3"
)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(
    ("n_features", "n_classes", "n_rows"),
    [
        (1, 2, 120),
        (3, 26, 120),
        (17, 3, 120),
        (50, 4, 120),
        *(pytest.param(*shape, 400, marks=pytest.mark.slow) for shape in [(50, 10), (130, 4), (300, 2)]),
    ],
)
@pytest.mark.filterwarnings("ignore::streamgda.DoubtfulModelWarning")  # of 400 rows of 300 features
@pytest.mark.parametrize("missing", ["raise", "marginal"])
def test_a_row_has_the_same_scores_alone_and_among_others(model, n_features, n_classes, n_rows, missing):
    X, y = rows_of(n_features, n_classes, n_rows)
    model = type(model)(**{**model.get_params(), "missing": missing}).fit(X, y)
    if missing == "marginal" and n_features > 1:
        X[::3, 0] = np.nan
    for method in METHODS:
        whole = getattr(model, method)(X)
        for start, stop in [(0, 1), (5, 7), (11, 16), (100, 101), (31, n_rows - 1)]:
            np.testing.assert_array_equal(
                getattr(model, method)(X[start:stop]), whole[start:stop], strict=True
            )


@pytest.mark.slow_cases("1-1", "60-100")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(("rows_in_group", "partition"), [(1, 1), (13, 7), (60, 100)])
def test_files_and_dask_give_the_bits_of_memory(tmp_path, model, rows_in_group, partition):
    X, y = rows_of(20, 5, n_rows=60)
    source = written(tmp_path, X, y, rows_in_group)
    fitted = type(model)(**model.get_params()).fit(source)
    columns = ["label", "probabilities", "log_density", "distance"]
    predict_dataset(fitted, source, tmp_path / "out", columns=columns, scheduler="sync")
    scored = pq.read_table(tmp_path / "out")
    named = pq.read_table(tmp_path / "rows.parquet").drop_columns("y").to_pandas()
    probabilities = np.column_stack([scored[f"probability_{k}"] for k in range(5)])
    np.testing.assert_array_equal(probabilities, fitted.predict_proba(named))
    np.testing.assert_array_equal(scored["predicted_label"], fitted.predict(named))
    np.testing.assert_array_equal(scored["log_density"], fitted.score_samples(named))
    best = fitted.predict_proba(named).argmax(axis=1)
    np.testing.assert_array_equal(scored["distance"], fitted.mahalanobis(named)[np.arange(len(X)), best])
    in_memory = type(model)(**model.get_params()).fit(X, y)
    lazy = in_memory.predict_proba(da.from_array(X, chunks=(partition, -1)))
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), in_memory.predict_proba(X))


def far_apart():
    """Two classes that lie close to each other, and one at 10⁷ deviations."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 2000)
    return rng.normal(size=(6000, 3)) + np.array([0.0, 1.0, 1e7])[y, None], y


def test_a_far_class_changes_no_label_between_evaluate_and_score(tmp_path):
    X, y = far_apart()
    source = written(tmp_path, X, y, 1500)
    model = LinearDiscriminantAnalysis().fit(source)
    named = pq.read_table(tmp_path / "rows.parquet").drop_columns("y").to_pandas()
    evaluation = evaluate(model, source)
    assert evaluation.accuracy == model.score(named, y)
    log_loss = -model.predict_log_proba(named)[np.arange(len(y)), y].mean()
    assert evaluation.log_loss == pytest.approx(log_loss, rel=1e-13)
    predict_dataset(model, source, tmp_path / "out")
    np.testing.assert_array_equal(
        np.column_stack([pq.read_table(tmp_path / "out")[f"probability_{k}"] for k in range(3)]),
        model.predict_proba(named),
    )


@pytest.mark.filterwarnings("ignore::streamgda.DoubtfulModelWarning")  # of the far class
def test_imputation_weighs_near_classes_right_beside_one_at_1e8_deviations():
    rng = np.random.default_rng(1)
    near = rng.integers(-64, 65, size=(4000, 2)) / 32
    y = np.repeat([0, 1], 2000)
    near[:, 0] += y * 2.0
    near[:, 1] += y * 8.0
    far = near[:2000] + 1e8
    X, labels = np.vstack([near, far]), np.append(y, np.full(2000, 2))
    with_far = LinearDiscriminantAnalysis("lsqr", priors=[0.5, 0.5, 0.0]).fit(X, labels)
    rows = np.column_stack([np.linspace(-1, 3, 50), np.full(50, np.nan)])
    posterior = (
        LinearDiscriminantAnalysis(priors=[0.5, 0.5, 0.0], missing="marginal")
        .fit(X, labels)
        .predict_proba(rows)
    )
    covariance, means = with_far.covariance_, with_far.means_
    slope = covariance[1, 0] / covariance[0, 0]
    expected = sum(posterior[:, k] * (means[k, 1] + slope * (rows[:, 0] - means[k, 0])) for k in range(2))
    np.testing.assert_allclose(with_far.impute(rows)[:, 1], expected, rtol=0, atol=1e-7)


def test_a_column_added_to_the_table_is_predicted(tmp_path, monkeypatch):
    """The recipe of `streamgda.jobs.scoring`: one entry is all that a new column takes."""
    X, y = rows_of(4, 3)
    entry = COLUMNS["log_density"]
    largest = type(entry)(
        lambda _: [Field("largest", ("largest",), pa.float64())],
        lambda _, scores: scores.probabilities.max(axis=1),
    )
    monkeypatch.setitem(COLUMNS, "largest", largest)
    source = written(tmp_path, X, y, 100)
    model = GaussianNB().fit(source)
    predict_dataset(model, source, tmp_path / "out", columns=["largest"], scheduler="sync")
    named = pq.read_table(tmp_path / "rows.parquet").drop_columns("y").to_pandas()
    np.testing.assert_array_equal(
        pq.read_table(tmp_path / "out")["largest"], model.predict_proba(named).max(axis=1)
    )
