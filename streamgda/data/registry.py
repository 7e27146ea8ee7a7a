"""What extensions add to the data, found by name: this room imports none of them."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """The word that stands for an option with all its defaults, and the class of the option.

    Without a word, the class knows the values that stand for options, by `Option.of_short`.
    """

    word: str | None
    place: str

    @property
    def kind(self) -> type[Any]:
        """The class of the option."""
        kind: type[Any] = resolve_name(self.place)
        return kind


OPTIONS = {
    "categories": Entry("auto", "streamgda.extensions.categories.reading:Categorical"),
    "missing": Entry("marginal", "streamgda.extensions.incomplete.policy:Marginal"),
    "subclasses": Entry(None, "streamgda.extensions.subclasses.clustering:Subclasses"),
}
"""The parameters that are options, by their names."""

SCHEMAS = {"categories": "streamgda.extensions.categories.columns:Categories"}
"""Where the schema that is saved under a key is defined."""

LISTS = "streamgda.data.sources.frames:with_lists_spread"
"""The function that gives rows in memory a column for each place of a list."""
