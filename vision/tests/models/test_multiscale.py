"""One function turns any classifier into a source of feature maps."""

import pytest
import torch
from torch import nn

from flambeau.core.registry import MODELS
from flambeau.vision import models
from flambeau.vision.models import multiscale_features
from flambeau.vision.models.multiscale import MultiScaleFeatures
from flambeau.vision.ops import Permute

CLASSIFIERS = [
    name
    for name in models.list_models(exclude=["digit_cnn"])
    if MODELS.info(f"vision/{name}").get("task") == "image-classification" and not name.startswith("quantized_")
]
NETWORKS = {
    "resnet50": ((2, 4, 8, 16, 32), (64, 256, 512, 1024, 2048)),
    "densenet121": ((2, 4, 8, 16, 32), (64, 256, 512, 1024, 1024)),
    "efficientnet_b0": ((2, 4, 8, 16, 32), (16, 24, 40, 112, 1280)),
    "mobilenet_v3_large": ((2, 4, 8, 16, 32), (16, 24, 40, 112, 960)),
    "convnext_tiny": ((4, 8, 16, 32), (96, 192, 384, 768)),
    "vgg16_bn": ((2, 4, 8, 16, 32), (128, 256, 512, 512, 512)),
    "regnet_y_400mf": ((2, 4, 8, 16, 32), (32, 48, 104, 208, 440)),
    "googlenet": ((2, 4, 8, 16, 32), (64, 192, 480, 832, 1024)),
    "squeezenet1_0": ((4, 8, 16), (256, 512, 1000)),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_is_a_backbone(name):
    with torch.device("meta"):
        model = models.get_model(name, weights=None)
    backbone = multiscale_features(model, image_size=299 if name == "inception_v3" else 224)
    assert list(backbone.strides) == sorted(backbone.strides)
    assert backbone.strides[-1] in (14, 16, 32)
    assert len(backbone.strides) == len(backbone.channels) > 0
    assert backbone.training is model.training


@pytest.mark.parametrize("name", NETWORKS)
def test_the_maps_of_published_networks_are_the_ends_of_their_stages(name):
    strides, channels = NETWORKS[name]
    model = models.get_model(name, weights=None).eval()
    backbone = multiscale_features(model, strides)
    assert (backbone.strides, backbone.channels) == (strides, channels)
    with torch.inference_mode():
        maps = backbone(torch.rand(1, 3, 64, 96))
    assert list(maps) == [f"stride{stride}" for stride in strides]
    for stride, width in zip(strides, channels, strict=True):
        value = maps[f"stride{stride}"]
        assert value.shape[:2] == (1, width)
        assert all(abs(side - pixels / stride) <= 2 for side, pixels in zip(value.shape[2:], (64, 96), strict=True))


def test_the_maps_of_a_residual_network_are_what_its_stages_return():
    model = models.resnet18(num_classes=2).eval()
    x = torch.rand(2, 3, 64, 64)
    maps = multiscale_features(model, (2, 4, 32))(x)
    stem = model.relu(model.bn1(model.conv1(x)))
    torch.testing.assert_close(maps["stride2"], stem)
    low = model.layer1(model.maxpool(stem))
    torch.testing.assert_close(maps["stride4"], low)
    torch.testing.assert_close(maps["stride32"], model.layer4(model.layer3(model.layer2(low))))


class ChannelsLast(nn.Module):
    """Two grids with channels at the end, as window transformers have them."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(3, 8, 4, 4), Permute([0, 2, 3, 1]))
        self.mix = nn.Linear(8, 8)
        self.merge = Merge()
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.merge(self.mix(self.patches(x))).mean((1, 2)))


class Merge(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reduction = nn.Linear(32, 16)

    def forward(self, x):
        parts = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.reduction(torch.cat(parts, -1))


class Tokens(nn.Module):
    """A sequence of patches after a class token, as a vision transformer has it."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 16, 16)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.GELU())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        patches = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), patches], 1)
        return self.head(self.encoder(x)[:, 0])


def test_channels_at_the_end_are_moved_to_their_place():
    model = ChannelsLast()
    x = torch.rand(2, 3, 64, 96)
    backbone = multiscale_features(model)
    assert (backbone.strides, backbone.channels) == ((4, 8), (8, 16))
    maps = backbone(x)
    torch.testing.assert_close(maps["stride4"], model.mix(model.patches(x)).permute(0, 3, 1, 2))
    assert maps["stride8"].shape == (2, 16, 8, 12)


def test_tokens_become_a_map_without_the_class_token():
    model = Tokens()
    x = torch.rand(1, 3, 64, 96)
    maps = multiscale_features(model)(x)
    assert list(maps) == ["stride16"]
    expected = model.encoder(model.patches(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    torch.testing.assert_close(maps["stride16"], expected)


def test_videos_have_maps_too():
    model = nn.Sequential(nn.Conv3d(3, 4, 3, (1, 2, 2), 1), nn.Conv3d(4, 8, 3, 2, 1), nn.AdaptiveAvgPool3d(1))
    backbone = multiscale_features(model, image_size=(8, 64, 64))
    assert (backbone.strides, backbone.channels) == ((2, 4), (4, 8))
    assert backbone(torch.rand(1, 3, 8, 32, 32))["stride4"].shape == (1, 8, 4, 8, 8)


def test_finding_maps_computes_nothing_and_changes_nothing():
    model = models.resnet18(num_classes=2).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    backbone = multiscale_features(model)
    assert isinstance(backbone, MultiScaleFeatures)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert backbone.model is model


def test_gradients_flow_into_the_backbone():
    model = models.resnet18(num_classes=2)
    multiscale_features(model, [8])(torch.rand(1, 3, 64, 64))["stride8"].sum().backward()
    assert model.conv1.weight.grad is not None
    assert model.layer3[0].conv1.weight.grad is None


def test_networks_of_other_inputs_are_backbones_as_well():
    model = models.get_model("resnet18", weights=None, in_channels=1)
    assert multiscale_features(model, [4])(torch.rand(1, 1, 64, 64))["stride4"].shape == (1, 64, 16, 16)


def test_strides_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"ConvNeXt has no map of stride 2, expected some of \[4, 8, 16, 32\]"):
        multiscale_features(models.convnext_tiny(), [2, 4])
    with pytest.raises(ValueError, match="Sequential has no feature maps"):
        multiscale_features(nn.Sequential(nn.Flatten()))
