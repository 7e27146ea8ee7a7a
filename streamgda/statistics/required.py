"""What statistics keep of the rows, as one object.

A model or a user asks for it. Passes, ledgers, checkpoints and searches hand it on, and only states and the
models of them look into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from streamgda.statistics.covariances import CovarianceType


@dataclass(frozen=True)
class Extra:
    """What statistics can keep besides the usual moments, or another sort of statistics.

    Attributes
    ----------
    in_words : str
        What it is.
    columns : tuple of str
        The columns of a saved table that only such statistics have.
    apart : str
        Why statistics with and without it do not merge, and what to do.
    use : str
        What needs it.
    instead : str
        What to do where it cannot be kept.
    kind : str, optional
        The sort of statistics that has it, in `KINDS` of `registry`, if it is not a floating state.
    moments : str, optional
        Where the moments of a floating state that has it are defined.
    covariance_type : str, optional
        The covariance type beside which alone it is kept.
    """

    in_words: str
    columns: tuple[str, ...]
    apart: str
    use: str = ""
    instead: str = ""
    kind: str | None = None
    moments: str | None = None
    covariance_type: CovarianceType | None = None


EXTRAS = {
    "fourth_moments": Extra(
        "fourth moments",
        ("third_moment", "fourth_moment"),
        (
            "a state with fourth moments and one without cannot be merged; leave them out of the first with "
            "to_covariance_type('full'), or accumulate both with fourth_moments=True"
        ),
        use="which shrinkage='auto' needs",
        instead="set shrinkage='oas' or a number",
        moments="streamgda.statistics.floating.fourth_moments:FourthMoments",
        covariance_type="full",
    ),
    "exact": Extra(
        "exact sums",
        (
            *("weight_digits", "squared_weight_digits", "sum_digits"),
            *("outer_sum_digits", "pooled_outer_sum_digits"),
        ),
        "exact and floating statistics do not merge, for the sum would not be exact; turn the exact ones "
        "into floating ones first with to_float()",
        kind="ExactClassStatistics",
    ),
}
"""By the keyword of `accumulate` that asks for it."""


@dataclass(frozen=True)
class Required:
    """What statistics keep of the rows.

    Attributes
    ----------
    covariance_type : {"full", "tied", "diag"}
        What is kept of the scatter; see `ClassStatistics`.
    extra : frozenset of str
        What else is kept, by its name in `EXTRAS`.
    """

    covariance_type: CovarianceType = "full"
    extra: frozenset[str] = frozenset()

    @classmethod
    def of(cls, covariance_type: CovarianceType, **extra: bool) -> Self:
        """What the keywords of `accumulate` ask for; ValueError if no statistics keep it."""
        required = cls(covariance_type, frozenset(filter(extra.get, extra)))
        for name in required.extra:
            if (only := EXTRAS[name].covariance_type) not in (None, covariance_type):
                raise ValueError(
                    f"{EXTRAS[name].in_words} are kept beside covariance type {only!r} alone, not "
                    f"{covariance_type!r}"
                )
        return required

    @classmethod
    def of_all(cls, needs: Iterable[Self]) -> Self:
        """What each of these can be computed from; ValueError if no statistics keep all of it.

        Examples
        --------
        >>> Required.of_all([Required("tied"), Required("diag")])
        Required(covariance_type='full', extra=frozenset())
        """
        needs = list(needs)
        for name, entry in EXTRAS.items():
            if entry.kind is not None and len({name in needed.extra for needed in needs}) > 1:
                raise ValueError(
                    f"candidates learn from the same sums: set {name}=True for all of them, or for none"
                )
        types = {needed.covariance_type for needed in needs}
        extra = frozenset[str]().union(*(needed.extra for needed in needs))
        return cls(types.pop() if len(types) == 1 else "full", extra)

    def beside_moments(self) -> list[Extra]:
        """What a floating state keeps besides."""
        return [EXTRAS[name] for name in self.extra if EXTRAS[name].moments]

    def keywords(self) -> dict[str, Any]:
        """The keywords of `accumulate` that ask for the same."""
        return {"covariance_type": self.covariance_type, **{name: name in self.extra for name in EXTRAS}}

    def suffices(self, needed: Required) -> bool:
        """Whether what is needed can be computed from these."""
        return self.covariance_type in ("full", needed.covariance_type) and needed.extra <= self.extra

    def in_words(self) -> list[str]:
        """What is kept, each in some words."""
        extra = [EXTRAS[name].in_words for name in EXTRAS if name in self.extra]
        return [f"{self.covariance_type} covariance", *extra]
