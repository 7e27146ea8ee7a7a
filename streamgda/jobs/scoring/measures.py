"""The measures of an evaluation: accuracy, losses, areas and curves, computed from its sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks.labels import Labels, no_labels, position_of
from streamgda.data.blocks.wording import as_html, counted
from streamgda.jobs.scoring.calibration import N_LOSSES, best_temperature, loss_at, warned_of
from streamgda.jobs.scoring.curves import Array, ScoreHistogram, most_exact
from streamgda.statistics.locking import Locked, holding_locks

if TYPE_CHECKING:
    import pandas as pd

PROBABILITY, MEMBERS, WEIGHT = 0, 1, 2  # the rows of the calibration sums of a class

N_TENTHS, N_RANKS = 10, 20

_ROWS_SHOWN = 20
_OF_EACH_CLASS = (
    *("support", "precision", "recall", "f1"),
    *("roc_auc", "roc_auc_error", "average_precision", "average_precision_error"),
)


class Measures(Locked):
    """The sums of an evaluation, which a subclass adds up, and the measures that they give.

    Attributes
    ----------
    _confusion : ndarray of shape (n_classes, n_classes)
        Weight of the rows by true class (rows) and predicted class (columns).
    _scores : list of ScoreHistogram
        Weight of the other rows and of the rows of each class, by the log-odds of the class.
    _losses : ndarray of shape (41,)
        Sums of −ln p(true class | x), p at least 2⁻⁵², at the temperatures of a grid, over a sample of rows.
    _loss_weight : float
        The weight of that sample.
    _calibration : ndarray of shape (n_classes, 3, n_bins)
        Sum of the probabilities, weight of the members and weight of the rows, by bins of the probability.
    _squared_weights : ndarray of shape (n_classes,)
        Sum of the squared weights of the rows of each class.
    _sets : ndarray of shape (3, n_classes)
        Of the rows of each class that have a set: the weight of those whose set holds the class, the sum of
        the sizes of their sets, and their weight.
    _ranks : ndarray of shape (20,)
        Weight of the rows by how many classes have greater scores than their own; infinite if not known.
    """

    def __init__(self, pos_label: Any = None) -> None:
        self.pos_label = pos_label.item() if isinstance(pos_label, np.generic) else pos_label
        self.classes: Labels = no_labels()
        self.n_rows = self.n_dropped = 0
        self._is_weighted = False
        self._log_loss = self._squared_error = self._loss_weight = 0.0
        self._losses, self._ranks = np.zeros(N_LOSSES), np.zeros(N_RANKS)
        self._allocate(0)

    def _allocate(self, n_classes: int) -> None:
        self._confusion = np.zeros((n_classes, n_classes))
        self._scores = [ScoreHistogram(most_exact(n_classes)) for _ in range(n_classes)]
        self._calibration = np.zeros((n_classes, 3, N_TENTHS))
        self._squared_weights = np.zeros(n_classes)
        self._sets = np.zeros((3, n_classes))

    @property
    def weight(self) -> float:
        """The total weight of the rows: their number, if none is weighted."""
        return float(self._confusion.sum())

    @property
    @holding_locks
    def confusion_matrix(self) -> NDArray[Any]:
        """The rows by true class (rows) and predicted class (columns): (n_classes, n_classes).

        Counts; or sums of weights, if rows are weighted.
        """
        return self._confusion.copy() if self._is_weighted else self._confusion.astype(np.int64)

    @property
    def support(self) -> NDArray[Any]:
        """The rows of each class: (n_classes,)."""
        support: NDArray[Any] = self.confusion_matrix.sum(axis=1)
        return support

    @property
    @holding_locks
    def accuracy(self) -> float:
        """The share of rows whose class is predicted."""
        return float(_ratio(self._confusion.trace(), self._confusion.sum(), np.nan))

    @holding_locks
    def top_k_accuracy(self, k: int) -> float:
        """The share of rows whose class is among the k likeliest ones, as in scikit-learn.

        Of classes that are equally likely, the first in `classes` comes first, as in predictions. A class
        that the model does not know is never among them. `threshold` and `costs` do not matter.

        Parameters
        ----------
        k : int
            From 1 to 20.

        Raises
        ------
        ValueError
            If `k` is another number, or the evaluation is of a file that version 0.2 or an older one saved:
            these did not count the ranks.

        Examples
        --------
        >>> import numpy as np
        >>> from streamgda import Evaluation
        >>> scores = np.log([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
        >>> evaluation = Evaluation().update(["a", "b", "c", "c"], scores, ["a", "b", "c"])
        >>> [evaluation.top_k_accuracy(k) for k in (1, 2, 3)]
        [0.5, 0.75, 1.0]
        """
        if k not in range(1, N_RANKS + 1):
            raise ValueError(f"k is a number of classes, from 1 to {N_RANKS}; got {k!r}")
        if not np.isfinite(self._ranks).all():
            raise ValueError("this evaluation was saved by version 0.2 or older, which did not count ranks")
        return float(_ratio(self._ranks[: int(k)].sum(), self.weight, np.nan))

    @property
    @holding_locks
    def precision(self) -> Array:
        """The share of the rows predicted as a class that are of it; 0 if there are none: (n_classes,)."""
        return _ratio(np.diag(self._confusion), self._confusion.sum(axis=0), 0.0)

    @property
    @holding_locks
    def recall(self) -> Array:
        """The share of the rows of a class that are predicted as it; 0 if there are none: (n_classes,)."""
        return _ratio(np.diag(self._confusion), self._confusion.sum(axis=1), 0.0)

    @property
    @holding_locks
    def f1(self) -> Array:
        """The harmonic mean of precision and recall: (n_classes,)."""
        twice_correct = 2 * np.diag(self._confusion)
        return _ratio(twice_correct, self._confusion.sum(axis=0) + self._confusion.sum(axis=1), 0.0)

    @property
    @holding_locks
    def log_loss(self) -> float:
        """The mean of −ln p(true class | x).

        As in scikit-learn, p is at least 2⁻⁵², also for a class that the model does not know.
        """
        return float(_ratio(self._log_loss, self.weight, np.nan))

    @property
    def best_temperature(self) -> float:
        """The `temperature` of the model at which the log loss of these rows is least.

        The rows should not be those that the model has learnt. Predicted classes do not depend on it. It is
        found from the losses of a sample of about 20,000 rows at 1 / T = 2⁻⁸, 2⁻⁷·⁷⁵, …, 2² and a parabola
        through the least three. Where the least is at an end of these, that is the temperature, with a
        warning. It is 1 if the loss is the same at all of them, as for a single class.

        References
        ----------
        Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks", ICML.

        Examples
        --------
        >>> import numpy as np
        >>> from streamgda import Evaluation
        >>> sure = np.log([[0.99, 0.01], [0.01, 0.99], [0.99, 0.01]])
        >>> evaluation = Evaluation().update(["a", "b", "b"], sure, ["a", "b"])
        >>> temperature = evaluation.best_temperature
        >>> round(temperature, 1), round(evaluation.log_loss, 2)
        (6.7, 1.54)
        >>> round(evaluation.log_loss_at(temperature), 2)
        0.64
        """
        return warned_of(best_temperature(self._mean_losses))

    @property
    @holding_locks
    def _mean_losses(self) -> Array:
        return _ratio(self._losses, self._loss_weight, np.nan)

    def log_loss_at(self, temperature: float) -> float:
        """The `log_loss` that these rows would have with another `temperature` of the model, from 1/4 to 256.

        Between the temperatures of the grid of `best_temperature`, it is interpolated.

        Raises
        ------
        ValueError
            If the temperature is not within that grid.
        """
        return loss_at(self._mean_losses, temperature)

    @holding_locks
    def conformal_quantile(self, coverage: ArrayLike, by: Literal["all", "class"] = "all") -> float | Array:
        """The least log-odds ln p / (1 − p) of a class in a set that holds the class of a row.

        `predict_set` of the model takes it. The rows must not be those that the model has learnt. Of n rows,
        it is the largest of the log-odds of their classes that at least (n + 1) `coverage` of these reach;
        where log-odds are in bins, the lower edge of its bin. So the sets of new rows hold their class with
        at least the probability `coverage`, if new rows are exchangeable with these. −∞ if there are too few
        rows: then all classes are in each set. Rows with weights count as (Σ w)² / Σ w² rows, whatever the
        scale of their weights.

        Parameters
        ----------
        coverage : float, or array-like of shape (n_classes,) if by class
            The probability, between 0 and 1; or one for each of `classes`.
        by : {"all", "class"}, default="all"
            With "class", a quantile for each class, from its own rows: the coverage holds within each class,
            and sets are larger.

        Returns
        -------
        float, or ndarray of shape (n_classes,)
            In the order of `classes`.

        Raises
        ------
        ValueError
            If `coverage` is not between 0 and 1, or `by` is neither "all" nor "class".

        References
        ----------
        Angelopoulos & Bates (2021), "A gentle introduction to conformal prediction", sections 1 and 4.1.

        Examples
        --------
        >>> import numpy as np
        >>> from streamgda import Evaluation
        >>> odds = np.arange(1.0, 10.0)
        >>> evaluation = Evaluation().update(["a"] * 9, np.outer(odds, [1, 0]), ["a", "b"])
        >>> evaluation.conformal_quantile(0.8)
        2.0
        """
        levels = np.asarray(coverage, dtype=np.float64)
        shapes = {"all": [()], "class": [(), self.classes.shape]}.get(by, [])
        if levels.shape not in shapes or not ((0 < levels) & (levels < 1)).all():
            raise ValueError(
                f"coverage is a number between 0 and 1, and by 'all' or 'class'; got {coverage!r} and {by!r}"
            )
        if by == "all":
            return _least_odds(self._scores, self._squared_weights.sum(), levels.item())
        levels = np.broadcast_to(levels, self.classes.shape)
        by_class = zip(self._scores, self._squared_weights, levels.tolist(), strict=True)
        return np.array([_least_odds([own], *sums) for own, *sums in by_class])

    @property
    @holding_locks
    def coverage(self) -> float:
        """The share of the sets that hold the class of their row; NaN if no row has a set.

        `progressive_score` makes sets. None holds the class of a row that the model does not know.
        """
        held, _, weights = self._sets
        return float(_ratio(held.sum(), weights.sum(), np.nan))

    @property
    @holding_locks
    def class_coverage(self) -> Array:
        """The `coverage` of the rows of each class: (n_classes,)."""
        held, _, weights = self._sets
        return _ratio(held, weights, np.nan)

    @property
    @holding_locks
    def mean_set_size(self) -> float:
        """The mean number of classes in a set; NaN if no row has one."""
        _, sizes, weights = self._sets
        return float(_ratio(sizes.sum(), weights.sum(), np.nan))

    @property
    @holding_locks
    def brier_score(self) -> float:
        """The mean of Σ_k (p(k | x) − [x is of k])²; half of that for two classes, as in scikit-learn."""
        halves = 2 if len(self.classes) == 2 else 1
        return float(_ratio(self._squared_error, self.weight * halves, np.nan))

    @property
    def roc_auc(self) -> Array:
        """The area under the ROC curve of each class against the rest: (n_classes,).

        NaN if all rows, or none, are of the class.
        """
        return self._areas(ScoreHistogram.roc_auc)[:, 0]

    @property
    def roc_auc_error(self) -> Array:
        """A bound on the difference of `roc_auc` from the area for unbinned scores: (n_classes,).

        It is 0 for up to 32,768 different log-odds of the class (of more than eight classes, for 2¹⁸ of all
        classes, and at least 6,826 of each), unless some differ by rounding alone, as those of rows that tie
        by symmetry. More are counted in bins. The bound is then half the number of
        pairs of rows within a bin, divided by the number of all pairs, up to rounding.
        """
        return self._areas(ScoreHistogram.roc_auc)[:, 1]

    @property
    def average_precision(self) -> Array:
        """The area under the precision-recall curve of each class, in scikit-learn's steps: (n_classes,)."""
        return self._areas(ScoreHistogram.average_precision)[:, 0]

    @property
    def average_precision_error(self) -> Array:
        """A bound on the difference of `average_precision` from that of unbinned scores: (n_classes,)."""
        return self._areas(ScoreHistogram.average_precision)[:, 1]

    def _areas(self, area: Callable[[ScoreHistogram], tuple[float, float]]) -> Array:
        return np.array([area(scores) for scores in self._scores]).reshape(-1, 2)

    def _position(self, label: Any) -> int:
        """The position of a class; by default of the positive one."""
        if label is None and self.pos_label is None and len(self.classes) == 2:
            return 1
        return position_of(self.pos_label if label is None else label, self.classes)

    @holding_locks
    def roc_curve(self, label: Any = None) -> tuple[Array, Array, Array]:
        """The ROC curve of a class against the rest.

        Parameters
        ----------
        label : int, str or bool, optional
            One of `classes`; by default `pos_label`, or the second of two.

        Returns
        -------
        fpr, tpr, thresholds : ndarray of shape (n_points,)
            False- and true-positive rates, and the thresholds of the log-odds ln p / (1 − p).

        Raises
        ------
        ValueError
            If there is no such class.
        """
        return self._scores[self._position(label)].roc_curve()

    @holding_locks
    def precision_recall_curve(self, label: Any = None) -> tuple[Array, Array, Array]:
        """The precision-recall curve of a class, in ascending order of thresholds.

        Parameters
        ----------
        label : int, str or bool, optional
            One of `classes`; by default `pos_label`, or the second of two.

        Returns
        -------
        precision, recall : ndarray of shape (n_points + 1,)
            The last values are 1 and 0, and have no threshold.
        thresholds : ndarray of shape (n_points,)
            Log-odds.

        Raises
        ------
        ValueError
            If there is no such class.
        """
        return self._scores[self._position(label)].precision_recall_curve()

    @holding_locks
    def calibration_curve(self, label: Any = None, min_weight: float = 0.0) -> tuple[Array, Array]:
        """The calibration curve of a class: its share among the rows, by their predicted probability.

        Parameters
        ----------
        label : int, str or bool, optional
            One of `classes`; by default `pos_label`, or the second of two.
        min_weight : float, default=0
            Leave out bins of less weight, but not those of the most.

        Returns
        -------
        prob_true, prob_pred : ndarray of shape (n_bins,)
            The share of the class, and the mean probability, in each tenth of [0, 1] that has rows.

        Raises
        ------
        ValueError
            If there is no such class, or `min_weight` is negative or NaN.
        """
        return _calibration_curve(self._calibration[self._position(label)], min_weight)

    def mean_calibration_curve(self, min_weight: float = 0.0) -> tuple[Array, Array]:
        """The calibration curve of all classes together: each row counts once for each class."""
        return _calibration_curve(self._calibration.sum(axis=0), min_weight)

    @holding_locks
    def to_frame(self) -> pd.DataFrame:
        """The measures of each class as a pandas data frame, with a row for each class."""
        import pandas as pd

        return pd.DataFrame(
            {name: getattr(self, name) for name in _OF_EACH_CLASS}, index=pd.Index(self.classes, name="class")
        )

    @holding_locks
    def to_dict(self) -> dict[str, Any]:
        """The measures in plain values: those of all rows, and a list with those of each class."""
        measures = ("n_rows", "n_dropped", "pos_label", "accuracy", "log_loss", "brier_score")
        by_class = self.to_frame().reset_index(names="label")
        of_sets = ("coverage", "mean_set_size") if self._sets[-1].any() else ()
        return {
            **{name: getattr(self, name) for name in (*measures, *of_sets)},
            "best_temperature": best_temperature(self._mean_losses),
            "confusion_matrix": self.confusion_matrix.tolist(),
            "classes": by_class.to_dict(orient="records"),
        }

    @holding_locks
    def __repr__(self) -> str:
        return f"Evaluation(classes={len(self.classes)}, rows={self.n_rows}, accuracy={self.accuracy:.4g})"

    @holding_locks
    def _repr_html_(self) -> str:
        head, _, _ = str(self).partition("\n\n")
        return as_html(head, self.to_frame())

    @holding_locks
    def __str__(self) -> str:
        dropped = f" ({self.n_dropped:,} dropped)" if self.n_dropped else ""
        frame, is_positive = self.to_frame(), self.classes == self.pos_label
        frame = frame.iloc[np.argsort(~is_positive, kind="stable")]
        for area in ("roc_auc", "average_precision"):
            frame[area] = [*map(_in_certain_digits, frame[area], frame.pop(f"{area}_error"))]
        more = len(frame) - _ROWS_SHOWN
        has_sets = bool(self._sets[-1].any())
        losses = f"log loss {self.log_loss:.4f}   Brier score {self.brier_score:.4f}"
        return "\n".join(
            [
                f"{counted(self.n_rows, 'row')}{dropped}, {counted(len(self.classes), 'class')}",
                f"accuracy {self.accuracy:.4f}   {losses}",
                *([f"coverage {self.coverage:.4f}   {self.mean_set_size:.4g} classes in a set"] * has_sets),
                "",
                frame.head(_ROWS_SHOWN).to_string(float_format="{:.4f}".format),
                *([f"... and {counted(more, 'more class')}"] if more > 0 else []),
            ]
        )


def _least_odds(classes: Sequence[ScoreHistogram], squares: float, coverage: float) -> float:
    """The largest log-odds that at least (n + 1) times a share of the n rows of these classes reach.

    One row more weighs Σ w² / Σ w, as a typical row does.
    """
    odds = np.concatenate([[], *(scores.thresholds for scores in classes)])
    weights = np.concatenate([[], *(scores.weights[1] for scores in classes)])
    order = odds.argsort()[::-1]
    total = weights.sum()
    enough = weights[order].cumsum() >= (total + (squares / total if total else 1)) * coverage
    return float(odds[order][enough.argmax()]) if enough.any() else -np.inf


def _calibration_curve(sums: Array, min_weight: float) -> tuple[Array, Array]:
    if not min_weight >= 0:
        raise ValueError(f"min_weight is a weight, at least 0; got {min_weight!r}")
    bins = (sums[WEIGHT] > 0) & (sums[WEIGHT] >= min(min_weight, sums[WEIGHT].max()))
    return sums[MEMBERS, bins] / sums[WEIGHT, bins], sums[PROBABILITY, bins] / sums[WEIGHT, bins]


def _in_certain_digits(area: float, error: float) -> str:
    """An area with the decimals that are certain; with the bound on its error if none is."""
    digits = int(min(4, max(0, -np.log10(2 * error)))) if error > 0 else 4
    return f"{area:.{digits}f}" if digits else f"{area:.1f}±{error:.1f}"


def _ratio(part: Any, whole: Any, otherwise: float) -> Array:
    """The quotient, and `otherwise` where the denominator is zero."""
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    quotient: Array = np.divide(part, whole, out=np.full(part.shape, otherwise), where=whole > 0)
    return quotient
