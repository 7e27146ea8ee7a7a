"""Conformal sets in a stream: their level moves so that they keep their coverage while rows drift."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from streamgda.data.blocks import labels
from streamgda.data.blocks.block import checked_weights
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import counted
from streamgda.jobs.scoring.evaluation import Evaluation, check_each_once
from streamgda.models.gaussians.posteriors import Array


@dataclass
class AdaptiveConformalInference:
    """The level of conformal sets in a stream, which moves so that they keep their coverage while rows drift.

    `Evaluation.conformal_quantile` keeps its promise while rows are drawn as those of the evaluation. Here
    the level at which it is taken rises when fewer sets than promised held the class of their row, and falls
    when more did. So in the long run the share of sets that hold it is `coverage`, however rows drift. Sets
    are smaller if the evaluation too goes on with the stream, and forgets old rows by `decay`.

    Parameters
    ----------
    coverage : float, default=0.9
        The share of the sets that should hold the class of their row.
    gamma : float, default=0.005
        The step of the level after one row: this part of the difference between `coverage` and 1, if the set
        held the class, or 0. After a batch of n rows, the part is 1 − (1 − gamma)ⁿ. Rows with weights count
        as (Σ w)² / Σ w² rows.
    by : {"all", "class"}, default="all"
        With "class", each class has a level of its own, moved by the rows of the class, and a quantile.
    level : float, or pairs of a label and a level, optional
        Where to go on. By default `coverage`.

    Attributes
    ----------
    level : float, or dict from labels to float
        The coverage that is asked of the evaluation next. From 1 on, all classes are in each set; from 0
        down, none is. A class that has no level yet is at `coverage`.

    References
    ----------
    Gibbs & Candès (2021), "Adaptive conformal inference under distribution shift", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgda import AdaptiveConformalInference, Evaluation, GaussianNB
    >>> rng, model, held = np.random.default_rng(0), GaussianNB(), []
    >>> adaptive, judged = AdaptiveConformalInference(0.9), Evaluation()
    >>> for shift in np.linspace(0, 2, 100):
    ...     y = rng.integers(0, 2, size=50)
    ...     X = rng.normal(size=(50, 2)) + 2 * y[:, None] + shift
    ...     if shift:  # the first batch is learnt alone
    ...         sets = model.predict_set(X, adaptive.quantile(judged, model.classes_))
    ...         held.append(sets[np.arange(50), y].mean())
    ...         judged = judged.decay(0.95).update(y, model.predict_log_proba(X), model.classes_)
    ...         adaptive = adaptive.update(y, sets, model.classes_)  # the labels may come later
    ...     model = model.partial_fit(X, y)
    >>> print(f"{np.mean(held):.2f} of the sets hold the class, at the level {adaptive.level:.2f}")
    0.90 of the sets hold the class, at the level 0.90
    >>> adaptive == AdaptiveConformalInference(**adaptive.to_dict())  # as save(metadata=) keeps it
    True
    """

    coverage: float = 0.9
    gamma: float = 0.005
    by: Literal["all", "class"] = "all"
    level: Any = None

    def __post_init__(self) -> None:
        for name in ("coverage", "gamma"):
            value = getattr(self, name)
            if not _is_finite(value) or not 0 < value < 1:
                raise ValueError(f"{name} is a number between 0 and 1; got {value!r}")
        if self.by not in {"all", "class"}:
            raise ValueError(f"by is 'all' or 'class'; got {self.by!r}")
        by_class, level = self.by == "class", self.level
        if level is None:
            level = {} if by_class else self.coverage
        if by_class and isinstance(level, Iterable):
            level = dict(level)
        levels = [*level.values()] if by_class and isinstance(level, dict) else [level]
        if isinstance(level, dict) != by_class or not all(map(_is_finite, levels)):
            asked = "pairs of a label and a level" if by_class else "a finite number"
            raise ValueError(f"level is {asked} if by={self.by!r}; got {self.level!r}")
        self.level = level

    def quantile(self, evaluation: Evaluation, classes: ArrayLike | None = None) -> float | Array:
        """The quantile of an evaluation at the level, for `predict_set`.

        Parameters
        ----------
        evaluation : Evaluation
            Of rows that the model had not learnt when it predicted them.
        classes : array-like of shape (n_classes,), optional
            With ``by="class"``, the classes of the model, `classes_`; by default those of the evaluation.

        Returns
        -------
        float, or ndarray of shape (n_classes,)
            The least log-odds of a class in a set. −∞, as for `Evaluation.conformal_quantile`, where there
            are too few rows, as of a class that the evaluation does not know.
        """
        if self.by == "all":
            return float(_at(self.level, evaluation.conformal_quantile(_inside(self.level))))
        with evaluation.lock:
            known = evaluation.classes.tolist()
            found = evaluation.conformal_quantile(_inside(self._levels(known)), by="class")
        least = dict(zip(known, np.ravel(found).tolist(), strict=True))
        asked = known if classes is None else labels.as_labels(classes).tolist()
        result: Array = _at(self._levels(asked), np.array([least.get(label, -np.inf) for label in asked]))
        return result

    def update(
        self, y: ArrayLike, sets: ArrayLike, classes: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Move the level by the sets of a batch, once the labels of its rows are known.

        The set of a row whose label is not among the classes did not hold it. A row without a label (null or
        NaN) says nothing, as one of weight 0, and a batch without rows moves nothing.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The true labels.
        sets : array-like of bool of shape (n_rows, n_classes)
            The sets, as `predict_set` has returned them.
        classes : array-like of shape (n_classes,)
            The labels of the columns of sets: `classes_` of the model that predicted them.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row, whole or fractional.

        Returns
        -------
        self : AdaptiveConformalInference

        Raises
        ------
        ValueError
            If shapes do not agree, sets are not booleans, labels are of different kinds or repeated in
            `classes`, or a weight is missing, negative or infinite.
        """
        row_labels, codes, unlabelled = labels.encode(y)
        columns, sets, n_rows = labels.as_labels(classes), np.asarray(sets), len(codes)
        weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if (sets.shape, weights.shape) != ((n_rows, len(columns)), (n_rows,)) or sets.dtype != bool:
            raise ValueError(
                f"y has {counted(n_rows, 'row')} and classes has {counted(len(columns), 'label')}; sets are "
                f"booleans of that shape, as predict_set returns them. These have shape {sets.shape} and "
                f"dtype {sets.dtype}, sample_weight {weights.shape}"
            )
        order = np.argsort(columns)
        columns, sets = columns[order], sets[:, order]
        check_each_once(columns)
        weights = checked_weights(weights, "row {}".format)
        every = labels.union(columns, row_labels)
        in_set = np.zeros((n_rows, len(every)), dtype=bool)
        in_set[:, np.searchsorted(every, columns)] = sets
        known = slice(None) if unlabelled is None else ~unlabelled
        truth, weights = np.searchsorted(every, row_labels)[codes[known]], weights[known]
        held = in_set[known][np.arange(len(truth)), truth]
        of_rows: tuple[Array, ...] = (weights * held, weights, weights**2)
        self._move(every, *(np.bincount(truth, each, len(every)).astype(np.float64) for each in of_rows))
        return self

    def move(self, evaluation: Evaluation) -> None:
        """Move the level by the sets of a batch that its evaluation has counted.

        Parameters
        ----------
        evaluation : Evaluation
            Of the batch alone, made by `progressive_score`.
        """
        held, _, weights = evaluation._sets
        self._move(evaluation.classes, held, weights, evaluation._squared_weights)

    def _move(self, classes: Labels, held: Array, weights: Array, squares: Array) -> None:
        if self.by == "all":
            self.level = self._moved(self.level, held.sum(), weights.sum(), squares.sum())
            return
        for label, *sums in zip(classes.tolist(), held, weights, squares, strict=True):
            if sums[1]:
                self.level[label] = self._moved(self.level.get(label, self.coverage), *sums)

    def _moved(self, level: float, held: float, weight: float, squares: float) -> float:
        """The level after rows of some weight. It does not move further where all sets are full, or empty."""
        if not weight:
            return level
        with np.errstate(divide="ignore"):
            n_rows = weight / np.divide(squares, weight)
        step = -np.expm1(n_rows * np.log1p(-self.gamma)) * (self.coverage - held / weight)
        return level if (level >= 1 and step > 0) or (level <= 0 and step < 0) else float(level + step)

    def to_dict(self) -> dict[str, Any]:
        """All that it is, in plain values, which ``AdaptiveConformalInference(**values)`` takes.

        `save(metadata=)` of a model keeps them, and `load_metadata` reads them.
        """
        level = [*map(list, self.level.items())] if self.by == "class" else float(self.level)
        return {"coverage": float(self.coverage), "gamma": float(self.gamma), "by": self.by, "level": level}

    def _levels(self, classes: Iterable[Any]) -> Array:
        return np.array([self.level.get(label, self.coverage) for label in classes], dtype=np.float64)


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and bool(np.isfinite(float(value)))


def _inside(level: Any) -> Any:
    """Levels that an evaluation has a quantile for."""
    return np.clip(level, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)


def _at(level: Any, quantile: Any) -> Any:
    """The quantile; where a level is 1 or more, or 0 or less, that of full or empty sets."""
    return np.where(np.asarray(level) >= 1, -np.inf, np.where(np.asarray(level) <= 0, np.inf, quantile))
