"""The mechanism: what one row may change, how much noise hides it, and whether an attack sees through it."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq

from streamgda import ExactClassStatistics
from streamgda.data.blocks.arrays import array_blocks
from streamgda.extensions.private.clipping import GRID, Clipping, sensitivity
from streamgda.extensions.private.noise import noise, noise_multiplier
from streamgda.extensions.private.release import Released, edge
from streamgda.statistics.covariances import kind_named
from tests.strategies import kinds

LABELS = np.array(["a", "b", "c"])


def released(kind, X, y, clip, bound=1.0):
    """The exact integers of rows that are clipped to one bound in all features."""
    d = X.shape[1]
    state, clipping = ExactClassStatistics(kind), Clipping(np.zeros(d), np.full(d, bound), clip, LABELS)
    state.update_blocks(map(clipping, array_blocks(X, y)))
    return Released.of(state, LABELS, kind_named(kind), d)


class TestSensitivity:
    @given(
        st.data(),
        kinds,
        st.integers(1, 4),
        st.integers(0, 2),
        st.sampled_from([1e-6, 0.3, 1.0, 9.0]),
        st.sampled_from([1e-300, 1.0, 1e150]),
    )
    def test_no_row_changes_the_vector_by_more(self, data, kind, d, n, clip, bound):
        within = st.floats(-1, 1).map(lambda value: value * bound)
        value = st.sampled_from([-bound, bound, np.nan, np.inf, -1e308]) | within
        row = st.lists(value, min_size=d, max_size=d)
        X = np.array(data.draw(st.lists(row, min_size=n + 1, max_size=n + 1))).reshape(n + 1, d)
        y = np.array(data.draw(st.lists(st.sampled_from("abcd"), min_size=n + 1, max_size=n + 1)))
        clip = min(clip, math.sqrt(d))
        with_row = released(kind, X, y, clip, bound).vector
        without = released(kind, X[:n], y[:n], clip, bound).vector
        moved = sum((a - b) ** 2 for a, b in zip(with_row, without, strict=True))
        assert moved <= sensitivity(d, kind_named(kind).n_pairs(d)) ** 2

    @pytest.mark.parametrize("d", [1, 3, 300])
    def test_it_is_the_root_of_three_which_the_longest_rows_reach(self, d):
        bound = sensitivity(d, d * (d + 1) // 2) / GRID**2
        longest = np.zeros((1, d))
        longest[0, 0] = 1.0
        reached = math.sqrt(sum(value**2 for value in released("tied", longest, ["a"], 1.0).vector)) / GRID**2
        assert math.sqrt(3) == pytest.approx(reached, rel=1e-12)
        assert reached <= bound <= math.sqrt(3) * 1.001
        norm, n_rounded = GRID + math.sqrt(d) / 2, d * (d - 1) // 2  # equal features, all rounded up
        products = d * (norm**2 / d) ** 2 + n_rounded * (math.sqrt(2) * norm**2 / d + 1) ** 2
        assert math.sqrt(GRID**4 + (GRID * norm) ** 2 + products) <= bound * GRID**2


def failure(epsilon, sigma):
    """The log of the δ of Gaussian noise of privacy loss L, by integration: E max(0, 1 − e^(ε − L))."""
    loss_is_epsilon = 0.5 / sigma - epsilon * sigma  # in deviations, from where on the loss is larger

    def part(u):  # u deviations further, times √2π e^(t²/2), so that it does not underflow
        return -math.expm1(-u / sigma) * math.exp(-u * u / 2 + loss_is_epsilon * u)

    ends = [0.0, 0.02, 0.1, 0.5, 2.0, 5.0, 12.0, 40.0]
    whole = sum(quad(part, a, b, epsabs=0, epsrel=1e-13)[0] for a, b in pairwise(ends))
    return math.log(whole) - loss_is_epsilon**2 / 2 - math.log(2 * math.pi) / 2


class TestScale:
    @pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 10.0, 1000.0])
    @pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-9, 1e-5, 0.1])
    def test_it_is_the_least_that_integration_allows(self, epsilon, delta):
        sigma = noise_multiplier(epsilon, delta)
        exact = brentq(
            lambda s: failure(epsilon, s) - math.log(delta), sigma / 2, 2 * sigma, xtol=1e-300, rtol=1e-14
        )
        assert sigma == pytest.approx(exact, rel=1e-9)

    def test_values_of_the_literature(self):
        assert noise_multiplier(1, 1e-5) == pytest.approx(3.7306, abs=5e-5)
        assert noise_multiplier(1, 1e-5) * math.sqrt(3) == pytest.approx(6.4616, abs=5e-5)


class TestNoise:
    @pytest.mark.slow
    def test_it_follows_the_discrete_gaussian(self):
        drawn = np.array(noise(100_000, 2.5, None))
        values = np.arange(-9, 10)
        law = np.exp(-(values**2) / (2 * 2.5**2))
        law /= np.exp(-(np.arange(-60, 61) ** 2) / (2 * 2.5**2)).sum()
        seen = np.append((drawn[:, None] == values).sum(axis=0), (abs(drawn) > 9).sum())
        expected = np.append(law, 1 - law.sum()) * len(drawn)
        assert stats.chisquare(seen, expected).pvalue > 1e-7

    @pytest.mark.slow
    def test_a_release_is_normal_about_the_exact_numbers(self):
        exact = released("full", np.eye(2), ["a", "b"], 1.0)
        n = len(exact.vector)
        scale = noise_multiplier(1, 1e-5) * sensitivity(2, 3)
        draws = np.array(noise(n * (100_000 // n), scale, None)).reshape(-1, n) / scale
        assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-7
        correlations = np.corrcoef(draws.T)[np.triu_indices(n, 1)]
        assert abs(correlations).max() < 6 / math.sqrt(len(draws))

    @pytest.mark.slow_cases("[None]")  # which imports OpenDP
    @pytest.mark.parametrize("random_state", [None, 0])
    def test_sums_of_any_size_get_noise_as_python_integers(self, random_state):
        huge = Released(
            kind_named("diag"), *(np.full(shape, 2**80, object) for shape in ((1,), (1, 1), (1, 1)))
        )
        noisy = huge.with_noise(1e9, random_state)
        assert noisy.counts[0] * GRID**2 == pytest.approx(2**80, rel=1e-9)

    def test_so_much_noise_that_it_would_not_fit_is_refused(self):
        with pytest.raises(ValueError, match="take a larger epsilon"):
            noise(3, 2.0**60, None)

    @pytest.mark.parametrize("K", [1, 40])
    def test_the_floor_is_the_largest_eigenvalue_that_noise_alone_gives(self, K):
        d, n, sigma = 50, 10**6, 5.0
        means = np.random.default_rng(0).normal(size=(K, d))
        means *= 0.6 / np.linalg.norm(means, axis=1, keepdims=True)
        kind, steps = kind_named("tied"), np.frompyfunc(lambda value: round(value * GRID**2), 1, 1)
        first, second = kind.pairs(d)
        products = n * (means.T @ means)[first, second] * np.where(first == second, 1, math.sqrt(2))
        at_the_means = Released(kind, steps(np.full(K, float(n))), steps(n * means), steps(products[None]))
        largest = []
        for seed in range(10):
            noisy = at_the_means.with_noise(sigma * GRID**2, seed)
            largest.append(np.linalg.eigvalsh(noisy.moments(np.arange(K), 0.0)[2]).max())
        assert np.mean(largest) == pytest.approx(edge(sigma, d, np.square(means).sum()), rel=0.12)
        raised = noisy.moments(np.arange(K), sigma)[2]
        assert np.linalg.eigvalsh(raised).min() == pytest.approx(
            edge(sigma, d, np.square(means).sum()), rel=1e-3
        )


class TestAttack:
    """Whoever knows all rows but one guesses by the likelihood ratio, the best test that there is."""

    DRAWS = 50_000

    def broken_places(self, epsilon, delta, factor):
        """At how many of 20 thresholds the attack succeeds more often than privacy allows, beyond chance."""
        X = np.array([[0.3], [1.0]])  # the last row is the longest
        tables = [
            np.array(released("diag", X[:n], ["a"] * n, 1.0).vector, dtype=float)[[0, 3, 6]] for n in (1, 2)
        ]
        scale = factor * noise_multiplier(epsilon, delta) * sensitivity(1, 1)
        direction = (tables[1] - tables[0]) / np.linalg.norm(tables[1] - tables[0])
        random = [np.array(noise(3 * self.DRAWS, scale, None), dtype=float).reshape(-1, 3) for _ in tables]
        without, with_row = ((table + drawn) @ direction for table, drawn in zip(tables, random, strict=True))
        broken = 0
        for threshold in np.quantile(with_row, np.linspace(0.05, 0.999, 20)):
            hits, alarms = (with_row > threshold).sum(), (without > threshold).sum()
            least = stats.beta.ppf(1e-8, hits, self.DRAWS - hits + 1)
            most = stats.beta.ppf(1 - 1e-8, alarms + 1, self.DRAWS - alarms)
            broken += least > math.exp(epsilon) * most + delta
        return broken

    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
    def test_it_stays_below_what_epsilon_and_delta_allow(self, epsilon):
        assert self.broken_places(epsilon, 0.01, 1.0) == 0

    @pytest.mark.slow
    def test_it_would_notice_half_of_the_noise(self):
        assert self.broken_places(1.0, 0.01, 0.5) > 5
