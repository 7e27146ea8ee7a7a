"""A state with noise, and the record of how private it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Never, Self

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.schema import Schema
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.rules import RowRule


@dataclass(frozen=True)
class Privacy:
    """How private a state is, and what was said of its rows to make it so.

    Attributes
    ----------
    epsilon, delta : float
        The privacy of the release: of two tables of which one has one row more, no event is more than e^ε
        times as probable for one as for the other, but for a probability of δ.
    clip : float
        The largest norm of a row whose features are scaled to [−1, 1].
    bounds : tuple of pairs of float
        The public range of each feature that was read.
    mechanism : str
        What made the noise.
    left_out : tuple
        Announced classes of too few rows to be told from the noise.
    """

    epsilon: float
    delta: float
    clip: float
    bounds: tuple[tuple[float, float], ...]
    mechanism: str
    left_out: tuple[Any, ...] = ()
    saved_as: ClassVar[str] = "privacy"
    schema: ClassVar[Schema | None] = None

    def assign(self, block: Block) -> Never:
        """Raise TypeError: rows would go in without noise."""
        raise TypeError("such rows would not be private; merge the state with private_statistics of them")

    def check_same(self, other: Any) -> None:
        """Raise TypeError unless the other state is private too."""
        if not isinstance(other, Privacy):
            raise TypeError(
                "a private state merges with private ones alone: the sum with another would tell the rows of "
                "that one. Make private_statistics of them too"
            )

    def joined(self, other: Privacy, join: Any, classes: Sequence[Any]) -> Privacy:
        """The record of a merged state of these classes."""
        both = self, other
        pairs = zip(self.bounds, other.bounds, strict=False)
        left_out = dict.fromkeys(label for one in both for label in one.left_out if label not in classes)
        return Privacy(
            join([one.epsilon for one in both]),
            join([one.delta for one in both]),
            max(one.clip for one in both),
            tuple((min(a, c), max(b, d)) for (a, b), (c, d) in pairs) or self.bounds or other.bounds,
            "; ".join(dict.fromkeys(one.mechanism for one in both if one.mechanism)),
            tuple(left_out),
        )

    def to_document(self) -> dict[str, Any]:
        """Plain values that JSON holds."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The record that `to_document` wrote."""
        bounds = tuple((float(low), float(high)) for low, high in document["bounds"])
        return cls(**{**document, "bounds": bounds, "left_out": tuple(document["left_out"])})


class PrivateClassStatistics(ClassStatistics):
    """Statistics with noise, which may be shared where their rows may not; see `private_statistics`.

    They are `ClassStatistics` for models and everything else. Rows cannot be added to them or taken from
    them, since that would not be private; private states merge. Counts are rounded noisy ones.

    Attributes
    ----------
    privacy : Privacy
        How private they are.
    """

    privacy = Privacy(0.0, 0.0, 0.0, (), "")  # of no rows

    @property
    def rule(self) -> RowRule | None:
        """The record, which refuses rows and states that are not private, and is saved as rules are."""
        return self.privacy

    @rule.setter
    def rule(self, rule: Any) -> None:
        if rule is not None:  # derived states have no rule any more, but are as private as before
            self.privacy = rule

    def merge(self, other: Any, *, disjoint: bool = False) -> Self:
        """Add the rows of another private state, in place.

        Parameters
        ----------
        other : PrivateClassStatistics
            The state to add.
        disjoint : bool, default=False
            Whether no person has rows in both. The merged state is then as private as the less private one.
            Otherwise ε and δ add up, as they do for ``+``.

        Raises
        ------
        TypeError
            If the other state is not private.
        ValueError
            As for `ClassStatistics`.
        """
        super().merge(other)
        join = max if disjoint else math.fsum
        self.privacy = self.privacy.joined(other.privacy, join, self.classes.tolist())
        return self

    def __sub__(self, other: object) -> Self:
        raise TypeError("a private state gives no rows back; make private_statistics of those that remain")

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, epsilon={self.privacy.epsilon:g}, delta={self.privacy.delta:g})"
