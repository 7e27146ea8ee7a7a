"""Rules that give rows their class or their features before they are added up.

Rows come with the labels and features that the data give them. A state with a rule divides the rows of a
label further, or maps the rows. The core has no rule of its own: it applies them, compares them in a merge,
and saves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any, ClassVar, Protocol

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.schema import Schema
from streamgda.statistics.registry import RULES


class RowRule(Protocol):
    """A rule by which rows get the class under which they are added up, or their features.

    If products of these rows are formed with a larger relative error than that of float64, it is `rounding`.
    If the labels of some rows have made the rule, ``unseen(block)`` tells which others can judge a model.
    If it maps rows, `columns` are the positions of those features it makes that are columns of the rows.
    """

    saved_as: ClassVar[str]
    """The key of the rule in the metadata of a saved state, and in `registry.RULES`."""

    @property
    def schema(self) -> Schema | None:
        """The features of the rows before the rule maps them; None if it maps none."""

    def assign(self, block: Block) -> Block:
        """The same rows, of other classes or features."""

    def check_same(self, other: Any) -> None:
        """Raise ValueError unless states of the two rules can be added. A rule may be None."""

    def to_document(self) -> dict[str, Any]:
        """Plain values that JSON holds, and `from_document` of the class reads."""


def to_metadata(rule: RowRule | None) -> dict[str, Any]:
    """What a saved state holds of its rule."""
    return {} if rule is None else {rule.saved_as: rule.to_document()}


def rule_in(metadata: Mapping[str, Any]) -> RowRule | None:
    """The rule that a saved state was made by, if there is one; ValueError if it is damaged.

    States that are read together share one rule: it stands in their metadata in place of its document.
    """
    key = next((key for key in RULES if key in metadata), None)
    if key is None:
        return None
    rule, kind = metadata[key], resolve_name(RULES[key])
    made: RowRule = rule if isinstance(rule, kind) else kind.from_document(rule)
    return made


def check_same(ours: RowRule | None, theirs: RowRule | None) -> None:
    """Raise ValueError unless the rows of two states went by the same rule."""
    one, other = (ours, theirs) if ours is not None else (theirs, ours)
    if one is not None:
        one.check_same(other)
