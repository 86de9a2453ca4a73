"""int8 checkpoints that torchvision itself makes load here strictly, and give its outputs."""

from __future__ import annotations

import copy
import hashlib
import io

import pytest
import torch
from torch.ao import quantization as ao

from flambeau.core.testing.server import FileServer
from flambeau.vision import models

peer = pytest.importorskip(
    "torchvision.models.quantization", reason="needs torchvision; `nox -s parity -- peers` has it"
)
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's about the peer's calls
NAMES = [name.removeprefix("quantized_") for name in models.list_models(include="quantized_*")]
LARGE = {"resnext101_32x8d", "resnext101_64x4d"}  # built of the same blocks as resnet50
OPTIONS = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False, "aux_logits": False}}


def pictures(count):
    return torch.rand(count, 3, 96, 96, generator=torch.Generator().manual_seed(0))


def published(name, backend):
    """(torchvision's checkpoint after it saw pictures, its int8 model), as its training scripts make them."""
    torch.manual_seed(0)
    torch.backends.quantized.engine = backend
    model = getattr(peer, name)(**OPTIONS.get(name, {}))
    if name == "mobilenet_v3_large":
        model.train().fuse_model(is_qat=True)
        model.qconfig = ao.get_default_qat_qconfig(backend)
        ao.prepare_qat(model, inplace=True)
        model(pictures(4))
        state = copy.deepcopy(model.state_dict())
        return state, ao.convert(model.eval())
    model.eval().fuse_model()
    weight = ao.default_weight_observer if backend == "qnnpack" else ao.default_per_channel_weight_observer
    model.qconfig = ao.QConfig(activation=ao.default_observer, weight=weight)
    ao.prepare(model, inplace=True)
    with torch.no_grad():
        model(pictures(4))
    ao.convert(model, inplace=True)
    return model.state_dict(), model


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LARGE])
def test_its_checkpoint_loads_and_gives_its_outputs(name, tmp_path, monkeypatch):
    member = models.get_model_weights(f"quantized_{name}").DEFAULT
    state, theirs = published(name, member.meta["backend"])
    if hasattr(theirs, "transform_input"):
        theirs.transform_input = True
    buffer = io.BytesIO()
    torch.save(state, buffer)
    monkeypatch.setitem(vars(member.value), "sha256", hashlib.sha256(buffer.getvalue()).hexdigest())
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path))
    path = member.url.removeprefix("https://download.pytorch.org/models/")
    with FileServer({path: buffer.getvalue()}) as server:
        monkeypatch.setenv("FLAMBEAU_MIRRORS", f"https://download.pytorch.org/models/={server.url('')}")
        ours = getattr(models.quantization, name)(weights=member, quantize=True)
    with torch.inference_mode():
        assert torch.equal(ours(pictures(2)), theirs(pictures(2)))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LARGE])
def test_an_int8_model_has_its_names_in_its_order(name):
    options = OPTIONS.get(name, {})
    ours = getattr(models.quantization, name)(quantize=True, **options).state_dict()
    theirs = getattr(peer, name)(quantize=True, **options).state_dict()
    assert list(ours) == list(theirs)
    assert all(theirs._metadata[layer] == versions for layer, versions in ours._metadata.items())


@pytest.mark.parametrize("name", ["mobilenet_v3_large", "shufflenet_v2_x0_5"])
def test_a_model_that_is_being_trained_for_int8_has_its_names(name):
    states = []
    for builder in (getattr(models.quantization, name), getattr(peer, name)):
        model = builder().train()
        model.fuse_model(is_qat=True)
        model.qconfig = ao.get_default_qat_qconfig("qnnpack")
        states.append(ao.prepare_qat(model).state_dict())
    assert list(states[0]) == list(states[1])
