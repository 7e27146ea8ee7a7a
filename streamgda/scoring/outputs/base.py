"""Where predictions go: what is written, in which parts, and what every kind of output can do."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa

from streamgda.blocks.block import Block
from streamgda.sources.base import ScorableSplit, Source, Split


@dataclass(frozen=True)
class Field:
    """One thing to write for each row.

    Attributes
    ----------
    name : str
        What to call it as a whole.
    columns : tuple of str
        The columns of the tables that it comes in: one, or one for each class.
    type : pyarrow.DataType
        The type of each of these.
    attributes : mapping
        What else there is to say of it, as plain values.
    """

    name: str
    columns: tuple[str, ...]
    type: pa.DataType
    attributes: Mapping[str, Any] = field(default_factory=dict)


def schema_of(fields: Iterable[Field]) -> pa.Schema:
    """The schema of tables of these fields."""
    return pa.schema([(name, field.type) for field in fields for name in field.columns])


@dataclass(frozen=True)
class Part(Split):
    """A part of the input, and what becomes of it: its name, and what it is known by later."""

    split: ScorableSplit
    name: str
    fingerprint: str

    @property
    def n_rows(self) -> int | None:
        """How many rows there are to read."""
        return self.split.n_rows

    def blocks(self) -> Iterator[Block]:
        """Read the rows, in order."""
        return self.split.blocks()


P = TypeVar("P", bound=Part)


class Output(ABC, Generic[P]):
    """A place for predictions, which is written part by part, each wholly or not at all."""

    def feeds(self, source: Source) -> bool:
        """Whether the source reads what is here, or would read what is written here."""
        return False

    @abstractmethod
    def parts(self, splits: Sequence[ScorableSplit], made_by: Any) -> list[P]:
        """The parts to write, in the order of the rows.

        Parameters
        ----------
        splits : sequence of SplitToScore
            The input, in order.
        made_by : object
            What tells this model and what is asked of it from others, as plain values.

        Raises
        ------
        ValueError
            If the rows cannot be written here.
        """

    @abstractmethod
    def prepare(self, parts: Sequence[P]) -> dict[str, int]:
        """Make ready for these parts, and remove what was left unfinished, or made of something else.

        Returns
        -------
        dict of str to int
            The parts that are there already, by name, and the rows of each.

        Raises
        ------
        ValueError
            If something is there that was not written here.
        """

    def checked(self, table: pa.Table) -> pa.Table:
        """Some rows as they can be written here.

        Raises
        ------
        ValueError
            If they cannot be; the message counts rows within the table.
        """
        return table

    @abstractmethod
    def write(self, part: P, tables: Iterable[pa.Table]) -> int:
        """Write the rows of a part, which come in order, and return how many there are."""

    def finish(self, parts: Sequence[P]) -> None:
        """Complete the output, once all the parts are there."""


def fingerprint_of(values: Any) -> str:
    """What plain values and arrays are known by."""
    return hashlib.sha256(json.dumps(values, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
