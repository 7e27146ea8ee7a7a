"""The state: per class count, weight, mean and scatter, which add up to a whole dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda import labels, moments, tabular
from streamgda.arrays import array_blocks
from streamgda.blocks import Block
from streamgda.covariances import Array, CovarianceType, kind_named
from streamgda.labelled import LabelledMoments
from streamgda.labels import Labels
from streamgda.moments import Workspace
from streamgda.protocol import Statistics
from streamgda.saving import SavedAsTable


class ClassStatistics(SavedAsTable):
    """Sufficient statistics of labelled rows under Gaussian class densities.

    The statistics of two sets of rows merge into the statistics of their union, so those of a
    dataset of any size come from one pass over its parts, in any order. They hold no divisor,
    prior or smoothing: all of that belongs to the model made from them.

    Labels are integers, strings or bools, and may appear at any time. A sample weight of w counts
    as w repetitions of the row; a row of weight zero is no row at all.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag"}, default="full"
        What is kept of the scatter within the classes: a matrix for each class, one matrix pooled
        over the classes, or the variance of each feature in each class.
    feature_names : sequence of str, optional
        The names of the features. Later batches that carry names must carry these, in this order.
    fourth_moments : bool, default=False
        Whether to keep `third_moments` and `fourth_moments` too, which ``shrinkage="auto"`` is worked
        out from. They triple the size of the state, and need "full". Deviations must then lie between
        about 1e-75 and 1e75, so that their fourth powers are numbers.

    References
    ----------
    Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance", eq. 2.1;
    Schubert & Gertz (2018), "Numerically stable parallel computation of (co-)variance", eq. 22;
    Pébay (2008), "Formulas for robust, one-pass parallel computation of covariances and
    arbitrary-order statistical moments", SAND2008-6212.

    Examples
    --------
    >>> from streamgda import ClassStatistics
    >>> morning = ClassStatistics().update([[1.0, 2.0], [3.0, 5.0]], ["a", "a"])
    >>> evening = ClassStatistics().update([[5.0, 5.0], [0.0, 1.0]], ["a", "b"])
    >>> day = morning + evening
    >>> day
    ClassStatistics(covariance_type='full', classes=2, features=2, rows=4)
    >>> day.means
    array([[3., 4.],
           [0., 1.]])
    >>> day.covariance()[0]
    array([[2.66666667, 2.        ],
           [2.        , 2.        ]])
    """

    exact: ClassVar[bool] = False

    def __init__(
        self,
        covariance_type: CovarianceType = "full",
        *,
        feature_names: Sequence[str] | None = None,
        fourth_moments: bool = False,
    ) -> None:
        check_fourth_moments(covariance_type, fourth_moments)
        self._names = None if feature_names is None else tuple(feature_names)
        self._n_dropped = 0
        self._revision = object()
        self._held = LabelledMoments.empty(
            kind_named(covariance_type), len(self._names or ()), fourth=fourth_moments
        )

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
    def weights(self) -> Array:
        """Sum of the sample weights of each class; shape (n_classes,)."""
        return self._held.moments.weights.copy()

    @property
    def means(self) -> Array:
        """Weighted mean of each class; shape (n_classes, n_features)."""
        return self._held.moments.means + self._held.moments.tails

    @property
    def scatter(self) -> Array:
        """Σ w (x − mean)(x − mean)ᵀ within the classes.

        Shape (n_classes, n_features, n_features) for "full", (n_features, n_features) for "tied",
        (n_classes, n_features) for "diag".
        """
        return self._held.moments.scatter.copy()

    @property
    def third_moments(self) -> Array | None:
        """Σ w u_i² u_j with u = x − mean: (n_classes, n_features, n_features); None where not kept."""
        fourth = self._held.moments.fourth
        return None if fourth is None else fourth.third.copy()

    @property
    def has_fourth_moments(self) -> bool:
        """Whether third and fourth moments are kept."""
        return self._held.has_fourth

    @property
    def fourth_moments(self) -> Array | None:
        """Σ w u_i² u_j² with u = x − mean: (n_classes, n_features, n_features); None where not kept."""
        fourth = self._held.moments.fourth
        return None if fourth is None else fourth.fourth.copy()

    @property
    def sums(self) -> Array:
        """Σ w x of each class, for exchange with SQL engines; shape (n_classes, n_features)."""
        weights = self._held.moments.weights[:, None]
        return weights * self._held.moments.means + weights * self._held.moments.tails

    @property
    def outer_sums(self) -> Array:
        """Σ w x xᵀ in the shape of `scatter`, for exchange with SQL engines.

        It loses the digits that `scatter` keeps where means are large beside deviations.
        """
        roots = np.sqrt(self._held.moments.weights)[:, None]
        return self._held.moments.scatter + self._held.kind.outer(roots * self._held.moments.means)

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
        arrays = (self._held.classes, self._held.counts, *self._held.moments.arrays)
        return sum(array.nbytes for array in arrays)

    def covariance(self, ddof: float = 0) -> Array:
        """The covariance within the classes: the scatter over the weight less `ddof`.

        Parameters
        ----------
        ddof : float, default=0
            Subtracted from the weight of each class. 0 gives the maximum-likelihood estimate, 1
            the unbiased one. For "tied", where the scatter is pooled, it counts once per class.

        Returns
        -------
        ndarray
            In the shape of `scatter`.

        Raises
        ------
        ValueError
            If a class (for "tied", the whole) has no more weight than `ddof` takes away.
        """
        freedom = self._held.kind.freedom(self._held.moments.weights, ddof)
        if not (freedom > 0).all():
            raise ValueError(f"a covariance with ddof={ddof} needs more weight than there is in {self!r}")
        return self._held.moments.scatter / freedom

    def overall_mean(self) -> Array:
        """Weighted mean of all rows together; shape (n_features,)."""
        mean, _ = self._between_classes()
        return mean

    def total_variance(self) -> Array:
        """Maximum-likelihood variance of each feature over all rows together; shape (n_features,)."""
        _, between = self._between_classes()
        within = self._held.moments.diagonal.sum(axis=0)
        total: Array = (within + between) / self._held.moments.weights.sum()
        return total

    def _between_classes(self) -> tuple[Array, Array]:
        if not self.n_rows:
            raise ValueError(f"there is no mean of no rows: {self!r}")
        return moments.between_classes(self._held.moments)

    # ------------------------------------------------------------------ rows go in

    def update(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add labelled rows, in place.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers of any real type. A data frame's column names become the feature names.
        y : array-like of shape (n_rows,)
            One integer, string or bool label per row. New ones may appear at any time.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row, whole or not.

        Returns
        -------
        ClassStatistics
            This object.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a label is missing, a weight is negative, or the features
            are not those of the state. The state is then as it was.
        """
        self.update_blocks(array_blocks(X, y, sample_weight))
        return self

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks: of all, or, where one is refused, of none."""
        workspace = workspace or Workspace()
        parts = map(
            partial(self._of_block, workspace=workspace), blocks
        )  # holds no block while it fetches one
        together = next(parts, None)
        if together is not None:
            for part in parts:
                together.merge(part)
            self.merge(together)

    def _of_block(self, block: Block, workspace: Workspace) -> ClassStatistics:
        part = ClassStatistics(self.covariance_type, feature_names=block.feature_names)
        part._n_dropped = block.n_dropped
        held = self._held
        part._held = LabelledMoments.of_block(block, held.kind, workspace, fourth=held.has_fourth)
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
        """Statistics from the raw sums that an SQL engine can give.

        The scatter is then a difference, Σ w x xᵀ − Σ w x (Σ w x)ᵀ / Σ w, and no better than the
        sums: where a mean is m deviations large, m² × 10⁻¹⁶ of it is rounding.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels, each once, in any order.
        counts : array-like of shape (n_classes,)
            Rows of each class.
        sums : array-like of shape (n_classes, n_features)
            Σ w x.
        outer_sums : array-like
            Σ w x xᵀ, in the shape of `scatter` for this kind of covariance.
        weights : array-like of shape (n_classes,), optional
            Σ w; the counts where not given.
        covariance_type, feature_names
            As for the class.

        Raises
        ------
        ValueError
            If shapes do not agree, a class stands twice or is empty, or a variance would be
            negative by more than rounding.

        Examples
        --------
        >>> s = ClassStatistics.from_sums(["b", "a"], [2, 1], [[4.0], [1.0]], [[[10.0]], [[1.0]]])
        >>> s.classes, s.means.ravel(), s.covariance().ravel()
        (array(['a', 'b'], dtype='<U1'), array([1., 2.]), array([0., 1.]))
        """
        state = cls(covariance_type, feature_names=feature_names)
        state._held = LabelledMoments.from_sums(
            state._held.kind,
            labels.as_labels(classes),
            np.atleast_1d(counts),
            np.atleast_1d(np.asarray(counts if weights is None else weights, dtype=np.float64)),
            np.asarray(sums, dtype=np.float64),
            np.asarray(outer_sums, dtype=np.float64),
        )
        check_names(state.feature_names, state.n_features)
        return state

    @classmethod
    def from_moments(
        cls,
        classes: ArrayLike,
        counts: ArrayLike,
        means: ArrayLike,
        scatter: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        covariance_type: CovarianceType = "full",
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Statistics from means and scatters that something else has worked out.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels, each once, in any order.
        counts : array-like of shape (n_classes,)
            Rows of each class.
        means : array-like of shape (n_classes, n_features)
            Weighted means.
        scatter : array-like
            Σ w (x − mean)(x − mean)ᵀ in the shape of `scatter` for this kind of covariance.
        weights : array-like of shape (n_classes,), optional
            Σ w; the counts where not given.
        covariance_type, feature_names
            As for the class.

        Raises
        ------
        ValueError
            If shapes do not agree, a class stands twice or is empty, or a variance is negative.

        Examples
        --------
        >>> ClassStatistics.from_moments(["a"], [4], [[1.0]], [[[8.0]]]).covariance()
        array([[[2.]]])
        """
        state = cls(covariance_type, feature_names=feature_names)
        state._held = LabelledMoments.from_moments(
            state._held.kind,
            labels.as_labels(classes),
            np.atleast_1d(counts),
            np.atleast_1d(np.asarray(counts if weights is None else weights, dtype=np.float64)),
            np.asarray(means, dtype=np.float64),
            np.asarray(scatter, dtype=np.float64),
        )
        check_names(state.feature_names, state.n_features)
        return state

    # ------------------------------------------------------------------ states are saved

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that is held: arrays with a row for each class, and, as plain values, what goes with them."""
        kind = self._held.kind
        metadata = {
            "kind": "ClassStatistics",
            "covariance_type": kind.name,
            "n_features": self.n_features,
            "feature_names": self._names,
            "n_dropped": self._n_dropped,
            "definite": kind.is_semidefinite(self._held.moments.scatter),
        }
        return tabular.to_columns(self._held), metadata

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
        state._held = tabular.from_columns(state._held.kind, columns, n_features)
        check_names(state.feature_names, n_features)
        scatter = state._held.moments.scatter
        if metadata["definite"] and state.n_rows and not state._held.kind.is_semidefinite(scatter):
            raise ValueError("a scatter is not positive semidefinite: no rows have it")
        return state

    # ------------------------------------------------------------------ states add up

    def merge(self, other: ClassStatistics) -> Self:
        """Add the rows of another state, in place. The other is left as it is.

        Returns
        -------
        ClassStatistics
            This object.

        Raises
        ------
        ValueError
            If the two differ in covariance type, fourth moments, features or kind of label. This state
            is then as it was.
        """
        refuse_other_precision(self, other)
        if not isinstance(other, ClassStatistics):
            raise TypeError(f"only ClassStatistics merge with ClassStatistics; got {type(other).__name__}")
        check_compatible(self, other)
        self._held.absorb(other._held.copy() if other is self else other._held)
        self._n_dropped += other.n_dropped
        self._names = self._names or other._names
        self._revision = object()
        return self

    def __add__(self, other: object) -> ClassStatistics:
        if not isinstance(other, ClassStatistics):
            return NotImplemented
        return self.copy().merge(other)

    def __radd__(self, other: object) -> ClassStatistics:
        """0 + state, which is how ``sum(states)`` begins."""
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __iadd__(self, other: object) -> Self:
        if not isinstance(other, ClassStatistics):
            return NotImplemented
        return self.merge(other)

    def __sub__(self, other: object) -> ClassStatistics:
        """The state without the rows of another, which must all have gone into this one.

        Equal to the state of the remaining rows up to rounding. A class of which no row remains is
        gone. No variance is ever negative.

        Raises
        ------
        ValueError
            If the other state has a class that this one has not, more rows or weight of a class, or
            more scatter than this one's rows can hold.
        """
        if not isinstance(other, ClassStatistics):
            return NotImplemented
        check_compatible(self, other)
        if other.n_dropped > self.n_dropped:
            raise ValueError(f"cannot take back {other.n_dropped} dropped rows from {self.n_dropped}")
        rest = self.copy()
        rest._held = self._held.without(other._held)
        rest._n_dropped -= other.n_dropped
        return rest

    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place: means stay, weights and scatter shrink.

        Called before each batch, it forgets exponentially; ``0.5 ** (days / half_life)`` halves the
        influence of a row in so many days. Counts go on counting rows. A class that has decayed to a
        weight below 1e-200 is gone.

        Raises
        ------
        ValueError
            If the factor is not above 0 and at most 1.
        """
        if not 0 < factor <= 1:
            raise ValueError(f"a decay factor is above 0 and at most 1; got {factor!r}")
        self._held.decay(factor)
        self._revision = object()
        return self

    def to_covariance_type(self, covariance_type: CovarianceType, *, fourth_moments: bool = False) -> Self:
        """A copy that keeps no more than another covariance type needs, and fourth moments if asked to.

        Raises
        ------
        ValueError
            If this state holds less than that: "full" gives all the others, and they only themselves.
        """
        check_fourth_moments(covariance_type, fourth_moments)
        return self._twin(self._held.narrowed(kind_named(covariance_type), fourth=fourth_moments))

    def as_one_class(self) -> Self:
        """A copy in which all rows are of the class 0, for what holds of them whatever their class.

        Raises
        ------
        ValueError
            If the classes share one scatter, so that theirs are not known.
        """
        if self.covariance_type == "tied":
            raise ValueError(f"the scatter of each class is needed; {self!r} holds what they share")
        return self._twin(self._held.as_one_class())

    def copy(self) -> Self:
        """A state of its own with the same rows."""
        return self._twin(self._held.copy())

    def _twin(self, held: LabelledMoments) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__, _held=held, _revision=object())
        return twin

    # ------------------------------------------------------------------ states compare

    def allclose(self, other: Statistics, rtol: float = 1e-10) -> bool:
        """Whether two states agree in what they count and, up to rounding, in the rest.

        Parameters
        ----------
        other : ClassStatistics or ExactClassStatistics
            The state to compare with.
        rtol : float, default=1e-10
            Allowed difference: of a weight, relative to it; of a mean, relative to it and to its
            feature's deviation; of a scatter, relative to those of its two features.

        Returns
        -------
        bool

        Raises
        ------
        TypeError
            If the other is no state.
        """
        if not isinstance(other, ClassStatistics):
            if not isinstance(other, SavedAsTable):
                raise TypeError(f"statistics compare with statistics; got {type(other).__name__}")
            return other.allclose(self, rtol)  # exact ones, which know the floating ones of the same rows
        ours, theirs = self._held, other._held
        if self._names and other._names and self._names != other._names:
            return False
        return ours.counts_as(theirs) and moments.close(ours.moments, theirs.moments, rtol)

    def __eq__(self, other: object) -> bool:
        """Whether two states are the same to the last bit."""
        if not isinstance(other, ClassStatistics):
            return NotImplemented
        return (
            (self.feature_names, self.n_dropped) == (other.feature_names, other.n_dropped)
            and self._held.counts_as(other._held)
            and all(map(np.array_equal, self._held.moments.arrays, other._held.moments.arrays))
        )

    def __repr__(self) -> str:
        fourth = "fourth_moments=True, " if self._held.has_fourth else ""
        return (
            f"ClassStatistics(covariance_type={self.covariance_type!r}, {fourth}"
            f"classes={len(self._held.classes)}, features={self.n_features}, rows={self.n_rows})"
        )


def check_fourth_moments(covariance_type: CovarianceType, fourth_moments: bool) -> None:
    """See that fourth moments are asked for only where they can be kept.

    Raises
    ------
    ValueError
        If they are, beside another covariance type than "full".
    """
    if fourth_moments and kind_named(covariance_type) is not kind_named("full"):
        raise ValueError(
            f"fourth moments are kept beside covariance type 'full' alone, not {covariance_type!r}"
        )


def refuse_other_precision(ours: Statistics, theirs: object) -> None:
    """Raise ValueError if one state is exact and the other is not."""
    if getattr(theirs, "exact", ours.exact) != ours.exact:
        raise ValueError(
            "exact and floating statistics do not merge, for the sum would not be exact; turn the exact ones "
            "into floating ones first with to_float()"
        )


def check_compatible(ours: Statistics, theirs: Statistics) -> None:
    """Raise ValueError, naming both sides, if two states cannot be merged."""
    if ours.covariance_type != theirs.covariance_type:
        raise ValueError(
            f"states of covariance types {ours.covariance_type!r} and {theirs.covariance_type!r} cannot be "
            "merged; narrow the richer one first with to_covariance_type"
        )
    if ours.has_fourth_moments != theirs.has_fourth_moments:
        raise ValueError(
            "a state with fourth moments and one without cannot be merged; leave them out of the first with "
            f"to_covariance_type({ours.covariance_type!r}), or accumulate both with fourth_moments=True"
        )
    if ours.n_features and theirs.n_features and ours.n_features != theirs.n_features:
        raise ValueError(f"states of {ours.n_features} and {theirs.n_features} features cannot be merged")
    if ours.feature_names and theirs.feature_names and ours.feature_names != theirs.feature_names:
        pairs = zip(ours.feature_names, theirs.feature_names, strict=True)
        position, (here, there) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
        raise ValueError(
            f"states of different features cannot be merged: feature {position} is {here!r} in one and "
            f"{there!r} in the other"
        )


def check_names(names: tuple[str, ...] | None, n_features: int) -> None:
    """Raise ValueError unless there is a name for each feature."""
    if names is not None and len(names) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} features")
