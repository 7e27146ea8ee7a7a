"""Users, passwords, tokens and options of URLs show in no output of a session, and in no file of it."""

import copy
import io
import logging
import pickle
import re
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from urllib.parse import unquote

import aiohttp
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import s3fs
from click.testing import CliRunner
from fsspec.implementations.memory import MemoryFileSystem
from moto.server import ThreadedMotoServer

from streamgda import (
    ClassStatistics,
    GaussianNB,
    StatisticsLedger,
    accumulate,
    evaluate,
    load,
    load_metadata,
    predict_dataset,
    scan_arrow,
    scan_parquet,
    scan_zarr,
)
from streamgda.cli.main import main
from streamgda.data.storage import retries
from streamgda.data.storage.paths import shown, without_options
from streamgda.data.storage.secrets import secrets_of
from streamgda.jobs.passes.accumulate import accumulate_splits
from tests.data.storage.web import WebServer
from tests.data.tables import zarr_group

RNG = np.random.default_rng(0)
N_FILES, N_ROWS = 3, 40

URLS = {
    "user and password": "http://h4kkuser:h4kk%2Fpass@{host}/{path}",
    "token": "http://h4kktoken@{host}/{path}",
    "signature": "http://{host}/{path}?X-Signature=h4kk%2Fsig%3D&X-Expires=1#h4kkpart",
    "bare option": "http://{host}/{path}?h4kkoption",
    "all": "http://h4kkuser:h4kkpass@{host}/{path}?key=h4kk+key",
    "cached": "simplecache::http://h4kkuser:h4kkpass@{host}/{path}?key=h4kkkey",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("web")
    for i in range(N_FILES):
        rows = {"x": RNG.normal(size=N_ROWS), "z": RNG.normal(size=N_ROWS), "y": RNG.integers(0, 2, N_ROWS)}
        pq.write_table(pa.table(rows), home / f"{i}.parquet")
    (home / "broken.parquet").write_bytes(b"no Parquet, but long enough to have a footer" * 3)
    zarr_group(home / "rows.zarr", 20, X=RNG.normal(size=(N_ROWS, 2)), y=RNG.integers(0, 2, N_ROWS))
    return home


@pytest.fixture
def server(folder, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.001)
    with WebServer(folder) as web:
        yield web


class Session:
    """Collects all that calls return, print, log, warn of and raise."""

    def __init__(self, home):
        self.home, self.said = home, []

    def __call__(self, call, *expected):
        """Call a function that may raise an error; return what it returns."""
        log, printed, outcome = io.StringIO(), io.StringIO(), None
        handler, logger = logging.StreamHandler(log), logging.getLogger("streamgda")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            with (
                warnings.catch_warnings(record=True) as warned,
                redirect_stdout(printed),
                redirect_stderr(printed),
            ):
                warnings.simplefilter("always")
                outcome = call()
        except Exception as error:  # whatever a library raises
            if not expected:
                raise
            assert isinstance(error, expected)  # noqa: PT017
            self.said += told_by(error)
        else:
            assert not expected, f"no error, but {outcome!r}"
        finally:
            logger.removeHandler(handler)
        self.said += [repr(outcome), str(outcome), log.getvalue(), printed.getvalue()]
        self.said += [str(warning.message) for warning in warned]
        return outcome

    def check(self):
        """No secret in what was said, in the names of the files, nor in their bytes."""
        files = [path for path in self.home.rglob("*") if path.is_file()]
        said = [*self.said, *map(str, files), *(path.read_bytes().decode("latin1") for path in files)]
        shows = [text for text in said if re.search("h4kk|aDRra", unquote(text), re.IGNORECASE)]
        assert not shows, shows[0][:3000]


def told_by(error):
    """All that an error shows: its traceback, its parts, and those of the errors that led to it."""
    told = ["".join(traceback.format_exception(error))]
    while error is not None:
        told += [str(error), repr(error), repr(error.args), repr(getattr(error, "filename", None))]
        told.append(repr(error.__context__))
        error = error.__cause__ or error.__context__
    return told


@pytest.mark.slow  # all that a session does, for each form of secrets
@pytest.mark.parametrize("kind", URLS)
def test_a_session_shows_no_secret(server, tmp_path, kind):
    def url(path):
        return URLS[kind].format(host=server.host, path=path)

    session = Session(tmp_path)
    source = session(lambda: scan_parquet([url(f"{i}.parquet") for i in range(N_FILES)], "y"))
    model = session(lambda: GaussianNB().fit(source))
    assert model.statistics_.n_rows == N_FILES * N_ROWS
    session(lambda: accumulate(source, checkpoint=tmp_path / "checkpoint"))
    ledger = StatisticsLedger(tmp_path / "ledger")
    assert session(lambda: ledger.refresh(source)).rows == N_FILES * N_ROWS
    assert len(session(lambda: ledger.refresh(source)).reused) == N_FILES
    session(lambda: ledger.files)
    session(lambda: predict_dataset(model, source, tmp_path / "out", columns=["label"]))
    session(lambda: evaluate(model, source))
    session(lambda: model.save(tmp_path / "model.parquet", metadata={"from": str(source)}))
    session(lambda: load_metadata(tmp_path / "model.parquet"))
    session(lambda: [list(source.splits()), [split.identity for split in source.splits()]])
    session(lambda: copy.copy(source))

    for wrong in map(url, ("none.parquet", "broken.parquet")):
        session(partial(scan_parquet, wrong, "y"), OSError, ValueError)
        session(partial(load, wrong), OSError, ValueError)
    session(lambda: scan_parquet([url("0.parquet"), url("0.parquet")], "y"), ValueError)
    session(lambda: scan_parquet(url("0.parquet"), "nosuch"), ValueError)
    session(lambda: model.save(url("saved.parquet")), OSError, ValueError)
    session(lambda: StatisticsLedger(url("ledger")).refresh(source), OSError, ValueError, NotImplementedError)
    session(lambda: accumulate(source, checkpoint=url("c")), OSError, ValueError, NotImplementedError)
    for out in ("out", "out.zarr"):
        session(partial(predict_dataset, model, source, url(out)), OSError, NotImplementedError)
    for status in () if kind == "cached" else (403, 404, 503):
        server.status, server.failing = status, lambda request: request.command == "GET"
        session(lambda: accumulate(source), OSError, ValueError)
        session(lambda: evaluate(model, source), OSError, ValueError)
        session(lambda: load(url("0.parquet")), OSError, ValueError)
        session(lambda: scan_parquet(url("1.parquet"), "y"), OSError, ValueError)
    server.failing = lambda request: request.command == "GET" and "/2.parquet" in request.path
    session(lambda: StatisticsLedger(tmp_path / "other").refresh(source, on_error="skip"))
    asked = []
    server.failing = lambda request: asked.append(request) or len(asked) % 7 == 3  # which retries mend
    session(lambda: accumulate(source))
    server.server_close()
    session.check()


@pytest.mark.slow  # twelve commands
@pytest.mark.parametrize("options", [[], ["--json"], ["--debug"]])
@pytest.mark.parametrize("kind", ["all", "token", "signature"])
def test_the_command_line_shows_no_secret(server, tmp_path, kind, options):
    def url(path):
        return URLS[kind].format(host=server.host, path=path)

    session = Session(tmp_path)

    def run(*words):
        result = session(lambda: CliRunner().invoke(main, [*map(str, words), *options]))
        session.said += [result.output, *told_by(result.exception)]
        return result

    model = tmp_path / "model.parquet"
    fit = run("fit", url("0.parquet"), "--target", "y", "--model", "nb", "--out", model)
    assert fit.exit_code == 0, fit.output
    assert run("evaluate", model, url("1.parquet"), "--target", "y").exit_code == 0
    for _ in range(2):
        refresh = ("refresh", tmp_path / "ledger", url("0.parquet"), url("1.parquet"), "--target", "y")
        assert run(*refresh).exit_code == 0
    run("predict", model, url("1.parquet"), "--out", tmp_path / "out")
    run("predict", model, url("1.parquet"), "--out", url("out"))
    run("fit", url("0.parquet"), "--target", "y", "--model", "nb", "--out", url("model.parquet"))
    run("inspect", url("0.parquet"))
    run("inspect", url("none.parquet"))
    run("fit", url("broken.parquet"), "--target", "y", "--out", tmp_path / "none.parquet")
    run("merge", model, url("0.parquet"), "--out", tmp_path / "sum.parquet")
    run("merge", url("0.parquet"), url("0.parquet"), "--out", tmp_path / "sum.parquet")
    server.status, server.failing = 503, lambda request: request.command == "GET"
    run("evaluate", model, url("1.parquet"), "--target", "y")
    session.check()


@pytest.mark.slow_cases("signature", "password")
@pytest.mark.parametrize("kind", ["user and password", "signature", "all"])
def test_zarr_on_the_web_shows_no_secret(server, tmp_path, kind):
    session = Session(tmp_path)
    url = URLS[kind]
    rows, none = (url.format(host=server.host, path=path) for path in ("rows.zarr", "none.zarr"))
    source = session(lambda: scan_zarr(rows))
    assert session(lambda: accumulate(source)).n_rows == N_ROWS
    session(lambda: accumulate(source, checkpoint=tmp_path / "checkpoint"))
    session(lambda: scan_zarr(none), FileNotFoundError)
    for status in (403, 500):
        server.status, server.failing = status, lambda request: "/c/" in request.path
        session(lambda: accumulate(source), OSError, ValueError)
    session.check()


def test_a_file_is_known_by_its_version_and_not_by_its_signature(server, tmp_path):
    def signed(name, signature):
        return f"http://user:pass@{server.host}/{name}?X-Signature={signature}"

    server.allows = lambda request: "X-Signature=" in request.path and "Authorization" in request.headers
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(scan_parquet([signed("0.parquet", "one"), signed("1.parquet", "one")], "y"))
    later = ledger.refresh(scan_parquet([signed("0.parquet", "two"), signed("1.parquet", "two")], "y"))
    assert later.reused == (f"http://{server.host}/0.parquet", f"http://{server.host}/1.parquet")


def test_urls_that_differ_in_their_options_alone_are_different_files(server):
    source = scan_parquet([f"http://{server.host}/0.parquet?id={i}" for i in (1, 2)], "y")
    assert accumulate(source).n_rows == 2 * N_ROWS
    assert {path for _, path, _ in server.asked} == {"/0.parquet?id=1", "/0.parquet?id=2"}
    assert [split.path.rpartition("/")[2] for split in source.splits()] == ["0.parquet", "0.parquet~2"]


def test_the_signature_of_a_folder_holds_for_its_files(server):
    server.allows = lambda request: "key=hush" in request.path
    source = scan_parquet(f"http://{server.host}/[0-9].parquet?key=hush", "y")
    assert accumulate(source).n_rows == N_FILES * N_ROWS


def test_filesystems_and_datasets_of_a_user_show_no_secret(server, tmp_path):
    session, url = Session(tmp_path), URLS["all"].format(host=server.host, path="0.parquet")
    web = fsspec.filesystem("http")
    wrapped = pafs.PyFileSystem(pafs.FSSpecHandler(web))
    dataset = ds.dataset(url, filesystem=web, format="parquet")
    sources = [
        session(lambda: scan_parquet(url, "y", filesystem=web)),
        session(lambda: scan_parquet(url, "y", filesystem=wrapped)),
        session(lambda: scan_arrow(dataset, "y")),
    ]
    server.status = 503
    for source in sources:
        server.failing = None
        assert session(lambda: accumulate(source)).n_rows == N_ROWS  # noqa: B023
        copied = pickle.loads(pickle.dumps(source.splits()))
        assert accumulate_splits(copied, ClassStatistics()).n_rows == N_ROWS
        server.failing = lambda request: request.command == "GET"
        session(lambda: accumulate(source), OSError)  # noqa: B023
    session.check()


SENT = {
    "a header": lambda: {"client_kwargs": {"headers": {"Authorization": "Bearer h4kktoken"}}},
    "a header of requests": lambda: {"headers": {"X-Key": "h4kkkey"}},
    "a user": lambda: {"client_kwargs": {"auth": aiohttp.BasicAuth("h4kkuser", "h4kkpass")}},
}


@pytest.mark.slow_cases("header")
@pytest.mark.filterwarnings("ignore:BasicAuth is deprecated")
@pytest.mark.parametrize("sent", SENT)
def test_what_a_filesystem_sends_to_a_web_server_is_no_part_of_errors(server, tmp_path, sent):
    session, options = Session(tmp_path), SENT[sent]()
    web = fsspec.filesystem("http", **options)
    url = f"http://{server.host}/0.parquet"
    source = session(lambda: scan_parquet(url, "y", filesystem=web))
    ledger = StatisticsLedger(tmp_path / "ledger")
    assert session(lambda: ledger.refresh(source)).rows == N_ROWS
    for status in (403, 503):
        server.status, server.failing = status, lambda request: request.command == "GET"
        session(lambda: accumulate(source), OSError)
        session(lambda: scan_parquet(url, "y", filesystem=web), OSError)
        session(lambda: load(url, filesystem=web), OSError)
    session.check()


class Telling(MemoryFileSystem):
    """A store whose client tells its options in each error."""

    protocol, cachable, store, pseudo_dirs, is_out = "telling", False, {}, [""], False

    def _told(self, path):
        if Telling.is_out:
            raise ConnectionError(f"no {path} by {self.storage_options['token']}: {self.storage_options}")

    def info(self, path, **options):
        self._told(path)
        return super().info(path, **options)

    def _open(self, path, *arguments, **options):
        self._told(path)
        return super()._open(path, *arguments, **options)


def test_secrets_among_the_options_of_a_store_are_no_part_of_errors(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.001)
    options = {"token": "h4kktoken", "password": "h4kkpass", "connection_string": "AccountKey=h4kkkey==;x"}
    session, there = Session(tmp_path), Telling(**options, nested={"sas_token": "?sig=h4kksig"})
    there.pipe_file("/rows/0.parquet", (folder / "0.parquet").read_bytes())
    source = session(lambda: scan_parquet("/rows", "y", filesystem=there))
    model = session(lambda: GaussianNB().fit(source))
    session(lambda: model.save("/model.parquet", filesystem=there))
    ledger = StatisticsLedger("/ledger", filesystem=there)
    session(lambda: ledger.refresh(source))
    monkeypatch.setattr(Telling, "is_out", True)
    session(lambda: scan_parquet("/rows", "y", filesystem=there), OSError)
    session(lambda: accumulate(source), OSError)
    session(lambda: evaluate(model, source), OSError)
    session(lambda: load("/model.parquet", filesystem=there), OSError)
    session(lambda: model.save("/other.parquet", filesystem=there), OSError)
    session(lambda: ledger.refresh(source), OSError)
    session(ledger.statistics, OSError)
    session.check()


def test_the_page_of_a_folder_on_the_web_is_no_parquet_file(server):
    with pytest.raises(ValueError, match=r"a folder.* a glob such as 'https://host/folder/\*\.parquet'"):
        scan_parquet(f"http://{server.host}/", "y")


@pytest.fixture(scope="module")
def endpoint():
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    yield "{}:{}".format(*moto.get_host_and_port())
    moto.stop()


def by_s3fs(endpoint):
    keys = {"key": "h4kkkey", "secret": "h4kk/secret", "token": "h4kktoken"}
    return "rows", s3fs.S3FileSystem(**keys, endpoint_url=f"http://{endpoint}")


def by_pyarrow(endpoint):
    keys = {"access_key": "h4kkkey", "secret_key": "h4kk/secret", "session_token": "h4kktoken"}
    return "rows", pafs.S3FileSystem(**keys, endpoint_override=endpoint, scheme="http", region="us-east-1")


def by_url(endpoint):
    return "s3://h4kkkey:h4kk%2Fsecret@rows", None


@pytest.mark.slow  # all that a session does with a store
@pytest.mark.parametrize("way", [by_s3fs, by_pyarrow, by_url])
def test_a_session_with_an_object_store_shows_no_key(endpoint, folder, tmp_path, way, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{endpoint}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.001)
    bucket = by_s3fs(endpoint)[1]
    if bucket.exists("rows"):
        bucket.rm("rows", recursive=True)
    bucket.mkdirs("rows", exist_ok=True)
    for name in ("0.parquet", "1.parquet", "broken.parquet"):
        bucket.pipe_file(f"rows/{name}", (folder / name).read_bytes())
    session, (root, filesystem) = Session(tmp_path), way(endpoint)
    there = {"filesystem": filesystem}
    source = session(lambda: scan_parquet([f"{root}/{i}.parquet" for i in (0, 1)], "y", **there))
    model = session(lambda: GaussianNB().fit(source))
    session(lambda: accumulate(source, checkpoint=tmp_path / "checkpoint"))
    for place, at in ((tmp_path / "ledger", {}), (f"{root}/ledger", there)):
        ledger = session(partial(StatisticsLedger, place, **at))
        assert session(partial(ledger.refresh, source)).rows == 2 * N_ROWS
        session(lambda: ledger.files)  # noqa: B023
    session(lambda: predict_dataset(model, source, tmp_path / "out", columns=["label"]))
    session(lambda: predict_dataset(model, source, f"{root}/out", columns=["label"], **there))
    session(lambda: evaluate(model, source))
    session(lambda: model.save(f"{root}/model.parquet", **there))
    session(lambda: load_metadata(f"{root}/model.parquet", **there))
    session(lambda: [list(source.splits()), [split.identity for split in source.splits()]])
    session(lambda: scan_parquet(f"{root}/0.parquet", "nosuch", **there), ValueError)
    for name in ("none.parquet", "broken.parquet"):
        session(partial(scan_parquet, f"{root}/{name}", "y", **there), OSError, ValueError)
        session(partial(load, f"{root}/{name}", **there), OSError, ValueError)
    session(lambda: model.save(f"{root}-none/model.parquet", **there), OSError)
    bucket.rm("rows/1.parquet")
    session(lambda: accumulate(source), OSError, ValueError)
    bucket.invalidate_cache()
    for path, info in bucket.find("rows", detail=True).items():
        session.said += [path, bucket.cat_file(path).decode("latin1") if info["size"] else ""]
    session.check()


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://h/x.parquet", "https://h/x.parquet"),
        ("https://h:8080/a@b.parquet", "https://h:8080/a@b.parquet"),
        ("https://tok@h:8080/x?a", "https://h:8080/x"),
        ("https://[::1]:80/x?sig=1", "https://[::1]:80/x"),
        ("https://u:p@[::1]:80/x#f", "https://[::1]:80/x"),
        ("zip://a-?.csv::https://u:p@h/z.zip?q=1", "zip://a-?.csv::https://h/z.zip"),
        ("s3://k:se/cret@b/part-?.parquet?region=e", "s3://b/part-?.parquet"),
        ("abfs://container@account.host/x", "abfs://container@account.host/x"),
        ("/data/a?b=c@d.parquet", "/data/a?b=c@d.parquet"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url, public):
    assert shown(url) == public
    if " " not in url and "?b=c" not in url:
        assert without_options(f"see {url}: gone") == f"see {public}: gone"


def test_secrets_are_known_in_all_forms_in_which_libraries_write_them():
    secrets = secrets_of("https://me%40here:hush%21@host/x?sig=a%2Fbcd")
    assert {"me@here", "me%40here", "hush!", "hush%21", "a/bcd", "a%2Fbcd"} <= secrets
    assert "bWVAaGVyZTpodXNoIQ==" in secrets  # as the header Authorization has them
    assert not secrets_of("s3://bucket/part-?.parquet")
