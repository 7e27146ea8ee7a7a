"""The recipe of `streamgda.statistics`: a kind of covariance from outside does all that the others do."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

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


@pytest.fixture(autouse=True, scope="module")
def _registered():
    KINDS["neighbours"] = Neighbours()
    yield
    del KINDS["neighbours"]


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


@STATES
def test_it_is_saved_and_accumulated(state, tmp_path):
    whole = state("neighbours").update(X, Y)
    whole.save(tmp_path / "state.parquet")
    assert streamgda.load(tmp_path / "state.parquet") == whole
    table = pa.table({f"x{j}": X[:, j] for j in range(5)} | {"y": Y})
    read = accumulate(scan_arrow(table, "y"), "neighbours", exact=state.exact)
    assert read.allclose(whole, rtol=1e-12)


def test_a_model_of_it_counts_the_products_that_it_keeps():
    class OfNeighbours(streamgda.QuadraticDiscriminantAnalysis):
        _covariance_type = "neighbours"

        def _covariances(self, statistics):
            return statistics.covariance()

    assert OfNeighbours().fit(X, Y).n_parameters_ == 3 * 5 + 3 * 7 + 2
