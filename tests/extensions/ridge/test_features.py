"""Random features: what they are, that a saved map is the same map, and what they are worth."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamgda import RandomFeatures

X, y = load_iris(return_X_y=True)
SAMPLE = X[::2]
ONE_UNIT = 2.0**-23  # of float32


@pytest.mark.slow_cases("readonly_memmap", "estimators_dtypes")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        RandomFeatures(20),
        RandomFeatures(20, "relu", 0.5, "common", include_inputs=False),
        RandomFeatures(20, scale="std", metric="diag", random_state=None),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def random_part(inputs, features, hinges=False):
    angles = inputs @ features.frequencies_.astype(float) + features.offsets_.astype(float)
    return np.maximum(angles, 0) if hinges else np.cos(angles)


def assert_near(made, expected, units=16):
    """As near as inputs that are rounded to float32 allow, by default."""
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, rtol=units * ONE_UNIT, atol=units * ONE_UNIT)


@pytest.mark.parametrize("kind", ["fourier", "relu"])
@pytest.mark.parametrize("n_columns", [1, 9, 70])
def test_a_row_has_the_same_random_features_alone_and_among_others(kind, n_columns):
    rows = np.random.default_rng(0).normal(size=(600, n_columns))
    features = RandomFeatures(150, kind).fit(rows[:300])
    together = features.transform(rows)
    for n_rows in (1, 2, 7, 16, 149, 257):
        assert_near(features.transform(rows[5 : 5 + n_rows]), together[5 : 5 + n_rows], units=1)


def test_inputs_are_standardised_and_at_most_six_deviations_away():
    features = RandomFeatures(50, scale="std").fit(SAMPLE)
    rows = np.vstack([X, X.mean(axis=0) + 100])
    inputs = np.clip((rows - SAMPLE.mean(axis=0)) / SAMPLE.std(axis=0), -6, 6)
    assert_near(features.transform(rows), np.hstack([inputs, random_part(inputs, features)]))


def test_one_scale_for_all_columns_and_hinges():
    features = RandomFeatures(50, "relu", scale="common", include_inputs=False).fit(SAMPLE)
    inputs = (X - SAMPLE.mean(axis=0)) / np.sqrt(SAMPLE.var(axis=0).mean())
    assert_near(features.transform(X), random_part(inputs, features, hinges=True))


def test_ranks_are_those_in_the_sample_and_equal_values_have_the_mean_of_theirs():
    rows = np.random.default_rng(0).normal(size=(257, 2))
    rows[:, 1] = np.round(rows[:, 1])
    features = RandomFeatures(1).fit(rows)
    assert features.get_feature_names_out(["a", "b"]).tolist() == ["a", "b", "rank(a)", "rank(b)", "fourier0"]
    shares = (rankdata(rows, axis=0) - 1) / 256
    assert_near(features.transform(rows)[:, 2:4], (shares - 0.5) * np.sqrt(12))
    beyond = features.transform([[-9.0, -9.0], [9.0, 9.0]])[:, 2:4]
    assert_near(beyond[:, 0], [-np.sqrt(3), np.sqrt(3)])


def test_a_column_with_two_values_has_no_ranks_and_a_constant_one_is_zero():
    rows = np.column_stack([X[:, 0], X[:, 1] > 3, np.full(150, 0.1)])
    made = RandomFeatures(5).fit(rows).transform(rows)
    assert made.shape == (150, 3 + 1 + 5)
    assert not made[:, 2].any()


def test_frequencies_are_normal_in_units_of_the_median_distance():
    features = RandomFeatures(30_000, bandwidth=(0.5, 2), scale="std").fit(SAMPLE)
    inputs = (SAMPLE - SAMPLE.mean(axis=0)) / SAMPLE.std(axis=0)
    distances = np.linalg.norm(inputs[:, None] - inputs, axis=2)
    assert features.median_distance_ == pytest.approx(np.median(distances[distances > 0]), rel=1e-6)
    scaled = features.frequencies_ * features.median_distance_
    assert scaled[:, ::2].std() == pytest.approx(2, rel=0.02)
    assert scaled[:, 1::2].std() == pytest.approx(0.5, rel=0.02)


def test_the_metric_weighs_what_the_class_depends_on():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 6))
    labels = np.where(rows[:, 0] * rows[:, 1] > 0, "a", "b")
    features = RandomFeatures(10, scale="std", metric="diag").fit(rows, labels)
    assert features.metric_[:2].min() > 3 * features.metric_[2:].max()
    assert np.mean(features.metric_**2) == pytest.approx(1)


def test_a_metric_needs_labels():
    with pytest.raises(ValueError, match="metric='diag' requires y"):
        RandomFeatures(10, metric="diag").fit(X)


@pytest.mark.parametrize(
    "features",
    [
        RandomFeatures(40),
        RandomFeatures(40, "relu", [1.0], "std", "diag", random_state=np.random.RandomState(3)),
    ],
)
def test_a_saved_map_is_the_same_map(features):
    frame = pd.DataFrame(X, columns=list("abcd"))
    features.fit(frame, y)
    again = RandomFeatures.from_document(json.loads(json.dumps(features.to_document())))
    assert np.array_equal(again.transform(frame), features.transform(frame))
    assert again.to_document() == features.to_document()
    assert [*again.get_feature_names_out()] == [*features.get_feature_names_out()]


def test_damaged_maps_are_refused():
    document = RandomFeatures(5).fit(X).to_document()
    with pytest.raises(ValueError, match="numbers, and not"):
        RandomFeatures.from_document({**document, "n_columns": 3})
    with pytest.raises(ValueError, match="no map of random features"):
        RandomFeatures.from_document({"n_components": 5})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_named_with_the_remedy(bad):
    frame = pd.DataFrame(X.copy(), columns=list("abcd"))
    features = RandomFeatures(5).fit(frame)
    frame.loc[7, "c"] = bad
    for refusing in (features.transform, features.fit):
        with pytest.raises(ValueError, match=r"row 7: feature 'c' is .*SimpleImputer"):
            refusing(frame)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "sine"}, "kind must be 'fourier' or 'relu'; got 'sine'"),
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"bandwidth": (1, 0)}, "bandwidth holds positive numbers"),
    ],
)
def test_parameters_that_are_not_valid_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RandomFeatures(**options).fit(X)


def test_a_linear_model_learns_curved_boundaries():
    rows, labels = load_digits(return_X_y=True)
    model = make_pipeline(RandomFeatures(1000, scale="common"), RidgeClassifier(10))
    assert model.fit(rows[::2], labels[::2]).score(rows[1::2], labels[1::2]) > 0.97
