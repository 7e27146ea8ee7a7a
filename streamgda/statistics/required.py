"""What statistics keep of the rows, as one object.

A model or a user asks for it. Passes, ledgers, checkpoints and searches hand it on, and only states and the
models of them look into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from streamgda.statistics.covariances import CovarianceType


@dataclass(frozen=True)
class Required:
    """What statistics keep of the rows.

    Attributes
    ----------
    covariance_type : {"full", "tied", "diag"}
        What is kept of the scatter; see `ClassStatistics`.
    fourth_moments : bool, default=False
        Whether third and fourth moments are kept, beside "full" alone.
    exact : bool, default=False
        Whether sums are exact.

    Raises
    ------
    ValueError
        If no statistics keep this.
    """

    covariance_type: CovarianceType = "full"
    fourth_moments: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        if self.fourth_moments and self.covariance_type != "full":
            raise ValueError(
                f"fourth moments are kept beside covariance type 'full' alone, not {self.covariance_type!r}"
            )

    @classmethod
    def of_all(cls, needs: Iterable[Self]) -> Self:
        """What each of these can be computed from; ValueError if no statistics keep all of it.

        Examples
        --------
        >>> Required.of_all([Required("tied"), Required("diag")])
        Required(covariance_type='full', fourth_moments=False, exact=False)
        """
        needs = list(needs)
        exact = {needed.exact for needed in needs}
        if len(exact) > 1:
            raise ValueError(
                "candidates learn from the same sums: set exact=True for all of them, or for none"
            )
        types = {needed.covariance_type for needed in needs}
        fourth_moments = any(needed.fourth_moments for needed in needs)
        return cls(types.pop() if len(types) == 1 else "full", fourth_moments, exact == {True})

    def keywords(self) -> dict[str, Any]:
        """The keywords of `accumulate` that ask for the same."""
        return asdict(self)

    def suffices(self, needed: Required) -> bool:
        """Whether what is needed can be computed from these."""
        return (
            self.covariance_type in ("full", needed.covariance_type)
            and self.fourth_moments >= needed.fourth_moments
            and self.exact >= needed.exact
        )

    def in_words(self) -> list[str]:
        """What is kept, each in some words."""
        words = ["fourth moments"] * self.fourth_moments + ["exact sums"] * self.exact
        return [f"{self.covariance_type} covariance", *words]
