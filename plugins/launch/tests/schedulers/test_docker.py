"""Docker: the requests that reach the engine, at a stand-in that speaks its API over a socket."""

from __future__ import annotations

import gc
import json
import re
import socketserver
import tarfile
import threading
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from flambeau.launch.components.dist import ddp
from flambeau.launch.components.utils import echo
from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.runner import Runner
from flambeau.launch.schedulers import get_scheduler_factories
from flambeau.launch.specs import AppDef, AppState, Role

docker = pytest.importorskip("docker")


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Containers, images and networks, as far as the scheduler asks for them."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        self.containers: dict[str, dict] = {}
        self.networks: list[str] = []
        self.contexts: list[bytes] = []
        self.requests: list[str] = []
        self.refuse = ""
        super().__init__(path, Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self):
        connection, _ = super().get_request()
        return connection, ("local", 0)


def has_labels(container, wanted) -> bool:
    labels = container["Config"]["Labels"]
    return set(wanted) <= {*labels, *(f"{name}={value}" for name, value in labels.items())}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, code=200):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def handle_any(self):
        engine: Engine = self.server
        parts = urlsplit(self.path)
        path, query = re.sub(r"^/v[\d.]+", "", parts.path), parse_qs(parts.query)
        body = self.body()
        engine.requests.append(f"{self.command} {path}")
        containers = engine.containers
        if path == "/version":
            return self.answer({"ApiVersion": "1.43", "MinAPIVersion": "1.24", "Version": "24"})
        if path == "/build":
            engine.contexts.append(body)
            return self.answer(b'{"stream": "Successfully built 0123456789ab"}\n')
        if path == "/images/create":
            return self.answer({"message": "no such registry"}, 500)
        if path.startswith("/images/"):
            return self.answer({"Id": "sha256:0123456789abcdef", "RepoTags": []})
        if path == "/networks":
            return self.answer([{"Name": name, "Id": name} for name in engine.networks])
        if path == "/networks/create":
            engine.networks.append(json.loads(body)["Name"])
            return self.answer({"Id": "n"}, 201)
        if path.startswith("/networks/"):
            return self.answer({"Name": "torchx", "Id": "n"})
        if path == "/containers/create":
            name = query["name"][0]
            if engine.refuse and engine.refuse in name:
                return self.answer({"message": "no space left"}, 500)
            containers[name] = {
                "Id": name,
                "Name": f"/{name}",
                "Config": json.loads(body),
                "State": {"Status": "created", "ExitCode": 0},
            }
            return self.answer({"Id": name}, 201)
        if path == "/containers/json":
            wanted = json.loads(query["filters"][0])["label"] if "filters" in query else []
            labels = {
                name: [f"{k}={v}" for k, v in one["Config"]["Labels"].items()] + list(one["Config"]["Labels"])
                for name, one in containers.items()
            }
            return self.answer([{"Id": name} for name in containers if all(label in labels[name] for label in wanted)])
        _, _, name, *rest = path.split("/")
        if name not in containers:
            return self.answer({"message": f"No such container: {name}"}, 404)
        if self.command == "DELETE":
            del containers[name]
            return self.answer(b"", 204)
        if rest == ["start"]:
            containers[name]["State"]["Status"] = "running"
            return self.answer(b"", 204)
        if rest == ["stop"]:
            containers[name]["State"].update(Status="exited", ExitCode=143)
            return self.answer(b"", 204)
        if rest == ["logs"]:
            texts = (b"hello\nwor", b"ld\n")
            return self.answer(b"".join(bytes([1, 0, 0, 0]) + len(text).to_bytes(4, "big") + text for text in texts))
        return self.answer(containers[name])

    do_GET = do_POST = do_DELETE = handle_any


@pytest.fixture
def engine(tmp_path, monkeypatch):
    path = str(tmp_path / "docker.sock")
    made = Engine(path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def runner():
    with Runner("torchx", get_scheduler_factories()) as made:
        yield made


MOUNTS = [
    "type=bind",
    "src=/a",
    "dst=/b",
    "readonly",
    "type=volume",
    "src=v",
    "dst=/v",
    "type=device",
    "src=/dev/x",
    "perm=rw",
]


def test_every_replica_is_a_container_with_its_resources(runner, engine, monkeypatch):
    monkeypatch.setenv("FOO_1", "copied")
    cfg = {"copy_env": ["FOO_*"], "env": {"E": "1"}}
    application = ddp(script="t.py", j="2x1", cpu=3, gpu=1, memMB=512, max_retries=2, env={"E": "2"}, mounts=MOUNTS)
    handle = runner.run(application, "local_docker", cfg)
    app_id = handle.rpartition("/")[2]
    first, second = (engine.containers[f"{app_id}-t-{number}"]["Config"] for number in (0, 1))
    host = first["HostConfig"]
    assert first["Cmd"][:2] == ["bash", "-c"] and "${TORCHX_RANK0_HOST:=localhost}" in first["Cmd"][2]
    assert {"FOO_1=copied", "E=2", f"TORCHX_RANK0_HOST={app_id}-t-0"} <= set(second["Env"])
    assert (host["NanoCpus"], host["Memory"], host["ShmSize"]) == (3_000_000_000, 512 * 2**20, 512 * 2**20)
    assert host["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 2}
    assert [(one["Source"], one["Target"], one["Type"], one["ReadOnly"]) for one in host["Mounts"]] == [
        ("/a", "/b", "bind", True), ("v", "/v", "volume", False),
    ]  # fmt: skip
    assert host["Devices"] == [{"PathOnHost": "/dev/x", "PathInContainer": "/dev/x", "CgroupPermissions": "rw"}]
    assert host["DeviceRequests"][0]["Count"] == 1 and engine.networks == ["torchx"]


def test_states_logs_and_cancelling(runner, engine):
    handle = runner.run(echo(num_replicas=2), "local_docker")
    assert runner.status(handle).state is AppState.RUNNING
    assert list(runner.log_lines(handle, "echo", 1)) == ["hello\n", "world\n"]
    assert [one.app_handle for one in runner.list("local_docker")] == [handle]
    runner.cancel(handle)
    assert runner.status(handle).state is AppState.CANCELLED
    for code, expected in ((0, AppState.SUCCEEDED), (3, AppState.FAILED)):
        for one in engine.containers.values():
            one["State"]["ExitCode"] = code
        assert runner.status(handle).state is expected


def test_where_one_container_cannot_start_none_stays(runner, engine):
    engine.refuse = "-1"
    with pytest.raises(SchedulerError, match="no space left"):
        runner.run(echo(num_replicas=2), "local_docker")
    assert engine.containers == {}


def test_logs_of_a_removed_container_are_told(runner, engine):
    handle = runner.run(echo(), "local_docker")
    with pytest.raises(LogsUnavailable, match="no container"):
        list(runner.log_lines(handle, "echo", 5))


# Docker's client leaves the socket of a failed attempt to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_engine_that_does_not_answer_is_told_in_one_line(runner, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(SchedulerError, match="cannot be reached") as caught:
        runner.run(echo(), "local_docker")
    assert "\n" not in str(caught.value)
    del caught
    gc.collect()


@pytest.mark.parametrize("name", ["a; touch x", "a b", "$(x)", "../x"])
def test_whatever_the_name_docker_gets_one_that_it_takes(runner, engine, name):
    runner.run(AppDef(name, [Role(name, "i", entrypoint="e")]), "local_docker")
    (container,) = engine.containers
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", container)


def test_a_workspace_becomes_an_image_of_just_its_files(runner, engine):
    Path("main.py").write_text("print(1)\n")
    Path("secret").write_text("x")
    Path(".dockerignore").write_text("secret\n")
    application = echo(image="base")
    runner.dryrun(application, "local_docker", {}, workspace=str(Path.cwd()))
    with tarfile.open(fileobj=BytesIO(engine.contexts[0])) as archive:
        assert sorted(archive.getnames()) == [".dockerignore", "Dockerfile.torchx", "main.py"]
        assert archive.extractfile("main.py").read() == b"print(1)\n"
        assert archive.extractfile("Dockerfile.torchx").read() == b"\nARG IMAGE\nFROM $IMAGE\n\nCOPY . .\n"
    assert application.roles[0].image == "sha256:0123456789abcdef"


def test_the_same_workspace_is_the_same_context_byte_by_byte(runner, engine):
    import os

    Path("main.py").write_text("print(1)\n")
    for moment in (1, 2):
        os.utime("main.py", (moment, moment))
        runner.dryrun(echo(image="base"), "local_docker", {}, workspace=str(Path.cwd()))
    assert engine.contexts[0] == engine.contexts[1]
