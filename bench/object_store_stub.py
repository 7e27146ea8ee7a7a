"""A small S3 server on loopback: latency, bandwidth and faults to order, and a count of every request.

The folders in a folder are its buckets, and the files in them its objects. pyarrow's, fsspec's and boto3's
S3 read and write it with any credentials. In Python, a process of its own serves a folder::

    with ObjectStore(folder, latency=0.02) as store:
        filesystem = pyarrow.fs.S3FileSystem(endpoint_override=store.endpoint, **CREDENTIALS)
        ...
        store.counts()  # {"GET": 4, "HEAD": 1, ..., "bytes_sent": ..., "most_at_once": ...}
        store.set(fail_every=4)  # from here on, 503 for every fourth request

``python -m bench.object_store_stub FOLDER --latency 0.02`` serves one by hand.

As in MinIO, a listing gives times in milliseconds, and HEAD and GET give them in whole seconds. An ETag is
one of size, time and inode, so writing an object again changes it. Left out: credentials, versions, ACLs.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

CREDENTIALS = {"access_key": "key", "secret_key": "secret", "region": "us-east-1", "scheme": "http"}
"""What `pyarrow.fs.S3FileSystem` is given beside ``endpoint_override=``."""

SETTINGS: dict[str, Any] = {
    "latency": 0.0,  # seconds that a request waits
    "at_once": 0,  # requests wait only until so many were under way at a time, and no longer than `latency`
    "bandwidth": 0.0,  # bytes a second of a connection; 0 for as many as there can be
    "fail_every": 0,  # 503 instead of every n-th request
    "truncate_every": 0,  # half of the body of every n-th response that has one, and the connection is closed
    "shorten_every": 0,  # half of the body of every n-th GET, with the headers of just these bytes
    "stall_every": 0,  # no answer to every n-th request for `stall` seconds, and the connection is closed
    "stall": 30.0,
    "most_faults": -1,  # after so many the store is well again; -1 for never
    "only": "",  # faults only in these operations: "GET HEAD"
}

_MARKER = ".is-a-key-that-ends-in-a-slash"
_CONTROL = "/-/"
_PIECE = 1 << 18


class ObjectStore:
    """A server in a process of its own; a context manager that ends it.

    Parameters
    ----------
    folder : path
        The folder whose folders are the buckets.
    **settings
        See `SETTINGS`.
    """

    def __init__(self, folder: str | Path, **settings: Any) -> None:
        command = [sys.executable, "-m", __name__, str(folder), "--port", "0"]
        home = str(Path(__file__).parents[1])
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=home)
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()
        self.set(**settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def set(self, **settings: Any) -> None:
        """Change some settings, and count the requests to the next fault from here."""
        self._ask("set", settings)

    def reset(self) -> None:
        """Set the counts to zero, and forget the requests."""
        self._ask("reset")

    def counts(self) -> Counter[str]:
        """The number of requests of each operation since the last reset, of faults, and of bytes.

        Operations are GET, HEAD, LIST, PUT, COPY, DELETE, and UPLOAD, PART, COMPLETE and ABORT of multipart
        uploads. "bytes_sent" and "bytes_received" are those of bodies of objects; "most_at_once" is how many
        requests were under way at a time.
        """
        return Counter(self._ask("counts"))

    def requests(self) -> list[tuple[str, str, int]]:
        """The operation, the key and the bytes of the body of each request since the last reset."""
        return [tuple(request) for request in self._ask("requests")]

    def _ask(self, what: str, settings: Any = None) -> Any:
        return ask(self.endpoint, what, settings)


def ask(endpoint: str, what: str, settings: Any = None) -> Any:
    """Do what the methods of `ObjectStore` of these names do, from any process: "set", "reset", "counts"."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    connection.request("POST", _CONTROL + what, json.dumps(settings))
    answer = json.load(connection.getresponse())
    connection.close()
    return answer


class Server(ThreadingHTTPServer):
    """The server, with what its handlers share."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.folder = folder.absolute()
        self.incoming = Path(tempfile.mkdtemp(dir=folder, prefix=".incoming-"))
        self.names = map(str, itertools.count())
        self.listings: dict[str, list[tuple[str, os.stat_result | None]]] = {}
        self.settings = dict(SETTINGS)
        self.lock = threading.Lock()
        self.at_once = 0
        self.reset()
        self.until_fault: Counter[str] = Counter()

    def reset(self) -> None:
        """Begin to count."""
        self.counts: Counter[str] = Counter()
        self.requests: list[tuple[str, str, int]] = []

    def control(self, what: str, given: Any) -> Any:
        """Answer what `ObjectStore` asks."""
        deadline = time.monotonic() + 30
        while what in {"counts", "requests", "reset"} and self.at_once and time.monotonic() < deadline:
            time.sleep(0.001)  # a client may have its answer before the request is noted
        with self.lock:
            if what == "reset":
                self.reset()
            if what == "set":
                if unknown := given.keys() - SETTINGS.keys():
                    raise TypeError(f"there are no settings {unknown}")
                self.settings.update(given)
                self.until_fault.clear()
            return {"counts": self.counts, "requests": self.requests}.get(what)

    def wait(self) -> None:
        """Let a request wait."""
        end, enough = time.monotonic() + self.settings["latency"], self.settings["at_once"]
        while (left := end - time.monotonic()) > 0 and not 0 < enough <= self.counts["most_at_once"]:
            time.sleep(min(left, 0.01) if enough else left)

    def stall(self) -> None:
        """Let a request go unanswered. Whoever asks for counts does not wait until it is noted."""
        with self.lock:
            self.at_once -= 1
        time.sleep(self.settings["stall"])
        with self.lock:
            self.at_once += 1

    def fault(self, operation: str) -> str:
        """What goes wrong with this request, if anything."""
        only = self.settings["only"].split()
        with self.lock:
            for fault in ("fail", "truncate", "shorten", "stall"):
                every = self.settings[f"{fault}_every"]
                if not every or (only and operation not in only) or not self.settings["most_faults"]:
                    continue
                if fault in {"truncate", "shorten"} and operation != "GET":
                    continue
                self.until_fault[fault] += 1
                if self.until_fault[fault] % every == 0:
                    self.settings["most_faults"] -= 1
                    self.counts["faults"] += 1
                    return fault
        return ""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = _PIECE  # header and body are sent together

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def handle_expect_100(self) -> bool:
        """Let the client go on at once: what is written is held back otherwise."""
        answered = super().handle_expect_100()
        self.wfile.flush()
        return answered

    def _handle(self) -> None:
        url = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query, True).items()}
        self.bucket, _, self.key = unquote(url.path).lstrip("/").partition("/")
        body = self._body()
        if url.path.startswith(_CONTROL):
            self._send(200, json.dumps(self.server.control(url.path[3:], json.loads(body))).encode())
            return
        self.operation = self._operation()
        with self.server.lock:
            self.server.counts[self.operation] += 1
            self.server.at_once += 1
            most = max(self.server.counts["most_at_once"], self.server.at_once)
            self.server.counts["most_at_once"] = most
        try:
            self.received, self.sent = len(body) if self.command == "PUT" else 0, 0
            self.server.wait()
            self.fault = self.server.fault(self.operation)
            if self.fault == "stall":
                self.server.stall()
                self.close_connection = True
            elif self.fault == "fail":
                self._error(503, "SlowDown")
            else:
                getattr(self, f"_{self.operation.lower()}")(body)
        except FileNotFoundError:
            self._error(404, "NoSuchKey" if self.key else "NoSuchBucket")
        except ConnectionError:  # the client has gone
            self.close_connection = True
        finally:
            with self.server.lock:
                self.server.at_once -= 1
                self.server.counts["bytes_sent"] += self.sent
                self.server.counts["bytes_received"] += self.received
                request = (self.operation, f"{self.bucket}/{self.key}", self.sent + self.received)
                self.server.requests.append(request)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

    def _operation(self) -> str:
        asked = self.query.keys()
        if self.command == "POST":
            return "DELETE" if "delete" in asked else "UPLOAD" if "uploads" in asked else "COMPLETE"
        if self.command == "PUT" and self.key:
            return "COPY" if "x-amz-copy-source" in self.headers else "PART" if "uploadId" in asked else "PUT"
        if self.command == "DELETE":
            return "ABORT" if "uploadId" in asked else "DELETE"
        if self.command == "GET" and not self.key:
            return "LOCATION" if "location" in asked else "LIST"
        return self.command if self.key else "BUCKET"

    # ------------------------------------------------------------------ reading

    def _head(self, body: bytes) -> None:
        self._get(body)

    def _get(self, body: bytes) -> None:
        with self._path().open("rb") as file:
            status = os.fstat(file.fileno())
            start, stop, headers = 0, status.st_size, _version(status)
            if (asked := self.headers.get("Range")) and status.st_size:
                first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", asked).groups()  # type: ignore[union-attr]
                start = int(first) if first else max(stop - int(last), 0)
                if start >= stop:
                    self._error(416, "InvalidRange")
                    return
                stop = min(int(last) + 1, stop) if first and last else stop
                if self.fault == "shorten":
                    stop -= (stop - start + 1) // 2
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{status.st_size}"
            self._begin(206 if asked and status.st_size else 200, stop - start, headers)
            if self.command == "HEAD":
                return
            whole = stop - start
            if self.fault == "truncate":
                stop, self.close_connection = start + whole // 2, True
            self.wfile.flush()
            bandwidth = self.server.settings["bandwidth"]
            file.seek(start)
            while start < stop:
                n_bytes = min(stop - start, _PIECE if bandwidth else stop - start)
                time.sleep(n_bytes / bandwidth if bandwidth else 0)
                start += self.connection.sendfile(file, start, n_bytes)
                self.sent += n_bytes

    def _list(self, body: bytes) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        if (token := self.query.get("continuation-token")) is not None:
            keys = self.server.listings[token]
        else:
            if not (self.server.folder / self.bucket).is_dir():
                raise FileNotFoundError(self.bucket)
            after = self.query.get("start-after", "")
            keys = sorted(item for item in self._keys(prefix, delimiter) if item[0] > after)
        n_most = int(self.query.get("max-keys", 1000))
        page, rest = keys[:n_most], keys[n_most:]
        more = f"<Name>{escape(self.bucket)}</Name><Prefix>{escape(prefix)}</Prefix>"
        more += f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{n_most}</MaxKeys>"
        more += f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>"
        url = self.query.get("encoding-type") == "url"
        more += "<EncodingType>url</EncodingType>" if url else ""
        if rest:
            token = next(self.server.names)
            self.server.listings[token] = rest
            more += f"<NextContinuationToken>{token}</NextContinuationToken>"
        self._xml(
            "ListBucketResult",
            more + "".join(_listed(quote(key) if url else escape(key), status) for key, status in page),
        )

    def _keys(self, prefix: str, delimiter: str) -> Iterator[tuple[str, os.stat_result | None]]:
        """Keys with their state, and what keys up to the delimiter have in common, with None."""
        folder = prefix.rpartition("/")[0]
        for entry in _entries(self.server.folder / self.bucket / folder):
            key = f"{folder}/{entry.name}".lstrip("/").removesuffix(_MARKER)
            if entry.is_dir():
                if (f"{key}/").startswith(prefix) and delimiter:
                    yield f"{key}/", None
                elif (f"{key}/").startswith(prefix):
                    yield from self._keys(f"{key}/", "")
            elif key.startswith(prefix):
                yield key, entry.stat()

    def _location(self, body: bytes) -> None:
        self._xml("LocationConstraint", "us-east-1")

    def _bucket(self, body: bytes) -> None:
        path = self.server.folder / self.bucket
        if self.command == "PUT":
            path.mkdir(exist_ok=True)
        elif not path.is_dir():
            raise FileNotFoundError(path)
        self._send(200)

    # ------------------------------------------------------------------ writing

    def _put(self, body: bytes) -> None:
        temporary = self._temporary()
        temporary.write_bytes(body)
        self._send(200, headers=self._put_in_place(temporary))

    def _copy(self, body: bytes) -> None:
        temporary = self._temporary()
        shutil.copyfile(self._path(unquote(self.headers["x-amz-copy-source"]).lstrip("/")), temporary)
        self._xml("CopyObjectResult", f"<ETag>{escape(self._put_in_place(temporary)['ETag'])}</ETag>")

    def _upload(self, body: bytes) -> None:
        number = next(self.server.names)
        (self.server.incoming / number).mkdir()
        self._xml("InitiateMultipartUploadResult", f"<UploadId>{number}</UploadId>")

    def _part(self, body: bytes) -> None:
        part = self.server.incoming / self.query["uploadId"] / f"{int(self.query['partNumber']):05}"
        part.write_bytes(body)
        self._send(200, headers=_version(part.stat()))

    def _complete(self, body: bytes) -> None:
        parts, temporary = self.server.incoming / self.query["uploadId"], self._temporary()
        with temporary.open("wb") as whole:
            for part in sorted(parts.iterdir()):
                whole.write(part.read_bytes())
        shutil.rmtree(parts)
        self._xml("CompleteMultipartUploadResult", f"<ETag>{self._put_in_place(temporary)['ETag']}</ETag>")

    def _abort(self, body: bytes) -> None:
        shutil.rmtree(self.server.incoming / self.query["uploadId"])
        self._send(204)

    def _delete(self, body: bytes) -> None:
        keys = [self.key] if self.key else re.findall("<Key>(.*?)</Key>", body.decode(), re.DOTALL)
        for key in keys:
            with suppress(OSError):  # no object, or a folder on the way up that is not empty
                path = self._path(f"{self.bucket}/{self.key or unescape(key)}")
                path.unlink()
                for folder in itertools.takewhile(lambda at: at.parent != self.server.folder, path.parents):
                    folder.rmdir()
        if self.key:
            self._send(204)
        else:
            self._xml("DeleteResult", "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys))

    def _temporary(self) -> Path:
        return self.server.incoming / next(self.server.names)

    def _put_in_place(self, temporary: Path) -> dict[str, str]:
        path = self._path()
        path.parent.mkdir(parents=True, exist_ok=True)
        headers = _version(temporary.stat())
        temporary.replace(path)
        return headers

    # ------------------------------------------------------------------ HTTP

    def _path(self, name: str = "") -> Path:
        name = name or f"{self.bucket}/{self.key}"
        path = self.server.folder / (f"{name}{_MARKER}" if name.endswith("/") else name)
        if path.is_dir() or not path.resolve().is_relative_to(self.server.folder):
            raise FileNotFoundError(path)
        return path

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            content = b"".join(_chunks(self.rfile))
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            content = b"".join(_chunks(io.BytesIO(content)))
        return content

    def _xml(self, root: str, content: str) -> None:
        self._send(200, f'<?xml version="1.0" encoding="UTF-8"?><{root}>{content}</{root}>'.encode())

    def _error(self, status: int, code: str) -> None:
        named = f"<Code>{code}</Code><Message>{code}</Message><Resource>{escape(self.path)}</Resource>"
        self._send(status, f"<Error>{named}</Error>".encode())

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self._begin(status, len(body), headers or {"Content-Type": "application/xml"})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: int, n_bytes: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(n_bytes), **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _chunks(file: io.BufferedIOBase) -> Iterator[bytes]:
    """Chunks, each after a line with its length; then trailers."""
    while n_bytes := int(file.readline().split(b";")[0], 16):
        yield file.read(n_bytes)
        file.readline()
    while file.readline().strip():
        pass


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        return list(found)
    return []


def _version(status: os.stat_result) -> dict[str, str]:
    version = (status.st_size, status.st_mtime_ns, status.st_ino)
    etag = hashlib.md5(repr(version).encode(), usedforsecurity=False).hexdigest()
    return {"ETag": f'"{etag}"', "Last-Modified": formatdate(status.st_mtime, usegmt=True)}


def _listed(name: str, status: os.stat_result | None) -> str:
    if status is None:
        return f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
    seconds, rest = divmod(status.st_mtime_ns, 10**9)
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return (
        f"<Contents><Key>{name}</Key><LastModified>{when}.{rest // 10**6:03}Z</LastModified>"
        f"<ETag>{_version(status)['ETag']}</ETag><Size>{status.st_size}</Size></Contents>"
    )


def main() -> None:
    """Serve a folder until the process is ended; the first line printed is the endpoint."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--latency", type=float, default=0.0)
    options = parser.parse_args()
    server = Server(options.folder, options.port)
    server.settings["latency"] = options.latency
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        server.serve_forever()
    finally:
        shutil.rmtree(server.incoming)


if __name__ == "__main__":
    main()
