"""The sorts of statistics: the empty state of each, and the state that a saved table holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, reduce
from itertools import accumulate, pairwise
from operator import add
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, cast

from streamgda.data.blocks.labels import PARTS
from streamgda.data.storage.documents import SENSELESS, Metadata, TableColumns
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import kind_named
from streamgda.statistics.missing import MissingRows, policy_of
from streamgda.statistics.registry import STATISTICS
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RowRule, rule_in
from streamgda.statistics.validation import as_count, as_feature_names, check_feature_names

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = frozenset(
    {
        *("pattern", *PARTS, "count", "weight", "weight_tail", "squared_weight"),
        *("mean", "mean_tail", "scatter", "pooled_scatter"),
        *("third_moment", "fourth_moment", "weight_digits", "squared_weight_digits"),
        *("sum_digits", "outer_sum_digits", "pooled_outer_sum_digits"),
        *("fold", "document", "table"),
        *("leaf_step", "leaf_weight", "pair_step", "pair_weight"),
    }
)
"""The columns of every kind, as `streamgda.data.storage` describes them."""

_READ_BY = {kind: f", which {kind}.load reads" for kind in ("Evaluation", "WindowedStatistics")}
_MOST_UNSEEN = 1 << 23  # numbers that a scatter may have though the columns of a file hold fewer


def empty_statistics(
    required: Required,
    *,
    missing: MissingRows = "raise",
    feature_names: Sequence[str] | None = None,
    rule: RowRule | None = None,
) -> Statistics:
    """The state that has seen no rows.

    Parameters
    ----------
    required : Required
        What is to be kept of the rows.
    feature_names
        As for `ClassStatistics`.
    rule : RowRule, optional
        The rule that gives rows their class.
    missing : {"raise", "marginal"} or Marginal, default="raise"
        Whether rows may lack features, as those of `IncompleteStatistics`.

    Raises
    ------
    ValueError
        If the covariance type is unknown, or no statistics keep all that is required.
    """
    empty = _kind("ExactClassStatistics" if required.exact else "ClassStatistics").empty(
        required, feature_names
    )
    if missing != "raise":
        empty = policy_of(missing).taking(empty)
    if rule is not None:
        if not hasattr(rule, "check_same"):
            raise TypeError(
                "rule divides or maps the rows of each class; that of a fitted model is "
                f"model.statistics_.rule; got {type(rule).__name__}"
            )
        if hasattr(rule, "empty"):  # it has a state of its own
            if missing != "raise":
                raise ValueError(f"{rule!r} takes complete rows; set missing='raise'")
            return cast("Statistics", rule.empty(required))
        empty.rule = rule
    return empty


def state_of(table: pa.Table, metadata: Metadata, path: str) -> Statistics:
    """The statistics that a table holds; of folds, those of all rows.

    Parameters
    ----------
    table, metadata
        As `streamgda.data.storage.tables.read_table` returns them.
    path : str
        The name of the file in errors.

    Raises
    ------
    ValueError
        If the kind is not known, or no rows have such statistics.
    """
    if metadata.get("kind") == "FoldStatistics":
        with _making_sense(path):
            states = states_of_folds(table, metadata, path)
            if not states:
                raise ValueError("there are folds and no rows")
            total = reduce(add, states.values())
            total._n_dropped += as_count(metadata["n_dropped"], "n_dropped")
            return total
    if str(metadata.get("kind")) not in STATISTICS:
        raise ValueError(
            f"{path} holds no statistics and no model that this version of streamgda knows: its kind is "
            f"{metadata.get('kind')!r}" + _READ_BY.get(str(metadata.get("kind")), "")
        )
    from streamgda.data.storage.tables import from_arrow

    kind = _kind(str(metadata["kind"]))
    with _making_sense(path):
        n_patterns = len(metadata["patterns"]) if "patterns" in metadata else None
        columns = from_arrow(table, n_patterns)
        if not n_patterns:  # each pattern says which features it has
            _check_features(columns, metadata)
        return kind.from_columns(columns, metadata)


def states_of_folds(table: pa.Table, metadata: Metadata, path: str) -> dict[Any, Statistics]:
    """The statistics of each fold that a table of a ledger holds; errors are those of `state_of`."""
    import pyarrow as pa

    rule = rule_in(metadata)
    of_all = {} if rule is None else {rule.saved_as: rule}
    return {
        row["fold"]: state_of(
            pa.ipc.open_stream(row["table"]).read_all(), {**json.loads(row["document"]), **of_all}, path
        )
        for row in table.select(["fold", "document", "table"]).to_pylist()
    }


def states_of(
    table: pa.Table, documents: Sequence[Metadata], lengths: Sequence[int], path: str
) -> Iterator[tuple[int, Any]]:
    """The statistics in a table in which those of several states stand one below the other.

    A state, or the `JoinedStates` of several, is yielded with the number of the states. The first is a state.

    Parameters
    ----------
    table : pa.Table
        The rows of all the states.
    documents : sequence of mappings
        The metadata of each state.
    lengths : sequence of int
        How many rows each has.
    path : str
        The name of the file in errors, which are those of `state_of`.
    """
    from streamgda.data.storage.tables import from_arrow

    first, has_pooled = documents[0], "pooled_scatter" in table.column_names
    ends = list(accumulate(lengths, initial=0))
    are_alike = all({**one, "n_dropped": 0} == {**first, "n_dropped": 0} for one in documents)
    are_many = len(documents) > 1 and all(lengths)
    if first.get("kind") == "ClassStatistics" and are_many and are_alike and not has_pooled:
        with _making_sense(path):
            columns = from_arrow(table)
            _check_features(columns, first)
            dropped = [as_count(one["n_dropped"], "n_dropped") for one in documents]
            of_first = {name: values[: lengths[0]] for name, values in columns.items()}
            state: Any = _kind("ClassStatistics").from_columns(of_first, first)
            yield 1, state
            yield len(documents) - 1, state.joined(columns, ends[1:], dropped[1:])
        return
    for document, (start, stop) in zip(documents, pairwise(ends), strict=True):
        yield 1, state_of(table.slice(start, stop - start), document, path)


@contextmanager
def _making_sense(path: str) -> Iterator[None]:
    """Name the file in errors of using what it holds."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} is damaged: its metadata has no {error}") from error
    except MemoryError as error:
        raise ValueError(f"{path} is damaged or too large for the memory: {error}") from error
    except SENSELESS as error:
        raise ValueError(f"{path} is damaged or not consistent: {error}") from error


def _check_features(columns: TableColumns, metadata: Metadata) -> None:
    """Check that a file can have as many features as it claims, before memory for them is allocated.

    Without rows, only the feature names tell how many there are.
    """
    n_features = as_count(metadata["n_features"], "n_features")
    names = as_feature_names(metadata["feature_names"])
    n_classes = len(columns.get("label", ()))
    if names is not None and not n_classes:
        check_feature_names(names, n_features)
        return
    n_held = sum(values.size for values in columns.values())
    kind = kind_named(metadata["covariance_type"])
    n_needed = _kind(str(metadata["kind"])).n_numbers(kind, max(1, n_classes), n_features)
    if n_needed > max(_MOST_UNSEEN, 2 * n_held):  # of a symmetric matrix, half is held
        raise ValueError(f"its columns hold {n_held:,} numbers, too few for {n_features:,} features")


@cache
def _kind(name: str) -> type[Statistics]:
    """The class of a sort of statistics, by its name."""
    kind: type[Statistics] = resolve_name(STATISTICS[name])
    return kind
