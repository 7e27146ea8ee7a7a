"""The rows that a model learns or scores: how they are checked, and how they are read.

Rows to score come first, then rows to learn. Checks that all of them need stand last.

Arrays are read in blocks, sources in passes, more than once if EM needs it. A model holds the simplest
statistics. So complete data gives the same statistics, files and speed whatever `missing` is.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from os import PathLike
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import (
    _check_n_features,
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from streamgda.data.blocks import arrays, labels, wording
from streamgda.data.blocks.block import FILL_IN, LEARN_INCOMPLETE, Block, Missing, check_missing, remedying
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.records import as_known_table, known_dates_as_days
from streamgda.data.blocks.schema import UNNAMED, Lists, MadeColumns
from streamgda.data.blocks.sparse import DENSE, SparseRows, is_sparse
from streamgda.data.blocks.wording import callers_level, counted
from streamgda.data.sources.base import Source
from streamgda.data.sources.batches import known_columns, learnt_columns
from streamgda.data.sources.columns.encoding import Encoding
from streamgda.data.sources.columns.lists import are_of_one_list
from streamgda.data.sources.conversion import as_source, is_dask
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.models.estimators import DEVICES, JOBS
from streamgda.models.estimators.dtypes import FittedTypes
from streamgda.models.estimators.libraries import in_numpy, lies_elsewhere
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.missing import Keep, MissingRows, Read, Reading

_PREDICT_INCOMPLETE = "let the model predict by the features that are there: set_params(missing='marginal')"

_LARGEST_INT = 1 << 53  # larger ones may be no float

_OR_PREDICTED = "; more rows than fit in memory are predicted by predict_dataset"

_LEARN_KEPT = (
    "set missing='marginal' for the model too, as the source keeps rows in which features are missing"
)


def one_of(*names: str) -> StrOptions:
    """The constraint of a parameter to some strings, which the message lists in this order."""
    return StrOptions(dict.fromkeys(names).keys())  # a set would list them in another order in each process


# ---------------------------------------------------------------------- rows to score


def remedy_to_predict(model: Any) -> str:
    """What a model may do about a missing value in a row to score."""
    return _PREDICT_INCOMPLETE if model._takes_missing else FILL_IN


def check_rows(
    model: Any,
    X: Any,
    *,
    missing: MissingRows | None = None,
    other_remedy: str | None = None,
    accept_sparse: bool = True,
    later: bool = False,
) -> Any:
    """Validate rows in memory, and return them as `score_rows` takes them: an array, or in CSR if sparse.

    Rows are of one of four kinds: columns of a table that the model has encoded, sparse rows, numbers that
    need no check but that they are finite, and all others, which scikit-learn validates.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : array-like of shape (n_rows, n_features)
        Rows.
    missing : {"raise", "marginal"} or Marginal, optional
        Whether NaN may mark a missing value. If None, the parameter of the model.
    other_remedy : str
        The remedy for a missing value besides leaving out such rows, in the terms of the caller; if None,
        what the model may do.
    accept_sparse : bool
        Whether the caller takes rows in CSR.
    later : bool
        Whether the caller checks later that values are finite, by a call without this.

    Raises
    ------
    ValueError
        If a value is infinite, or NaN and `missing` is "raise"; or if the features are not those of
        the model.
    TypeError
        If the rows are not in memory, or sparse where they must be dense.
    """
    missing = missing or model.missing
    if not isinstance(X, np.ndarray):
        if isinstance(X, dict | list) and (numbers := _numbers_of_records(model, X)) is not None:
            return numbers
        X = _in_memory(model, X, missing, other_remedy, accept_sparse=accept_sparse)
    check_has_learnt(model)
    schema = model.statistics_.schema_of_rows
    if not schema.is_numeric:
        X = _columns_of(model, arrays.with_places(X, schema)).encoded(schema)
        return _checked_values(model, partial(check_array, X, estimator=model), missing, other_remedy)
    if type(X) is not np.ndarray or X.dtype.kind == "O":
        if is_sparse(X):
            return _checked_sparse(model, X)
        X = _of_one_list(model, X)
    valid = _valid_rows(model, X)
    if valid is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            are_left = later and missing == "raise"
            if are_left or np.isfinite(valid.sum()) or (missing != "raise" and not np.isinf(valid).any()):
                return valid
    return _validated(model, X, missing, other_remedy)


def _validated_sparse(model: Any, X: Any, *, min_rows: int = 1) -> Any:
    """Sparse rows, which have no names of features, as scikit-learn takes them for a fitted model."""
    _check_n_features(model, X, reset=False)
    return check_array(
        X, accept_sparse="csr", estimator=model, ensure_all_finite=False, ensure_min_samples=min_rows
    )


def _in_memory(
    model: Any, X: Any, missing: MissingRows, other_remedy: str | None, *, accept_sparse: bool
) -> Any:
    """Rows as a frame, or an array of NumPy or SciPy; TypeError for those that are not in memory."""
    if lies_elsewhere(X):
        raise TypeError(
            "rows on a device are taken by fit, partial_fit and predictions; give them in NumPy here"
        )
    if isinstance(X, dict | list | tuple):
        X = _records(model, X, fills=missing != "raise", remedy=other_remedy or remedy_to_predict(model))
    else:
        X = in_numpy(X)
    check_batch(X, _OR_PREDICTED)
    if is_sparse(X) and not accept_sparse:
        raise TypeError(f"rows are needed here with their zeros; {DENSE}")
    return X


def _numbers_of_records(model: Any, X: dict[Any, Any] | list[Any]) -> NDArray[Any] | None:
    """The rows of dicts that hold a finite number for each feature and nothing else; None for all other rows.

    Services send such records one by one, and a table of them takes ten times as long to make.
    """
    check_has_learnt(model)
    rows, names = [X] if isinstance(X, dict) else X, getattr(model, "feature_names_in_", None)
    schema = model.statistics_.schema_of_rows
    if names is None or not schema.is_numeric or schema.dates or schema.lists:
        return None
    if not rows or any(type(row) is not dict or len(row) != len(names) for row in rows):
        return None
    with suppress(KeyError, OverflowError):
        values = [[row[name] for name in names.tolist()] for row in rows]
        kinds = set(map(type, chain.from_iterable(values)))
        if kinds <= {float, int}:
            numbers = np.array(values, np.float64)
            most = _LARGEST_INT if int in kinds else np.finfo(np.float64).max
            return numbers if np.abs(numbers).max() <= most else None  # nor NaN
    return None


def _checked_sparse(model: Any, X: Any) -> Any:
    """Sparse rows in CSR, validated by scikit-learn; errors name the first value that is not finite."""
    rows = SparseRows.of(_validated_sparse(model, X))
    if not np.isfinite(rows.csr.data).all():
        names = model.statistics_.schema_of_rows.feature_names
        block = Block(rows, np.zeros(1, np.int64), np.zeros(rows.n_rows, np.uint8), feature_names=names)
        block.raise_for_values(other_remedy=f"{DENSE}, and {remedy_to_predict(model)}")
    return rows.csr


def _records(model: Any, X: Any, *, fills: bool, remedy: str) -> Any:
    """Dicts as a table with the columns that a model has learnt."""
    check_has_learnt(model)
    return as_known_table(X, model.statistics_.schema_of_rows, fills=fills, remedy=remedy)


def _valid_rows(model: Any, X: Any) -> NDArray[Any] | None:
    """X as an array, if scikit-learn's `validate_data` is sure to accept it when its values are finite.

    None otherwise. For a single row, `validate_data` takes longer than all other steps of learning it.
    """
    names = getattr(model, "feature_names_in_", None)
    if type(X) is np.ndarray:
        is_plain = X.dtype.kind in "fiu" and X.ndim == 2
        is_known = names is None or are_of_one_list(model.statistics_.schema_of_rows)
        rows = X if is_plain and is_known else None
    else:
        dates = model.statistics_.schema_of_rows.dates  # which a frame of numbers alone does not hold
        is_known = names is not None and not dates and arrays.column_names(X) == tuple(names)
        rows = arrays.matrix_of(X) if is_known else None
    is_valid = rows is not None and len(rows) > 0 and rows.shape[1] == getattr(model, "n_features_in_", None)
    return rows if is_valid else None


def _validated(model: Any, X: Any, missing: MissingRows, other_remedy: str | None) -> NDArray[Any]:
    """The rows, validated by scikit-learn; errors name the first missing value."""
    X = _with_known_columns(model, arrays.with_places(X, model.statistics_.schema_of_rows))
    if arrays.column_labels(X) is not None:  # names first: a column that is no feature may have any type
        validate_data(model, X, reset=False, skip_check_array=True)
    X = arrays.readable(_without_sparse_columns(X))
    return _checked_values(model, partial(validate_data, model, X, reset=False), missing, other_remedy)


def _of_one_list(model: Any, X: Any) -> Any:
    """Rows as a matrix, if a model has learnt one column of lists and nothing else; else as they are."""
    known = model.statistics_.schema_of_rows
    if (type(X) is np.ndarray and X.dtype != object) or not are_of_one_list(known):
        return X
    return np.asarray(X) if isinstance(X, list | tuple) else arrays.with_places(X, known)


def _with_known_columns(model: Any, X: Any) -> Any:
    """A frame that scikit-learn can read: days for dates, and columns in the order of a model's features.

    A frame of pandas keeps its order: scikit-learn raises an error for another order of features.
    """
    names = None if arrays.library_of(X) == "pandas" else getattr(model, "feature_names_in_", None)
    return known_dates_as_days(arrays.in_order_of(X, names), model.statistics_.schema_of_rows)


def _checked_values(
    model: Any, validate: Callable[..., Any], missing: MissingRows, other_remedy: str | None
) -> NDArray[Any]:
    """The rows that scikit-learn has validated; errors name the first missing value."""
    with np.errstate(over="ignore", invalid="ignore"):  # in the sum
        rows: NDArray[Any] = validate(ensure_all_finite=False)
        if rows.dtype.kind == "O":  # such as from a list with None, or from Arrow's bools with nulls
            rows = arrays.real(rows, "X")
        if not np.isfinite(rows.sum()):
            if missing == "raise":
                _raise_for_missing(model, rows, other_remedy or remedy_to_predict(model))
            assert_all_finite(rows, allow_nan=True, estimator_name=type(model).__name__, input_name="X")
    return rows


def _raise_for_missing(model: Any, rows: NDArray[Any], other_remedy: str) -> None:
    """Raise a ValueError that names the first NaN, if there is one."""
    if np.isnan(rows).any():
        row, index = np.argwhere(np.isnan(rows))[0]
        names = model.statistics_.schema_of_rows.feature_names
        name = index if names is None else repr(names[index])
        raise ValueError(
            f"row {row}: feature {name} is NaN or null. Mend the data or leave out such rows; or "
            + other_remedy
        )


def _columns_of(model: Any, X: Any) -> MadeColumns:
    """The columns of a frame that a model has learnt; ValueError for rows without names."""
    schema = model.statistics_.schema_of_rows
    if arrays.column_labels(X) is None:
        raise ValueError(
            f"{type(model).__name__} has learnt more than numbers, so rows need the names of their columns, "
            f"{wording.listed(schema.names)}; give a frame"
        )
    return known_columns(known_dates_as_days(X, schema), schema)


# ---------------------------------------------------------------------- rows to learn


def blocks_to_learn(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    missing: Missing,
    announced: labels.Labels | None = None,
    reset: bool,
    min_rows: int = 1,
) -> Iterator[Block]:
    """Cut rows in memory into checked blocks. With `reset`, the model gets their features and types."""
    check_missing(missing)
    if isinstance(X, dict | list | tuple):
        fills = missing != "raise" or model.missing != "raise"
        remedy = LEARN_INCOMPLETE if model._takes_missing else FILL_IN
        X = arrays.as_table(X) if reset else _records(model, X, fills=fills, remedy=remedy)
    X = X if isinstance(X, np.ndarray) or lies_elsewhere(X) else in_numpy(X)
    y = y if isinstance(y, np.ndarray) else in_numpy(y)
    sample_weight = None if sample_weight is None else in_numpy(sample_weight)
    check_batch(X)
    if y is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but the target y is None")
    check_no_name(y)
    is_known = not reset and model.statistics_.schema_of_rows.is_numeric
    X = _of_one_list(model, X) if is_known else X
    rows: Any = _valid_rows(model, X) if is_known else None
    dates: tuple[str, ...] = ()
    if rows is None:
        dates = arrays.date_columns(X)
        rows = _checked_rows(model, X, reset=reset, min_rows=min_rows)
    elif model.exact:
        arrays.check_no_rounding(X)
    if getattr(y, "ndim", 1) != 1:
        y = column_or_1d(y, warn=True)
    if announced is not None:
        check_announced(labels.encode(y)[0], announced)
    is_made = not isinstance(rows, np.ndarray) and isinstance(rows, MadeColumns)
    names = rows.schema.feature_names if is_made else getattr(model, "feature_names_in_", None)
    names = None if names is None else tuple(names)
    lists: Lists = ()
    if reset:
        lists = arrays.list_columns(X, rows.schema.names if is_made else names)
        model._types = FittedTypes.of(rows, y)
    missing = missing if model.missing == "raise" else missing_for(model, missing)
    return arrays.array_blocks(rows, y, sample_weight, names, missing=missing, dates=dates, lists=lists)


def labels_of(y: Any) -> Any:
    """The labels of rows as models have learnt them; as they are on a device."""
    if lies_elsewhere(y):
        return y
    y = in_numpy(y)
    return labels.as_labels(y if getattr(y, "ndim", 1) == 1 else column_or_1d(y, warn=True))


def missing_for(model: Any, missing: Missing) -> Missing:
    """What becomes of incomplete rows: those without a label are left out if a model learns from the rest."""
    return "marginal" if missing == "raise" != model.missing else missing


def _checked_rows(model: Any, X: Any, *, reset: bool, min_rows: int) -> Any:
    """The rows as an array; or as made columns if they are sparse, on a device, or some have categories."""
    X = arrays.with_places(X, UNNAMED if reset else model.statistics_.schema_of_rows)
    if not reset and not model.statistics_.schema_of_rows.is_numeric:
        return _columns_of(model, X)
    made = encoded_columns(X, model._encoding) if reset else None
    if made is not None:
        return made
    if lies_elsewhere(X):
        return resolve_name(DEVICES["learn"])(model, X, reset=reset, min_rows=min_rows)
    how: dict[str, Any] = {"ensure_all_finite": False, "ensure_min_samples": min_rows}
    if is_sparse(X):
        check_plain(model, "sparse rows", DENSE)
        if not reset:
            return SparseRows.of(_validated_sparse(model, X, min_rows=min_rows))
        return SparseRows.of(validate_data(model, X, accept_sparse="csr", **how))
    X = _without_sparse_columns(X)
    X = arrays.readable(arrays.as_table(X) if reset else _with_known_columns(model, X))
    if model.exact:
        arrays.check_no_rounding(X)
    return validate_data(model, X, reset=reset, **how)


def _without_sparse_columns(X: Any) -> Any:
    """The rows; TypeError for a frame of pandas all of whose columns are sparse."""
    if arrays.column_types(X) and hasattr(X, "sparse"):
        raise TypeError(
            "all columns of the frame are sparse; give frame.sparse.to_coo(), rows without names whose zeros "
            "take no memory, or frame.sparse.to_dense()"
        )
    return X


def check_plain(model: Any, rows: str, remedy: str) -> None:
    """Raise ValueError, with the remedy, if a parameter of the model needs dense rows in NumPy."""
    if (usual := needs_dense(model)) is not None:
        raise ValueError(f"{rows} are learnt with {usual} alone; {remedy}")


def needs_dense(model: Any) -> str | None:
    """The default of a parameter whose value needs dense rows in NumPy; None if no value does."""
    usual = {"exact": False, "missing": "raise", "covariance_estimator": None}
    return next((f"{name}={value!r}" for name, value in usual.items() if getattr(model, name) != value), None)


def encoded_columns(X: Any, encoding: Encoding | None) -> MadeColumns | None:
    """The columns of a frame, of which some are encoded; None if all are numbers.

    Raises
    ------
    ValueError
        If columns are named and the rows are an array, or a column can be no feature.
    """
    if encoding is None:
        return None
    if encoding.by_name and arrays.column_labels(X) is None:
        raise ValueError(f"{encoding!r} names columns, and the rows are an array; give a frame")
    return learnt_columns(X, encoding) if encoding.by_name or arrays.columns_of_other_types(X) else None


def announced_labels(classes: ArrayLike, y: Any = None) -> labels.Labels:
    """The labels that a caller announces, sorted; ValueError for the weights of rows with labels y."""
    given = np.asarray(classes)
    is_by_row = given.ndim == 1 and len({*given.tolist()}) < len(given) and given.shape == np.shape(y)
    if is_by_row and not np.array_equal(given, y):
        raise ValueError("classes has a value for each row; weights of rows are given as sample_weight=")
    return np.unique(labels.as_labels(classes))


def check_announced(seen: labels.Labels, announced: labels.Labels | None) -> None:
    """Raise ValueError if a label is not among the classes that the caller announced."""
    if announced is None:
        return
    labels.union(seen, announced)  # raises if the two are labels of different kinds
    other = np.setdiff1d(seen, announced)
    if len(other):
        hint = "; weights of rows are given as sample_weight=" if len(other) == len(seen) else ""
        raise ValueError(
            f"The target label(s) {other} in y do not exist in the initial classes {announced}{hint}"
        )


def reading_blocks(blocks: Callable[[], Iterator[Block]]) -> Read:
    """A function that reads rows in memory, from blocks that are made anew for each read.

    Raises
    ------
    ValueError
        If all weights are zero.
    """

    def read(empty: Any) -> Any:
        state = empty.copy()
        state.update_blocks(blocks())
        if not state.n_rows:
            dropped = f", or it was dropped ({counted(state.n_dropped, 'row')})" if state.n_dropped else ""
            raise ValueError(f"every sample weight is zero{dropped}, so there is no row to learn from")
        return state

    return read


def source_to_learn(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    missing: Missing,
    scheduler: Scheduler,
    progress: Progress,
    names: Sequence[str] = (),
) -> Read:
    """A function that reads a source or a Dask collection: the features with these names, in this order."""
    missing = missing if isinstance(X, Source) else missing_for(model, missing)
    source = as_source(X, y, sample_weight, encoding=model._encoding, missing=missing)
    if names:
        source = source.with_dates(model.statistics_.schema_of_rows.dates).in_order_of(names)
        source = source.with_kinds_of(model.statistics_)
    source = source.pinned()
    model._prepare_for(source, scheduler)
    read = partial(resolve_name(JOBS["read"]), source, scheduler=scheduler, progress=progress)
    refuses = source.missing_rows != "raise" and model.missing == "raise" and model._takes_missing
    return remedying(_LEARN_KEPT)(read) if refuses else read


# ---------------------------------------------------------------------- a model while it reads


@contextmanager
def keeping_reads(hold: Callable[[Reading], object]) -> Iterator[Keep]:
    """Yield a function that takes the result of each read of EM; `hold` gets the last if a read fails."""
    last: deque[Reading] = deque(maxlen=1)
    try:
        yield last.append
    except BaseException as error:
        for reading in last:
            hold(reading)
            error.add_note(f"The result of {counted(reading.n_reads, 'read')} is kept in statistics_")
        raise


def note_read(line: str) -> None:
    """Show a line about one read of EM, above or below a progress bar."""
    from tqdm.auto import tqdm

    tqdm.write(line)


def warn_unless_enough_reads(reading: Reading) -> None:
    """Warn if more reads would give other statistics."""
    if reading.unfinished:
        warnings.warn(reading.unfinished, ConvergenceWarning, stacklevel=callers_level())


# ---------------------------------------------------------------------- what is needed first


def check_batch(X: Any, otherwise: str = arrays.OR_SCAN) -> None:
    """Raise TypeError for rows that are not in memory: a Dask collection, a source, a path or a lazy frame.

    `otherwise` is the second remedy for a lazy frame, in the terms of the caller.
    """
    if isinstance(X, np.ndarray):
        return
    if is_dask(X):
        raise TypeError("rows are needed here, in memory; a Dask collection goes to fit")
    if isinstance(X, Source):
        raise TypeError(
            "rows are needed here, in an array or a frame; a source goes to fit, partial_fit and accumulate, "
            "to evaluate in place of score, and to predict_dataset in place of predict; in place of "
            "calibrate, set_params(temperature=evaluate(...).best_temperature)"
        )
    if isinstance(X, str | PathLike):
        scan = "scan_zarr" if str(X).endswith(".zarr") else "scan"
        raise TypeError(f"rows or a source are needed, got the path {X}; {scan} makes a source of it")
    arrays.check_in_memory(X, otherwise)


def check_labelled(model: Any, method: str, X: Any, y: ArrayLike | None) -> ArrayLike:
    """The labels; without them TypeError for rows that are not in memory, and ValueError for others."""
    if y is None:
        check_batch(X)
        raise ValueError(f"{type(model).__name__}.{method} requires y, a label for each row")
    return y


def check_no_name(y: Any) -> None:
    """Raise ValueError for the name of a column where labels are needed."""
    if isinstance(y, str):
        raise ValueError(
            f"y is the labels, one for each row; got the string {y!r}. Of one row they are [{y!r}]; of a "
            f"frame with a column of this name, scan_arrow(frame, {y!r}) makes a source"
        )


def check_has_learnt(model: Any) -> None:
    """Raise NotFittedError for an estimator without statistics."""
    if "statistics_" not in model.__dict__:  # check_is_fitted takes as long as a small product of matrices
        check_is_fitted(model)


def too_few_classes(classes: Labels) -> ValueError:
    """The error for rows of one class or none."""
    seen = f"only 1 class: {wording.named(classes[0])}" if len(classes) else "none"
    return ValueError(
        f"The number of classes has to be greater than one. Got {len(classes)} class. "
        f"A classifier needs rows of at least two classes; the data has {seen}. A model of one class, "
        "which tells outliers, is learnt by partial_fit or made by from_statistics"
    )


def check_holds_products(statistics: Statistics, covariance_type: CovarianceType) -> None:
    """Raise ValueError if a model that needs covariances holds each feature by itself.

    This happens if the second read of EM in `fit` failed. The result of the first read is then kept.
    """
    if statistics.covariance_type == "diag" != covariance_type:
        raise ValueError(
            "statistics_ holds each feature by itself, without the covariances that the model needs: fit it "
            "again, or make a model of them with GaussianNB.from_statistics"
        )
