"""Diagnostics from the state alone, against published values, scipy.stats and the rows."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from streamgda import ClassStatistics, ExactClassStatistics
from streamgda.cli.main import main
from streamgda.diagnostics import box_m, manova

X, Y = load_iris(return_X_y=True)
IRIS = ClassStatistics().update(X, Y)
NAMED = ClassStatistics().update(pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"]), Y)


def scatters(X, y):
    """The scatters within and between the classes, by their definitions."""
    groups = [X[y == k] for k in np.unique(y)]
    within = sum((g - g.mean(0)).T @ (g - g.mean(0)) for g in groups)
    between = sum(len(g) * np.outer(g.mean(0) - X.mean(0), g.mean(0) - X.mean(0)) for g in groups)
    return within, between


# ---------------------------------------------------------------------- MANOVA


@pytest.mark.parametrize(
    "state", [IRIS, IRIS.to_covariance_type("tied"), ExactClassStatistics().update(X, Y)]
)
def test_manova_of_iris_has_the_published_values(state):
    found = manova(state)
    published = {
        "wilks": (0.023438631, 199.14534, (8, 288)),
        "pillai": (1.1918988, 53.466489, (8, 290)),
        "hotelling_lawley": (32.477320, 582.19703, (8, 203.40239)),
        "roy": (32.191929, 1166.9574, (4, 145)),
    }
    for name, (statistic, f, df) in published.items():
        test = getattr(found, name)
        assert test.statistic == pytest.approx(statistic, rel=5e-8)
        assert test.f == pytest.approx(f, rel=1e-6)
        assert test.df == pytest.approx(df, rel=1e-6)
        assert test.pvalue == pytest.approx(scipy.stats.f.sf(test.f, *test.df), rel=1e-9)
    assert found.eigenvalues == pytest.approx((32.191929, 0.285391), rel=1e-6)


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    n_classes=st.integers(2, 5),
    n_features=st.integers(1, 4),
    n_each=st.sampled_from([4, 8]),
)
@example(seed=0, n_classes=2, n_features=3, n_each=4)  # few degrees of freedom
def test_statistics_are_those_of_the_scatters_and_f_where_it_is_exact(seed, n_classes, n_features, n_each):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_each)
    rows = rng.normal(size=(len(y), n_features)) + y[:, None] * rng.normal(size=n_features)
    within, between = scatters(rows, y)
    found = manova(ClassStatistics().update(rows, y))
    roots = np.sort(np.linalg.eigvals(np.linalg.solve(within, between)).real)[::-1]
    assert found.wilks.statistic == pytest.approx(np.linalg.det(within) / np.linalg.det(within + between))
    assert found.pillai.statistic == pytest.approx(np.trace(np.linalg.solve(within + between, between)))
    assert found.hotelling_lawley.statistic == pytest.approx(np.trace(np.linalg.solve(within, between)))
    assert found.roy.statistic == pytest.approx(roots[0])
    tests = [found.wilks, found.pillai, found.hotelling_lawley, found.roy]
    if n_features == 1:
        expected = scipy.stats.f_oneway(*(rows[y == k, 0] for k in range(n_classes)))
        for test in tests:
            assert test.f == pytest.approx(expected.statistic)
            assert test.pvalue == pytest.approx(expected.pvalue)
    if n_classes == 2:  # Hotelling's T²
        df = n_features, len(y) - 1 - n_features
        f = found.hotelling_lawley.statistic * df[1] / df[0]
        for test in tests:
            assert (test.f, test.df) == (pytest.approx(f), pytest.approx(df))


@pytest.mark.slow
@given(st.lists(st.integers(1, 3), min_size=150, max_size=150))
def test_weights_are_repetitions(weights):
    weighted = ClassStatistics().update(X, Y, weights)
    repeated = ClassStatistics().update(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    np.testing.assert_allclose(manova(weighted).to_pandas(), manova(repeated).to_pandas(), rtol=1e-8)
    assert box_m(weighted).statistic == pytest.approx(box_m(repeated).statistic)


def test_it_depends_on_neither_units_nor_offsets():
    moved = ClassStatistics().update(X * [1e-6, 1.0, 1e3, 1e6] + [0, 1e8, 0, -1e9], Y)
    np.testing.assert_allclose(manova(moved).to_pandas(), manova(IRIS).to_pandas(), rtol=1e-6)
    assert box_m(moved).statistic == pytest.approx(box_m(IRIS).statistic, rel=1e-6)


# ---------------------------------------------------------------------- Box's M


def test_box_m_of_iris_has_the_published_values():
    found = box_m(IRIS)
    assert found.statistic == pytest.approx(146.66325, abs=1e-5)
    assert found.chi2 == pytest.approx(140.94305, abs=1e-5)
    assert found.df == 20
    assert found.pvalue == pytest.approx(scipy.stats.chi2.sf(found.chi2, 20))
    for label, log_determinant in found.log_determinants.items():
        expected = np.linalg.slogdet(np.cov(X[Y == label].T))[1]
        assert log_determinant == pytest.approx(expected)
    assert found.pooled_log_determinant == pytest.approx(np.linalg.slogdet(scatters(X, Y)[0] / 147)[1])


def test_of_one_feature_it_is_the_test_of_bartlett():
    found = box_m(IRIS.select([1]))
    expected = scipy.stats.bartlett(*(X[Y == k, 1] for k in range(3)))
    correction = (3 / 49 - 1 / 147) / 6  # by which Bartlett divides, and Box multiplies
    assert found.statistic == pytest.approx(expected.statistic * (1 + correction))
    assert found.chi2 == pytest.approx(found.statistic * (1 - correction))


# ---------------------------------------------------------------------- tables and errors


def test_results_are_tables():
    for result in (manova(NAMED), box_m(NAMED)):
        frame = result.to_pandas()
        assert "p-value" in frame
        assert all(column in str(result) for column in frame)
    assert "Wilks' lambda           0.0234386 199.145" in str(manova(NAMED))


@pytest.mark.parametrize("test", [manova, box_m])
def test_what_cannot_be_tested_is_refused(test):
    with pytest.raises(ValueError, match="at least two are needed"):
        test(ClassStatistics().update(X, np.zeros(150, int)))
    with pytest.raises(ValueError, match="covariances of features are needed; accumulate with 'full'"):
        test(IRIS.to_covariance_type("diag"))
    constant = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"]).assign(one=1e8)
    with pytest.raises(np.linalg.LinAlgError, match="'one'"):
        test(ClassStatistics().update(constant, Y))


def test_collinear_features_and_few_rows_are_named():
    rows = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"]).assign(petal=lambda f: f.pl + f.pw)
    with pytest.raises(np.linalg.LinAlgError, match=r"rank 4 of 5.*collinear \('pl', 'pw', 'petal'\)"):
        manova(ClassStatistics().update(rows, Y))
    with pytest.raises(np.linalg.LinAlgError, match="class 0: .*collinear in it: 'pl', 'pw', 'petal'"):
        box_m(ClassStatistics().update(rows, Y))
    few = np.r_[0:60, 100:103]
    with pytest.raises(np.linalg.LinAlgError, match="class 2: .*from 3 rows; it has no more rows than"):
        box_m(ClassStatistics().update(X[few], Y[few]))
    with pytest.raises(np.linalg.LinAlgError, match="4 features in 3 classes take 7 rows or more"):
        manova(ClassStatistics().update(X[::25], Y[::25]))


def test_the_command_line_tests_what_is_saved(tmp_path):
    NAMED.save(tmp_path / "iris.parquet")
    shown = CliRunner().invoke(main, ["inspect", f"{tmp_path}/iris.parquet", "--tests"])
    assert f"{manova(NAMED).wilks.statistic:.6f}" in shown.output
    assert "\ntests box_m:\n" in shown.output
    said = json.loads(
        CliRunner().invoke(main, ["inspect", f"{tmp_path}/iris.parquet", "--tests", "--json"]).output
    )
    assert said["tests"]["box_m"][0]["M"] == pytest.approx(146.66325, abs=1e-5)
    NAMED.to_covariance_type("diag").save(tmp_path / "diag.parquet")
    refused = CliRunner().invoke(main, ["inspect", f"{tmp_path}/diag.parquet", "--tests"])
    assert refused.exit_code == 0
    assert "tests manova: the covariances of features are needed" in refused.output
