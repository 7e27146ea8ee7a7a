"""How a file of CSV is written, as its beginning tells, where the options of its format do not read it."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds

from streamgda.data.blocks.dates import formats_of
from streamgda.data.sources.files.format_options import format_of, with_options
from streamgda.data.sources.files.text_encodings import encoding_of

BEGINNING = 1 << 20
"""Bytes of a file that tell how it is written, as they tell Arrow the types of its columns."""

_DELIMITERS = "\t;|, "  # in numbers are commas too, and in texts spaces
_LINES = 1_000  # that are looked at
_NEARLY_ALL = 0.9  # lines that have as many delimiters
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(r"(?!(?:19|20)\d\d$)-?\d+(\.\d+)?([eE][-+]?\d+)?")  # years may be names of columns
_DECIMAL = re.compile(r"-?\d+([.,])\d+([eE][-+]?\d+)?")


@contextmanager
def naming_options(path: str, kind: ds.FileFormat, beginning: Callable[[], bytes]) -> Iterator[None]:
    """Name the options that read the beginning of a file of CSV in a ValueError, if it is written otherwise.

    Parameters
    ----------
    path : str
        The file.
    kind : pyarrow.dataset.FileFormat
        The format by which it is read. Nothing happens for others than CSV.
    beginning : callable
        Reads `BEGINNING` bytes of the text.
    """
    try:
        yield
    except ValueError as error:
        written = ""
        with suppress(OSError, ValueError):
            written = as_written(kind, beginning()) if isinstance(kind, ds.CsvFileFormat) else ""
        if not written:
            raise
        other = ", or of another encoding" if "encoding=" in written else ""
        reason = str(error).removeprefix(path).lstrip(": ")
        raise ValueError(f'{path} seems to be of format="{written}"{other}. As given: {reason}') from error


def check_columns(path: str, schema: pa.Schema, kind: ds.FileFormat) -> None:
    """Raise ValueError if all of a line of CSV became one column, or text became bytes."""
    if not isinstance(kind, ds.CsvFileFormat):
        return
    if len(schema) == 1 and re.search("(?i)[\t;|]|^sep=", schema.names[0]):
        raise ValueError(
            f"{path}: the only column is {schema.names[0]!r}, so values end elsewhere (delimiter=)"
        )
    asked = kind.default_fragment_scan_options.convert_options.column_types
    odd = [one.name for one in schema if pa.types.is_binary(one.type) and one.name not in asked]
    if odd:
        raise ValueError(f"{path}: column {odd[0]!r} is not UTF-8, so the text has another encoding=")


def as_written(kind: ds.CsvFileFormat, beginning: bytes) -> str:
    r"""The format with the options that read the beginning of a file; "" if it seems to be the given one.

    Examples
    --------
    >>> as_written(format_of("csv"), b"width;kind\n1,5;a\n2,5;b\n")
    'csv delimiter=; decimal_point=,'
    >>> as_written(format_of("csv"), b"width,kind\n1.5,a\n2.5,b\n")
    ''
    """
    parse, read = kind.parse_options, kind.default_fragment_scan_options.read_options
    encoding = encoding_of(beginning, read.encoding)
    content = io.StringIO(beginning.decode(encoding, "replace").removeprefix("\ufeff"), newline="")
    text = [*islice(content, read.skip_rows + _LINES)]
    whole = text[:-1] if len(beginning) == BEGINNING else text
    lines = [line.rstrip("\r\n") for line in whole[read.skip_rows :]]
    if not any(lines):
        return ""
    delimiter, skip, usual = _layout(lines) or (parse.delimiter, 0, 0)
    fields = [line.split(delimiter) for line in lines[skip:] if line]
    changes: dict[str, Any] = {"encoding": encoding, "delimiter": delimiter}
    changes["skip_rows"] = read.skip_rows + skip
    if not (read.column_names or read.autogenerate_column_names):
        above = lines[skip - 1].split(delimiter) if skip else []
        changes |= _names(fields, above if len(above) == usual else [], read.skip_rows + skip)
    decimals = {match[1] for row in fields for one in row if (match := _DECIMAL.fullmatch(one.strip('"')))}
    if delimiter != "," and decimals == {","}:
        changes["decimal_point"] = ","
    written = with_options(kind, changes)
    if written == with_options(kind, {}):
        return ""
    convert = kind.default_fragment_scan_options.convert_options
    if not convert.timestamp_parsers and (parsers := _parsers(fields, {*convert.null_values})):
        written = with_options(kind, {**changes, "timestamp_parsers": parsers})
    return written if _reads(written, "".join(whole).encode(encoding)) else ""


def _layout(lines: Sequence[str]) -> tuple[str, int, int] | None:
    """The delimiter of most lines, how many lines come before, and how often it is in a line."""
    plain = [_QUOTED.sub("", line) for line in lines]
    found = []
    for delimiter in _DELIMITERS:
        counts = [-1 if line.lower().startswith("sep=") else line.count(delimiter) for line in plain]
        of_text = [n for n, line in zip(counts, lines, strict=True) if line]
        [(usual, _)] = Counter(of_text).most_common(1)
        skip = counts.index(usual)
        if (
            usual > 0
            and len(of_text) > 1
            and counts[skip:].count(usual) >= _NEARLY_ALL * sum(map(bool, lines[skip:]))
        ):
            found.append((delimiter, skip, usual))
    return min(found, key=lambda one: (one[0] == " ", one[1]), default=None)


def _names(fields: Sequence[Sequence[str]], above: Sequence[str], start: int) -> dict[str, Any]:
    """The options for the names of columns, if the first line is a row, or a name repeats; else none.

    A line above the first row may have one name fewer than the row has values.
    """
    n_numbers = sum(_NUMBER.fullmatch(one.strip('"')) is not None for one in fields[0])
    if n_numbers and above:
        names = [name.strip('"') for name in above]
        return {"column_names": ["row", *names] if any(row[-1] for row in fields) else [*names, ""]}
    if n_numbers > len(fields[0]) / 2:
        return {"autogenerate_column_names": True}
    names = [name.strip('"') for name in fields[0]]
    if len({*names}) == len(names):
        return {}
    names = [f"{name}_{i}" if name in names[:i] else name for i, name in enumerate(names)]
    return {"column_names": names, "skip_rows": start + 1}


def _parsers(fields: Sequence[Sequence[str]], nulls: Collection[str]) -> list[str]:
    """How dates are written, if some are not by ISO 8601, and all can be read in one way only; else []."""
    rows = [[value.strip('"') for value in row] for row in fields[1:] if len(row) == len(fields[0])]
    columns = ([value for value in column if value not in nulls] for column in zip(*rows, strict=True))
    found = [formats[0] for column in columns if len(formats := formats_of(column)) == 1]
    is_iso = [one.startswith("%Y-") for one in found]
    orders = {one.replace("%d", "%m") for one in found}  # a value of another order might be read by either
    if all(is_iso) or len(orders) < len({*found}):
        return []
    return sorted({str(pa.csv.ISO8601) if iso else one for one, iso in zip(found, is_iso, strict=True)})


def _reads(written: str, content: bytes) -> bool:
    """Whether a format reads lines of text as several columns."""
    made = format_of(written)
    options = made.default_fragment_scan_options
    how = options.read_options, made.parse_options, options.convert_options
    with suppress(pa.ArrowException, UnicodeError):
        return bool(pa.csv.read_csv(io.BytesIO(content), *how).num_columns > 1)
    return False
