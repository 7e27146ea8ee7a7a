"""Diagnostics from the state alone, against published values, scipy.stats and the rows."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine

from streamgda import ClassStatistics, ExactClassStatistics
from streamgda.cli.main import main
from streamgda.diagnostics import box_m, manova, select_features
from tests.reference import exact_moments

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
    assert select_features(weighted, alpha=1).features == select_features(repeated, alpha=1).features


def test_it_depends_on_neither_units_nor_offsets():
    moved = ClassStatistics().update(X * [1e-6, 1.0, 1e3, 1e6] + [0, 1e8, 0, -1e9], Y)
    np.testing.assert_allclose(manova(moved).to_pandas(), manova(IRIS).to_pandas(), rtol=1e-6)
    assert box_m(moved).statistic == pytest.approx(box_m(IRIS).statistic, rel=1e-6)
    assert select_features(moved).features == select_features(IRIS).features


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


# ---------------------------------------------------------------------- selection


def test_features_of_iris_in_the_published_order():
    found = select_features(NAMED, alpha=1)
    assert found.features == ["pl", "sw", "pw", "sl"]
    assert [step.wilks for step in found.steps] == pytest.approx(
        [0.05862828, 0.03688411, 0.02497554, 0.02343863], rel=1e-6
    )
    assert [step.df for step in found.steps] == [(2, 147), (2, 146), (2, 145), (2, 144)]
    assert found.steps[0].f == pytest.approx(
        scipy.stats.f_oneway(*(X[Y == k, 2] for k in range(3))).statistic
    )
    assert found.steps[-1].wilks == pytest.approx(manova(IRIS).wilks.statistic)
    assert NAMED.select(found.features[:2]).feature_names == ("pl", "sw")


def test_each_step_takes_the_feature_with_the_least_lambda():
    rows, y = load_wine(return_X_y=True)
    within, between = scatters(rows, y)
    found, chosen = select_features(ClassStatistics().update(rows, y), alpha=1), []

    def wilks(features):
        block = np.ix_(features, features)
        return np.linalg.det(within[block]) / np.linalg.det((within + between)[block])

    for step in found.steps:
        values = {j: wilks([*chosen, j]) for j in range(13) if j not in chosen}
        assert step.feature == min(values, key=values.get)
        assert step.wilks == pytest.approx(values[step.feature], rel=1e-8)
        partial = step.wilks / (wilks(chosen) if chosen else 1.0)
        f = (1 - partial) / partial * (175 - len(chosen)) / 2
        assert step.f == pytest.approx(f, rel=1e-7)
        assert step.pvalue == pytest.approx(scipy.stats.f.sf(f, 2, 175 - len(chosen)), rel=1e-6)
        chosen.append(step.feature)
    assert len(chosen) == 13


def determinant(matrix, features):
    """The determinant of a block of a matrix of fractions."""
    if not features:
        return Fraction(1)
    first, *rest = features
    swept = [
        [a - row[first] * b / matrix[first][first] for a, b in zip(row, matrix[first], strict=True)]
        for row in matrix
    ]
    return matrix[first][first] * determinant(swept, rest)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("distance", [1.0, 1e4, 1e6, 1e8])
def test_lambda_and_f_are_those_of_rational_arithmetic_however_far_classes_are_apart(n_classes, distance):
    rng = np.random.default_rng(n_classes)
    y = np.repeat(np.arange(n_classes), 10)
    rows = rng.normal(size=(len(y), 4)) + distance * rng.normal(size=(n_classes, 4))[y]
    groups, everything = exact_moments(rows, y), exact_moments(rows, np.zeros(len(y)))
    total = everything[0.0][2]
    within = [[sum(group[2][i][j] for group in groups.values()) for j in range(4)] for i in range(4)]
    chosen, before = [], Fraction(1)
    for step in select_features(ClassStatistics().update(rows, y), alpha=1).steps:
        found = {
            j: determinant(within, [*chosen, j]) / determinant(total, [*chosen, j])
            for j in range(4)
            if j not in chosen
        }
        assert step.feature == min(found, key=found.get)
        wilks = found[step.feature]
        partial = wilks / before
        assert step.wilks == pytest.approx(float(wilks), rel=1e-7)
        assert step.partial_wilks == pytest.approx(float(partial), rel=1e-7)
        assert step.f == pytest.approx(float((1 - partial) / partial) * step.df[1] / step.df[0], rel=1e-7)
        assert step.pvalue == pytest.approx(scipy.stats.f.sf(step.f, *step.df), rel=1e-9)
        chosen, before = [*chosen, step.feature], wilks
    assert len(chosen) == 4


def test_features_with_equal_means_tell_nothing():
    y = np.repeat([0, 1], 4)
    rows = np.tile([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], (2, 1))
    steps = select_features(ClassStatistics().update(rows, y), alpha=1).steps
    assert [(step.wilks, step.f, step.pvalue) for step in steps] == [(1.0, 0.0, 1.0)] * 2


def test_selection_ends_at_alpha_or_at_the_number_asked_for():
    rng = np.random.default_rng(0)
    noisy = ClassStatistics().update(np.column_stack([X, rng.normal(size=(150, 3))]), Y)
    assert set(select_features(noisy, alpha=0.001).features) == {1, 2, 3}
    assert select_features(noisy, 2, alpha=1).features == [2, 1]


def test_a_collinear_feature_is_passed_over_and_named():
    rows = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"]).assign(petal=lambda f: f.pl + f.pw)
    found = select_features(ClassStatistics().update(rows, Y), alpha=1)
    assert len(found.features) == 4
    assert set(found.features) | set(found.collinear) == set(rows)
    assert found.collinear[0] in {"pl", "pw", "petal"}


# ---------------------------------------------------------------------- tables and errors


def test_results_are_tables():
    for result in (manova(NAMED), box_m(NAMED), select_features(NAMED)):
        frame = result.to_pandas()
        assert "p-value" in frame
        assert all(column in str(result) for column in frame)
    assert "Wilks' lambda           0.0234386 199.145" in str(manova(NAMED))


@pytest.mark.parametrize("test", [manova, box_m, select_features])
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


def test_parameters_out_of_range_are_refused():
    with pytest.raises(ValueError, match="alpha is a probability"):
        select_features(IRIS, alpha=2)
    with pytest.raises(ValueError, match="n_features_to_select must be a whole number, at least 1"):
        select_features(IRIS, 0)


def test_the_command_line_tests_what_is_saved(tmp_path):
    NAMED.save(tmp_path / "iris.parquet")
    shown = CliRunner().invoke(main, ["inspect", f"{tmp_path}/iris.parquet", "--tests"])
    assert f"{manova(NAMED).wilks.statistic:.6f}" in shown.output
    assert "\ntests select_features:\n" in shown.output
    said = json.loads(
        CliRunner().invoke(main, ["inspect", f"{tmp_path}/iris.parquet", "--tests", "--json"]).output
    )
    assert said["tests"]["box_m"][0]["M"] == pytest.approx(146.66325, abs=1e-5)
    NAMED.to_covariance_type("diag").save(tmp_path / "diag.parquet")
    refused = CliRunner().invoke(main, ["inspect", f"{tmp_path}/diag.parquet", "--tests"])
    assert refused.exit_code == 0
    assert "tests manova: the covariances of features are needed" in refused.output
