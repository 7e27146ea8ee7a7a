"""Which files a scan reads: the same rules for folders, patterns, lists and paths, on every filesystem."""

import json

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from streamgda import accumulate, scan_arrow, scan_parquet
from streamgda.data.sources.files.discovery import find_files
from streamgda.data.storage.filesystems import Storage

TABLE = pa.table({"u": np.arange(6.0), "y": np.arange(6) % 2})


def write(path, table=TABLE):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def local(folder):
    return None, str(folder)


def subtree(folder):
    return pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem()), ""


def by_fsspec(folder):
    return fsspec.filesystem("file"), str(folder)


def fsspec_folder(folder):
    return fsspec.filesystem("dir", path=str(folder), target_protocol="file"), ""


def in_memory(folder):
    memory, place = fsspec.filesystem("memory"), f"/discovery{folder}"
    for path in folder.rglob("*"):
        if path.is_file():
            memory.pipe_file(f"{place}/{path.relative_to(folder)}", path.read_bytes())
    return memory, place


FILESYSTEMS = [local, subtree, by_fsspec, fsspec_folder, in_memory]


def within(on, folder, *paths):
    """A filesystem, and paths within a folder on it."""
    filesystem, base = on(folder)
    return filesystem, *(f"{base}/{path}".rstrip("/") if base else path for path in paths)


def names(on, folder, *paths):
    """What is found on a filesystem, by paths within a folder."""
    filesystem, inside, *given = within(on, folder, "", *paths)
    found = find_files(given[0] if len(given) == 1 else given, filesystem)
    return [path.strip("/").removeprefix(inside.strip("/")).strip("/") for path in found.files]


@pytest.fixture
def tree(tmp_path):
    """Files at two levels, among them hidden ones, one of no Parquet, and a folder as Spark names it."""
    for name in (
        "a.parquet",
        "spark.parquet/part-0.parquet",
        "spark.parquet/_SUCCESS.parquet",
        "more/b.pq",
        "more/c.parquet",
        ".hidden.parquet",
        "_half.parquet",
        "_temporary/d.parquet",
        "more/.ipynb_checkpoints/c.parquet",
    ):
        write(tmp_path / "tree" / name)
    (tmp_path / "tree" / "notes.txt").write_text("not data")
    return tmp_path / "tree"


SEEN = ["a.parquet", "more/b.pq", "more/c.parquet", "spark.parquet/part-0.parquet"]


@pytest.mark.parametrize("on", FILESYSTEMS)
@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([""], SEEN),
        (["*.parquet"], ["a.parquet", "spark.parquet/part-0.parquet"]),
        (["**/*.parquet"], ["a.parquet", "more/c.parquet", "spark.parquet/part-0.parquet"]),
        (["mor?"], ["more/b.pq", "more/c.parquet"]),
        (["**"], [*SEEN[:1], *SEEN[1:3], "notes.txt", SEEN[3]]),
        (["*/[bc].*"], ["more/b.pq", "more/c.parquet"]),
        (["_h*.parquet"], ["_half.parquet"]),
        (["more", "*.parquet"], ["more/b.pq", "more/c.parquet", "a.parquet", "spark.parquet/part-0.parquet"]),
        (["_temporary/*"], ["_temporary/d.parquet"]),
        ([".hidden.parquet"], [".hidden.parquet"]),
    ],
)
def test_every_form_and_filesystem_finds_the_same_files(tree, on, paths, expected):
    assert names(on, tree, *paths) == expected


def test_a_pattern_that_matches_hidden_files_alone_says_so(tree):
    with pytest.raises(FileNotFoundError, match=r"no file matches .*/\?hidden.* begin with '\.' or '_' "):
        find_files(f"{tree}/?hidden.parquet")


# ---------------------------------------------------------------------- links


LINKING = [local, subtree, by_fsspec, fsspec_folder]


@pytest.mark.parametrize("on", LINKING)
@pytest.mark.parametrize("path", ["", "**/*.parquet", "*", "**"])
def test_a_link_to_a_folder_above_multiplies_nothing(tmp_path, on, path):
    write(tmp_path / "rows" / "day=1" / "1.parquet")
    for name in ("up", "again"):
        (tmp_path / "rows" / "day=1" / name).symlink_to("..")
    assert names(on, tmp_path / "rows", path) == ["day=1/1.parquet"]


@pytest.mark.parametrize("on", LINKING)
@pytest.mark.parametrize("path", ["", "**/*.parquet", "*"])
def test_links_are_followed_and_what_they_lead_to_goes_by_its_own_name(tmp_path, on, path):
    write(tmp_path / "rows" / "day=1" / "1.parquet")
    write(tmp_path / "elsewhere" / "2.parquet")
    (tmp_path / "rows" / "day=2").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "rows" / "a").symlink_to("day=1")
    (tmp_path / "rows" / "day=1" / "0.parquet").symlink_to("1.parquet")
    assert names(on, tmp_path / "rows", path) == ["day=1/1.parquet", "day=2/2.parquet"]
    filesystem, where = within(on, tmp_path / "rows", path)
    source = scan_parquet(where, "day", features=["u"], filesystem=filesystem)
    assert accumulate(source).classes.tolist() == [1, 2]
    assert len(source.files()) == 2


@pytest.mark.parametrize("on", LINKING)
@pytest.mark.parametrize("path", ["", "**/*", "*"])
@pytest.mark.parametrize("link", ["gone.parquet", "day=2"])
def test_a_link_to_nothing_is_an_error_that_names_it(tmp_path, on, path, link):
    write(tmp_path / "rows" / "day=1" / "1.parquet")
    (tmp_path / "rows" / ".lock").symlink_to("nosuch")
    (tmp_path / "rows" / link).symlink_to("nosuch")
    filesystem, where = within(on, tmp_path / "rows", path)
    with pytest.raises(FileNotFoundError, match=f"{link} is (gone, or what it links to|a link to nothing)"):
        accumulate(scan_parquet(where, "y", features=["u"], filesystem=filesystem))


@pytest.mark.parametrize("on", FILESYSTEMS)
def test_a_file_in_a_list_that_is_not_there_is_named(tree, on):
    filesystem, path = within(on, tree, "a.parquet")
    with pytest.raises(FileNotFoundError, match="there is no file or folder .*nosuch.parquet"):
        scan_parquet([path, "nosuch.parquet"], "y", filesystem=filesystem)


# ---------------------------------------------------------------------- files listed more than once


@pytest.mark.parametrize("on", FILESYSTEMS)
@pytest.mark.parametrize("paths", [["a.parquet", "a.parquet"], ["more", "more/c.parquet"], ["", "**/*.pq"]])
def test_a_file_that_is_listed_twice_is_refused(tree, on, paths):
    with pytest.raises(ValueError, match=r"(a|c|b)\.(parquet|pq) is listed more than once.*list it once"):
        names(on, tree, *paths)


def test_a_file_and_a_link_to_it_are_one_file(tree):
    (tree / "z.parquet").symlink_to("a.parquet")
    with pytest.raises(ValueError, match=r"z\.parquet is listed more than once, as .*a\.parquet too"):
        find_files([tree / "a.parquet", tree / "z.parquet"])


# ---------------------------------------------------------------------- what would be found


@pytest.mark.parametrize(
    ("path", "inside", "outside"),
    [
        ("", "x.parquet", "x.txt"),
        ("*.parquet", "x.parquet", "more/x.parquet"),
        ("**/*.parquet", "more/x/y.parquet", "more/x/y.pq"),
        ("mor*", "more/x.parquet", "less/x.parquet"),
    ],
)
def test_a_ledger_may_not_lie_where_a_pattern_or_folder_would_find_it(tree, path, inside, outside):
    source = scan_parquet(f"{tree}/{path}", "y")
    for on in (local, subtree):
        filesystem, *paths = within(on, tree, inside, outside, f"_hidden/{inside}")
        storage = Storage(pafs.LocalFileSystem() if filesystem is None else filesystem)
        assert [source.includes(storage, path) for path in paths] == [True, False, False]


# ---------------------------------------------------------------------- folders of table formats


def write_delta(folder, partition=""):
    """A Delta table of which one file is an old version; the log is as deltalake writes it."""
    write(folder / partition / "0-old.parquet")
    write(folder / partition / "1-new.parquet")
    entry = {"remove": {"path": "0-old.parquet", "dataChange": True}}
    log = folder / "_delta_log" / "00000000000000000001.json"
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps(entry))


def write_iceberg(folder, partition=""):
    write(folder / "data" / partition / "0.parquet")
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "00001-ab.metadata.json").write_text("{}")


def write_hudi(folder, partition=""):
    write(folder / partition / "0.parquet")
    (folder / ".hoodie").mkdir(parents=True)
    (folder / ".hoodie" / "hoodie.properties").write_text("")


FORMATS = [
    (write_delta, r"Delta table.*scan_parquet\(deltalake\.DeltaTable"),
    (write_iceberg, r"Iceberg table.*scan_parquet\(catalog\.load_table"),
    (write_hudi, "Hudi table.*scan_arrow"),
]


@pytest.mark.parametrize("on", [local, in_memory])
@pytest.mark.parametrize(("write_table", "message"), FORMATS)
@pytest.mark.parametrize("partition", ["", "day=1"])
@pytest.mark.parametrize("path", ["", "**/*.parquet", "lake/table", "lake/*", "lake/tab*/**/*.parquet"])
def test_a_folder_whose_files_are_not_all_of_the_table_is_refused(
    tmp_path, on, write_table, message, partition, path
):
    write_table(tmp_path / "lake" / "table", partition)
    with pytest.raises(ValueError, match=f"lake/table is an? {message}"):
        names(on, tmp_path, path)


@pytest.mark.parametrize(("write_table", "message"), FORMATS)
@pytest.mark.parametrize("path", ["day=1", "day=1/*.parquet"])
def test_a_partition_of_such_a_table_is_refused_too(tmp_path, write_table, message, path):
    write_table(tmp_path / "table", "day=1")
    folder = tmp_path / "table" / "data" if write_table is write_iceberg else tmp_path / "table"
    with pytest.raises(ValueError, match=f"table is an? {message}"):
        scan_parquet(folder / path, "y")


def test_files_of_such_a_table_that_are_named_one_by_one_are_read(tmp_path):
    write_delta(tmp_path)
    for path in (tmp_path / "1-new.parquet", [tmp_path / "1-new.parquet"]):
        assert accumulate(scan_parquet(path, "y")).n_rows == 6
    active = ds.dataset([str(tmp_path / "1-new.parquet")])
    assert accumulate(scan_arrow(active, "y")).n_rows == 6


def test_a_folder_of_metadata_that_is_no_table_format_does_no_harm(tmp_path):
    write(tmp_path / "1.parquet")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.json").write_text("{}")
    assert accumulate(scan_parquet(tmp_path, "y")).n_rows == 6


# ---------------------------------------------------------------------- URLs


def test_a_url_that_nobody_answers_is_named():
    with pytest.raises(OSError, match=r"^ftp://127\.0\.0\.1:9/rows cannot be reached: .*refused"):
        scan_parquet("ftp://127.0.0.1:9/rows", "y")
