"""Columns of text that hold dates or numbers in a form that nobody has read as such."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from streamgda.data.blocks.dates import formats_of

_FEWEST = 5  # different values
_NEARLY_ALL = 0.9
_SAMPLE = 100  # values of a column, which are sorted: every so many are looked at

_SIGN = "[-+$€£¥% ]"
_NUMBER = re.compile(rf"{_SIGN}*(\d+|\d{{1,3}}([.,' \u00a0\u202f]\d{{3}})+)([.,]\d+)?{_SIGN}*")
# What stands for a missing value: no other text tells that digits are numbers, which may be codes.
_ABSENT = re.compile(r"\W+|n\.?/?a\.?n?|none|null|nil|missing|unknown|unk|not available", re.IGNORECASE)
_CODE = re.compile(r"0\d+")


def read_as_what(name: str, values: Sequence[Any]) -> str:
    """What a column of text holds, and how it is read as that; "" for text that is just text.

    Examples
    --------
    >>> read_as_what("sold", ["01/02/2021", "02/02/2021", "13/02/2021", "28/02/2021", "03/05/2021"])[:39]
    "dates as text, such as '01/02/2021': re"
    >>> read_as_what("shop", ["north", "south", "east", "west", "web"])
    ''
    """
    texts = [value.strip() for value in values if isinstance(value, str)]
    sample = texts[:: len(texts) // _SAMPLE + 1]
    if len(sample) < _FEWEST:
        return ""
    if written := formats_of(sample, _NEARLY_ALL):
        example = next(text for text in sample if formats_of([text]))
        other = f", or {written[1]} if months come first," if len(written) > 1 else ","
        reading = _reading_csv(f"timestamp_parsers={written[0]}")
        return (
            f"dates as text, such as {example!r}: {reading}{other} frames by pandas.to_datetime, others by "
            "with_columns and pyarrow.compute.strptime"
        )
    odd = [text for text in texts if not _NUMBER.fullmatch(text)]
    stand_ins = odd and all(map(_ABSENT.fullmatch, odd))
    marked = [text for text in sample if _NUMBER.fullmatch(text) and (stand_ins or not text.isdigit())]
    if len(marked) < _NEARLY_ALL * len(sample) / 2 or any(map(_CODE.fullmatch, marked)):
        return ""
    if odd == [name]:
        return "numbers, and its name again, as in files that were joined: delete such lines"
    if len(odd) > (1 - _NEARLY_ALL) * len(texts):
        return ""
    return f"numbers as text, such as {marked[0]!r}: {_remedy(name, {*texts}.difference(odd), odd)}"


def _reading_csv(option: str) -> str:
    """How CSV is read with one more option: statistics do not know those that it was read with."""
    return f"read CSV with format='csv {option}'; keep the other options that you gave"


def _remedy(name: str, numbers: Collection[str], odd: Sequence[str]) -> str:
    """How numbers in text are read as numbers."""
    with_point, with_comma = (
        all(re.fullmatch(rf"-?\d+({mark}\d+)?", text) for text in numbers) for mark in (r"\.", ",")
    )
    if with_point:
        return _reading_csv(f"null_values=,{','.join(odd[:5])}")
    has_comma = any(re.search(r",(\d{1,2}|\d{4,})\D*$", text) for text in numbers)
    if with_comma and has_comma and not odd:
        return f"{_reading_csv('decimal_point=,')}, or by pandas.read_csv(decimal=',')"
    digits = f"replace_substring_regex(field({name!r}), '[^0-9{',' if has_comma else '.'}-]', '')"
    digits = f"replace_substring({digits}, ',', '.')" if has_comma else digits
    return (
        f"leave it out, with exclude=[{name!r}], and make numbers of it with "
        f"with_columns(number={digits}.cast('double')), by functions of pyarrow.compute; in a frame by "
        "Series.str.replace"
    )
