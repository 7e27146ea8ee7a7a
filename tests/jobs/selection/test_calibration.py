"""The temperature of held-out rows, which a search gives to the model that it chooses."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import log_loss

from streamgda import (
    Evaluation,
    GaussianNB,
    HashedKFold,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RidgeClassifier,
    StatisticsSearchCV,
    cross_validate,
    load,
    scan_parquet,
)
from tests.cli.test_command_line import invoke

LDA, QDA = LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, 500)
X = RNG.normal(size=(3, 4))[CODES] + RNG.standard_t(3, size=(500, 1)) + RNG.normal(size=(500, 4))
Y = np.array(["ant", "bee", "cat"])[CODES]


def held_out_scores(model, cv=5):
    """Yield the labels of the rows of each fold, and their log probabilities by the model of the others."""
    folds = HashedKFold(cv).folds(len(X))
    for fold in range(cv):
        here = folds == fold
        fitted = type(model)(**model.get_params()).fit(X[~here], Y[~here])
        yield Y[here], fitted.predict_log_proba(X[here])


def least_at(y, scores):
    """The temperature of the least log loss, to a thousandth, of a fine grid."""
    truth = np.searchsorted(["ant", "bee", "cat"], y)

    def loss(temperature):
        own = log_softmax(scores / temperature, axis=1)[np.arange(len(y)), truth]
        return -np.maximum(own, np.log(2.0**-52)).sum()

    return min(np.geomspace(0.25, 256, 7000), key=loss)


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["log_likelihood", "accuracy", ["accuracy", "neg_log_loss"]])
def test_the_chosen_model_has_that_of_all_rows_held_out(scoring):
    grid = [{"estimator": [LDA(), QDA()], "priors": [None, [0.2, 0.3, 0.5]]}, {"estimator": [GaussianNB()]}]
    refit = True if isinstance(scoring, str) else "accuracy"
    search = StatisticsSearchCV(None, grid, scoring=scoring, refit=refit, calibrate="temperature").fit(X, Y)
    plain = StatisticsSearchCV(None, grid, scoring=scoring, refit=refit).fit(X, Y)
    assert search.n_reads_ == 2
    assert search.best_params_ == plain.best_params_
    assert plain.best_estimator_.temperature == 1.0
    temperatures = search.cv_results_["temperature"]
    for chosen, temperature in zip(search.cv_results_["params"], temperatures, strict=True):
        params = dict(chosen)
        labels, scores = zip(*held_out_scores(params.pop("estimator").set_params(**params)), strict=True)
        assert temperature == pytest.approx(least_at(np.concatenate(labels), np.vstack(scores)), rel=1e-2)
    best = search.best_estimator_
    assert best.temperature == search.cv_results_["temperature"][search.best_index_] != 1
    expected = log_softmax(plain.predict_log_proba(X) / best.temperature, axis=1)
    np.testing.assert_allclose(search.predict_proba(X), np.exp(expected), rtol=1e-9, atol=1e-15)


MIXED = {"estimator": [GaussianNB(), RidgeClassifier(alpha=1100)]}


@pytest.mark.parametrize("scoring", ["neg_log_loss", ["accuracy", "log_loss"]])
def test_each_candidate_is_ranked_by_its_loss_at_its_best_temperature(scoring):
    name, key = (scoring, "score") if isinstance(scoring, str) else ("log_loss", "log_loss")
    search = StatisticsSearchCV(None, MIXED, scoring=scoring, refit=name, calibrate="temperature").fit(X, Y)
    results, means = search.cv_results_, []
    for number, model in enumerate(MIXED["estimator"]):
        folds = list(held_out_scores(model))

        def losses_at(log_temperature, folds=folds):
            return [log_loss(y, softmax(scores / np.exp(log_temperature), axis=1)) for y, scores in folds]

        sizes = [len(y) for y, _ in folds]
        best = minimize_scalar(
            lambda t, f=losses_at, n=sizes: np.average(f(t), weights=n), bounds=(-1.3, 5)
        ).x
        own = results["temperature"][number]
        assert own == pytest.approx(np.exp(best), rel=1e-2)
        splits = [-results[f"split{i}_test_{key}"][number] for i in range(5)]
        np.testing.assert_allclose(splits, losses_at(np.log(own)), rtol=1e-5)
        means.append(np.mean(losses_at(best)))
    np.testing.assert_allclose(-results[f"mean_test_{key}"], means, rtol=1e-3)
    assert search.best_index_ == np.argmin(means) == 1  # without temperatures, the other wins
    assert search.best_estimator_.temperature == results["temperature"][1]


@pytest.mark.parametrize(
    ("scoring", "calibrate", "grid", "warns"),
    [
        ("neg_log_loss", None, MIXED, True),
        ("neg_brier_score", None, MIXED, True),
        ("brier_score", "temperature", MIXED, True),
        ("log_loss", "temperature", MIXED, False),
        ("accuracy", None, MIXED, False),
        (["neg_log_loss", "accuracy"], None, MIXED, False),
        ("neg_log_loss", None, {"estimator": [LDA(), GaussianNB()]}, False),
        ("neg_log_loss", None, {"estimator": [RidgeClassifier(alpha=1), RidgeClassifier()]}, False),
        ("neg_log_loss", None, {"estimator": [LDA(), RidgeClassifier(temperature=0.5)]}, False),
    ],
)
def test_a_ranking_of_uncalibrated_models_among_others_warns(scoring, calibrate, grid, warns):
    refit = "accuracy" if isinstance(scoring, list) else True
    search = StatisticsSearchCV(None, grid, scoring=scoring, refit=refit, calibrate=calibrate)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, Y)
    words = "RidgeClassifier: not calibrated in a search"
    assert [str(warning.message)[: len(words)] for warning in caught] == [words] * warns


def test_cross_validation_reports_that_of_each_fold():
    scores = cross_validate(LDA(), X, Y, calibrate="temperature")
    assert set(scores) == {"fit_time", "score_time", "test_score", "temperature"}
    expected = [Evaluation().update(y, s, ["ant", "bee", "cat"]) for y, s in held_out_scores(LDA())]
    best = [evaluation.best_temperature for evaluation in expected]
    np.testing.assert_allclose(scores["temperature"], best, rtol=1e-6)
    tempered = cross_validate(LDA(temperature=3.0), X, Y, calibrate="temperature")
    np.testing.assert_allclose(tempered["temperature"], best, rtol=1e-6)


def test_what_has_no_rows_to_score_cannot_be_calibrated():
    search = StatisticsSearchCV(LDA(), {}, calibrate="temperature")
    with pytest.raises(ValueError, match="can be scored by 'log_likelihood' alone, and do not calibrate"):
        search.partial_fit(X, Y)
    states = StatisticsSearchCV(LDA(), {}).fit(X, Y).fold_statistics_
    with pytest.raises(ValueError, match="calibrate='temperature' needs the rows, and there are only stati"):
        search.fit(states)
    with pytest.raises(ValueError, match="calibrate is 'temperature' or None; got 'isotonic'"):
        StatisticsSearchCV(LDA(), {}, calibrate="isotonic").fit(X, Y)


def test_failing_candidates_have_none():
    grid = {"shrinkage": [None, 0.1]}
    wide = np.hstack([X, X[:, :1]])
    with pytest.warns(FitFailedWarning, match="5 of 10 fits failed"):
        search = StatisticsSearchCV(QDA(), grid, calibrate="temperature").fit(wide, Y)
    assert np.isnan(search.cv_results_["temperature"][0])
    assert search.best_estimator_.temperature == search.cv_results_["temperature"][1]


def test_on_the_command_line(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=Y)
    frame.to_parquet(tmp_path / "rows.parquet")
    search = StatisticsSearchCV(LDA(), {}, calibrate="temperature")
    expected = search.fit(scan_parquet(tmp_path / "rows.parquet", "kind")).best_estimator_.temperature
    rows, out = str(tmp_path / "rows.parquet"), str(tmp_path / "best.parquet")
    arguments = ["search", rows, "--target", "kind", "--try", "lda", "--calibrate", "--out", out]
    assert f"temperature: {expected}" in invoke(tmp_path, *arguments)
    assert load(out).temperature == expected
    assert json.loads(invoke(tmp_path, *arguments, "--json"))["temperature"] == expected
    invoke(tmp_path, "fit", rows, "--target", "kind", "--model", "lda", "--temperature", "2", "--out", out)
    assert load(out).temperature == 2
