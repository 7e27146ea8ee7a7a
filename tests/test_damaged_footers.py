"""A flipped bit in the footer of a Parquet file is an error, or changes nothing; it never ends a process."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import accumulate, scan_parquet
from streamgda.storage import column_chunks
from streamgda.storage.footers import FooterCheck, read_tail

RNG = np.random.default_rng(0)
TABLE = pa.table({"x": RNG.normal(size=40), "s": [f"n{i}" for i in range(40)], "k": RNG.integers(0, 2, 40)})
FILTER = [("x", ">", -1.0)]


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "1.parquet", row_group_size=20, write_page_checksum=True)
    return tmp_path / "1.parquet"


def footer_of(content):
    return range(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), len(content) - 8)


def read(path, filters):
    with dask.config.set(scheduler="synchronous"):
        return accumulate(scan_parquet(path, "k", features=["x"], filters=filters), "diag")


def outcomes(path, filters, bits):
    """Read the file with each of some bits of its footer flipped: how often that was an error, or wrong."""
    expected, content = read(path, filters), path.read_bytes()
    damaged, wrong = 0, []
    for bit in bits:
        flipped = bytearray(content)
        flipped[footer_of(content)[bit // 8]] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            if read(path, filters) != expected:
                wrong.append(bit)
        except (ValueError, OSError):
            damaged += 1
    return damaged, wrong


def in_another_process(work, *arguments):
    """Raises BrokenProcessPool if the work ends the process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        return pool.submit(work, *arguments).result()


@pytest.mark.parametrize("filters", [None, FILTER])
@pytest.mark.parametrize("step", [29, pytest.param(3, marks=pytest.mark.slow)])
def test_a_flipped_bit_in_a_footer_is_an_error_or_changes_nothing(path, filters, step):
    """In steps of three, bits of every byte are flipped, and of every three bytes all places of a bit."""
    bits = range(0, 8 * len(footer_of(path.read_bytes())), step)
    damaged, wrong = in_another_process(outcomes, path, filters, bits)
    # A filter must trust the least and largest value of a row group, which a bit may change.
    assert len(wrong) <= (0 if filters is None else len(bits) / 1000)
    assert damaged > len(bits) / 10


def footers_of_a_dataset(n_files):
    """The footers of files with columns of many types, which differ in their numbers and strings."""
    for seed in range(n_files):
        rng = np.random.default_rng(seed)
        columns = {f"x{j}": rng.normal(size=40) for j in range(3)}
        columns["s"] = ["n" * int(n) for n in rng.integers(1, 30, 40)]
        columns["nested"] = [{"a": [1.0] * int(n), "b": None} for n in rng.integers(0, 3, 40)]
        columns["blank"] = pa.nulls(40, pa.float32())
        content = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), content, row_group_size=20)
        yield read_tail(pa.BufferReader(content.getvalue()))


def verdict(check, footer):
    try:
        check(footer)
    except ValueError as error:
        return str(error)
    return "sound"


def test_a_footer_is_judged_alike_whatever_footers_were_read_before():
    *others, footer = footers_of_a_dataset(12)
    practised = FooterCheck()
    for other in others:
        practised(other)
    verdicts = set()
    for bit in range(0, 8 * (len(footer) - 8), 23):
        flipped = bytearray(footer)
        flipped[bit // 8] ^= 1 << bit % 8
        expected = verdict(FooterCheck(), bytes(flipped))
        assert verdict(practised, bytes(flipped)) == expected, bit
        verdicts.add(expected)
    assert len(verdicts) > 4


def test_chunks_laid_out_like_others_are_not_read_field_by_field(monkeypatch):
    *others, footer = footers_of_a_dataset(12)
    check = FooterCheck()
    for other in others:
        check(other)
    read, read_struct = [], column_chunks.read_struct
    monkeypatch.setattr(
        column_chunks, "read_struct", lambda *given: read.append(given) or read_struct(*given)
    )
    check(footer)
    assert not read
    FooterCheck()(footer)
    assert len(read) == 2 * 7  # row groups, columns
