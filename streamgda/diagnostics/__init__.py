"""Diagnostics: what statistics say about the classes and their features, without reading the rows again.

In comes a state; out comes a small frozen object. As a string, the object is a readable table; its
`to_pandas` gives the table as a data frame. Open `equality` first.

- `manova` and `box_m`, in `equality`: whether the means, and the covariances, of the classes differ.

To add one, write a module with a function of statistics and its result, a subclass of
`streamgda.diagnostics.equality.Table`, and import both here.
"""

from streamgda.diagnostics.equality import BoxM, Manova, ManovaStatistic, box_m, manova

__all__ = ["BoxM", "Manova", "ManovaStatistic", "box_m", "manova"]
