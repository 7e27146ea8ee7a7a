"""How far new rows lie from old ones, against textbook formulas and numerical integration."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.integrate
import scipy.stats

import streamgda
from streamgda import ClassStatistics, ExactClassStatistics, IncompleteStatistics, accumulate, scan_arrow
from streamgda.jobs.ledger.distances import divergence, gaussians_of
from streamgda.models.gaussians.whitening import Whitening
from tests.reference import exact_moments

RNG = np.random.default_rng(0)
ZEROS = np.zeros(500, int)


def drift(before, after):
    return streamgda.drift(before, after).drift


def of(X, kind="full", y=ZEROS):
    return ClassStatistics(kind).update(X, y)


@pytest.mark.slow_cases("tied")
@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_one_feature_by_numerical_integration(kind):
    """∫ (p − q) ln (p / q), the definition."""
    before, after = RNG.normal(2.0, 1.0, (500, 1)), RNG.normal(3.0, 1.7, (500, 1))
    p, q = (scipy.stats.norm(rows.mean(), rows.std()) for rows in (before, after))
    expected, _ = scipy.integrate.quad(lambda x: (p.pdf(x) - q.pdf(x)) * (p.logpdf(x) - q.logpdf(x)), -20, 20)
    (found,) = drift(of(before, kind), of(after, kind))
    assert found.divergence == pytest.approx(expected, rel=1e-8)
    assert found.shift == pytest.approx((after.mean() - before.mean()) / before.std())
    assert (found.prior_before, found.prior, found.rows) == (1.0, 1.0, 500)


def test_the_divergence_has_no_direction_and_no_units():
    mixed = RNG.normal(size=(4, 4))
    before, after = RNG.normal(size=(500, 4)) @ mixed, RNG.normal(0.5, 1.2, (500, 4)) @ mixed
    (there,), (back,) = drift(of(before), of(after)), drift(of(after), of(before))
    assert there.divergence == pytest.approx(back.divergence)
    units = np.array([1e-9, 1.0, 1e6, 1e12])
    (other,) = drift(of(before * units), of(after * units))
    assert other.divergence == pytest.approx(there.divergence, rel=1e-6)
    np.testing.assert_allclose(other.shift, there.shift, rtol=1e-9)
    (none,) = drift(of(before), of(before))
    assert none.divergence == pytest.approx(0, abs=1e-10)
    assert not none.shift.any()


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_constant_features(kind):
    """Constant in both at the same place: no difference. Anything else cannot be taken for the same."""
    before, after = RNG.normal(size=(500, 2)), RNG.normal(0.5, 1.0, (500, 2))
    (plain,) = drift(of(before, kind), of(after, kind))

    def with_third(old, new):
        columns = (np.column_stack([rows, third]) for rows, third in ((before, old), (after, new)))
        return drift(*(of(rows, kind) for rows in columns))[0]

    constant, varying = np.full(500, 7.0), RNG.normal(7.0, 1.0, 500)
    for value in (7.0, 0.1, -1e9 / 3):  # means of which may be rounded
        same = with_third(np.full(500, value), np.full(500, value))
        assert same.divergence == pytest.approx(plain.divergence)
        assert same.shift[2] == 0
    assert with_third(constant, constant + 1).divergence == np.inf
    assert with_third(constant, constant + 1).shift[2] == np.inf
    assert with_third(constant, varying).divergence == np.inf
    assert with_third(varying, constant).divergence == np.inf


def test_collinear_features_count_once():
    before, after = RNG.normal(size=(500, 2)), RNG.normal(0.5, 1.0, (500, 2))
    (plain,) = drift(of(before), of(after))
    before, after = (np.column_stack([rows, rows.sum(axis=1)]) for rows in (before, after))
    (found,) = drift(of(before), of(after))
    assert found.divergence == pytest.approx(plain.divergence, rel=1e-6)
    (apart,) = drift(of(before), of(after + np.array([0.0, 0.0, 1.0])))
    assert apart.divergence == np.inf


def test_all_old_classes_are_reported_and_those_that_both_have_compared():
    old = ClassStatistics("diag").update([[0.0], [1.0], [2.0], [5.0]], ["a", "a", "b", "c"])
    new = ClassStatistics("diag").update([[1.0], [2.0], [3.0], [9.0]], ["a", "b", "b", "d"])
    found = drift(old, new)
    assert [(d.label, d.rows, d.prior_before, d.prior) for d in found] == [
        ("a", 1, 0.5, 0.25),
        ("b", 2, 0.25, 0.5),
        ("c", 0, 0.25, 0.0),
    ]
    assert np.isnan(found[1].shift).all()  # of one old row there is no deviation
    assert np.isnan(found[2].shift).all()
    assert np.isnan(found[2].divergence)
    report = streamgda.drift(old, new)
    assert report.new_classes == ("d",)
    assert report.alarms(no_new_classes=True, max_shift=0, max_divergence=0) == ("class d is new",)
    assert str(report).startswith("new classes: d\nno new rows: c\n")
    assert list(report.to_pandas().index) == ["a", "b", "c"]


# ---------------------------------------------------------------------- alarms


def test_the_shift_of_a_share_is_the_likelihood_ratio_of_the_table():
    """Of SciPy's test of the two-by-two table, with the sign of the change."""
    before, now = np.repeat([0, 1, 2], [400, 90, 10]), np.repeat([0, 1, 2, 3], [30, 17, 0, 3])
    report = streamgda.drift(*(of(RNG.normal(size=(len(y), 1)), "diag", y) for y in (before, now)))
    for k, found in enumerate(report.drift):
        table = [[(y == k).sum(), (y != k).sum()] for y in (before, now)]
        g = scipy.stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
        assert found.share_shift**2 == pytest.approx(g, rel=1e-10)
        assert np.sign(found.share_shift) == np.sign(found.prior - found.prior_before)
    weights = np.full(len(now), 1e-6)  # of which the scale does not matter
    weighted = ClassStatistics("diag").update(np.zeros((len(now), 1)), now, sample_weight=weights)
    scaled = streamgda.drift(of(np.zeros((len(before), 1)), "diag", before), weighted)
    for one, other in zip(scaled.drift, report.drift, strict=True):
        assert one.share_shift == pytest.approx(other.share_shift)


@pytest.mark.slow
def test_by_chance_alone_shares_and_shifts_vary_by_their_standard_errors():
    shares, shifts = [], []
    before_y, after_y = (
        RNG.choice(3, (300, 2000), p=[0.6, 0.3, 0.1]),
        RNG.choice(3, (300, 200), p=[0.6, 0.3, 0.1]),
    )
    for y_before, y_after in zip(before_y, after_y, strict=True):
        both = (of(RNG.normal(size=(len(y), 1)), "diag", y) for y in (y_before, y_after))
        for found in streamgda.drift(*both).drift:
            shares.append(found.share_shift)
            shifts.append(found.shift[0] / found.standard_error)
    for scaled in (shares, shifts):
        assert np.mean(scaled) == pytest.approx(0, abs=0.15)
        assert np.std(scaled) == pytest.approx(1, abs=0.1)
        assert np.abs(scaled).max() < 5


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n"), [("full", 12), ("full", 40), ("tied", 9), ("diag", 8)])
def test_the_divergence_of_few_rows_is_that_expected_by_chance(kind, n):
    """On average, of two classes of a Gaussian with three features."""
    y = [np.repeat([0, 1], 100), np.repeat([0, 1], n)]
    found = [
        of_class
        for _ in range(400)
        for of_class in drift(*(of(RNG.normal(size=(len(labels), 3)), kind, labels) for labels in y))
    ]
    expected = found[0].expected_divergence
    assert np.mean([of_class.divergence for of_class in found]) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("sizes", [(4, 4, 1), (40, 6, 1), (200, 200, 1), (9, 9, 3), (40, 12, 3)])
def test_at_most_one_in_370_divergences_of_one_distribution_passes_what_chance_gives(sizes):
    """Of one feature or three, as NumPy computes the divergence for many classes at once."""
    *n_rows, d = sizes
    both = [np.random.default_rng(seed).normal(size=(20_000, n, d)) for seed, n in enumerate(n_rows)]
    means = [rows.mean(axis=1, keepdims=True) for rows in both]
    S = [(x - m).swapaxes(1, 2) @ (x - m) / x.shape[1] for x, m in zip(both, means, strict=True)]
    gap, P = means[0] - means[1], np.linalg.inv(S)
    traces = np.trace(P[0] @ S[1] + P[1] @ S[0] - 2 * np.eye(d), axis1=1, axis2=2)
    divergences = (traces + (gap @ (P[0] + P[1]) @ gap.swapaxes(1, 2))[:, 0, 0]) / 2
    (found,) = drift(*(of(rows[0], "full", np.zeros(rows.shape[1])) for rows in both))
    assert found.divergence == pytest.approx(divergences[0])
    assert 0.0008 < (divergences > found.divergence_by_chance).mean() < 0.0035


def share_of_alarms(old, new, **limits):
    report = streamgda.drift(old, new)
    return len(report.alarms(**limits)) / len(report.drift)


@pytest.mark.slow_cases("full")
@pytest.mark.parametrize(("kind", "n_old"), [("diag", 2), ("full", 3), ("diag", 5)])
def test_few_old_rows_without_drift_are_no_alarm(kind, n_old):
    """In one of 370 classes at most, of three features, though no shift at all is allowed."""
    old, new = (np.repeat(np.arange(400), n) for n in (n_old, 10))
    states = [of(RNG.normal(size=(len(y), 3)), kind, y) for y in (old, new)]
    assert share_of_alarms(*states, max_shift=0) <= 0.0027 + 3 * np.sqrt(0.0027 / 400)
    drifted = of(RNG.normal(30, 1, size=(len(new), 3)), kind, new)
    assert share_of_alarms(states[0], drifted, max_shift=0) > (0.05 if n_old < 5 else 0.9)


def test_classes_that_share_a_covariance_are_sure_of_it():
    """Two old rows of a class are few for its mean alone."""
    old, new = (np.repeat(np.arange(300), n) for n in (2, 10))
    states = [of(RNG.normal(size=(len(y), 3)), "tied", y) for y in (old, new)]
    assert share_of_alarms(*states, max_shift=0) <= 0.0027 + 3 * np.sqrt(0.0027 / 300)
    assert max(found.shift_by_chance for found in streamgda.drift(*states).drift) < 5


@pytest.mark.parametrize(("kind", "n", "d"), [("full", 14, 10), ("diag", 4, 3)])
def test_few_rows_are_no_divergence(kind, n, d):
    old, new = (np.repeat(np.arange(400), rows) for rows in (n, 5 * n))
    states = [of(RNG.normal(size=(len(y), d)), kind, y) for y in (old, new)]
    assert share_of_alarms(*states, max_divergence=0) <= 0.0027 + 3 * np.sqrt(0.0027 / 400)


def decayed(rng, n_classes, n_batches=40, factor=0.9):
    state = ClassStatistics("diag")
    for _ in range(n_batches):
        state.decay(factor).update(rng.normal(size=(400, 2)), rng.integers(n_classes, size=400))
    return state


def weighted(rng, n_classes, n=2000):
    y = rng.integers(n_classes, size=n)
    return ClassStatistics("diag").update(
        rng.normal(size=(n, 2)), y, (rng.gamma(0.3, size=n) + 1e-3) * (1 + y)
    )


@pytest.mark.parametrize("make", [decayed, weighted])
def test_rows_with_weights_vary_as_effective_rows(make):
    """Their shares and shifts are in standard errors, as those of rows without weights."""
    rng = np.random.default_rng(0)
    found = [one for _ in range(12) for one in drift(make(rng, 20), make(rng, 20))]
    shifts = np.array([one.shift[0] / one.standard_error for one in found])
    divergences = np.array([one.divergence / one.expected_divergence for one in found])
    assert np.sqrt(np.mean(shifts**2)) == pytest.approx(1, abs=0.14)
    assert np.mean(divergences) == pytest.approx(1, abs=0.3)
    assert 0.75 < np.sqrt(np.mean([one.share_shift**2 for one in found])) < 1.1


@pytest.mark.slow_cases("100")
@pytest.mark.parametrize("n", [20, 100])
def test_few_rows_with_weights_are_no_share_shift(n):
    """Beyond two standard errors in one of 22 shares at most."""
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        y, weights = rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05]), rng.gamma(0.5, size=n) + 1e-3
        old = ClassStatistics("diag").update(np.zeros((n, 1)), y, weights)
        new = of(np.zeros((200, 1)), "diag", rng.choice(4, 200, p=[0.5, 0.3, 0.15, 0.05]))
        found += [abs(one.share_shift) > 2 for one in drift(old, new)]
    assert np.mean(found) < 0.0455 + 3 * np.sqrt(0.0455 / len(found))


def test_a_class_that_is_absent_from_weighted_rows_has_its_share_shift():
    old = ClassStatistics("diag").update(np.zeros((200, 1)), np.arange(200) % 2, np.arange(200) % 3 + 1.0)
    new = ClassStatistics("diag").update(np.zeros((200, 1)), np.zeros(200, int), np.full(200, 1e-3))
    _, absent = drift(old, new)
    assert absent.rows == 0
    assert -20 < absent.share_shift < -10


def test_an_alarm_names_the_class_the_feature_and_how_far():
    def named(shift, n, names=("u", "v")):
        frame = pd.DataFrame(RNG.normal([0, shift], size=(n, 2)), columns=names)
        return ClassStatistics().update(frame, np.repeat(["x ", "y"], n // 2))

    before = named(0, 400)
    report = streamgda.drift(before, named(4, 400))
    first, second = report.alarms(max_shift=3)
    assert first.startswith("class 'x ': the mean of v has shifted by ")
    assert second.startswith("class y: ")
    assert [text.split(" is ")[0] for text in report.alarms(max_divergence=9)] == [
        "class 'x ': the divergence",
        "class y: the divergence",
    ]
    assert report.alarms(max_shift=5, max_divergence=60, max_share_shift=0.1, no_new_classes=True) == ()
    assert report.alarms() == ()
    few = streamgda.drift(before, named(4, 4))  # two rows of a class, of which the Gaussian is singular
    assert [found.divergence for found in few.drift] == [np.inf, np.inf]
    assert few.alarms(max_divergence=60) == ()
    assert few.alarms(max_shift=1) != ()


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_a_feature_that_only_old_or_only_new_rows_have_is_an_alarm(kind):
    """However far others have moved, they are compared; and the gate is not silent where one cannot be."""
    y, rng = np.repeat(["p", "q"], 200), np.random.default_rng(0)
    old, new = rng.normal(size=(400, 3)), rng.normal([0, 50, 0], size=(400, 3))

    def alarms(old, new, y_new=y, **limits):
        before, after = (IncompleteStatistics(kind).update(X, y) for X, y in ((old, y), (new, y_new)))
        return [alarm.split(" has shifted")[0] for alarm in streamgda.drift(before, after).alarms(**limits)]

    both = ["class p: the mean of 1", "class q: the mean of 1"]
    assert alarms(old, new, max_shift=1) == both
    lacking = np.where(np.arange(1200).reshape(400, 3) % 3 + (y == "q")[:, None] == 0, np.nan, 1)  # p lacks 0
    assert alarms(old, new * lacking, max_shift=1) == [
        *(both[0], "class p: either all old or all new rows lack 0", both[1])
    ]
    assert alarms(old * lacking, old, max_shift=1) == ["class p: either all old or all new rows lack 0"]
    assert alarms(old, old * lacking, max_divergence=1) == ["class p: the divergence is inf"]
    assert alarms(old * lacking, old * lacking, max_shift=1, max_divergence=1) == []
    assert len(alarms(old * lacking, new * lacking, max_shift=1, max_divergence=1)) == 4
    apart = np.where(np.arange(400)[:, None] % 2 == [0, 1, 2], np.nan, 1)  # no row has both 0 and 1
    assert alarms(old, new * apart, max_shift=1) == both
    unknown = alarms(old, old * apart, max_divergence=1)
    assert unknown == (
        []
        if kind == "diag"
        else [
            f"class {label}: the divergence is unknown, since too few rows have the same features"
            for label in "pq"
        ]
    )
    few = alarms(old * np.where(old > 0, np.nan, 1), [[np.nan] * 3, [np.nan, 0, 1]], ["p", "q"], max_shift=4)
    assert few == []  # which may be by chance


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
@pytest.mark.parametrize("n_lacking", [6, 24])
@pytest.mark.parametrize("weights", [[1.0, 1.0], [1e-3, 1.0]])
def test_a_feature_is_lacking_where_chance_would_seldom_leave_it_out(kind, n_lacking, weights):
    """How often rows of 40 lacked it is by Laplace's rule. Chance may be one in 370, over three features."""
    X, y, w = (
        np.random.default_rng(1).normal(size=(65, 3)),
        np.repeat(["p", "q"], [40, 25]),
        np.resize(weights, 65),
    )
    X[:n_lacking, 0] = np.nan
    n_rows = w[:40].sum() ** 2 / np.square(w[:40]).sum()
    rate = (w[:n_lacking].sum() / w[:40].sum() * n_rows + 1) / (n_rows + 2)
    most = int(np.log(0.0027 / 3) / np.log(rate))
    for n in (most, most + 1, 20):
        none = np.vstack([np.tile([np.nan, 1, 1], (n, 1)) * X[-n:], X[40:]])
        before, after = (
            IncompleteStatistics(kind).update(*rows)
            for rows in ((X, y, w), (none, np.repeat(["p", "q"], [n, 25]), np.full(n + 25, w[0])))
        )
        for one, other in ((before, after), (after, before)):
            found, full = streamgda.drift(one, other).drift
            assert found.is_lacking.tolist() == [n > most, False, False]
            assert np.isfinite(found.shift).tolist() == [False, True, True]
            assert np.isfinite(found.divergence) == (n <= most)
            assert not full.is_lacking.any()


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_categories_are_compared_beside_a_number_that_no_new_row_has(kind):
    def state(u, categories):
        c = np.resize(categories, 200)
        table = pa.table({"u": u, "v": RNG.normal(size=200), "c": c, "y": np.repeat(["p", "q"], 100)})
        return accumulate(scan_arrow(table, "y", missing="marginal"), kind, missing="marginal")

    before = state(RNG.normal(size=200), ["r", "s", "t"])
    report = streamgda.drift(before, state(pa.nulls(200, pa.float64()), ["r", "s", "t", "w"]))
    assert report.new_categories == ("c=w",)
    assert [found.is_lacking.tolist() for found in report.drift] == [[True] + [False] * 4] * 2
    assert len(report.alarms(max_shift=1)) == 2


@pytest.mark.parametrize("name", ["max_shift", "max_divergence", "max_share_shift"])
@pytest.mark.parametrize("limit", [np.nan, -1])
def test_a_limit_is_a_number(name, limit):
    with pytest.raises(ValueError, match=f"{name} must be a number, at least 0; got {limit}"):
        streamgda.drift(ClassStatistics(), ClassStatistics()).alarms(**{name: limit})


def test_a_share_may_move_up_or_down():
    before, after = (of(np.zeros((300, 1)), "diag", np.repeat([0, 1], n)) for n in ([200, 100], [100, 200]))
    report = streamgda.drift(before, after)
    assert [found.share_shift < 0 for found in report.drift] == [True, False]
    assert len(report.alarms(max_share_shift=5)) == 2
    assert not report.alarms(max_share_shift=9)


def test_states_that_differ_in_kind_or_features_are_not_compared():
    frame = pd.DataFrame({"u": [1.0, 2.0], "v": [0.0, 1.0]})
    before = ClassStatistics().update(frame, [0, 0])
    with pytest.raises(ValueError, match="types 'full' and 'diag' cannot be .* by to_covariance_type"):
        streamgda.drift(before, ClassStatistics("diag").update(frame, [0, 0]))
    for after in (
        ClassStatistics().update(frame[["u"]], [0, 0]),
        ClassStatistics().update(frame[["v", "u"]], [0, 0]),
    ):
        with pytest.raises(ValueError, match="states of other features cannot be compared"):
            streamgda.drift(before, after)
    assert len(streamgda.drift(before, ClassStatistics().update(frame.to_numpy(), [0, 0])).drift) == 1
    assert streamgda.drift(ClassStatistics(), before).new_classes == (0,)
    assert streamgda.drift(before, ClassStatistics()).drift == ()


# ---------------------------------------------------------------------- against exact arithmetic


def moments_of(X):
    """Mean and covariance of rows of floats, as fractions."""
    ((n, mean, scatter),) = exact_moments(X, [0] * len(X)).values()
    return mean, [[value / n for value in row] for row in scatter]


def inverse(matrix):
    """The inverse of a matrix of fractions, by Gauss and Jordan."""
    d = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(d))] for i, row in enumerate(matrix)]
    for i in range(d):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in range(d):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[d:] for row in rows]


def exact_divergence(before, after):
    """½ tr(Σ₂⁻¹ Σ₁ + Σ₁⁻¹ Σ₂ − 2 I) + ½ gᵀ (Σ₁⁻¹ + Σ₂⁻¹) g."""
    (m, a), (n, b) = moments_of(before), moments_of(after)
    d, gap = range(len(m)), [y - x for x, y in zip(m, n, strict=True)]
    p, q = inverse(a), inverse(b)
    traces = sum(q[i][j] * a[j][i] + p[i][j] * b[j][i] for i in d for j in d)
    return float((traces - 2 * len(m) + sum(gap[i] * (p[i][j] + q[i][j]) * gap[j] for i in d for j in d)) / 2)


def exact_shift(before, after):
    (m, a), (n, _) = moments_of(before), moments_of(after)
    return [float((n[j] - m[j]) / Fraction(float(a[j][j]) ** 0.5)) for j in range(len(m))]


@pytest.mark.slow_cases("1000000.0-")
@pytest.mark.parametrize("make", [ClassStatistics, ExactClassStatistics])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e12, -(2.0**50)])
def test_a_shift_is_seen_wherever_the_mean_is(make, offset):
    """At 10¹² float64 has steps of 10⁻⁴; a few of them are a shift like any other."""
    step = max(np.spacing(abs(offset)), 2.0**-20)
    before = offset + RNG.integers(-4, 5, (200, 2)) * step
    after = offset + RNG.integers(-4, 5, (200, 2)) * step
    after[:, 0] += 6 * step
    zeros = np.zeros(200, int)
    old, new = make().update(before, zeros), make().update(after, zeros)
    (found,) = drift(old, new)
    np.testing.assert_allclose(found.shift, exact_shift(before, after), rtol=1e-10)
    assert found.divergence == pytest.approx(exact_divergence(before, after), rel=1e-9)


@pytest.mark.parametrize("kind", ["full", "diag"])
@pytest.mark.parametrize("ratio", [1.0, 1e-2, 1e-4, 1e-8, 1e-12, 1e-100])
def test_the_divergence_at_any_ratio_of_the_variances(kind, ratio):
    before = RNG.normal(size=(60, 2))
    before[:, 0] += before[:, 1] if kind == "full" else 0
    after = RNG.normal(size=(60, 2)) * [np.sqrt(ratio), 1.0]
    if kind == "diag":
        expected = sum(exact_divergence(before[:, [j]], after[:, [j]]) for j in range(2))
    else:
        expected = exact_divergence(before, after)
    y = np.zeros(60, int)
    (there,), (back,) = (
        drift(of(before, kind, y), of(after, kind, y)),
        drift(of(after, kind, y), of(before, kind, y)),
    )
    assert there.divergence == pytest.approx(expected, rel=1e-12)
    assert back.divergence == pytest.approx(there.divergence, rel=1e-14)


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_a_tiny_change_of_a_covariance_has_its_digits(kind):
    before = RNG.normal(size=(60, 2))
    after = before.copy()
    after[0] *= 1 + 1e-9
    y = np.zeros(60, int)
    (found,) = drift(of(before, kind, y), of(after, kind, y))
    columns = [[0], [1]] if kind == "diag" else [[0, 1]]
    expected = sum(exact_divergence(before[:, j], after[:, j]) for j in columns)
    assert found.divergence == pytest.approx(expected, rel=1e-5)


def test_classes_of_one_covariance_are_compared_by_one_whitening(monkeypatch):
    """With thousands of features and many classes, each takes seconds."""
    rng, made = np.random.default_rng(0), []
    y = np.arange(400) % 20
    old, new = (ClassStatistics("tied").update(rng.normal(size=(400, 5)), y) for _ in range(2))
    of = Whitening.of
    monkeypatch.setattr(Whitening, "of", lambda *given: made.append(0) or of(*given))
    report = streamgda.drift(old, new)
    assert len(report.drift) == 20
    assert len(made) == 2
    pairs = zip(gaussians_of(old).values(), gaussians_of(new).values(), strict=True)
    alone = [divergence(replace(a, shared={}), replace(b, shared={})) for a, b in pairs]
    np.testing.assert_array_equal([one.divergence for one in report.drift], alone)


def test_the_divergence_of_two_densities_does_not_depend_on_what_was_compared_before():
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    old, new = (gaussians_of(ClassStatistics().update(rng.normal(size=(60, 3)), y)) for _ in range(2))
    alone = [divergence(replace(old[k], shared={}), replace(new[0], shared={})) for k in range(3)]
    assert [divergence(old[k], new[0]) for k in range(3)] == alone
