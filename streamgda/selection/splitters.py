"""Which folds a user asks for: a number of folds, groups, a column, or a splitter of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator

from streamgda.blocks.arrays import group_codes
from streamgda.blocks.block import FoldRule, folds_of_groups, folds_of_rows
from streamgda.blocks.wording import counted, named
from streamgda.selection.arrays import source_of
from streamgda.sources.base import Source
from streamgda.statistics.folded import FoldStatistics

ALWAYS_TRAINING = -1  # rows of this fold are never held out, as in PredefinedSplit

_MOST_FOLDS = 1000


class HashedKFold(BaseCrossValidator):
    """The folds of `StatisticsSearchCV` as a splitter, for scikit-learn's functions.

    The fold of a row is a hash of its number, so rows keep their folds when others are appended. The
    sizes of folds are random. Their mean is n / n_splits for n rows. Their standard deviation is less than
    the square root of this mean. With `groups`, rows of one group share a fold.

    Parameters
    ----------
    n_splits : int, default=5
        The number of folds.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgda import HashedKFold
    >>> [test.tolist() for _, test in HashedKFold(2).split(np.zeros((6, 1)))]
    [[1, 3, 4, 5], [0, 2]]
    """

    def __init__(self, n_splits: int = 5) -> None:
        self.n_splits = n_splits

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[NDArray[Any]]:
        folds = self.folds(len(X), groups)
        return (np.flatnonzero(folds == fold) for fold in range(self.n_splits))

    def folds(self, n_rows: int, groups: Any = None) -> NDArray[np.uint16]:
        """The fold of each row: shape (n_rows,)."""
        if groups is None:
            return folds_of_rows(np.arange(n_rows), self.n_splits)
        labels, codes = group_codes(groups, n_rows)
        return folds_of_groups(labels, self.n_splits)[codes]


def is_leave_one_out(cv: Any) -> bool:
    """Whether rows are to be left out one by one."""
    return isinstance(cv, str) and cv == "loo"


def with_folds(
    X: Any, y: Any, sample_weight: Any, cv: Any, groups: Any, fold: Any
) -> tuple[Source, FoldRule]:
    """The source of some rows, with the column that names groups or folds, and the rule of their folds.

    Raises
    ------
    ValueError
        If groups and folds are both given, or `cv` is neither a number nor a splitter.
    TypeError
        If a splitter is given with rows that are not in memory.
    """
    if is_leave_one_out(cv) and not (groups is None and fold is None):
        raise ValueError("cv='loo' leaves out single rows, which groups and folds do not allow")
    if groups is not None and fold is not None:
        raise ValueError("give groups or fold, not both: a column of folds needs no groups")
    column = fold if groups is None else groups
    n_folds = None if fold is not None else _number_of_folds(cv)
    if n_folds is None and fold is None:
        return source_of(X, y, sample_weight, _folds_by_splitter(cv, X, y, groups)), FoldRule(None, "cv")
    if isinstance(column, str):
        return source_of(X, y, sample_weight).with_groups(column), FoldRule(n_folds, column)
    if column is None:
        return source_of(X, y, sample_weight), FoldRule(n_folds)
    return source_of(X, y, sample_weight, column), FoldRule(n_folds, "groups")


def _number_of_folds(cv: Any) -> int | None:
    """The number of hashed folds; None for a splitter of another kind."""
    if cv is None:
        return 5
    if isinstance(cv, HashedKFold):
        return int(cv.n_splits)
    if is_leave_one_out(cv):
        return 1
    if isinstance(cv, int | np.integer) and type(cv) is not bool:
        if cv < 2:
            raise ValueError(f"at least 2 folds are needed; got cv={cv}")
        return int(cv)
    if hasattr(cv, "get_n_splits"):
        return None
    raise ValueError(f"cv must be a number of folds, 'loo' or a splitter of scikit-learn; got {_shown(cv)}")


def _shown(cv: Any) -> str:
    """An invalid `cv` as shown in error messages: its value if the value is short, else its type."""
    if isinstance(cv, str | float | bool):
        return repr(cv)
    return f"a {type(cv).__name__}. If it holds indices of rows, name the fold of each row instead: fold=..."


def _folds_by_splitter(cv: Any, X: Any, y: Any, groups: Any) -> NDArray[np.int64]:
    """The fold of each row by a splitter, which must hold each row out at most once."""
    if isinstance(X, Source) or not hasattr(X, "__len__"):
        raise TypeError(
            f"{type(cv).__name__} needs rows in memory; of a source, name the column of folds: fold=..."
        )
    folds = np.full(len(X), ALWAYS_TRAINING)
    for number, (training, test) in enumerate(cv.split(X, y, groups)):
        if (folds[test] != ALWAYS_TRAINING).any() or len(training) + len(test) != len(folds):
            raise ValueError(
                f"{cv!r} holds a row out twice, or leaves rows out of both parts; states of folds need parts "
                "that are each held out once, as KFold makes them"
            )
        folds[test] = number
    return folds


def tested_folds(statistics: FoldStatistics) -> list[Any]:
    """The folds that are held out in turn, checked.

    Raises
    ------
    ValueError
        If a fold has no rows, there are fewer than two parts, or a training part lacks a class.
    """
    folds, rule = statistics.folds, statistics.rule
    if rule.n_folds is not None and len(folds) < rule.n_folds:
        empty = next(fold for fold in range(rule.n_folds) if fold not in folds)
        what = "rows" if rule.column is None else f"groups in {rule.column!r}"
        remedy = "" if rule.column is None else f", or let each group be a fold: fold={rule.column!r}"
        raise ValueError(f"fold {empty} of {rule.n_folds} has no rows: there are too few {what}{remedy}")
    if len(folds) > _MOST_FOLDS:
        raise ValueError(
            f"column {rule.column!r} names {len(folds):,} folds, of which each needs a state; give groups= "
            "to hash its values to a few folds"
        )
    tested = [fold for fold in folds if fold != ALWAYS_TRAINING or isinstance(fold, bool)]
    if len(folds) < 2 or not tested:
        raise ValueError(f"at least two folds are needed; column {rule.column!r} has {folds}")
    _check_classes(statistics, tested)
    return tested


def _check_classes(statistics: FoldStatistics, tested: list[Any]) -> None:
    """Raise ValueError if all rows of a class are in one held-out fold; warn if it has few rows."""
    rows_by_fold = _rows_of_classes(statistics)
    for label, rows in rows_by_fold.items():
        fold, *others = rows
        if not others and fold in tested:
            raise ValueError(
                f"class {named(label)}: fold {fold!s} holds all of it ({counted(rows[fold], 'row')}), so "
                "the training part of that fold lacks the class. Bring more rows of it, leave it out, or "
                "name the folds"
            )
    n_rows = {label: sum(rows.values()) for label, rows in rows_by_fold.items()}
    label, least = min(n_rows.items(), key=itemgetter(1))
    if least < len(tested):
        warnings.warn(
            f"class {named(label)} has {counted(least, 'row')}, fewer than the {len(tested)} folds, so "
            "some folds hold none",
            stacklevel=5,
        )


def _rows_of_classes(statistics: FoldStatistics) -> dict[Any, dict[Any, int]]:
    """How many rows of each class, by label, are in each fold that has the class."""
    found: dict[Any, dict[Any, int]] = {}
    for fold in statistics.folds:
        state = statistics[fold]
        for label, count in zip(state.classes.tolist(), state.counts.tolist(), strict=True):
            found.setdefault(label, {})[fold] = count
    return found
