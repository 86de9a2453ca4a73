"""The examples run from end to end without network."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(*arguments, home):
    environment = {**os.environ, "FLAMBEAU_OFFLINE": "1", "FLAMBEAU_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / "sst2_classification.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorial_learns_a_small_set_and_goes_on_from_its_checkpoint(tmp_path):
    state = tmp_path / "state.pt"
    first = run("--tiny", "--epochs", 3, "--checkpoint", state, home=tmp_path / "home")
    accuracies = [float(value) for value in re.findall(r"dev accuracy ([\d.]+), [\d,]+ tokens/s", first)]
    assert len(accuracies) == 3
    assert accuracies[-1] > 75
    second = run("--tiny", "--epochs", 4, "--checkpoint", state, "--bf16", home=tmp_path / "home")
    assert "going on after epoch 3" in second
    assert re.findall(r"epoch (\d)", second.partition("\n")[2]) == ["4"]


class Context:
    """As much of TorchServe's context as a handler meets."""

    system_properties: ClassVar = {"gpu_id": None, "model_dir": "."}

    def __init__(self, **config):
        self.model_yaml_config = {"handler": config}
        self.statuses = {}

    def set_response_status(self, code=200, phrase="", idx=0):
        self.statuses[idx] = code


def test_the_handler_for_torchserve_answers_each_request_of_a_batch(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import serve_handler

    context = Context(top=2)
    assert serve_handler.handle(None, context) is None  # how a worker starts
    requests = [
        {"body": b"Il pleut souvent en Bretagne."},
        {"data": b"\xff"},
        {"body": {"text": "Guten Morgen, wie geht es Ihnen heute? " * 20}},
        {"body": {"words": 3}},
    ]
    french, damaged, german, empty = serve_handler.handle(requests, context)
    assert (next(iter(french)), next(iter(german))) == ("French", "German")
    assert len(french) == 2
    assert "byte 0" in damaged["error"]
    assert "Expected a text" in empty["error"]
    assert context.statuses == {1: 400, 3: 400}
    alone = serve_handler.handle(requests[:1], context)[0]
    assert alone == pytest.approx(french, abs=1e-6)
