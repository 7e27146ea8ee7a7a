"""Decode files of CSV, JSON lines, Feather and ORC batch by batch, from bytes that the storage has given.

Arrow ends the process when it parses JSON that is nested deeply, or uses a damaged batch of Feather. So both
are checked before.
"""

from __future__ import annotations

import copy
import io
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.json

from streamgda.data.sources.files.planning import name_of_format
from streamgda.data.sources.files.text_encodings import SingleByteEncoding
from streamgda.data.storage.threads import SharedFile, close_at_exit, ending_at_exit

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""How texts are compressed whose names end so."""

_DEEPEST = 64  # levels, as in Arrow's own format

_NOT_OPENING = bytes(set(range(256)) - set(b"[{\n"))

_NO_BRACKET = bytes(set(range(256)) - set(b"[{]}"))

_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # 1 and -1

_NULL, _NULL_LINE = re.compile(rb"\s*null"), re.compile(rb"\n\s*null")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class Decoded(NamedTuple):
    """The columns of a file, and the batches, which are decoded when their turn comes."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def decode_file(
    kind: ds.FileFormat, file: pa.NativeFile, path: str, types: pa.Schema | None = None
) -> Decoded:
    """Begin to decode a file.

    Parameters
    ----------
    kind : pyarrow.dataset.FileFormat
        Its format.
    file : pyarrow.NativeFile
        Its bytes.
    path : str
        Its name, which tells how a text is compressed.
    types : pyarrow.Schema, optional
        The columns to read, with the types to which the values of a text are converted. By default all, with
        the types that the first block of a text tells.

    Raises
    ------
    pyarrow.ArrowException, OSError
        If it is damaged or of another format.
    """
    return _DECODERS[name_of_format(kind)](kind, file, path, types)


def _csv(kind: ds.CsvFileFormat, file: pa.NativeFile, path: str, types: pa.Schema | None) -> Decoded:
    options = kind.default_fragment_scan_options
    convert, read = options.convert_options, copy.copy(options.read_options)
    read.use_threads = False  # or errors do not tell the line
    if types is not None:
        convert.include_columns, convert.column_types = types.names, types
    parse = kind.parse_options
    parse.invalid_row_handler = lambda _: "error"  # no hash could tell a handler from another one
    text = _CountedText(unpacked(file, path), read.encoding)
    how = {"read_options": read, "parse_options": parse, "convert_options": convert}
    reader = _TextReader(partial(pa.csv.open_csv, **how), text)
    named = not (read.column_names or read.autogenerate_column_names)
    n_before = read.skip_rows + named + read.skip_rows_after_names
    is_counted = not (parse.newlines_in_values or parse.escape_char)

    def batches() -> Iterator[pa.RecordBatch]:
        n_rows = n_before
        for batch in reader:
            n_rows += batch.num_rows
            yield batch
        if n_rows < text.n_lines and is_counted and read.encoding in ("utf8", "utf-8"):
            file.seek(0)
            _check_quotes(unpacked(file, path), parse, n_rows)

    return Decoded(reader.schema, batches())


def _json(kind: ds.JsonFileFormat, file: pa.NativeFile, path: str, types: pa.Schema | None) -> Decoded:
    options = kind.default_fragment_scan_options
    parse, read = options.parse_options, copy.copy(options.read_options)
    read.use_threads = False
    if types is not None:
        parse.explicit_schema, parse.unexpected_field_behavior = types, "ignore"
    text = _ShallowText(unpacked(file, path), parse)
    try:
        reader = _TextReader(partial(pa.json.open_json, read_options=read, parse_options=parse), text)
    except pa.ArrowInvalid as error:
        if "Empty JSON" not in str(error):
            raise
        return Decoded(pa.schema([]), iter(()))  # of no lines, as Spark writes a partition without rows
    return Decoded(reader.schema, reader)


def _feather(kind: ds.IpcFileFormat, file: pa.NativeFile, path: str, types: pa.Schema | None) -> Decoded:
    schema = pa.ipc.open_file(file).schema
    names = schema.names if types is None else types.names
    fields = [schema.get_field_index(name) for name in names]
    reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            batch.validate(full=True)
            yield batch.select(names)

    return Decoded(schema, batches())


# Arrow 26 crashes on strings whose stored lengths are damaged: https://github.com/apache/orc/pull/2673
def _orc(kind: ds.OrcFileFormat, file: pa.NativeFile, path: str, types: pa.Schema | None) -> Decoded:
    fragment = kind.make_fragment(file)
    schema = fragment.physical_schema
    names = schema.names if types is None else types.names

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in fragment.to_batches(schema=schema, columns=names, use_threads=False, batch_readahead=1):
            batch.validate(full=True)
            yield batch

    return Decoded(schema, batches())


def _check_quotes(text: pa.NativeFile, options: pa.csv.ParseOptions, n_rows: int) -> None:
    """Raise an error if there are more lines than rows, since a quote is not closed in its line."""
    quote, n_lines, odd = (options.quote_char or "").encode(), 0, 0
    for i, line in enumerate(io.BufferedReader(text, 1 << 20), 1):
        n_lines += not options.ignore_empty_lines or line not in (b"\n", b"\r\n")
        odd = odd or i * (line.count(quote) % 2)
    if n_rows < n_lines:
        place = f"line {odd}" if odd else "a line"
        raise pa.ArrowInvalid(
            f"{place} has a quote that is not closed there. If values hold line ends, say "
            "newlines_in_values=True among the options of the format"
        )


_DECODERS = {"CSV": _csv, "JSON": _json, "Feather": _feather, "ORC": _orc}


def unpacked(file: pa.NativeFile, path: str) -> pa.NativeFile:
    """The bytes of a text, which may be compressed, as its name tells."""
    codec = next((codec for end, codec in CODECS.items() if path.endswith(end)), None)
    return file if codec is None else pa.CompressedInputStream(file, codec)


class _TextReader(Iterator[pa.RecordBatch]):
    """The batches of a text, which Arrow reads ahead by threads of its own."""

    def __init__(self, open_text: Callable[[pa.NativeFile], pa.RecordBatchReader], text: _Text) -> None:
        self._lock = threading.Lock()  # a thread that reads does not free the reader
        close_at_exit(self)
        # The traceback of an error keeps the names of this frame, so the file has none here.
        # Blocks of a stream with a buffer are memory of Arrow's own, which its threads free without Python.
        with self._lock, ending_at_exit():
            self._reader: Any = open_text(
                pa.BufferedInputStream(pa.PythonFile(SharedFile(text), mode="r"), buffer_size=1)
            )
        self.schema: pa.Schema = self._reader.schema

    def __next__(self) -> pa.RecordBatch:
        with self._lock, ending_at_exit():
            return self._reader.read_next_batch()

    def close(self) -> None:
        """Yield no more."""
        with self._lock:
            self._reader = None


class _Text:
    """A stream of text for Arrow to read, which looks at all of it."""

    closed = False

    def __init__(self, text: pa.NativeFile) -> None:
        self._text = text

    def read(self, n_bytes: int) -> bytes:
        """Read the next bytes, and look at them."""
        content: bytes = self._text.read(n_bytes)
        self._look_at(content)
        return content

    def _look_at(self, content: bytes) -> None:
        raise NotImplementedError

    def tell(self) -> int:
        """The place in the text."""
        return int(self._text.tell())


class _CountedText(_Text):
    """CSV, of which the line ends are counted. It raises an error for UTF-8 that is read as other text."""

    def __init__(self, text: pa.NativeFile, encoding: str) -> None:
        super().__init__(text)
        self._n_ends, self._last = 0, b""
        self._encoding, self._single_bytes = encoding, SingleByteEncoding(encoding)

    def _look_at(self, content: bytes) -> None:
        if self._single_bytes.is_wrong_for(content):
            raise pa.ArrowInvalid(f"the text is UTF-8, and not {self._encoding}")
        self._n_ends += content.count(b"\n")
        self._last = content or self._last

    @property
    def n_lines(self) -> int:
        """The number of lines so far, without empty ones at the end."""
        last = self._last.rstrip(b"\r\n")
        return self._n_ends - self._last.count(b"\n", len(last)) + bool(last)


class _ShallowText(_Text):
    """JSON. It raises an error before Arrow parses values that are nested deeply, or rows that are null.

    Both end the process: Arrow 26 does where the first row that it parses is null.
    """

    def __init__(self, text: pa.NativeFile, options: pa.json.ParseOptions) -> None:
        super().__init__(text)
        self._is_lines = not options.newlines_in_values
        self._begun, self._depth, self._is_first = b"", 0, True

    def _look_at(self, content: bytes) -> None:
        if self._is_first and content.lstrip().startswith(b"["):
            raise pa.ArrowInvalid("it is one array; write an object in each line, as jq -c '.[]' does")
        text = self._begun + content
        begins_a_row = self._is_lines or self._is_first
        if (begins_a_row and _NULL.match(text)) or (self._is_lines and _NULL_LINE.search(text)):
            raise pa.ArrowInvalid("a row is null, and no object; leave such rows out")
        self._is_first = False
        if not self._is_lines:
            self._depth, self._begun = _nested(text, self._depth)
            return
        # Mostly there are few brackets in a line.
        if max(map(len, text.translate(None, _NOT_OPENING).split(b"\n"))) > _DEEPEST:
            for line in text.split(b"\n"):
                if line.count(b"[") + line.count(b"{") > _DEEPEST:
                    _nested(line)
        self._begun = text[text.rfind(b"\n") + 1 :]


def _nested(text: bytes, depth: int = 0) -> tuple[int, bytes]:
    """The depth at the end of a text, and the string that begins there; an error if it is nested deeply."""
    outside, quote, begun = _STRING.sub(b"", text).partition(b'"')
    steps = np.frombuffer(outside.translate(_STEPS, _NO_BRACKET), np.int8)
    depths = steps.cumsum(dtype=np.int64) + depth
    if depths.max(initial=0) > _DEEPEST:
        raise pa.ArrowInvalid(f"a value is nested deeper than {_DEEPEST} levels")
    return (int(depths[-1]) if len(depths) else depth), quote + begun
