"""Models go through `to_sklearn` and skl2onnx to onnxruntime, and keep their probabilities."""

import numpy as np
import pytest
from sklearn import discriminant_analysis
from sklearn.linear_model import LogisticRegression

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def rows(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(600) % n_classes
    noise = rng.normal(size=(600, 4)) @ (np.eye(4) + 0.3 * rng.normal(size=(4, 4)))
    return noise + rng.normal(size=(n_classes, 4))[y] + 3.0, y


def run(estimator, X):
    """The labels and probabilities of a scikit-learn estimator in onnxruntime."""
    graph = skl2onnx.to_onnx(estimator, X[:1], options={"zipmap": False})
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(None, {"X": X})
    return labels.ravel(), probabilities


MODELS = [
    GaussianNB(),
    GaussianNB(var_smoothing=0.1),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(shrinkage="auto"),
    LinearDiscriminantAnalysis("lsqr", 0.3),
    LinearDiscriminantAnalysis("eigen", "oas"),
    QuadraticDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.1),
    QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
]
CASES = [  # but LDA of two classes, of which the next test is
    (model, n_classes)
    for model in MODELS
    for n_classes in (2, 3, 7)
    if n_classes > 2 or not isinstance(model, LinearDiscriminantAnalysis)
]


@pytest.mark.parametrize(("model", "n_classes"), CASES, ids=str)
def test_onnxruntime_has_the_same_probabilities(model, n_classes):
    X, y = rows(n_classes)
    for labels in (y, y.astype(float), np.array([f"class {k}" for k in range(20)])[y]):
        fitted = model.fit(X, labels)
        for dtype in (np.float64, np.float32):
            predicted, probabilities = run(fitted.to_sklearn(), X.astype(dtype))
            np.testing.assert_allclose(probabilities, fitted.predict_proba(X), rtol=0, atol=1e-5)
            assert (predicted == fitted.predict(X)).mean() > 0.99


def test_lda_of_two_classes_goes_through_logistic_regression():
    """skl2onnx takes a softmax of ±(log-odds), also of scikit-learn's own LDA: onnx/sklearn-onnx #1116."""
    X, y = rows(2)
    fitted = LinearDiscriminantAnalysis().fit(X, y)
    for wrong in (fitted.to_sklearn(), discriminant_analysis.LinearDiscriminantAnalysis().fit(X, y)):
        odds = np.exp(2 * fitted.decision_function(X))
        np.testing.assert_allclose(run(wrong, X)[1][:, 1], odds / (1 + odds), rtol=0, atol=1e-5)
    linear = LogisticRegression()
    linear.classes_, linear.coef_, linear.intercept_ = fitted.classes_, fitted.coef_, fitted.intercept_
    np.testing.assert_allclose(run(linear, X)[1], fitted.predict_proba(X), rtol=0, atol=1e-5)
