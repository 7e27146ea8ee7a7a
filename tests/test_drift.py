"""How far new rows lie from old ones, against textbook formulas and numerical integration."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from streamgda import ClassStatistics
from streamgda.ledger.drift import drift

RNG = np.random.default_rng(0)
ZEROS = np.zeros(500, int)


def of(X, kind="full", y=ZEROS):
    return ClassStatistics(kind).update(X, y)


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


def test_independent_features_add_up_in_naive_bayes():
    before, after = RNG.normal(size=(500, 3)), RNG.normal(1.0, 2.0, (500, 3))
    (together,) = drift(of(before, "diag"), of(after, "diag"))
    alone = [drift(of(before[:, [j]], "diag"), of(after[:, [j]], "diag"))[0].divergence for j in range(3)]
    assert together.divergence == pytest.approx(sum(alone))


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


def test_only_classes_that_both_have_are_compared():
    old = ClassStatistics("diag").update([[0.0], [1.0], [2.0], [5.0]], ["a", "a", "b", "c"])
    new = ClassStatistics("diag").update([[1.0], [2.0], [3.0], [9.0]], ["a", "b", "b", "d"])
    found = drift(old, new)
    assert [(d.label, d.rows, d.prior_before, d.prior) for d in found] == [
        ("a", 1, 0.5, 0.25),
        ("b", 2, 0.25, 0.5),
    ]
    assert found[1].shift == np.inf
