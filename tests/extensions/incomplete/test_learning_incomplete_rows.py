"""Models that learn from rows in which features are missing."""

import copy
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

import streamgda
from streamgda import (
    ClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    Marginal,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    accumulate,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from tests.reference import covariances_of
from tests.strategies import MODELS

nan = float("nan")

APPLE = [(8, 59), (6, 58), (11, 56), (22, 53), (14, 50), (17, 45), (18, 43), (24, 42), (19, 39), (23, 38)]
APPLE = np.array([*APPLE, (26, 30), (40, 27), *((size, nan) for size in (4, 4, 5, 6, 8, 10))], dtype=float)
"""Little & Rubin (2019), table 7.4: sizes of crops and percentages of wormy fruit."""

MISSVALS = np.array(
    [
        [7, 26, 6, 60, 78.5],
        [1, 29, 15, 52, 74.3],
        [11, 56, 8, 20, 104.3],
        [11, 31, 8, 47, 87.6],
        [7, 52, 6, 33, 95.9],
        [11, 55, 9, 22, 109.2],
        [3, 71, 17, nan, 102.7],
        [1, 31, 22, nan, 72.5],
        [2, 54, 18, nan, 93.1],
        [nan, nan, 4, nan, 115.9],
        [nan, nan, 23, nan, 83.8],
        [nan, nan, 9, nan, 113.3],
        [nan, nan, 8, nan, 109.4],
    ]
)
"""Little & Rubin (2019), table 7.7: a monotone pattern."""


def holed(n_rows=400, d=4, n_classes=2, share=0.12, seed=0, offset=0.0):
    """(X, y) of normal classes, with values missing at random."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    X = rng.normal(size=(n_rows, d)) @ rng.normal(size=(d, d)) + rng.normal(size=(n_classes, d))[y] + offset
    X[rng.random(X.shape) < share] = nan
    return X, y


# ---------------------------------------------------------------------- published values


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_apple(kind):
    state = IncompleteStatistics(kind).update(APPLE, np.zeros(18, int))
    np.testing.assert_allclose(state.means[0], [14.722222, 49.333333], atol=1e-6)
    covariance = state.covariance().reshape(2, 2)
    np.testing.assert_allclose(
        covariance[[0, 0, 1], [0, 1, 1]], [89.533951, -90.696729, 114.694955], atol=2e-6
    )


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_missvals(offset):
    state = IncompleteStatistics().update(MISSVALS + offset, np.zeros(13, int))
    means = state.means[0] - offset
    atol = 6e-7 + 1e-15 * offset
    np.testing.assert_allclose(means, [6.655166, 49.965259, 11.769231, 27.047089, 95.423077], atol=atol)
    assert state.iteration.n_iter == 0
    variances = [21.825568, 238.012439, 37.869822, 294.183044, 208.904852]
    np.testing.assert_allclose(np.diag(state.covariance()[0]), variances, rtol=1e-6)
    assert state.covariance()[0, 2, 4] == pytest.approx(-47.556213, rel=1e-7)


# ---------------------------------------------------------------------- the maximum of the likelihood


def log_likelihood(X, y, means, covariances):
    """Σ ln p(observed | class), by scipy's densities."""
    total = 0.0
    alike = np.unique(np.column_stack([y, ~np.isnan(X)]), axis=0, return_inverse=True)
    for i, (k, *is_seen) in enumerate(alike[0]):
        seen = np.flatnonzero(is_seen)
        if len(seen):
            rows = X[np.ix_(alike[1].ravel() == i, seen)]
            covariance = covariances[k][np.ix_(seen, seen)]
            total += stats.multivariate_normal(means[k][seen], covariance).logpdf(rows).sum()
    return total


def test_no_step_away_from_the_maximum_is_likelier(kind):
    X, y = holed(300, d=3, seed=1)
    state = IncompleteStatistics(kind).update(X, y)
    covariances = state.covariance()
    covariances = (
        np.array([np.diag(c) for c in covariances]) if kind == "diag" else np.resize(covariances, (2, 3, 3))
    )
    best = log_likelihood(X, y, state.means, covariances)
    rng = np.random.default_rng(0)
    for size in (1e-2, 1e-4):
        shift = size * rng.normal(size=state.means.shape)
        assert log_likelihood(X, y, state.means + shift, covariances) < best
        tilt = np.eye(3) + size * (np.diag(rng.normal(size=3)) if kind == "diag" else rng.normal(size=(3, 3)))
        assert log_likelihood(X, y, state.means, tilt @ covariances @ tilt.T) < best


def test_a_likelihood_without_bound_names_the_class_whose_covariance_becomes_singular():
    X = holed(30, d=4, share=0.5, seed=1)[0]
    both = np.vstack([X, np.random.default_rng(0).normal(size=(30, 4))])
    with pytest.raises(ValueError, match="class 0 .* rank 3 of 4, from 30 rows"):
        QuadraticDiscriminantAnalysis(missing="marginal").fit(both, np.repeat([0, 1], 30))


# ---------------------------------------------------------------------- models


@pytest.mark.parametrize("model", [*MODELS, GaussianDiscriminantAnalysis])
def test_complete_rows_give_the_same_model_as_ever(model):
    X, y = holed(share=0)
    plain, marginal = model().fit(X, y), model(missing="marginal").fit(X, y)
    assert marginal.statistics_ == plain.statistics_
    assert type(marginal.statistics_) is ClassStatistics
    assert marginal.predict_proba(X).tolist() == plain.predict_proba(X).tolist()
    assert (marginal.n_iter_, marginal.converged_, marginal.n_reads_) == (0, True, 1)


@pytest.mark.slow_cases("Linear")
def test_rows_before_the_first_incomplete_one_are_not_lost(model):
    X, y = holed()
    complete = ~np.isnan(X).any(axis=1)
    streamed = model(missing="marginal").partial_fit(X[complete], y[complete])
    assert type(streamed.statistics_) is ClassStatistics
    streamed = streamgda.from_bytes(streamed.to_bytes()).partial_fit(X[~complete], y[~complete])
    assert streamed.statistics_.allclose(model(missing="marginal").fit(X, y).statistics_)
    assert model.from_statistics(streamed.statistics_).missing == "marginal"
    added = (
        model(missing="marginal")
        .fit(X[complete], y[complete])
        .merge(IncompleteStatistics().update(X[~complete], y[~complete]))
        if model is QuadraticDiscriminantAnalysis
        else streamed
    )
    assert added.statistics_.allclose(streamed.statistics_)


@pytest.mark.slow_cases("Quadratic")
def test_rows_without_any_feature_count_for_the_prior_alone(model):
    X, y = holed()
    fitted = model(missing="marginal").fit(X, y)
    more = np.vstack([X, np.full((200, 4), nan)])
    with_more = model(missing="marginal").fit(more, np.append(y, np.ones(200, int)))
    counts = np.bincount(y) + np.array([0, 200])
    priors = with_more.priors_
    np.testing.assert_allclose(priors, counts / counts.sum(), rtol=1e-12)
    np.testing.assert_allclose(with_more.statistics_.means, fitted.statistics_.means, rtol=1e-9)
    np.testing.assert_allclose(
        with_more.statistics_.to_covariance_type(fitted.statistics_.covariance_type).covariance(),
        fitted.statistics_.covariance(),
        rtol=1e-6,
    )


def test_regularisation_is_applied_to_the_likeliest_covariances():
    X, y = holed()
    state = IncompleteStatistics().update(X, y)
    model = QuadraticDiscriminantAnalysis(missing="marginal", reg_param=0.3, store_covariance=True).fit(X, y)
    np.testing.assert_allclose(model.covariance_, 0.7 * state.covariance() + 0.3 * np.eye(4), rtol=1e-12)
    options = {"solver": "eigen", "shrinkage": 0.5, "store_covariance": True}
    shrunk = QuadraticDiscriminantAnalysis(missing="marginal", **options).fit(X, y).covariance_
    expected = ClassStatistics.from_moments([0, 1], state.counts, state.means, state.scatter)
    peer = QuadraticDiscriminantAnalysis.from_statistics(expected, **options)
    np.testing.assert_allclose(shrunk, peer.covariance_, rtol=1e-12)
    with pytest.raises(ValueError, match="set shrinkage='oas'.* moments, which shrinkage='auto' needs"):
        QuadraticDiscriminantAnalysis(missing="marginal", shrinkage="auto").fit(X, y)


def test_edda_of_classes_that_share_nothing_is_qda():
    X, y = holed()
    edda = GaussianDiscriminantAnalysis(covariance_model="VVV", missing="marginal").fit(X, y)
    qda = QuadraticDiscriminantAnalysis(missing="marginal", store_covariance=True).fit(X, y)
    np.testing.assert_allclose(edda.means_, qda.means_, rtol=1e-12)
    np.testing.assert_allclose(edda.covariance_, qda.covariance_, rtol=1e-10)
    np.testing.assert_allclose(edda.predict_proba(X), qda.predict_proba(X), rtol=1e-8, atol=1e-12)


def test_the_rows_given_are_not_changed():
    X, y = holed()
    before = X.copy()
    with pytest.warns(ConvergenceWarning):
        QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=1, max_reads=3)).fit(X, y)
    np.testing.assert_array_equal(X, before)


# ---------------------------------------------------------------------- what is not determined


def test_a_feature_that_a_class_never_has_is_an_error_that_names_it():
    X, y = holed()
    X[y == 1, 2] = nan
    frame = pd.DataFrame(X, columns=list("abcd"))
    for model in MODELS:
        with pytest.raises(
            ValueError, match="class 1: no row has feature 'c', so its mean is not determined"
        ):
            model(missing="marginal").fit(frame, y)
    skipping = QuadraticDiscriminantAnalysis(missing="marginal", singular="skip")
    with pytest.warns(UserWarning, match="class 1 gets no posterior .* no row has feature 2"):
        skipping.fit(X, y)
    assert not skipping.predict_proba(X)[:, 1].any()
    young = QuadraticDiscriminantAnalysis(missing="marginal").partial_fit(X, y)
    young.partial_fit(*holed(seed=1))
    assert np.isfinite(young.predict_proba(X)).all()


def test_features_that_no_row_has_together_are_an_error_that_names_them():
    X, y = holed()
    X[::2, 0] = X[1::2, 3] = nan
    for model, owner in ((QuadraticDiscriminantAnalysis, "class 0: no"), (LinearDiscriminantAnalysis, "no")):
        with pytest.raises(ValueError, match=f"^{owner} row has both 0 and 3, .*, or use GaussianNB"):
            model(missing="marginal").fit(X, y)
        with pytest.raises(ValueError, match=f"^{owner} row has both 0 and 3, .*, or use GaussianNB"):
            model(missing=Marginal(max_patterns=2)).fit(X, y)
    GaussianNB(missing="marginal").fit(X, y)
    X[y == 1] = holed()[0][y == 1]
    LinearDiscriminantAnalysis(missing="marginal").fit(X, y)
    with pytest.raises(ValueError, match="class 0: no row has both 0 and 3, .* pool the classes"):
        QuadraticDiscriminantAnalysis(missing="marginal").fit(X, y)


def apart_but_for(n_rows):
    """Two features, 15 rows of each alone and so many of both."""
    both = np.array([[0.1, 0.8], [0.9, -0.7], [-1.2, 0.4]])[:n_rows]
    alone = np.random.default_rng(2).normal(size=15)
    return np.vstack([both, *([value, nan] for value in alone), *([nan, -value] for value in alone)])


@pytest.mark.parametrize("n_rows", [1, 2])
def test_one_or_two_rows_of_a_pair_lie_on_a_line_and_determine_no_covariance(n_rows):
    X = apart_but_for(n_rows)
    slope = -1.5 if n_rows == 1 else (X[1, 1] - X[0, 1]) / (X[1, 0] - X[0, 0])
    mean = np.array([0.0, X[0, 1] - slope * X[0, 0]])  # of a line through the rows that have both
    likelihoods = [
        log_likelihood(X, np.zeros(len(X), int), [mean], np.array([[[1, slope], [slope, slope**2 + rest]]]))
        for rest in (1e-2, 1e-4, 1e-6, 1e-8)
    ]
    assert np.all(np.diff(likelihoods) > 2 * n_rows)  # and so on: there is no maximum
    X, y = np.vstack([X, X + 3]), np.repeat([0, 1], len(X))
    for patterns in (256, 1):
        model = QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=patterns))
        with pytest.raises(
            ValueError, match="class 0: too few rows have both 0 and 1, .* Bring three such rows"
        ):
            model.fit(X, y)
    GaussianNB(missing="marginal").fit(X, y)


def test_classes_that_share_a_covariance_need_two_rows_more_than_classes():
    X = np.vstack([apart_but_for(1) + k for k in range(3)])
    y = np.repeat([0, 1, 2], len(X) // 3)
    model = LinearDiscriminantAnalysis(missing="marginal")
    with pytest.raises(
        ValueError, match="^too few rows have both 0 and 1, .* two such rows more than classes"
    ):
        model.fit(X, y)
    more = np.array([[0.3, 0.1], [1.2, -0.8]])
    model.fit(np.vstack([X, more]), np.append(y, [0, 0]))
    assert model.converged_


def test_complete_rows_determine_their_scatter_however_few_they_are():
    X, y = holed()
    rows = np.array([[0.1, 0.2, 0.3, 0.9], [0.5, -0.1, 0.7, 0.2]])
    state = IncompleteStatistics().update(np.vstack([X, rows]), np.append(y, [9, 9]))
    deviations = rows - rows.mean(axis=0)
    np.testing.assert_allclose(state.scatter[-1], deviations.T @ deviations, rtol=1e-12)


def test_a_model_that_shall_raise_learns_no_incomplete_row(model):
    X, y = holed()
    fitted = model(missing="marginal").fit(X, y)
    fitted.set_params(missing="raise")
    before = copy.deepcopy(fitted.statistics_)
    with pytest.raises(ValueError, match="row 0: feature 2 is NaN or null"):
        fitted.partial_fit([[1.0, 2.0, nan, 3.0]], [0])
    assert fitted.statistics_ == before


# ---------------------------------------------------------------------- sources


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    X, y = holed(600)
    folder = tmp_path_factory.mktemp("holed")
    for i, rows in enumerate(np.array_split(np.arange(600), 5)):
        columns = {name: pa.array(X[rows, j], from_pandas=True) for j, name in enumerate("abcd")}
        table = pa.table({**columns, "y": y[rows]})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=20)
    return folder


@pytest.mark.slow_cases("Discriminant")
def test_every_source_gives_the_model_of_the_rows(model, folder, tmp_path):
    X, y = holed(600)
    expected = model(missing="marginal").fit(X, y)
    table = pq.read_table(folder)
    assert table["a"].null_count
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    group.create_array("X", data=X, chunks=(500, 4))
    group.create_array("y", data=y, chunks=(500,))
    sources = [
        scan_parquet(folder, "y"),
        scan_parquet(folder, "y", missing="marginal"),
        scan_arrow(table, "y", missing="marginal"),
        scan_zarr(tmp_path / "rows.zarr", "y", missing="marginal"),
        scan_dask(da.from_array(X, chunks=(500, 4)), da.from_array(y, chunks=500), missing="marginal"),
    ]
    for source in sources:
        fitted = model(missing="marginal").fit(source)
        assert fitted.statistics_.moments_for().allclose(expected.statistics_.moments_for(), rtol=1e-6)
        assert fitted.statistics_.counts.tolist() == expected.statistics_.counts.tolist()
    lazily = model(missing="marginal").fit(da.from_array(X, chunks=(500, 4)), da.from_array(y, chunks=500))
    assert lazily.statistics_.allclose(fitted.statistics_)
    streamed = model(missing="marginal").partial_fit(X[:10], y[:10]).partial_fit(sources[0])
    assert streamed.statistics_.n_rows == 610
    with pytest.raises(ValueError, match="0.parquet, row group 0, row .* is NaN or null"):
        model().fit(scan_parquet(folder, "y"))


def test_what_accumulate_keeps_of_a_source(folder):
    X, y = holed(600)
    state = accumulate(scan_parquet(folder, "y", missing="marginal"))
    assert state.allclose(IncompleteStatistics(feature_names=list("abcd")).update(X, y))
    assert state.n_rows == 600
    dropped = accumulate(scan_parquet(folder, "y", missing="drop"))
    assert dropped.n_rows == (~np.isnan(X).any(axis=1)).sum()
    with pytest.raises(ValueError, match="\\d+ patterns"):
        accumulate(scan_parquet(folder, "y"), missing=Marginal(max_patterns=3, max_reads=1))
    assert accumulate(scan_parquet(folder, "y", missing="marginal"), exact=True) == IncompleteStatistics(
        exact=True, feature_names=list("abcd")
    ).update(X, y)


@pytest.mark.slow_cases("256")
@pytest.mark.parametrize("max_patterns", [3, 256])
def test_every_scheduler_gives_the_same_bits(folder, max_patterns):
    models = []
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            model = QuadraticDiscriminantAnalysis(missing=Marginal(max_patterns=max_patterns, max_reads=20))
            models.append(model.fit(scan_parquet(folder, "y")))
    assert models[0].statistics_ == models[1].statistics_
    assert models[0].n_reads_ == models[1].n_reads_ == (1 if max_patterns == 256 else models[0].n_reads_)


# ---------------------------------------------------------------------- saved


# ---------------------------------------------------------------------- real data


# ---------------------------------------------------------------------- ledgers


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_a_ledger_keeps_incomplete_rows(folder, tmp_path, exact):
    X, y = holed(600)
    ledger = StatisticsLedger(tmp_path / "ledger", exact=exact)
    ledger.refresh(scan_parquet(folder / "[0-3].parquet", "y", missing="marginal"))
    report = ledger.refresh(scan_parquet(folder, "y", missing="marginal"))
    assert {drift.label for drift in report.drift} == {0, 1}
    whole = accumulate(scan_parquet(folder, "y", missing="marginal"), exact=exact)
    assert ledger.statistics().allclose(whole)
    model = QuadraticDiscriminantAnalysis.from_statistics(ledger.statistics())
    rows = QuadraticDiscriminantAnalysis(missing="marginal").fit(X, y)
    frame = pd.DataFrame(X, columns=list("abcd"))
    np.testing.assert_allclose(model.predict_proba(frame), rows.predict_proba(X), atol=1e-6)


def test_incomplete_files_may_follow_complete_ones(tmp_path):
    X, y = holed(200)
    for name, rows in (("1", np.nan_to_num(X)), ("2", X)):
        columns = {f: pa.array(rows[:, j], from_pandas=True) for j, f in enumerate("abcd")}
        pq.write_table(pa.table({**columns, "y": y}), tmp_path / f"{name}.parquet")
        ledger = StatisticsLedger(tmp_path / "_ledger")
        ledger.refresh(
            scan_parquet(tmp_path / "*.parquet", "y", missing="raise" if name == "1" else "marginal")
        )
    first = ledger.files["path"].to_pylist()[0]
    assert type(StatisticsLedger(tmp_path / "_ledger").statistics({first: 1})) is ClassStatistics
    both = IncompleteStatistics(feature_names=list("abcd")).update(np.nan_to_num(X), y).update(X, y)
    assert ledger.statistics().allclose(both)


def rows_of_the_saved_files():
    """The rows that the files of format 2 in tests/files hold."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 3)).round(3), np.array(["a", "b"] * 30)
    X[::4, 1] = X[1::5, 0] = X[-1] = nan
    return X, y


def test_files_of_format_2_load():
    X, y = rows_of_the_saved_files()
    data = Path(__file__).parents[2] / "files"
    model = streamgda.load(data / "format-2-incomplete.parquet")
    assert model.statistics_.allclose(IncompleteStatistics().update(X, y))
    assert model.partial_fit(X, y).statistics_.n_rows == 120
    exact = streamgda.load(data / "format-2-incomplete-exact-tied.parquet")
    assert exact == IncompleteStatistics("tied", exact=True).update(X, y)


def test_the_likelihood_of_a_model_is_that_of_what_is_observed(model):
    X, y = holed(200, d=3)
    options = {"var_smoothing": 0} if model is GaussianNB else {"store_covariance": True}
    fitted = model(missing="marginal", **options).fit(X, y)
    expected = log_likelihood(X, y, fitted.statistics_.means, covariances_of(fitted))
    expected += np.log(np.bincount(y) / len(y))[y].sum()
    assert fitted.log_likelihood_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_nested_patterns_have_a_closed_form_which_no_step_of_em_improves(kind):
    X, y = holed(300, d=4, share=0)
    for j in (1, 2, 3):
        X[np.random.default_rng(j).random(300) < 0.2, j:] = nan
    state = IncompleteStatistics(kind).update(X, y)
    assert (state.n_patterns, state.iteration.n_iter) == (4, 0)
    rows = np.vstack([X, [nan, 0.0, nan, nan]])  # not nested, of next to no weight
    steps = IncompleteStatistics(kind).update(rows, np.append(y, 0), np.append(np.ones(300), 1e-12))
    assert steps.iteration.n_iter > 0
    np.testing.assert_allclose(steps.means, state.means, atol=1e-6)
    np.testing.assert_allclose(steps.covariance(), state.covariance(), atol=1e-6)


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_completed_statistics_of_nested_patterns_are_read_back_to_the_last_bit(kind, tmp_path):
    X, y = holed(300, d=5, share=0)
    for j in (1, 2, 3):
        X[np.random.default_rng(j).random(300) < 0.2, j:] = nan
    weights = np.random.default_rng(0).uniform(0.1, 2, len(X))
    completed = IncompleteStatistics(kind).update(X, y, weights).completed()
    completed.save(tmp_path / "state.parquet")
    assert streamgda.load(tmp_path / "state.parquet") == completed
