"""Statistics with a sample of all rows, by which the scores of a model are calibrated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.extensions.subclasses.sampled import Sample, SampledStatistics
from streamgda.statistics.covariances import Array


class RowSample(SampledStatistics):
    """Statistics of mapped rows, and the rows of the lowest keys before they are mapped.

    Which rows these are depends on the set of rows alone, as in `SampledStatistics`; here they are the lowest
    of all classes together.

    Parameters
    ----------
    empty : Statistics
        The state that has seen no rows, with the rule `MappedRows`.
    most : int
        How many different rows the sample has.
    """

    weight = 0.0
    """The weight of all rows that the sample was drawn from."""
    _last_of_all = np.inf  # no row of a higher key comes into the sample any more

    def draw(self, blocks: Iterable[Block]) -> None:
        """Take rows of some blocks into the sample alone."""
        for _ in self._drawn(blocks):
            pass

    def detached(self) -> RowSample:
        """The sample alone, without the statistics."""
        alone = RowSample(self.empty, self.most)
        alone.samples, alone.weight = self.lowest(), self.weight
        return alone

    def _kept_of(self, block: Block) -> Block:
        return block.in_schema(self.empty.schema_of_rows)

    def _draw(self, block: Block) -> None:
        super()._draw(block)
        self.weight += float(block.row_weights.sum())

    def merge(self, other: Self) -> Self:
        """Add the rows of another state, in place."""
        weight = self.weight + other.weight
        super().merge(other)
        self.weight = weight
        return self

    def _last_key(self, label: Any) -> float:
        return min(super()._last_key(label), self._last_of_all)

    def _add(self, label: Any, sample: Sample) -> None:
        super()._add(label, sample)
        if sum(len(own.keys) for own in self.samples.values()) > 2 * self.most:
            self.samples = self.lowest()
            self._last_of_all = max(float(own.keys[-1]) for own in self.samples.values())

    def lowest(self) -> dict[Any, Sample]:
        """The rows of the lowest keys, by class."""
        keys = np.concatenate([np.empty(0), *(own.keys for own in self.samples.values())])
        if len(keys) <= self.most:
            return self.samples
        last = np.partition(keys, self.most - 1)[self.most - 1]
        lowest = {label: own.first(int((own.keys <= last).sum())) for label, own in self.samples.items()}
        return {label: own for label, own in lowest.items() if len(own.keys)}

    def rows(self, classes: Labels) -> tuple[Array, NDArray[np.intp], Array, Array]:
        """Rows (n, d), the places of their labels among these, their weights, and those for all rows."""
        places = {label: k for k, label in enumerate(classes.tolist())}
        samples = sorted((places[label], own) for label, own in self.lowest().items())
        n_rows = sum(len(own.keys) for _, own in samples)
        last = max(float(own.keys[-1]) for _, own in samples) if n_rows >= self.most else None
        codes = np.repeat([k for k, _ in samples], [len(own.keys) for _, own in samples])
        return (
            np.concatenate([own.rows for _, own in samples]),
            codes.astype(np.intp),
            np.concatenate([own.weights for _, own in samples]),
            np.concatenate([own.weights_for_all(last) for _, own in samples]),
        )
