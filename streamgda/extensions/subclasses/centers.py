"""The rule by which each row of a class gets the label of the subclass whose centre is nearest to it.

`clustering` finds the centres.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import index
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.externals.array_api_compat import array_namespace

from streamgda.data.blocks.block import Block, rows_of
from streamgda.data.blocks.labels import as_labels, code_dtype, divided_labels, drop_unused, rows_by_pattern
from streamgda.data.blocks.schema import Schema
from streamgda.data.blocks.wording import named
from streamgda.models.estimators.libraries import in_double, on_host, to_place_of
from streamgda.models.gaussians.whitening import Whitening, constant_features
from streamgda.statistics.covariances import Array

Slopes = tuple[Array, Array, Array, tuple[float, float, float]]

_LEAST_EIGENVALUE = 1e-6  # of correlations; the covariance may have been rounded to 24 bits
_BITS = 24
_TIE = 4 * float(np.finfo(np.float64).eps)  # of the terms of a score, for each feature
_MOST_SLOPES = 1 << 20  # numbers that are kept, of patterns of missing features


class SubclassCenters(Mapping[Any, Array]):
    """The centres of the subclasses of each class, and the covariance by which distances are measured.

    A row of a class is of the subclass whose centre c has the smallest (x − c)ᵀ Σ⁻¹ (x − c), and of the first
    of these where two are as near. Where features are missing, x, c and Σ are those of the others. A class
    without centres has one subclass, of number 0. Of rows with categories, the numbers alone count. It is a
    mapping: `centers["a"]` are those of class "a".

    Parameters
    ----------
    centers : mapping of label to array-like of shape (n_subclasses, n_features)
        The centres. A first row of NaN stands for rows that were learnt before there were centres; no further
        row is given to it.
    covariance : array-like of shape (n_features, n_features) or (n_features,)
        Σ, or the variances if features are taken as independent. Directions in which it is singular do not
        count; if it is zero, distances are Euclidean.

    Raises
    ------
    ValueError
        If the centres are not of as many features, or are no finite numbers.

    Examples
    --------
    >>> from streamgda import ClassStatistics, accumulate, scan_arrow, SubclassCenters
    >>> import pyarrow as pa
    >>> centers = SubclassCenters({"a": [[0.0], [10.0]]}, covariance=[[1.0]])
    >>> source = scan_arrow(pa.table({"x": [1.0, 9.0, 2.0, 5.0], "y": ["a", "a", "a", "b"]}), "y")
    >>> state = accumulate(source, rule=centers)
    >>> state.classes.tolist(), state.means.ravel()
    ([('a', 0), ('a', 1), ('b', 0)], array([1.5, 9. , 5. ]))
    """

    saved_as: ClassVar[str] = "subclass_centers"
    schema: Schema | None = None

    def __init__(self, centers: Mapping[Any, ArrayLike], covariance: ArrayLike) -> None:
        self.covariance = np.array(covariance, dtype=np.float64)
        keys = as_labels(list(centers)).tolist()
        by_label = dict(zip(keys, centers.values(), strict=True))
        self._centers = {label: np.array(by_label[label], np.float64) for label in sorted(by_label)}
        if self.covariance.ndim not in {1, 2} or len({*self.covariance.shape}) > 1:
            raise ValueError(f"a covariance has shape (d, d), or variances (d,); got {self.covariance.shape}")
        if not np.isfinite(self.covariance).all():
            raise ValueError("the covariance of the centres holds NaN or infinity")
        for label, own in self._centers.items():
            if own.ndim != 2 or not len(own) or own.shape[1] != self.n_features:
                raise ValueError(
                    f"class {named(label)}: centres have shape (n_subclasses, {self.n_features}), as the "
                    f"covariance is of {self.n_features} features; got {own.shape}"
                )
            if not np.isfinite(own[int(np.isnan(own[0]).all()) :]).all():
                raise ValueError(f"class {named(label)}: a centre holds NaN or infinity")
        self._slopes: dict[tuple[Any, bytes], Slopes] = {}

    def __getitem__(self, label: Any) -> Array:
        return self._centers[label]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._centers)

    def __len__(self) -> int:
        return len(self._centers)

    def __repr__(self) -> str:
        return f"SubclassCenters({', '.join(f'{label!r}: {len(own)}' for label, own in self.items())})"

    def __eq__(self, other: object) -> bool:
        """Whether centres and covariance are the same to the last bit."""
        return (
            isinstance(other, SubclassCenters)
            and self.has_same(other)
            and np.array_equal(self.covariance, other.covariance)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_slopes": {}}

    @property
    def n_features(self) -> int:
        """How many features a centre has."""
        return int(self.covariance.shape[-1])

    def has_same(self, other: SubclassCenters) -> bool:
        """Whether the centres are the same to the last bit, whatever the covariance."""
        return [*self] == [*other] and all(
            np.array_equal(own, other[label], equal_nan=True) for label, own in self.items()
        )

    def check_same(self, other: SubclassCenters | None) -> None:
        """Raise ValueError unless the centres are the same."""
        other = SubclassCenters({}, ()) if other is None else other
        if not self.has_same(other):
            raise ValueError(
                f"states about other centres of subclasses cannot be merged, {self!r} and {other!r}, as "
                "they divide rows in other ways; learn both with the same centres: give the second "
                "the subclass_centers_ of the first as subclasses"
            )

    # ------------------------------------------------------------------ rows get their subclass

    def assign(self, block: Block) -> Block:
        """The same rows, of the classes (class, subclass).

        Raises
        ------
        ValueError
            If the rows have other features than the centres.
        """
        rows = block.of_numbers()
        own = self._centers
        cut = [(k, label) for k, label in enumerate(block.classes.tolist()) if len(own.get(label, ())) > 1]
        numbers = np.zeros(len(block.codes), np.int64)
        most = max([1, *[len(own[label]) for _, label in cut]])
        if cut and len(numbers):
            if rows.n_features != self.n_features:
                raise ValueError(
                    f"{rows.row_name(0)}: rows of {rows.n_features} features have no distance from centres "
                    f"of {self.n_features}"
                )
            self._number(rows, cut, numbers)
        numbers += block.codes.astype(np.int64) * most
        each, number = np.repeat(block.classes, most), np.tile(np.arange(most), len(block.classes))
        classes = divided_labels(each, number)
        labels, codes = drop_unused(classes, numbers.astype(code_dtype(len(classes))))
        return replace(block, classes=labels, codes=codes)

    def _number(self, block: Block, cut: list[tuple[int, Any]], numbers: NDArray[np.int64]) -> None:
        """Write the number of the subclass of each row."""
        order = np.argsort(block.codes, kind="stable")
        bounds = np.searchsorted(block.codes[order], np.arange(len(block.classes) + 1))
        if hasattr(block.features, "X"):  # rows on a device
            for k, label in cut:
                own = order[bounds[k] : bounds[k + 1]]
                numbers[own] = self._nearest_elsewhere(label, rows_of(block.features, own))
            return
        if isinstance(block.features, np.ndarray):
            columns = block.features[order].astype(np.float64, copy=False).T
        else:
            columns = np.empty((block.n_features, len(order)))
            for out, column in zip(columns, block.features, strict=True):
                np.take(column.astype(np.float64, copy=False), order, out=out, mode="clip")
        largest = float(np.fmax.reduce(np.abs(columns), axis=None, initial=0.0))
        with np.errstate(over="ignore", invalid="ignore"):  # a value that is not finite is refused later
            for k, label in cut:
                some = slice(bounds[k], bounds[k + 1])
                numbers[order[some]] = self._nearest(label, columns[:, some], largest)

    def _nearest(self, label: Any, columns: Array, largest: float) -> NDArray[np.intp]:
        """The number of the centre of a class that is nearest to each row, given as columns (d, n).

        No number of the rows is larger than `largest`.
        """
        scores = self._scores(label, columns, slice(None), largest)
        if np.isnan(scores[-1].sum()):
            for lacking, chosen in rows_by_pattern(np.isnan(columns.T)):
                scores[:, chosen] = self._scores(label, columns[np.ix_(~lacking, chosen)], ~lacking, largest)
        nearest: NDArray[np.intp] = scores.argmax(axis=0)
        return nearest

    def _nearest_elsewhere(self, label: Any, rows: Any) -> NDArray[np.intp]:
        """The number of the centre that is nearest to each row on a device. The host decides between ties."""
        known = self._slopes_of(label, slice(None))
        anchor, slopes, intercepts, _ = known
        xp, X, put = array_namespace(rows.X), in_double(rows.X), to_place_of(rows.X)
        scores = (X - put(anchor)) @ put(slopes.T) + put(intercepts)
        nearest: NDArray[np.intp] = on_host(xp.argmax(scores, axis=1)).astype(np.intp)
        largest = float(xp.max(xp.abs(X)))
        are_near = scores >= xp.max(scores, axis=1, keepdims=True) - _margin(known, largest)
        tied = np.flatnonzero(on_host(xp.sum(xp.astype(are_near, xp.int64), axis=1)) > 1)
        if len(tied):
            nearest[tied] = self._nearest(label, np.stack([*rows.rows(tied)]), largest)
        return nearest

    def _scores(self, label: Any, columns: Array, observed: Any, largest: float) -> Array:
        """Minus half the squared distances from the centres of a class, up to a term for each row: (R, n)."""
        key = label, b"" if isinstance(observed, slice) else observed.tobytes()
        known = self._slopes.get(key)
        if known is None:
            known = self._slopes_of(label, observed)
            if (len(self._slopes) + 1) * known[1].size > _MOST_SLOPES:
                self._slopes.clear()
            self._slopes[key] = known
        anchor, slopes, intercepts, _ = known
        offsets = columns - anchor[:, None]
        scores: Array = slopes @ offsets
        scores += intercepts[:, None]
        # Mostly the largest number proves that there is no tie, and no margin of a row has to be known.
        margin = _margin(known, largest)
        best = scores.max(axis=0)
        if np.count_nonzero(scores >= best - margin) > len(best) - np.count_nonzero(np.isnan(best)):
            _settle_ties(scores, slopes, offsets, intercepts)
        return scores

    def _slopes_of(self, label: Any, observed: Any) -> Slopes:
        """The mean a of the centres c, Σ⁻¹ (c − a), −½ (c − a)ᵀ Σ⁻¹ (c − a), and the largest of each."""
        known, centers = ~np.isnan(self[label][:, 0]), self[label][:, observed]
        means = np.vstack([own[~np.isnan(own[:, 0])] for own in self.values()])
        covariance = self.covariance[observed]
        axes = axes_of(covariance if covariance.ndim == 1 else covariance[:, observed], means[:, observed])
        anchor = centers[known].mean(axis=0)
        gaps = np.where(known[:, None], centers - anchor, 0.0)
        scaled = gaps * axes**2 if axes.ndim == 1 else gaps @ axes @ axes.T
        intercepts = np.where(known, -0.5 * np.vecdot(gaps, scaled), -np.inf)
        largest = [float(np.abs(part).max(initial=0.0)) for part in (anchor, scaled, intercepts[known])]
        return anchor, scaled, intercepts, (largest[0], largest[1], largest[2])

    # ------------------------------------------------------------------ centres are saved

    def to_document(self) -> dict[str, Any]:
        """Plain values that JSON holds, and `from_document` reads."""
        numbers = np.concatenate([self.covariance.ravel(), *(own.ravel() for own in self.values())])
        return {
            "labels": list(self),
            "subclasses": [len(own) for own in self.values()],
            "covariance": list(self.covariance.shape),
            "numbers": b64encode(numbers.astype("<f8").tobytes()).decode(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The centres that `to_document` made plain values of.

        Raises
        ------
        ValueError
            If they are not such.
        """
        try:
            numbers = np.frombuffer(b64decode(document["numbers"]), "<f8").astype(np.float64)
            shape, lengths = (list(map(index, document[name])) for name in ("covariance", "subclasses"))
            sizes = [math.prod(shape), *(n * shape[-1] for n in lengths)]
            covariance, *parts = np.split(numbers, np.cumsum(sizes)[:-1])
            centers = [part.reshape(n, shape[-1]) for part, n in zip(parts, lengths, strict=True)]
            return cls(dict(zip(document["labels"], centers, strict=True)), covariance.reshape(shape))
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"these are no centres of subclasses: {error!r}") from error


def _margin(known: Slopes, largest: float) -> float:
    """By how much rounding may change the difference of two scores of rows with values up to `largest`."""
    n_terms, (farthest, steepest, highest) = len(known[0]), known[3]
    return 3 * _TIE * (1 + n_terms) * (steepest * n_terms * (largest + farthest) + highest)


def _settle_ties(scores: Array, slopes: Array, offsets: Array, intercepts: Array) -> None:
    """Let the first of the centres that are equally near to a row, up to rounding, have the highest score.

    The last bits of a product of matrices depend on how many rows it has. So the scores of such a row are
    added up anew, feature by feature, which gives the same bits whatever rows stand beside it.
    """
    known = intercepts[np.isfinite(intercepts)]
    unit, sizes = _TIE * (1 + len(offsets)), np.abs(slopes).max(axis=0)
    margins = unit * (sizes.max(initial=0.0) * np.abs(offsets).sum(axis=0) + np.abs(known).max(initial=0.0))
    tied = np.flatnonzero((scores >= scores.max(axis=0) - 2 * margins).sum(axis=0) > 1)
    if not len(tied):
        return
    totals = np.tile(intercepts[:, None], len(tied))
    margin = np.full(len(tied), np.abs(known).max(initial=0.0))
    for slope, size, offset in zip(slopes.T, sizes, offsets[:, tied], strict=True):
        totals += slope[:, None] * offset
        margin += size * np.abs(offset)
    scores[:, tied] = totals >= totals.max(axis=0) - unit * margin


def axes_of(covariance: Array, means: Array) -> Array:
    """Factors (d,) of features, or a matrix (d, r) from the right, after which distances are Euclidean.

    The covariance is (d, d), or variances (d,), of classes with these means (K, d).
    """
    axes = np.ones(len(covariance))
    if covariance.ndim == 1:
        varying = ~constant_features(covariance, means)
        axes = np.divide(varying, np.sqrt(np.where(varying, covariance, 1.0)))
    elif len(covariance):
        axes = Whitening.of(covariance, means, _LEAST_EIGENVALUE).matrix
    return axes if axes.any() else np.ones(len(covariance))


def rounded(covariance: Array) -> Array:
    """A covariance to 24 bits, so that its last bits, which depend on the order of sums, move no row."""
    mantissas, exponents = np.frexp(covariance)
    near: Array = np.ldexp(np.rint(np.ldexp(mantissas, _BITS)), exponents - _BITS)
    return near
