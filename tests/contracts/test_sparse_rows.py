"""Sparse rows are learnt and scored as the same rows with their zeros, and no array of all zeros is made."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.covariance import LedoitWolf

from streamgda import (
    Categorical,
    ClassStatistics,
    ExactClassStatistics,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    RandomFeatures,
    RidgeClassifier,
    StatisticsSearchCV,
    estimate_priors,
    evaluate,
    private_statistics,
    progressive_score,
    scan_arrow,
)
from streamgda.statistics import validation
from tests.strategies import KINDS

MODELS = [
    GaussianNB(var_smoothing=1e-3),
    GaussianNB(pooling="bayes", var_smoothing=1e-2),
    LinearDiscriminantAnalysis(shrinkage=0.2),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    QuadraticDiscriminantAnalysis(reg_param=0.3),
    QuadraticDiscriminantAnalysis(shrinkage="oas"),
    RidgeClassifier(),
    MixtureDiscriminantAnalysis(2, shrinkage=0.3),
    RandomFeatureClassifier(features=RandomFeatures(30)),
]
PRIVACY = {"epsilon": 1, "delta": 1e-6, "bounds": [(0, 1)] * 12, "clip": 1.0, "classes": [0, 1]}
METHODS = (
    "predict_proba",
    "decision_function",
    "predict_log_proba",
    "score_samples",
    "transform",
    "mahalanobis",
)


def random_rows(rng, n_rows, n_features):
    """Rows of mostly zeros, some of whose columns are empty, constant, full or far from zero; and labels."""
    y = rng.integers(0, 3, n_rows)
    X = rng.normal(rng.choice([0.0, 1.0]), 1, (n_rows, n_features)) + y[:, None] * rng.random(n_features)
    X *= rng.random((n_rows, n_features)) < rng.choice([0.02, 0.2, 0.9], n_features)
    far = rng.choice(["", "", "empty", "constant", "offset", "large"], n_features)
    X[:, far == "empty"], X[:, far == "constant"] = 0.0, 7.3
    X[:, far == "offset"] += 3e4
    X[:, far == "large"] *= 1e5
    dtype = rng.choice(["f8", "f8", "f4", "i8", "i2"])
    X = np.clip(X, -3e4, 3e4) if dtype == "i2" else X
    X = X.astype(dtype)
    X[rng.random(n_rows) < 0.1] = 0
    return X, np.array(["a", "b", "c"])[y]


def as_sparse(rng, X):
    """The rows in any format, with duplicates, in any order, with indices of any type."""
    kind = rng.choice(["csr", "csc", "coo", "lil", "matrix", "unsorted", "duplicates", "long"])
    if kind == "matrix":
        return sp.csr_matrix(X)
    csr = sp.csr_array(X)
    if kind == "unsorted":
        order = np.lexsort((rng.random(csr.nnz), np.repeat(np.arange(len(X)), np.diff(csr.indptr))))
        csr = sp.csr_array((csr.data[order], csr.indices[order], csr.indptr), X.shape)
    elif kind == "duplicates":
        half = csr.data // 2 if csr.dtype.kind == "i" else csr.data / 2
        data = np.stack([half, csr.data - half], axis=1).ravel()
        csr = sp.csr_array((data, np.repeat(csr.indices, 2), 2 * csr.indptr), X.shape)
    elif kind == "long":
        csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr.asformat(kind) if kind in ("csc", "coo", "lil") else csr


def assert_same(dense, sparse, rtol=1e-12):
    scale = max(1.0, np.abs(dense[np.isfinite(dense)]).max(initial=0.0))
    np.testing.assert_allclose(sparse, dense, rtol=rtol, atol=rtol * scale)


def run_program(seed):
    """Learn and score the same rows, sparse and dense, by a random program."""
    rng = np.random.default_rng(seed)
    X, y = random_rows(rng, int(rng.integers(1, 200)), int(rng.integers(1, 30)))
    w = rng.choice([0.0, 0.3, 1.0, 2.0], len(y)) if rng.random() < 0.5 else None
    for kind in KINDS:
        states = [ClassStatistics(kind), ClassStatistics(kind)]
        cuts = [*np.sort(rng.integers(0, len(y) + 1, rng.integers(0, 3))), len(y)]
        for start, stop in zip([0, *cuts], cuts, strict=False):
            own = slice(start, stop)
            weights = None if w is None else w[own]
            states[0].update(X[own], y[own], weights)
            states[1].update(as_sparse(rng, X[own]), y[own], weights)
        dense, sparse = states
        if not dense.n_rows:
            continue
        assert sparse.allclose(dense, 1e-12), kind
        assert (sparse.counts == dense.counts).all()
        np.testing.assert_array_equal(sparse.weights, dense.weights)
        variances = [
            one.covariance() if kind == "diag" else one.covariance().diagonal(0, -2, -1) for one in states
        ]
        np.testing.assert_array_equal(variances[1] > 0, variances[0] > 0)


@pytest.mark.parametrize("seed", range(12))
def test_statistics_of_random_programs_are_those_of_dense_rows(seed):
    run_program(seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [1e-3, 1e-9, 1e-15])
def test_zeros_of_little_weight_among_large_values_take_no_digits(kind, weight):
    rng = np.random.default_rng(0)
    X, w = 1e6 + rng.normal(size=(500, 3)), rng.random(500) + 0.5
    X[7::40, 0], w[7::40] = 0.0, weight
    y = np.arange(500) // 250
    dense, sparse = (ClassStatistics(kind).update(rows, y, w) for rows in (X, sp.csr_array(X)))
    assert sparse.allclose(dense, 1e-12)


def rows_of_two_kinds(seed=0, n_rows=300, n_features=12):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    X = (rng.random((n_rows, n_features)) < 0.2) * rng.exponential(1.0, (n_rows, n_features))
    X[np.arange(n_rows), y] += 1.0
    X[:, -1] = 2.0 + rng.normal(0, 1e-2, n_rows)  # far from zero
    X[:, -2] = 0.0
    return X, sp.csr_array(X), y, rng.random(n_rows)


@pytest.mark.filterwarnings("ignore:.*the variance that is left has fewer:RuntimeWarning")
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_models_learn_and_score_sparse_rows_as_dense_ones(model):
    X, S, y, w = rows_of_two_kinds()
    dense, sparse = clone(model).fit(X, y, w), clone(model).fit(S, y, w)
    for name in METHODS:
        if hasattr(dense, name) and not (name == "transform" and not hasattr(dense, "scalings_")):
            assert_same(getattr(dense, name)(X), getattr(sparse, name)(S), 1e-10)
            np.testing.assert_allclose(
                getattr(sparse, name)(S[:1])[0], getattr(sparse, name)(S)[0], rtol=1e-12
            )
    assert sparse.score(S, y) == dense.score(X, y)
    assert evaluate(sparse, S, y, w).log_loss == pytest.approx(evaluate(dense, X, y, w).log_loss, rel=1e-9)
    temperatures = [one.calibrate(rows, y, w).temperature for one, rows in ((dense, X), (sparse, S))]
    assert temperatures[0] == pytest.approx(temperatures[1], rel=1e-6)


@pytest.mark.filterwarnings("ignore:the shares of the classes seem to have changed")
@pytest.mark.parametrize("model", [MODELS[0], MODELS[4], MODELS[6]], ids=repr)
def test_streams_merges_searches_and_shares_of_classes_take_them(model):
    X, S, y, w = rows_of_two_kinds()
    cuts = [slice(0, 100), slice(100, 101), slice(101, 300)]

    def learnt(rows):
        stream = clone(model).set_params(half_life=50)
        scored = progressive_score(stream, [(rows[i], y[i], w[i]) for i in cuts], step=1)
        halves = [clone(model).fit(rows[i], y[i]) for i in (slice(0, 150), slice(150, 300))]
        merged = halves[0].merge(halves[1])
        search = StatisticsSearchCV(clone(model), {}, scoring="neg_log_loss", cv=3).fit(rows, y, w)
        shares = estimate_priors(merged, rows[y != 1]).priors
        losses = [*(one.log_loss for one in scored), search.best_score_]
        return np.array([*losses, *stream.means_.ravel(), *merged.predict_proba(rows).ravel(), *shares])

    assert_same(learnt(X), learnt(S), 1e-9)


def test_scores_are_products_of_stored_values(monkeypatch):
    """No dense block is made by models that are linear or diagonal."""
    X, S, y, _ = rows_of_two_kinds()
    models = [GaussianNB(var_smoothing=1e-3), LinearDiscriminantAnalysis(shrinkage=0.2), RidgeClassifier()]
    fitted = [model.fit(S[:, :-1], y) for model in models]
    expected = [model.predict_proba(X[:, :-1]) for model in fitted]
    monkeypatch.setattr(sp.csr_array, "toarray", None)
    for model, probabilities in zip(fitted, expected, strict=True):
        assert_same(probabilities, model.predict_proba(S[:, :-1]))


def test_a_value_that_is_not_finite_is_named_by_row_and_feature():
    _, S, y, _ = rows_of_two_kinds()
    model = GaussianNB().fit(S, y)
    calls = (GaussianNB().fit, model.partial_fit, ClassStatistics().update, lambda X, y: model.predict(X))
    numbers = scan_arrow(pa.table({"row": np.arange(len(y)), "y": y}), "y")
    marginal = GaussianNB(missing="marginal").fit(S.toarray(), y)
    for value, name in ((np.nan, "NaN"), (np.inf, "infinity")):
        wrong = S.copy()
        wrong[7, 0] = value
        for call in calls:
            with pytest.raises(ValueError, match=f"row 7: feature 0 is {name}"):
                call(wrong, y)
        mapped = numbers.map(lambda X, S=wrong: S[X[:, 0].astype(int)], list(map(str, range(S.shape[1]))))
        for one in (model, marginal):
            with pytest.raises(ValueError, match=f"row 7: feature '0' is {name}"):
                evaluate(one, mapped)
        assert GaussianNB().fit(wrong, y, missing="drop").statistics_.n_dropped == 1


def test_frames_with_sparse_columns_are_told_what_sparse_rows_are():
    _, S, y, _ = rows_of_two_kinds()
    frame, model = pd.DataFrame.sparse.from_spmatrix(S.tocsr()), GaussianNB(var_smoothing=1e-3).fit(S, y)
    for call in (GaussianNB().fit, model.partial_fit, model.score, lambda X, y: model.predict(X)):
        with pytest.raises(
            TypeError, match=r"give frame\.sparse\.to_coo\(\), rows .* or frame\.sparse\.to_dense"
        ):
            call(frame, y)
    assert_same(model.predict_proba(frame.sparse.to_coo()), model.predict_proba(S))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda S, y: GaussianNB(exact=True).fit(S, y), "exact=False alone; give them dense"),
        (lambda S, y: GaussianNB(missing="marginal").fit(S, y), "missing='raise' alone; give them dense"),
        (
            lambda S, y: LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=LedoitWolf()).fit(
                S, y
            ),
            "covariance_estimator=None alone; give them dense",
        ),
        (lambda S, y: ExactClassStatistics().update(S, y), "takes no sparse rows; give them dense"),
        (lambda S, y: GaussianNB().fit(S, y).impute(S), "needed here with their zeros; give them dense"),
        (lambda S, y: GaussianNB(categories=Categorical(columns=["a"])).fit(S, y), "give a frame"),
        (lambda S, y: private_statistics(S, y, **PRIVACY), "with their zeros; give them dense"),
        (lambda S, y: GaussianNB().fit(S.astype(complex), y), "Complex data not supported"),
    ],
)
def test_what_needs_zeros_says_so(call, words):
    _, S, y, _ = rows_of_two_kinds()
    with pytest.raises((ValueError, TypeError), match=words):
        call(S, y)


def test_a_state_that_exceeds_the_memory_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(validation, "physical_memory", lambda: 1e9)
    rows = sp.csr_array(([1.0, 2.0], ([0, 1], [3, 4])), (2, 50_000))
    with pytest.raises(MemoryError, match="50,000 features need 20.0 GB .* which GaussianNB needs"):
        RidgeClassifier().fit(rows, [0, 1])
    assert GaussianNB().fit(rows, [0, 1]).predict(rows).tolist() == [0, 1]


def test_reading_takes_the_memory_of_states_and_of_stored_values():
    rng = np.random.default_rng(0)
    S = sp.random_array((20_000, 5_000), density=20 / 5_000, rng=rng, format="csr")
    y, state = rng.integers(0, 5, 20_000), ClassStatistics("diag")
    tracemalloc.start()
    state.update(S, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * state.nbytes + 4 * (S.data.nbytes + S.indices.nbytes)
