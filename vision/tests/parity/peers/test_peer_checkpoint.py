"""A checkpoint that torchvision itself saved, served by a mirror, gives torchvision's outputs here."""

from __future__ import annotations

import hashlib
import io

import pytest
import torch

from flambeau.core.errors import HashMismatchError
from flambeau.core.testing.server import FileServer
from flambeau.core.weights import get_model
from flambeau.vision.models import ResNet50_Weights

peer = pytest.importorskip("torchvision", reason="needs torchvision; `nox -s parity -- peers` has it")
PUBLISHED = "resnet50-11ad3fa6.pth"


@pytest.fixture(scope="module")
def original():
    """torchvision's network with running statistics that differ from the initial ones."""
    torch.manual_seed(0)
    model = peer.models.resnet50()
    model.train()
    with torch.no_grad():
        for _ in range(2):
            model(torch.randn(4, 3, 64, 64))
    return model.eval()


@pytest.fixture(scope="module")
def saved(original):
    buffer = io.BytesIO()
    torch.save(original.state_dict(), buffer)
    return buffer.getvalue()


@pytest.fixture
def mirror(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    with FileServer({PUBLISHED: saved}) as server:
        monkeypatch.setenv("FLAMBEAU_MIRRORS", f"https://download.pytorch.org/models/={server.url('')}")
        yield server


def test_it_loads_by_name_and_gives_the_same_outputs(mirror, original, saved, monkeypatch):
    # The published file's digest is another one: the mirror's is made known, as its owner would.
    facts = ResNet50_Weights.IMAGENET1K_V2.value
    monkeypatch.setitem(vars(facts), "sha256", hashlib.sha256(saved).hexdigest())
    model = get_model("resnet50", weights="IMAGENET1K_V2").eval()
    images = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.equal(model(images), original(images))
    assert list(model.state_dict()) == list(original.state_dict())
    assert len(mirror.requests(PUBLISHED)) == 1


def test_a_mirror_that_serves_another_file_than_the_published_is_refused(mirror, tmp_path):
    with pytest.raises(HashMismatchError, match="11ad3fa6"):
        get_model("resnet50", weights="IMAGENET1K_V2")
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pth", ".part")]


def test_what_is_saved_here_loads_in_torchvision(original):
    ours = get_model("resnet50", weights=None)
    assert not any(peer.models.resnet50().load_state_dict(ours.state_dict(), strict=True))


def test_the_presets_agree_on_a_picture():
    theirs = peer.models.ResNet50_Weights.IMAGENET1K_V2.transforms()
    ours = ResNet50_Weights.IMAGENET1K_V2.transforms()
    picture = torch.randint(0, 256, (3, 300, 260), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    # Ours resizes uint8 as integers, like upstream's v2; upstream's presets go through float: one grey level apart.
    torch.testing.assert_close(ours(picture), theirs(picture), rtol=0, atol=1.001 / 255 / 0.224)
    exact = picture.float() / 255
    torch.testing.assert_close(ours(exact), theirs(exact), rtol=0, atol=1e-5)
