"""Which roles columns get, as a user asks for; and whether columns are there and serve for their roles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import reduce

import pyarrow as pa

from streamgda.data.blocks.block import Missing, check_missing
from streamgda.data.blocks.schema import is_time
from streamgda.data.blocks.wording import check_known, listed
from streamgda.data.sources.columns.encoding import LEARNT_AS_TEXT, Wanted
from streamgda.data.sources.columns.lists import expanded, is_list, length_of
from streamgda.data.sources.columns.names import chosen, is_identifier, matching, warn_of_identifiers
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.columns.types import (
    FirstRows,
    as_written,
    is_number,
    label_kind,
    types_of,
    uninformative,
)

_DATES_IN_TEXT = ", or parse dates, such as by pandas.to_datetime"

_TEXT_OF_CATEGORIES = (
    ", or make text of categories that are neither text nor whole numbers, as by astype(str)"
)

NO_KEYS = pa.schema([])

_RENAME = "rename all but one"


def choose_roles(
    schema: pa.Schema,
    origin: str,
    target: str | None,
    features: Sequence[str] | None,
    exclude: Sequence[str],
    wanted: Wanted,
    weight: str | None,
    missing: Missing,
    stored: pa.Schema,
    first_rows: FirstRows,
    keys: pa.Schema = NO_KEYS,
) -> Roles:
    """The roles that a user asks for, by the parameters of the functions that scan.

    Where no features are named, they are all the stored columns that have no role and are not excluded. A
    pattern among the features stands for the stored columns that match it. This warns if no features are
    named and a column named like an identifier becomes one.

    Parameters
    ----------
    schema : pyarrow.Schema
        All the columns. A type that is not known is null.
    origin : str
        What to call the data.
    target, features, exclude, weight, missing
        As for `scan_parquet`.
    wanted : "auto", Encoding or None
        Which features are encoded, and how.
    stored : pyarrow.Schema
        The columns that may be features by default, and whose types are checked.
    first_rows : callable
        Reads the first rows of some columns, if an error is to propose features.
    keys : pyarrow.Schema, optional
        Columns that are not stored and have types. Text among them may have categories.

    Raises
    ------
    ValueError
        If a column is not there, would have two roles, or has a type that its role cannot have.
    """
    check_missing(missing)
    for role, name in (("target", target), ("weight", weight)):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{role} is the name of one column; got {name!r:.80}")
    for argument, names in (("features", features), ("exclude", exclude)):
        if isinstance(names, str):
            raise ValueError(f"{argument} must be a list of column names; got the string {names!r}")
    if features is not None and exclude:
        raise ValueError("give features or exclude, not both: exclude takes all columns but some")
    all_names = schema.names
    index = (stored.pandas_metadata or {}).get("index_columns", [])  # of the frame that was written
    candidates = [name for name in stored.names if name not in (*index, target, weight)]
    left_out = None
    if features is None:
        left_out = frozenset(matching(map(str, exclude), all_names, origin))
        feature_names = [name for name in candidates if name not in left_out]
    else:
        feature_names = chosen(list(map(str, features)), all_names, candidates, origin)
    expanded_names, lists = expanded(feature_names, stored, origin, first_rows)
    roles = Roles(expanded_names, target, weight, missing, lists=lists, left_out=left_out)
    check_there(roles, all_names, origin)
    _check_apart(roles, origin)
    typed = reduce(
        pa.Schema.append, (key for key in keys if label_kind(key.type) == "str"), as_written(stored)
    )
    roles = roles.with_encoded(wanted, typed, origin)
    check_types(roles, stored, origin, first_rows)
    if features is None and target is not None:
        warn_of_identifiers(feature_names, stored, origin)
    return roles


def check_file(roles: Roles, schema: pa.Schema, origin: str) -> None:
    """Raise ValueError if a file with these columns is not as the roles need it."""
    check_there(roles, schema.names, origin)
    check_types(roles, schema, origin)


def check_there(roles: Roles, names: Collection[str], origin: str) -> None:
    """Raise ValueError for a column that is not there, with the name that may have been meant."""
    first = () if roles.target is None else (roles.target,)
    check_known((*first, *roles.columns), names, origin)


def _check_apart(roles: Roles, origin: str) -> None:
    if roles.target is not None and roles.target == roles.weight:
        raise ValueError(f"column {roles.target!r} cannot be both target and weight")
    for role, name in (("target", roles.target), ("weight", roles.weight)):
        if name in roles.features:
            raise ValueError(f"column {name!r} is the {role} and cannot be a feature too")
    if not roles.features:
        raise ValueError(f"{origin}: there is at least one feature needed, and no column is left to be one")
    if len(set(roles.features)) != len(roles.features):
        if roles.left_out is not None:
            (name, _), *_ = Counter(roles.features).most_common()
            raise ValueError(f"{origin}: there is more than one column {name!r}; {_RENAME}")
        raise ValueError(f"features must name each column once; got {list(roles.features)!r}")


def _check_features(
    roles: Roles, types: dict[str, pa.DataType], origin: str, first_rows: FirstRows | None, is_frame: bool
) -> None:
    present = [name for name in roles.features if name in types and name not in roles.derived]
    wrong = [name for name in present if not _can_be_feature(roles, name, types[name])]
    if not wrong:
        return
    kinds = ", ".join(f"{name!r} ({types[name]})" for name in wrong)
    usable = [name for name in present if name not in wrong and not is_identifier(name)]
    text = [name for name in wrong if label_kind(types[name]) is not None]
    takes_all_text = roles.encoding is not None and not roles.encoding.by_name and not is_frame
    if text and takes_all_text:
        raise _differing(text[0], types, origin, "numbers", "text")
    raise ValueError(
        f"{origin}: columns {kinds} cannot be features; "
        + ("leave them out" if is_frame else _left_out(roles, wrong, usable, text, first_rows))
        + (LEARNT_AS_TEXT if text else "")
        + (_TEXT_OF_CATEGORIES if any(pa.types.is_dictionary(types[name]) for name in wrong) else "")
        + (_DATES_IN_TEXT if text and is_frame else "")
    )


def _left_out(
    roles: Roles, wrong: list[str], usable: list[str], text: list[str], first_rows: FirstRows | None
) -> str:
    """How to scan data without the columns that cannot be features."""
    vain = uninformative(first_rows, usable)
    usable = [name for name in usable if name not in vain]
    is_target = f"if {text[0]!r} holds the labels, say target={text[0]!r}; else " if text else ""
    return (
        (is_target if roles.target is None else "")
        + f"leave them out, with exclude={wrong!r}"
        + (f", or name the columns to use, as features={usable!r}" if usable else "")
        + (f" ({listed(vain)} have one value in the first rows, or one in each)" if vain else "")
    )


def _can_be_feature(roles: Roles, name: str, arrow_type: pa.DataType) -> bool:
    if roles.encoding is not None and name in roles.encoded:
        return roles.encoding.takes(arrow_type)
    is_text_of_date = name in roles.dates and label_kind(arrow_type) == "str"
    return is_number(arrow_type) or is_time(arrow_type) or is_text_of_date


def _check_as_elsewhere(roles: Roles, types: dict[str, pa.DataType], origin: str) -> None:
    """Raise ValueError for lists of another length, or dates in a column of numbers, or the other way."""
    for name, length in roles.lists.items():
        kind = types.get(name)
        if kind is not None and not (is_list(kind) and length_of(kind) in {None, length}):
            raise ValueError(
                f"{origin}: column {name!r} is {kind}; elsewhere it holds lists of {length} numbers"
            )
    for name in roles.features:
        is_wrong = is_number if name in roles.dates else is_time
        if name in types and name not in roles.derived and is_wrong(types[name]):
            kinds = ["dates or times", "numbers"]
            there, here = kinds if name in roles.dates else kinds[::-1]
            raise _differing(name, types, origin, there, here)


def _differing(name: str, types: dict[str, pa.DataType], origin: str, there: str, here: str) -> ValueError:
    return ValueError(
        f"{origin}: column {name!r} is {types[name]}; elsewhere it holds {there}, here {here}. Write it "
        "alike in all files, or leave it out"
    )


def check_types(
    roles: Roles,
    schema: pa.Schema,
    origin: str,
    first_rows: FirstRows | None = None,
    *,
    is_frame: bool = False,
) -> None:
    """Raise ValueError if a column of the schema has a type that its role cannot have.

    Columns that the schema lacks, or whose type is null, are not checked. The remedies are those for
    data that is scanned, or for a frame that a model is given.
    """
    for name in roles.columns:
        if len(schema.get_all_field_indices(name)) > 1:
            raise ValueError(f"{origin}: there is more than one column {name!r}; {_RENAME}")
    types = types_of(roles.columns, schema)
    kinds = {name: kind for name, kind in types.items() if not pa.types.is_null(kind)}
    _check_features(roles, kinds, origin, first_rows, is_frame)
    if not is_frame:
        _check_as_elsewhere(roles, kinds, origin)
    if roles.target is not None and roles.target in kinds and label_kind(kinds[roles.target]) is None:
        raise ValueError(
            f"{origin}: column {roles.target!r} is {kinds[roles.target]} and cannot be the target; labels "
            "are integers, strings or bools"
        )
    if roles.weight in kinds and not is_number(kinds[roles.weight]):
        raise ValueError(
            f"{origin}: column {roles.weight!r} is {kinds[roles.weight]} and cannot be the weight"
        )
