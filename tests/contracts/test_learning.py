"""A model is that of one fit, however it came by its rows: in batches, merged, from states or files."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from streamgda import (
    Categorical,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RidgeClassifier,
    from_bytes,
    scan_parquet,
)

RNG = np.random.default_rng(0)
Y = np.array(["ash", "birch", "cedar"])[RNG.integers(0, 3, 240)]
CODES = np.searchsorted(["ash", "birch", "cedar"], Y)
NUMBERS = (RNG.normal(size=(240, 4)) @ RNG.normal(size=(4, 4)) + CODES[:, None] * [1, 2, 0, 0]).round(3)
COMPLETE = pd.DataFrame(NUMBERS, columns=list("abcd"))
HOLED = COMPLETE.mask(RNG.random(NUMBERS.shape) < 0.05)
TEXT = COMPLETE.assign(place=np.array(["north", "south", "west"])[(CODES + RNG.integers(0, 2, 240)) % 3])
CENTRES = {kind: NUMBERS[Y == kind][:2] for kind in np.unique(Y)}

MODELS = [
    *(GaussianDiscriminantAnalysis(covariance_model=name) for name in ("VEE", "EVE", "EEV", "EVV", "VVI")),
    *(kind(exact=exact) for kind in (LinearDiscriminantAnalysis, GaussianNB) for exact in (False, True)),
    *(
        kind(pooling=pooling, predictive=predictive)
        for kind in (QuadraticDiscriminantAnalysis, GaussianNB)
        for pooling in ("bayes", 0.3)
        for predictive in ("plugin", "student")
    ),
    QuadraticDiscriminantAnalysis(shrinkage="auto"),
    *(LinearDiscriminantAnalysis(shrinkage=shrinkage) for shrinkage in ("auto", "oas")),
    GaussianDiscriminantAnalysis(exact=True, covariance_model="VEV"),
    *(kind(pooling="bayes", exact=True) for kind in (QuadraticDiscriminantAnalysis, GaussianNB)),
    *(MixtureDiscriminantAnalysis(CENTRES, exact=exact) for exact in (False, True)),
    RidgeClassifier(),
    *(
        kind(missing="marginal", exact=exact)
        for kind in (GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis)
        for exact in (False, True)
    ),
    LinearDiscriminantAnalysis(categories=Categorical(["place"])),
    QuadraticDiscriminantAnalysis(categories=Categorical(["place"], "conditional")),
    GaussianNB(categories=Categorical(["place"]), missing="marginal"),
]


def rows_for(model):
    """Rows as a model is made for: with text, with holes, or of numbers alone."""
    if getattr(model, "categories", "auto") != "auto":
        return TEXT
    return HOLED if getattr(model, "missing", "raise") == "marginal" else COMPLETE


@pytest.mark.slow_cases("True,", "VEV", "DiscriminantAnalysis(missing")
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_model_is_that_of_one_fit_however_it_came_by_its_rows(model, tmp_path):
    X = rows_for(model)
    whole = clone(model).fit(X, Y)
    parts = np.array_split(np.random.default_rng(1).permutation(len(X)), 5)
    streamed = clone(model)
    for i, part in enumerate(parts):
        streamed.partial_fit(X.iloc[part], Y[part])
        if i == 2:
            saved, streamed = streamed, from_bytes(streamed.to_bytes())
            assert streamed.statistics_ == saved.statistics_
            np.testing.assert_array_equal(streamed.predict_proba(X), saved.predict_proba(X))
    learnt = [clone(model).fit(X.iloc[part], Y[part]) for part in (slice(0, 100), slice(100, 240))]
    added = type(model).from_statistics(learnt[0].statistics_ + learnt[1].statistics_, **of_model(model))
    X.assign(kind=Y).to_parquet(tmp_path / "rows.parquet", row_group_size=70)
    assert pq.read_metadata(tmp_path / "rows.parquet").num_row_groups == 4
    read = clone(model).fit(scan_parquet(tmp_path / "rows.parquet", "kind"))
    for other in (streamed, added, read, learnt[1].merge(learnt[0])):
        assert other.statistics_.n_rows == 240
        assert_same(other, whole, X)
        if getattr(model, "exact", False):
            assert other.statistics_ == whole.statistics_
            np.testing.assert_array_equal(other.predict_proba(X), whole.predict_proba(X))
    if getattr(model, "exact", False):
        assert_same(whole, clone(model).set_params(exact=False).fit(X, Y), X)


@pytest.mark.slow_cases("True, missing")
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_an_integer_weight_is_a_repetition(model):
    X = rows_for(model)
    weights = np.random.default_rng(2).integers(0, 4, len(X))
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    repeated = clone(model).fit(X.loc[X.index.repeat(weights)], Y.repeat(weights))
    assert weighted.statistics_.weights.tolist() == repeated.statistics_.counts.tolist()
    assert_same(weighted, repeated, X)


def of_model(model):
    """The parameters that a model needs beside its statistics."""
    return {name: value for name, value in model.get_params(deep=False).items() if name != "subclasses"}


def assert_same(model, whole, X):
    """EM and fits of common shapes end a step earlier or later; the others differ by rounding."""
    iterates = getattr(model, "missing", "") == "marginal" or "covariance_model" in model.get_params()
    for name in ("classes_", "categories_", "subclasses_"):
        assert np.array_equal(getattr(model, name, None), getattr(whole, name, None))
    for name in ("prior_rows_", "alpha_"):
        assert getattr(model, name, 0) == pytest.approx(getattr(whole, name, 0), rel=1e-6)
    scores, expected = (one.decision_function(X) for one in (model, whole))
    np.testing.assert_allclose(scores, expected, rtol=1e-7, atol=2e-5 if iterates else 1e-7)
