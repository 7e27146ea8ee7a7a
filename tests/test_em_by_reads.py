"""Models that learn from rows with too many patterns to keep, by reading them once for each step of EM."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import streamgda
from streamgda import (
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    scan_parquet,
)
from tests.test_learning_incomplete_rows import folder, holed, log_likelihood

__all__ = ["folder"]  # a fixture


@pytest.mark.parametrize("model", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis])
def test_reading_once_a_step_leads_where_the_patterns_lead(model):
    X, y = holed(2000, offset=1e6)
    by_pattern = model(missing="marginal", store_covariance=True).fit(X, y)
    options = {"max_patterns": 3, "max_reads": 40, "store_covariance": True}
    by_reads = model(missing="marginal", **options).fit(X, y)
    assert by_reads.n_reads_ > 3
    assert by_reads.converged_
    assert by_reads.n_iter_ == by_reads.n_reads_ - 1
    deviations = np.sqrt(np.nanvar(X, axis=0))
    np.testing.assert_allclose(
        (by_reads.means_ - by_pattern.means_) / deviations, np.zeros((2, 4)), atol=0.01
    )
    ratio = by_reads.covariance_ / np.outer(deviations, deviations)
    np.testing.assert_allclose(ratio, by_pattern.covariance_ / np.outer(deviations, deviations), atol=0.02)
    assert by_reads.statistics_.counts.tolist() == by_pattern.statistics_.counts.tolist()


def test_the_likelihood_of_rows_is_that_of_scipy_and_grows_with_each_read():
    from streamgda.blocks.arrays import array_blocks
    from streamgda.statistics.incomplete.reads import read_incomplete

    X, y = holed(200, d=3)
    means, likelihoods = [], []

    def read(empty):
        state = empty.copy()
        state.update_blocks(array_blocks(X, y))
        if hasattr(state, "log_likelihood"):
            means.append(empty.given.in_units())
            likelihoods.append(state.log_likelihood)
        return state

    read_incomplete(read, IncompleteStatistics(max_patterns=2), 6)
    assert len(likelihoods) == 5
    for (centres, tails, covariances), found in zip(means, likelihoods, strict=True):
        assert found == pytest.approx(log_likelihood(X, y, centres + tails, covariances), rel=1e-12)
    assert (np.diff(likelihoods) > 0).all()


def test_too_few_reads_are_a_warning_that_says_what_to_do():
    X, y = holed()
    with pytest.warns(
        ConvergenceWarning, match="not converged in 2 reads .* Raise max_reads, or max_patterns"
    ):
        model = QuadraticDiscriminantAnalysis(missing="marginal", max_patterns=2, max_reads=2).fit(X, y)
    assert (model.n_reads_, model.converged_) == (2, False)
    with pytest.raises(ValueError, match="patterns of observed features or more"):
        QuadraticDiscriminantAnalysis(missing="marginal", max_patterns=2, max_reads=1).fit(X, y)
    with pytest.raises(ValueError, match="patterns of observed features or more"):
        QuadraticDiscriminantAnalysis(missing="marginal", max_patterns=2).partial_fit(X, y)


def test_progress_tells_how_much_each_read_changed(folder, capsys):
    model = QuadraticDiscriminantAnalysis(missing="marginal", max_patterns=3, max_reads=20)
    model.fit(scan_parquet(folder, "y"), progress=True)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("read")]
    assert lines[0].startswith("read 2 of at most 20, change ")
    assert len(lines) == model.n_reads_ - 1


@pytest.mark.parametrize(
    "model", [LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis(reg_param=0.1)]
)
def test_a_model_learnt_by_several_reads_is_read_back_to_the_last_bit(model, tmp_path):
    X, y = holed(3000, d=6, n_classes=3, share=0.15)
    weights = np.random.default_rng(0).uniform(0.1, 2, len(X))
    model.set_params(missing="marginal", max_patterns=4).fit(X, y, weights)
    assert model.n_reads_ > 1
    model.save(tmp_path / "model.parquet")
    loaded = streamgda.load(tmp_path / "model.parquet")
    assert loaded.statistics_ == model.statistics_
    assert loaded.predict_proba(X).tolist() == model.predict_proba(X).tolist()
