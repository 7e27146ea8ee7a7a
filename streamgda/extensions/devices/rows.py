"""Rows on a device as columns of a block, which are reduced to moments where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.externals.array_api_compat import array_namespace
from sklearn.utils.validation import validate_data

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.schema import UNNAMED, MadeColumns
from streamgda.models.estimators.libraries import in_double, on_host, to_place_of
from streamgda.models.estimators.reading import check_plain
from streamgda.statistics.covariances import CovarianceKind
from streamgda.statistics.floating.moments import Moments, two_sum
from streamgda.statistics.kernels import Workspace

_VALUES_AT_ONCE = 1 << 25  # 256 MB, of which there are up to five at once


def rows_to_learn(model: Any, X: Any, *, reset: bool, min_rows: int) -> DeviceRows:
    """The rows of an array, checked for a model, which gets their number of features with `reset`.

    Raises
    ------
    ValueError
        If the model learns on the host alone, the rows are not of its features, or the device has no float64.
    """
    check_plain(model, "rows on a device", "give them in NumPy")
    X = X.detach() if hasattr(X, "detach") else X
    rows = validate_data(model, X, reset=reset, ensure_all_finite=False, ensure_min_samples=min_rows)
    return DeviceRows(rows)


def slices_of(n_rows: int, width: int) -> Iterator[slice]:
    """Cut rows into runs so short that arrays of this width, with a row for each, leave memory free."""
    step = max(1, _VALUES_AT_ONCE // width)
    yield from (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


@dataclass(frozen=True, eq=False)
class DeviceRows(MadeColumns):
    """Rows (n, d) on a device. Columns are copied to the host when they are asked for."""

    X: Any

    schema = UNNAMED
    of_one_thread = True
    numbers = property(lambda rows: rows)
    n_columns = 1  # the host holds none of them, so blocks may be long

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that rows on the host would have."""
        return np.dtype("float32" if str(self.X.dtype).endswith("float32") else "float64")

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.X.shape[0])

    def __len__(self) -> int:
        return int(self.X.shape[1])

    def __getitem__(self, index: Any) -> Any:
        return on_host(in_double(self.X[:, index])).T

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        return iter(self[:])

    def rows(self, rows: slice | NDArray[np.intp]) -> Self:
        """Some of the rows."""
        places = to_place_of(self.X)(np.arange(self.n_rows)[rows])
        return type(self)(array_namespace(self.X).take(self.X, places, axis=0))

    def reduced(self, block: Block, kind: CovarianceKind, workspace: Workspace) -> Moments | None:
        """The moments of the classes of a block; None for an unknown kind of covariance.

        Raises
        ------
        ValueError
            If a value is NaN or infinite.
        """
        moments = self.moments(block, kind) if kind.name in {"full", "tied", "diag"} else None
        if moments is not None and not moments.are_finite():
            block.raise_for_values()
        return moments

    def moments(
        self,
        block: Block,
        kind: CovarianceKind,
        mapped: Callable[[Any], Any] = lambda X: X,
        n_features: int | None = None,
    ) -> Moments:
        """The moments of the classes of a block, whose rows first go through a map to `n_features`.

        Products are formed and added in float64. Sums over classes are products with indicators, which have
        the same bits each time, as atomic additions have not.
        """
        xp, put = array_namespace(self.X), to_place_of(self.X)
        n_classes, n_features = len(block.classes), n_features or len(self)
        order = np.argsort(block.codes, kind="stable")
        codes, weights = block.codes[order].astype(np.int64), block.row_weights[order]
        totals = np.bincount(codes, weights).astype(np.float64)
        classes, divisor = put(np.arange(n_classes))[None, :], put(totals)[:, None]

        def centred(some: slice, means: Any) -> tuple[Any, Any]:
            places, roots = put(codes[some]), put(np.sqrt(weights[some]))[:, None]
            rows = (in_double(mapped(self.rows(order[some]).X)) - xp.take(means, places, axis=0)) * roots
            return rows, xp.where(places[:, None] == classes, roots, 0.0)

        # Differences from a row of its class lose few digits, wherever the class lies.
        first = in_double(mapped(self.rows(order[np.searchsorted(codes, np.arange(n_classes))]).X))
        cut, scatters, tails = list(slices_of(len(codes), max(n_features, n_classes))), [0.0] * n_classes, 0.0
        sums = sum(are_of.T @ rows for rows, are_of in (centred(some, first) for some in cut))
        means = first + sums / divisor  # of a feature that is constant in a class, to the last bit
        for some in cut:
            rows, are_of = centred(some, means)
            tails = tails + are_of.T @ rows
            if not kind.has_products:
                scatters[0] = scatters[0] + xp.astype(are_of > 0, xp.float64).T @ (rows * rows)
                continue
            known = np.arange(n_classes + 1) if kind.is_complete else [0, n_classes]
            for k, (start, stop) in enumerate(pairwise(np.searchsorted(codes[some], known).tolist())):
                scatters[k] = scatters[k] + rows[start:stop, :].T @ rows[start:stop, :]
        scatter = xp.stack(scatters) if kind.is_complete else scatters[0]
        if kind.has_products:
            scatter = (scatter + xp.matrix_transpose(scatter)) / 2
        of_host = two_sum(on_host(means), on_host(tails / divisor))
        return Moments(kind, totals, np.zeros(n_classes), *of_host, on_host(scatter))
