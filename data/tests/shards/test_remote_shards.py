"""Shards in an object store are read by ranges."""

import http.server
import threading

import pytest

from flambeau.data.shards import ShardReader, ShardWriter, TarShard

pytest.importorskip("obstore")


@pytest.fixture
def served(tmp_path):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path = tmp_path / self.path.strip("/")
            content = path.read_bytes() if path.is_file() else b""
            first, last = 0, len(content) - 1
            if (wanted := self.headers.get("Range")) and content:
                first, last = (int(word) for word in wanted.removeprefix("bytes=").split("-"))
                last = min(last, len(content) - 1)
            asked.append((self.command, self.path, last + 1 - first))
            self.send_response(404 if not path.is_file() else 206 if wanted else 200)
            self.send_header("Content-Length", str(last + 1 - first))
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content[first : last + 1])

        do_HEAD = do_GET

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("index", [True, False])
def test_a_sample_of_a_remote_shard_costs_one_range(tmp_path, served, index):
    with ShardWriter(tmp_path / "%d.tar", index=index) as writer:
        for number in range(50):
            writer.write({"__key__": f"{number:03}", "bin": bytes([number]) * 10_000, "cls": number})
    root, asked = served
    shard = TarShard(f"{root}/0.tar")
    assert len(shard) == 50
    before = len(asked)
    assert before <= 4
    assert shard[33]["bin"] == bytes([33]) * 10_000
    assert len(asked) == before + 1
    assert 10_000 < asked[-1][2] < 13_000
    assert [int(sample["cls"]) for sample in ShardReader(f"{root}/{{0..0}}.tar")] == list(range(50))
