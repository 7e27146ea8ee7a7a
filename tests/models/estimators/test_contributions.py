"""Contributions are the Shapley values of all subsets of features over all rows learnt."""

from itertools import combinations
from math import factorial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from streamgda import (
    Categorical,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    RidgeClassifier,
)

MODELS = [
    QuadraticDiscriminantAnalysis(shrinkage=0.1, temperature=2.0),
    QuadraticDiscriminantAnalysis(pooling=0.3, priors=[0.2, 0.3, 0.5]),
    QuadraticDiscriminantAnalysis(reg_param=0.2, categories=Categorical(model="conditional")),
    LinearDiscriminantAnalysis(shrinkage="oas", categories=Categorical(model="dummies")),
    LinearDiscriminantAnalysis(),
    GaussianNB(),
    RidgeClassifier(),
]


def frame(n=80, categories=True, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 3, columns=list("abc"))
    y = rng.integers(0, 3, n)
    X["a"] += y
    if categories:
        X.insert(1, "kind", rng.choice(list("uvw"), n))
    return X, y, rng.random(n) + 0.2


def shapley(value, d):
    """The Shapley values of a function of subsets of d features."""
    values = {own: value(own) for size in range(d + 1) for own in combinations(range(d), size)}
    result = np.zeros(d)
    for i in range(d):
        for own in (own for own in values if i not in own):
            weight = factorial(len(own)) * factorial(d - len(own) - 1) / factorial(d)
            result[i] += weight * (values[tuple(sorted((*own, i)))] - values[own])
    return result, values[()]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("categories", [False, True])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 15))])
def test_contributions_are_those_of_all_subsets_over_all_rows(model, categories, seed):
    X, y, weights = frame(categories=categories, seed=seed)
    model = model.fit(X, y, weights)
    values, base = model.contributions(X[:1], label=2, against=0)

    def mean_of(own):
        rows = X.copy()
        for j in own:
            rows[model.feature_names_in_[j]] = X[model.feature_names_in_[j]].iloc[0]
        logs = model.predict_log_proba(rows)
        return np.average(logs[:, 2] - logs[:, 0], weights=weights)

    expected, mean = shapley(mean_of, X.shape[1])
    np.testing.assert_allclose(values[0], expected, rtol=1e-9, atol=1e-10 * abs(expected).max())
    np.testing.assert_allclose(base, mean, rtol=1e-9, atol=1e-10)
    values, base = model.contributions(X)
    logs = np.sort(model.predict_log_proba(X), axis=1)
    np.testing.assert_allclose(values.sum(axis=1) + base, logs[:, -1] - logs[:, -2], atol=1e-9)


def test_dask_rows_have_them_too():
    X, y, _ = frame(categories=False)
    model = QuadraticDiscriminantAnalysis().fit(X, y)
    values, base = model.contributions(X)
    for rows in (dd.from_pandas(X, npartitions=2), da.from_array(X.to_numpy(), chunks=(30, 3))):
        lazy = model.fit(X, y).contributions(rows) if hasattr(rows, "columns") else None
        lazy = lazy or QuadraticDiscriminantAnalysis().fit(X.to_numpy(), y).contributions(rows)
        np.testing.assert_allclose(np.asarray(lazy[0].compute()), values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(np.asarray(lazy[1].compute()), base)


def test_what_has_none_says_so():
    X, y, _ = frame(400, categories=False)
    for model in (
        MixtureDiscriminantAnalysis(2),
        RandomFeatureClassifier(features=50),
        QuadraticDiscriminantAnalysis(predictive="student"),
        GaussianNB(missing="marginal"),
    ):
        with pytest.raises(ValueError, match="contributions"):
            model.fit(X, y).contributions(X)
    model = GaussianNB().fit(X, y)
    for pair, message in (((1, 1), "1 twice"), ((None, 1), "give label="), ((7, None), "7")):
        with pytest.raises(ValueError, match=message):
            model.contributions(X, *pair)
    X, y, _ = frame()
    model = QuadraticDiscriminantAnalysis(categories=Categorical(model="conditional")).fit(X, y)
    unknown = X.assign(kind=["q" if i == 4 else kind for i, kind in enumerate(X["kind"])])
    with (
        pytest.warns(UserWarning, match="of 'kind' in 1 row"),
        pytest.raises(ValueError, match="row 4: the category of column 'kind' is unknown"),
    ):
        model.contributions(unknown)
