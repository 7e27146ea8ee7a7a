"""Accumulation of blocks into moments in place, without a state for each block.

Otherwise a pass over many classes would spend its time on merging tables of all of them. If squares alone are
kept, rows without weights go into sums about anchors (`AnchoredSums`). Other rows are added to the moments in
place.
"""

from __future__ import annotations

import numpy as np

from streamgda.blocks import labels
from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels
from streamgda.kernels import AnchoredSums, Workspace
from streamgda.statistics.covariances import Indices
from streamgda.statistics.floating.moments import Moments, two_sum
from streamgda.statistics.floating.reduction import add_rows, is_anchored
from streamgda.statistics.labelled import Counts, Labelled


class Accumulation:
    """A state to which blocks are added in place.

    It has no fourth moments. Each class has a place in the arrays, in the order of first appearance.
    """

    def __init__(self, state: Labelled[Moments]) -> None:
        """Begin with a state, whose arrays are taken over."""
        self._classes: Labels = state.classes
        self._places: Indices = np.arange(len(state.classes))
        self._counts: Counts = state.counts
        self._moments = state.moments
        self._sums: AnchoredSums | None = None  # of rows whose means and scatter are not in the moments yet

    def add(self, block: Block, workspace: Workspace) -> None:
        """Add the rows of a block, at least one.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a power exceeds float64, or labels are of another kind than those
            before. The accumulation must then not be used.
        """
        places, counts = self._places_of(block.classes), np.bincount(block.codes)
        self._counts[places] += counts
        if len(self._classes) > len(self._moments.weights):
            self._make_room(block.n_features)
        moments = self._moments
        if not is_anchored(block, moments.kind) and (self._sums is None or block.weights is not None):
            self._end_sums()
            add_rows(moments, places, block, workspace)
            return
        if self._sums is None:
            self._sums = AnchoredSums(moments.weights, moments.means, moments.low_means, moments.scatter)
        weights, rest = two_sum(moments.weights[places], counts.astype(np.float64))
        rest += moments.low_weights[places]
        moments.weights[places], moments.low_weights[places] = two_sum(weights, rest)
        if not self._sums.add(block.features, places.astype(np.int32)[block.codes]):
            block.raise_for_values()

    def state(self) -> Labelled[Moments]:
        """The state of all the rows. No block can be added after this call.

        Raises
        ------
        ValueError
            If a sum of squares exceeds float64.
        """
        self._end_sums()
        kept, moments = self._places, self._moments
        if not np.array_equal(kept, np.arange(len(moments.weights))):  # one array after the other
            moments.weights, moments.low_weights = moments.weights[kept], moments.low_weights[kept]
            moments.means = moments.means[kept]
            moments.low_means = moments.low_means[kept]
            moments.scatter = moments.kind.take(moments.scatter, kept)
        return Labelled(self._classes, self._counts[kept], moments)

    def _places_of(self, classes: Labels) -> Indices:
        """Where the classes are in the arrays; new ones get the next places."""
        union = labels.union(self._classes, classes)
        if len(union) > len(self._classes):
            places = np.empty(len(union), dtype=np.intp)
            known = np.searchsorted(union, self._classes)
            places[np.delete(np.arange(len(union)), known)] = np.arange(len(known), len(union))
            places[known] = self._places
            self._classes, self._places = union, places
            self._counts = np.concatenate([self._counts, np.zeros(len(union) - len(known), np.int64)])
        found: Indices = self._places[np.searchsorted(self._classes, classes)]
        return found

    def _make_room(self, n_features: int) -> None:
        """Make the arrays large enough for all classes. Parts that are not used yet take no memory."""
        self._end_sums()
        moments, n_before = self._moments, len(self._moments.weights)
        self._moments = moments.zeros_like(max(len(self._classes), 2 * n_before), n_features)
        if n_before:
            self._moments.put(slice(0, n_before), moments)

    def _end_sums(self) -> None:
        """Merge the anchored sums into the moments."""
        if self._sums is not None:
            self._sums.end()
            self._sums = None
            if not np.isfinite(self._moments.scatter).all():
                raise ValueError(
                    "the features are too large: their squares exceed float64. Rescale them first"
                )
