"""Rows that weigh next to nothing change next to nothing: all that a model or a comparison shows."""

import dataclasses
import inspect

import numpy as np
import pytest

from streamgda import (
    ClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    RandomFeatures,
    RidgeClassifier,
    Subclasses,
    drift,
    evaluate,
)
from streamgda.diagnostics import box_m, manova

RNG = np.random.default_rng(0)
Y = np.arange(120) % 3
X = RNG.normal(size=(120, 4)) @ RNG.normal(size=(4, 4)) + Y[:, None]
WEIGHTS = RNG.random(120) + 0.5
FAR, THEIRS = RNG.normal(5, 3, size=(2000, 4)), RNG.integers(0, 3, 2000)
ROWS = X, Y, WEIGHTS
WITH_MORE = np.vstack([FAR, X]), np.append(THEIRS, Y), np.append(np.full(2000, 1e-12), WEIGHTS)

MODELS = [
    *(QuadraticDiscriminantAnalysis(shrinkage=shrinkage) for shrinkage in (None, "auto", "oas")),
    *(QuadraticDiscriminantAnalysis(pooling=pooling, predictive="student") for pooling in ("bayes", 0.3)),
    *(LinearDiscriminantAnalysis(shrinkage=shrinkage) for shrinkage in (None, "bayes", "oas")),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto", predictive="student"),
    *(GaussianNB(pooling=pooling, predictive="student") for pooling in ("bayes", None)),
    GaussianNB(missing="marginal"),
    GaussianDiscriminantAnalysis(),
    MixtureDiscriminantAnalysis(Subclasses(2, rows_per_class=30)),
    RidgeClassifier(),
    RandomFeatureClassifier(features=RandomFeatures(50), calibration_rows=100),
]


def numbers_of(shown, name=""):
    """All the numbers of an object's public properties or fields, by name."""
    if dataclasses.is_dataclass(shown) and not hasattr(shown, "fit"):
        shown = {field.name: getattr(shown, field.name) for field in dataclasses.fields(shown)}
    if isinstance(shown, dict | list | tuple):
        parts = shown.items() if isinstance(shown, dict) else enumerate(shown)
        return {key: value for k, part in parts for key, value in numbers_of(part, f"{name} {k}").items()}
    array = np.asarray(shown)
    return {name: array.astype(float)} if array.dtype.kind in "bif" else {}


def properties_of(shown):
    """The public properties that an object has."""
    names = [name for name, _ in inspect.getmembers(type(shown), lambda value: isinstance(value, property))]
    public = [name for name in names if not name.startswith("_") and hasattr(shown, name)]
    return numbers_of({name: getattr(shown, name) for name in public})


def assert_same(shown, with_more):
    assert shown.keys() == with_more.keys()
    for name in {key for key in shown if "rows" not in key}:  # the number of rows is a count of them
        largest = np.abs(shown[name]).max(initial=0.0, where=np.isfinite(shown[name]))
        np.testing.assert_allclose(with_more[name], shown[name], rtol=1e-6, atol=1e-6 * largest, err_msg=name)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_what_a_model_shows(model):
    shown = [
        properties_of(model.fit(*rows))
        | numbers_of([model.predict_proba(X), model.statistics_.effective_counts])
        for rows in (ROWS, WITH_MORE)
    ]
    assert_same(*shown)


def test_what_comparisons_show():
    states = [ClassStatistics().update(*rows) for rows in (ROWS, WITH_MORE)]
    model = QuadraticDiscriminantAnalysis().fit(*ROWS)
    moved = ClassStatistics().update(X + 0.3, Y)
    shown = []
    for state, rows in zip(states, (ROWS, WITH_MORE), strict=True):
        compared = [drift(moved, state).drift, drift(state, moved).drift, box_m(state), manova(state)]
        judged = evaluate(model, rows[0], rows[1], sample_weight=rows[2])
        quantiles = [judged.conformal_quantile(0.9), judged.conformal_quantile(0.9, by="class")]
        shown.append(numbers_of([*compared, quantiles, judged.best_temperature]) | properties_of(judged))
    assert_same(*shown)
