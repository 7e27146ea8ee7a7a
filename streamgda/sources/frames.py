"""Frames in memory whose columns have categories, as columns of numbers and codes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamgda.blocks.arrays import library_of
from streamgda.blocks.categories import Categories, MixedColumns
from streamgda.blocks.wording import check_known
from streamgda.sources.batches import mixed_columns
from streamgda.sources.roles import CategoricalFeatures, Roles

_ORIGIN = "the frame"


def learnt_columns(frame: Any, wanted: CategoricalFeatures) -> MixedColumns | None:
    """The columns of a frame of pandas, Polars or Arrow to learn from; None if all are numbers.

    Parameters
    ----------
    frame : frame
        All its columns are features.
    wanted : "from_dtype", list of str, or None
        The features with categories, as for `scan_arrow`.

    Raises
    ------
    ValueError
        If a column can be no feature.
    """
    table = as_arrow(frame)
    schema = table.schema.remove_metadata()  # pandas's index in an Arrow table is a column as all others
    roles = Roles.choose(schema, _ORIGIN, target=None, missing="keep", categorical_features=wanted)
    return _columns_of(table, roles) if roles.categorical else None


def known_columns(frame: Any, categories: Categories) -> MixedColumns:
    """The columns of a frame that a model has learnt, with the categories that the frame has.

    Raises
    ------
    ValueError
        If there is no such column, or it cannot have its role.
    """
    table = as_arrow(frame)
    for name in categories.names:
        check_known(name, table.schema.names, _ORIGIN)
    return _columns_of(table, Roles(categories.names, None, None, "keep", categorical=categories.columns))


def as_arrow(frame: Any, origin: str = _ORIGIN) -> pa.Table:
    """A frame of pandas, Polars or Arrow as a table, without the index of a pandas frame.

    Raises
    ------
    ValueError
        If Arrow has no type for a column.
    """
    library = library_of(frame)
    try:
        if library == "pandas":
            return pa.Table.from_pandas(frame, preserve_index=False)
        if library == "pyarrow":
            return pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
        return pa.table(frame)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"{origin}: {error}") from error


def _columns_of(table: pa.Table, roles: Roles) -> MixedColumns:
    roles.check_types(table.schema, _ORIGIN)
    columns = {name: table.column(name).combine_chunks() for name in roles.features}
    return mixed_columns(columns, roles, _ORIGIN)
