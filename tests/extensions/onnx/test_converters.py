"""Converted models have the same labels and probabilities in onnxruntime, alone and in a Pipeline."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import streamgda.onnx
from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LeafClassifier,
    LeafFeatures,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True, scope="module")
def registered():
    streamgda.onnx.register()


def rows(n_classes, seed=0, n=900):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    noise = rng.normal(size=(n, 4)) @ (np.eye(4) + 0.3 * rng.normal(size=(4, 4)))
    return noise + rng.normal(size=(n_classes, 4))[y] + 3.0, y


def run(estimator, X):
    graph = skl2onnx.to_onnx(estimator, X[:1], options={"zipmap": False})
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    columns = {name: X[[name]].to_numpy() for name in X} if isinstance(X, pd.DataFrame) else {"X": X}
    return session.run(None, columns)


def check(model, X):
    """Float64 to the last digits, and float32 as float32 holds them."""
    for dtype, atol in ((np.float64, 1e-12), (np.float32, 1e-5)):
        given = X.astype(dtype)
        labels, probabilities = run(model, given)
        assert probabilities.dtype == dtype
        np.testing.assert_allclose(probabilities, model.predict_proba(given), rtol=0, atol=atol)
        np.testing.assert_array_equal(labels, model.predict(given))


MODELS = [
    GaussianNB(),
    GaussianNB(pooling="bayes"),
    LinearDiscriminantAnalysis(temperature=2.5),
    LinearDiscriminantAnalysis("eigen", "oas"),
    QuadraticDiscriminantAnalysis(temperature=0.4),
    QuadraticDiscriminantAnalysis(reg_param=0.1),
    QuadraticDiscriminantAnalysis(pooling=0.5),
    QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    GaussianDiscriminantAnalysis(covariance_model="VEV"),
    GaussianDiscriminantAnalysis(covariance_model="EEI"),
    *(
        MixtureDiscriminantAnalysis({0: 3, 1: 2}, covariance_type=kind, temperature=3.0)
        for kind in ("full", "tied", "diag")
    ),
]


@pytest.mark.slow_cases("oas", "-2")
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_onnxruntime_has_the_same_probabilities(model, n_classes):
    X, y = rows(n_classes)
    check(model.fit(X, y), X)


def test_labels_are_strings_or_whole_numbers():
    X, y = rows(3)
    for labels in (np.array(["b", "a", "ç"])[y], y.astype(float), y > 0):
        check(GaussianNB().fit(X, labels), X)


def test_priors_far_classes_and_means_beyond_float64():
    X, y = rows(3)
    for estimator in (GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis):
        check(estimator(priors=[0.0, 0.9, 0.1]).fit(X, y), X)
        far = X + 1e4 * y[:, None]
        check(estimator().fit(far, y), far)
        shifted = estimator().fit(X + 2.0**40, y)
        given = X + 2.0**40
        np.testing.assert_allclose(run(shifted, given)[1], shifted.predict_proba(given), rtol=0, atol=1e-12)


def test_singular_covariances():
    X, y = rows(3)
    collinear = np.column_stack([X, X[:, 0] + X[:, 1]])
    with pytest.warns(UserWarning, match="rank 4 of 5"):
        lda = LinearDiscriminantAnalysis().fit(collinear, y)
        check(lda, collinear)
    keep = (y < 2) | (np.arange(len(y)) < 6)  # two rows of class 2
    with pytest.warns(UserWarning, match="no posterior"):
        qda = QuadraticDiscriminantAnalysis(singular="skip").fit(X[keep], y[keep])
        check(qda, X)
    assert not run(qda, X)[1][:, 2].any()


def test_a_pipeline_converts():
    X, y = rows(3)
    check(make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis()).fit(X, y), X)
    lda = LinearDiscriminantAnalysis().fit(pd.DataFrame(X, columns=list("abcd")), y)
    np.testing.assert_allclose(
        run(lda, X)[1], lda.predict_proba(pd.DataFrame(X, columns=list("abcd"))), atol=1e-12
    )


def test_columns_of_text_are_encoded_before_the_model():
    X, y = rows(3)
    frame = pd.DataFrame({"a": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
    with pytest.raises(ValueError, match=r"values of 'colour'\. Fit it after .*OneHotEncoder"):
        run(GaussianNB().fit(frame, y), frame)
    encoder = OneHotEncoder(drop="first", sparse_output=False)
    columns = make_column_transformer((encoder, ["colour"]), remainder="passthrough")
    model = make_pipeline(columns, LinearDiscriminantAnalysis()).fit(frame, y)
    np.testing.assert_allclose(run(model, frame)[1], model.predict_proba(frame), atol=1e-9)


def test_what_onnx_does_not_have_is_refused_by_name():
    X, y = rows(3)
    for model, parameter in (
        (GaussianNB(missing="marginal"), "missing='raise'"),
        (QuadraticDiscriminantAnalysis(predictive="student"), "predictive='plugin'"),
        (LeafClassifier(features=LeafFeatures(2)), r"no other system has the map .*; to_sklearn\(\) makes"),
    ):
        with pytest.raises(ValueError, match=parameter):
            run(model.fit(X, y), X)
    with pytest.raises(NotFittedError):
        run(GaussianNB(), X)


def test_dates_go_in_as_days():
    X, y = rows(2)
    frame = pd.DataFrame({"x": X[:, 0], "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(X[:, 1], "D")})
    model = LinearDiscriminantAnalysis().fit(frame, y)
    days = frame.assign(when=(frame["when"] - pd.Timestamp(0)) / pd.Timedelta(days=1)).to_numpy()
    np.testing.assert_allclose(run(model, days)[1], model.predict_proba(frame), rtol=0, atol=1e-9)


def test_without_skl2onnx_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r'pip install "streamgda\[onnx\]"'):
        streamgda.onnx.register()
