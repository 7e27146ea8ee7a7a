"""The rows that models are compared on: their folds, and the read that keeps a state for each fold.

Where only the number of folds is given, the fold of a row is a hash of its place or its group. So it does not
depend on how the rows are cut. Rows in memory are a source too, so that all kinds of data take the same code.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.validation import _num_samples

from streamgda.data.blocks import arrays
from streamgda.data.blocks.block import Block, FoldRule, Places, folds_of_groups, folds_of_rows, remedying
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import callers_level, check_known, counted, named
from streamgda.data.sources.base import Source
from streamgda.data.sources.columns.encoding import Encoding
from streamgda.data.sources.conversion import as_source, is_dask
from streamgda.data.sources.splits import Split
from streamgda.jobs.passes.accumulate import read_into
from streamgda.jobs.selection.candidates import (
    Candidate,
    check_have_likelihoods,
    common_encoding,
    statistics_for_all,
)
from streamgda.jobs.selection.scorings import LOG_LIKELIHOOD
from streamgda.models.estimators.reading import check_batch, check_no_name, encoded_columns
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.folded import FoldStatistics, StatesTogether
from streamgda.statistics.rules import RowRule

ALWAYS_TRAINING = -1  # rows of this fold are never held out, as in PredefinedSplit

_N_FOLDS = 5  # unless a number is given

_MOST_FOLDS = 1000

_LEARN = "let all candidates have missing='marginal', and learn from what is observed"


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
        folds = self.folds(_num_samples(X), groups)
        return (np.flatnonzero(folds == fold) for fold in range(self.n_splits))

    def folds(self, n_rows: int, groups: Any = None) -> NDArray[np.uint16]:
        """The fold of each row: shape (n_rows,)."""
        if groups is None:
            return folds_of_rows(np.arange(n_rows), self.n_splits)
        labels, codes = arrays.group_codes(groups, n_rows)
        return folds_of_groups(labels, self.n_splits)[codes]


def read_folds(
    candidates: Sequence[Candidate],
    scorings: Sequence[str],
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    cv: Any,
    groups: Any,
    fold: Any,
    **how: Any,
) -> tuple[list[FoldStatistics], Source | None, int]:
    """The states of folds of each candidate, the source, and how many times it was read.

    `X` may be states already. The other parameters are those of `StatisticsSearchCV` and its `fit`.

    Raises
    ------
    ValueError
        If a candidate has no densities, which "log_likelihood" needs; or if the rows need a second read to be
        scored, but can be read only once.
    """
    check_have_likelihoods(candidates, scorings)
    if isinstance(X, FoldStatistics):
        given = {"y": y, "sample_weight": sample_weight, "groups": groups, "fold": fold}
        if unused := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"FoldStatistics hold labels, weights and folds already; leave out {unused[0]}")
        return [X.copy()] * len(candidates), None, 0
    source, rule = with_folds(candidates, X, y, sample_weight, cv, groups, fold)
    if source.is_one_shot and _scores_rows(candidates, scorings):
        raise ValueError(
            f"{source!r} can be read once, and these scores take a second read: scan a table, a dataset or "
            "what the stream was made from; or score normal densities by 'log_likelihood'"
        )
    source = source.pinned()
    params = statistics_for_all(candidates)
    if source.missing_rows != "raise":
        _check_takes_rows(candidates, source)
    with remedying(_LEARN):
        rules, n_reads = _rules_for(candidates, source, how)
        if all(own is None for own in rules):
            state = read_into(source, FoldStatistics(empty_statistics(**params), rule), **how)
            return [state] * len(candidates), source, 1
        firsts = [next(i for i, one in enumerate(rules) if one == own) for own in rules]
        empties = {}
        for i in firsts:
            alike = [candidate for candidate, j in zip(candidates, firsts, strict=True) if j == i]
            own = {**statistics_for_all(alike), "missing": params["missing"]}
            empty = empty_statistics(**own, rule=rules[i])
            empties[i] = FoldStatistics(empty, rule)
        read = read_into(source, StatesTogether(list(empties.values())), **how)
    by_rule = dict(zip(empties, read.states, strict=True))
    return [by_rule[i] for i in firsts], source, n_reads + 1


def _rules_for(
    candidates: Sequence[Candidate], source: Source, how: Mapping[str, Any]
) -> tuple[list[RowRule | None], int]:
    """The rule of each candidate's statistics, and how many times the rows were read to find them."""
    rules: dict[int, RowRule | None] = {}
    total = 0
    for kind in {type(candidate.estimator): None for candidate in candidates}:
        own = [i for i, candidate in enumerate(candidates) if type(candidate.estimator) is kind]
        models = [candidates[i].estimator for i in own]
        of_kind, n_reads = kind.rules_for(
            models, partial(read_into, source, **how), source, how.get("scheduler")
        )
        rules |= dict(zip(own, of_kind, strict=True))
        total += n_reads
    return [rules[i] for i in range(len(candidates))], total


def _scores_rows(candidates: Sequence[Candidate], scorings: Sequence[str]) -> bool:
    """Whether scoring the candidates needs the rows, not only the states of the folds."""
    if list(scorings) != [LOG_LIKELIHOOD]:
        return True
    models = [candidate.estimator for candidate in candidates]
    return any(model.divides_rows or model.predictive != "plugin" for model in models)


def _check_takes_rows(candidates: Sequence[Candidate], source: Source) -> None:
    """Raise ValueError if a candidate cannot learn from rows of a source in which features are missing."""
    for candidate in candidates:
        if candidate.estimator.missing == "raise":
            raise ValueError(
                f"{source!r} keeps rows that lack features, of which "
                f"{type(candidate.estimator).__name__} with missing='raise' learns nothing: "
                f"{_LEARN}; or leave them out, with missing='drop'"
            )


def with_folds(
    candidates: Sequence[Candidate], X: Any, y: Any, sample_weight: Any, cv: Any, groups: Any, fold: Any
) -> tuple[Source, FoldRule]:
    """The source of the rows, with the column that names groups or folds, and the rule of their folds.

    Raises
    ------
    ValueError
        If groups and folds are both given, `cv` is neither a number nor a splitter, or candidates want other
        columns as categories.
    TypeError
        If a splitter is given with rows that are not in memory.
    """
    if groups is not None and fold is not None:
        raise ValueError("give groups or fold, not both: a column of folds needs no groups")
    if fold is not None and _number_of_folds(cv) != _N_FOLDS:
        raise ValueError(f"give cv or fold, not both: fold names those that there are; got cv={_shown(cv)}")
    column = fold if groups is None else groups
    rows = partial(source_of, X, y, sample_weight, encoding=common_encoding(candidates, X))
    n_folds = None if fold is not None else _number_of_folds(cv)
    if n_folds is None and fold is None:
        return rows(_folds_by_splitter(cv, X, y, groups)), FoldRule(None, "cv")
    if isinstance(column, str):
        return rows().with_groups(column), FoldRule(n_folds, column)
    if column is None:
        return rows(), FoldRule(n_folds)
    return rows(column), FoldRule(n_folds, "groups")


def _number_of_folds(cv: Any) -> int | None:
    """The number of hashed folds; None for a splitter of another kind."""
    if cv is None:
        return _N_FOLDS
    if isinstance(cv, HashedKFold):
        return int(cv.n_splits)
    if isinstance(cv, int | np.integer) and type(cv) is not bool:
        if cv < 2:
            raise ValueError(f"at least 2 folds are needed; got cv={cv}")
        return int(cv)
    if hasattr(cv, "get_n_splits"):
        return None
    raise ValueError(f"cv must be a number of folds or a splitter of scikit-learn; got {_shown(cv)}")


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
    folds = np.full(_num_samples(X), ALWAYS_TRAINING)
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
            stacklevel=callers_level(),
        )


def _rows_of_classes(statistics: FoldStatistics) -> dict[Any, dict[Any, int]]:
    """How many rows of each class, by label, are in each fold that has the class."""
    rows_by_fold: dict[Any, dict[Any, int]] = {}
    for fold in statistics.folds:
        state = statistics[fold]
        for label, count in zip(state.classes.tolist(), state.counts.tolist(), strict=True):
            rows_by_fold.setdefault(label, {})[fold] = count
    return rows_by_fold


class ArraySource(Source):
    """Rows of an array or a data frame, with their labels, weights and groups."""

    is_local = True

    def __init__(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, encoding: Encoding | None = None
    ) -> None:
        if y is None:
            raise ValueError("models are compared on labelled rows, but the target y is None")
        X = arrays.with_places(arrays.as_table(X))
        check_batch(X)
        check_no_name(y)
        if not arrays.columns_of_other_types(X):
            arrays.readable(X)
        self.rows, self.labels, self.weights, self.groups = X, y, sample_weight, groups
        self.encoding = encoding

    def __repr__(self) -> str:
        return f"<rows in memory: {_num_samples(self.rows)}>"

    def with_groups(self, column: str) -> ArraySource:
        """The same rows, grouped by a column of the frame. This column is then not a feature."""
        if self.groups is not None:
            return self
        names = arrays.column_labels(self.rows) or []
        check_known([column], names, repr(self))
        rest = arrays.with_columns(self.rows, [name for name in names if name != column])
        return ArraySource(rest, self.labels, self.weights, np.asarray(self.rows[column]), self.encoding)

    def blocks(self, start: int = 0, among: Labels | None = None) -> Iterator[Block]:
        """Cut the rows, which are numbered from `start`, into blocks."""
        made, places = encoded_columns(self.rows, self.encoding), Places(start=start)
        names = None if made is None else made.schema.feature_names
        rows = self.rows if made is None else made
        return arrays.array_blocks(
            rows, self.labels, self.weights, names, groups=self.groups, places=places, among=among
        )

    def splits(self) -> list[Split]:
        """All the rows."""
        return [_Rows(self)]


class _Rows(Split):
    """All the rows of a source in memory."""

    def __init__(self, source: ArraySource) -> None:
        self._source, self.n_rows = source, _num_samples(source.rows)

    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Cut the rows into blocks."""
        return self._source.blocks(among=among)


def source_of(
    X: Any, y: Any, sample_weight: Any, groups: Any = None, *, encoding: Encoding | None = None
) -> Source:
    """Return a source unchanged; make a source of a Dask collection or of rows in memory.

    Raises
    ------
    ValueError
        If labels are missing, or groups are given as an array beside a source.
    """
    if not isinstance(X, Source) and not is_dask(X):
        return ArraySource(X, y, sample_weight, groups, encoding)
    if groups is not None:
        raise ValueError("groups and folds of a source are the name of one of its columns, and not an array")
    return as_source(X, y, sample_weight, encoding=encoding)
