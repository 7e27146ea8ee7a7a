"""What sources of Arrow data have in common: the data, and the roles of its columns."""

from __future__ import annotations

from typing import Generic, TypeVar

from streamgda.sources.base import Source
from streamgda.sources.roles import Roles

D = TypeVar("D")


class ArrowSource(Source, Generic[D]):
    """Arrow data with the roles of its columns; made by `scan_arrow`."""

    def __init__(self, data: D, roles: Roles) -> None:
        self._data = data
        self._roles = roles
        self.feature_names = roles.features

    def __repr__(self) -> str:
        return (
            f"<Arrow {type(self._data).__name__}: {len(self._roles.features)} features, "
            f"target {self._roles.target!r}>"
        )
