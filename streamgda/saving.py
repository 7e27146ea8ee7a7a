"""States that can be written to a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from typing import Any

from numpy.typing import NDArray


class SavedAsTable(ABC):
    """A state that is written as a Parquet table, one row per class."""

    @abstractmethod
    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that is held: arrays with a row for each class, and, as plain values, what goes with them."""

    def save(self, path: str | PathLike[str], *, filesystem: Any = None) -> None:
        """Write the state as a Parquet table, which `load` reads back to the last bit.

        One row per class: DuckDB, Polars and pandas can read it; `streamgda.storage` says how.

        Parameters
        ----------
        path : str or path
            A file, or a URL such as "s3://bucket/state.parquet". What stands there is replaced.
        filesystem : pyarrow or fsspec filesystem, optional
            Where `path` is; found from `path` where not given.

        Raises
        ------
        OSError
            If it cannot be written. What stood there before is still there.

        Examples
        --------
        >>> import streamgda, tempfile
        >>> state = streamgda.ClassStatistics().update([[1.0], [3.0]], ["a", "a"])
        >>> path = f"{tempfile.mkdtemp()}/state.parquet"
        >>> state.save(path)
        >>> streamgda.load(path) == state
        True
        """
        from streamgda import tables

        columns, metadata = self.to_columns()
        tables.write(path, tables.to_arrow(columns), metadata, filesystem)
