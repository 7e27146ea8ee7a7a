"""Folds of rows for cross-validation, by the place of a row in its data or by a column.

Without a column, the fold of a row is a hash of its file and of its number in the file. It depends neither on
how the rows are cut into blocks and tasks nor on the rows of other files. So rows keep their folds when files
are added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.block import Block
from streamgda.blocks.labels import Codes, Labels

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


@dataclass(frozen=True)
class FoldRule:
    """The rule that gives each row its fold.

    Attributes
    ----------
    n_folds : int or None
        The number of folds, numbered from 0, to which rows or groups of rows are hashed. None if a column
        names the folds.
    column : str or None
        The column of groups, or of folds; None if the fold depends on the place of the row alone.
    """

    n_folds: int | None
    column: str | None = None

    def split(self, block: Block) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Yield each fold that occurs in a block, with the positions of its rows."""
        folds, codes = self.assign(block)
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(folds) + 1))
        for k, fold in enumerate(folds.tolist()):
            if bounds[k] < bounds[k + 1]:
                yield fold, order[bounds[k] : bounds[k + 1]]

    def assign(self, block: Block) -> tuple[Labels, Codes]:
        """The folds, sorted, and the position of each row's fold among them."""
        if self.column is None:
            assert self.n_folds is not None
            numbers = block.row_name.numbers(len(block.codes))
            return np.arange(self.n_folds), folds_of_rows(numbers, self.n_folds, block.row_name.dataset)
        assert block.groups is not None
        labels, codes = block.groups
        if self.n_folds is None:
            return labels, codes
        return np.arange(self.n_folds), folds_of_groups(labels, self.n_folds)[codes]


def folds_of_rows(numbers: NDArray[np.int64], n_folds: int, dataset: str = "") -> NDArray[np.uint16]:
    """The fold of each row, from its number in a file of a dataset."""
    hashed = mixed(numbers.astype(np.uint64), _hash_of(dataset))
    return (hashed % np.uint64(n_folds)).astype(np.uint16)


def mixed(numbers: NDArray[np.uint64], start: int = 0) -> NDArray[np.uint64]:
    """A hash of each number, by the finaliser of a generator that begins at `start`.

    References
    ----------
    Steele, Lea & Flood (2014), "Fast splittable pseudorandom number generators": SplitMix64.
    """
    hashed = numbers * _GOLDEN
    hashed += np.uint64(start)
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        hashed ^= hashed >> shift
        hashed *= multiplier
    hashed ^= hashed >> _SHIFTS[2]
    return hashed


def folds_of_groups(labels: Labels, n_folds: int) -> NDArray[np.uint16]:
    """The fold of each group, from its label."""
    return np.array([_hash_of(str(label)) % n_folds for label in labels.tolist()], dtype=np.uint16)


def _hash_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
