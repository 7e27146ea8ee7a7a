"""Moments that grow in place: blocks are added to them without a state of their own.

A pass over many classes would else spend its time on merging tables of all of them. Here the products of
centred rows are added to the scatter where it stands, and only the classes of a block are touched. The mean
of a class is held as an anchor, the mean of its rows in the block where it first appeared, and the distance
from it. The distance is small where deviations are, so it is as good as a mean to twice the precision.
"""

from __future__ import annotations

import numpy as np

from streamgda.blocks import labels
from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels
from streamgda.statistics.covariances import Array, Indices
from streamgda.statistics.floating.moments import Moments, as_slice, two_sum
from streamgda.statistics.floating.reduction import CentredBlock, centre_block
from streamgda.statistics.gather import Workspace
from streamgda.statistics.labelled import Counts, Labelled

_ELEMENTS_IN_CACHE = 1 << 15


class Accumulation:
    """A state that blocks are added to, in place; afterwards it is a state as any other.

    Classes have a place each in the arrays, in the order in which they appeared.

    Attributes
    ----------
    n_blocks : int
        How many blocks were added.
    """

    def __init__(self, state: Labelled[Moments]) -> None:
        """Begin with a state, whose arrays are taken over; it has no fourth moments."""
        self.n_blocks = 0
        self._classes: Labels = state.classes
        self._places: Indices = np.arange(len(state.classes))
        self._counts: Counts = state.counts
        self._moments = state.sums

    def add(self, block: Block, workspace: Workspace) -> None:
        """Add the rows of a block, at least one.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a power exceeds float64, or labels are of another kind than those
            before. The state is then of no use.
        """
        self.n_blocks += 1
        with np.errstate(over="ignore", invalid="ignore"):
            centred = centre_block(block, workspace, single_apart=True)
            centred.check(block)
            places = self._places_of(block.classes, block.n_features)[centred.classes]
            self._counts[places] += centred.counts
            spread = self._move_means(centred, places)
            kind, scatter = self._moments.kind, self._moments.scatter
            kind.add(scatter, places, centred.rows, centred.bounds, spread)
            self._check_sums(block, places)

    def state(self) -> Labelled[Moments]:
        """The state of all the rows; nothing can be added to it here any more."""
        self._sort()
        moments, step = self._moments, max(1, _ELEMENTS_IN_CACHE // max(1, self._moments.n_features))
        for start in range(0, len(self._classes), step):
            few = slice(start, start + step)
            moments.means[few], moments.tails[few] = two_sum(moments.means[few], moments.tails[few])
        return Labelled(self._classes, self._counts, moments)

    def _sort(self) -> None:
        """Put the classes in the order of their labels, one array after the other."""
        if np.array_equal(self._places, np.arange(len(self._counts))):
            return
        kept, moments = self._places, self._moments
        self._counts = self._counts[kept]
        moments.weights, moments.weight_tails = moments.weights[kept], moments.weight_tails[kept]
        moments.means = moments.means[kept]
        moments.tails = moments.tails[kept]
        moments.scatter = moments.kind.take(moments.scatter, kept)

    def _places_of(self, classes: Labels, n_features: int) -> Indices:
        """Where the classes are in the arrays; new ones get the next places."""
        union = labels.union(self._classes, classes)
        if len(union) > len(self._classes):
            places = np.empty(len(union), dtype=np.intp)
            known = np.searchsorted(union, self._classes)
            places[np.delete(np.arange(len(union)), known)] = np.arange(len(known), len(union))
            places[known] = self._places
            self._classes, self._places = union, places
            self._make_room(len(union), n_features)
        found: Indices = self._places[np.searchsorted(self._classes, classes)]
        return found

    def _make_room(self, n_classes: int, n_features: int) -> None:
        """Let the arrays have at least so many places; what is not used yet takes no memory."""
        n_places = len(self._counts)
        if n_classes <= n_places:
            return
        size = max(n_classes, 2 * n_places)
        counts = np.zeros(size, dtype=np.int64)
        counts[:n_places] = self._counts
        self._counts = counts
        moments = self._moments
        roomier = moments.zeros_like(size, n_features)
        if n_places:
            roomier.put(slice(0, n_places), moments)
        self._moments = roomier

    def _move_means(self, centred: CentredBlock, places: Indices) -> Array:
        """Add weights and means, and return the vectors whose outer products come to the scatter.

        Chan, Golub & LeVeque (1983), eq. 2.1; a few classes at a time, so that they stay in the cache.
        """
        moments = self._moments
        before = moments.weights[places]
        is_new = before == 0
        new = places[is_new]
        moments.means[new], moments.tails[new] = centred.means[is_new], centred.tails[is_new]
        weights, rest = two_sum(before, centred.totals)
        rest += moments.weight_tails[places] + centred.total_tails
        moments.weights[places], moments.weight_tails[places] = two_sum(weights, rest)
        shares = (centred.totals / weights)[:, None]
        spread = centred.means  # in place
        step = max(1, _ELEMENTS_IN_CACHE // max(1, moments.n_features))
        for start in range(0, len(places), step):
            few = slice(start, start + step)
            self._move_few(places[few], spread[few], centred.tails[few], shares[few])
            spread[few] *= np.sqrt(before[few, None] * shares[few])
        return spread

    def _move_few(self, places: Indices, means: Array, tails: Array, shares: Array) -> None:
        """Move the means of some classes, and turn the means of the block into distances from them."""
        moments = self._moments
        distances = moments.tails.take(places, axis=0)
        means -= moments.means.take(places, axis=0)
        means += tails
        means -= distances
        distances += means * shares
        moments.tails[places] = distances

    def _check_sums(self, block: Block, places: Indices) -> None:
        moments = self._moments
        if not np.isfinite(moments.weights[places]).all():
            raise ValueError("the weights are too large: their sum exceeds float64. Rescale them first")
        diagonal = moments.diagonal
        if not np.isfinite(diagonal if moments.kind.is_pooled else diagonal[as_slice(places)]).all():
            block.raise_for_values()
