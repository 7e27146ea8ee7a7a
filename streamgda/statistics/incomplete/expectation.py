"""What rows are expected to be, given what is observed of them: the E step of EM on rows.

Values are taken in units of the standard deviations of the available cases, as deviations from their means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels
from streamgda.gaussians.base import LOG_2PI
from streamgda.statistics.covariances import Array, CovarianceKind, CovarianceType
from streamgda.statistics.floating.moments import two_sum
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.gather import Workspace
from streamgda.statistics.incomplete.em import Normal

_LEAST_EIGENVALUE = 1e-10  # of a covariance of features at unit variance
_ELEMENTS_AT_A_TIME = 1 << 20


@dataclass(frozen=True)
class Expectation:
    """Parameters under which rows are completed.

    Attributes
    ----------
    kind : CovarianceKind
        "full" for a covariance of each class, "tied" for one that they share.
    classes : ndarray of shape (n_classes,)
        The labels.
    means, low_means : ndarray of shape (n_classes, n_features)
        The means of the available cases, and what rounding left of them.
    scale : ndarray of shape (n_populations, n_features)
        Their standard deviations, in each class or within all classes; 0 for a feature that does not vary.
    normals : tuple of Normal
        The parameters of each population, in these units, of the features that vary.
    """

    kind: CovarianceKind
    classes: Labels
    means: Array
    low_means: Array
    scale: Array
    normals: tuple[Normal, ...]

    def change_since(self, other: Expectation) -> float:
        """The largest change of a parameter, in standard deviations."""
        pairs = zip(self.normals, other.normals, strict=True)
        return max((ours.change_since(theirs) for ours, theirs in pairs), default=0.0)

    def maximised(self, expected: ClassStatistics) -> Expectation:
        """The next parameters: the M step."""
        return replace(self, normals=tuple(self._maximised(expected)))

    def _maximised(self, expected: ClassStatistics) -> Iterable[Normal]:
        offsets = (expected.means - self.means) + (expected.mean_tails - self.low_means)
        covariances = expected.covariance()
        for population, scale in enumerate(self.scale):
            varying = np.flatnonzero(scale)
            units = scale[varying]
            rows = slice(None) if self.kind.is_pooled else slice(population, population + 1)
            covariance = covariances if self.kind.is_pooled else covariances[population]
            within = covariance[np.ix_(varying, varying)] / np.outer(units, units)
            yield Normal(offsets[rows][:, varying] / units, within)

    def in_units(self) -> tuple[Array, Array, Array]:
        """The means, what rounding left of them, and the covariances, in the units of the features."""
        means, low_means = self.means.copy(), self.low_means.copy()
        covariances = self.kind.zeros(*means.shape)
        for population, (scale, normal) in enumerate(zip(self.scale, self.normals, strict=True)):
            varying = np.flatnonzero(scale)
            rows = np.arange(len(means)) if self.kind.is_pooled else np.array([population])
            cells = np.ix_(rows, varying)
            means[cells], low_means[cells] = two_sum(
                means[cells], low_means[cells] + normal.means * scale[varying]
            )
            covariance = covariances if self.kind.is_pooled else covariances[population]
            covariance[np.ix_(varying, varying)] = normal.covariance * np.outer(
                scale[varying], scale[varying]
            )
        return means, low_means, covariances


class ExpectedRows:
    """The sums that rows are expected to have under some parameters: the state of one read of EM.

    Rows in which all features are missing say nothing of the parameters, and are left out.

    Attributes
    ----------
    given : Expectation
        The parameters.
    statistics : ClassStatistics
        The expected sums.
    together : ndarray of shape (n_populations, n_features, n_features)
        How many rows have both of two features.
    log_likelihood : float
        Of what is observed, under these parameters.
    """

    def __init__(self, given: Expectation) -> None:
        self.given = given
        self.statistics = ClassStatistics(cast("CovarianceType", given.kind.name))
        n_features = given.means.shape[1]
        self.together = np.zeros((len(given.scale), n_features, n_features))
        self.log_likelihood = 0.0

    @property
    def n_rows(self) -> int:
        """How many rows have a feature."""
        return self.statistics.n_rows

    @property
    def n_dropped(self) -> int:
        """How many rows the source left out."""
        return self.statistics.n_dropped

    def copy(self) -> Self:
        """A state that does not change with this one."""
        twin = type(self)(self.given)
        return twin.merge(self)

    def merge(self, other: Self) -> Self:
        """Add the rows of another state, in place."""
        self.statistics.merge(other.statistics)
        self.together += other.together
        self.log_likelihood += other.log_likelihood
        return self

    def __add__(self, other: Self) -> Self:
        return self.copy().merge(other)

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks."""
        workspace = workspace or Workspace()
        for block in blocks:
            self._update(block, workspace)

    def _update(self, block: Block, workspace: Workspace) -> None:
        rows = np.array(block.matrix(0, len(block.codes)))  # a copy, which is filled in
        observed = ~np.isnan(rows)
        has_any = np.flatnonzero(observed.any(axis=1))
        if len(has_any) < len(rows):
            block, rows, observed = block.take(has_any), rows[has_any], observed[has_any]
        residual = self._complete(block, rows, observed)
        part = self.statistics._from_block(replace(block, features=rows), workspace)
        part._labelled.moments.scatter += residual
        self.statistics.merge(part)

    def _complete(self, block: Block, rows: Array, observed: NDArray[np.bool_]) -> Array:
        """Fill in what is missing, in place; return what is to be added to the scatter of the classes."""
        given, places = self.given, np.searchsorted(self.given.classes, block.classes)
        residual = given.kind.zeros(len(places), rows.shape[1])
        weights = block.row_weights
        pooled = given.kind.is_pooled
        for code in range(1 if pooled else len(places)):
            chosen = np.arange(len(rows)) if pooled else np.flatnonzero(block.codes == code)
            population = 0 if pooled else int(places[code])
            completing = _Completing(given, population, places[block.codes[chosen]])
            part = rows[chosen]
            of_population = completing.fill(part, observed[chosen], weights[chosen])
            rows[chosen] = part
            self.log_likelihood += completing.log_likelihood
            self.together[population] += _products(observed[chosen])
            residual[... if pooled else code] += of_population
        return residual


class _Completing:
    """Completes rows of one population; adds up their log-likelihood.

    With the precision K of all features, those that are missing have the precision K_uu given the others,
    and the mean μ_u − K_uu⁻¹ K_uo (x_o − μ_o). So only matrices of missing features are inverted.
    """

    def __init__(self, given: Expectation, population: int, places: NDArray[np.intp]) -> None:
        self.scale = given.scale[population]
        self.varying = np.flatnonzero(self.scale)
        normal = given.normals[population]
        positions = places if given.kind.is_pooled else np.zeros(len(places), np.intp)
        self.anchors, self.low_means = given.means[places], given.low_means[places]
        self.centres = normal.means[positions]
        self.precision, self.log_det = _precision(normal.covariance)
        self.log_likelihood = 0.0

    def fill(self, rows: Array, observed: NDArray[np.bool_], weights: Array) -> Array:
        """Fill in what is missing; return the sum of the covariances of what was, (d, d)."""
        varying, units = self.varying, self.scale[self.varying]
        seen = observed[:, varying]
        offsets = (rows[:, varying] - self.anchors[:, varying]) - self.low_means[:, varying]
        offsets = np.where(seen, offsets / units - self.centres, 0.0)
        within = self._fill_offsets(offsets, ~seen, weights)
        self.log_likelihood -= float(weights @ (seen @ np.log(units)))
        completed = np.zeros(rows.shape)
        completed[:, varying] = (offsets + self.centres) * units
        completed += self.low_means
        completed += self.anchors
        np.copyto(rows, completed, where=~observed)
        residual = np.zeros((rows.shape[1],) * 2)
        residual[np.ix_(varying, varying)] = within * np.outer(units, units)
        return residual

    def _fill_offsets(self, offsets: Array, missing: NDArray[np.bool_], weights: Array) -> Array:
        n_missing, d = missing.sum(axis=1), len(self.precision)
        products = offsets @ self.precision
        squares = (offsets * products).sum(axis=1)
        log_dets = np.full(len(offsets), self.log_det)
        residual = np.zeros(d * d)
        for some, where in _alike(missing):
            precisions = self.precision[where[:, :, None], where[:, None, :]]
            inverses = np.linalg.inv(precisions)
            across = np.take_along_axis(products[some], where, axis=1)
            shifts = (inverses @ across[:, :, None])[:, :, 0]
            offsets[some[:, None], where] = -shifts
            squares[some] -= (across * shifts).sum(axis=1)
            log_dets[some] += np.linalg.slogdet(precisions)[1]
            cells = (where[:, :, None] * d + where[:, None, :]).ravel()
            residual += np.bincount(cells, (inverses * weights[some, None, None]).ravel(), minlength=d * d)
        self.log_likelihood -= float(weights @ ((d - n_missing) * LOG_2PI + log_dets + squares)) / 2
        matrix = residual.reshape(d, d)
        return (matrix + matrix.T) / 2  # inverses are not symmetric to the last bit, and states are


def _alike(missing: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows that lack as many features, some at a time: where they are (n,), and what they lack (n, m)."""
    n_missing = missing.sum(axis=1)
    for m in np.unique(n_missing[n_missing > 0]).tolist():
        alike, size = np.flatnonzero(n_missing == m), max(1, _ELEMENTS_AT_A_TIME // (m * m))
        for start in range(0, len(alike), size):
            some = alike[start : start + size]
            yield some, np.nonzero(missing[some])[1].reshape(-1, m)


def _precision(covariance: Array) -> tuple[Array, float]:
    """The inverse of a covariance and the logarithm of its determinant.

    Tiny eigenvalues are raised, so that each block of the inverse can be inverted.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, _LEAST_EIGENVALUE)
    return (vectors / values) @ vectors.T, float(np.log(values).sum())


def _products(observed: NDArray[np.bool_]) -> Array:
    """How many rows have both of two features: (d, d)."""
    seen = observed.astype(np.float64)
    return seen.T @ seen
