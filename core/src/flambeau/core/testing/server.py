"""A real HTTP server on loopback that can misbehave on purpose, and remembers what it was asked and what it sent.

::

    with FileServer({"a.bin": data}) as server:
        server.next("a.bin", Reply(cut_after=1000))      # the first answer breaks off after 1,000 bytes
        path = fetch(server.url("a.bin"), sha256=..., root=tmp_path)
        assert server.requests("a.bin")[1].headers["range"] == "bytes=1000-"
        assert server.sent("a.bin") == len(data)

It speaks ranges, strong ETags, `Last-Modified` and `If-Range` as a good server does; a `Reply` says where one answer
departs from that. It listens on 127.0.0.1 alone.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import re
import socket
import ssl
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote, urlsplit

_BLOCK = 1 << 16
_MODIFIED = 1_700_000_000.0


@dataclass(frozen=True)
class Reply:
    """How one answer departs from a good server's; what is left out is as it should be.

    Args:
        status: answer with this status and no file, for example 503 or 404.
        headers: fields to add or to replace; None as a value leaves the field out.
        body: send this in place of the file, for example an HTML page. Ranges are ignored.
        cut_after: break the connection after so many bytes of the body.
        reset: break it with a reset (True) rather than an orderly end.
        wait_after: after so many bytes of the body wait until `gate` is set (or the server closes).
        gate: what `wait_after` waits for.
        pace: seconds to sleep after every 64 kB.
        ranges: False ignores `Range` and sends the whole file with status 200.
        content_range: send this `Content-Range` instead of the true one.
        length: announce this `Content-Length`; None announces none, and the end of the connection ends the body.
        chunked: send the body in chunks, without a length.
        redirect: answer 302 to this URL.
        compress: gzip the body although the client asked for it as it is.
        drop: close the connection without any answer.
    """

    status: int | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: bytes | None = None
    cut_after: int | None = None
    reset: bool = False
    wait_after: int | None = None
    gate: threading.Event | None = None
    pace: float = 0.0
    ranges: bool = True
    content_range: str | None = None
    length: int | None = -1
    chunked: bool = False
    redirect: str | None = None
    compress: bool = False
    drop: bool = False


@dataclass
class Request:
    """One request and what became of it. Header names are in lower case; `sent` counts bytes of the body."""

    method: str
    path: str
    headers: dict[str, str]
    status: int = 0
    sent: int = 0
    done: bool = False


class FileServer:
    """Serves files from memory; use it as a context manager.

    Args:
        files: path -> content.
        host: the name in its URLs; `localhost` and `127.0.0.1` are two hosts to a client.
        tls: a context to serve https with.
    """

    def __init__(
        self, files: Mapping[str, bytes] | None = None, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self.files: dict[str, bytes] = {path.strip("/"): data for path, data in (files or {}).items()}
        self.always: dict[str, Reply] = {}
        self.log: list[Request] = []
        self._next: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self._guard = threading.Lock()
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.host, self.port = host, int(self._server.server_address[1])
        self._scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> FileServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, path: str) -> str:
        """The address of a path on this server."""
        return f"{self._scheme}://{self.host}:{self.port}/{path.strip('/')}"

    def next(self, path: str, *replies: Reply) -> None:
        """Answer the next requests for a path so, one reply each; after that `always` or a good answer again."""
        with self._guard:
            self._next[path.strip("/")].extend(replies)

    def requests(self, path: str | None = None) -> list[Request]:
        """What was asked so far, in order; for one path or all."""
        with self._guard:
            return [request for request in self.log if path is None or request.path == path.strip("/")]

    def sent(self, path: str | None = None) -> int:
        """Bytes of bodies sent so far, for one path or all."""
        return sum(request.sent for request in self.requests(path))

    def wait(self, condition: Callable[[FileServer], bool], *, timeout_s: float = 60.0) -> None:
        """Wait until a condition on this server holds.

        Raises:
            TimeoutError: it does not come to hold.
        """
        end = time.monotonic() + timeout_s
        while not condition(self):
            if time.monotonic() > end:
                raise TimeoutError(f"the condition did not come to hold; so far: {self.requests()}")
            time.sleep(0.005)

    def reply_to(self, request: Request) -> Reply:
        """Record a request and say how to answer it."""
        with self._guard:
            self.log.append(request)
            waiting = self._next[request.path]
            return waiting.popleft() if waiting else self.always.get(request.path, Reply())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: FileServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay quiet: clients that are killed in the middle are what this server is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *arguments: object) -> None:
        """Keep stderr clean; the requests are in the log."""

    def do_GET(self) -> None:
        """Answer one request."""
        request = Request(
            self.command,
            unquote(urlsplit(self.path).path).strip("/"),
            {name.lower(): value for name, value in self.headers.items()},
        )
        reply = self.server.owner.reply_to(request)
        try:
            self._answer(request, reply)
        except OSError:  # the client went away
            self.close_connection = True
        finally:
            request.done = True

    do_HEAD = do_GET

    def _answer(self, request: Request, reply: Reply) -> None:
        if reply.drop:
            self._break(reset=reply.reset)
            return
        if reply.redirect is not None:
            self._head(request, 302, {"Location": reply.redirect, "Content-Length": "0"}, reply)
            return
        content = self.server.owner.files.get(request.path) if reply.body is None else reply.body
        if reply.status is not None or content is None:
            self._head(request, reply.status or 404, {"Content-Length": "0"}, reply)
            return
        if reply.compress:
            content = gzip.compress(content, mtime=0)
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        fields = {"ETag": etag, "Last-Modified": formatdate(_MODIFIED, usegmt=True), "Accept-Ranges": "bytes"}
        start = self._range_start(request, reply, fields)
        if start is None or reply.body is not None or reply.compress:
            fields |= {"Content-Encoding": "gzip"} if reply.compress else {}
            self._body(request, 200, content, fields, reply)
        elif start >= len(content):
            self._head(request, 416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"}, reply)
        else:
            whole = f"bytes {start}-{len(content) - 1}/{len(content)}"
            fields["Content-Range"] = reply.content_range or whole
            self._body(request, 206, content[start:], fields, reply)

    def _range_start(self, request: Request, reply: Reply, fields: Mapping[str, str]) -> int | None:
        match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        condition = request.headers.get("if-range")
        if match is None or not reply.ranges:
            return None
        changed = condition is not None and condition not in (fields["ETag"], fields["Last-Modified"])
        return None if changed else int(match[1])

    def _body(self, request: Request, status: int, content: bytes, fields: dict[str, str], reply: Reply) -> None:
        if reply.chunked:
            fields["Transfer-Encoding"] = "chunked"
        elif reply.length is not None:
            fields["Content-Length"] = str(len(content) if reply.length < 0 else reply.length)
        if reply.length is None and not reply.chunked:
            fields["Connection"] = "close"
            self.close_connection = True
        self._head(request, status, fields, reply)
        if request.method == "HEAD":
            return
        stops = sorted({stop for stop in (reply.cut_after, reply.wait_after) if stop is not None})
        position = 0
        while position < len(content):
            if position == reply.cut_after:
                break
            if position == reply.wait_after and reply.gate is not None:
                self._wait(reply.gate)
            end = min([len(content), position + _BLOCK, *(stop for stop in stops if stop > position)])
            self._write(content[position:end], chunked=reply.chunked)
            request.sent += end - position
            position = end
            if reply.pace:
                time.sleep(reply.pace)
        if position < len(content):
            self._break(reset=reply.reset)
        elif reply.chunked:
            self.wfile.write(b"0\r\n\r\n")
        elif reply.length is not None and reply.length > len(content):
            self._break(reset=reply.reset)

    def _head(self, request: Request, status: int, fields: Mapping[str, str], reply: Reply) -> None:
        request.status = status
        self.send_response(status)
        for name, value in {**fields, **reply.headers}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()

    def _write(self, block: bytes, *, chunked: bool) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)

    def _wait(self, gate: threading.Event) -> None:
        while not gate.wait(0.01) and not self.server.owner.closing.is_set():
            pass

    def _break(self, *, reset: bool) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            if reset:  # lingering for no time at all makes the system send RST in place of FIN
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
