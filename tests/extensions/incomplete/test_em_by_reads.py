"""Models that learn from rows with too many patterns to keep, by reading them once for each step of EM."""

from pathlib import Path

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import streamgda
from streamgda import (
    GaussianNB,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    Marginal,
    QuadraticDiscriminantAnalysis,
    accumulate,
    scan_arrow,
    scan_parquet,
)
from streamgda.cli.main import main
from streamgda.data.blocks.arrays import array_blocks
from tests.extensions.incomplete.test_learning_incomplete_rows import folder, holed, log_likelihood

__all__ = ["folder"]  # a fixture


@pytest.mark.parametrize("model", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis])
def test_reading_once_a_step_leads_where_the_patterns_lead(model):
    X, y = holed(2000, offset=1e6)
    by_pattern = model(missing="marginal", store_covariance=True).fit(X, y)
    by_reads = model(missing=Marginal(max_patterns=3, max_reads=40), store_covariance=True).fit(X, y)
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


def test_the_likelihood_grows_with_each_read():
    X, y = holed(200, d=3)
    likelihoods = []

    def read(empty):
        state = empty.copy()
        state.update_blocks(array_blocks(X, y))
        if hasattr(state, "parameters"):
            given = empty.parameters.moments(np.ones(2), np.zeros(2))
            likelihoods.append(log_likelihood(X, y, given.means + given.low_means, given.scatter))
        return state

    Marginal(max_patterns=2, max_reads=6).read(read, IncompleteStatistics(max_patterns=2))
    assert len(likelihoods) == 5
    assert (np.diff(likelihoods) > 0).all()


def test_too_few_reads_are_a_warning_that_says_what_to_do():
    X, y = holed()
    said = "not converged in 2 reads .* Raise max_reads or tol, or max_patterns .* missing=Marginal"
    with pytest.warns(ConvergenceWarning, match=said):
        model = QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=2, max_reads=2)).fit(X, y)
    assert (model.n_reads_, model.converged_) == (2, False)
    with pytest.raises(ValueError, match="patterns of observed features or more"):
        QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=2, max_reads=1)).fit(X, y)
    with pytest.raises(ValueError, match="patterns of observed features or more"):
        QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=2)).partial_fit(X, y)


def test_progress_tells_how_much_each_read_changed(folder, capsys):
    model = QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=3, max_reads=20))
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
    model.set_params(missing=Marginal(max_patterns=4)).fit(X, y, weights)
    assert model.n_reads_ > 1
    model.save(tmp_path / "model.parquet")
    loaded = streamgda.load(tmp_path / "model.parquet")
    assert loaded.statistics_ == model.statistics_
    assert loaded.predict_proba(X).tolist() == model.predict_proba(X).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("model", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis])
def test_a_smaller_tolerance_comes_as_close_to_the_maximum_as_asked(model):
    X, y = holed(1500, d=3, seed=5)
    X[:, 2] = X[:, 0] + 0.05 * X[:, 2]  # nearly collinear: EM is slow
    by_pattern = model(missing="marginal").fit(X, y).predict_proba(X)
    gaps = []
    for tolerance in (5e-3, 1e-5, 1e-7):
        policy = Marginal(max_patterns=2, max_reads=3000, tol=tolerance)
        by_reads = model(missing=policy).fit(X, y)
        assert by_reads.converged_
        gaps.append(np.abs(by_reads.predict_proba(X) - by_pattern).max())
    assert gaps[0] > 0.01
    assert gaps[1] < 1e-3
    assert gaps[2] < 1e-5


def test_a_model_saved_without_a_tolerance_has_the_default():
    model = streamgda.load(Path(__file__).parents[2] / "files" / "format-2-incomplete.parquet")
    assert model.missing == "marginal"


def test_fourth_moments_are_refused_at_the_first_incomplete_row(folder):
    model = LinearDiscriminantAnalysis(missing=Marginal(max_patterns=3), shrinkage="auto", solver="eigen")
    X, y = holed(600)
    first = np.flatnonzero(np.isnan(X).any(axis=1))[0]
    with pytest.raises(ValueError, match=rf"row {first}: feature \d is NaN .* or set shrinkage='oas'"):
        model.fit(X, y)
    with pytest.raises(ValueError, match=rf"0.parquet, row group 0, row {first}: .* or set shrinkage='oas'"):
        model.fit(scan_parquet(folder, "y"))
    complete = np.nan_to_num(X)
    plain = LinearDiscriminantAnalysis(shrinkage="auto", solver="eigen").fit(complete, y)
    assert model.fit(complete, y).statistics_ == plain.statistics_


# ---------------------------------------------------------------------- what is kept of reads


def test_the_first_read_is_kept_if_the_second_shows_what_is_not_determined():
    X, y = holed(500)
    X[::2, 0] = X[1::2, 3] = np.nan
    source = scan_arrow(pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "y": y}), "y", missing="marginal")
    for model in (LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis):
        fitted = model(missing=Marginal(max_patterns=2))
        with pytest.raises(ValueError, match="no row has both 'x0' and 'x3'") as error:
            fitted.fit(source)
        assert error.value.__notes__ == ["The result of 1 read is kept in statistics_"]
        assert fitted.statistics_.allclose(accumulate(source, "diag"))
        naive = GaussianNB.from_statistics(fitted.statistics_)
        direct = GaussianNB(missing="marginal").fit(source)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(4)])
        np.testing.assert_allclose(naive.predict_proba(frame), direct.predict_proba(frame), rtol=1e-12)
        for use in (fitted.predict, lambda rows, fitted=fitted: fitted.partial_fit(rows, y)):
            with pytest.raises(ValueError, match="holds each feature by itself, .* GaussianNB.from_stat"):
                use(frame)


def test_what_some_reads_have_given_is_kept_if_a_later_one_fails():
    X, y = holed(500)
    reads = []

    table = pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "y": y})
    source = scan_arrow(table, "y", missing="marginal")

    def failing(graph, keys, **options):
        reads.append(1)
        if len(reads) == 4:
            raise OSError("the disk is gone")
        return dask.get(graph, keys, **options)

    model = QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=2))
    with pytest.raises(OSError, match="the disk is gone") as error:
        model.fit(source, scheduler=failing)
    assert error.value.__notes__ == ["The result of 3 reads is kept in statistics_"]
    assert (model.n_reads_, model.converged_) == (3, False)
    with pytest.warns(ConvergenceWarning):
        three = clone(model).set_params(missing__max_reads=3).fit(source)
    assert model.statistics_ == three.statistics_


# ---------------------------------------------------------------------- on a cluster


@pytest.mark.slow_cases("15", "16")
@pytest.mark.parametrize("max_patterns", [3, 15, 16])
def test_a_checkpoint_keeps_the_first_read(folder, tmp_path, max_patterns):
    source = scan_parquet(folder, "y", missing="marginal")
    options = {"missing": Marginal(max_patterns, max_reads=3, tol=1.0), "rows_per_task": 1}
    kept = tmp_path / "kept"
    expected = accumulate(source, **options)
    assert accumulate(source, checkpoint=kept, **options) == expected
    states = sorted(kept.iterdir())
    assert sum(streamgda.load(path).n_rows for path in states) == 600
    states[0].unlink()
    assert accumulate(source, checkpoint=kept, **options) == expected
    assert sorted(kept.iterdir()) == states
    if max_patterns == 16:  # a single read takes up no state of a read that others may follow
        options["missing"] = Marginal(max_patterns, max_reads=1)
        assert accumulate(source, checkpoint=kept, **options) == accumulate(source, **options)
        assert len(list(kept.iterdir())) == 2 * len(states)


# ---------------------------------------------------------------------- the command line


@pytest.mark.slow
def test_the_command_line_says_how_em_ends(folder, tmp_path):
    out = tmp_path / "model.parquet"
    arguments = ["fit", str(folder), "--target", "y", "--out", str(out), "--missing"]
    done = CliRunner().invoke(main, [*arguments, "marginal max_patterns=3 max_reads=30 tol=1e-4"])
    assert done.exit_code == 0, done.output
    kept = scan_parquet(folder, "y", missing="marginal")
    expected = accumulate(kept, missing=Marginal(max_patterns=3, max_reads=30, tol=1e-4))
    assert streamgda.load(out).statistics_ == expected
    early = CliRunner().invoke(main, [*arguments, "marginal max_patterns=3 max_reads=3 tol=1e-6"])
    how = "set --missing 'marginal max_patterns=... max_reads=... tol=...'"
    assert "EM has not converged in 3 reads of the rows" in early.stderr
    assert "more than --tol 1e-06. Raise max_reads or tol, or max_patterns" in early.stderr
    assert how in early.stderr
    once = CliRunner().invoke(main, [*arguments, "marginal max_patterns=3 max_reads=1", "--statistics"])
    assert f"up to max_patterns=3 are kept. Raise max_patterns ({how});" in once.stderr


@pytest.mark.parametrize("remedy", [{"reg_param": 0.5}, {"pooling": 0.5}, {"pooling": "bayes"}])
def test_regularisation_does_not_stand_in_for_a_covariance_that_is_not_determined(remedy):
    X, y = holed(400)
    X[::2, 0] = X[1::2, 3] = np.nan
    with pytest.raises(
        ValueError, match=r"both 0 and 3.* reg_param and pooling act on covariances that are known"
    ):
        QuadraticDiscriminantAnalysis(missing="marginal", **remedy).fit(X, y)


@pytest.mark.slow_cases("Quadratic")
@pytest.mark.parametrize("first", ["BO", "BOZ"])
@pytest.mark.parametrize("model", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis])
def test_a_file_may_lack_a_category(model, first, tmp_path):
    rng, policy = np.random.default_rng(0), Marginal(max_patterns=2)
    y = np.arange(400) % 2
    X = pd.DataFrame(rng.normal(size=(400, 3)) + y[:, None], columns=list("abc"))
    X = X.mask(rng.random(X.shape) < 0.2)
    X["city"] = [
        *rng.choice(list(first), 200),
        *rng.choice(["B", "O", "Z"] if first == "BO" else ["B", "O"], 200),
    ]
    for name, rows in [("1", slice(200)), ("2", slice(200, None))]:
        X[rows].assign(y=y[rows]).to_parquet(tmp_path / f"{name}.parquet")
    expected = model(missing=policy).fit(X, y).statistics_
    source = scan_parquet(tmp_path, "y", missing="marginal")
    kind = expected.covariance_type
    for found in (model(missing=policy).fit(source).statistics_, accumulate(source, kind, missing=policy)):
        assert found.schema == expected.schema
        assert found.allclose(expected)
