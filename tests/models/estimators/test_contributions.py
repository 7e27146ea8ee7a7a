"""Contributions are the Shapley values of all subsets of features over all rows learnt."""

from itertools import combinations
from math import factorial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn import config_context

from streamgda import (
    Categorical,
    GaussianNB,
    LeafClassifier,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    RidgeClassifier,
)

CATEGORIES = [Categorical(model="conditional"), Categorical(model="dummies")]


def frame(n=80, categories=True, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 3, columns=list("abc"))
    y = rng.integers(0, 3, n)
    X["a"] += y
    if categories:
        X.insert(1, "kind", rng.choice(list("uvw"), n))
    return X, y, rng.random(n) + 0.2


@st.composite
def models(draw):
    """An estimator with any parameters, and whether its rows have categories."""
    kind = draw(
        st.sampled_from(
            [QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis, GaussianNB, RidgeClassifier]
        )
    )
    shares, has_categories = st.floats(0.05, 0.9), draw(st.booleans())
    options = {"temperature": st.floats(0.3, 5)}
    if kind is not RidgeClassifier:
        options["priors"] = st.sampled_from([None, [0.2, 0.3, 0.5]])
    if kind is QuadraticDiscriminantAnalysis:
        options |= {"reg_param": shares, "pooling": shares | st.just("bayes")}
    if kind in (QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis):
        options["shrinkage"] = shares | st.just("oas") if kind is LinearDiscriminantAnalysis else shares
    chosen = {name: draw(option) for name, option in options.items() if draw(st.booleans())}
    if has_categories and kind is LinearDiscriminantAnalysis:
        chosen["categories"] = draw(st.sampled_from(CATEGORIES))
    elif has_categories and kind is QuadraticDiscriminantAnalysis:
        chosen["categories"] = CATEGORIES[0]
    return kind(exact=draw(st.booleans()), **chosen), has_categories


def shapley(model, X, groups, weights=None):
    """Shapley values of the log-odds of classes 2 and 0 of the first row, by subsets of groups of columns.

    Also their mean over all rows, and the largest term of the sums.
    """
    subsets = [own for size in range(len(groups) + 1) for own in combinations(range(len(groups)), size)]
    first = X.iloc[0].to_dict()
    rows = [X.assign(**{name: first[name] for j in own for name in groups[j]}) for own in subsets]
    logs = model.predict_log_proba(pd.concat(rows)).reshape(len(subsets), len(X), -1)
    means = np.average(logs[..., 2] - logs[..., 0], weights=weights, axis=1)
    values, result = dict(zip(subsets, means, strict=True)), np.zeros(len(groups))
    for j in range(len(groups)):
        for own in (own for own in subsets if j not in own):
            weight = factorial(len(own)) * factorial(len(groups) - len(own) - 1) / factorial(len(groups))
            result[j] += weight * (values[tuple(sorted((*own, j)))] - values[own])
    return result, values[()], abs(logs[..., [0, 2]]).max()


@example((QuadraticDiscriminantAnalysis(categories=CATEGORIES[0]), True), 0, 0.0, True)
@example((LinearDiscriminantAnalysis(categories=CATEGORIES[1]), True), 0, 1e8, True)
@settings(max_examples=settings.default.max_examples // 2)
@given(models(), st.integers(0, 10**6), st.sampled_from([0.0, 1e5, 1e8]), st.booleans())
def test_contributions_are_those_of_all_subsets_over_all_rows(drawn, seed, offset, is_announced):
    model, categories = drawn
    X, y, weights = frame(categories=categories, seed=seed)
    weights = np.ceil(3 * weights) if model.exact else weights
    X["c"] += offset
    classes = [0, 1, 2, 7] if is_announced and model.priors is None else None
    model.partial_fit(X, y, classes=classes, sample_weight=weights)
    values, base = model.contributions(X[:1], label=2, against=0)
    expected, mean, size = shapley(model, X, [[name] for name in model.feature_names_in_], weights)
    assert_allclose(values[0], expected, rtol=0, atol=1e-10 * size)
    assert_allclose(base, mean, rtol=0, atol=1e-10 * size)
    values, base = model.contributions(X)
    logs = np.sort(model.predict_log_proba(X), axis=1)
    assert_allclose(values.sum(axis=1) + base, logs[:, -1] - logs[:, -2], rtol=0, atol=1e-10 * size)


@pytest.mark.parametrize("kind", [QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis, RidgeClassifier])
def test_rows_of_dask_have_them_and_frames_come_where_frames_are_asked_for(kind):
    X, y, _ = frame(categories=False)
    X.index += 7
    model = kind().fit(X, y)
    values, base = model.contributions(X)
    assert isinstance(values, np.ndarray)
    lazy = model.contributions(dd.from_pandas(X, npartitions=2))
    pd.testing.assert_frame_equal(lazy[0].compute(), pd.DataFrame(values, X.index, X.columns))
    assert_allclose(lazy[1].compute(), base)
    lazy = kind().fit(X.to_numpy(), y).contributions(da.from_array(X.to_numpy(), chunks=(30, 3)))
    assert_allclose(lazy[0].compute(), values)
    assert_allclose(lazy[1].compute(), base)
    pd.testing.assert_frame_equal(
        model.set_output(transform="pandas").contributions(X)[0], pd.DataFrame(values, X.index, X.columns)
    )


def test_frames_of_polars_come_where_they_are_asked_for():
    pytest.importorskip("polars")
    X, y, _ = frame(categories=False)
    model = LinearDiscriminantAnalysis().fit(X.to_numpy(), y)
    with config_context(transform_output="polars"):
        assert model.contributions(X.to_numpy())[0].columns == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    "kind", [GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, RidgeClassifier]
)
def test_those_of_sparse_rows_are_dense_and_the_same(kind):
    X, y, _ = frame(700, categories=False)
    X = np.where(abs(X.to_numpy() - 3) > 1, X, 0.0)
    model = kind().fit(X, y)
    for found, expected in zip(model.contributions(csr_array(X)), model.contributions(X), strict=True):
        assert isinstance(found, np.ndarray)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_the_values_of_the_places_of_a_list_add_up_to_that_of_the_list():
    X, y, _ = frame(categories=False)
    lists = pa.table(
        {"a": X["a"], "bc": pa.array(X[["b", "c"]].to_numpy().tolist(), pa.list_(pa.float64(), 2))}
    )
    model = QuadraticDiscriminantAnalysis().fit(lists.to_pandas(), y)
    X.columns = model.feature_names_in_

    (values,), _ = model.contributions(X[:1], 2, 0)
    assert_allclose([values[0], values[1:].sum()], shapley(model, X, [["a"], ["bc_0", "bc_1"]])[0], rtol=1e-9)


def test_contributions_are_those_of_shap_for_linear_log_odds():
    shap = pytest.importorskip("shap")
    X, y, _ = frame(categories=False)
    model = LinearDiscriminantAnalysis().fit(X.to_numpy(), y > 0)
    peer = shap.LinearExplainer(
        (model.coef_, model.intercept_), shap.maskers.Independent(X.to_numpy(), len(X))
    )
    values, base = model.contributions(X.to_numpy(), True, False)
    assert_allclose(values, peer.shap_values(X.to_numpy()).reshape(values.shape), rtol=1e-9, atol=1e-12)
    assert_allclose(base, np.full(len(X), peer.expected_value), rtol=1e-9)


def test_what_has_none_says_so():
    X, y, _ = frame(150, categories=False)
    for model in (
        MixtureDiscriminantAnalysis(2),
        RandomFeatureClassifier(features=50),
        LeafClassifier(),
        QuadraticDiscriminantAnalysis(predictive="student"),
        GaussianNB(missing="marginal"),
    ):
        with pytest.raises(ValueError, match="contributions"):
            model.fit(X, y).contributions(X)
    model = GaussianNB().partial_fit(X, y, classes=[0, 1, 2, 9])
    for pair, message in (
        ((1, 1), "1 twice"),
        ((None, 1), "give label="),
        ((7, None), "7"),
        ((1, 9), "no row of class 9"),
    ):
        with pytest.raises(ValueError, match=message):
            model.contributions(X, *pair)
    with pytest.raises(ValueError, match="row 0 is too far from the classes"):
        model.contributions(X[:1] * 1e200, 1, 0)
    values, base = GaussianNB(priors=[0.5, 0.5, 0.0]).fit(X, y).contributions(X, 2, 0)
    assert np.isfinite(values).all()
    assert np.isneginf(base).all()
    X, y, _ = frame()
    model = QuadraticDiscriminantAnalysis(categories=Categorical(model="conditional")).fit(X, y)
    unknown = X.assign(kind=["q" if i == 4 else kind for i, kind in enumerate(X["kind"])])
    with (
        pytest.warns(UserWarning, match="of 'kind' in 1 row"),
        pytest.raises(ValueError, match="row 4: the category of column 'kind' is unknown"),
    ):
        model.contributions(unknown)
