"""Random data and parameters: what scikit-learn and we both accept comes out the same.

What differs on purpose, and is drawn nowhere here, is in ``test_differences.py``.
"""

import warnings

import numpy as np
import pytest
from sklearn import discriminant_analysis, naive_bayes

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

KINDS = {
    "lda": (LinearDiscriminantAnalysis, discriminant_analysis.LinearDiscriminantAnalysis),
    "qda": (QuadraticDiscriminantAnalysis, discriminant_analysis.QuadraticDiscriminantAnalysis),
    "nb": (GaussianNB, naive_bayes.GaussianNB),
}
ATTRIBUTES = {
    "lda": ("coef_", "intercept_", "means_", "priors_", "xbar_", "covariance_", "explained_variance_ratio_"),
    "qda": ("means_", "priors_", "scalings_", "covariance_"),
    "nb": ("theta_", "var_", "epsilon_", "class_count_", "class_prior_"),
}


def draw_rows(rng, n_features, n_classes, kind):
    """Rows of skewed classes in unlike units, with constant or collinear features where they are no error."""
    n_rows = n_classes * int(rng.choice([3 * n_features + 5, 60]))
    y = np.append(np.repeat(np.arange(n_classes), 2 * n_features + 2), rng.integers(0, n_classes, n_rows))
    mixing = rng.normal(size=(n_features, n_features)) + 2 * np.eye(n_features)
    X = rng.normal(size=(len(y), n_features)) @ mixing + 2 * rng.normal(size=(n_classes, n_features))[y]
    if kind == "nb":
        X = np.column_stack([X, X[:, 0], np.full(len(X), 7.25)])
        X, y = np.vstack([X, X[:1] + 1]), np.append(y, n_classes)  # a class of one row
    return X.astype(rng.choice([np.float32, np.float64])), y


def draw_params(rng, kind, n_classes):
    params = {}
    if rng.random() < 0.4:
        priors = rng.random(n_classes) * (rng.random(n_classes) < 0.8) + 0.01 * (np.arange(n_classes) < 2)
        params["priors"] = priors / priors.sum()
    shrinkage = [None, 0.0, 0.2, 1.0, "auto"][rng.integers(5)]
    if kind == "nb":
        return {**params, "var_smoothing": float(rng.choice([1e-9, 1e-2]))}
    if kind == "qda":
        eigen = {"solver": "eigen", "shrinkage": shrinkage}
        svd = {"solver": "svd", "reg_param": float(rng.choice([0.0, 0.1]))}
        return {**params, **(eigen, svd)[rng.integers(2)], "store_covariance": True}
    solver = "svd" if "priors" in params else str(rng.choice(["svd", "lsqr", "eigen"]))
    params["n_components"] = None if rng.random() < 0.7 else 1
    return {**params, "solver": solver, "shrinkage": None if solver == "svd" else shrinkage}


def assert_close(found, expected, tolerance, name):
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert found.shape == expected.shape, name
    finite = np.isfinite(expected)
    assert (np.isfinite(found) == finite).all(), name
    scale = np.abs(expected[finite]).max(initial=0)
    np.testing.assert_allclose(
        found[finite], expected[finite], rtol=tolerance, atol=tolerance * scale, err_msg=name
    )


@pytest.mark.slow_cases("-3", "-4", "-5", "-6", "-7", "-8", "-9", "-10", "-11")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n_classes", [2, 3, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_both_come_to_the_same(kind, n_classes, seed):
    rng = np.random.default_rng([seed, n_classes, len(kind)])
    X, y = draw_rows(rng, int(rng.choice([1, 2, 5])), n_classes, kind)
    params, weights = draw_params(rng, kind, len(np.unique(y))), {}
    if kind == "nb" and params["var_smoothing"] < 1e-8 and rng.random() < 0.5:
        weights = {"sample_weight": rng.choice([0.5, 1.0, 3.5], len(y))}
    with warnings.catch_warnings(action="ignore"):
        ours, theirs = (model(**params).fit(X, y, **weights) for model in KINDS[kind])
        digits = 1e-3 if X.dtype == np.float32 else 1e-7
        zero_prior = "priors" in params and not params["priors"].all()
        for name in ATTRIBUTES[kind]:
            assert hasattr(ours, name) == hasattr(theirs, name), (name, params)
            differs = (name == "epsilon_" and weights) or (name in ("coef_", "intercept_") and zero_prior)
            if hasattr(theirs, name) and not differs:
                assert_close(getattr(ours, name), getattr(theirs, name), digits, f"{name} {params}")
        assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.99
        for method in ("predict_proba", "decision_function", "transform"):
            if hasattr(theirs, method) and not (method == "transform" and ours.solver == "lsqr"):
                found, expected = getattr(ours, method)(X), getattr(theirs, method)(X)
                if method == "transform":  # a sign may be arbitrary, as where a class has a prior of zero
                    found = found * np.sign((found * expected).sum(axis=0))
                assert_close(found, expected, 10 * digits, f"{method} {params}")
