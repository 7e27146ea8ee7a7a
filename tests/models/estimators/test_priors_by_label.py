"""Priors by label, for classes that appear at any time."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    load,
    predict_dataset,
)
from tests.strategies import FOUR_MODELS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
LABELS = {"int": [3, 7, 11], "str": ["ant", "bee", "cat"]}


@pytest.mark.parametrize("model", FOUR_MODELS)
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


@pytest.mark.parametrize("model", FOUR_MODELS)
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


@pytest.mark.parametrize(
    "priors",
    [
        {0: 0.2, 1: 0.3, 2: 0.5},
        {0.0: 0.25, 1.0: 0.25, 2.5: 0.25, 2: 0.25},
        {np.int64(0): 0.2, np.int8(1): np.float64(0.3), 2: 0.5},
        {0: 0.125, "0": 0.5, 1: 0.125, 2: 0.125, "new": 0.125},
        {"0": 0.2, "1": 0.3, "2": 0.5},
    ],
)
def test_priors_are_loaded_as_they_were_given(priors, tmp_path):
    model = LinearDiscriminantAnalysis(priors=priors).fit(X, np.arange(90) % 3)
    model.save(tmp_path / "model.parquet")
    loaded = load(tmp_path / "model.parquet")
    assert loaded.get_params() == model.get_params()
    plain = [label.item() if isinstance(label, np.generic) else label for label in priors]
    assert list(map(type, loaded.priors)) == list(map(type, plain))
    np.testing.assert_array_equal(loaded.priors_, model.priors_)


def test_priors_by_bools_are_loaded_as_bools(tmp_path):
    model = GaussianNB(priors={np.False_: 0.75, True: 0.25}).fit(X, np.arange(90) % 2 == 1)
    model.save(tmp_path / "model.parquet")
    assert repr(load(tmp_path / "model.parquet").priors) == "{False: 0.75, True: 0.25}"


def with_pairs(path, pairs):
    """Write a model anew with other pairs of a label and its prior, or without, as it was saved once."""
    table = pq.read_table(path)
    document = json.loads(table.schema.metadata[b"streamgda"])
    del document["model"]["priors"], document["checksum"]
    document["model"] |= {} if pairs is None else {"priors": pairs}
    pq.write_table(table.replace_schema_metadata({b"streamgda": json.dumps(document)}), path)


@pytest.mark.parametrize("labels", KINDS.values())
def test_a_model_saved_with_labels_as_text_still_loads(labels, tmp_path):
    shares = dict(zip(labels.tolist(), (0.5, 0.375, 0.125), strict=True))
    model = QuadraticDiscriminantAnalysis(priors=shares).fit(X, labels[np.arange(90) % 3])
    model.save(tmp_path / "model.parquet")
    with_pairs(tmp_path / "model.parquet", None)
    loaded = load(tmp_path / "model.parquet")
    assert set(map(type, loaded.priors)) == {str}
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("damaged", [5, [1], [[[0], 0.5]], [[0]]])
def test_priors_that_are_no_pairs_are_refused(damaged, tmp_path):
    path = tmp_path / "model.parquet"
    GaussianNB(priors={0: 0.5, 1: 0.5}).fit(X, np.arange(90) % 2).save(path)
    with_pairs(path, damaged)
    with pytest.raises(ValueError, match=r"model\.parquet: this is no GaussianNB: "):
        load(path)


@pytest.mark.parametrize("labels", [[np.int64(0), np.int64(1)], [0, "1", 1]])
def test_priors_by_labels_of_any_type_predict_a_dataset(labels, tmp_path):
    pq.write_table(pa.table({"u": X[:, 0], "v": X[:, 1]}), tmp_path / "in.parquet")
    model = GaussianNB(priors=dict.fromkeys(labels, 0.5)).fit(X, np.arange(90) % 2)
    assert predict_dataset(model, tmp_path / "in.parquet", tmp_path / "out").n_rows == 90
    model.save(tmp_path / "model.parquet")
    loaded = load(tmp_path / "model.parquet")
    assert predict_dataset(loaded, tmp_path / "in.parquet", tmp_path / "out").n_found == 1
