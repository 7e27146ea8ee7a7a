"""The exact state: the same bits however the rows were cut, ordered, merged or taken back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda import labels, tabular
from streamgda.arrays import array_blocks, refuse_rounding
from streamgda.blocks import Block
from streamgda.covariances import Array, CovarianceType, kind_named
from streamgda.exact_labelled import LabelledSums
from streamgda.exact_rounding import ExactMoments
from streamgda.labelled import LabelledMoments
from streamgda.labels import Labels
from streamgda.moments import Moments, Workspace
from streamgda.saving import SavedAsTable
from streamgda.statistics import ClassStatistics, check_compatible, check_names, refuse_other_precision


class ExactClassStatistics(SavedAsTable):
    """Sufficient statistics of labelled rows whose sums are exact: one multiset of rows, one state.

    The sums Σx and Σxxᵀ are kept as integers on a binary grid, of as many digits as they need. So the
    state of some rows is the same, to the last bit, however they were cut, ordered, merged or distributed;
    and subtraction is the true inverse of addition: rows can be taken out as if they had never been in.
    Means and covariances are the exact ones of the numbers given, each rounded once.

    It has the verbs of `ClassStatistics`, but for `decay`. Features are float64 and narrower floats,
    integers (of 64 bits too, exactly) and bools; sample weights are whole numbers, repetitions of a row.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag"}, default="full"
        What is kept of the products of features: all of them for each class, all of them over all
        classes, or the squares in each class.
    feature_names : sequence of str, optional
        The names of the features. Later batches that carry names must carry these, in this order.

    References
    ----------
    Ozaki, Ogita, Oishi & Rump (2012), "Error-free transformations of matrix multiplication by using fast
    routines of matrix multiplication and its applications"; Demmel & Nguyen (2013), "Fast reproducible
    floating-point summation".

    Examples
    --------
    At an offset of 1e12, neighbouring floats are 1/8192 apart. Of two features that vary by a few of those
    and hardly together, the floating state loses digits of the covariance, the exact one none:

    >>> import numpy as np
    >>> from streamgda import ClassStatistics, ExactClassStatistics
    >>> rows = 1e12 + np.arange(20_000)[:, None] % [7.0, 11.0] / 8192
    >>> labels = np.zeros(len(rows), dtype=int)
    >>> ClassStatistics().update(rows, labels).covariance()[0, 0, 1].item()
    -4.4713541865348...e-12
    >>> exact = ExactClassStatistics().update(rows, labels)
    >>> exact.covariance()[0, 0, 1].item()
    -4.471354186534882e-12
    >>> ExactClassStatistics().update(rows - 1e12, labels).covariance()[0, 0, 1].item()
    -4.471354186534882e-12

    Rows that were in and are taken out again leave no trace:

    >>> backwards = ExactClassStatistics().update(rows[::-1], labels)
    >>> stray = ExactClassStatistics().update([[1e300, -0.1]], [0])
    >>> backwards + stray - stray == exact
    True
    """

    exact: ClassVar[bool] = True

    def __init__(
        self, covariance_type: CovarianceType = "full", *, feature_names: Sequence[str] | None = None
    ) -> None:
        self._names = None if feature_names is None else tuple(feature_names)
        self._n_dropped = 0
        self._take(LabelledSums.empty(kind_named(covariance_type), len(self._names or ())))

    def _take(self, held: LabelledSums) -> None:
        """Hold these from now on, and forget what was read off the last."""
        self._held = held
        self._revision = object()
        self._read: dict[Any, Array] = {}

    # ------------------------------------------------------------------ what is held

    @property
    def covariance_type(self) -> CovarianceType:
        """The kind of scatter that is kept: "full", "tied" or "diag"."""
        return self._held.kind.name

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, where known."""
        return self._names

    @property
    def n_dropped(self) -> int:
        """How many rows were left out because something was missing."""
        return self._n_dropped

    @property
    def revision(self) -> object:
        """An object that is another one whenever the state has changed, to see what is stale by."""
        return self._revision

    @property
    def classes(self) -> Labels:
        """The labels seen, sorted: an int64, str or bool array of shape (n_classes,)."""
        return self._held.classes.copy()

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows seen of each class, whatever their weight; shape (n_classes,)."""
        return self._held.counts.copy()

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return self._held.n_features

    @property
    def n_rows(self) -> int:
        """How many rows went in, whatever their weight."""
        return int(self._held.counts.sum())

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of the state."""
        return self._held.nbytes

    # ------------------------------------------------------------------ what is read off

    @property
    def weights(self) -> Array:
        """Sum of the sample weights of each class, rounded once; shape (n_classes,)."""
        return self._rounded(ExactMoments.weights)

    @property
    def means(self) -> Array:
        """Weighted mean of each class, rounded once; shape (n_classes, n_features)."""
        return self._rounded(ExactMoments.means)

    @property
    def scatter(self) -> Array:
        """Σ w (x − mean)(x − mean)ᵀ within the classes, rounded once; shaped as in `ClassStatistics`."""
        return self._rounded(ExactMoments.scatter)

    @property
    def sums(self) -> Array:
        """Σ w x of each class, rounded once; shape (n_classes, n_features)."""
        return self._rounded(ExactMoments.sums)

    @property
    def outer_sums(self) -> Array:
        """Σ w x xᵀ in the shape of `scatter`, rounded once."""
        return self._rounded(ExactMoments.outer_sums)

    @property
    def has_fourth_moments(self) -> bool:
        """Never: no exact state keeps them."""
        return False

    @property
    def fourth_moments(self) -> None:
        """Nothing: no exact state keeps them."""
        return None

    def covariance(self, ddof: float = 0) -> Array:
        """The covariance within the classes, rounded once; infinite where it exceeds float64.

        Parameters
        ----------
        ddof : float, default=0
            Subtracted from the weight of each class; for "tied", it counts once per class.

        Returns
        -------
        ndarray
            In the shape of `scatter`.

        Raises
        ------
        ValueError
            If a class (for "tied", the whole) has no more weight than `ddof` takes away.
        """
        try:
            return self._rounded(ExactMoments.covariance, ddof)
        except ZeroDivisionError as error:
            raise ValueError(
                f"a covariance with ddof={ddof} needs more weight than there is in {self!r}"
            ) from error

    def overall_mean(self) -> Array:
        """Weighted mean of all rows together, rounded once; shape (n_features,)."""
        self._need_rows()
        return self._rounded(ExactMoments.overall_mean)

    def total_variance(self) -> Array:
        """Maximum-likelihood variance of each feature over all rows, rounded once; shape (n_features,)."""
        self._need_rows()
        return self._rounded(ExactMoments.total_variance)

    def to_float(self) -> ClassStatistics:
        """The floating state of the same rows: means to twice the precision of float64, scatter rounded once.

        Returns
        -------
        ClassStatistics
            Which can decay, and merge with other floating states.
        """
        state = ClassStatistics(self.covariance_type, feature_names=self._names)
        state._n_dropped = self._n_dropped
        held, exact = self._held, ExactMoments(self._held.sums)
        rounded = Moments(held.kind, self.weights, self.means, exact.tails(), self.scatter)
        state._held = LabelledMoments(self.classes, self.counts, rounded)
        return state

    def _rounded(self, view: Callable[..., Array], *arguments: Any) -> Array:
        """What a view of the exact moments gives, worked out once for a state."""
        key = (view.__name__, *arguments)
        if key not in self._read:
            self._read[key] = view(ExactMoments(self._held.sums), *arguments)
        return self._read[key].copy()

    def _need_rows(self) -> None:
        if not self.n_rows:
            raise ValueError(f"there is no mean of no rows: {self!r}")

    # ------------------------------------------------------------------ rows go in

    def update(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add labelled rows, in place.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers of any real type that float64 or 64 bits of integer can hold.
        y : array-like of shape (n_rows,)
            One integer, string or bool label per row. New ones may appear at any time.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row: whole numbers below 2^53.

        Returns
        -------
        ExactClassStatistics
            This object.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a label is missing, a weight is negative or not whole, or the
            features are not those of the state. The state is then as it was.
        """
        refuse_rounding(X)
        self.update_blocks(array_blocks(X, y, sample_weight))
        return self

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks: of all, or, where one is refused, of none."""
        workspace = workspace or Workspace()
        parts = map(partial(self._of_block, workspace=workspace), blocks)
        together = next(parts, None)
        if together is not None:
            for part in parts:
                together.merge(part)
            self.merge(together)

    def _of_block(self, block: Block, workspace: Workspace) -> ExactClassStatistics:
        part = ExactClassStatistics(self.covariance_type, feature_names=block.feature_names)
        part._n_dropped = block.n_dropped
        part._take(LabelledSums.of_block(block, self._held.kind, workspace))
        return part

    @classmethod
    def from_sums(
        cls,
        classes: ArrayLike,
        counts: ArrayLike,
        sums: ArrayLike,
        outer_sums: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        covariance_type: CovarianceType = "full",
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Statistics from raw sums of integers, of any size, such as SQL engines give of integer columns.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels, each once, in any order.
        counts : array-like of shape (n_classes,)
            Rows of each class.
        sums : array-like of int of shape (n_classes, n_features)
            Σ w x.
        outer_sums : array-like of int
            Σ w x xᵀ, in the shape of `scatter` for this kind of covariance.
        weights : array-like of int of shape (n_classes,), optional
            Σ w; the counts where not given.
        covariance_type, feature_names
            As for the class.

        Raises
        ------
        ValueError
            If a sum is no integer (a float may have been rounded), shapes do not agree, a class stands
            twice or is empty, or no rows could have these sums.

        Examples
        --------
        >>> s = ExactClassStatistics.from_sums(["b", "a"], [2, 1], [[4], [1]], [[[10]], [[1]]])
        >>> s == ExactClassStatistics().update([[1], [3], [1]], ["b", "b", "a"])
        True
        """
        state = cls(covariance_type, feature_names=feature_names)
        held = LabelledSums.from_sums(
            state._held.kind,
            labels.as_labels(classes),
            np.atleast_1d(counts),
            np.atleast_1d(counts if weights is None else weights),
            np.asarray(sums, dtype=object),
            np.asarray(outer_sums, dtype=object),
        )
        state._take(held)
        check_names(state.feature_names, state.n_features)
        return state

    # ------------------------------------------------------------------ states add up

    def merge(self, other: ExactClassStatistics) -> Self:
        """Add the rows of another state, in place. The other is left as it is.

        Returns
        -------
        ExactClassStatistics
            This object.

        Raises
        ------
        ValueError
            If the other is floating, or the two differ in covariance type, features or kind of label. This
            state is then as it was.
        """
        refuse_other_precision(self, other)
        if not isinstance(other, ExactClassStatistics):
            raise TypeError(f"only ExactClassStatistics merge here; got {type(other).__name__}")
        check_compatible(self, other)
        self._take(self._held.plus(other._held))
        self._n_dropped += other.n_dropped
        self._names = self._names or other._names
        return self

    def __add__(self, other: object) -> ExactClassStatistics:
        refuse_other_precision(self, other)
        if not isinstance(other, ExactClassStatistics):
            return NotImplemented
        return self.copy().merge(other)

    def __radd__(self, other: object) -> ExactClassStatistics:
        """0 + state, which is how ``sum(states)`` begins."""
        refuse_other_precision(self, other)
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __iadd__(self, other: object) -> Self:
        refuse_other_precision(self, other)
        if not isinstance(other, ExactClassStatistics):
            return NotImplemented
        return self.merge(other)

    def __sub__(self, other: object) -> ExactClassStatistics:
        """The state without the rows of another, which must all have gone into this one.

        The same bits as if they had never been in. A class of which no row remains is gone.

        Raises
        ------
        ValueError
            If the other state has a class that this one has not, more rows or weight of a class, or
            leaves sums that no rows could have: a variance below zero, a correlation above one.
        """
        refuse_other_precision(self, other)
        if not isinstance(other, ExactClassStatistics):
            return NotImplemented
        check_compatible(self, other)
        if other.n_dropped > self.n_dropped:
            raise ValueError(f"cannot take back {other.n_dropped} dropped rows from {self.n_dropped}")
        rest = self.copy()
        left = self._held.minus(other._held)
        rest._take(left if len(left.classes) else LabelledSums.empty(left.kind, len(self._names or ())))
        rest._n_dropped -= other.n_dropped
        return rest

    def __rsub__(self, other: object) -> ExactClassStatistics:
        refuse_other_precision(self, other)
        return NotImplemented

    def decay(self, factor: float) -> Self:
        """Refuse: a decayed weight is no whole number.

        Raises
        ------
        ValueError
            Always, with what can be done instead.
        """
        raise ValueError(
            f"exact statistics cannot decay (by {factor!r}): weights would not be whole. Use "
            "to_float().decay(...), or take rows out by subtracting their statistics"
        )

    def to_covariance_type(self, covariance_type: CovarianceType, *, fourth_moments: bool = False) -> Self:
        """A copy that keeps no more than another covariance type needs.

        Raises
        ------
        ValueError
            If this state holds less than that: "full" gives all the others, and they only themselves; and
            no exact state holds fourth moments.
        """
        if fourth_moments:
            refuse_fourth_moments()
        twin = self.copy()
        twin._take(self._held.narrowed(kind_named(covariance_type)))
        return twin

    def as_one_class(self) -> Self:
        """A copy in which all rows are of the class 0, for what holds of them whatever their class.

        Raises
        ------
        ValueError
            If the classes share one scatter, so that theirs are not known.
        """
        if self.covariance_type == "tied":
            raise ValueError(f"the scatter of each class is needed; {self!r} holds what they share")
        twin = self.copy()
        twin._take(self._held.as_one_class())
        return twin

    def copy(self) -> Self:
        """A state of its own with the same rows."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._take(self._held)
        return twin

    # ------------------------------------------------------------------ states compare

    def allclose(self, other: ExactClassStatistics | ClassStatistics, rtol: float = 1e-10) -> bool:
        """Whether two states agree in what they count and, up to rounding, in the rest.

        Parameters
        ----------
        other : ExactClassStatistics or ClassStatistics
            The state to compare with.
        rtol : float, default=1e-10
            As for `ClassStatistics.allclose`.

        Returns
        -------
        bool
        """
        theirs = other.to_float() if isinstance(other, ExactClassStatistics) else other
        return self.to_float().allclose(theirs, rtol)

    def __eq__(self, other: object) -> bool:
        """Whether two states are of the same rows, as far as sums can tell: the same to the last bit."""
        if not isinstance(other, ExactClassStatistics):
            return NotImplemented
        return (
            self.feature_names == other.feature_names
            and self.n_dropped == other.n_dropped
            and self._held.equals(other._held)
        )

    def __repr__(self) -> str:
        return (
            f"ExactClassStatistics(covariance_type={self.covariance_type!r}, "
            f"classes={len(self._held.classes)}, features={self.n_features}, rows={self.n_rows})"
        )

    # ------------------------------------------------------------------ states travel

    def digest(self) -> str:
        """SHA-256 of all that is held, in hexadecimal: the same for equal states, on any machine."""
        columns, metadata = self.to_columns()
        sha = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
        for name, values in columns.items():
            little = values.astype(values.dtype.newbyteorder("<"))
            sha.update(f"{name} {little.dtype.str} {little.shape}".encode() + little.tobytes())
        return sha.hexdigest()

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that is held, the same for equal states: arrays with a row per class, and what goes with them.

        Returns
        -------
        columns : dict of ndarray
            "label" and "count", of shape (K,), and the digits of the exact sums, int32: "weight_digits",
            "sum_digits" and "outer_sum_digits" of shape (K, n_planes × size), the lowest plane first; for
            "tied" "pooled_outer_sum_digits" of one row. A plane stands for 32 bits.
        metadata : dict
            Plain values: "kind", "covariance_type", "n_features", "feature_names", "n_dropped", and
            "positions", of the lowest plane of each sum in units of 32 bits.
        """
        held = self._held
        columns, positions = held.to_columns()
        metadata = {
            "kind": type(self).__name__,
            "covariance_type": self.covariance_type,
            "n_features": self.n_features,
            "feature_names": self._names,
            "n_dropped": self._n_dropped,
            "positions": positions,
        }
        return columns, metadata

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """The state whose `to_columns` these are.

        Raises
        ------
        ValueError
            If they cannot be those of any rows; the message says why.
        """
        n_features = tabular.natural(metadata["n_features"], "n_features")
        state = cls(metadata["covariance_type"], feature_names=tabular.names(metadata["feature_names"]))
        state._n_dropped = tabular.natural(metadata["n_dropped"], "n_dropped")
        state._take(LabelledSums.from_columns(state._held.kind, n_features, columns, metadata["positions"]))
        check_names(state.feature_names, n_features)
        return state

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickle what is held, and nothing that was read off it."""
        return type(self).from_columns, self.to_columns()


def refuse_fourth_moments() -> Never:
    """Raise the ValueError that says what to use instead of fourth moments."""
    raise ValueError(
        "exact statistics keep no fourth moments, which shrinkage='auto' needs; use shrinkage='oas', a "
        "number, or exact=False"
    )
