"""Priors by label, for classes that appear at any time."""

import numpy as np
import pytest

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    load,
)

MODELS = [GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, GaussianDiscriminantAnalysis]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
LABELS = {"int": [3, 7, 11], "str": ["ant", "bee", "cat"]}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", LABELS)
def test_priors_by_label_are_those_of_the_classes_that_have_appeared(model, kind, tmp_path):
    labels = LABELS[kind]
    priors = dict(zip(reversed(labels), (0.5, 0.25, 0.25), strict=True))
    y = np.array(labels)[np.arange(90) % 3]
    first = y != labels[2]
    learner = model(priors=priors).fit(X[first], y[first])
    np.testing.assert_allclose(learner.priors_, 0.5)
    learner = model(priors=priors).fit(X, y)
    in_order = model(priors=[0.25, 0.25, 0.5]).fit(X, y)
    np.testing.assert_array_equal(learner.predict_proba(X), in_order.predict_proba(X))
    learner.save(tmp_path / "model.parquet")
    np.testing.assert_array_equal(
        load(tmp_path / "model.parquet").predict_proba(X), in_order.predict_proba(X)
    )
    np.testing.assert_allclose(learner.to_sklearn().predict_proba(X), learner.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_a_class_without_a_prior_is_named_with_the_way_out(model):
    y = np.array(["ant", "bee", "cta"])[np.arange(90) % 3]
    with pytest.raises(ValueError, match=r"none for class cta, which has appeared.*drop_class\('cta'\)"):
        model(priors={"ant": 0.5, "bee": 0.5}).fit(X, y)
    with pytest.raises(ValueError, match="there are 3: 'ant', 'bee', 'cta'.*give priors by label"):
        model(priors=[0.5, 0.5]).fit(X, y)


KINDS = {
    "float": np.array([-1.0, 0.0, 2.0]),
    "int": np.array([-1, 0, 2]),
    "uint8": np.array([0, 1, 200], dtype=np.uint8),
    "str": np.array(["A", "a", "B"]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plain", [True, False], ids=["python", "numpy"])
def test_priors_by_labels_of_any_type_are_saved(kind, plain, tmp_path):
    labels, shares = KINDS[kind], (0.5, 0.375, 0.125)
    priors = dict(zip(labels.tolist() if plain else labels, shares, strict=True))
    model = QuadraticDiscriminantAnalysis(priors=priors).fit(X, labels[np.arange(90) % 3])
    model.save(tmp_path / "model.parquet")
    loaded = load(tmp_path / "model.parquet")
    by_class = dict(zip(loaded.classes_.tolist(), loaded.priors_, strict=True))
    assert by_class == dict(zip(labels.tolist(), shares, strict=True))
    loaded.save(tmp_path / "again.parquet")
    np.testing.assert_array_equal(load(tmp_path / "again.parquet").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("plain", [True, False], ids=["python", "numpy"])
def test_priors_by_bools_are_saved(plain, tmp_path):
    keys = [False, True] if plain else [np.False_, np.True_]
    priors = dict(zip(keys, (0.75, 0.25), strict=True))
    model = QuadraticDiscriminantAnalysis(priors=priors).fit(X, np.arange(90) % 2 == 1)
    model.save(tmp_path / "model.parquet")
    np.testing.assert_array_equal(load(tmp_path / "model.parquet").priors_, [0.75, 0.25])


def test_a_prior_is_not_that_of_a_class_in_other_letters():
    y = np.array(["ant", "Ant", "bee"])[np.arange(90) % 3]
    with pytest.raises(ValueError, match="none for class Ant"):
        QuadraticDiscriminantAnalysis(priors={"ant": 0.5, "bee": 0.5}).fit(X, y)
