"""Maps: features go through a fitted transformer, block by block, before they are used.

A digest of the transformer and of all that its code reads tells maps apart. So states and predictions that
were made through another map are not reused for this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import Block, rows_per_block
from streamgda.data.blocks.sparse import SparseRows, is_sparse
from streamgda.data.blocks.wording import counted
from streamgda.data.sources.columns.stored import StoredColumns
from streamgda.data.storage.documents import digest

_RAISED_BY = "raised by the map"  # the first words of a note, which stays with an error of another process


def is_of_map(error: BaseException) -> bool:
    """Whether a transformer or function of the user raised this error."""
    return any(note.startswith(_RAISED_BY) for note in getattr(error, "__notes__", ()))


@dataclass(frozen=True)
class FeatureMap:
    """A fitted transformer, and the names of the features that it makes."""

    transformer: Any
    names: tuple[str, ...]

    @classmethod
    def of(cls, transformer: Any, names: Sequence[str] | None, source: Any) -> Self:
        """The map that a user gives for the features of a source.

        Raises
        ------
        TypeError, ValueError
            As `Source.map` does.
        """
        transformer = _checked(transformer, names, is_table=bool(source.encoded))
        takes_text = takes_documents(transformer)
        if takes_text and not (source.n_features == 1 and source.encoded):
            raise ValueError(
                f"{source!r}: {name_of(transformer)} takes one column of text; name it where the source is "
                "scanned, as features=[...], or let a ColumnTransformer take it"
            )
        n_features = getattr(transformer, "n_features_in_", source.n_features)
        if source.n_features not in {None, n_features}:
            raise ValueError(f"{source!r}: {name_of(transformer)} was fitted to {n_features} features")
        if not source.maps and not takes_text:  # later ones are given the array that a transformer makes
            _set_names(transformer, source.feature_names)
        outputs = _names_made(transformer, source.feature_names) if names is None else names
        features = tuple(map(str, outputs))
        if isinstance(names, str) or len(set(features)) < len(features):
            raise ValueError(f"features must be a list of different names for what it makes; got {names!r}")
        return cls(transformer, features)

    @property
    def identity(self) -> str:
        """What `digest` is."""
        return self.digest

    @cached_property
    def digest(self) -> str:
        """A hash of the transformer as it is at the first call, and of the names.

        Raises
        ------
        TypeError
            If the transformer depends on something that cannot be hashed.
        """
        return self.digest_now()

    def digest_now(self) -> str:
        """A hash of the transformer as it is now, and of the names; errors are those of `digest`."""
        from streamgda.data.sources.maps.digests import value_digest

        given, name = self.given, f"the map by {name_of(self.transformer)}"
        return digest([given is not self.transformer, value_digest(given, name), self.names])

    @property
    def given(self) -> Any:
        """The transformer, or the function that it was made of."""
        names_out = getattr(self.transformer, "feature_names_out", None)
        is_ours = isinstance(names_out, partial) and names_out.func is _names_out
        return self.transformer.func if is_ours else self.transformer

    def check_unchanged(self) -> None:
        """Check that the transformer is still as `digest` tells, if that was asked for.

        Raises
        ------
        ValueError
            If it is not: its answers must not be found again as those of the transformer of before.
        """
        if "digest" in vars(self) and self.digest != self.digest_now():
            raise ValueError(
                f"the map by {name_of(self.transformer)} depends on values that have changed since the pass "
                "was planned, or that are others in this process; start the pass again. If it changes them "
                "itself, as with a cache in a dict, let it use functools.lru_cache"
            )

    def mapped(self, block: Block) -> Iterator[tuple[Block, slice]]:
        """Yield blocks with what the transformer makes of the rows of a block, and which rows they are.

        Raises
        ------
        ValueError
            If the transformer makes another number of rows or features, or fails where values are missing.
        Exception
            Any other error of the transformer, as it is. A note names the transformer and the rows.
        """
        is_filled = isinstance(block.features, SparseRows) and not takes_sparse(self.transformer)
        least, stop = block.n_features if is_filled else 1, 0
        size = rows_per_block(max(least, len(self.names)), len(block.classes))
        rest: Block | None = block
        while rest is not None:
            rows, rest = rest.split_at(size)
            made = self._output_of(rows)
            result = replace(rows, features=made, feature_names=self.names, dates=(), lists=())
            start, stop = stop, stop + len(rows.codes)
            yield result, slice(start, stop)
            if isinstance(made, SparseRows):  # of which more take no more memory
                size = rows_per_block(max(least, made.n_columns), len(block.classes))

    def _output_of(self, block: Block) -> NDArray[Any] | SparseRows:
        """What the transformer makes of the features of a block: (n_rows, n_features)."""
        n_rows = len(block.codes)
        if not n_rows:  # which transformers refuse
            return np.empty((0, len(self.names)))
        try:
            result = self.transformer.transform(_input_of(self.transformer, block))
        except Exception as error:  # a transformer may raise anything
            may_be_missing = isinstance(error, (ValueError, TypeError, AttributeError))
            if may_be_missing and not block.are_finite().all():
                block.raise_for_values(other_remedy=_filling_in(self.transformer, block))
            error.add_note(f"{_RAISED_BY} {name_of(self.transformer)}, for rows from {block.row_name(0)} on")
            raise
        shape, is_csr = (n_rows, len(self.names)), is_sparse(result)
        values = result if is_csr else np.asarray(result)
        if values.shape != shape or values.dtype.kind not in "biuf":
            raise ValueError(
                f"{name_of(self.transformer)}, for {counted(n_rows, 'row')} from {block.row_name(0)} on: "
                f"it made {values.dtype} of shape {values.shape}, not numbers of shape {shape}"
            )
        return SparseRows.of(values) if is_csr else values


def _checked(transformer: Any, names: Sequence[str] | None, *, is_table: bool) -> Any:
    """A copy of a fitted transformer; of a function, a transformer."""
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils.validation import check_is_fitted

    if isinstance(transformer, type) or not (hasattr(transformer, "transform") or callable(transformer)):
        raise TypeError(f"a fitted transformer or a function is needed; got {transformer!r:.80}")
    if not hasattr(transformer, "transform"):
        if names is None:
            raise ValueError(f"what {transformer!r:.80} makes needs names: map(..., features=[...])")
        return FunctionTransformer(
            transformer, validate=not is_table, feature_names_out=partial(_names_out, names)
        )
    if hasattr(transformer, "fit"):
        check_is_fitted(transformer, msg="%(name)s is not fitted; fit it to a sample of the rows first")
    return deepcopy(transformer)


def takes_documents(transformer: Any) -> bool:
    """Whether a transformer takes a list of texts, and not rows, as the vectorizers of scikit-learn do."""
    from sklearn.base import BaseEstimator
    from sklearn.utils import get_tags

    first = _first_step(transformer)
    return isinstance(first, BaseEstimator) and not get_tags(first).input_tags.two_d_array


def _filling_in(transformer: Any, block: Block) -> str:
    """How missing values may be filled in before a transformer gets them."""
    if takes_documents(transformer):
        return f'give {name_of(transformer)} a preprocessor= that makes "" of None'
    of_text = ', or of text FunctionTransformer(lambda texts: texts.fillna(""))'
    steps = "a SimpleImputer" + of_text * isinstance(block.features, StoredColumns)
    return f"fill it in before {name_of(transformer)} by another step, such as {steps}"


def takes_sparse(transformer: Any) -> bool:
    """Whether a transformer takes sparse rows; true if it has no tags, which would tell."""
    from sklearn.base import BaseEstimator
    from sklearn.utils import get_tags

    first = _first_step(transformer)
    return not isinstance(first, BaseEstimator) or bool(get_tags(first).input_tags.sparse)


def _first_step(transformer: Any) -> Any:
    from sklearn.pipeline import Pipeline

    while isinstance(transformer, Pipeline):
        transformer = transformer[0]
    return transformer


def _names_made(transformer: Any, names: Sequence[str] | None) -> Any:
    """The names of what a transformer makes; numbers under its own name, where hashes of texts have none."""
    first = _first_step(transformer)
    try:
        return transformer.get_feature_names_out(names)
    except AttributeError:
        if takes_documents(transformer):
            n_made = transformer.transform([""]).shape[1]
        elif hasattr(first, "output_indices_"):  # of a ColumnTransformer
            n_made = max(some.stop for some in first.output_indices_.values())
        else:
            raise
    return [f"{type(first).__name__.lower()}{i}" for i in range(n_made)]


def _names_out(names: Sequence[str], transformer: Any, input_features: Any) -> NDArray[Any]:
    return np.array(names, dtype=object)


def _set_names(transformer: Any, names: Sequence[str] | None) -> None:
    """Tell a transformer the names of its features, unless it knows them or has other estimators in it."""
    from sklearn.base import BaseEstimator

    first = _first_step(transformer)
    is_simple = isinstance(first, BaseEstimator) and first.get_params() == first.get_params(deep=False)
    if is_simple and names is not None and not hasattr(first, "feature_names_in_"):
        first.feature_names_in_, first.n_features_in_ = np.array(names, dtype=object), len(names)


def _input_of(transformer: Any, block: Block) -> Any:
    """The features of a block as a transformer takes them: texts, a frame, rows in CSR or an array."""
    features = block.features
    if isinstance(features, StoredColumns):
        return features.documents() if takes_documents(transformer) else features.frame()
    if isinstance(features, SparseRows) and takes_sparse(transformer):
        return features.csr.copy()
    is_view = isinstance(features, np.ndarray)  # which a transformer with copy=False would change
    rows = np.array(block.matrix(0, len(block.codes)), copy=is_view or None)
    return _named(transformer, rows, block.feature_names)


def _named(transformer: Any, rows: NDArray[Any], columns: Sequence[str] | None) -> Any:
    """Rows as a frame, if a transformer knows the names of its features."""
    names = getattr(transformer, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=names if columns is None else columns, copy=False)[list(names)]


def name_of(transformer: Any) -> str:
    """What messages call a transformer or a function."""
    function = getattr(transformer, "func", transformer)
    return str(getattr(function, "__qualname__", f"{function!r:.80}"))
