"""States of the same kind add up, and are taken out of one another."""

from __future__ import annotations

from typing import Any, Self

from streamgda.statistics.revisions import Added
from streamgda.statistics.stateful import Stateful
from streamgda.statistics.validation import check_same_names


class Additive(Stateful):
    """A state to which others are added: in place with `merge`, as numbers with ``+``, ``-`` and ``sum``."""

    def merge(self, other: Any) -> Self:
        """Add the rows of another state of the same kind, in place. The other is left as it is.

        Raises
        ------
        ValueError
            If one is exact and the other floating, or the two differ in covariance type, fourth moments,
            features or kind of label. This state is then as it was.
        TypeError
            If the other is no state.
        """
        if not isinstance(other, Additive):
            name = type(self).__name__
            raise TypeError(f"only {name} merge with {name}; got {type(other).__name__}")
        return self._merge(other.copy() if other is self else other)

    def _merge(self, other: Additive, *, owned: bool = False) -> Self:
        """Merge another state, whose arrays may become part of this one if nothing else holds them."""
        with self._lock:
            self._check_compatible(other)
            self._labelled.merge(other._labelled, owned=owned)
            revision = self._revision.followed_by(Added(other._labelled.classes, other._revision.rows))
            self._set_labelled(self._labelled)
            self._revision = revision
            self._n_dropped += other.n_dropped
            self._names = self._names or other._names
        return self

    def _check_compatible(self, other: Additive) -> None:
        if self.exact != other.exact:
            raise ValueError(
                "exact and floating statistics do not merge, for the sum would not be exact; turn the exact "
                "ones into floating ones first with to_float()"
            )
        if other.keeps_patterns and not self.keeps_patterns:
            raise ValueError(
                f"{other!r} keeps patterns of missing features, and does not merge into {self!r}; make such "
                "statistics of that first with IncompleteStatistics.from_statistics"
            )
        check_same_names(self._names, other._names)
        self._labelled.check_compatible(other._labelled)

    def __add__(self, other: object) -> Self:
        if not isinstance(other, Additive) or (other.keeps_patterns and not self.keeps_patterns):
            return NotImplemented
        return self.copy().merge(other)

    def __radd__(self, other: object) -> Self:
        """0 + state, which is how ``sum(states)`` begins."""
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __iadd__(self, other: object) -> Self:
        return self.merge(other) if isinstance(other, Additive) else NotImplemented

    def __sub__(self, other: object) -> Self:
        """The state without the rows of another, which must all have gone into this one.

        Of exact states, the result has the same bits as if these rows had never gone in; of floating ones, it
        is the state of the remaining rows up to rounding. A class of which no row remains is gone. No
        variance is ever negative.

        Raises
        ------
        ValueError
            If the other state has a class that this one has not, more rows or weight of a class, or
            more scatter than this one's rows can hold.
        """
        if not isinstance(other, Additive):
            return NotImplemented
        self._check_compatible(other)
        if other.n_dropped > self.n_dropped:
            raise ValueError(f"cannot take back {other.n_dropped} dropped rows from {self.n_dropped}")
        rest = self._twin(self._labelled.subtract(other._labelled))
        rest._n_dropped -= other.n_dropped
        return rest
