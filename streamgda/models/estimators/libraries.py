"""Arrays of other libraries: whether they stay where they lie, and how they come into NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.externals.array_api_compat import array_namespace, device

_OF_HOST = (1, 3)  # DLPack's numbers for its memory, and for that of it which a GPU reads
_ON_DEVICE = (
    "Within sklearn.config_context(array_api_dispatch=True), models learn and predict rows where they lie; "
    "all else takes a copy of them in NumPy"
)


def lies_elsewhere(values: Any) -> bool:
    """Whether this is an array of another library, which scikit-learn's dispatch leaves where it lies."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__") or not hasattr(values, "device"):
        return False
    return bool(get_config()["array_api_dispatch"])


def in_numpy(values: Any) -> Any:
    """An array of another library, such as a tensor of PyTorch, in NumPy; anything else as it is.

    Raises
    ------
    TypeError
        If the array lies on a device, and scikit-learn's ``array_api_dispatch`` is off.
    """
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return values
    if lies_elsewhere(values):
        return on_host(values)
    try:
        if values.__dlpack_device__()[0] in _OF_HOST:
            return np.asarray(values)
    except RuntimeError as error:
        raise TypeError(f"{error}. {_ON_DEVICE}") from error
    except TypeError:  # of Arrow, for columns whose type DLPack does not have
        return values
    raise TypeError(f"a {type(values).__name__} lies on the device {values.device}. {_ON_DEVICE}")


def on_host(array: Any) -> NDArray[Any]:
    """An array of another library in NumPy, copied from the device it lies on."""
    for name in ("detach", "cpu", "get"):  # of PyTorch, PyTorch and CuPy
        if hasattr(array, name):
            array = getattr(array, name)()
    return np.require(np.from_dlpack(array, device="cpu"), requirements="W")


def in_double(X: Any) -> Any:
    """An array in float64, where it lies; ValueError if the device has no such type."""
    xp = array_namespace(X)
    if "float64" not in xp.__array_namespace_info__().dtypes(device=device(X), kind="real floating"):
        raise ValueError(
            f"the device {device(X)} has no float64, in which rows are added up and scored (JAX has it with "
            "jax_enable_x64); give the rows in NumPy"
        )
    return xp.astype(X, xp.float64)


def to_place_of(beside: Any, dtype: Any = None) -> Callable[[Any], Any]:
    """A function that copies an array of NumPy to where another array lies, into its library."""
    xp, place = array_namespace(beside), device(beside)
    return lambda array: xp.asarray(np.array(array, order="C"), dtype=dtype, device=place)
