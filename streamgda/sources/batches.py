"""Arrow record batches, cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamgda.blocks import Block, Column, RowName, cut_into_blocks, without_missing
from streamgda.labels import Codes, Labels
from streamgda.sources import columns
from streamgda.sources.roles import Roles

_NO_CONSTANTS: Mapping[str, Any] = MappingProxyType({})


def blocks_of_batch(
    batch: pa.RecordBatch,
    roles: Roles,
    where: str,
    row_name: RowName,
    constants: Mapping[str, Any] = _NO_CONSTANTS,
) -> Iterator[Block]:
    """Blocks of the rows of a batch.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Columns are taken by name; those without a role are passed over.
    roles : Roles
        What the columns are.
    where : str
        What to call the batch in an error, such as the path of its file.
    row_name : callable
        What to call a row, counted within the batch.
    constants : mapping
        Columns that have one value for the whole batch, such as the keys of its partition.
    """
    if roles.target is None:
        raise ValueError(f"{where}: no target is named; name the column of labels where the data is scanned")
    held = _Columns(batch, constants, where)
    classes, codes, unlabelled = held.labels(roles.target)
    return cut_into_blocks(
        [held.numbers(name) for name in roles.features],
        classes,
        codes,
        unlabelled=unlabelled,
        weights=None if roles.weight is None else held.numbers(roles.weight),
        feature_names=roles.features,
        missing=roles.missing,
        row_name=row_name,
    )


def unlabelled_block(
    batch: pa.RecordBatch,
    roles: Roles,
    kept: Sequence[str],
    where: str,
    row_name: RowName,
    constants: Mapping[str, Any] = _NO_CONSTANTS,
) -> tuple[Block, dict[str, pa.Array]]:
    """The features of a batch as one block in which all rows are of one class, and the columns kept."""
    held = _Columns(batch, constants, where)
    features = [held.numbers(name) for name in roles.features]
    one_class, codes = np.zeros(1, np.int64), np.zeros(batch.num_rows, np.uint8)
    block = Block(features, one_class, codes, feature_names=roles.features, row_name=row_name)
    return without_missing(block, {name: held.arrow(name) for name in kept}, roles.missing)


class _Columns:
    """The columns of a batch and the constants beside it, by name."""

    def __init__(self, batch: pa.RecordBatch, constants: Mapping[str, Any], where: str) -> None:
        self._held = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._constants = constants
        self._n_rows = batch.num_rows
        self._where = where

    def labels(self, name: str) -> tuple[Labels, Codes, NDArray[np.bool_] | None]:
        column = self._held.get(name)
        if column is None:
            column = pa.array([self._constants[name]]).take(pa.array(np.zeros(self._n_rows, np.int8)))
        try:
            return columns.codes(column)
        except ValueError as error:
            raise ValueError(f"{self._where}: target {name!r}: {error}") from error

    def arrow(self, name: str) -> pa.Array:
        column = self._held.get(name)
        if column is not None:
            return column
        if name not in self._constants:
            raise ValueError(f"{self._where}: there is no column {name!r}, which is to be kept")
        return pa.repeat(pa.scalar(self._constants[name]), self._n_rows)

    def numbers(self, name: str) -> Column:
        column = self._held.get(name)
        if column is not None:
            return columns.numbers(column)
        value = self._constants[name]
        try:
            return np.full(self._n_rows, np.nan if value is None else float(value))
        except ValueError as error:
            raise ValueError(f"{self._where}: partition key {name}={value!r} is not a number") from error
