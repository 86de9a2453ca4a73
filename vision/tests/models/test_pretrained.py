"""A published checkpoint, served by a mirror: every way to ask for it gives the same network."""

import hashlib
import io

import pytest
import torch

from flambeau.core.errors import HashMismatchError
from flambeau.core.testing.server import FileServer
from flambeau.vision import models
from flambeau.vision.models import ResNet18_Weights, ResNet50_Weights
from flambeau.vision.models import resnet as family


@pytest.fixture(scope="module")
def checkpoint():
    """What upstream saves: the state_dict in a zip file."""
    torch.manual_seed(0)
    buffer = io.BytesIO()
    torch.save(family.resnet18().state_dict(), buffer)
    return buffer.getvalue()


@pytest.fixture
def published(checkpoint, tmp_path, monkeypatch):
    """The miniature internet: a mirror has a file under the published name, whose digest is in the name."""
    name = f"resnet18-{hashlib.sha256(checkpoint).hexdigest()[:8]}.pth"
    facts = ResNet18_Weights.IMAGENET1K_V1.value
    monkeypatch.setitem(vars(facts), "url", f"https://download.pytorch.org/models/{name}")
    monkeypatch.setitem(vars(facts), "sha256", hashlib.sha256(checkpoint).hexdigest()[:8])
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path))
    with FileServer({name: checkpoint}) as server:
        monkeypatch.setenv("FLAMBEAU_MIRRORS", f"https://download.pytorch.org/models/={server.url('')}")
        yield server


@pytest.mark.parametrize(
    "build",
    [
        lambda: models.resnet18(weights=ResNet18_Weights.IMAGENET1K_V1),
        lambda: models.resnet18(weights="IMAGENET1K_V1"),
        lambda: models.resnet18(weights="ResNet18_Weights.DEFAULT"),
        lambda: models.get_model("resnet18", weights="DEFAULT"),
        lambda: models.get_model_builder("resnet18")(weights=ResNet18_Weights.DEFAULT, progress=False),
        ResNet18_Weights.IMAGENET1K_V1.load,
    ],
    ids=["member", "name", "class and name", "get_model", "builder", "member.load"],
)
def test_every_way_gives_the_published_parameters(published, checkpoint, build):
    expected = torch.load(io.BytesIO(checkpoint), weights_only=True)
    model = build()
    for name, value in model.state_dict().items():
        assert torch.equal(value, expected[name]), name
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_old_switch_means_the_first_weights(published):
    with pytest.warns(UserWarning, match=r"resnet18\(pretrained=True\) is deprecated") as record:
        model = models.resnet18(pretrained=True)
    assert len(record) == 1
    assert model.fc.out_features == 1000


def test_the_file_is_fetched_once(published):
    for _ in range(3):
        models.resnet18(weights="DEFAULT")
    assert len(published.log) == 1


def test_a_file_with_another_digest_is_refused(published, monkeypatch):
    monkeypatch.setitem(vars(ResNet18_Weights.IMAGENET1K_V1.value), "sha256", "00000000")
    with pytest.raises(HashMismatchError, match="expected 00000000"):
        models.resnet18(weights="DEFAULT")


def test_dtype_and_other_classes_are_made_on_the_way(published):
    assert models.resnet18(weights="DEFAULT", dtype=torch.bfloat16).fc.weight.dtype == torch.bfloat16
    adapted = models.get_model("resnet18", weights="DEFAULT", num_classes=7, in_channels=1)
    own = models.resnet18(weights="DEFAULT")
    assert (adapted.fc.out_features, adapted.conv1.in_channels) == (7, 1)
    assert torch.equal(adapted.layer4[1].conv2.weight, own.layer4[1].conv2.weight)
    torch.testing.assert_close(adapted.conv1.weight, own.conv1.weight.sum(1, keepdim=True))


def test_members_are_found_by_every_name():
    member = ResNet50_Weights.IMAGENET1K_V2
    for name in ("ResNet50_Weights.IMAGENET1K_V2", "resnet50:IMAGENET1K_V2", "vision/resnet50:DEFAULT"):
        assert models.get_weight(name) is member
    assert models.get_model_weights("resnet50") is models.get_model_weights(models.resnet50) is ResNet50_Weights


def test_names_of_models_are_found_in_capitals_too():
    assert models.get_model_builder("ResNet50") is models.get_model_builder("resnet50")
    assert models.get_model_weights("RESNET50") is ResNet50_Weights
    with pytest.raises(TypeError, match="name is None, expected that of a model"):
        models.get_model_builder(None)


def test_listing_sees_vision_and_filters():
    assert {"digit_cnn", "resnet18", "wide_resnet101_2"} <= set(models.list_models())
    assert models.list_models(include="resnet1*") == ["resnet101", "resnet152", "resnet18"]
    assert models.list_models(include=["wide*", "resnet18"], exclude="*101*") == ["resnet18", "wide_resnet50_2"]
    assert models.list_models(module=models, include="resnet18") == ["resnet18"]
    assert models.list_models(include=[]) == models.list_models()
