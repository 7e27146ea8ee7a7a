"""What every source is, and what sources of files and those that can be scored are besides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeAlias

from streamgda.data.blocks.block import Missing
from streamgda.data.blocks.options import refusing_renamed
from streamgda.data.blocks.parts import Part
from streamgda.data.blocks.schema import is_time
from streamgda.data.blocks.wording import as_html, counted, listed
from streamgda.data.sources.splits import InputFile, Picklable, ScorableSplit, Split, total

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from streamgda.data.storage.filesystems import Storage


MapFunction: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Applies a function to each element, in order, as `map` does, and perhaps in other processes."""


class Source(Picklable, ABC):
    """Rows with a target, kept somewhere. Nothing but metadata is read until a pass is made."""

    feature_names: tuple[str, ...] | None = None
    encoded: tuple[str, ...] = ()  # the features that are not numbers
    missing: Missing = "raise"  # what becomes of rows in which something is missing
    is_local = False  # whether it can be read in this process only, as a stream can
    is_one_shot = False  # whether it can be read once only, as a RecordBatchReader can
    is_quick_to_show = False  # whether its number of rows and first rows are read in an instant

    maps: tuple[Any, ...] = ()
    """The transformers through which the features go, in order; see `map`."""

    beside: tuple[str, ...] = ("y", "weight")
    """The names of the columns of labels and weights."""

    parts: tuple[Part, ...] = ()
    """The parts of `split` that led to it, each a part of the one before; empty if it has all rows."""

    @property
    def before_maps(self) -> Source:
        """The source whose features go through the maps."""
        return self

    @property
    def computed(self) -> Mapping[str, Any]:
        """The features that are computed from columns, by their names; see `with_columns`."""
        return {}

    @property
    def n_features(self) -> int | None:
        """How many features a row has, where that is known before it is read."""
        return None if self.feature_names is None else len(self.feature_names)

    @property
    def missing_rows(self) -> Literal["raise", "marginal"]:
        """How rows in which features are missing are to be learnt."""
        return "marginal" if self.missing == "marginal" else "raise"

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns that are read: the features, the target and the weight.

        Features without names are one column "X" of lists, or the array of a Zarr group.
        """
        import pyarrow as pa

        first = self._first_rows()
        return pa.schema([]) if first is None else first.schema

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, by the footers of files; None where rows must be read to be counted.

        These are files other than Parquet, streams, Dask collections, and sources that leave rows out: by a
        filter, by ``missing="drop"``, or as a part of `split`, unless by files.
        """
        splits = () if self.is_one_shot else self.splits()
        if self.is_one_shot or not all(split.keeps_all_rows for split in splits):
            return None
        return total(split.n_rows for split in splits)

    def head(self, n: int = 5) -> pd.DataFrame:
        """The first rows of the columns of `schema`, as they are stored.

        One batch is read: the first that has rows. Of a Dask collection, a partition is computed.

        Parameters
        ----------
        n : int, default=5
            How many rows, at most.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ValueError
            If the source can be read only once.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from streamgda import scan_arrow
        >>> table = pa.table({"width": [1.0, 3.0, 8.0], "note": list("xyz"), "kind": ["a", "a", "b"]})
        >>> source = scan_arrow(table, "kind", features=["width"])
        >>> source.head(2)
           width kind
        0    1.0    a
        1    3.0    a
        >>> source.schema, source.n_rows
        (width: double
        kind: string, 3)
        """
        if self.is_one_shot:
            raise ValueError(f"{self!r} can be read once, and a look at its first rows would be that")
        schema, first = self.schema, self._first_rows()
        first = schema.empty_table() if first is None else first
        return first.slice(0, n).rename_columns(schema.names).to_pandas()

    def _first_rows(self) -> pa.Table | None:
        """The first batch that has rows; the last one if none has."""
        table = None
        for table in chain.from_iterable(split.tables() for split in self.first_splits()):
            if table.num_rows:
                break
        return table

    def first_splits(self) -> Iterator[Split]:
        """The same parts as `splits`, planned one after the other."""
        return iter(self.splits())

    def _repr_html_(self) -> str:
        import pandas as pd

        text, table = repr(self), None
        with suppress(OSError, ValueError):  # a pass tells of them
            if type(self).schema is not Source.schema:  # which reads rows
                schema = self.schema
                table = pd.DataFrame({"column": schema.names, "type": map(str, schema.types)})
                table["learnt as"] = list(map(self._learnt_as, schema))
            if self.is_quick_to_show and table is not None:
                first, n_rows = self.head(3), self.n_rows
                table["first rows"] = [", ".join(f"{one!s:.40}" for one in first[name]) for name in first]
                text += "" if n_rows is None else f"\n{counted(n_rows, 'row')}"
        return as_html(text, table)

    def _learnt_as(self, column: pa.Field) -> str:
        if column.name in self.beside:
            return ""
        if column.name in self.encoded:
            return "categories"
        many = "numbers" if any(word in str(column.type) for word in ("list<", "tensor")) else "number"
        return "days" if is_time(column.type) else many

    def pinned(self) -> Source:
        """The same source, whose later reads read the parts that the first one found, as one fit needs.

        A part that has changed since then raises an error when it is read.
        """
        return self if self.is_one_shot else PinnedSource(self)

    def has_changed(self, parts: Sequence[Any]) -> bool:
        """Whether the parts of the source are no longer these, in ways that reading them would not show."""
        return False

    @refusing_renamed
    def split(self, test: float = 0.2, *, by: str = "rows", random_state: int = 0) -> tuple[Self, Self]:
        """Divide the source into two, to learn from one and to test with the other.

        Nothing is read or copied here. A hash of its place says which part a row is in. So neither workers
        nor the order of files change it, and rows keep their part when files are added. The place is the
        number of the row in its file or Dask partition, and the path of the file below the folder of the
        dataset: the folder that is named, the one before the first wildcard of a pattern, or the one that all
        files of a list, a table or a pyarrow dataset share, since these name files alone. If the names of the
        last folders are ``key=value``, the one above them counts. A pass over a part reads what one over the
        source does, and leaves the other rows out.

        Parameters
        ----------
        test : float, default=0.2
            The share of the rows, files or values that are in the test part.
        by : {"rows", "files"} or the name of a column, default="rows"
            What is divided: rows, files, or the values of a column, whose rows stay together. A part by files
            does not open those of the other. A column, such as that of patients or days, is neither a feature
            nor the target.
        random_state : int, default=0
            Another number makes another division.

        Returns
        -------
        training, test : Source
            The two parts. They can be divided again, such as for validation, and do what the source does.

        Raises
        ------
        TypeError
            If the source has no files, or no columns with names, by which it is to be divided.
        ValueError
            If the share is not between 0 and 1. If there is no such column, or it has a role. If all files
            are in one part. If the source can be read only once.

        Examples
        --------
        >>> import numpy as np, pyarrow as pa
        >>> from streamgda import accumulate, scan_arrow
        >>> table = pa.table({"x": np.arange(1000.0), "kind": np.arange(1000) % 2})
        >>> training, test = scan_arrow(table, "kind").split(test=0.2)
        >>> accumulate(training, "diag").n_rows, accumulate(test, "diag").n_rows
        (808, 192)
        """
        if self.is_one_shot:
            raise ValueError(
                f"{self!r} can be read once, and two parts take two reads: scan what it was made from"
            )
        if by == "files" and not isinstance(self, FileSource):
            raise TypeError(f"{self!r} has no files to be split by; split it by='rows'")
        training, chosen = (Part(by, test, random_state, is_test) for is_test in (False, True))
        return self.with_part(training), self.with_part(chosen)

    def with_part(self, part: Part) -> Self:
        """One of the parts of `split`.

        Raises
        ------
        TypeError
            If the source cannot be divided so.
        """
        raise TypeError(f"{self!r} cannot be split by {part.by!r}")

    def with_groups(self, column: str) -> Self:
        """The same source with the values of a column beside the rows, in the `groups` of its blocks.

        Raises
        ------
        TypeError
            If the source cannot read another column.
        ValueError
            If there is no such column, or it has a role.
        """
        raise TypeError(f"{self!r} has no columns beside the features, the target and the weight")

    def with_features(self, names: Sequence[str]) -> Self:
        """The same source with some of its features, in this order.

        Raises
        ------
        ValueError
            If the source cannot choose among its features.
        """
        raise ValueError(
            f"{self!r} has other features, or another order; scan it with the features {list(names[:5])}"
        )

    def as_stored(self) -> Self:
        """The same source, whose columns that are not numbers come as they are stored, as a map takes them.

        Raises
        ------
        ValueError
            If the source cannot give them so.
        """
        raise ValueError(
            f"{self!r} has columns of text, {listed(self.encoded)}, and a map of it takes numbers; "
            "leave such columns out where it is scanned, or scan files or a table of Arrow"
        )

    def with_columns(self, **expressions: Any) -> Self:
        """The same source with features that are computed from its columns, such as dates.

        Parameters
        ----------
        **expressions : pyarrow.compute.Expression
            What each feature is, such as ``weekday=pc.day_of_week(pc.field("sold"))``. It may refer to all
            stored columns, also those that are no features. The feature of the same name is replaced; others
            come after the features there are.

        Raises
        ------
        TypeError
            If the source has no named columns.
        ValueError
            If an expression cannot be evaluated or makes no numbers, or the name is that of the target, the
            weight or the groups.

        Examples
        --------
        >>> import pyarrow as pa, pyarrow.compute as pc
        >>> from datetime import date
        >>> from streamgda import accumulate, scan_arrow
        >>> table = pa.table({"sold": [date(2026, 1, 5), date(2026, 1, 11)], "kind": [0, 1]})
        >>> source = scan_arrow(table.append_column("price", [[1.0, 10.0]]), "kind", features=["price"])
        >>> weekday = pc.day_of_week(pc.field("sold"))
        >>> source = source.with_columns(price=pc.log10(pc.field("price")), weekday=weekday)
        >>> accumulate(source, "diag").means
        array([[0., 0.],
               [1., 6.]])
        """
        raise TypeError(f"{self!r} has no columns with names; source.map takes functions of its features")

    def with_computed(self, referenced: Any, expressions: Mapping[str, Any]) -> Self:
        """The same source with the features of a pipeline, whose expressions refer to these columns."""
        return self.with_columns(**expressions)

    def with_dates(self, names: Collection[str]) -> Self:
        """The same source, which reads text in these columns as dates; unchanged if it has no columns."""
        return self

    @property
    def reads_keys(self) -> bool:
        """Whether labels or categories are keys of folders, or numbers in CSV."""
        return False

    def with_kinds_of(self, state: Any, *, together: bool = False) -> Self:
        """The same source, whose labels and categories in paths and in CSV are read as those of a state.

        With `together`, a key is read so only if all its values can be.
        """
        return self

    def in_order_of(self, names: Sequence[str]) -> Self:
        """The same source with its features in this order, if it has just these features; else unchanged."""
        ours = list(self.feature_names or ())
        return self.with_features(names) if ours != list(names) and sorted(ours) == sorted(names) else self

    @abstractmethod
    def splits(self) -> Sequence[Split]:
        """The parts of the source, in order. For the same data they are always the same.

        Parts that are cheap to read in one go are one split, up to `ROWS_PER_TASK` rows.
        """

    def planned(self, each: MapFunction = map) -> Sequence[Split]:
        """The same parts as `splits`. If many files must be opened for that, `each` opens them."""
        return self.splits()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Never:
        """Refuse to be an array, as scikit-learn's own estimators and searches would have it."""
        raise TypeError(
            f"{self!r} is a source, and rows in memory are needed here, as by scikit-learn's own classes. "
            "Sources are read by accumulate and by the fit of streamgda's estimators, which need no scaler. "
            "In place of a pipeline, source.map takes a fitted transformer. In place of train_test_split, "
            "GridSearchCV and cross_val_score there are source.split, StatisticsSearchCV and cross_validate"
        )

    def map(self, transformer: Any, features: Sequence[str] | None = None) -> Source:
        """The same source, whose features go through a transformer before they are used.

        Parameters
        ----------
        transformer : fitted transformer of scikit-learn, or callable
            Its `transform` is called with blocks of rows: an array (n_rows, n_features), or a pandas frame
            if the features have names. A function gets an array. It must answer each row by itself, whatever
            rows come with it. A transformer that was fitted to a frame is given the features of that frame,
            and other features of the source are not read. If some are text or categories, they come as they
            are stored, in a pandas frame; a vectorizer of texts gets those of the only feature. Sparse rows
            stay sparse, but come with their zeros to a function, and to a transformer that takes no others.
        features : sequence of str, optional
            The names of the features that it makes. By default those of its `get_feature_names_out`; a
            function needs them.

        Returns
        -------
        Source
            It can be scored by `predict_dataset` or refreshed by a `StatisticsLedger` if this source can. Its
            labels, weights and groups are those of this source, and so are its kept columns. A copy of the
            transformer is used, so that later fitting has no effect.

        Raises
        ------
        TypeError
            If it is no transformer and no function.
        ValueError
            If it is not fitted, or its features are not those of the source. When rows are read, if it makes
            another number of rows or features, or fails; such as for missing values, which few transformers
            take.
        AttributeError
            If the transformer does not tell the names of what it makes, and `features` is not given.

        Examples
        --------
        >>> import numpy as np, pyarrow as pa
        >>> from streamgda import accumulate, scan_arrow
        >>> source = scan_arrow(pa.table({"x": [1.0, 100.0, 10.0], "kind": [0, 0, 1]}), "kind")
        >>> accumulate(source.map(np.log10, features=["log x"]), "diag").means
        array([[1.],
               [1.]])
        """
        mapped: Source = resolve_name("streamgda.data.sources.maps.mapped:mapped")(
            self, transformer, features
        )
        return mapped


class WrappedSource(Source):
    """A source that reads another one."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.feature_names = source.feature_names

    def __repr__(self) -> str:
        return repr(self.source)

    n_features = property(attrgetter("source.n_features"))
    before_maps = property(attrgetter("source.before_maps"))
    missing = property(attrgetter("source.missing"))
    parts = property(attrgetter("source.parts"))
    beside = property(attrgetter("source.beside"))
    is_local = property(attrgetter("source.is_local"))
    is_one_shot = property(attrgetter("source.is_one_shot"))

    def splits(self) -> Sequence[Split]:
        """The parts of the source, in order."""
        return self.planned()


class PinnedSource(WrappedSource):
    """A source whose parts are those of its first read."""

    _parts: Sequence[Split] | None = None

    def planned(self, each: MapFunction = map) -> Sequence[Split]:
        """The parts that were there at the first call, in which `each` opens the files.

        Raises
        ------
        ValueError
            If the source has changed since.
        """
        if self._parts is None:
            self._parts = self.source.planned(each)
        elif self.source.has_changed(self._parts):
            raise ValueError(f"{self!r} has changed since the pass was planned; start the pass again")
        return self._parts


class FileSource(Source):
    """A source of files that come, change and go: what a `StatisticsLedger` can keep up with."""

    @abstractmethod
    def rescanned(self) -> Self:
        """The same source with the files that are there now."""

    def as_read(self, read_options: Mapping[str, Any]) -> Self:
        """The same source with the features that `read_options` name, unless it was made for other ones."""
        return self

    @property
    @abstractmethod
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, as plain values: two sources that read alike have the same."""

    @abstractmethod
    def files(self) -> list[InputFile]:
        """The files and their versions when they were listed, in order; no file is opened."""

    @abstractmethod
    def includes(self, storage: Storage, path: str) -> bool:
        """Whether a Parquet file written to a path would then be one of the files."""

    @abstractmethod
    def plans(self, files: Sequence[InputFile], each: MapFunction = map) -> list[InputFile]:
        """Some of the files, with what is to be read of them in the versions that were listed."""


class ScorableSource(Source):
    """A source that `predict_dataset` can read."""

    has_versions = True
    """Whether the identity of a split tells that its rows are still the same, as a checkpoint needs."""

    @abstractmethod
    def to_score(
        self, keep: Sequence[str], each: MapFunction = map
    ) -> tuple[Sequence[ScorableSplit], pa.Schema]:
        """The same parts to read without labels, and the types of the columns to keep beside the features.

        Each type holds the values of the column in all the parts. If many files must be opened, `each` opens
        them.

        Raises
        ------
        ValueError
            If a column is missing.
        """

    @abstractmethod
    def overlaps(self, storage: Storage, folder: str) -> bool:
        """Whether data of the source lies in a folder, or files written there would be read as data."""
