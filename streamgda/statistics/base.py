"""The interface of all statistics, floating or exact, and what the two have in common.

Passes, models, files and ledgers work with `Statistics` and need not ask which of the two they have.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from streamgda.blocks.arrays import array_blocks
from streamgda.blocks.block import Block
from streamgda.blocks.frames import in_order_of
from streamgda.statistics.additive import Additive
from streamgda.statistics.covariances import Array
from streamgda.statistics.derived import Derived
from streamgda.statistics.gather import Workspace
from streamgda.statistics.labelled import ClassSums, Labelled
from streamgda.statistics.revisions import Revision
from streamgda.statistics.storable import Storable


class Statistics(Additive, Derived, Storable):
    """Statistics of labelled rows; `ClassStatistics` says what they are."""

    @property
    @abstractmethod
    def weights(self) -> Array:
        """Sum of the sample weights of each class; shape (n_classes,)."""

    @property
    @abstractmethod
    def means(self) -> Array:
        """Weighted mean of each class; shape (n_classes, n_features)."""

    @property
    @abstractmethod
    def mean_tails(self) -> Array:
        """What rounding left of `means`, which plus this are the means; shape (n_classes, n_features)."""

    @property
    @abstractmethod
    def scatter(self) -> Array:
        """Σ w (x − mean)(x − mean)ᵀ within the classes."""

    @property
    @abstractmethod
    def sums(self) -> Array:
        """Σ w x of each class; shape (n_classes, n_features)."""

    @property
    @abstractmethod
    def outer_sums(self) -> Array:
        """Σ w x xᵀ in the shape of `scatter`."""

    @property
    @abstractmethod
    def fourth_moments(self) -> Array | None:
        """Σ w u_i² u_j² with u = x − mean; None where not kept."""

    @abstractmethod
    def covariance(self, ddof: float = 0) -> Array:
        """The covariance within the classes: the scatter over the weight less `ddof`."""

    @abstractmethod
    def overall_mean(self) -> Array:
        """Weighted mean of all rows together; shape (n_features,)."""

    @abstractmethod
    def total_variance(self) -> Array:
        """Maximum-likelihood variance of each feature over all rows together; shape (n_features,)."""

    @property
    def undetermined(self) -> Mapping[int, ValueError]:
        """By the position of a class, why its moments are not determined: features may be missing."""
        return {}

    def completed(self) -> Statistics:
        """The statistics of complete rows that are expected, if features are missing; else these."""
        return self

    def ordinary(self) -> Statistics:
        """Statistics without patterns of missing features, if no row lacks one; else these."""
        return self

    @abstractmethod
    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place."""

    @abstractmethod
    def allclose(self, other: Any, rtol: float = 1e-10) -> bool:
        """Whether two states agree in what they count and, up to rounding, in the rest."""

    @abstractmethod
    def _reduce(self, block: Block, workspace: Workspace) -> ClassSums:
        """The sums of the classes of a block."""

    # ------------------------------------------------------------------ rows go in

    def update(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add labelled rows, in place.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers of any real type. The names of the columns of a frame or Arrow table become those of the
            features. If they are those of the state in another order, they are matched by name.
        y : array-like of shape (n_rows,)
            One integer, string or bool label per row. New ones may appear at any time.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row, whole or not; of an exact state, whole numbers below 2^53.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a label is missing, a weight is negative, or the features
            are not those of the state; of an exact state, also if a weight is not whole or a value would
            have to be rounded. The state is then as it was.
        """
        self.update_blocks(array_blocks(in_order_of(X, self.feature_names), y, sample_weight))
        return self

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks: of all, or, where one is refused, of none."""
        together = self._from_blocks(blocks, workspace or Workspace())
        if together is not None:
            self._take_over(together)

    def _from_blocks(self, blocks: Iterable[Block], workspace: Workspace) -> Self | None:
        """The state of the rows of some blocks; None if there are no blocks."""
        parts = map(partial(self._from_block, workspace=workspace), blocks)  # holds no block while it fetches
        together = next(parts, None)
        if together is not None:
            for part in parts:
                together.merge(part)
        return together

    def _take_over(self, other: Self) -> None:
        """Merge a state that nothing else holds."""
        self._merge(other, owned=True)

    def _from_block(self, block: Block, workspace: Workspace) -> Self:
        """The state of the rows of a block."""
        if len(block.codes):
            sums = self._reduce(block, workspace)
            labelled = Labelled(block.classes, np.bincount(block.codes), sums)
        else:
            labelled = Labelled.empty(self._labelled.sums, block.n_features)
        part = self._twin(labelled)
        part._names, part._n_dropped = block.feature_names, block.n_dropped
        if part._labelled.kind.is_pooled:
            part._revision = Revision.of_rows(block)
        return part
