"""What PyTorch does on a device: rows lie there, and a regression is solved there, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.extensions.ridge.banded import Powers
from streamgda.models.estimators.libraries import on_host
from streamgda.statistics.covariances import Array


def check_device(device: str) -> None:
    """Raise ImportError without PyTorch, and ValueError for a device that it does not find or use here."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f'device={device!r} needs PyTorch: pip install "streamgda[examples]", or set device=None'
        ) from error
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        problem = str(error).partition("\n")[0]
        raise ValueError(f"PyTorch has no device {device!r} with float64 here: {problem}") from error


def is_there(device: str) -> bool:
    """Whether PyTorch is installed, and finds a device."""
    try:
        check_device(device)
    except (ImportError, ValueError):
        return False
    return True


def on_device(array: NDArray[Any], device: str) -> Any:
    """A copy of an array on a device."""
    import torch

    return torch.tensor(array, device=device)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues of a symmetric matrix C = V diag(values) Vᵀ, and the vectors Vᵀ B.

    Attributes
    ----------
    values : ndarray of shape (d,)
        In ascending order.
    vectors : ndarray of shape (d, K)
        Vᵀ B.
    """

    values: Array
    vectors: Array

    @classmethod
    def of(cls, matrix: Array, vectors: Array, device: str) -> Self:
        """The spectrum of a symmetric matrix C (d, d), and of vectors B (d, K)."""
        import torch

        values, basis = torch.linalg.eigh(on_device(matrix, device))
        return cls(on_host(values), on_host(basis.T @ on_device(vectors, device)))

    def powers(self, shift: float, *, all_of_them: bool = True) -> Powers:
        """The traces of powers of the inverse of A = C + shift · identity, all in any case."""
        values = np.maximum(self.values, 0.0)  # below are rounding errors
        inverses = (values + shift)[:, None] ** -np.arange(1.0, 4.0)
        return Powers(inverses.sum(axis=0)[:2], np.square(self.vectors).sum(axis=1) @ inverses)


def solved(matrix: Array, vectors: Array, device: str) -> tuple[Array, Array, bool]:
    """L of a symmetric matrix A = L Lᵀ, A⁻¹ B, and whether A is not positive definite."""
    import torch

    upper, problem = torch.linalg.cholesky_ex(on_device(matrix, device), upper=True)
    slopes = torch.cholesky_solve(on_device(vectors, device), upper, upper=True)
    return on_host(upper).T, on_host(slopes), bool(problem)
