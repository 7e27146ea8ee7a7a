"""Cross-validation of models that learn from rows in which features are missing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from streamgda import (
    GaussianNB,
    Marginal,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    StatisticsSearchCV,
    cross_validate,
    scan_parquet,
)
from streamgda.jobs.selection.splitters import HashedKFold
from tests.extensions.incomplete.test_learning_incomplete_rows import holed, log_likelihood
from tests.reference import covariances_of


@pytest.fixture(scope="module")
def data():
    return holed(600, d=3, seed=2)


@pytest.mark.slow_cases("Quadratic")
def test_held_out_rows_have_the_likelihood_of_what_is_observed(model, data):
    X, y = data
    stored = {} if model is GaussianNB else {"store_covariance": True}
    search = StatisticsSearchCV(model(missing="marginal", **stored), {"priors": [[0.5, 0.5]]}, cv=3).fit(X, y)
    for split, (train, test) in enumerate(HashedKFold(3).split(X, y)):
        fitted = model(missing="marginal", priors=[0.5, 0.5], **stored).fit(X[train], y[train])
        means = fitted.statistics_.means
        expected = log_likelihood(X[test], y[test], means, covariances_of(fitted)) + len(test) * np.log(0.5)
        found = search.cv_results_[f"split{split}_test_score"][0]
        assert found == pytest.approx(expected / len(test), rel=1e-6)
    assert search.n_reads_ == 1
    assert search.best_estimator_.statistics_.n_rows == 600


@pytest.mark.slow_cases("Quadratic")
def test_held_out_rows_are_predicted_as_scikit_learn_has_them_predicted(model, data):
    X, y = data
    found = cross_validate(model(missing="marginal"), X, y, cv=3, scoring="accuracy")
    peer = cross_val_score(model(missing="marginal"), X, y, cv=HashedKFold(3), scoring="accuracy")
    np.testing.assert_allclose(found["test_score"], peer, atol=1e-12)


def test_rows_that_lack_nothing_have_the_scores_of_ordinary_folds(data):
    X, y = np.nan_to_num(data[0]), data[1]
    grid = {"reg_param": [0.0, 0.1]}
    scores = [
        StatisticsSearchCV(QuadraticDiscriminantAnalysis(missing=missing), grid, cv=3).fit(X, y).cv_results_
        for missing in ("raise", "marginal")
    ]
    np.testing.assert_allclose(*[result["mean_test_score"] for result in scores], rtol=1e-13)


def test_too_many_patterns_are_refused_with_a_remedy(data):
    X, y = data
    search = StatisticsSearchCV(QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=3)), {})
    with pytest.raises(ValueError, match=r"max_patterns=3 are kept\. Raise max_patterns"):
        search.fit(X, y)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("complete_first", [False, True])
def test_a_ledger_keeps_folds_of_incomplete_rows(tmp_path, data, complete_first):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    ledger = StatisticsLedger(tmp_path / "ledger", folds=3)
    if complete_first:
        frame.fillna(0.0).to_parquet(tmp_path / "1.parquet")
        ledger.refresh(scan_parquet(tmp_path / "*.parquet", "y"))
    frame.to_parquet(tmp_path / "2.parquet")
    source = scan_parquet(tmp_path / "*.parquet", "y", missing="marginal")
    ledger.refresh(source)
    search = StatisticsSearchCV(QuadraticDiscriminantAnalysis(missing="marginal"), {"priors": [None]}, cv=3)
    kept = search.fit(StatisticsLedger(tmp_path / "ledger", folds=3).fold_statistics()).best_score_
    assert kept == pytest.approx(search.fit(source).best_score_, rel=1e-9)
