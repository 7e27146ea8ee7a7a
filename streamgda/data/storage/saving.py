"""Objects that are saved as one Parquet file, or as its bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from streamgda.data.storage.documents import SENSELESS
from streamgda.data.storage.paths import AnyFileSystem, Path

# `save` and `to_bytes` become methods of classes that have a method `_to_saved`, which returns the columns of
# the table and the plain values of the document.


def save(
    self: Any,
    path: Path,
    *,
    filesystem: AnyFileSystem | None = None,
    overwrite: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a Parquet file. `load` returns an equal object from it, to the last bit.

    The table has one row per class: DuckDB, Polars and pandas can read it, as `streamgda.data.storage`
    describes. Its metadata holds the parameters of a model, the version of this library, the time in UTC
    (that of the environment variable ``SOURCE_DATE_EPOCH``, if it is set), and a fingerprint of the sums.
    The file appears as a whole or not at all.

    Parameters
    ----------
    path : str or path
        A file, or a URL such as "s3://bucket/model.parquet". What was saved there before is replaced.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of `path`. If None, inferred from `path`.
    overwrite : bool, default=False
        Whether to replace also a file of any other kind, such as data.
    metadata : mapping, optional
        Plain values to keep in the file too, such as the offset of a stream. They are written together
        with the state, and `load_metadata` returns them.

    Raises
    ------
    ValueError
        If a file of another kind is there, and `overwrite` is False.
    OSError
        If the file cannot be written. A file that was there before is unchanged.
    TypeError
        If `load` does not know the class of a model, or if a value has a type that JSON lacks.

    Examples
    --------
    >>> import streamgda, tempfile
    >>> state = streamgda.ClassStatistics().update([[1.0], [3.0]], ["a", "a"])
    >>> path = f"{tempfile.mkdtemp()}/state.parquet"
    >>> state.save(path, metadata={"offset": 17})
    >>> streamgda.load(path) == state, streamgda.load_metadata(path)["metadata"]
    (True, {'offset': 17})
    """
    from streamgda.data.storage import tables

    columns, document = self._to_saved()
    tables.save_table(path, columns, {**document, **_with_metadata(metadata)}, filesystem, overwrite)


def to_bytes(self: Any, *, metadata: Mapping[str, Any] | None = None) -> bytes:
    """The bytes that `save` writes, without the time, so that equal objects have equal bytes.

    Parameters
    ----------
    metadata : mapping, optional
        As for `save`.

    Examples
    --------
    >>> import streamgda
    >>> state = streamgda.ClassStatistics().update([[1.0], [3.0]], ["a", "a"])
    >>> streamgda.from_bytes(state.to_bytes()) == state
    True
    """
    from streamgda.data.storage import tables

    columns, document = self._to_saved()
    return tables.to_bytes(columns, {**document, **_with_metadata(metadata)})


class Loadable(ABC):
    """An object that the class method `load` of its own class loads."""

    save = save
    to_bytes = to_bytes

    _kind: ClassVar[str]
    """What errors call such an object. In its file, `kind` is the name of the class."""

    _columns: ClassVar[frozenset[str]]
    """The columns of its table."""

    @classmethod
    @abstractmethod
    def _from_saved(cls, columns: dict[str, Any], document: dict[str, Any]) -> Self:
        """The object of these columns and document; KeyError, TypeError or ValueError if they are wrong."""

    @classmethod
    def load(cls, path: Path, *, filesystem: AnyFileSystem | None = None) -> Self:
        """Read what `save` wrote, to the last bit.

        Parameters
        ----------
        path, filesystem
            As for `load`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is damaged, or holds anything else.

        Examples
        --------
        >>> import numpy as np, tempfile
        >>> from streamgda import Evaluation
        >>> monday = Evaluation().update(["a", "b"], np.log([[0.9, 0.1], [0.2, 0.8]]), ["a", "b"])
        >>> path = f"{tempfile.mkdtemp()}/monday.parquet"
        >>> monday.save(path)
        >>> Evaluation.load(path) + monday
        Evaluation(classes=2, rows=4, accuracy=1)
        """
        return cls._read(path, filesystem)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The object whose `to_bytes` this is."""
        return cls._read(bytes(content), None)

    @classmethod
    def _read(cls, path: Path | bytes, filesystem: AnyFileSystem | None) -> Self:
        from streamgda.data.storage import tables

        table, document = tables.read_table(path, cls._columns, filesystem)
        name = tables.name_of(path)
        if document.get("kind") != cls.__name__:
            raise ValueError(f"{name} holds no {cls._kind}: its kind is {document.get('kind')!r}")
        try:
            return cls._from_saved(tables.from_arrow(table, n_patterns=1), document)
        except SENSELESS as error:
            raise ValueError(f"{name} is damaged or not consistent: {error}") from error


def _with_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if metadata is None else {"metadata": dict(metadata)}
