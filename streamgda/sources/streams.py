"""Streams of Arrow record batches, from whatever library makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Self

import pyarrow as pa

from streamgda.blocks.block import Block
from streamgda.sources.arrow_source import ArrowSource
from streamgda.sources.base import Split
from streamgda.sources.batches import blocks_of_batches
from streamgda.sources.errors import decoding
from streamgda.sources.roles import Roles

_ORIGIN = "the stream"

_BROKEN = "its maker has failed or it is damaged"

Open = Callable[[list[str]], pa.RecordBatchReader]


@dataclass(frozen=True)
class Stream:
    """Data that can be read from its beginning as often as wanted.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of all its columns.
    open : callable
        Begins to read the columns that are named, and perhaps others.
    """

    schema: pa.Schema
    open: Open

    @classmethod
    def of(cls, data: Any) -> Self | None:
        """The stream that data of another library makes; None, if it makes none."""
        if hasattr(data, "collect_batches"):
            return cls(_schema_of_lazy_frame(data), partial(_read_lazy_frame, data))
        if hasattr(data, "to_reader") and hasattr(data, "projected_schema"):
            return cls(data.projected_schema, lambda names: data.to_reader())
        if hasattr(data, "scanner"):
            return cls(data.schema, lambda names: data.scanner(columns=names).to_reader())
        if hasattr(data, "__arrow_c_stream__"):
            from_stream = pa.RecordBatchReader.from_stream
            return cls(from_stream(data).schema, lambda names: from_stream(data))
        return None


def _schema_of_lazy_frame(frame: Any) -> pa.Schema:
    return frame.head(0).collect().to_arrow().schema


def _read_lazy_frame(frame: Any, names: list[str]) -> pa.RecordBatchReader:
    """Batches of a Polars LazyFrame as its engine makes them."""
    frame = frame.select(names)
    schema = _schema_of_lazy_frame(frame)
    batches = (
        batch for part in frame.collect_batches() for batch in part.to_arrow().cast(schema).to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


class StreamSource(ArrowSource[Stream]):
    """A stream that can be started again."""

    is_local = True

    def splits(self) -> list[StreamSplit]:
        """One: a stream has an order and no parts."""
        return [StreamSplit(self._data.open, self._roles)]


class ReaderSource(ArrowSource[pa.RecordBatchReader]):
    """A stream that can be read once."""

    is_local = True
    is_one_shot = True

    def __init__(self, data: pa.RecordBatchReader, roles: Roles) -> None:
        super().__init__(data, roles)
        self._unread = iter([data])  # shared by all that are made of this source

    def splits(self) -> list[StreamSplit]:
        """One, once.

        Raises
        ------
        ValueError
            The second time.
        """
        reader = next(self._unread, None)
        if reader is None:
            raise ValueError(
                "this stream has been read and is spent: a RecordBatchReader can be read once. Scan a table, "
                "a dataset or what the reader was made from to read it again"
            )
        return [StreamSplit(lambda names: reader, self._roles)]


@dataclass(frozen=True)
class StreamSplit(Split):
    """All of a stream."""

    is_read_once = True

    open: Open
    roles: Roles

    @property
    def n_rows(self) -> None:
        """Unknown until the stream ends."""

    def blocks(self) -> Iterator[Block]:
        """Read the stream in order."""
        return blocks_of_batches(self._batches(), self.roles, _ORIGIN)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        names = list(self.roles.columns)
        with decoding(_ORIGIN, "Arrow", _BROKEN):
            for batch in self.open(names):
                chosen = batch.select(names)
                chosen.validate(
                    full=True
                )  # Arrow trusts its makers: a damaged IPC stream would crash the process
                yield chosen

    def __reduce__(self) -> NoReturn:
        """Refuse to be sent to another process, where the stream is not."""
        raise TypeError(
            "a stream can be read in this process only: use scheduler='threads' or scheduler='synchronous'"
        )
