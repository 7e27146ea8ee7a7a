"""Shares of classes in rows without labels, and the test of whether they have changed."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2, kstest

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    estimate_priors,
    evaluate,
    scan_parquet,
    scan_zarr,
)
from tests.data.tables import parquet_files, zarr_group

MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])


def rows_of(shares, n, seed):
    rng = np.random.default_rng(seed)
    codes = rng.choice(3, n, p=shares)
    return rng.normal(size=(n, 2)) + MEANS[codes], np.array(["ant", "bee", "cat"])[codes]


MODEL = LinearDiscriminantAnalysis(temperature=1.01).fit(*rows_of([0.5, 0.3, 0.2], 3000, 0))
LATER, LABELS = rows_of([0.1, 0.3, 0.6], 1500, 1)


def log_likelihood(model, rows, shares):
    """ln p(rows) beside that for the shares of the model, from its probabilities."""
    return np.log(model.predict_proba(rows) @ (shares / model.priors_)).sum()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_no_shares_are_likelier(temperature):
    model = LinearDiscriminantAnalysis(temperature=temperature).fit(*rows_of([0.5, 0.3, 0.2], 3000, 0))
    estimate = estimate_priors(model, LATER)

    def loss(logits):
        return -log_likelihood(model, LATER, np.exp(logits) / np.exp(logits).sum())

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    assert estimate.statistic == pytest.approx(-2 * best.fun, rel=1e-4)
    np.testing.assert_allclose(estimate.shares, np.exp(best.x) / np.exp(best.x).sum(), atol=2e-3)
    assert estimate.p_value == pytest.approx(chi2(2).sf(estimate.statistic / 1.5), rel=1e-12)
    assert (estimate.n_rows, list(estimate.classes)) == (1500, ["ant", "bee", "cat"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_the_priors_make_the_adjusted_posteriors(temperature):
    """p(k | x) share_k / prior_k, normalised: equation 2.4 of Saerens, Latinne & Decaestecker."""
    model = QuadraticDiscriminantAnalysis(temperature=temperature).fit(*rows_of([0.5, 0.3, 0.2], 900, 3))
    estimate = estimate_priors(model, LATER)
    expected = model.predict_proba(LATER) * estimate.shares / model.priors_
    expected /= expected.sum(axis=1, keepdims=True)
    model.set_params(priors=estimate.priors)
    np.testing.assert_allclose(model.predict_proba(LATER), expected, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(expected.mean(axis=0), estimate.shares, atol=1e-3)


def test_fewer_rows_are_wrong_with_the_new_priors():
    estimate = estimate_priors(MODEL, LATER)
    np.testing.assert_allclose(estimate.shares, [0.1, 0.3, 0.6], atol=0.04)
    assert estimate.p_value < 1e-50
    adjusted = LinearDiscriminantAnalysis.from_statistics(MODEL.statistics_, priors=estimate.priors)
    before, after = (evaluate(model, LATER, LABELS) for model in (MODEL, adjusted))
    assert after.accuracy > before.accuracy + 0.03
    assert after.log_loss < before.log_loss - 0.1


def test_p_values_are_uniform_where_nothing_has_changed():
    model = LinearDiscriminantAnalysis(priors=[0.5, 0.3, 0.2], temperature=1.001)
    model.fit(*rows_of([0.5, 0.3, 0.2], 200_000, 4))
    found = [estimate_priors(model, rows_of([0.5, 0.3, 0.2], 300, seed)[0]).p_value for seed in range(100)]
    assert kstest(found, "uniform").pvalue > 0.01


def apart(rows, factor):
    """Rows of which the classes lie further apart by a factor."""
    X, y = rows
    return X + (factor - 1) * MEANS[np.unique(y, return_inverse=True)[1]], y


@pytest.mark.slow_cases("1-False", "2-False-True", "1-True-True")
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("factor", "uneven"), [(1, False), (2, False), (1, True)])
def test_few_learnt_rows_are_no_change(known, factor, uneven):
    """The model and its priors are of 150 rows, or 300 of other weights: they miss the shares by chance."""
    shares, found, n = [0.5, 0.3, 0.2], [], 300 if uneven else 150
    weights = np.where(np.arange(n) % 4, 0.1, 1.0) if uneven else None
    for seed in range(60):
        model = LinearDiscriminantAnalysis(priors=shares if known else None, temperature=1.001)
        model.fit(*apart(rows_of(shares, n, seed), factor), weights)
        later, _ = apart(rows_of(shares, 3000, 1000 + seed), factor)
        found.append(estimate_priors(model, later).p_value)
    assert np.mean(np.array(found) < 0.05) < 0.05 + 3 * np.sqrt(0.05 / 60)


def test_given_priors_are_known_where_classes_lie_apart():
    """There the densities do not matter, however few rows they are of."""
    model = LinearDiscriminantAnalysis(priors=[0.5, 0.3, 0.2], temperature=1.001)
    model.fit(*apart(rows_of([0.5, 0.3, 0.2], 60, 0), 16))
    estimate = estimate_priors(model, apart(rows_of([0.4, 0.35, 0.25], 3000, 1), 16)[0])
    assert estimate.p_value == pytest.approx(chi2(2).sf(estimate.statistic), rel=0.5)
    assert estimate.p_value < 1e-9


def test_probabilities_that_were_not_calibrated_are_said_only_where_shares_have_changed():
    model = LinearDiscriminantAnalysis().fit(*rows_of([0.5, 0.3, 0.2], 3000, 0))
    with pytest.warns(UserWarning, match="seem to have changed.*have not been calibrated: set its temper"):
        estimate_priors(model, LATER)
    estimate_priors(model, rows_of([0.5, 0.3, 0.2], 300, 5)[0])


def test_a_class_without_a_prior_has_no_share():
    model = LinearDiscriminantAnalysis(priors=[0.6, 0.4, 0.0], temperature=1.01)
    model.fit(*rows_of([0.4, 0.3, 0.3], 900, 6))
    rows = rows_of([0.3, 0.7, 0.0], 800, 7)[0]
    estimate = estimate_priors(model, rows)
    assert estimate.shares[2] == estimate.priors[2] == 0
    assert estimate.p_value == pytest.approx(chi2(1).sf(estimate.statistic), rel=1e-12)
    one = GaussianNB(priors=[1.0, 0.0], temperature=1.01).fit([[0.0], [1], [5], [7]], [0, 0, 1, 1])
    assert estimate_priors(one, [[1.0], [6.0]]).p_value == 1
    streamed = QuadraticDiscriminantAnalysis(temperature=1.01).fit(*rows_of([0.5, 0.5, 0.0], 900, 6))
    with pytest.warns(UserWarning, match="class cat gets no posterior"):
        found = estimate_priors(
            streamed.partial_fit([[9.0, 9.0]], ["cat"]), rows_of([0.5, 0.5, 0], 300, 8)[0]
        )
    assert found.shares[2] == 0
    assert found.p_value > 0.01


@pytest.fixture
def files(tmp_path):
    rows = LATER[LATER[:, 0].argsort()]
    return parquet_files(tmp_path, pa.table({"x0": rows[:, 0], "x1": rows[:, 1]}), 3, row_group_size=170)


def test_files_are_sampled_alike_by_every_scheduler(files):
    whole = estimate_priors(MODEL, files / "*.parquet")
    np.testing.assert_allclose(whole.shares, estimate_priors(MODEL, LATER).shares, rtol=1e-6)
    assert whole.n_rows == 1500
    source = scan_parquet(str(files / "*.parquet"))
    some = [estimate_priors(MODEL, source, 400, scheduler=name) for name in ("sync", "threads")]
    assert some[0].n_rows == 400
    np.testing.assert_array_equal(some[0].shares, some[1].shares)
    np.testing.assert_allclose(some[0].shares, whole.shares, atol=0.1)  # of all files, and not the first rows
    zarr_group(files / "rows.zarr", 100, X=LATER)
    found = estimate_priors(MODEL, scan_zarr(files / "rows.zarr", None))
    np.testing.assert_allclose(found.shares, whole.shares, rtol=1e-6)
    sorted_rows = LATER[LATER[:, 0].argsort()]
    np.testing.assert_allclose(estimate_priors(MODEL, sorted_rows, 400).shares, whole.shares, atol=0.1)


def test_bad_input_is_named(files):
    with pytest.raises(ValueError, match="max_rows == 0, must be >= 1"):
        estimate_priors(MODEL, LATER, 0)
    with pytest.raises(ValueError, match="0 sample"):
        estimate_priors(MODEL, LATER[:0])
    with pytest.raises(ValueError, match="NaN"):
        estimate_priors(MODEL, [[np.nan, 1.0]])
    pq.write_table(
        pa.table({"x0": pa.array([], pa.float64()), "x1": pa.array([], pa.float64())}), files / "none"
    )
    with pytest.raises(ValueError, match="nothing to estimate from: .* has no rows"):
        estimate_priors(MODEL, files / "none")


@pytest.mark.parametrize("max_rows", [2.5, "all"])
def test_a_number_of_rows_that_is_not_whole_is_named(max_rows):
    model = GaussianNB().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    with pytest.raises(TypeError, match="max_rows must be an instance of int"):
        estimate_priors(model, [[1.0]], max_rows=max_rows)
