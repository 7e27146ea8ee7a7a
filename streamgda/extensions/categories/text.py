"""Columns of text that hold dates or numbers in a form that nobody has read as such."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

_FEWEST = 5  # different values
_NEARLY_ALL = 0.9
_SAMPLE = 100  # values of a column, which are sorted: every so many are looked at

_DATE = re.compile(r"(\d{1,4})([/.-])(\d{1,2})\2(\d{4}|\d{2})([ T]\d{1,2}:\d{2}(:\d{2})?)?")

_SIGN = "[-+$€£¥% ]"
_NUMBER = re.compile(rf"{_SIGN}*(\d+|\d{{1,3}}([.,' \u00a0\u202f]\d{{3}})+)([.,]\d+)?{_SIGN}*")


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
    dates = [match for match in map(_DATE.fullmatch, sample) if match]
    if len(dates) >= _NEARLY_ALL * len(sample) and (written := _format(dates)):
        swapped = written.translate(str.maketrans("dm", "md"))
        other = f", or {swapped} if months come first," if _is_ambiguous(dates) else ","
        return (
            f"dates as text, such as {dates[0][0]!r}: read CSV with format='csv timestamp_parsers={written}' "
            f"(--format){other} frames by pandas.to_datetime, others by with_columns and "
            "pyarrow.compute.strptime"
        )
    marked = [text for text in sample if _NUMBER.fullmatch(text) and not text.isdigit()]
    if len(marked) < _NEARLY_ALL * len(sample) / 2:  # digits alone may be codes
        return ""
    odd = [text for text in texts if not _NUMBER.fullmatch(text)]
    if odd == [name]:
        return "numbers, and its name again, as in files that were joined: delete such lines"
    if len(odd) > (1 - _NEARLY_ALL) * len(texts):
        return ""
    return f"numbers as text, such as {marked[0]!r}: {_remedy(name, {*texts}.difference(odd), odd)}"


def _is_ambiguous(dates: Sequence[re.Match[str]]) -> bool:
    """Whether either of two numbers may be the day."""
    return len(dates[0][1]) < 4 and all(int(match[place]) <= 12 for match in dates for place in (1, 3))


def _format(dates: Sequence[re.Match[str]]) -> str:
    """How the dates are written, for strptime; "" if no calendar has them."""
    first, middle = (max(int(match[place]) for match in dates) for place in (1, 3))
    mark, has_time = dates[0][2], dates[0][5]
    time = "" if not has_time else f"{has_time[0]}%H:%M" + (":%S" if dates[0][6] else "")
    if len(dates[0][1]) == 4:
        return f"%Y{mark}%m{mark}%d{time}" if middle <= 12 else ""
    if max(first, middle) > 31 or min(first, middle) > 12:
        return ""
    day, month = ("%m", "%d") if middle > 12 else ("%d", "%m")
    return f"{day}{mark}{month}{mark}{'%Y' if len(dates[0][4]) == 4 else '%y'}{time}"


def _remedy(name: str, numbers: Collection[str], odd: Sequence[str]) -> str:
    """How numbers in text are read as numbers."""
    with_point, with_comma = (
        all(re.fullmatch(rf"-?\d+({mark}\d+)?", text) for text in numbers) for mark in (r"\.", ",")
    )
    if with_point:
        return f"read CSV with format='csv null_values=,{','.join(odd[:5])}' (--format)"
    has_comma = any(re.search(r",(\d{1,2}|\d{4,})\D*$", text) for text in numbers)
    if with_comma and has_comma and not odd:
        return "read CSV with format='csv decimal_point=,' (--format), or by pandas.read_csv(decimal=',')"
    digits = f"replace_substring_regex(field({name!r}), '[^0-9{',' if has_comma else '.'}-]', '')"
    digits = f"replace_substring({digits}, ',', '.')" if has_comma else digits
    return (
        f"leave it out (--exclude), and make numbers of it with with_columns(number={digits}.cast('double'))"
        ", by functions of pyarrow.compute; in a frame by Series.str.replace"
    )
