"""A local S3 server, and web servers that misbehave."""

from __future__ import annotations

import http.server
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

pytest.importorskip("obstore")
moto_server = pytest.importorskip("moto.server")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_endpoint: str, request: pytest.FixtureRequest) -> Callable[[dict[str, bytes]], str]:
    """Fills a fresh bucket; returns its URL."""
    import boto3

    def fill(objects: dict[str, bytes]) -> str:
        client = boto3.client(
            "s3", endpoint_url=s3_endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        name = f"bucket-{abs(hash(request.node.nodeid)) % 10**12}"
        client.create_bucket(Bucket=name)
        for key, content in objects.items():
            client.put_object(Bucket=name, Key=key, Body=content)
        return f"s3://{name}"

    return fill


@pytest.fixture
def silent_endpoint() -> Iterator[str]:
    """A server that takes connections and never answers."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


@dataclass
class WebServer:
    """One file over HTTP, with faults."""

    content: bytes
    ranges: bool = True
    cut_bodies: int = 0  # answers that break off in the middle
    refusals: int = 0  # answers 503 first
    url: str = ""
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                web.requests.append((self.path, asked))
                if web.refusals > 0:
                    web.refusals -= 1
                    self.answer(503, b"")
                elif asked and web.ranges:
                    first, last = (int(word) for word in asked.removeprefix("bytes=").split("-"))
                    last = min(last, len(web.content) - 1)
                    self.answer(206, web.content[first : last + 1], f"bytes {first}-{last}/{len(web.content)}")
                else:
                    self.answer(200, web.content)

            do_HEAD = do_GET

            def answer(self, status: int, body: bytes, content_range: str = "") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", '"tag"')
                self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
                if content_range:
                    self.send_header("Content-Range", content_range)
                self.end_headers()
                if self.command == "HEAD":
                    return
                if status < 300 and web.cut_bodies > 0:
                    web.cut_bodies -= 1
                    self.wfile.write(body[: len(body) // 2])
                    self.wfile.flush()
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                pass

        return Handler


@pytest.fixture
def web() -> Iterator[Callable[..., WebServer]]:
    servers = []

    def start(content: bytes, **faults: object) -> WebServer:
        one = WebServer(content, **faults)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), one.handler())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        one.url = f"http://127.0.0.1:{server.server_port}/folder/file.bin"
        return one

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
