"""A server with a real model on a real port: what clients ask, and what they are told."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2 as httpx
import numpy as np
import pytest

from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.errors import StartError
from flambeau.serve.server import Server

pytestmark = pytest.mark.timeout(120)


def settings(**changes):
    return VersionSettings(**{"batch_size": 8, "max_batch_delay_ms": 0, **changes})


@pytest.fixture(scope="module")
def running():
    """Servers that tests share, by their options."""
    servers = {}
    yield servers
    for server in servers.values():
        server.__exit__(None, None, None)


@pytest.fixture
def serve(obedient, running):
    """Gives a server of the obedient model; options are as for `ServeOptions`. A fresh one is for its test alone."""
    own = []

    def start(*, fresh=False, **options):
        changes = options.pop("settings", {})
        key = repr((changes, options))
        if fresh or key not in running:
            server = Server(
                [obedient], port=0, management_port=0, settings=settings(**changes), may_change=True, **options
            )
            server.__enter__()
            if not fresh:
                running[key] = server
                return server
            own.append(server)
            return server
        return running[key]

    yield start
    for server in own:
        server.__exit__(None, None, None)


def ask(server, text, **options):
    return httpx.post(f"{server.url}/predictions/obedient", content=text.encode(), timeout=60, **options)


def workers_of(server):
    return httpx.get(f"{server.management_url}/models/obedient").json()[0]["workers"]


def wait_until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.02)


def test_a_prediction_has_the_model_its_answer_and_an_id(serve):
    answer = ask(serve(), "echo hello")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "task": "obedience", "model": "obedient/obedient", "weights": "obedient/obedient:V1", "answer": "hello",
    }  # fmt: skip
    assert len(answer.headers["x-request-id"]) == 36
    assert "no-store" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "path",
    [
        "/predictions/obedient", "/predictions/obedient/1.0", "/predictions/obedient/1.0/any/rest", "/obedient/predict",
        "/obedient/1.0/predict", "/models/obedient/invoke", "/invocations", "/invocations?model_name=obedient",
        "/v1/models/obedient:predict",
    ],
)  # fmt: skip
def test_every_path_that_clients_know_answers(serve, path):
    server = serve()
    assert httpx.post(server.url + path, files={"data": b"echo a"}).json()["answer"] == "a"
    assert httpx.put(server.url + path, content=b"echo b").json()["answer"] == "b"


def test_errors_have_the_words_of_torchserve(serve):
    server = serve()

    def said(method, path, **options):
        answer = httpx.request(method, server.url + path, **options)
        return answer.status_code, answer.json()["type"], answer.json()["message"]

    assert said("POST", "/predictions/nobody") == (404, "ModelNotFoundException", "Model not found: nobody")
    assert said("POST", "/predictions/obedient/2.0") == (
        404, "ModelVersionNotFoundException", "Model version: 2.0 does not exist for model: obedient",
    )  # fmt: skip
    assert said("GET", "/nowhere")[:2] == (404, "ResourceNotFoundException")
    assert said("DELETE", "/ping")[:2] == (405, "MethodNotAllowedException")
    assert said("POST", "/predictions/obedient", content=b"unreadable") == (
        400, "BadRequestException", "this cannot be read.",
    )  # fmt: skip
    assert said("POST", "/predictions/obedient", content=b"raise") == (
        503, "InternalServerException", "Prediction failed",
    )  # fmt: skip


def test_nothing_of_the_models_code_reaches_a_client(serve):
    answer = ask(serve(), "raise")
    assert "secret" not in answer.text and "Traceback" not in answer.text


def test_requests_that_wait_for_a_busy_worker_go_together(serve):
    server = serve()
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(ask, server, "sleep 1")
        time.sleep(0.3)
        rest = [pool.submit(ask, server, "together") for _ in range(8)]
        assert first.result().status_code == 200
        assert {one.result().json()["answer"] for one in rest} == {8}


@pytest.mark.parametrize("poison", ["raise", "kill", "exit"])
def test_a_poisoned_request_fails_alone(serve, poison):
    server = serve()
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(ask, server, "sleep 1")
        time.sleep(0.3)
        rest = [pool.submit(ask, server, poison if n == 3 else f"echo {n}") for n in range(8)]
        first.result()
        answers = [one.result() for one in rest]
    expected = [503 if poison == "raise" else 507 if poison == "kill" else 500]
    assert [a.status_code for a in answers] == [200, 200, 200, *expected, 200, 200, 200, 200]
    assert [a.json()["answer"] for a in answers if a.status_code == 200] == [str(n) for n in range(8) if n != 3]


def test_an_idle_worker_that_is_killed_is_replaced(serve):
    server = serve(fresh=True)
    (before,) = workers_of(server)
    subprocess.run(["kill", "-9", str(before["pid"])], check=True)
    wait_until(lambda: workers_of(server)[0]["restarts"] == 1 and workers_of(server)[0]["status"] == "READY")
    (after,) = workers_of(server)
    assert after["pid"] != before["pid"] and ask(server, "echo again").json()["answer"] == "again"


def test_a_request_survives_the_death_of_its_worker(serve):
    server = serve(fresh=True)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, server, "sleep 1")
        wait_until(lambda: workers_of(server)[0]["state"] == "busy")
        subprocess.run(["kill", "-9", str(workers_of(server)[0]["pid"])], check=True)
        assert answer.result().status_code == 200


def test_what_a_worker_started_ends_with_it(serve):
    server = serve()
    child = ask(server, "leave").json()["answer"]
    ask(server, "kill")
    wait_until(lambda: subprocess.run(["kill", "-0", str(child)], capture_output=True).returncode != 0)


def test_a_batch_that_hangs_is_ended_and_the_worker_replaced(serve):
    server = serve(fresh=True, settings={"response_timeout": 1})
    answer = ask(server, "sleep 60")
    assert (answer.status_code, answer.json()["message"]) == (500, "Worker died.")
    wait_until(lambda: workers_of(server)[0]["status"] == "READY")
    assert ask(server, "echo after").status_code == 200
    assert workers_of(server)[0]["restarts"] == 1


def test_a_request_whose_time_is_over_is_told_so_and_its_neighbour_is_not_harmed(serve):
    server = serve()
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(ask, server, "sleep 2")
        time.sleep(0.3)
        late = ask(server, "echo late", headers={"X-Request-Timeout-Ms": "200"})
        assert (late.status_code, late.json()["type"]) == (504, "DeadlineExceededException")
        assert busy.result().status_code == 200
    bad = ask(server, "echo x", headers={"X-Request-Timeout-Ms": "soon"})
    assert bad.status_code == 400


def test_a_full_queue_says_so(serve):
    server = serve(settings={"batch_size": 1, "queue_size": 2})
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, server, "sleep 0.5") for _ in range(8)]
        answers = [one.result() for one in asked]
    refused = [a for a in answers if a.status_code == 503]
    assert refused and all("is full" in a.json()["message"] and int(a.headers["retry-after"]) >= 1 for a in refused)
    assert sum(a.status_code == 200 for a in answers) >= 3


def test_requests_of_clients_that_left_are_not_computed(serve):
    server = serve(fresh=True, settings={"batch_size": 1})
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(ask, server, "sleep 1.5")
        wait_until(lambda: workers_of(server)[0]["state"] == "busy")
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{server.url}/predictions/obedient", content=b"kill", timeout=0.3)
        assert busy.result().status_code == 200
    assert ask(server, "echo well").status_code == 200
    assert workers_of(server)[0]["restarts"] == 0


def test_a_worker_that_floods_its_output_is_not_blocked(serve):
    server = serve()
    assert ask(server, "flood").status_code == 200
    assert ask(server, "echo after").status_code == 200


def test_bodies_beyond_the_limit_are_refused(serve):
    from flambeau.serve.http.limits import Limits

    server = serve(limits=Limits(most_request=1000))
    assert ask(server, "echo " + "x" * 900).status_code == 200
    assert ask(server, "echo " + "x" * 1000).status_code == 413

    def chunks():
        for _ in range(20):
            yield b"x" * 100

    answer = httpx.post(f"{server.url}/predictions/obedient", content=chunks())
    assert answer.status_code == 413


def test_tensors_go_in_and_come_out_by_the_open_inference_protocol(serve):
    server = serve()
    url = f"{server.url}/v2/models/obedient"
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    tensor = {"name": "values", "shape": [2, 3], "datatype": "FP32"}
    answer = httpx.post(f"{url}/infer", json={"id": "7", "inputs": [{**tensor, "data": values.tolist()}]}).json()
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("7", "obedient", "1.0")
    (output,) = answer["outputs"]
    assert (output["shape"], output["datatype"]) == ([2, 3], "FP32")
    assert output["data"] == (values + 2).ravel().tolist()

    head = json.dumps(
        {"inputs": [{**tensor, "parameters": {"binary_data_size": 24}}], "parameters": {"binary_data_output": True}}
    ).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    binary = httpx.post(f"{url}/infer", content=head + values.tobytes(), headers=headers)
    length = int(binary.headers["inference-header-content-length"])
    assert json.loads(binary.content[:length])["outputs"][0]["parameters"] == {"binary_data_size": 24}
    assert np.array_equal(np.frombuffer(binary.content[length:], "<f4").reshape(2, 3), values + 2)

    wrong = httpx.post(f"{url}/infer", json={"inputs": [{**tensor, "data": [1]}]})
    assert wrong.status_code == 400 and "data has 1 numbers" in wrong.json()["error"]
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200
    assert httpx.get(f"{url}/ready").json() == {"name": "obedient", "ready": True}
    assert httpx.get(f"{server.url}/v2/models/nobody").json() == {"error": "Model not found: nobody"}


def test_models_are_registered_scaled_described_and_removed(serve, obedient):
    server = serve(fresh=True)
    url = f"{server.management_url}/models"

    def status(answer):
        return answer.status_code, answer.json().get("status") or answer.json()["message"]

    asked = {"url": f"weights:{obedient}", "model_name": "second", "initial_workers": 1}
    assert status(httpx.post(url, params=asked, timeout=60)) == (
        200, 'Model "second" Version: 1.0 registered with 1 initial workers',
    )  # fmt: skip
    assert status(httpx.post(url, params=asked)) == (409, "Model version 1.0 is already registered for model second")
    assert httpx.post(f"{server.url}/predictions/second", content=b"echo x").json()["answer"] == "x"
    assert httpx.get(url, params={"limit": 1}).json() == {
        "nextPageToken": "1", "models": [{"modelName": "obedient", "modelUrl": f"weights:{obedient}"}],
    }  # fmt: skip
    scaled = httpx.put(f"{url}/second", params={"min_worker": 2, "synchronous": "true"}, timeout=60)
    assert status(scaled) == (200, "Workers scaled to 2 for model: second")
    assert len(httpx.get(f"{url}/second").json()[0]["workers"]) == 2
    assert status(httpx.put(f"{url}/second", params={"min_worker": 2, "max_worker": 1})) == (
        400, "max_worker cannot be less than min_worker.",
    )  # fmt: skip
    none = httpx.put(f"{url}/second", params={"min_worker": 0, "max_worker": 0, "synchronous": "true"}, timeout=60)
    assert none.status_code == 200
    assert httpx.post(f"{server.url}/predictions/second", content=b"echo x").status_code == 503
    assert status(httpx.delete(f"{url}/second", timeout=60)) == (200, 'Model "second" unregistered')
    assert status(httpx.delete(f"{url}/second")) == (404, "Model not found: second")
    assert status(httpx.post(url)) == (400, "Parameter url is required.")
    assert status(httpx.post(url, params={"url": "../x.mar"})) == (
        404, "Relative path is not allowed in url: ../x.mar",
    )  # fmt: skip


def test_a_model_that_cannot_be_loaded_leaves_nothing_behind(serve, obedient, monkeypatch):
    monkeypatch.setenv("OBEDIENT_FAILS", "1")
    with pytest.raises(StartError, match="it was told to fail"):
        serve(fresh=True)


def test_a_name_nobody_knows_is_refused_before_anything_starts():
    with pytest.raises(StartError, match="digit_cnn"):
        Server(["vision/digit_cnm"])


def test_an_address_that_is_taken_is_refused(serve, obedient):
    server = serve()
    with pytest.raises(StartError, match="in use"), Server([obedient], port=int(server.url.rpartition(":")[2])):
        pass


def test_nothing_listens_beyond_loopback_without_tokens(obedient):
    with pytest.raises(StartError, match="--insecure"):
        Server([obedient], host="0.0.0.0")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "localhost"}, 200),
    ],
)
def test_pages_of_strangers_cannot_ask(serve, headers, status):
    assert ask(serve(), "echo x", headers=headers).status_code == status


def test_metrics_name_models_and_count(serve):
    server = serve(fresh=True)
    ask(server, "echo x")
    ask(server, "raise")
    httpx.post(f"{server.url}/predictions/a_stranger", content=b"x")
    page = httpx.get(f"{server.url}/metrics").text
    labels = 'model_name="obedient",model_version="1.0"'
    assert f"flambeau_serve_request_seconds_count{{{labels}}} 1.0" in page
    assert f'flambeau_serve_errors_total{{{labels},status="503"}} 1.0' in page
    assert f"flambeau_serve_workers{{{labels}}} 1.0" in page
    assert "a_stranger" not in page


@pytest.fixture
def command(obedient):
    """`flambeau serve` as a process, and its address."""
    words = [sys.executable, "-m", "flambeau.core", "serve", obedient, "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = next(line.split()[-1] for line in process.stderr if "serving at" in line)
        yield process, url
        process.kill()


def test_sigterm_lets_accepted_requests_end_and_leaves_no_process(command):
    process, url = command
    with ThreadPoolExecutor(1) as pool:
        pid = httpx.post(f"{url}/predictions/obedient", content=b"pid").json()["answer"]
        answer = pool.submit(httpx.post, f"{url}/predictions/obedient", content=b"sleep 1.5", timeout=60)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert answer.result().status_code == 200
    assert process.wait(30) == 0
    assert subprocess.run(["kill", "-0", str(pid)], capture_output=True).returncode != 0


def test_no_worker_outlives_a_front_that_is_killed(command):
    process, url = command
    pid = httpx.post(f"{url}/predictions/obedient", content=b"pid").json()["answer"]
    process.kill()
    wait_until(lambda: subprocess.run(["kill", "-0", str(pid)], capture_output=True).returncode != 0)


def test_a_client_that_sends_a_byte_at_a_time_is_not_waited_for(serve):
    from flambeau.serve.http.limits import Limits

    server = serve(limits=Limits(body_seconds=1.0))
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST /predictions/obedient HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        connection.sendall(struct.pack("B", 1))
        connection.settimeout(20)
        assert b" 408 " in connection.recv(1000)
