"""The exact sums of some features, of some classes, and of rows A x + b."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgda.statistics.covariances import Array, Indices
from streamgda.statistics.derivation import check_products, positions_of_pairs
from streamgda.statistics.exact.numbers import ExactArray, PythonIntegers
from streamgda.statistics.exact.sums import Sums

_MANTISSA_BITS = 53


def selected(sums: Sums, features: Indices) -> Sums:
    """The sums of some features, in this order."""
    positions = positions_of_pairs(sums.kind, features, sums.n_features)
    return replace(sums, totals=sums.totals[:, features], products=sums.products[:, positions])


def without_pooled(sums: Sums, classes: Indices) -> Sums:
    """The sums of some classes; if they share a scatter, with products of zero."""
    part = sums.take(classes)
    return replace(part, products=ExactArray.zeros(*part.products.shape)) if sums.kind.is_pooled else part


def mapped(sums: Sums, A: Array, b: Array) -> Sums:
    """The sums of the rows A x + b, each taken exactly.

    Σ w y = A Σ w x + b Σ w, and Σ w y yᵀ = A Σ w x xᵀ Aᵀ + A Σ w x bᵀ + b Σ w xᵀ Aᵀ + b bᵀ Σ w.

    Raises
    ------
    ValueError
        If the products of features are not kept.
    """
    check_products(sums.kind, sums.n_features)
    (matrix, of_matrix), (shift, of_shift) = _integers(A), _integers(b)
    (totals, of_totals), (weights, of_weights) = sums.totals.integers(), sums.weights.integers()
    turned = totals @ matrix.T
    new_totals = _exact(turned, of_matrix + of_totals) + _exact(
        weights[:, None] * shift, of_weights + of_shift
    )
    crossed, squares = turned[:, :, None] * shift, weights[:, None, None] * np.outer(shift, shift)
    if sums.kind.is_pooled:
        crossed, squares = crossed.sum(axis=0), squares.sum(axis=0)
    products, of_products = sums.products.integers()
    outer = sums.kind.unpacked(products, len(totals), sums.n_features)
    terms = [
        (matrix @ outer @ matrix.T, of_products + 2 * of_matrix),
        (crossed + np.swapaxes(crossed, -1, -2), of_matrix + of_totals + of_shift),
        (squares, of_weights + 2 * of_shift),
    ]
    first, *others = (_exact(sums.kind.packed(values), exponent) for values, exponent in terms)
    return replace(sums, totals=new_totals, products=sum(others, start=first))


def _exact(values: PythonIntegers, exponent: int) -> ExactArray:
    return ExactArray.from_integers(values, exponent)


def _integers(values: Array) -> tuple[PythonIntegers, int]:
    """Floats as Python integers, all times two to one exponent."""
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, _MANTISSA_BITS).astype(np.int64).astype(object)
    lowest = int(exponents.min(initial=0))
    return mantissas << (exponents - lowest).astype(object), lowest - _MANTISSA_BITS
