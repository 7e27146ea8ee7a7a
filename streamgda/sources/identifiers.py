"""Columns that are named like identifiers, and become features only because no features are named."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import pyarrow as pa

from streamgda.blocks.wording import listed
from streamgda.sources.roles import Roles

_IDENTIFIER = re.compile(
    r"(.*[_. -])?(id|uuid|guid)|\w*[a-z]I[dD]|index|row_?(id|index|number)|__index_level_\d+__|Unnamed: 0",
    re.ASCII,
)


def is_identifier(name: str) -> bool:
    """Whether a column is named like an identifier: id, user_id, userId, uuid, index and their likes."""
    return bool(_IDENTIFIER.fullmatch(name) or _IDENTIFIER.fullmatch(name.lower()))


def warn_of_identifiers(
    roles: Roles, schema: pa.Schema, origin: str, named: Sequence[str] | None, stacklevel: int
) -> None:
    """Warn of whole numbers that are named like identifiers and are features, though no user named them.

    Parameters
    ----------
    roles : Roles
        What the columns are.
    schema : pyarrow.Schema
        Their types.
    origin : str
        What to call the data.
    named : sequence of str or None
        The features that the user has named; None if all columns are features by default.
    stacklevel : int
        As for `warnings.warn`, counted from the caller.
    """
    if named is not None or roles.target is None:
        return
    integers = {field.name for field in schema if pa.types.is_integer(field.type)}
    found = [name for name in roles.features if name in integers and is_identifier(name)]
    if found:
        warnings.warn(
            f"{origin}: by default all columns are features, also {listed(found, 5)}. A column of such a "
            f"name mostly identifies rows or groups. Set exclude={found}, or name the features to use",
            stacklevel=stacklevel + 1,
        )
