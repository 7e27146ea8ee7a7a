"""A drop-in: the estimators do what scikit-learn's conventions ask, and can be exchanged for its own."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from sklearn import discriminant_analysis, naive_bayes
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    scan_arrow,
)
from streamgda.models.estimators.classifier import score_rows
from tests.strategies import MODELS

PEERS = {
    GaussianNB: naive_bayes.GaussianNB,
    LinearDiscriminantAnalysis: discriminant_analysis.LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis: discriminant_analysis.QuadraticDiscriminantAnalysis,
}
SINGULAR = "its data has classes with a singular covariance, on which scikit-learn's QDA raises too"
CHECKS_ON_SINGULAR_CLASSES = (
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def expected_failures(model):
    """Checks of sample weights that scikit-learn's QDA, which takes none, is never put to."""
    if isinstance(model, QuadraticDiscriminantAnalysis) and not model.reg_param:
        return dict.fromkeys(CHECKS_ON_SINGULAR_CLASSES, SINGULAR)
    return {}


@pytest.mark.filterwarnings("ignore::streamgda.DoubtfulModelWarning")  # of few rows
@pytest.mark.slow_cases(
    "check_dtype_object", "check_estimators_dtypes", "readonly_memmap=True", "after_fitting"
)
@pytest.mark.slow_cases("QuadraticDiscriminantAnalysis()-check_sample_weight")
@pytest.mark.slow_cases("shrinkage", "reg_param")
@pytest.mark.filterwarnings("ignore:the covariance within the classes has rank")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        GaussianNB(),
        LinearDiscriminantAnalysis(),
        LinearDiscriminantAnalysis(shrinkage="auto"),
        QuadraticDiscriminantAnalysis(),
        QuadraticDiscriminantAnalysis(reg_param=0.1),
        QuadraticDiscriminantAnalysis(shrinkage=0.5, reg_param=0.1),
        GaussianDiscriminantAnalysis(),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


SHRINKAGES = (None, 0.3, "auto", "oas")
SETTINGS = [
    GaussianNB(exact=True),
    GaussianNB(missing="marginal"),
    LinearDiscriminantAnalysis(exact=True),
    LinearDiscriminantAnalysis(missing="marginal", store_covariance=True, n_components=1),
    *(LinearDiscriminantAnalysis(solver, one) for solver in ("svd", "lsqr", "eigen") for one in SHRINKAGES),
    LinearDiscriminantAnalysis("eigen", 0.3, exact=True),
    *(
        QuadraticDiscriminantAnalysis(solver=solver, shrinkage=one, reg_param=0.1)
        for solver in ("svd", "eigen")
        for one in SHRINKAGES
    ),
    QuadraticDiscriminantAnalysis(exact=True, reg_param=0.1),
    QuadraticDiscriminantAnalysis(missing="marginal", singular="skip", reg_param=0.1),
]


def failed_checks(estimator):
    return {
        check["check_name"]: str(check["exception"])
        for check in check_estimator(estimator, on_fail=None, on_skip=None)
        if check["status"] == "failed"
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("estimator", SETTINGS, ids=str)
def test_scikit_learns_own_checks_of_each_setting(estimator):
    """Solver "lsqr" has no transform, and so fails the checks that scikit-learn's fails too.

    With missing="marginal", NaN in rows to predict is no error.
    """
    failures = failed_checks(estimator)
    if getattr(estimator, "solver", None) == "lsqr":
        assert {message.split(" (")[0] for message in failures.values()} == {
            "transform not implemented for 'lsqr' solver"
        }
        theirs = failed_checks(discriminant_analysis.LinearDiscriminantAnalysis("lsqr"))
        of_weights = {f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")}
        assert set(failures) - set(theirs) <= of_weights  # checks that theirs, without weights, is not put to
    else:
        assert set(failures) <= ({"check_estimators_nan_inf"} if estimator.missing == "marginal" else set())


def test_scikit_learns_qda_raises_on_the_data_of_the_checks_that_fail():
    X = np.array([[1, 3], [1, 3], [1, 3], [1, 3], [2, 1], [2, 1], [2, 1], [2, 1]] * 2)
    y = np.array([1, 1, 1, 1, 2, 2, 2, 2] * 2)  # as in check_sample_weights_shape
    for model in (QuadraticDiscriminantAnalysis(), discriminant_analysis.QuadraticDiscriminantAnalysis()):
        with pytest.raises(np.linalg.LinAlgError, match="class 1"):
            model.fit(X, y)


def rows(n_classes=3, n_features=4, n=600, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    mixing = rng.normal(size=(n_classes, n_features, n_features)) + 2 * np.eye(n_features)
    X = np.einsum("nd,nde->ne", rng.normal(size=(n, n_features)), mixing[y])
    return X + rng.normal(size=(n_classes, n_features))[y] + offset, y


def assert_same_predictions(ours, theirs, X):
    assert np.array_equal(ours.classes_, theirs.classes_)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-10, atol=1e-12)


class TestInsideScikitLearn:
    def test_weights_are_routed(self, model):
        X, y = rows()
        weights = np.arange(len(y)) % 3 + 1
        with sklearn.config_context(enable_metadata_routing=True):
            scaler = StandardScaler().set_fit_request(sample_weight=False)
            routed = make_pipeline(scaler, model().set_fit_request(sample_weight=True))
            routed.fit(X, y, sample_weight=weights)
            asked = model().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
            cross_validate(asked, X, y, params={"sample_weight": weights}, cv=3, error_score="raise")
        assert routed[-1].statistics_.weights.sum() == weights.sum()

    @pytest.mark.parametrize("priors", [None, [0.2, 0.3, 0.5]])
    @pytest.mark.parametrize("names", [None, ["a", "b", "c", "d"]])
    def test_exchanged_for_scikit_learns(self, model, priors, names):
        X, y = rows(offset=3.0)
        X = X if names is None else pd.DataFrame(X, columns=names)
        ours = model(priors=priors).fit(X, np.array(["x", "y", "z"])[y])
        theirs = ours.to_sklearn()
        assert type(theirs) is PEERS[model]
        assert_same_predictions(ours, theirs, X)
        assert list(getattr(theirs, "feature_names_in_", [])) == (names or [])


def test_scikit_learns_naive_bayes_is_taken_over_and_goes_on_learning():
    X, y = rows(offset=3.0)
    X, y = pd.DataFrame(X).add_prefix("x"), np.array(["x", "y", "z"])[y]
    peer = naive_bayes.GaussianNB().fit(X[:300], y[:300])
    taken = GaussianNB.from_sklearn(peer)
    assert taken.statistics_.counts.tolist() == peer.class_count_.tolist()
    assert_same_predictions(taken, peer, X)
    assert_same_predictions(taken.partial_fit(X[300:], y[300:]), naive_bayes.GaussianNB().fit(X, y), X)
    with pytest.raises(NotFittedError):
        GaussianNB.from_sklearn(naive_bayes.GaussianNB())
    with pytest.raises(TypeError, match="GaussianNB is needed; got StandardScaler"):
        GaussianNB.from_sklearn(StandardScaler().fit(X))


@pytest.mark.parametrize("columns", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_variances_along_principal_axes_keep_their_digits_in_unlike_units(columns):
    X, y = rows()
    X = (X[:, :3] * [1e6, 1, 1e-6])[:, columns]
    ours = QuadraticDiscriminantAnalysis().fit(X, y)
    for k in range(3):
        correlations = np.corrcoef(X[y == k], rowvar=False)
        product = np.linalg.det(correlations) * X[y == k].var(axis=0).prod()  # the determinant
        assert ours.scalings_[k].prod() == pytest.approx(product, rel=1e-10)
    assert (ours.to_sklearn().predict(X) == ours.predict(X)).all()


def test_what_is_not_fitted_is_neither_handed_over_nor_saved(model, tmp_path):
    for hand_over in (model().to_sklearn, lambda: model().save(tmp_path / "model.parquet")):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            hand_over()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "model",
    [
        *(kind(shrinkage=shrinkage) for kind in MODELS[1:] for shrinkage in SHRINKAGES[1:]),
        QuadraticDiscriminantAnalysis(pooling="bayes"),
        GaussianNB(pooling=0.2),
        GaussianDiscriminantAnalysis(),
    ],
    ids=str,
)
def test_a_regularised_model_is_exchanged(model):
    X, y = rows()
    theirs = model.fit(X, y).to_sklearn()
    assert_same_predictions(model, theirs, X)
    if getattr(model, "shrinkage", None):
        assert_same_predictions(model, clone(theirs).fit(X, y), X)


@pytest.mark.parametrize("priors", [None, [0.2, 0.3, 0.4, 0.1]])
def test_classes_announced_to_scikit_learns_naive_bayes_and_never_seen_are_left_out(priors):
    X, y = rows()
    peer = naive_bayes.GaussianNB(priors=priors)
    peer.partial_fit(X, y + (y == 2), classes=[0, 1, 2, 3])
    taken = GaussianNB.from_sklearn(peer)
    assert taken.classes_.tolist() == [0, 1, 3]
    of_seen = None if priors is None else np.array([2, 3, 1]) / 6
    expected = naive_bayes.GaussianNB(priors=of_seen).fit(X, y + (y == 2))
    assert_same_predictions(taken, expected, X)


def test_components_within_the_classes_are_white_and_named():
    X, y = rows(4, 6)
    ours = LinearDiscriminantAnalysis(n_components=2).fit(X, y)
    projected = ours.transform(X)
    within = sum(np.cov(projected[y == k].T, bias=True) * (y == k).mean() for k in range(4))
    np.testing.assert_allclose(within, np.eye(2), atol=1e-12)
    assert ours.explained_variance_ratio_.shape == (2,)
    names = ["lineardiscriminantanalysis0", "lineardiscriminantanalysis1"]
    assert list(ours.get_feature_names_out()) == names
    assert ours.set_output(transform="pandas").transform(X).columns.tolist() == names


def test_projecting_float32_rows_holds_no_float64_copy_of_them():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150_000, 50)).astype(np.float32), np.arange(150_000) % 2
    fitted = LinearDiscriminantAnalysis().fit(X, y)
    wide = LinearDiscriminantAnalysis().fit(X.astype(np.float64), y)
    expected = ((X - wide.xbar_) @ wide.scalings_).astype(np.float32)
    tracemalloc.start()
    try:
        projected = fitted.transform(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert projected.dtype == np.float32
    np.testing.assert_allclose(projected, expected, rtol=1e-6, atol=1e-6)
    assert peak < X.nbytes / 2  # a copy would be twice as much as X itself


def test_principal_axes_give_the_covariances_back():
    X, y = rows()
    model = QuadraticDiscriminantAnalysis(shrinkage="oas", reg_param=0.1, store_covariance=True).fit(X, y)
    for covariance, axes, values in zip(model.covariance_, model.rotations_, model.scalings_, strict=True):
        np.testing.assert_allclose((axes * values) @ axes.T, covariance, atol=1e-12)
        assert (np.diff(values) <= 0).all()


@pytest.mark.slow_cases("Quadratic")
def test_rows_are_scored_some_at_a_time_with_thousands_of_classes(model):
    """So memory is bounded beside the result, and a block is never a handful of rows."""
    n_classes = 3_000
    y = np.arange(n_classes * 5) % n_classes
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + y[:, None]
    fitted = model().fit(X, y)
    blocks = [len(scores.rows) for scores in score_rows(fitted, X)]
    assert sum(blocks) == len(X)
    assert 50 < max(blocks)
    assert max(blocks) * n_classes <= 1 << 22  # scores: 32 MB
    together = fitted.predict_log_proba(X[:200])
    alone = np.concatenate([fitted.predict_log_proba(X[[i]]) for i in range(0, 200, 23)])
    np.testing.assert_allclose(together[::23], alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_classes_with_the_same_mean_have_no_direction_between_them(shrinkage):
    cross = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    model = LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(np.vstack([cross, cross]), [0] * 4 + [1] * 4)
    np.testing.assert_array_equal(model.explained_variance_ratio_, [0.0])
    assert np.isfinite(model.transform(cross)).all()


def test_what_is_done_to_an_attribute_leaves_the_model_as_it_is(model):
    X, y = rows(3, 4)
    priors = np.array([0.2, 0.3, 0.5])
    fitted = model(priors=priors).fit(X, y)
    peer = fitted.to_sklearn()
    expected = fitted.predict_proba(X)
    projected = fitted.transform(X) if hasattr(fitted, "transform") else expected
    for owner in (fitted, peer):
        for name in (name for name in dir(owner) if name.endswith("_") and not name.endswith("__")):
            values = getattr(owner, name)
            for array in values if isinstance(values, list) else [values]:
                if isinstance(array, np.ndarray) and array.dtype.kind == "f":
                    array.fill(0.0)
    np.testing.assert_array_equal(priors, [0.2, 0.3, 0.5])
    priors[:] = [0.5, 0.4, 0.1]  # nor does this
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)
    np.testing.assert_array_equal(getattr(fitted, "class_prior_", fitted.priors_), [0.2, 0.3, 0.5])
    if hasattr(fitted, "transform"):
        np.testing.assert_array_equal(fitted.transform(X), projected)


@pytest.mark.parametrize(
    "use",
    [
        lambda source: make_pipeline(StandardScaler(), GaussianNB()).fit(source),
        lambda source: GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}).fit(source),
        lambda source: cross_validate(GaussianNB(), source),
        lambda source: CalibratedClassifierCV(GaussianNB()).fit(source, [0, 1, 2] * 10),
        lambda source: naive_bayes.GaussianNB().fit(source, [0, 1]),
        lambda source: StandardScaler().fit(source),
    ],
)
def test_a_source_given_to_scikit_learns_own_is_answered_with_what_takes_it(use):
    table = pa.table({"u": np.arange(30.0), "y": np.arange(30) % 3})
    source = scan_arrow(table, "y")
    with pytest.raises(
        TypeError,
        match=r"Table: 1 feature.* is a source, and rows in memory .* the fit of .* StatisticsSearchCV",
    ):
        use(source)
    assert make_pipeline(GaussianNB()).fit(source).predict(pd.DataFrame({"u": [1.0]})) in range(3)
