"""Statistics with a sample of the rows of each class, from which centres of subclasses are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import Block, mixed
from streamgda.statistics.base import BesideStatistics, Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.locking import Locked, both_locked

_HALF = np.uint64(32)
_HASHES = 2.0**64
_LEAST_WEIGHT = 2.0**-900  # so that no key exceeds float64


class Sample(NamedTuple):
    """Different rows of a class, in the order of their keys.

    Each occurrence of a row has the weight `each`, or 1 if it is more, and all have `weights` together.
    """

    keys: Array
    rows: Array
    each: Array
    weights: Array

    def joined(self, other: Sample, most: int) -> Sample:
        """The rows of both that have the lowest keys. The weight of a row is the sum of both."""
        keys, first, places = np.unique(
            np.concatenate([self.keys, other.keys]), return_index=True, return_inverse=True
        )
        weights: Array = np.bincount(places, np.concatenate([self.weights, other.weights])).astype(np.float64)
        rows, each = (np.concatenate(both)[first] for both in zip(self[1:3], other[1:3], strict=True))
        return Sample(keys, rows, each, weights).first(most)

    def first(self, n: int) -> Sample:
        """The first rows."""
        return Sample(*(part[:n] for part in self))

    def weights_for_all(self, last: float | None) -> Array:
        """The weights with which the sample stands for all rows, if it holds those with keys up to `last`.

        Up to a factor that all rows share; `weights` if `last` is None, as the sample then holds all rows.
        """
        if last is None:
            return self.weights
        least = _HASHES / last  # lighter rows are in the sample with a probability of each / least
        return self.weights / self.each * (np.maximum(self.each, least) / max(least, 1.0))


class SampledStatistics(BesideStatistics, Locked):
    """Statistics of labelled rows, and of each class the complete rows of the lowest keys.

    The key of a row is a hash of its values. If its weight is below 1, the hash is of its values and weight,
    and divided by the weight, so that rows that weigh nothing take no place. Which rows these are depends on
    the set of rows alone: not on their order, their files or their number, as a row that occurs twice is one
    of double weight. Each new row can only remove others from the sample. So a row of the final sample never
    left it, and its weight is that of all its occurrences.

    Parameters
    ----------
    empty : Statistics
        The state that has seen no rows.
    most : int
        How many different rows of each class are kept.

    References
    ----------
    Cohen & Kaplan (2007), "Summarizing data using bottom-k sketches", PODC; Duffield, Lund & Thorup (2007),
    "Priority sampling for estimation of arbitrary subset sums", Journal of the ACM 54.
    """

    def __init__(self, empty: Statistics, most: int) -> None:
        self.empty, self.most = empty, most
        self.statistics = empty.copy()
        self.samples: dict[Any, Sample] = {}

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        with self.lock:
            samples = sum(part.nbytes for own in self.samples.values() for part in own)
            return self.statistics.nbytes + samples

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks."""
        added = type(self)(self.empty, self.most)
        added.statistics.update_blocks(added._drawn(blocks), workspace)
        self.merge(added)

    def _drawn(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks, of which rows may come into the sample."""
        for block in blocks:
            if len(block.codes):
                self._draw(self._kept_of(block))
            yield block
            del block  # or it would be held while the next one is fetched

    def _kept_of(self, block: Block) -> Block:
        """The rows of a block, with what the sample keeps of them."""
        return block.of_numbers()

    def _draw(self, block: Block) -> None:
        labels, weights = block.classes.tolist(), block.row_weights
        each = np.clip(weights, _LEAST_WEIGHT, 1.0)
        hashes, is_light = keys_of(block), each < 1
        hashes[is_light] = mixed(hashes[is_light] ^ each[is_light].view(np.uint64))
        keys = hashes / each
        last = np.array([self._last_key(label) for label in labels])
        chosen = np.flatnonzero(keys <= last[block.codes])
        rows = block.take(chosen).matrix(0, len(chosen))
        complete = np.isfinite(rows).all(axis=1)
        codes, each, weights = block.codes[chosen], each[chosen], weights[chosen]
        for code in np.unique(codes).tolist():
            some = np.flatnonzero((codes == code) & complete)
            self._add(labels[code], Sample(keys[chosen[some]], rows[some], each[some], weights[some]))

    def _last_key(self, label: Any) -> float:
        """The largest key that a row of a class may have to come into the sample."""
        own = self.samples.get(label)
        return float(own.keys[-1]) if own and len(own.keys) == self.most else np.inf

    def _add(self, label: Any, sample: Sample) -> None:
        if len(sample.keys):
            self.samples[label] = self.samples.get(label, sample.first(0)).joined(sample, self.most)

    def merge(self, other: Self) -> Self:
        """Add the rows of another state, in place."""
        with both_locked(self, other):
            total = type(self)(self.empty, self.most)
            total.samples.update(self.samples)
            for label, sample in other.samples.items():
                total._add(label, sample)
            vars(self).update(statistics=self.statistics + other.statistics, samples=total.samples)
        return self

    def copy(self) -> Self:
        """A state of the same rows that does not change with this one."""
        return type(self)(self.empty, self.most).merge(self)

    def __add__(self, other: Self) -> Self:
        return self.copy().merge(other)

    def __iadd__(self, other: Self) -> Self:
        return self.merge(other)


def keys_of(block: Block) -> NDArray[np.uint64]:
    """A hash of the values of each row: (n,).

    References
    ----------
    Lemire & Kaser (2014), "Strongly universal string hashing is fast", for the sum of products; the rest is
    that of SplitMix64.
    """
    keys = np.zeros(len(block.codes), dtype=np.uint64)
    columns = block.features.T if isinstance(block.features, np.ndarray) else block.features
    for factor, column in zip(mixed(np.arange(1, len(columns) + 1, dtype=np.uint64)), columns, strict=True):
        bits = (column.astype(np.float64, copy=False) + 0.0).view(np.uint64)  # zero has one sign
        bits ^= bits >> _HALF  # the low bits of small integers are zero
        bits *= factor | np.uint64(1)
        keys += bits
    return mixed(keys)
