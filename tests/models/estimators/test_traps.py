"""Models that are legal and of little use are warned of once; healthy ones are not."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from streamgda import (
    DoubtfulModelWarning,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    accumulate,
    scan_arrow,
)
from tests.strategies import MODELS

RNG = np.random.default_rng(0)


def rows(n, d, n_classes=2):
    y = np.arange(n * n_classes) % n_classes
    return RNG.normal(size=(len(y), d)) + y[:, None], y


def warned_of(work):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in found if one.category is DoubtfulModelWarning]


@pytest.mark.parametrize(("n", "d"), [(4, 3), (60, 50)])
@pytest.mark.parametrize("way", ["arrays", "a source", "statistics"])
def test_hardly_more_rows_of_a_class_than_features_are_warned_of(n, d, way):
    X, y = rows(n, d)
    source = scan_arrow(pa.table({**{f"x{j}": X[:, j] for j in range(d)}, "y": y}), "y")
    learn = {
        "arrays": lambda kind, **params: kind(**params).fit(X, y),
        "a source": lambda kind, **params: kind(**params).fit(source),
        "statistics": lambda kind, **params: kind.from_statistics(accumulate(source), **params),
    }[way]
    with pytest.warns(
        DoubtfulModelWarning, match=rf"class 0 \(and 1 more class\) has learnt {n} .* {d} features"
    ):
        model = learn(QuadraticDiscriminantAnalysis)
    assert not warned_of(lambda: model.predict(X))  # once
    for params in ({"pooling": "bayes"}, {"shrinkage": 0.1}, {"reg_param": 0.1}, {"predictive": "student"}):
        assert not warned_of(lambda params=params: learn(QuadraticDiscriminantAnalysis, **params))
    assert not warned_of(lambda: learn(GaussianNB))
    assert not warned_of(lambda: learn(LinearDiscriminantAnalysis))  # of all rows: twice as many


def test_the_covariance_of_all_classes_needs_rows_too():
    X, y = rows(33, 50)
    with pytest.warns(
        DoubtfulModelWarning, match="has learnt 65 .* Set shrinkage='bayes', or use GaussianNB"
    ):
        LinearDiscriminantAnalysis().fit(X, y)
    assert not warned_of(lambda: LinearDiscriminantAnalysis(shrinkage="bayes").fit(X, y))


def test_few_effective_rows_are_few():
    X, y = rows(60, 10)
    weights = np.where(np.arange(120) < 20, 1.0, 1e-3)
    assert not warned_of(lambda: QuadraticDiscriminantAnalysis().fit(X, y, np.full(120, 1e-3)))
    with pytest.warns(DoubtfulModelWarning, match="effective rows of 10 features"):
        QuadraticDiscriminantAnalysis().fit(X, y, weights)


@pytest.mark.parametrize(
    ("half_life", "message"), [(10, "Set a longer half_life, pooling='bayes'"), (500, "")]
)
def test_a_half_life_that_leaves_a_class_less_weight_than_features(half_life, message):
    model, found = QuadraticDiscriminantAnalysis(half_life=half_life), []
    for start in range(0, 600, 4):
        X, y = rows(2, 10)
        model.partial_fit(X, y)
        if start > 80:
            found += warned_of(lambda X=X: model.predict(X[:1]))
    assert len(found) == bool(message)
    assert message in "".join(found)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_feature_that_is_the_label_is_named(kind, learn):
    X, y = rows(100, 3)
    X[:, 1] = 1e3 * (y + 1e-9 * RNG.normal(size=200))
    model = getattr(kind(), learn)
    with pytest.warns(DoubtfulModelWarning, match=r"made of the label. *Leave|\(1\), as if they were made"):
        model(X, y).predict(X)
    far = X + np.outer(y, [0, 1e3, 1e5]) + RNG.normal(size=X.shape)
    assert not warned_of(lambda: kind().fit(far, y))


def test_a_class_that_is_skipped_hides_no_feature_that_is_the_label():
    X, y = rows(100, 3)
    X, y = np.vstack([X, X[:50]]), np.append(y, [2] * 50)
    X[:, 1] = 1e3 * (y + 1e-9 * RNG.normal(size=250))
    X[y == 2, 0] = np.nan
    model = QuadraticDiscriminantAnalysis(missing="marginal", singular="skip")
    with (
        pytest.warns(UserWarning, match="no row has feature 0"),
        pytest.warns(DoubtfulModelWarning, match=r"\(1\)"),
    ):
        model.fit(X, y)


@pytest.mark.parametrize("kind", MODELS[:2])
def test_a_rounded_target_is_no_label(kind):
    X, target = RNG.normal(size=(4000, 2)), np.round(50 * RNG.normal(size=4000))
    with pytest.warns(DoubtfulModelWarning, match="different floats, as of a target that was rounded"):
        kind().fit(X, target)
    assert not warned_of(lambda: kind().fit(X, target.astype(int)))
    assert not warned_of(lambda: kind().fit(X, np.round(target / 5)))
