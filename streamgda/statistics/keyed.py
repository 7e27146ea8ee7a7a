"""States by key, which add up key by key: those of the rows of each pattern, or of each fold."""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar


class Mergeable(Protocol):
    """A state to which others are added."""

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""

    def copy(self) -> Self:
        """A state that does not change with this one."""

    def merge(self, other: Any) -> object:
        """Add the rows of another state, in place."""


K = TypeVar("K")
S = TypeVar("S", bound=Mergeable)


class Keyed(dict[K, S]):
    """A dictionary of states. A key that has no rows has no state."""

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of the states."""
        return sum(state.nbytes for state in self.values())

    def add(self, key: K, state: S, *, owned: bool = False) -> None:
        """Add the rows of a state to those of a key, in place. One that is `owned` may be held itself."""
        if key in self:
            self[key].merge(state)
        else:
            self[key] = state if owned else state.copy()
