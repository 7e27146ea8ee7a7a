"""Classes that are announced before a row of them comes have columns everywhere, as in scikit-learn."""

import copy
import pickle

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import naive_bayes
from sklearn.base import clone

import streamgda
from streamgda import (
    Categorical,
    GaussianNB,
    LeafFeatures,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    evaluate,
    from_bytes,
    predict_dataset,
    scan_arrow,
)
from streamgda.models.estimators import ESTIMATORS, estimator_named
from streamgda.models.estimators.generative import GenerativeClassifier

MODELS = [estimator_named(name) for name in ESTIMATORS]
RNG = np.random.default_rng(0)
Y = np.repeat([0, 2], 30)
X = pd.DataFrame(RNG.normal(size=(60, 3)) + Y[:, None], columns=["a", "b", "c"])
SEEN = [0, 2]
OF_CLASSES = ["predict_proba", "predict_log_proba", "mahalanobis", "p_values", "predict_joint_log_proba"]
ATTRIBUTES = [
    *("priors_", "means_", "covariance_", "rotations_", "scalings_", "pooling_", "coef_", "intercept_"),
    *("class_count_", "class_prior_", "theta_", "var_", "volumes_", "shapes_", "orientations_"),
]


@pytest.fixture(params=MODELS, ids=lambda kind: kind.__name__)
def pair(request):
    """A model to which a class was announced that has not come, and one without it."""
    features = {"RandomFeatureClassifier": 20, "LeafClassifier": LeafFeatures(3)}.get(request.param.__name__)
    params = {"features": features} if features else {}
    return tuple(request.param(**params).partial_fit(X, Y, classes=classes) for classes in ([2, 1, 0], None))


@pytest.mark.slow_cases("Random")
def test_its_columns_are_those_of_other_classes_and_a_column_of_zeros(pair):
    model, plain = pair
    assert model.classes_.tolist() == [0, 1, 2]
    for name in OF_CLASSES:
        if hasattr(model, name):
            ours, theirs = getattr(model, name)(X), getattr(plain, name)(X)
            np.testing.assert_array_equal(ours[:, SEEN], theirs)
            absent = {"mahalanobis": np.inf, "predict_proba": 0, "p_values": 0}.get(name, -np.inf)
            assert (ours[:, 1] == absent).all()
    assert model.decision_function(X).shape == (60, 3)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert model.predict_set(X, -2.0)[:, 1].sum() == 0
    if not isinstance(model, GenerativeClassifier):
        return
    np.testing.assert_array_equal(model.score_samples(X), plain.score_samples(X))
    assert set(model.sample(50, random_state=0)[1]) == {0, 2}
    with pytest.raises(ValueError, match="no row of this class has come"):
        model.sample(label=1)
    with pytest.raises(ValueError, match="1 is none of the classes"):
        model.boundary(0, 1)


def test_drawn_labels_have_the_type_of_predicted_ones():
    model = GaussianNB().partial_fit(X, np.array(["a", "c"])[Y // 2], classes=["a", "bbb", "c"])
    drawn = [model.sample(5, random_state=0)[1], model.sample(2, "c")[1]]
    assert [labels.dtype for labels in drawn] == [model.predict(X).dtype] * 2 == [model.classes_.dtype] * 2


@pytest.mark.slow_cases("Random")
def test_its_attributes_line_up_with_the_classes(pair):
    model, plain = pair
    if hasattr(model, "store_covariance"):
        model.store_covariance = plain.store_covariance = True
    found = {name for name in ATTRIBUTES if hasattr(model, name)}
    found -= {"pooling_"} if model.divides_rows else set()
    for name in (
        found - {"coef_", "intercept_"} - ({"covariance_", "scalings_"} if "coef_" in found else set())
    ):
        ours, theirs = np.asarray(getattr(model, name)), np.asarray(getattr(plain, name))
        np.testing.assert_array_equal(ours[SEEN], theirs, err_msg=name)
        assert len(ours) == 3
        assert np.isfinite(ours).all()
    assert model.priors_[1] == 0
    assert not model.means_[1].any()
    if isinstance(model, LinearDiscriminantAnalysis):
        scores = X.to_numpy() @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-12)
        assert model.transform(X).shape == plain.transform(X).shape == (60, 1)


def test_its_attributes_of_subclasses_are_those_without_it():
    centres = {label: np.array([[label] * 3, [label + 1.0] * 3]) for label in (0, 1, 2)}
    for pooling in ("bayes", None):
        model, plain = (
            MixtureDiscriminantAnalysis(subclasses=centres, pooling=pooling).partial_fit(
                X, Y, classes=classes
            )
            for classes in ([2, 1, 0], None)
        )
        for name in ("pooling_", "subclass_means_", "subclass_weights_"):
            ours, theirs = getattr(model, name), getattr(plain, name)
            assert len(ours) == len(model.subclasses_) == 4
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
        assert dir(model) == dir(plain)


def test_it_is_that_of_scikit_learn():
    ours, theirs = (
        kind().partial_fit(X.to_numpy(), Y, classes=[0, 1, 2])
        for kind in (GaussianNB, naive_bayes.GaussianNB)
    )
    for name in ("classes_", "class_count_", "class_prior_", "theta_", "var_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, err_msg=name)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(ours.predict_proba(X.to_numpy()), theirs.predict_proba(X.to_numpy()))


@pytest.mark.slow_cases("Random", "GaussianDisc")
def test_rows_of_it_make_it_a_class_like_others(pair):
    model, plain = pair
    for one in pair:
        one.partial_fit(X[:20], [1] * 20).partial_fit(X[20:30], [7] * 10)
    assert model.classes_.tolist() == plain.classes_.tolist() == [0, 1, 2, 7]
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    model.fit(X, Y)
    assert model.classes_.tolist() == [0, 2]


@pytest.mark.slow_cases("GaussianDisc", "Random")
def test_copies_files_and_merged_models_know_it(pair, tmp_path):
    model, plain = pair
    model.save(tmp_path / "model.parquet")
    for twin in (
        copy.copy(model),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        from_bytes(model.to_bytes()),
        streamgda.load(tmp_path / "model.parquet"),
        clone(model).merge(model),
    ):
        assert twin.classes_.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
    other = clone(model).partial_fit(X, Y, classes=[0, 2, 5])
    assert copy.deepcopy(other).merge(model).classes_.tolist() == [0, 1, 2, 5]
    assert copy.deepcopy(plain).merge(model).classes_.tolist() == [0, 1, 2]
    assert not hasattr(clone(model), "classes_")
    assert type(model).from_statistics(model.statistics_).classes_.tolist() == [0, 2]


@pytest.mark.slow_cases("Random")
def test_it_is_announced_by_batches_without_rows_and_by_sources(pair):
    model, _ = pair
    model.partial_fit(X[:0], [], classes=[9])
    assert model.classes_.tolist() == [0, 1, 2, 9]
    assert model.predict_proba(X).shape == (60, 4)
    first = clone(model).partial_fit(X[:0], [], classes=[0, 1, 2]).partial_fit(X, Y)
    assert first.classes_.tolist() == [0, 1, 2]
    source = scan_arrow(pa.Table.from_pandas(X.assign(kind=Y)), "kind")
    read = clone(model).partial_fit(source, classes=[0, 1, 2])
    assert read.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="do not exist in the initial classes"):
        clone(model).partial_fit(source, classes=[0, 1])


def test_a_label_that_is_not_announced_with_its_batch_changes_nothing(pair):
    model, _ = pair
    before = model.to_bytes()
    with pytest.raises(ValueError, match=r"\[2\] in y do not exist in the initial classes"):
        model.partial_fit(X, Y, classes=[0, 8])
    with pytest.raises(ValueError, match="labels of different kinds"):
        model.partial_fit(X[:0], [], classes=["a"])
    with pytest.raises(ValueError, match="row 1 has no label"):
        model.partial_fit(X[:2], [0, None], classes=[0, 1])
    for weights in (np.arange(60) % 3 + 7, np.arange(60) % 3, np.arange(60) % 3 / 2, [5] * 60):
        with pytest.raises(ValueError, match="weights of rows are given as sample_weight="):
            model.partial_fit(X, Y, weights)
    with pytest.raises(ValueError, match=r"weights of rows are given as sample_weight="):
        model.partial_fit(X[:1], Y[:1], [5])
    assert clone(model).partial_fit(X, Y, Y).classes_.tolist() == [0, 2]
    assert from_bytes(before).classes_.tolist() == model.classes_.tolist() == [0, 1, 2]


@pytest.mark.slow_cases("GaussianDisc")
@pytest.mark.parametrize("kind", [kind for kind in MODELS if issubclass(kind, GenerativeClassifier)])
@pytest.mark.parametrize("priors", [[0.2, 0.3, 0.5], {0: 0.2, 1: 0.3, 2: 0.5}])
def test_priors_of_those_seen_are_scaled(kind, priors):
    model = kind(priors=priors).partial_fit(X, Y, classes=[0, 1, 2])
    np.testing.assert_allclose(model.priors_, [2 / 7, 0, 5 / 7])
    np.testing.assert_allclose(model.partial_fit(X[:30], [1] * 30).priors_, [0.2, 0.3, 0.5])


@pytest.mark.slow_cases("GaussianDisc", "Random", "Linear", "Quadratic")
def test_predictions_out_of_core_have_its_column(pair, tmp_path):
    model, plain = pair
    source = scan_arrow(pa.Table.from_pandas(X.assign(kind=Y)), "kind")
    ours, theirs = evaluate(model, source), evaluate(plain, source)
    assert ours.classes.tolist() == [0, 1, 2]
    assert ours.accuracy == theirs.accuracy
    predict_dataset(model, source, tmp_path / "out", columns=["label", "probabilities"])
    table = pd.read_parquet(tmp_path / "out")
    columns = [name for name in table if name.startswith("probability_")]
    assert len(columns) == 3
    np.testing.assert_array_equal(np.sort(table[columns].to_numpy(), 0), np.sort(model.predict_proba(X), 0))


def test_other_systems_have_its_column(pair):
    model, _ = pair
    expected, frame = model.predict_proba(X), X
    assert len(frame)
    if model.maps_rows:
        with pytest.raises(ValueError, match="no other system has the map that rows go through"):
            model.to_sql("frame")
        return
    answer = duckdb.sql(model.to_sql("frame")).df()
    assert answer["label"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(answer.drop(columns="label").to_numpy(), expected, atol=1e-9)
    if hasattr(model, "to_sklearn") and isinstance(model, GenerativeClassifier):
        peer = model.to_sklearn()
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(peer.predict_proba(X), expected, atol=1e-9)


def test_tables_of_categories_line_up():
    frame = X.assign(d=pd.Categorical(np.where(np.arange(60) % 3, "u", "v")))
    for model in (
        GaussianNB(),
        QuadraticDiscriminantAnalysis(),
        LinearDiscriminantAnalysis(categories=Categorical(model="conditional")),
        LinearDiscriminantAnalysis(solver="lsqr"),
    ):
        plain = clone(model).partial_fit(frame, Y)
        model.partial_fit(frame, Y, classes=[0, 1, 2])
        np.testing.assert_array_equal(model.predict_proba(frame)[:, SEEN], plain.predict_proba(frame))
        np.testing.assert_array_equal(model.decision_function(frame).shape, (60, 3))
        answer = duckdb.sql(model.to_sql("frame")).df()
        np.testing.assert_allclose(answer.drop(columns="label"), model.predict_proba(frame), atol=1e-9)
        if hasattr(model, "category_log_prob_"):
            tables = model.category_log_prob_["d"]
            np.testing.assert_array_equal(tables[SEEN], plain.category_log_prob_["d"])
            np.testing.assert_allclose(np.exp(tables[1]), 0.5)


@pytest.mark.slow
def test_displays_leave_it_out():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from streamgda.plotting import DecisionRegionsDisplay, LinearProjectionDisplay

    model = LinearDiscriminantAnalysis().partial_fit(X, Y, classes=[0, 1, 2])
    assert np.isnan(LinearProjectionDisplay.from_estimator(model, X, Y).means[1]).all()
    display = DecisionRegionsDisplay.from_estimator(model, X, Y, grid_resolution=10)
    assert set(np.unique(display.response)) <= {0, 2}
    for solver in ("lsqr", "eigen"):
        other = LinearDiscriminantAnalysis(solver=solver).partial_fit(X, Y, classes=[0, 1, 2])
        scores = X.to_numpy() @ other.coef_.T + other.intercept_
        np.testing.assert_allclose(scores, other.decision_function(X), rtol=1e-9)
