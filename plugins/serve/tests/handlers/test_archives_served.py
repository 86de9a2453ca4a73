"""Archives on a real server: handlers written for TorchServe run unchanged."""

from __future__ import annotations

import io
import json
import time

import httpx2 as httpx
import pytest
import torch
from making import archive, manifest_of
from PIL import Image

from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.server import Server

pytestmark = pytest.mark.timeout(120)

ECHO = """
import time
from ts.torch_handler.base_handler import BaseHandler
from ts.utils.util import PredictionException
from ts.protocol.otf_message_handler import send_intermediate_predict_response

class Echo(BaseHandler):
    def initialize(self, context):
        self.words = context.model_yaml_config.get("words", {})
        self.initialized = True

    def handle(self, data, context):
        answers = []
        for place, row in enumerate(data):
            body = row.get("body", row.get("data"))
            text = body.decode() if isinstance(body, (bytes, bytearray)) else body
            if text == "refuse":
                raise PredictionException("not this one", 513)
            if text == "stream":
                for part in range(3):
                    send_intermediate_predict_response([f"part {part} "], context.request_ids, "ok", 200, context)
                    time.sleep(0.2)
                answers.append("end")
                continue
            if text == "teapot":
                context.set_response_status(418, "teapot", place)
                context.set_response_header(place, "x-mine", "yes")
                context.set_response_content_type(place, "text/x-tea")
            answers.append(self.words.get(text, text) if isinstance(text, str) else text)
        return answers

    def describe_handle(self):
        return {"inputs": ["text"]}
"""

COUNTS = """
calls = 0

def count(data, context):
    global calls
    if data is None:
        calls = 100
        return
    calls += 1
    return [{"calls": calls, "name": context.model_name, "rest": context.get_request_header(i, "url_path")}
            for i in range(len(data))]
"""

WRONG = "def handle(data, context):\n    return None if data is None else {'all': 'of them'}\n"

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, pictures):
        flat = pictures.mean((2, 3))
        return torch.cat([flat, flat + self.scale], 1)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    config = {"config.yaml": "words: {hello: world}\nbatchSize: 4\n"}
    archive(store / "echo.mar", {"handler.py": ECHO, **config}, manifest_of(modelName="echo", configFile="config.yaml"))
    archive(store / "counts.mar", {"count.py": COUNTS}, manifest_of(modelName="counts", handler="count.py:count"))
    archive(store / "wrong.mar", {"handler.py": WRONG}, manifest_of(modelName="wrong"))
    weights = io.BytesIO()
    torch.save({"scale": torch.tensor([3.0])}, weights)
    files = {
        "model.py": MODEL,
        "net.pth": weights.getvalue(),
        "index_to_name.json": json.dumps({"0": "red", "3": ["n1", "bright red"]}),
    }
    facts = {"handler": "image_classifier", "modelFile": "model.py", "serializedFile": "net.pth"}
    archive(store / "pictures.mar", files, manifest_of(modelName="pictures", **facts))
    archive(store / "broken.mar", {"handler.py": "raise ImportError('no such thing')"}, manifest_of(modelName="broken"))
    harm = io.BytesIO()
    torch.save(torch.nn.Linear(1, 1), harm)
    archive(store / "pickled.mar", {**files, "net.pth": harm.getvalue()}, manifest_of(modelName="pickled", **facts))
    names = ["echo.mar", "counts.mar", "wrong.mar", "pictures.mar"]
    with Server(
        names, port=0, management_port=0, store=store, may_change=True, settings=VersionSettings(max_batch_delay_ms=0)
    ) as running:
        yield running


def ask(server, model, body, path="", **options):
    return httpx.post(f"{server.url}/predictions/{model}{path}", content=body, timeout=60, **options)


def test_a_class_of_an_archive_answers_with_its_configuration(server):
    answer = ask(server, "echo", b"hello")
    assert (answer.text, answer.headers["content-type"]) == ("world", "text/plain; charset=utf-8")
    assert ask(server, "echo", b'{"a": [1, 2]}', headers={"content-type": "application/json"}).json() == {"a": [1, 2]}


def test_a_function_is_called_once_without_data_and_then_with_batches(server):
    first, second = (ask(server, "counts", b"x", "/1.0/some/rest").json() for _ in range(2))
    assert (first["calls"], second["calls"]) == (101, 102)
    assert (first["name"], first["rest"]) == ("counts", "some/rest")


def test_a_handler_sets_the_status_headers_and_type_of_its_answer(server):
    answer = ask(server, "echo", b"teapot")
    assert (answer.status_code, answer.headers["x-mine"], answer.headers["content-type"]) == (418, "yes", "text/x-tea")


def test_what_a_handler_refuses_has_its_code_and_words(server):
    answer = ask(server, "echo", b"refuse")
    assert (answer.status_code, answer.json()["message"]) == (513, "not this one")


def test_parts_of_an_answer_come_as_they_are_sent(server):
    arrived = []
    with httpx.stream("POST", f"{server.url}/predictions/echo", content=b"stream", timeout=30) as answer:
        assert answer.status_code == 200
        for part in answer.iter_text():
            arrived.append((part, time.monotonic()))
    assert "".join(part for part, _ in arrived) == "part 0 part 1 part 2 end"
    assert arrived[-1][1] - arrived[0][1] > 0.3


def test_an_answer_that_is_no_list_is_a_failure(server):
    answer = ask(server, "wrong", b"x")
    assert (answer.status_code, answer.json()["message"]) == (503, "Prediction failed")


def test_the_image_classifier_names_the_best_classes(server):
    buffer = io.BytesIO()
    Image.new("RGB", (300, 280), (255, 0, 0)).save(buffer, "PNG")
    answer = ask(server, "pictures", buffer.getvalue()).json()
    assert next(iter(answer)) == "bright red" and "red" in answer and len(answer) == 5
    assert abs(sum(answer.values()) - 1) < 0.2
    refused = ask(server, "pictures", b"no picture")
    assert refused.status_code == 400 and "no picture" in refused.json()["message"]


def test_a_model_describes_itself(server):
    url = f"{server.management_url}/models/echo"
    assert httpx.get(url, params={"customized": "true"}).json()[0]["customizedMetadata"] == {"inputs": ["text"]}


@pytest.mark.parametrize(
    ("name", "why"), [("broken.mar", "no such thing"), ("pickled.mar", "UnsafeCheckpointError"), ("absent.mar", "")]
)
def test_an_archive_that_cannot_be_loaded_is_not_registered(server, name, why):
    url = f"{server.management_url}/models"
    answer = httpx.post(url, params={"url": name, "initial_workers": 1}, timeout=60)
    assert answer.status_code == (404 if name == "absent.mar" else 500) and why in answer.json()["message"]
    assert httpx.get(f"{url}/{name.removesuffix('.mar')}").status_code == 404
