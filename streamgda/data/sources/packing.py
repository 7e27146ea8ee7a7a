"""What attributes of arrays say of their values, by the conventions of CF and netCDF, as xarray writes them.

Packed values are read as float64: stored value * scale_factor + add_offset. A value that stands for nothing
is read as NaN, or as None among texts.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import INTEGERS_OF_FLOATS

_FILLS = ("_FillValue", "missing_value")
_BOUNDS = ("valid_min", "valid_max", "valid_range")
_ATTRIBUTES = ("scale_factor", "add_offset", "_Unsigned", *_FILLS, *_BOUNDS)


@dataclass(frozen=True)
class Packing:
    """How stored values stand for others.

    Attributes
    ----------
    attributes : mapping of str to object
        Those that say so.
    stored : numpy.dtype
        The type of the stored values; unsigned if the attribute _Unsigned says so.
    scale, offset : float
        By which packed values become others; 1 and 0 if `is_packed` is false.
    fills : tuple
        The stored values that stand for nothing.
    least, greatest : float
        Others do too if they lie beyond these; before they are scaled, unless `of_scaled` is true.
    """

    attributes: Mapping[str, Any]
    stored: np.dtype[Any]
    scale: float
    offset: float
    fills: tuple[Any, ...]
    least: float
    greatest: float
    of_scaled: bool

    @classmethod
    def of(cls, dtype: np.dtype[Any], attributes: Mapping[str, Any], fill_value: Any = None) -> Self | None:
        """What the attributes of an array say; None if they say nothing of its values.

        Parameters
        ----------
        dtype : numpy.dtype
            The stored type.
        attributes : mapping
            Those of the array.
        fill_value : optional
            What the storage says of the value that stands for nothing.

        Raises
        ------
        ValueError
            If an attribute has a value that it cannot have.
        """
        own = {name: attributes[name] for name in _ATTRIBUTES if name in attributes}
        if fill_value is not None:
            own.setdefault("_FillValue", np.asarray(fill_value).item())
        if not own or dtype.kind not in "iufUTO":
            return None
        sign = {"true": "u", "false": "i"}.get(str(own.get("_Unsigned")).lower(), dtype.kind)
        stored = np.dtype(f"{sign}{dtype.itemsize}") if dtype.kind in "iu" else dtype
        as_stored = partial(_value, stored=stored, wraps=stored != dtype)
        read: dict[str, list[Any]] = {}
        for name in own.keys() - {"_Unsigned"}:
            values = own[name] if isinstance(own[name], list | tuple) else [own[name]]
            try:
                read[name] = list(map(float if name in _ATTRIBUTES[:2] else as_stored, values))
                if len(values) != (2 if name == "valid_range" else 1) and name != "missing_value":
                    raise ValueError(f"it has {len(values)} values")
            except (TypeError, ValueError) as error:
                raise ValueError(f"attribute {name} is {own[name]!r:.80}: {error}") from error
        bounds = [value for name in _BOUNDS for value in read.get(name, ())]
        least, greatest = read.get("valid_range", [-np.inf, np.inf])
        is_packed = "scale_factor" in own or "add_offset" in own
        return cls(
            own,
            stored,
            read.get("scale_factor", [1.0])[0],
            read.get("add_offset", [0.0])[0],
            tuple(value for name in _FILLS for value in read.get(name, ())),
            max(least, *read.get("valid_min", [-np.inf])),
            min(greatest, *read.get("valid_max", [np.inf])),
            is_packed and stored.kind in "iu" and any(isinstance(bound, float) for bound in bounds),
        )

    @property
    def is_packed(self) -> bool:
        """Whether values are scaled."""
        return not self.attributes.keys().isdisjoint(_ATTRIBUTES[:2])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values that are read; longer floats, if integers are beyond 2^53."""
        may_lack = self.attributes.keys() - {"_Unsigned"}
        is_float = self.is_packed or (self.stored.kind in "iu" and may_lack)
        return np.dtype(np.float64) if is_float else self.stored

    def read(self, stored: NDArray[Any]) -> NDArray[Any]:
        """The values for which stored ones stand."""
        values = stored.astype(self.stored, copy=False)
        absent = np.zeros(values.shape, np.bool_)
        for fill in self.fills:
            absent |= values == fill
        if values.dtype.kind in "UTO":
            texts = values.astype(object)
            texts[absent] = None
            return texts
        result: NDArray[Any] = values.astype(self.dtype, copy=False)
        if self.is_packed:
            result = result * self.scale + self.offset
        elif result.dtype != values.dtype and values.itemsize == 8 and _exceeds_floats(values):
            result = values.astype(np.longdouble)
        limited = result if self.of_scaled else values
        absent |= (limited < self.least) | (limited > self.greatest)
        if absent.any():
            result = np.where(absent, np.nan, result)
        return result


def _exceeds_floats(values: NDArray[Any]) -> bool:
    return bool(((values > INTEGERS_OF_FLOATS) | (values < -INTEGERS_OF_FLOATS)).any())


def _value(value: Any, stored: np.dtype[Any], *, wraps: bool) -> Any:
    """A value of an attribute; with `wraps`, an integer in the range of the type, whatever its sign."""
    if wraps and isinstance(value, int):
        return int(np.array([value % (1 << 8 * stored.itemsize)], f"u{stored.itemsize}").astype(stored)[0])
    if stored.kind not in "iuf":
        return str(value)
    if isinstance(value, str):
        with suppress(ValueError, struct.error):  # as xarray writes floats in format 3
            return struct.unpack("<d", base64.standard_b64decode(value))[0]
    return value if isinstance(value, int) else float(value)
