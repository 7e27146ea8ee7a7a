"""Bytes that atheris makes of saved files and texts: each is read, or is one ValueError of one line.

``python -m tests.fuzz FOLDER -max_total_time=60`` looks for bytes that reach code which no others have
reached, beginning with those of the folder, and keeps them there. Options are those of libFuzzer.
`test_forged_files` reads those in tests/files/fuzz.
"""

import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

FILES = Path(__file__).parent / "files"
CORPUS = FILES / "fuzz"


@cache
def saved_tables():
    """The tables of saved files, whose metadata is exchanged."""
    import pyarrow.parquet as pq

    return [pq.read_table(path) for path in sorted(FILES.glob("*.parquet"))]


def read_one(data: bytes) -> None:
    """Read bytes as what the first of them says: a saved file, the metadata of one, CSV or JSON lines.

    Raises
    ------
    AssertionError
        If the error has more than one line. Other errors than ValueError are raised as they are.
    """
    kind, content = data[:1], data[1:]
    try:
        if kind == b"f":
            read_saved(content)
        elif b"0" <= kind <= b"9" or kind in (b":", b";"):
            read_metadata(content, kind[0] - ord("0"))
        else:
            read_text(content, ".csv" if kind == b"c" else ".jsonl")
    except ValueError as error:
        assert "\n" not in str(error), error  # noqa: PT017


def read_saved(content):
    import streamgda

    with TemporaryDirectory() as folder:
        path = Path(folder) / "saved.parquet"
        path.write_bytes(content)
        with suppress(ValueError):
            streamgda.load_metadata(path)
        streamgda.load(path)


def read_metadata(content, which):
    """Read a saved file with other metadata, whose checksum is right."""
    import io
    import json

    import pyarrow.parquet as pq

    import streamgda
    from streamgda.data.storage.documents import encode

    document = json.loads(content)
    if isinstance(document, dict):
        sink = io.BytesIO()
        pq.write_table(saved_tables()[which].replace_schema_metadata(encode(document)), sink)
        streamgda.from_bytes(sink.getvalue())


def read_text(content, ending):
    from streamgda import accumulate, scan

    with TemporaryDirectory() as folder:
        path = Path(folder) / f"rows{ending}"
        path.write_bytes(content)
        accumulate(scan(path, "y"), "diag", scheduler="synchronous")


def main():
    import warnings

    import atheris

    warnings.simplefilter("ignore")
    with atheris.instrument_imports(include=["streamgda"]):
        import streamgda.data.sources.files.formats
        import streamgda.jobs.passes.accumulate
        import streamgda.models.estimators.saved  # noqa: F401
    atheris.Setup(sys.argv, read_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
