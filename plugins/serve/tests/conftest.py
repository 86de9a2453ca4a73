"""A plugin whose model does what a request's text says, so that every fault can be had for the asking."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from pathlib import Path

import pytest
import torch

from flambeau.core.plugins.manager import discover

MODULE = '''
"""A model that obeys: `echo WORD`, `sleep SECONDS`, `raise`, `kill`, `exit`, `print WORD`, `pid`, `together`."""
import os, signal, sys, time
import torch
from flambeau.core.errors import PredictError
from flambeau.core.services import Service
from flambeau.core.weights import Weights, WeightsEnum, build_with_weights, register_model

class Same:
    def __call__(self, text):
        return text

class Obedient_Weights(WeightsEnum):
    V1 = Weights("package:obedient_plugin/net.pth", Same, {}, sha256="DIGEST")
    DEFAULT = V1

class Obedient(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = torch.nn.Parameter(torch.zeros(1))

    def forward(self, values):
        return values + self.offset

@register_model(task="obedience")
def obedient(*, weights: Obedient_Weights | None = None, progress: bool = True):
    if os.environ.get("OBEDIENT_FAILS"):
        raise RuntimeError("it was told to fail")
    return build_with_weights(Obedient, weights, progress=progress)

class Obedience(Service):
    def decode(self, body, media_type, parameters):
        text = body.decode()
        if text == "unreadable":
            raise PredictError("this cannot be read.")
        return text

    def collate(self, prepared):
        return prepared

    def forward(self, batch):
        outputs = []
        for text in batch:
            word, _, rest = text.partition(" ")
            if word == "raise":
                raise ValueError("secret of the model's code")
            if word == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if word == "exit":
                sys.exit(3)
            if word == "sleep":
                time.sleep(float(rest))
            if word == "print":
                print(rest)
            if word == "flood":
                for _ in range(200_000):
                    print("x" * 100)
            if word == "leave":
                import subprocess
                outputs.append(subprocess.Popen(["sleep", "600"]).pid)
                continue
            outputs.append({"pid": os.getpid(), "together": len(batch)}.get(word, rest))
        return outputs

    def split(self, output, count):
        return output

    def answer(self, output, sample, parameters):
        return {"answer": output}
'''


def install(folder: Path) -> None:
    """Write the plugin, as pip would install it."""
    checkpoint = io.BytesIO()
    torch.save({"offset": torch.tensor([2.0])}, checkpoint)
    digest = hashlib.sha256(checkpoint.getvalue()).hexdigest()
    package = folder / "obedient_plugin"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MODULE.replace("DIGEST", digest))
    (package / "net.pth").write_bytes(checkpoint.getvalue())
    enum = "obedient_plugin:Obedient_Weights"
    weights = {"model": "obedient", "enum": enum, "name": "V1", "url": "package:obedient_plugin/net.pth"}
    manifest = {
        "schema": 1,
        "plugin": "obedient",
        "api": "1.0",
        "services": [{"task": "obedience", "target": "obedient_plugin:Obedience", "media_types": ["text/plain"]}],
        "models": [{"name": "obedient", "target": "obedient_plugin:obedient", "weights": enum, "task": "obedience"}],
        "weights": [weights | {"sha256": digest, "default": True}],
    }
    (package / "flambeau_plugin.json").write_text(json.dumps(manifest))
    information = folder / "obedient_plugin-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: obedient-plugin\nVersion: 1.0\n")
    entry = "[flambeau.manifest]\nobedient = obedient_plugin:flambeau_plugin.json\n"
    (information / "entry_points.txt").write_text(entry)


@pytest.fixture(scope="session")
def obedient(tmp_path_factory):
    """The name of the plugin's weights, which this process and those that it starts can load."""
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("PYTHONPATH", path)
        discover(refresh=True)
        yield "obedient/obedient:V1"
        sys.modules.pop("obedient_plugin", None)
    discover(refresh=True)
