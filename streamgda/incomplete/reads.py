"""Maximum likelihood from rows with too many patterns to keep: EM that reads the rows once for each step.

The E step is the expected sums of rows, given their observed values. Values are taken in the units of a
population; see `streamgda.incomplete.available.Population`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.block import Block, remedying
from streamgda.blocks.schema import Schema
from streamgda.blocks.wording import counted
from streamgda.gaussians.base import LOG_2PI
from streamgda.incomplete.available import AvailableCases, Population, apart
from streamgda.incomplete.em import Normal, Parameters
from streamgda.incomplete.patterns import AS_OPTION
from streamgda.incomplete.state import IncompleteStatistics
from streamgda.kernels import Workspace
from streamgda.statistics.base import BesideStatistics, Statistics
from streamgda.statistics.covariances import Array, CovarianceType, kind_named
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.missing import Keep, Note, Read, Reading

_LEAST_EIGENVALUE = 1e-10  # of a covariance of features at unit variance
_ELEMENTS_AT_A_TIME = 1 << 20


class ExpectedRows(BesideStatistics):
    """The expected sums of rows under some parameters: the state of one read of EM.

    Rows in which all features are missing have no information on the parameters, and are left out.

    Attributes
    ----------
    given : Parameters
        The parameters.
    schema : Schema
        The features that they are of.
    statistics : ClassStatistics
        The expected sums.
    together : ndarray of shape (n_populations, n_features, n_features)
        How many rows have both of two features.
    log_likelihood : float
        The log-likelihood of the observed values under these parameters.
    """

    def __init__(self, given: Parameters, schema: Schema) -> None:
        self.given, self.schema = given, schema
        self.statistics = ClassStatistics(cast("CovarianceType", given.kind.name))
        self.together = np.array([np.zeros((len(each.scale),) * 2) for each in given.populations])
        self.log_likelihood = 0.0

    def copy(self) -> Self:
        """A state that does not change with this one."""
        twin = type(self)(self.given, self.schema)
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
        block = block.in_schema(self.schema)  # a part of the rows may lack a feature that all rows have
        rows = np.array(block.matrix(0, len(block.codes)))  # a copy, in which missing values are filled in
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
        weights, pooled = block.row_weights, given.kind.is_pooled
        for code in range(1 if pooled else len(places)):
            chosen = np.arange(len(rows)) if pooled else np.flatnonzero(block.codes == code)
            number = 0 if pooled else int(places[code])
            rows[chosen], of_population, log_likelihood = _filled(
                rows[chosen],
                observed[chosen],
                weights[chosen],
                places[block.codes[chosen]],
                given.populations[number],
                given.normals[number],
            )
            residual[... if pooled else code] += of_population
            self.log_likelihood += log_likelihood
            seen = observed[chosen].astype(np.float64)
            self.together[number] += seen.T @ seen
        return residual


def _filled(
    rows: Array,
    observed: NDArray[np.bool_],
    weights: Array,
    places: NDArray[np.intp],
    population: Population,
    normal: Normal,
) -> tuple[Array, Array, float]:
    """Rows of a population, of classes at these places, with expected values in place of missing ones.

    Also the sum of the covariances of the missing values, and the log-likelihood of the observed ones.
    """
    varying, available = population.varying, population.available
    units, centres = population.scale[varying], normal.means[places - population.places[0]]
    anchors, low_means = available.means[places], available.low_means[places]
    seen = observed[:, varying]
    offsets = (rows[:, varying] - anchors[:, varying]) - low_means[:, varying]
    offsets = np.where(seen, offsets / units - centres, 0.0)
    within, log_likelihood = _fill_offsets(offsets, ~seen, weights, normal.covariance)
    completed = np.zeros(rows.shape)
    completed[:, varying] = (offsets + centres) * units
    completed += low_means
    completed += anchors
    residual = np.zeros((rows.shape[1],) * 2)
    residual[np.ix_(varying, varying)] = within * np.outer(units, units)
    log_likelihood -= float(weights @ (seen @ np.log(units)))
    return np.where(observed, rows, completed), residual, log_likelihood


def _fill_offsets(
    offsets: Array, missing: NDArray[np.bool_], weights: Array, covariance: Array
) -> tuple[Array, float]:
    """Fill in missing values of offsets, in place; return the other results of `_filled`, in units of EM.

    Let K be the precision of all features. Given the observed features o, the missing ones u have the
    precision K_uu and the mean μ_u − K_uu⁻¹ K_uo (x_o − μ_o). So only matrices of missing features are
    inverted. Tiny eigenvalues are raised, so that each of these matrices has an inverse.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, _LEAST_EIGENVALUE)
    precision, d = (vectors / values) @ vectors.T, len(values)
    products = offsets @ precision
    squares, log_dets = (offsets * products).sum(axis=1), np.full(len(offsets), np.log(values).sum())
    residual = np.zeros(d * d)
    for some, where in _alike(missing):
        precisions = precision[where[:, :, None], where[:, None, :]]
        inverses = np.linalg.inv(precisions)
        across = np.take_along_axis(products[some], where, axis=1)
        shifts = (inverses @ across[:, :, None])[:, :, 0]
        offsets[some[:, None], where] = -shifts
        squares[some] -= (across * shifts).sum(axis=1)
        log_dets[some] += np.linalg.slogdet(precisions)[1]
        cells = (where[:, :, None] * d + where[:, None, :]).ravel()
        residual += np.bincount(cells, (inverses * weights[some, None, None]).ravel(), minlength=d * d)
    n_observed = d - missing.sum(axis=1)
    log_likelihood = -float(weights @ (n_observed * LOG_2PI + log_dets + squares)) / 2
    matrix = residual.reshape(d, d)  # states are symmetric to the last bit, and inverses are not
    return (matrix + matrix.T) / 2, log_likelihood


def _alike(missing: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield rows that lack the same number of features: their positions (n,), and what they lack (n, m)."""
    n_missing = missing.sum(axis=1)
    for m in np.unique(n_missing[n_missing > 0]).tolist():
        alike, size = np.flatnonzero(n_missing == m), max(1, _ELEMENTS_AT_A_TIME // (m * m))
        for start in range(0, len(alike), size):
            some = alike[start : start + size]
            yield some, np.nonzero(missing[some])[1].reshape(-1, m)


_REMEDY = (
    "set shrinkage='oas' or a number: fourth moments, which shrinkage='auto' needs, are of complete rows"
)


def read_incomplete(
    read: Read,
    empty: IncompleteStatistics,
    max_reads: int,
    tol: float,
    note: Note | None = None,
    keep: Keep | None = None,
) -> Reading:
    """Read rows in which features may be missing: once, or several times if there are too many patterns.

    Parameters
    ----------
    read : callable
        Reads all rows into a state.
    empty : IncompleteStatistics
        The state of no rows.
    max_reads : int
        The largest number of reads.
    tol : float
        EM ends when a read changes no mean by more than `tol` standard deviations, and no covariance by more
        than `tol`, relative to the standard deviations of its two features.
    note : callable, optional
        Called with a line on each read after the first.
    keep : callable, optional
        Called after each read, if there are several, with the result so far. After the first read, this is
        the means and variances of the available cases, of covariance type "diag".

    Returns
    -------
    Reading
        Ordinary statistics if no row lacks a feature, and statistics by pattern if there are few patterns.
        Otherwise the expected complete statistics at the maximum of the likelihood.

    Raises
    ------
    ValueError
        If there are too many patterns, and sums are exact, a rule divides the rows of a class, or only one
        read is allowed; if the rows do not determine the model; or if a row lacks a feature and fourth
        moments are asked for.
    """
    kind, names = empty.covariance_type, empty.feature_names
    if empty.has_fourth_moments:
        plain = empty_statistics(empty.required, feature_names=names, rule=empty.rule)
        with remedying(_REMEDY):
            return Reading(read(plain))
    if max_reads == 1 or empty.required.extra or kind == "diag" or empty.rule is not None:
        return Reading(read(empty).simplest())
    first: IncompleteStatistics = read(separating(empty))
    first._separates = False
    if first.covariance_type == kind:
        return Reading(first.simplest())
    keep, note = keep or (lambda reading: None), note or (lambda line: None)
    unfinished = "EM has not begun"
    reading = Reading(first, 1, unfinished)
    keep(reading)
    parameters = _of_available(first, kind)
    while reading.n_reads < max_reads and reading.unfinished:
        expected: ExpectedRows = read(ExpectedRows(parameters, first.schema))
        if reading.n_reads == 1:
            _check_together(first, expected)
        following = parameters.maximised(expected.statistics)
        change, n_reads = following.change_since(parameters), reading.n_reads + 1
        parameters = following
        note(f"read {n_reads} of at most {max_reads}, change {change:.1g}")
        unfinished = "" if change <= tol else _not_converged(n_reads, change, tol)
        reading = Reading(_completed(first, parameters), n_reads, unfinished)
        keep(reading)
    return reading


def _not_converged(n_reads: int, change: float, tol: float) -> str:
    """The warning that more reads are needed."""
    return (
        f"EM has not converged in {counted(n_reads, 'read')} of the rows: the last one changed a parameter "
        f"by {change:.2g} standard deviations, more than tol={tol:g}. Raise max_reads or tol, or "
        f"max_patterns if memory allows: {AS_OPTION}"
    )


def separating(empty: IncompleteStatistics) -> IncompleteStatistics:
    """The state for the first read, which keeps each feature by itself if there are too many patterns.

    So a read of rows with too many patterns still gives the means and variances of the available cases.
    """
    state = empty.copy()
    state._separates = True
    return state


def _of_available(first: IncompleteStatistics, covariance_type: CovarianceType) -> Parameters:
    """The parameters with which EM begins: those of the available cases."""
    for reason in first.reasons.values():
        raise reason()
    kind, classes = kind_named(covariance_type), first.classes
    available = AvailableCases.of(first._states(), len(classes), first.n_features, pooled=kind.is_pooled)
    populations = Population.all_of(available, kind)
    return Parameters(kind, classes, populations, list(map(Normal.standard, populations)))


def _check_together(first: IncompleteStatistics, expected: ExpectedRows) -> None:
    """Raise ValueError if too few rows have both features of a pair."""
    given = expected.given
    for population, together in zip(given.populations, expected.together, strict=True):
        label = None if given.kind.is_pooled else given.classes[population.places[0]].item()
        reason = apart(label, together, 1, first._shown_names())
        if reason is not None:
            raise reason()


def _completed(first: IncompleteStatistics, parameters: Parameters) -> Statistics:
    """Complete statistics with the weights of all rows and these parameters."""
    moments = parameters.moments(*first._total_weights())
    squares = first._labelled.rounded_squares
    statistics = first._plain(Labelled(first.classes, first.counts, moments, squares))
    return statistics._described_as(first)
