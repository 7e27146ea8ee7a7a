"""The recipe of `streamgda.statistics`: a kind of covariance from outside does all that the others do."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

import streamgda
from streamgda import ClassStatistics, ExactClassStatistics, accumulate, scan_arrow
from streamgda.statistics.covariances import KINDS, CovarianceKind
from tests.contracts import test_laws
from tests.extensions.exact import test_exact

RNG = np.random.default_rng(0)
X = RNG.normal([0, 1e3, 0, -5, 2], size=(60, 5))
Y = RNG.integers(0, 3, size=60)


class Neighbours(CovarianceKind):
    """Variances, and covariances of features 0 and 1, 2 and 3, and so on: K × d × d, zero elsewhere."""

    name = "neighbours"

    def shape(self, n_classes, n_features):
        return n_classes, n_features, n_features

    def pairs(self, n_features):
        first, second = np.tril_indices(n_features)
        kept = first // 2 == second // 2
        return first[kept], second[kept]

    def products(self, rows, bounds):
        of_class = [rows[:, start:stop] for start, stop in pairwise(bounds)]
        return np.array([part @ part.T for part in of_class]) * self.mask(len(rows))

    def outer(self, vectors):
        return vectors[:, :, None] * vectors[:, None, :] * self.mask(vectors.shape[1])

    def mask(self, n_features):
        return np.equal.outer(*[np.arange(n_features) // 2] * 2)


class Pairs(CovarianceKind):
    """What `Neighbours` keeps, and nothing else: K × n_pairs."""

    name = "pairs"
    pairs = Neighbours.pairs

    def shape(self, n_classes, n_features):
        return n_classes, self.n_pairs(n_features)

    def products(self, rows, bounds):
        first, second = self.pairs(len(rows))
        return np.add.reduceat(rows[first] * rows[second], bounds[:-1], axis=1).T

    def outer(self, vectors):
        first, second = self.pairs(vectors.shape[1])
        return vectors[:, first] * vectors[:, second]

    def own(self, scatter):
        return np.equal(*self.pairs((2 * scatter.shape[1] + 2) // 3))

    def diagonal(self, scatter):
        return scatter[:, self.own(scatter)]

    def zero(self, scatter, features):
        first, second = self.pairs(features.shape[1])
        scatter[features[:, first] | features[:, second]] = 0.0

    def packed(self, scatter):
        return scatter

    def unpacked(self, packed, n_classes, n_features):
        return packed.copy()

    def is_symmetric(self, scatter):
        return True

    def is_semidefinite(self, scatter, squares=None):
        return bool((self.diagonal(scatter) >= 0).all())


@pytest.fixture(autouse=True, scope="module")
def _registered():
    KINDS.update(neighbours=Neighbours(), pairs=Pairs())
    yield
    del KINDS["neighbours"], KINDS["pairs"]


class TestFloating(test_laws.TestFull):
    kind = "neighbours"


@pytest.mark.slow
class TestExact(test_exact.TestFull):
    kind = "neighbours"


STATES = pytest.mark.parametrize("state", [ClassStatistics, ExactClassStatistics])


@STATES
def test_it_keeps_of_full_what_it_says(state):
    full = state().update(X, Y)
    mask = Neighbours().mask(5)
    narrow = state("neighbours").update(X, Y)
    np.testing.assert_allclose(narrow.scatter, full.scatter * mask, rtol=1e-12)
    np.testing.assert_allclose(narrow.covariance(1), full.covariance(1) * mask, rtol=1e-12)
    np.testing.assert_allclose(narrow.total_variance(), full.total_variance(), rtol=1e-12)
    assert full.to_covariance_type("neighbours").allclose(narrow, rtol=1e-12)
    assert narrow.as_one_class().allclose(state("neighbours").update(X, Y * 0), rtol=1e-10)
    with pytest.raises(ValueError, match="accumulate with covariance_type='diag'"):
        narrow.to_covariance_type("diag")
    with pytest.raises(ValueError, match="'neighbours' and 'full'"):
        narrow + full
    pairs = Pairs().pairs(5)
    alone, rest = state("pairs").update(X, Y), state("pairs").update(X[:20], Y[:20])
    np.testing.assert_allclose(alone.covariance(1), narrow.covariance(1)[:, *pairs], rtol=1e-12)
    assert full.to_covariance_type("pairs").allclose(alone, rtol=1e-12)
    assert (rest + state("pairs").update(X[20:], Y[20:]) - rest).allclose(alone - rest, rtol=1e-9)


@STATES
@pytest.mark.parametrize("kind", ["neighbours", "pairs"])
def test_it_is_saved_and_accumulated(state, kind, tmp_path):
    whole = state(kind).update(X, Y)
    whole.save(tmp_path / "state.parquet")
    assert streamgda.load(tmp_path / "state.parquet") == whole
    table = pa.table({f"x{j}": X[:, j] for j in range(5)} | {"y": Y})
    read = accumulate(scan_arrow(table, "y"), kind, exact=state.exact)
    assert read.allclose(whole, rtol=1e-12)


class OfNeighbours(streamgda.QuadraticDiscriminantAnalysis):
    _covariance_type = "neighbours"


def test_a_model_of_it_counts_the_products_that_it_keeps():
    """Three rows determine the covariance of two features, however many features there are."""
    model = OfNeighbours().fit(X, Y)
    assert model.n_parameters_ == 3 * 5 + 3 * 7 + 2
    few = np.r_[np.flatnonzero(Y)[:30], np.flatnonzero(Y == 0)[:3]]
    densities = [
        multivariate_normal(
            X[few][Y[few] == k].mean(axis=0), np.cov(X[few][Y[few] == k].T, ddof=0) * Neighbours().mask(5)
        )
        for k in range(3)
    ]
    expected = np.transpose(
        [each.logpdf(X) + np.log((Y[few] == k).mean()) for k, each in enumerate(densities)]
    )
    np.testing.assert_allclose(
        OfNeighbours().partial_fit(X[few], Y[few]).predict_log_proba(X),
        log_softmax(expected, axis=1),
        atol=1e-6,
    )


def test_rows_that_lack_features_and_fourth_moments_are_refused():
    with pytest.raises(ValueError, match="beside covariance type 'full' alone, not 'neighbours'"):
        OfNeighbours(shrinkage="auto").fit(X, Y)
    with pytest.raises(ValueError, match="'neighbours' takes no rows that lack features"):
        OfNeighbours(missing="marginal").fit(np.where(np.arange(5) == Y[:, None], np.nan, X), Y)
