"""The temperature of held-out rows, which a search gives to the model that it chooses."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax
from sklearn.exceptions import FitFailedWarning

from streamgda import (
    Evaluation,
    GaussianNB,
    HashedKFold,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
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
