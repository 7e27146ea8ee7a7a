"""Rows on a device are learnt and scored as on the host, by array-api-strict and PyTorch."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_wine

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    RandomFeatures,
    RidgeClassifier,
    SubclassCenters,
    evaluate,
)
from streamgda.extensions.devices import rows as devices_rows

X, Y = load_wine(return_X_y=True)
X = X / X.std(axis=0)
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2, len(X))
MODELS = [
    QuadraticDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen", temperature=2.0),
    GaussianNB(),
    GaussianDiscriminantAnalysis(),
    RidgeClassifier(),
    MixtureDiscriminantAnalysis(),
    MixtureDiscriminantAnalysis(covariance_type="tied"),
    RandomFeatureClassifier(features=40, products="float64"),
]
ALL = pytest.mark.parametrize("model", MODELS, ids=repr)
ANSWERS = [
    *("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba"),
    *("decision_function", "mahalanobis", "transform"),
]


class Library:
    """A library of arrays, and a device of it."""

    def __init__(self, name):
        self.xp = pytest.importorskip(name)
        self.device = self.xp.Device("device1") if name == "array_api_strict" else self.xp.device("cpu")

    def put(self, array):
        return self.xp.asarray(np.array(array), device=self.device)

    def taken(self, array):
        """The array in NumPy; it must be of the library and on the device."""
        assert type(array) is type(self.put(1.0))
        assert array.device == self.device
        return np.from_dlpack(array)


@pytest.fixture(params=["array_api_strict", "torch"])
def library(request):
    return Library(request.param)


@pytest.fixture(autouse=True)
def dispatch(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    monkeypatch.setattr("scipy._lib._array_api.SCIPY_ARRAY_API", True)  # which is read at import
    quiet = np.errstate(over="ignore", invalid="ignore")  # NumPy is below array-api-strict
    with sklearn.config_context(array_api_dispatch=True), quiet:
        yield


@pytest.mark.slow_cases("GaussianDisc")
@ALL
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
def test_statistics_are_those_of_the_host(library, model, weights):
    put, halves = library.put, [slice(0, 120), slice(120, None)]  # where the third class comes in
    here, there = sklearn.clone(model), sklearn.clone(model)
    for some in halves:
        w = None if weights is None else weights[some]
        here.partial_fit(X[some], Y[some], sample_weight=w)
        there.partial_fit(put(X[some]), put(Y[some]), sample_weight=None if w is None else put(w))
    assert there.statistics_.allclose(here.statistics_, 1e-12)
    fitted = [sklearn.clone(model).fit(rows, Y, weights) for rows in (X, put(X))]
    assert fitted[1].statistics_.allclose(fitted[0].statistics_, 1e-12)
    np.testing.assert_array_equal(fitted[1].predict(X), fitted[0].predict(X))


@pytest.mark.slow_cases("GaussianDisc")
@ALL
@pytest.mark.parametrize("y", [Y, Y > 0], ids=["integers", "bools"])
def test_answers_are_those_of_the_host_on_the_device(library, model, y):
    model = sklearn.clone(model).fit(X, y)
    for name in ANSWERS:
        if hasattr(model, name):
            found = library.taken(getattr(model, name)(library.put(X)))
            expected = getattr(model, name)(X)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    sets = library.taken(model.predict_set(library.put(X), 1.0))
    np.testing.assert_array_equal(sets, model.predict_set(X, 1.0))
    assert model.score(library.put(X), library.put(y)) == pytest.approx(model.score(X, y), abs=1e-6)


def test_what_is_constant_in_a_class_is_on_a_device(library):
    rows, weights = X.copy(), np.random.default_rng(0).choice([0.3, 1.0, 1e8], len(X))
    rows[Y == 1, 2], rows[:, 5] = 1e6 + 0.1, 0.1
    for model in (GaussianNB(), QuadraticDiscriminantAnalysis()):
        state = model.partial_fit(library.put(rows), Y, sample_weight=weights).statistics_
        assert not state.covariance()[1][2].any()
        assert not state.covariance()[:, 5].any()
        assert (state.means[1, 2], *state.means[:, 5]) == (1e6 + 0.1, 0.1, 0.1, 0.1)


def test_relative_distances_and_classes_without_a_density(library):
    model = QuadraticDiscriminantAnalysis(singular="skip").partial_fit(X, Y, classes=[0, 1, 2, 5])
    model.partial_fit(X[:2], [3, 3])
    with pytest.warns(UserWarning, match="class 3 gets no posterior"):
        expected = model.mahalanobis(X)
    assert np.isinf(expected[:, 3:]).all()
    np.testing.assert_allclose(library.taken(model.mahalanobis(library.put(X))), expected, rtol=1e-12)
    np.testing.assert_allclose(
        library.taken(model.predict_proba(library.put(X))), model.predict_proba(X), atol=1e-12
    )
    for kind in (QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis, GaussianNB):
        model = kind().partial_fit(X, Y, classes=[-1, 0, 1, 2])
        relative = model.mahalanobis(X, relative=True)
        found = library.taken(model.mahalanobis(library.put(X), relative=True))
        np.testing.assert_allclose(found, relative, rtol=1e-11, atol=1e-11)


def test_text_is_predicted_in_numpy_and_single_precision_stays(library):
    rows, labels = X.astype(np.float32), np.array(["red", "rose", "white"])[Y]
    here, there = (LinearDiscriminantAnalysis().fit(x, labels) for x in (rows, library.put(rows)))
    there.partial_fit(library.put(rows), labels)
    here.partial_fit(rows, labels)
    predicted = there.predict(library.put(rows))
    np.testing.assert_array_equal(predicted, here.predict(rows))
    projected = library.taken(there.transform(library.put(rows)))
    assert projected.dtype == np.float32
    np.testing.assert_allclose(projected, here.transform(rows), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        library.taken(there.predict_proba(library.put(rows))), here.predict_proba(rows), atol=1e-12
    )


def test_half_precision_and_rows_with_gradients():
    torch = pytest.importorskip("torch")
    half = torch.asarray(X).to(torch.bfloat16)
    rows = half.double().numpy()
    here, there = LinearDiscriminantAnalysis().fit(rows, Y), LinearDiscriminantAnalysis().fit(half, Y)
    there.partial_fit(half, Y)
    here.partial_fit(rows, Y)
    np.testing.assert_allclose(there.predict_proba(half).numpy(), here.predict_proba(rows), atol=1e-12)
    tracked = 2.0 * torch.tensor(X, requires_grad=True)
    assert there.partial_fit(tracked, Y).statistics_.n_rows == 3 * len(X)


@pytest.mark.parametrize(
    "model", [LinearDiscriminantAnalysis("eigen", "auto"), GaussianNB(half_life=50)], ids=repr
)
def test_what_needs_more_than_moments_is_learnt_too(library, model):
    here, there = sklearn.clone(model), sklearn.clone(model)
    for some in (slice(0, 120), slice(120, None)):
        here.partial_fit(X[some], Y[some])
        there.partial_fit(library.put(X[some]), library.put(Y[some]))
    assert there.statistics_.allclose(here.statistics_, 1e-12)


def test_digits_survive_means_of_many_deviations(library):
    far = X + 1e6
    here, there = (LinearDiscriminantAnalysis().fit(x, Y) for x in (far, library.put(far)))
    assert there.statistics_.allclose(here.statistics_, 1e-12)
    np.testing.assert_allclose(there.statistics_.covariance(), here.statistics_.covariance(), rtol=1e-9)


def test_large_batches_are_cut(library, monkeypatch):
    whole = [sklearn.clone(model).fit(library.put(X), Y) for model in MODELS[:4]]
    expected = [library.taken(model.predict_proba(library.put(X))) for model in whole]
    monkeypatch.setattr(devices_rows, "_VALUES_AT_ONCE", 300)
    for model, before, probabilities in zip(MODELS[:4], whole, expected, strict=True):
        cut = sklearn.clone(model).fit(library.put(X), Y)
        assert cut.statistics_.allclose(before.statistics_, 1e-12)
        found = library.taken(cut.predict_proba(library.put(X)))
        np.testing.assert_allclose(found, probabilities, atol=1e-11)


def test_random_features_are_those_of_the_host(library):
    for options in ({}, {"kind": "relu", "include_inputs": False}, {"scale": "common", "metric": "diag"}):
        features = RandomFeatures(50, **options).fit(X[::3], Y[::3])
        made = library.taken(features.transform(library.put(3 * X)))
        np.testing.assert_allclose(made, features.transform(3 * X), rtol=0, atol=1e-6)


def test_rows_between_two_centers_go_to_the_first(library):
    centers = SubclassCenters({0: [[3.0, 2.0], [2.0, 1.0]], 1: [[0.0, 0.0], [1.0, 0.0]]}, 4.25 * np.eye(2))
    rows = np.random.default_rng(0).integers(-3, 5, (300, 2)).astype(float)
    labels = np.arange(300) % 2
    here, there = (
        MixtureDiscriminantAnalysis(centers).fit(x, labels).statistics_ for x in (rows, library.put(rows))
    )
    assert there.counts.tolist() == here.counts.tolist()
    assert there.allclose(here, 1e-12)


def test_errors_name_what_the_host_names(library):
    lacking, far = (np.where(np.arange(len(X))[:, None] == 7, value, X) for value in (np.nan, 1e200))
    for model in (QuadraticDiscriminantAnalysis(), RandomFeatureClassifier(features=20)):
        with pytest.raises(ValueError, match="row 7: feature 0 is NaN"):
            sklearn.clone(model).fit(library.put(lacking), Y)
        with pytest.raises(ValueError, match="row 7: feature 0 is NaN"):
            sklearn.clone(model).fit(X, Y).predict(library.put(lacking))
    with pytest.raises(ValueError, match=r"row 7: feature .*0.* is NaN"):
        RandomFeatures(20).fit(X).transform(library.put(lacking))
    with pytest.raises(ValueError, match="row 7 is too far"):
        QuadraticDiscriminantAnalysis().fit(X, Y).predict_proba(library.put(far))
    dropped = LinearDiscriminantAnalysis().fit(library.put(lacking), Y, missing="drop")
    assert dropped.statistics_.n_dropped == 1
    with pytest.raises(ValueError, match="12 features"):
        dropped.predict(library.put(X[:, 1:]))
    with pytest.raises(ValueError, match="12 features"):
        dropped.partial_fit(library.put(X[:, 1:]), Y)


def test_what_is_refused_says_so(library):
    rows, model = library.put(X), QuadraticDiscriminantAnalysis().fit(X, Y)
    for name, value in (("exact", True), ("missing", "marginal")):
        with pytest.raises(ValueError, match=f"{name}=.*NumPy"):
            QuadraticDiscriminantAnalysis(**{name: value}).fit(rows, Y)
    with pytest.raises(ValueError, match="plugin"):
        QuadraticDiscriminantAnalysis(predictive="student").fit(rows, Y).predict(rows)
    with pytest.raises(TypeError, match="score_samples.*NumPy"):
        model.score_samples(rows)
    for call in (evaluate, QuadraticDiscriminantAnalysis.mahalanobis):
        with pytest.raises(TypeError, match="NumPy"):
            call(model, rows, Y)


def test_without_dispatch_a_device_is_an_error_that_names_it():
    library = Library("array_api_strict")
    model = LinearDiscriminantAnalysis().fit(X, Y)
    with sklearn.config_context(array_api_dispatch=False):
        for call in (model.predict, lambda rows: model.partial_fit(rows, Y)):
            with pytest.raises(TypeError, match=r"array_api_dispatch=True"):
                call(library.put(X))
        assert type(model.predict(library.xp.asarray(X))) is np.ndarray
