"""Fitted attributes, decisions and projections are scikit-learn's, to the names, shapes and signs."""

import itertools
import pickle

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import discriminant_analysis
from sklearn.covariance import OAS, LedoitWolf, MinCovDet, ShrunkCovariance

from streamgda import (
    ClassStatistics,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    load,
    scan_arrow,
)
from tests.strategies import MODELS

LDA = discriminant_analysis.LinearDiscriminantAnalysis
QDA = discriminant_analysis.QuadraticDiscriminantAnalysis
ATTRIBUTES = ("coef_", "intercept_", "means_", "priors_", "xbar_", "covariance_", "scalings_")


def rows(n_classes=3, n_features=4, n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, n_features)) @ rng.normal(size=(n_features, n_features))
    return X + 2 * rng.normal(size=(n_classes, n_features))[y] + 3.0, y


def assert_same_lda(ours, theirs, X, but=()):
    for name in (*ATTRIBUTES, "explained_variance_ratio_", "_max_components"):
        assert hasattr(ours, name) == hasattr(theirs, name), name
        if hasattr(theirs, name) and name not in but:
            expected = np.asarray(getattr(theirs, name))
            found = np.asarray(getattr(ours, name))
            assert found.shape == expected.shape, name
            assert found.dtype == expected.dtype, name
            if name == "scalings_" and ours.solver == "eigen":  # the others belong to an eigenvalue of zero
                expected, found = (scalings[:, : ours._max_components] for scalings in (expected, found))
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * scale, err_msg=name)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-8, atol=1e-10)
    if ours.solver != "lsqr":
        np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-8, atol=1e-8)


@pytest.mark.slow_cases("20-30", "2-4", "3-4", "2-1")
@pytest.mark.parametrize("solver", ["svd", "lsqr", "eigen"])
@pytest.mark.parametrize(("n_classes", "n_features"), [(2, 1), (2, 4), (3, 4), (5, 3), (20, 6), (20, 30)])
def test_lda_has_scikit_learns_attributes(solver, n_classes, n_features):
    X, y = rows(n_classes, n_features, n=900)
    for n_components, store in itertools.product((None, 1), (False, True)):
        ours, theirs = (
            kind(solver, n_components=n_components, store_covariance=store).fit(X, y)
            for kind in (LinearDiscriminantAnalysis, LDA)
        )
        assert_same_lda(ours, theirs, X)


@pytest.mark.parametrize("priors", [[0.5, 0.2, 0.3], [0.1, 0.0, 0.9], [1.0, 1.0, 2.0]])
@pytest.mark.filterwarnings("ignore:The priors do not sum to 1", "ignore:divide by zero")
def test_with_priors_all_is_the_same_but_what_they_weigh(priors):
    """Solver "svd" has a covariance that priors do not weigh, except in `covariance_`."""
    X, y = rows()
    ours, theirs = (kind(priors=priors).fit(X, y) for kind in (LinearDiscriminantAnalysis, LDA))
    assert_same_lda(ours, theirs, X, but=("coef_", "intercept_") if 0.0 in priors else ())


@pytest.mark.slow_cases("estimator3")
@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
@pytest.mark.parametrize(
    "estimator", [OAS(), LedoitWolf(), ShrunkCovariance(shrinkage=0.3), MinCovDet(random_state=0)]
)
def test_lda_with_a_covariance_estimator(solver, estimator):
    X, y = rows(3, 4)
    ours, theirs = (
        kind(solver, covariance_estimator=estimator).fit(X, y) for kind in (LinearDiscriminantAnalysis, LDA)
    )
    assert_same_lda(ours, theirs, X)
    assert_same_lda(pickle.loads(pickle.dumps(ours)), theirs, X)
    handed_over = ours.to_sklearn()
    np.testing.assert_allclose(handed_over.predict_proba(X), theirs.predict_proba(X), rtol=1e-8)


@pytest.mark.parametrize("estimator", [OAS(), LedoitWolf(), ShrunkCovariance(shrinkage=0.3)])
def test_qda_with_a_covariance_estimator(estimator):
    X, y = rows(3, 4)
    ours, theirs = (
        kind(solver="eigen", covariance_estimator=estimator, store_covariance=True).fit(X, y)
        for kind in (QuadraticDiscriminantAnalysis, QDA)
    )
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("model", "solver"), [(LinearDiscriminantAnalysis, "lsqr"), (QuadraticDiscriminantAnalysis, "eigen")]
)
def test_a_covariance_estimator_needs_all_the_rows_at_once(model, solver, tmp_path):
    X, y = rows()
    asked = model(solver=solver, covariance_estimator=OAS())
    source = scan_arrow(pd.DataFrame(X, columns=list("abcd")).assign(y=y), "y")
    for learn in (
        lambda: asked.fit(source),
        lambda: asked.partial_fit(X, y),
        lambda: asked.partial_fit(source),
        lambda: model.from_statistics(ClassStatistics().update(X, y), **asked.get_params(deep=False)),
        lambda: asked.fit(X, y).merge(ClassStatistics().update(X[:9], y[:9])).predict(X),
        lambda: model(solver=solver).fit(X, y).set_params(covariance_estimator=OAS()).predict(X),
    ):
        with pytest.raises(ValueError, match="covariance_estimator needs all the rows in memory at once"):
            learn()
    with pytest.raises(ValueError, match="takes no sample_weight"):
        asked.fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(TypeError, match="OAS cannot be saved"):
        asked.fit(X, y).save(tmp_path / "model.parquet")


def test_a_failed_fit_leaves_the_estimated_model_as_it_was():
    X, y = rows()
    model = LinearDiscriminantAnalysis("lsqr", covariance_estimator=OAS()).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="requires y|NaN"):
        model.fit(X * np.nan, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("n_classes", [2, 3, 20])
def test_qda_has_scikit_learns_attributes(n_classes):
    """Only the signs of rotations are not: there, they depend on rounding and on the order of the rows."""
    X, y = rows(n_classes, 4, n=900)
    for solver in ("svd", "eigen"):
        ours, theirs = (
            kind(solver=solver, store_covariance=True).fit(X, y)
            for kind in (QuadraticDiscriminantAnalysis, QDA)
        )
        for name in ("covariance_", "scalings_", "means_", "priors_"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-8)
        found, expected = np.array(ours.rotations_), np.array(theirs.rotations_)
        signs = np.sign((found * expected).sum(axis=1))
        np.testing.assert_allclose(found * signs[:, None, :], expected, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(
            ours.decision_function(X), theirs.decision_function(X), rtol=1e-8, atol=1e-8
        )


def test_attributes_that_a_solver_does_not_have_say_which_has_them():
    X, y = rows()
    for solver, name, remedy in (
        ("svd", "covariance_", "solver='lsqr' or solver='eigen' or store_covariance=True"),
        ("lsqr", "scalings_", "solver='svd' or solver='eigen'"),
        ("lsqr", "explained_variance_ratio_", "solver='svd' or solver='eigen'"),
        ("eigen", "xbar_", "solver='svd'"),
    ):
        with pytest.raises(AttributeError, match=f"has no {name}; set {remedy}"):
            getattr(LinearDiscriminantAnalysis(solver).fit(X, y), name)
    with pytest.raises(NotImplementedError, match="transform not implemented for 'lsqr' solver"):
        LinearDiscriminantAnalysis("lsqr").fit(X, y).transform(X)
    with pytest.raises(AttributeError, match="with store_covariance=True alone"):
        _ = QuadraticDiscriminantAnalysis().fit(X, y).covariance_
    for model in (LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis()):
        assert not any(hasattr(model, name) for name in (*ATTRIBUTES, "rotations_"))


def test_tol_bounds_singular_values():
    """As in scikit-learn's svd: of rows standardised within the classes, divided by √n."""
    X, y = rows(3, 4)
    X[:, 3] = X[:, 0] + 0.01 * X[:, 3]
    centred = X - np.array([X[y == k].mean(axis=0) for k in range(3)])[y]
    smallest = np.linalg.svd(centred / centred.std(axis=0) / np.sqrt(len(X)))[1][-1]
    for tol, rank in ((0.9 * smallest, 4), (1.1 * smallest, 3)):
        ours = LinearDiscriminantAnalysis(tol=tol)
        if rank == 4:
            ours.fit(X, y)
        else:
            with pytest.warns(UserWarning, match="rank 3 of 4"):
                ours.fit(X, y)
        assert_same_lda(ours, LDA(tol=tol).fit(X, y), X)


# ---------------------------------------------------------------------- types


WHOLE = [np.uint8, np.int16, np.int32, np.int64]


@pytest.mark.parametrize("dtype", [*WHOLE, np.float32, np.float64])
def test_labels_come_back_in_their_type_and_whole_floats_as_integers(dtype, tmp_path):
    X, y = rows()
    y, model, expected = y.astype(dtype), LinearDiscriminantAnalysis, dtype if dtype in WHOLE else np.int64
    given = (y, pd.Series(y)) if dtype in WHOLE else (y, pd.Series(y), y.tolist())
    for fitted in (model().partial_fit(X, y), *(model().fit(X, labels) for labels in given)):
        fitted.save(tmp_path / "model.parquet", overwrite=True)
        for same in (fitted, pickle.loads(pickle.dumps(fitted)), load(tmp_path / "model.parquet")):
            assert same.classes_.dtype == same.predict(X).dtype == same.sample(3)[1].dtype == expected
            assert same.to_sklearn().classes_.dtype == expected


def test_a_label_that_the_type_of_the_first_does_not_hold():
    X, y = rows()
    model = GaussianNB().partial_fit(X, y.astype(np.uint8))
    model.partial_fit(X[:3], [300, 300, 300])
    assert model.classes_.tolist() == [0, 1, 2, 300]
    assert model.predict(X).dtype == np.int64


@pytest.mark.parametrize("fitted_to", [np.float32, np.float64])
@pytest.mark.parametrize("given", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("solver", ["svd", "eigen"])
def test_components_have_the_type_of_the_rows(fitted_to, given, solver, tmp_path):
    X, y = rows()
    ours, theirs = (kind(solver).fit(X.astype(fitted_to), y) for kind in (LinearDiscriminantAnalysis, LDA))
    expected = theirs.transform(X.astype(given))
    ours.save(tmp_path / "model.parquet")
    for model in (ours, load(tmp_path / "model.parquet")):
        found = model.transform(X.astype(given))
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
        assert model.coef_.dtype == model.intercept_.dtype == model.scalings_.dtype == fitted_to
        assert found.dtype == np.result_type(fitted_to, given)
        if solver == "svd":  # there, "eigen" widens all but the coefficients of two classes
            assert (found.dtype, fitted_to) == (expected.dtype, theirs.coef_.dtype)
    ours.partial_fit(X, y)
    assert ours.coef_.dtype == np.float64


def test_dask_knows_the_type_of_the_components():
    X, y = rows()
    X = X.astype(np.float32)
    model = LinearDiscriminantAnalysis().fit(X, y)
    lazy = model.transform(da.from_array(X, chunks=(100, 4)))
    assert lazy.dtype == lazy.compute().dtype == np.float32


@pytest.mark.parametrize("model", MODELS)
def test_frames_and_series_of_any_library_that_narwhals_reads(model):
    pl, nw = pytest.importorskip("polars"), pytest.importorskip("narwhals")
    X, y = rows()
    columns = {name: X[:, j] for j, name in enumerate("abcd")}
    pandas = pd.DataFrame(columns)
    expected = model().fit(pandas, y)
    for frame in (
        nw.from_native(pl.DataFrame(columns)),
        pandas.convert_dtypes(dtype_backend="pyarrow"),
        pandas.convert_dtypes(),
    ):
        fitted = model().fit(frame, y)
        if not isinstance(frame, nw.DataFrame):  # whose names scikit-learn does not read either
            assert fitted.feature_names_in_.tolist() == list("abcd")
        np.testing.assert_array_equal(fitted.predict_proba(frame), expected.predict_proba(pandas))
    for labels in (
        pl.Series(y),
        pa.chunked_array([y]),
        nw.from_native(pl.Series(y), series_only=True),
        pd.Categorical(y),
        pd.array(y, dtype="Int64"),
        pd.Series(y, dtype="int64[pyarrow]"),
        y.tolist(),
    ):
        assert model().fit(pandas, labels).classes_.tolist() == [0, 1, 2]
        assert model().fit(pandas, labels).score(pandas, y) == expected.score(pandas, y)
