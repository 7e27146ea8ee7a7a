"""Diagnostics: what statistics say about the classes and their features, without reading the rows again.

Each diagnostic is a function of a state. It returns a small frozen object. As a string, the object is a
readable table; its `to_pandas` gives the table as a data frame.

- `manova` and `box_m`, in `equality`: whether the means, and the covariances, of the classes differ.
- `little_mcar_test`, in `streamgda.incomplete.little`: whether features are missing completely at random.
- `select_features`, in `forward`: which features tell the classes apart.

`base` has `Table`, the base class of the results, and the checks that all tests share.

To add one, write a module with a function of statistics and its result, a subclass of
`streamgda.diagnostics.base.Table`, and import both here.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from streamgda.diagnostics.equality import BoxM, Manova, ManovaStatistic, box_m, manova
from streamgda.diagnostics.forward import FeatureSelection, SelectionStep, select_features

if TYPE_CHECKING:
    from streamgda.incomplete.little import LittleMCAR, little_mcar_test

__all__ = [
    "BoxM",
    "FeatureSelection",
    "LittleMCAR",
    "Manova",
    "ManovaStatistic",
    "SelectionStep",
    "box_m",
    "little_mcar_test",
    "manova",
    "select_features",
]


def __getattr__(name: str) -> object:
    """Load the diagnostic of a room above when it is first used (PEP 562)."""
    if name in {"LittleMCAR", "little_mcar_test"}:
        return getattr(import_module("streamgda.incomplete.little"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
