"""Between the batches of a stream, densities are brought up to date: as those of a model made anew."""

import copy
import pickle
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    load,
    predict_dataset,
)
from streamgda.gaussians import updated
from streamgda.gaussians.whitening import Whitening

MODELS = [QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis, GaussianNB]
N_FEATURES = 3


@pytest.fixture(autouse=True, scope="module")
def follows_few_features():
    """Small models too are brought up to date, though a new factor takes them less time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updated, "_LEAST_WORK", 0)
        yield


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


@pytest.mark.parametrize("estimator", [QuadraticDiscriminantAnalysis, GaussianNB])
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


# ---------------------------------------------------------------------- one covariance, without a new factor


def posteriors_agree(model, rows, rtol=1e-10):
    anew = LinearDiscriminantAnalysis(**model.get_params()).merge(model.statistics_)
    assert_allclose(model.predict_proba(rows), anew.predict_proba(rows), rtol=rtol, atol=1e-300)


@pytest.mark.slow_cases("1-", "7-1")
@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("batch", [1, 7])
def test_most_batches_of_a_long_stream_need_no_new_factor(offset, batch):
    rng = np.random.default_rng(0)
    n_features, n_classes = 40, 30
    centres = rng.normal(size=(n_classes, n_features))

    def rows_of(labels):
        return offset + centres[labels] + rng.normal(size=(len(labels), n_features))

    labels = np.arange(600) % n_classes
    model = LinearDiscriminantAnalysis().fit(rows_of(labels), labels)
    test = rows_of(labels[:50])
    updated = 0
    for _ in range(100):
        labels = rng.integers(n_classes, size=batch)
        model.partial_fit(rows_of(labels), labels).predict(test[:1])
        updated += model._cache.is_update
        if updated % 9 == 1:
            posteriors_agree(model, test, rtol=1e-10 if offset == 0 else 1e-6)  # 1e8 deviations cost 8 digits
    assert updated > 60 if batch == 1 else updated > 20


def test_few_features_get_a_new_factor_which_takes_less_time(monkeypatch):
    model, test = begun(LinearDiscriminantAnalysis, 1.0), rows_of([0, 1, 2], 3, 1.0)
    monkeypatch.setattr(updated, "_LEAST_WORK", 3**2 * (3 + 3) + 1)
    model.partial_fit(rows_of([1], 6, 1.0), [1])
    assert_array_equal(
        model.predict_proba(test),
        LinearDiscriminantAnalysis.from_statistics(model.statistics_).predict_proba(test),
    )
    assert not model._cache.is_update


def test_a_row_far_from_the_others_is_left_to_a_new_factor():
    model = begun(LinearDiscriminantAnalysis, 1.0)
    near, far = rows_of([1], 8, 1.0), rows_of([1], 8, 1.0) + np.array([1e4, 0, 0])
    model.partial_fit(near, [1]).predict(near)
    assert model._cache.is_update
    model.partial_fit(far, [1]).predict(near)
    assert not model._cache.is_update
    posteriors_agree(model, near)


def test_a_row_that_makes_the_covariance_singular_gives_the_verdict_of_a_fit():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    rows[:, 2] = rows[:, 1] + 1e-3 * rng.normal(size=40)  # not quite collinear
    labels = np.arange(40) % 3
    model = LinearDiscriminantAnalysis().fit(rows, labels)
    model.predict(rows)
    both_far = np.array([[0.0, 1e7, 1e7]])
    with pytest.warns(UserWarning, match=r"rank 2 of 3.*collinear \(1, 2\)"):
        model.partial_fit(both_far, [0]).predict(rows)
    with pytest.warns(UserWarning, match="rank 2 of 3"):
        LinearDiscriminantAnalysis().fit(np.vstack([rows, both_far]), [*labels, 0])


def test_a_class_whose_means_hide_the_deviations_gives_the_verdict_of_a_fit():
    model, test = begun(LinearDiscriminantAnalysis, 1.0), rows_of([0, 1, 2], 3, 1.0)
    with pytest.warns(UserWarning, match=r"constant \(0\)"):
        model.partial_fit(rows_of([9], 5, 1.0) + np.array([1e17, 0, 0]), [9]).predict(test)


def test_all_that_is_not_a_score_is_computed_from_the_covariance():
    model, test = begun(LinearDiscriminantAnalysis, 1.0), rows_of([0, 1, 2], 3, 1.0)
    model.partial_fit(rows_of([1, 1, 2], 6, 1.0), [1, 1, 2]).predict(test)
    assert model._cache.is_update
    anew = LinearDiscriminantAnalysis().merge(model.statistics_)
    with_gaps = np.where(np.eye(3), np.nan, test)
    for of in (
        lambda m: m.coef_,
        lambda m: m.intercept_,
        lambda m: m.score_samples(test),
        lambda m: m.mahalanobis(test),
        lambda m: m.transform(test),
        lambda m: m.impute(with_gaps),
        lambda m: m.boundary(0, 1)(test),
        lambda m: m.sample(5, random_state=0)[0],
    ):
        assert_allclose(of(model), of(anew), rtol=1e-8, atol=1e-8)


def test_a_pass_over_a_dataset_has_the_bits_that_workers_compute(tmp_path):
    model, test = begun(LinearDiscriminantAnalysis, 1.0), rows_of(np.arange(30) % 3, 3, 1.0)
    model.partial_fit(rows_of([1], 6, 1.0), [1]).predict(test)
    frame = pd.DataFrame(test, columns=list("abc"))
    frame.to_parquet(tmp_path / "rows.parquet")
    for scheduler in ("synchronous", "processes"):
        out = tmp_path / scheduler
        predict_dataset(model, tmp_path / "rows.parquet", out, scheduler=scheduler)
        written = pd.read_parquet(out).filter(like="probability").to_numpy()
        assert_array_equal(written, model.predict_proba(test))
    lazy = model.predict_proba(da.from_array(test, chunks=(7, 3)))
    assert_array_equal(lazy.compute(scheduler="processes"), model.predict_proba(test))


def test_a_factor_serves_many_rows_of_many_features():
    rng = np.random.default_rng(0)
    n_features, n_rows = 200, 400
    X, y = rng.normal(size=(n_rows + 48, n_features)), rng.integers(5, size=n_rows + 48)
    model = LinearDiscriminantAnalysis().fit(X[:n_rows], y[:n_rows])
    model.predict(X[:1])
    for start in range(n_rows, n_rows + 40, 8):  # which add 20 to the trace, and little in any one direction
        model.partial_fit(X[start : start + 8], np.arange(8) % 5).predict(X[:1])
        if start < n_rows + 24:
            assert model._cache.is_update
    posteriors_agree(model, X[:50])


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
