"""Between the batches of a stream, densities are brought up to date: as those of a model made anew."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, load
from streamgda.models.gaussians.whitening import Whitening

MODELS = [QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis, GaussianNB]
N_FEATURES = 3


batches = st.lists(st.integers(0, 4), min_size=1, max_size=5)


def rows_of(labels, seed, scale):
    rng = np.random.default_rng(seed)
    return scale * (rng.normal(size=(len(labels), N_FEATURES)) + 1e3 + np.array(labels)[:, None])


def begun(estimator, scale):
    labels = np.arange(40) % 3
    model = estimator().fit(rows_of(labels, 0, scale), labels)
    model.predict(rows_of([0], 1, scale))  # there are densities to follow from
    return model


def take(step, model, seed, scale):
    """Let a model learn a batch, or change in another way."""
    if not isinstance(step, list):
        CHANGES[step](model, begun(type(model), scale).statistics_)
        return
    weights = np.random.default_rng(seed).uniform(0.5, 2, size=len(step)) if seed % 2 else None
    model.partial_fit(rows_of(step, seed, scale), step, sample_weight=weights)


def subtract(model, part):
    model.statistics_ = model.statistics_ + part - part


def drop(model, part):
    if model.statistics_.covariance_type != "tied" and len(model.classes_) > 2:
        model.statistics_.drop_class(model.classes_[-1])


def set_priors(model, part):
    model.set_params(priors=np.full(len(model.classes_), 1 / len(model.classes_)))


def set_shrinkage(model, part):
    if "shrinkage" in model.get_params():
        model.set_params(shrinkage=0.1 if model.shrinkage is None else None)


CHANGES = {
    "merge": lambda model, part: model.merge(part),
    "decay": lambda model, part: model.statistics_.decay(0.9),
    "subtract": subtract,
    "drop": drop,
    "priors": set_priors,
    "shrinkage": set_shrinkage,
    "new state": lambda model, part: setattr(model, "statistics_", model.statistics_.copy()),
}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", MODELS)
@given(
    steps=st.lists(st.one_of(batches, st.sampled_from(list(CHANGES))), min_size=1, max_size=8),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_a_model_that_follows_predicts_as_one_made_anew(estimator, steps, scale):
    model, test = begun(estimator, scale), rows_of([0, 1, 2, 3], 2, scale)
    with warnings.catch_warnings(action="ignore"):  # of classes without a posterior
        for seed, step in enumerate(steps):
            take(step, model, seed, scale)
            if model.priors is not None and len(model.priors) != len(model.classes_):
                model.set_params(priors=None)
            anew = estimator(**model.get_params()).merge(model.statistics_)
            assert_allclose(model.predict_proba(test), anew.predict_proba(test), rtol=1e-10, atol=1e-300)
            assert_allclose(model.decision_function(test), anew.decision_function(test), rtol=1e-9, atol=1e-7)
            assert_allclose(model.mahalanobis(test), anew.mahalanobis(test), rtol=1e-7)


@pytest.mark.parametrize("estimator", MODELS)
def test_classes_have_the_same_bits_however_the_model_came_by_them(estimator):
    model, test = begun(estimator, 1.0), rows_of([0, 1, 2], 3, 1.0)
    for seed in range(5):
        model.partial_fit(rows_of([seed % 3], seed, 1.0), [seed % 3])
        anew = estimator.from_statistics(model.statistics_)
        assert_array_equal(model.predict_proba(test), anew.predict_proba(test))


@pytest.mark.parametrize("estimator", MODELS)
def test_what_a_model_follows_with_is_not_saved_pickled_or_compared(estimator, tmp_path):
    model, silent, test = begun(estimator, 1.0), begun(estimator, 1.0), rows_of([0, 1, 2], 3, 1.0)
    for seed in range(3):
        model.partial_fit(rows_of([1], seed, 1.0), [1]).predict(test)
        silent.partial_fit(rows_of([1], seed, 1.0), [1])
    assert pickle.dumps(model) == pickle.dumps(silent)
    anew = estimator.from_statistics(model.statistics_)
    assert model.statistics_ == anew.statistics_
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.statistics_ == model.statistics_
        assert_array_equal(twin.predict_proba(test), anew.predict_proba(test))
    model.save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").predict_proba(test), anew.predict_proba(test))


@pytest.mark.parametrize("estimator", MODELS)
def test_rows_that_the_caller_overwrites_after_learning_change_nothing(estimator):
    model, test = begun(estimator, 1.0), rows_of([0, 1, 2], 3, 1.0)
    row, label = rows_of([1], 4, 1.0), np.array([1])
    model.partial_fit(row, label)
    row[:], label[:] = 1e9, 0
    assert_allclose(
        model.predict_proba(test),
        estimator.from_statistics(model.statistics_).predict_proba(test),
        rtol=1e-10,
    )


def test_a_class_that_was_not_estimated_keeps_its_name_when_others_come_before_it():
    model, test = begun(QuadraticDiscriminantAnalysis, 1.0), rows_of([0, 1, 2], 3, 1.0)
    with pytest.warns(UserWarning, match="class 9 "):
        model.partial_fit(rows_of([9], 5, 1.0), [9]).predict(test)
    with pytest.warns(UserWarning, match="class 4 "):
        model.partial_fit(rows_of([4], 6, 1.0), [4]).predict(test)
    errors = dict(model._cache.singular)
    assert "class 9" in str(errors[9]())
    assert "class 4" in str(errors[4]())


@pytest.mark.parametrize("estimator", MODELS)
def test_a_stream_that_begins_with_too_few_rows_gets_its_densities(estimator):
    X, y = rows_of(np.arange(20) % 2, 0, 1.0), np.arange(20) % 2
    model = estimator()
    with warnings.catch_warnings(action="ignore"):  # that no class can be estimated yet
        for i in range(20):
            model.partial_fit(X[[i]], y[[i]]).predict(X)
    anew = estimator.from_statistics(model.statistics_)
    assert_array_equal(model.predict_proba(X), anew.predict_proba(X))


def test_classes_without_new_rows_get_no_new_factor():
    model = begun(QuadraticDiscriminantAnalysis, 1.0)
    before = model._cache.gaussians.whitenings
    model.partial_fit(rows_of([1, 5], 2, 1.0), [1, 5])
    with pytest.warns(UserWarning, match="class 5 "):
        model.predict(rows_of([0], 1, 1.0))
    after = model._cache.gaussians.whitenings
    assert [after[k] is before[k] for k in range(3)] == [True, False, True]
    model.set_params(reg_param=0.1).predict(rows_of([0], 1, 1.0))
    assert not any(one is another for one in model._cache.gaussians.whitenings for another in after)


@pytest.mark.parametrize(("n_rows", "rank"), [(2, 1), (9, 2)])
def test_no_spectrum_is_taken_of_a_class_that_cannot_have_full_rank(n_rows, rank, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    model = QuadraticDiscriminantAnalysis().partial_fit(X, y)
    young = rng.normal(size=(n_rows + 1, 3))
    young[:, 1] = 1.0 if n_rows > 3 else young[:, 1]
    with pytest.warns(UserWarning, match=f"class 5 gets no posterior until .* rank {rank} of 3"):
        model.partial_fit(young[:-1], [5] * n_rows).predict(X)
    monkeypatch.setattr(Whitening, "from_spectrum", None)
    assert not model.partial_fit(young[-1:], [5]).predict_proba(X)[:, 2].any()
