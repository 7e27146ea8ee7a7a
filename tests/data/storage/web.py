"""A web server on loopback: the files of a folder, by ranges, for whoever has the signature."""

import hashlib
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self._answer(with_body=False)

    def do_GET(self):
        self._answer(with_body=True)

    def _answer(self, *, with_body):
        server, asked = self.server, urlsplit(self.path)
        server.asked.append((self.command, self.path, self.headers.get("Authorization")))
        place = server.folder / unquote(asked.path).lstrip("/")
        if server.failing and server.failing(self):
            self._send(server.status, b"no", {}, with_body)
        elif not server.allows(self):
            self._send(403, b"forbidden", {}, with_body)
        elif place.is_dir():
            links = "".join(f'<a href="{path.name}">{path.name}</a>' for path in sorted(place.iterdir()))
            self._send(200, links.encode(), {"Content-Type": "text/html"}, with_body)
        elif not place.is_file():
            self._send(404, b"none", {}, with_body)
        else:
            self._send_file(place.read_bytes(), server.version_of(place), with_body)

    def _send_file(self, content, version, with_body):
        headers = {**version, "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range")
        if asked is None:
            return self._send(200, content, headers, with_body)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, stop = (int(first), int(last or len(content) - 1) + 1) if first else (-int(last), None)
        part = content[start:stop]
        start = start if start >= 0 else len(content) + start
        headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
        return self._send(206, part, headers, with_body)

    def _send(self, status, content, headers, with_body):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


class WebServer(ThreadingHTTPServer):
    """Serves a folder; `allows` says which requests it answers, `failing` which it refuses with `status`."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.folder, self.asked, self.failing, self.status = Path(folder), [], None, 503
        self.allows = lambda request: True
        self.version_of = lambda path: {"ETag": f'"{hashlib.md5(path.read_bytes()).hexdigest()}"'}
        self.host = f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        Thread(target=partial(self.serve_forever, 0.01), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        self.server_close()
