r"""Formats of files with their options as text, such as ``csv delimiter=; skip_rows=1``, and back.

The text is what users may write, and what tells sources that read the same bytes in other ways apart.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.json

from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.files.planning import name_of_format

_CSV = pa.csv.ParseOptions, pa.csv.ConvertOptions, pa.csv.ReadOptions

_JSON = pa.json.ParseOptions, pa.json.ReadOptions

_UNTOLD = {"use_threads", "invalid_row_handler"}  # which change no row; which pyarrow does not give back

_OPTION = re.compile(r"""(\w+)=(\[[^]]*\]|\{[^}]*\}|'[^']*'|"[^"]+"|.*?)(?= +\w+=|$) *""", re.DOTALL)

_OF_PANDAS = {
    "sep": "delimiter",
    "decimal": "decimal_point",
    "quotechar": "quote_char",
    "na_values": "null_values",
    "names": "column_names",
    "skiprows": "skip_rows",
    "dtype": "column_types",
    "date_format": "timestamp_parsers",
}
"""Names of options in pandas, and their names here."""

_ALIASES = {"ipc": "feather", "arrow": "feather"}

FORMATS = ("parquet", "csv", "json", "feather", "orc")


def word_of(kind: Any) -> str:
    """The word for a format: of text as users write it, or of a format of pyarrow.

    Raises
    ------
    ValueError
        If there is no such format.
    """
    word = _split(kind)[0] if isinstance(kind, str) else name_of_format(kind).lower()
    word = _ALIASES.get(word, word)
    check_known([word], FORMATS, "format=", "format")
    return word


def format_of(kind: Any, paths: Iterable[str] = ()) -> ds.FileFormat:
    r"""The format that a text stands for; one of pyarrow is returned as it is.

    In CSV an empty field, NA, ``\N`` and the like are missing values. Columns of files that are all
    named .tsv end at tabs.

    Raises
    ------
    ValueError
        For an option that the format does not have, or a value that an option cannot have.
    """
    if isinstance(kind, ds.FileFormat):
        return kind
    word, (_, given) = word_of(kind), _split(kind)
    if word == "csv":
        is_tsv = {".tsv" in path[-8:] for path in paths} == {True}
        nulls = [*pa.csv.ConvertOptions().null_values, r"\N"]  # as MySQL, PostgreSQL and Hive write it
        defaults = {"strings_can_be_null": True, "null_values": nulls, "delimiter": "\t" if is_tsv else ","}
        parse, convert, read = _filled(word, _CSV, given, defaults)
        return ds.CsvFileFormat(parse, convert_options=convert, read_options=read)
    if word == "json":
        parse, read = _filled(word, _JSON, given, {})
        return ds.JsonFileFormat(parse_options=parse, read_options=read)
    check_known(given, [], f"format {word}", "option")
    return {"parquet": ds.ParquetFileFormat, "feather": ds.IpcFileFormat, "orc": ds.OrcFileFormat}[word]()


def text_of(
    kind: ds.FileFormat, changes: Mapping[str, Any] | None = None, write: Callable[[Any], str] = repr
) -> str:
    """A format as text that `format_of` reads; options that are as usual are left out.

    Parameters
    ----------
    kind : pyarrow.dataset.FileFormat
        The format.
    changes : mapping, optional
        Other values of some options.
    write : callable, default=repr
        Writes a value.

    Raises
    ------
    ValueError
        If an option has a value that cannot be written as text.
    """
    word = word_of(kind)
    usual, values = _values(format_of(word)), {**_values(kind), **(changes or {})}
    return " ".join([word, *(f"{name}={write(v)}" for name, v in values.items() if v != usual[name])])


def with_options(kind: ds.FileFormat, changes: Mapping[str, Any]) -> str:
    r"""A format with some other options as text, in which values are written as users write them.

    Examples
    --------
    >>> with_options(format_of("csv delimiter=;"), {"skip_rows": 1, "column_names": ["width", "kind"]})
    'csv delimiter=; column_names=width,kind skip_rows=1'
    """
    return text_of(kind, changes, _written)


def _written(value: Any) -> str:
    """A value without quotes and brackets, if it needs none."""
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    text = ",".join(value) if is_list else str(value).replace("\t", r"\t")
    needs = isinstance(value, list) and (text.count(",") >= len(value) or not is_list)
    return repr(value) if needs or not re.fullmatch(r"[^\s'\"\[{]+", text) else text


def _values(kind: ds.FileFormat) -> dict[str, Any]:
    """The options of a format as plain values."""
    if not isinstance(kind, ds.CsvFileFormat | ds.JsonFileFormat):
        return {}
    scan = kind.default_fragment_scan_options
    is_csv = isinstance(kind, ds.CsvFileFormat)
    parts = [kind.parse_options, scan.convert_options] if is_csv else [scan.parse_options]
    parts.append(scan.read_options)
    return {name: _plain(name, getattr(part, name)) for part in parts for name in _names(type(part))}


def _names(part: type) -> list[str]:
    return [name for name in dir(part) if name[0] != "_" and name not in {"equals", "validate", *_UNTOLD}]


def _split(text: str) -> tuple[str, dict[str, str]]:
    """The word and the options in a text."""
    word, _, rest = text.strip(" ").partition(" ")
    if odd := _OPTION.sub("", rest).strip(" "):
        raise ValueError(f"format {text!r}: {odd!r} is no option such as 'delimiter=;'")
    return word.lower(), dict(_OPTION.findall(rest))


def _filled(
    word: str, parts: tuple[Any, ...], given: Mapping[str, str], defaults: Mapping[str, Any]
) -> list[Any]:
    """The parts of a format's options with values."""
    if renamed := [name for name in given if name in _OF_PANDAS]:
        raise ValueError(f"format {word}: {renamed[0]}= is {_OF_PANDAS[renamed[0]]}= here, as in pyarrow")
    check_known(given, [name for part in parts for name in _names(part)], f"format {word}", "option")
    made = []
    for part in parts:
        names, usual = _names(part), part()
        one = part(**{name: value for name, value in defaults.items() if name in names})
        for name in set(names).intersection(given):
            try:
                setattr(one, name, _value(given[name], getattr(usual, name)))
            except (ValueError, TypeError, SyntaxError) as error:
                raise ValueError(f"format {word}: {name}={given[name]} cannot be read: {error}") from error
        made.append(one)
    return made


# ---------------------------------------------------------------------- values of options


def _value(text: str, usual: Any) -> Any:
    """The value that a text stands for, of the kind that an option has by default."""
    if text.lower() in {"true", "false"} and not isinstance(usual, list):  # false: there is no such character
        return text.lower() == "true"
    is_literal = len(text) > 1 and text[0] in "'\"[{"
    value = ast.literal_eval(text) if is_literal else text
    if isinstance(usual, list):
        values = value if is_literal else value.split(",")
        return [pa.csv.ISO8601 if one == str(pa.csv.ISO8601) else one for one in values]
    if isinstance(value, dict):
        types = [(name, _type(one)) for name, one in value.items()]
        return pa.schema(types) if usual is None else dict(types)
    if usual is None:
        return _type(value)
    if isinstance(usual, bool) and len(value) > 1:
        raise ValueError("it is neither true nor false")
    if isinstance(usual, int) and not isinstance(usual, bool):
        return int(value)
    return "\t" if value == r"\t" else value


def _plain(name: str, value: Any) -> Any:
    """The value of an option as plain values, of which `_value` makes the same one."""
    if isinstance(value, pa.Schema):
        value = {column.name: column.type for column in value}
    if isinstance(value, dict):
        return {column: _plain(f"{name} of {column!r}", value[column]) for column in sorted(value)}
    if isinstance(value, pa.DataType):
        with suppress(ValueError):
            if _type(str(value)) == value:
                return str(value)
        raise ValueError(f"format: {name} is {value}, which no text tells; read it as string")
    return [str(one) for one in value] if isinstance(value, list) else value


def _type(text: str) -> pa.DataType:
    """The type of a column by its name in Arrow."""
    if match := re.fullmatch(r"(decimal\d+)\((\d+), (-?\d+)\)", text):
        return getattr(pa, match[1])(int(match[2]), int(match[3]))
    if match := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", text):
        return pa.timestamp(match[1], match[2])
    return pa.type_for_alias(text)
