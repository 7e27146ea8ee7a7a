"""How rows in which features are missing are learnt: a policy, which the value of a parameter names.

The core refuses such rows. Any other policy is an option, which `streamgda.data.registry.OPTIONS` finds
by its word. All hand it on, and none looks into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, Self, cast

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.options import Option, option_of
from streamgda.data.registry import OPTIONS
from streamgda.statistics.base import Statistics

MissingRows = Literal["raise", "marginal"] | Option

Read = Callable[[Any], Any]
"""Reads all rows, and returns them added to a copy of an empty state."""

Note = Callable[[str], object] | None
Keep = Callable[["Reading"], object] | None


@dataclass(frozen=True)
class Reading:
    """Statistics of rows, and how they were read.

    Attributes
    ----------
    statistics : Statistics
        The statistics.
    n_reads : int
        How often the rows were read.
    unfinished : str
        Why more reads would give other statistics; empty if they would not.
    """

    statistics: Statistics
    n_reads: int = 1
    unfinished: str = ""


class Policy:
    """What becomes of rows in which features are missing: here they are refused."""

    def first(self, empty: Statistics) -> Statistics:
        """The state of no rows that the first read fills."""
        return empty

    def read(
        self, read: Read, empty: Statistics, *, once: bool = False, note: Note = None, keep: Keep = None
    ) -> Reading:
        """Read rows into a state, `once` or as often as need be.

        `note` is called with a line on each read after the first, `keep` with the result so far after each.
        """
        return Reading(read(empty))

    def taking(self, statistics: Statistics) -> Statistics:
        """The state, or one of the same rows that takes all rows that the policy takes."""
        return statistics

    def update(self, statistics: Statistics, blocks: Iterable[Block]) -> Statistics:
        """The statistics with the rows of some blocks; another object if they could not take these."""
        statistics.update_blocks(blocks if statistics.missing == "raise" else map(_complete, blocks))
        return statistics

    def state_of(self, statistics: Statistics, blocks: Iterable[Block]) -> Statistics | None:
        """The rows of some blocks as a state by itself, which is merged into the statistics."""
        return statistics.state_of(blocks if statistics.missing == "raise" else map(_complete, blocks))

    def merged(self, statistics: Statistics, added: Statistics) -> Statistics:
        """The statistics with the rows of others; another object if they could not take these."""
        return (statistics if statistics.absorbs(added) else added.alike(statistics)).merge(added)

    def joined(self, other: Self) -> Self:
        """A policy that suffices for what both learn."""
        return self


def _complete(block: Block) -> Block:
    """The block for statistics that take incomplete rows; ValueError if it has any."""
    if block.lacks_numbers():
        block.raise_for_values()
    return block


def policy_of(missing: MissingRows) -> Policy:
    """The policy that the value of a parameter names.

    Raises
    ------
    ValueError
        If it names none.
    """
    option = Policy() if missing == "raise" else option_of("missing", missing)
    if not hasattr(option, "taking"):
        word, kind = OPTIONS["missing"].word, OPTIONS["missing"].kind.__name__
        raise ValueError(f"missing must be 'raise', {word!r} or a {kind}; got {missing!r:.200}")
    return option


def missing_for_all(wanted: Iterable[MissingRows]) -> MissingRows:
    """The value whose statistics serve all of these; "raise" if one is."""
    values = list(wanted)
    if "raise" in values:
        return "raise"
    return cast("Option", reduce(lambda one, other: one.joined(other), map(policy_of, values)))
