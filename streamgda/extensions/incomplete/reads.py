"""The E step of EM that reads the rows once for each step, as they have too many patterns to keep.

It is the expected sums of rows, given their observed values. Values are taken in the units of a
population; see `streamgda.extensions.incomplete.available.Population`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Self

import numpy as np

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.schema import Schema
from streamgda.extensions.incomplete.available import Population
from streamgda.extensions.incomplete.em import Normal, Parameters
from streamgda.extensions.incomplete.patterns import Observed
from streamgda.statistics.base import BesideStatistics
from streamgda.statistics.covariances import Array, Indices
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.kernels import Workspace

_LEAST_EIGENVALUE = 1e-10  # of a covariance of features at unit variance
_ELEMENTS_AT_A_TIME = 1 << 20


class ExpectedRows(BesideStatistics):
    """The expected sums of rows under some parameters: the state of one read of EM.

    Rows in which all features are missing have no information on the parameters, and are left out.

    Attributes
    ----------
    parameters : Parameters
        The parameters.
    schema : Schema
        The features that they are of.
    statistics : ClassStatistics
        The expected sums.
    together : ndarray of shape (n_populations, n_features, n_features)
        How many rows have both of two features.
    """

    def __init__(self, parameters: Parameters, schema: Schema) -> None:
        self.parameters, self.schema = parameters, schema
        self.statistics = ClassStatistics(parameters.kind.name)
        self.together = np.array([np.zeros((len(each.scale),) * 2) for each in parameters.populations])

    def copy(self) -> Self:
        """A state that does not change with this one."""
        twin = type(self)(self.parameters, self.schema)
        return twin.merge(self)

    def merge(self, other: Self) -> Self:
        """Add the rows of another state, in place."""
        self.statistics.merge(other.statistics)
        self.together += other.together
        return self

    def __add__(self, other: Self) -> Self:
        return self.copy().merge(other)

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks."""
        workspace = workspace or Workspace()
        for block in blocks:
            self._update(block, workspace)

    def _update(self, block: Block, workspace: Workspace) -> None:
        block = block.in_schema(self.schema)  # a part of the rows may lack a feature that all rows have
        rows = np.array(block.matrix(0, len(block.codes)))  # a copy, in which missing values are filled in
        has_any = np.flatnonzero(~np.isnan(rows).all(axis=1))
        if len(has_any) < len(rows):
            block, rows = block.take(has_any), rows[has_any]
        residual = self._complete(block, rows)
        part = self.statistics._from_block(replace(block, features=rows), workspace)
        part._labelled.moments.scatter += residual
        self.statistics.merge(part)

    def _complete(self, block: Block, rows: Array) -> Array:
        """Fill in what is missing, in place; return what is to be added to the scatter of the classes."""
        parameters, places = self.parameters, np.searchsorted(self.parameters.classes, block.classes)
        residual = parameters.kind.zeros(len(places), rows.shape[1])
        weights, pooled = block.row_weights, parameters.kind.is_pooled
        for code in range(1 if pooled else len(places)):
            chosen = np.arange(len(rows)) if pooled else np.flatnonzero(block.codes == code)
            number = 0 if pooled else int(places[code])
            population, normal = parameters.populations[number], parameters.normals[number]
            observed = ~np.isnan(rows[chosen])
            rows[chosen], of_population = _filled(
                rows[chosen], observed, weights[chosen], places[block.codes[chosen]], population, normal
            )
            residual[... if pooled else code] += of_population
            seen = observed.astype(np.float64)
            self.together[number] += seen.T @ seen
        return residual


def _filled(
    rows: Array, observed: Observed, weights: Array, places: Indices, population: Population, normal: Normal
) -> tuple[Array, Array]:
    """Rows of a population, of classes at these places, with expected values in place of missing ones.

    Also the sum of the covariances of the missing values.
    """
    varying, available = population.varying, population.available
    units, centres = population.scale[varying], normal.means[places - population.places[0]]
    anchors, low_means = available.means[places], available.low_means[places]
    seen = observed[:, varying]
    offsets = (rows[:, varying] - anchors[:, varying]) - low_means[:, varying]
    offsets = np.where(seen, offsets / units - centres, 0.0)
    within = _fill_offsets(offsets, ~seen, weights, normal.covariance)
    completed = np.zeros(rows.shape)
    completed[:, varying] = (offsets + centres) * units
    completed += low_means
    completed += anchors
    residual = np.zeros((rows.shape[1],) * 2)
    residual[np.ix_(varying, varying)] = within * np.outer(units, units)
    return np.where(observed, rows, completed), residual


def _fill_offsets(offsets: Array, missing: Observed, weights: Array, covariance: Array) -> Array:
    """Fill in missing values of offsets, in place; return the sum of their covariances, in units of EM.

    Let K be the precision of all features. Given the observed features o, the missing ones u have the
    precision K_uu and the mean μ_u − K_uu⁻¹ K_uo (x_o − μ_o). So only matrices of missing features are
    inverted. Tiny eigenvalues are raised, so that each of these matrices has an inverse.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, _LEAST_EIGENVALUE)
    precision, d = (vectors / values) @ vectors.T, len(values)
    products = offsets @ precision
    residual = np.zeros(d * d)
    for some, where in _alike(missing):
        inverses = np.linalg.inv(precision[where[:, :, None], where[:, None, :]])
        across = np.take_along_axis(products[some], where, axis=1)
        offsets[some[:, None], where] = -(inverses @ across[:, :, None])[:, :, 0]
        cells = (where[:, :, None] * d + where[:, None, :]).ravel()
        residual += np.bincount(cells, (inverses * weights[some, None, None]).ravel(), minlength=d * d)
    matrix = residual.reshape(d, d)  # states are symmetric to the last bit, and inverses are not
    return (matrix + matrix.T) / 2


def _alike(missing: Observed) -> Iterator[tuple[Indices, Indices]]:
    """Yield rows that lack the same number of features: their positions (n,), and what they lack (n, m)."""
    n_missing = missing.sum(axis=1)
    for m in np.unique(n_missing[n_missing > 0]).tolist():
        alike, size = np.flatnonzero(n_missing == m), max(1, _ELEMENTS_AT_A_TIME // (m * m))
        for start in range(0, len(alike), size):
            some = alike[start : start + size]
            yield some, np.nonzero(missing[some])[1].reshape(-1, m)
