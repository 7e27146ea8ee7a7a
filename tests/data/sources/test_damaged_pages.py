"""Pages of a Parquet file are read at any length and codec; a damaged one is an error that names the file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import accumulate, scan_parquet

N = 1000


@pytest.mark.slow_cases("brotli", "gzip", "lz4")
@pytest.mark.slow_cases("1073741824")
@pytest.mark.parametrize("codec", ["zstd", "brotli", "gzip", "lz4", "snappy"])
@pytest.mark.parametrize("page", [1 << 10, 1 << 30])
def test_pages_of_any_length_are_read(tmp_path, codec, page):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "constant": np.zeros(50_000),
            "x": pa.array(rng.normal(size=50_000), mask=rng.random(50_000) < 0.1),
            "k": rng.choice(["a" * 40, "b" * 300], 50_000),
            "small": rng.integers(0, 2, 50_000).astype(bool),
        }
    )
    for dictionary in (False, True):
        path = tmp_path / f"{dictionary}.parquet"
        pq.write_table(table, path, compression=codec, data_page_size=page, use_dictionary=dictionary)
    source = scan_parquet(tmp_path, "k", missing="drop")
    assert accumulate(source, "diag").n_rows == 2 * (50_000 - table["x"].null_count)


@pytest.mark.parametrize(
    "header",
    [
        b"\x25\xfe" + b"\xff" * 3000 + b"\x01",  # a size of 21,000 bits
        b"\x19\xf7" + b"\xff" * 9 + b"\x01",  # a list of 2 ** 64 numbers of floating point
        b"\x1c" * 3000,  # 3,000 structs, each within the one before
        b"\x1f",  # a type that there is not
    ],
)
def test_an_impossible_header_of_a_page_is_an_error_that_names_the_file(tmp_path, header):
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"x": np.arange(float(N)), "k": np.arange(N) % 2}), path, compression="zstd")
    content = path.read_bytes()
    start = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    path.write_bytes(content[:start] + header + content[start:])
    with pytest.raises(ValueError, match=r"1\.parquet cannot be read as Parquet"):
        accumulate(scan_parquet(path, "k"), "diag", scheduler="synchronous")
