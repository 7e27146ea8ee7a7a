"""The evaluation of a classifier: sums over labelled rows, which can be merged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.block import checked_weights
from streamgda.data.blocks.labels import Codes, Labels
from streamgda.data.blocks.wording import counted, named
from streamgda.data.storage.saving import Loadable
from streamgda.jobs.scoring.calibration import LEAST_LOG_PROBABILITY, losses_when_divided
from streamgda.jobs.scoring.curves import LOWER_EDGES, Array, ScoreHistogram, most_exact
from streamgda.jobs.scoring.measures import N_RANKS, N_TENTHS, WEIGHT, Measures
from streamgda.models.gaussians.posteriors import posteriors_and_odds
from streamgda.statistics.kernels import judge_rows
from streamgda.statistics.locking import holding_locks

_VALUES_AT_ONCE = 1 << 18  # float64 values: 2 MB

_INNER_EDGES = np.linspace(0.0, 1.0, N_TENTHS + 1)[1:-1]

_WEIGHTED_SUMS = (
    *("_confusion", "_calibration", "_losses", "_loss_weight", "_ranks", "_log_loss", "_squared_error"),
    "_sets",
)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio

# The attributes that are saved as they are.
_PLAIN = ("n_rows", "n_dropped", "_is_weighted", "_log_loss", "_squared_error")


class Evaluation(Measures, Loadable):
    """The evaluation of a classifier on labelled rows, as `evaluate` returns it. Evaluations can be merged.

    Its size is at most K² + 20,510 K + 62 numbers for K classes, or 164 kB per class; up to 6 MB for fewer
    than 38 classes, whose areas are exact for more rows; and less for few rows. Rows are weighted as in
    scikit-learn's metrics. A class that the model does not know has probability 0 in all rows. Threads may
    share an evaluation.

    Parameters
    ----------
    pos_label : int, str or bool, optional
        The positive class, as in scikit-learn: that of curves and displays where no other is asked for, and
        the first in print. By default the second of two classes.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The labels of the model and of the rows, sorted; per-class results are in this order.
    pos_label : int, str, bool or None
        The positive class, if it was given. It can be set.
    n_rows : int
        The number of rows evaluated.
    n_dropped : int
        The number of rows that the source left out because of missing values.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgda import Evaluation
    >>> probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.7, 0.3]])
    >>> evaluation = Evaluation().update(["a", "a", "b", "b"], np.log(probabilities), ["a", "b"])
    >>> evaluation.accuracy
    0.5
    >>> evaluation.confusion_matrix
    array([[1, 1],
           [1, 1]])
    >>> evaluation.roc_auc
    array([0.75, 0.75])
    """

    _kind = "evaluation"
    _columns = frozenset({"label", "confusion", "calibration", "odds", "odds_weights"})

    # ------------------------------------------------------------------ adding rows

    def update(
        self, y: ArrayLike, scores: ArrayLike, classes: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows with their scores by any classifier.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The true labels.
        scores : array-like of shape (n_rows, n_classes)
            Logarithms of the probabilities of the classes, up to a constant for each row. `predict_log_proba`
            is more accurate than the logarithm of `predict_proba`, which may be 0 or 1.
        classes : array-like of shape (n_classes,)
            The labels of the columns of scores, each once, in any order.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row, whole or fractional.

        Returns
        -------
        self : Evaluation

        Raises
        ------
        ValueError
            If shapes do not agree, a score is NaN, the scores of all rows sum to one as probabilities do,
            labels are missing, of different kinds or repeated in `classes`, or a weight is missing, negative
            or infinite.
        """
        row_labels, codes, unlabelled = labels.encode(y)
        if unlabelled is not None:
            raise ValueError("a label is missing (null or NaN)")
        columns, scores = labels.as_labels(classes), np.asarray(scores, dtype=np.float64)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        shapes = scores.shape, codes.shape if weights is None else weights.shape
        if shapes != ((len(codes), len(columns)), codes.shape):
            raise ValueError(
                f"y has {counted(len(codes), 'row')} and classes has {counted(len(columns), 'label')}, "
                f"scores have shape {scores.shape}"
                + ("" if weights is None else f", sample_weight {weights.shape}")
            )
        if not np.isfinite(scores.max(axis=1, initial=-np.inf)).all():
            raise ValueError("a row has scores that are NaN or infinite")
        _check_logarithms(scores)
        if weights is not None:
            weights = checked_weights(weights, "row {}".format)
        order = np.argsort(columns)
        check_each_once(columns[order])
        with self._changing() as draft:
            draft.add_coded(row_labels, codes, scores[:, order], columns[order], weights)
        return self

    @contextmanager
    def _changing(self) -> Iterator[Self]:
        """Change a copy, whose sums then replace those of this evaluation; after an error they do not."""
        with self.lock:
            draft = self.copy()
            yield draft
            vars(self).update(draft.__getstate__())

    def copy(self) -> Self:
        """An evaluation that does not change with this one."""
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self).copy()
        del state["lock"]
        return state

    def add_coded(
        self,
        row_labels: Labels,
        codes: Codes,
        scores: Array,
        columns: Labels,
        weights: Array | None,
        positions: NDArray[np.intp] | None = None,
        temperature: float = 1.0,
        share: float = 1.0,
        quantile: float | Array | None = None,
    ) -> None:
        """Add checked rows with labels `row_labels[codes]` and a column of scores for each of `columns`.

        The sums are changed in place, so this is for an evaluation that no other thread has.

        The predicted classes are `columns[positions]`, or the likeliest ones if `positions` is None.
        The scores have been divided by the temperature. Losses at other ones are of a share of the rows.
        With a quantile, sets of the columns whose log-odds reach it are counted.
        """
        classes = labels.union(self.classes, labels.union(columns, row_labels))
        self._reindex(classes)
        if not len(codes):
            return
        truth = np.searchsorted(classes, row_labels)[codes]
        here = np.searchsorted(classes, columns)
        best = here[scores.argmax(axis=1)]
        answers = best if positions is None else here[positions]
        scores = _with_unknown(scores, here, len(classes))
        weight = np.ones(len(codes)) if weights is None else weights
        loss_weight = _of_sample(self.n_rows, weight, share)
        self.n_rows += len(codes)
        self._is_weighted |= weights is not None
        np.add.at(self._confusion.reshape(-1), truth * len(classes) + answers, weight)
        self._squared_weights += np.bincount(truth, weight**2, len(classes))
        self._loss_weight += float(loss_weight.sum())
        if not share:
            self._losses += np.inf
        log_odds, step = np.empty(scores.shape, order="F"), max(1, _VALUES_AT_ONCE // len(classes))
        for start in range(0, len(codes), step):
            some = slice(start, start + step)
            log_odds[some] = self._add_scores(scores[some], truth[some], weight[some], best[some])
            self._add_losses(scores[some], truth[some], loss_weight[some], temperature)
        for k, histogram in enumerate(self._scores):
            histogram.add(log_odds[:, k], truth == k, weight)
        if quantile is not None:
            in_set = np.zeros(log_odds.shape, dtype=bool)
            in_set[:, here] = log_odds[:, here] >= quantile
            of_rows = _of_sets(in_set, truth)
            self._sets += [np.bincount(truth, weight * each, len(classes)) for each in of_rows]

    def _add_losses(self, scores: Array, truth: NDArray[np.intp], weight: Array, temperature: float) -> None:
        """Add the losses at other temperatures of the rows that have a weight."""
        rows = slice(None) if weight.all() else np.flatnonzero(weight)
        self._losses += losses_when_divided(scores[rows] * temperature, truth[rows], weight[rows])

    def _add_scores(
        self, scores: Array, truth: NDArray[np.intp], weight: Array, best: NDArray[np.intp]
    ) -> Array:
        """Add rows to all sums that need no more than their scores; return the log-odds."""
        probabilities, log_odds, log_probability = posteriors_and_odds(scores, truth, best)
        self._log_loss -= float(weight @ np.maximum(log_probability, LEAST_LOG_PROBABILITY))
        ranks = np.zeros(N_RANKS + 1)
        sums = (_INNER_EDGES, self._calibration, ranks)
        self._squared_error += judge_rows(scores, probabilities, truth, weight, *sums)
        self._ranks += ranks[:N_RANKS]
        return log_odds

    def _reindex(self, classes: Labels) -> None:
        """Add classes. No row so far is of a new class, and all of them give it the probability 0."""
        if len(classes) == len(self.classes):
            self.classes = classes
            return
        old, here = copy(self), np.searchsorted(classes, self.classes)
        self._allocate(len(classes))
        self._calibration[:, WEIGHT, 0] = old.weight
        self._confusion[np.ix_(here, here)] = old._confusion
        self._calibration[here] = old._calibration
        self._squared_weights[here] = old._squared_weights
        self._sets[:, here] = old._sets
        never = (np.full(1, -np.inf), np.zeros(1, bool), np.full(1, old.weight))
        for histogram in self._scores if self.n_rows else ():
            histogram.add(*never)
        for k, histogram in zip(here.tolist(), old._scores, strict=True):
            histogram.limit(most_exact(len(classes)))
            self._scores[k] = histogram
        self.classes = classes

    # ------------------------------------------------------------------ merging

    def merge(self, other: Evaluation) -> Self:
        """Add the rows of another evaluation, which is not changed.

        Raises
        ------
        ValueError
            If the labels of the two are of different kinds, or their positive classes differ.
        """
        other = other.copy()
        with self._changing() as draft:
            ours, theirs = draft.pos_label, other.pos_label
            if None not in (ours, theirs) and ours != theirs:
                raise ValueError(f"positive classes differ: {ours!r} and {theirs!r}")
            draft.pos_label = theirs if ours is None else ours
            classes = labels.union(draft.classes, other.classes)
            for evaluation in (draft, other):
                evaluation._reindex(classes)
            for name in (*_WEIGHTED_SUMS, "_squared_weights", "n_rows", "n_dropped"):
                vars(draft)[name] += vars(other)[name]
            for ours, theirs in zip(draft._scores, other._scores, strict=True):
                ours.merge(theirs)
            draft._is_weighted |= other._is_weighted
        return self

    def __add__(self, other: object) -> Evaluation:
        return self.copy().merge(other) if isinstance(other, Evaluation) else NotImplemented

    def __radd__(self, other: object) -> Evaluation:
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Whether all sums are equal, to the last bit."""
        if not isinstance(other, Evaluation):
            return NotImplemented
        ours, theirs = self.__getstate__(), other.__getstate__()
        return all(np.array_equal(ours[name], theirs[name]) for name in ours)

    def decay(self, factor: float) -> Self:
        """Multiply the weights of the rows so far by a factor in [0, 1]. `n_rows` does not change.

        Examples
        --------
        >>> import numpy as np
        >>> from streamgda import Evaluation
        >>> evaluation = Evaluation().update(["a", "b"], np.log([[0.9, 0.1], [0.8, 0.2]]), ["a", "b"])
        >>> evaluation.decay(0.5).update(["b"], np.log([[0.3, 0.7]]), ["a", "b"]).accuracy
        0.75
        """
        if not isinstance(factor, int | float | np.number) or not 0 <= factor <= 1:
            raise ValueError(f"factor must be from 0 to 1; got {factor!r}")
        with self._changing() as draft:
            for name in _WEIGHTED_SUMS:
                vars(draft)[name] *= factor
            draft._squared_weights *= factor**2
            for histogram in draft._scores:
                histogram.scale(factor)
            draft._is_weighted = True
        return self

    # ------------------------------------------------------------------ saved

    @holding_locks
    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        n_classes = len(self.classes)
        odds, weights = np.empty((2, n_classes), dtype=object)
        for k, histogram in enumerate(self._scores):
            odds[k], weights[k] = histogram.odds, histogram.weights.ravel()
        calibration = self._calibration.reshape(n_classes, 3 * N_TENTHS)
        columns = {"label": self.classes, "confusion": self._confusion, "calibration": calibration}
        document = {**{name: getattr(self, name) for name in _PLAIN}, "losses": self._losses}
        document |= {"loss_weight": self._loss_weight, "ranks": self._ranks, "pos_label": self.pos_label}
        if self._is_weighted:
            document["squared_weights"] = self._squared_weights
        if self._sets.any():
            document["sets"] = self._sets
        return {**columns, "odds": odds, "odds_weights": weights}, {"kind": "Evaluation", **document}

    @classmethod
    def _from_saved(cls, columns: dict[str, Any], document: dict[str, Any]) -> Self:
        evaluation, n_classes = cls(), len(columns["label"])
        evaluation.classes = labels.as_labels(columns["label"])
        _check_saved(columns, n_classes)
        evaluation._allocate(n_classes)
        for k in range(n_classes):
            evaluation._confusion[k] = columns["confusion"][k]
            evaluation._calibration[k] = columns["calibration"][k].reshape(3, -1)
            weights = columns["odds_weights"][k].reshape(2, -1).copy()
            evaluation._scores[k] = ScoreHistogram(most_exact(n_classes), columns["odds"][k], weights)
        for name in _PLAIN:
            kind, value = type(getattr(evaluation, name)), document[name]
            if type(value) not in {kind, int} or not 0 <= value < np.inf:
                raise ValueError(f"{name} is {value!r:.40}")
            setattr(evaluation, name, kind(value))
        evaluation._losses += document.get("losses", np.inf)
        evaluation._loss_weight = float(document.get("loss_weight", evaluation.weight))  # 0.2 has all rows
        evaluation._ranks += document.get("ranks", np.inf)
        sums = np.array([*evaluation._losses, *evaluation._ranks, evaluation._loss_weight])
        if not (sums >= 0).all():
            raise ValueError("its losses, or its ranks, are negative")
        evaluation.pos_label = document.get("pos_label")
        if not evaluation._is_weighted and evaluation.weight != evaluation.n_rows:
            raise ValueError(f"it is of {evaluation.n_rows:,} rows, and counts {evaluation.weight:,.0f}")
        rows = evaluation._confusion.sum(axis=1)
        equal = rows * (rows.sum() / max(1, evaluation.n_rows)) if evaluation._is_weighted else rows
        squares = np.array(document.get("squared_weights", equal), np.float64)
        if squares.shape != rows.shape or not _are_weights(squares):
            raise ValueError("its squared weights are of no rows")
        evaluation._squared_weights = squares
        of_sets = np.array(document.get("sets", evaluation._sets), np.float64)
        if of_sets.shape != evaluation._sets.shape or not _are_weights(of_sets):
            raise ValueError("its sets are of no rows")
        evaluation._sets = of_sets
        return evaluation


def _of_sample(start: int, weight: Array, share: float) -> Array:
    """The weights of rows from a number on, of which a share is chosen; those of the others are 0.

    Multiples of 2⁶⁴ / φ modulo 2⁶⁴ lie evenly among any rows that follow each other, also in steps.
    """
    if share == 1:
        return weight
    hashed = np.arange(start, start + len(weight), dtype=np.uint64) * _GOLDEN
    return np.where(hashed < share * 2.0**64, weight / (share or 1), 0.0)


def _of_sets(in_set: NDArray[np.bool_], truth: NDArray[np.intp]) -> Array:
    """Whether the set of each row holds its class, the size of the set, and 1: (3, n)."""
    held = in_set[np.arange(len(truth)), truth]
    return np.array([held, in_set.sum(axis=1), np.ones(len(truth))], dtype=np.float64)


def _check_saved(columns: dict[str, Any], n_classes: int) -> None:
    """Check the columns of a file before memory for as many classes is allocated."""
    if (columns["label"][1:] <= columns["label"][:-1]).any():
        raise ValueError("its labels are not sorted, or one stands twice")
    for k in range(n_classes):
        odds = LOWER_EDGES if columns["odds"][k] is None else columns["odds"][k]
        lengths = {"confusion": n_classes, "calibration": 3 * N_TENTHS, "odds_weights": 2 * len(odds)}
        for name, length in lengths.items():
            if len(columns[name][k]) != length or not _are_weights(columns[name][k]):
                raise ValueError(f"its {name} are not {length:,} weights for each class")
        if np.isnan(odds).any() or not (odds[1:] > odds[:-1]).all():
            raise ValueError("its odds are not sorted")


def _are_weights(values: Array) -> bool:
    return bool(((values >= 0) & (values < np.inf)).all())


def _check_logarithms(scores: Array) -> None:
    sums = scores.sum(axis=1)
    if scores.size > len(scores) and scores.min() >= 0 and np.allclose(sums, 1, rtol=0, atol=1e-5):
        raise ValueError(
            "scores are logarithms of probabilities, and these rows are probabilities: they sum to one. Pass "
            "predict_log_proba(X), or np.log of them"
        )


def check_each_once(classes: Labels) -> None:
    """ValueError if a label stands twice among sorted ones."""
    if len(twice := classes[1:][classes[1:] == classes[:-1]]):
        raise ValueError(f"class {named(twice[0])} stands twice in classes")


def _with_unknown(scores: Array, here: NDArray[np.intp], n_classes: int) -> Array:
    """Scores with a column for each class; −inf for a class that the model does not know."""
    if len(here) == n_classes:
        return scores
    result = np.full((len(scores), n_classes), -np.inf)
    result[:, here] = scores
    return result
