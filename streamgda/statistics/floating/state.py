"""`ClassStatistics`: the count, weight, mean and scatter of each class, in float64."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.block import Block
from streamgda.data.blocks.schema import MadeColumns
from streamgda.data.blocks.wording import callers_level, named
from streamgda.data.storage.documents import TableColumns
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceKind, CovarianceType, kind_named
from streamgda.statistics.floating import moment_columns
from streamgda.statistics.floating.fourth_moments import FourthMoments
from streamgda.statistics.floating.moment_columns import JoinedStates
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.floating.reduction import Accumulation, add_rows, is_anchored, reduce_block
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.labelled import Labelled, joined_squares, squared_weights
from streamgda.statistics.required import Required
from streamgda.statistics.validation import check_feature_names

_SIX_DIGITS = 1e6 * 2.0**-52
_NO_WEIGHT = 1e-200  # a class whose weight decays below it is forgotten


class ClassStatistics(Statistics):
    """Sufficient statistics of labelled rows under Gaussian class densities.

    The statistics of two sets of rows merge into the statistics of their union, so those of a
    dataset of any size come from one pass over its parts, in any order. They hold no divisor,
    prior or smoothing: all of that belongs to the model made from them.

    Labels are integers, strings or bools, and may appear at any time. A sample weight of w counts as w
    repetitions of the row; a row of weight zero is left out. Values must lie between about 1e-154 and 1e154,
    so that float64 holds all digits of their squares.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag"}, default="full"
        What is kept of the scatter within the classes: a matrix for each class, one matrix pooled
        over the classes, or the variance of each feature in each class.
    feature_names : sequence of str, optional
        The names of the features. Later batches that carry names must carry these, in this order.
    fourth_moments : bool, default=False
        Whether to keep `third_moments` and `fourth_moments` too, from which ``shrinkage="auto"`` is computed.
        They triple the size of the state, and need "full". Deviations must then lie between about 1e-75 and
        1e75, so that float64 holds their fourth powers.

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

    _labelled: Labelled[Moments]

    def __init__(
        self,
        covariance_type: CovarianceType = "full",
        *,
        feature_names: Sequence[str] | None = None,
        fourth_moments: bool = False,
    ) -> None:
        required = Required(covariance_type, fourth_moments)
        sort = FourthMoments if required.fourth_moments else Moments
        super().__init__(sort.zeros(kind_named(covariance_type), 0, 0), feature_names)

    @property
    def _moments(self) -> Moments:
        return self._labelled.moments

    # ------------------------------------------------------------------ rows go in

    @property
    def _keeps_sparse(self) -> bool:
        moments = self._labelled.moments
        return not moments.fourth_moments and moments.kind.name in {"full", "tied", "diag"}

    def _reduce(self, block: Block, workspace: Workspace) -> Moments:
        return reduce_block(block, self._labelled.moments, workspace)

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of all blocks. If one block is refused, no rows are added."""
        blocks = iter(blocks)
        first = list(islice(blocks, 2)) if len(self._labelled.classes) else []
        if len(first) != 1 or not self._add_in_place(first[0], workspace or Workspace()):
            super().update_blocks(chain(first, blocks), workspace)

    def _add_in_place(self, block: Block, workspace: Workspace) -> bool:
        """Add a block of rows of known classes to their moments; return whether it was added."""
        with self.lock:
            ours, moments = self._labelled, self._labelled.moments
            if (
                not len(block.codes)
                or isinstance(block.features, MadeColumns)
                or not self.schema.is_numeric
                or self.rule is not None
                or block.n_features != moments.means.shape[1]
                or block.feature_names not in (None, self.schema.feature_names)
                or block.dates not in ((), self.schema.dates)
                or block.lists not in ((), self.schema.lists)
                or moments.fourth_moments
                or (not moments.kind.has_products and is_anchored(block, moments.kind))
                or labels.union(ours.classes, block.classes) is not ours.classes
            ):
                return False
            places = ours.classes.searchsorted(block.classes)
            if moments.kind.has_products and len(block.codes) == len(places):  # one row of each class
                together = moments.merged(reduce_block(block, moments, workspace), places)
            else:
                part = moments.take(places)
                if moments.kind.is_pooled:
                    part.scatter = part.scatter.copy()
                with np.errstate(over="ignore", invalid="ignore"):
                    add_rows(part, np.arange(len(places)), block, workspace)
                together = moments.with_rows(places, part)
            added, squares, counts = block.counts, ours.squared_weights, ours.counts.copy()
            if squares is not None or block.weights is not None:
                of_block = squared_weights(block.codes, block.weights)
                squares = joined_squares(squares, counts, of_block, added, places)
            counts[places] += added
            self._set_labelled(
                Labelled(ours.classes, counts, together, squares),
                block.classes,
                _n_dropped=self._n_dropped + block.n_dropped,
            )
        return True

    def _from_blocks(self, blocks: Iterable[Block], workspace: Workspace) -> Self | None:
        if self._labelled.moments.fourth_moments:
            return super()._from_blocks(blocks, workspace)
        together: Self | None = None
        accumulation: Accumulation | None = None
        for block in blocks:
            if isinstance(block.features, MadeColumns):
                part = self._from_block(block, workspace)
                together = part if together is None else together._merge(part, owned=True)
            elif together is None:
                together = self._from_block(block, workspace)
            else:
                together._add_description(block)
                if len(block.codes):
                    accumulation = accumulation or Accumulation(together._labelled)
                    accumulation.add(block, workspace)
            del block  # else it stays in memory while the next one is fetched
        if together is not None and accumulation is not None:
            together._set_labelled(accumulation.state())
        return together

    # ------------------------------------------------------------------ states from outside

    @classmethod
    def from_sums(
        cls,
        classes: ArrayLike,
        counts: ArrayLike,
        sums: ArrayLike,
        outer_sums: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        squared_weights: ArrayLike | None = None,
        covariance_type: CovarianceType = "full",
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Statistics from the raw sums that an SQL engine can give.

        The scatter is then the difference Σ w x xᵀ − Σ w x (Σ w x)ᵀ / Σ w, and no more accurate than the
        sums. If a mean is m deviations large, the relative error of its scatter is about m² × 10⁻¹⁶.

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
        squared_weights : array-like of shape (n_classes,), optional
            Σ w²; that of rows of equal weight where not given.
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
        kind = kind_named(covariance_type)
        given = moment_columns.given_arrays(
            kind, classes, counts, weights, squared_weights, sums=sums, outer_sums=outer_sums
        )
        return cls._of_labelled(moment_columns.from_sums(given), feature_names)

    @classmethod
    def from_moments(
        cls,
        classes: ArrayLike,
        counts: ArrayLike,
        means: ArrayLike,
        scatter: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        squared_weights: ArrayLike | None = None,
        covariance_type: CovarianceType = "full",
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Statistics from the means and scatters of another program.

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
        squared_weights : array-like of shape (n_classes,), optional
            Σ w²; that of rows of equal weight where not given.
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
        kind = kind_named(covariance_type)
        given = moment_columns.given_arrays(
            kind, classes, counts, weights, squared_weights, means=means, scatter=scatter
        )
        return cls._of_labelled(moment_columns.from_moments(given), feature_names)

    @classmethod
    def _of_labelled(cls, labelled: Labelled[Moments], feature_names: Sequence[str] | None) -> Self:
        """A state of such moments."""
        state = cls(labelled.kind.name, feature_names=feature_names)
        state._set_labelled(labelled)
        check_feature_names(state.feature_names, state.n_features)
        return state

    # ------------------------------------------------------------------ states are saved

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The state as arrays with a row for each class, and plain values that go with them."""
        state = self.copy()  # of one moment; the lock is free again while it is written
        definite = state._moments.kind.is_semidefinite(state._moments.scatter)
        return moment_columns.to_columns(state._labelled), {**state._metadata(), "definite": definite}

    @classmethod
    def _read_columns(
        cls, kind: CovarianceKind, columns: TableColumns, metadata: Mapping[str, Any], n_features: int
    ) -> Labelled[Moments]:
        labelled = moment_columns.decoded(kind, columns, n_features).in_order()
        is_checked = metadata["definite"] and len(labelled.classes)
        if is_checked and not kind.is_semidefinite(labelled.moments.scatter):
            raise ValueError("a scatter is not positive semidefinite: no rows have it")
        return labelled

    def joined(self, columns: TableColumns, ends: Sequence[int], dropped: Sequence[int]) -> JoinedStates:
        """Some of the states whose columns stand one below the other, of this kind and of these features.

        Parameters
        ----------
        columns : mapping of str to ndarray
            Those of all of them, as `to_columns` makes them. Each class has a scatter of its own.
        ends : sequence of int
            Where each state begins, and where the last one ends.
        dropped : sequence of int
            How many rows each has left out.
        """
        rows = moment_columns.decoded(self._labelled.kind, columns, self.n_features)
        return JoinedStates(self._twin(rows), ends, dropped)

    # ------------------------------------------------------------------ states are subtracted, and decay

    def _warn_of_lost_digits(self, rest: Self) -> None:
        n_numbers = rest.schema.n_numbers(rest.n_features)
        warn_of_lost_digits(rest._labelled, self._labelled, self.feature_names, n_numbers)

    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place: means stay, weights and scatter shrink.

        A call before each batch forgets old rows exponentially. The factor ``0.5 ** (days / half_life)``
        halves the influence of a row in `half_life` days. Counts do not decay. A class that has decayed to a
        weight below 1e-200 is gone.

        Raises
        ------
        ValueError
            If the factor is not above 0 and at most 1.
        """
        if not isinstance(factor, int | float | np.number) or not 0 < factor <= 1:
            raise ValueError(f"a decay factor is above 0 and at most 1; got {factor!r}")
        with self.lock:
            labelled, moments = self._labelled, self._moments.scaled(factor)
            squares = labelled.decayed_squares(factor)
            decayed = replace(labelled, moments=moments, squared_weights=squares)
            self._set_labelled(decayed.take(np.flatnonzero(moments.weights >= _NO_WEIGHT)))
        return self


def warn_of_lost_digits(
    rest: Labelled[Moments], whole: Labelled[Moments], names: tuple[str, ...] | None, n_numbers: int
) -> None:
    """Warn if a variance of the rest, a difference from the whole, has fewer than six correct digits.

    Only the first `n_numbers` features are judged: no dummy varies a little.
    """
    before = whole.moments.take(np.flatnonzero(np.isin(whole.classes, rest.classes)))
    varies: Any = rest.counts > 1
    varies = varies.any(keepdims=True) if rest.kind.is_pooled else varies
    lost = ((rest.moments.diagonal < _SIX_DIGITS * before.diagonal) & varies[:, None])[:, :n_numbers]
    if not rest.counts.sum() or not lost.any():
        return
    k, feature = np.argwhere(lost)[0]
    owner = "the classes" if rest.kind.is_pooled else f"class {named(rest.classes[k])}"
    name = repr(names[feature]) if names else str(feature)
    more = f" (and {lost.sum() - 1} more)" if lost.sum() > 1 else ""
    warnings.warn(
        f"{owner}: of feature {name}{more} the variance that is left has fewer than "
        "six correct digits, since the rows taken out vary so much more. Take rows out of an "
        "ExactClassStatistics, or accumulate the remaining rows anew",
        RuntimeWarning,
        stacklevel=callers_level(),
    )
