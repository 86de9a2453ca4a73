"""The VGG family: its stacks, its initialization, and the backbone whose weights tell no classes."""

import pytest
import torch
from torch import nn

from flambeau.vision.models import VGG, VGG16_Weights
from flambeau.vision.models._utils import build_classifier
from flambeau.vision.models.vgg import cfgs, make_layers


@pytest.mark.parametrize(("column", "convolutions"), [("A", 8), ("B", 10), ("D", 13), ("E", 16)])
def test_columns_have_the_depth_that_gives_the_networks_their_name(column, convolutions):
    layers = make_layers(cfgs[column])
    assert sum(isinstance(layer, nn.Conv2d) for layer in layers) == convolutions
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in layers) == 5


def test_batch_normalization_comes_between_convolution_and_activation():
    layers = make_layers((8, "M"), batch_norm=True)
    assert [type(layer) for layer in layers] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d]


def test_initialization_can_be_left_out():
    with torch.device("meta"):
        features = make_layers((512,))
    torch.manual_seed(0)
    weight = VGG(nn.Identity(), num_classes=2).classifier[3].weight
    assert weight.std().item() == pytest.approx(0.01, rel=0.01)
    plain = VGG(features, num_classes=2, init_weights=False).classifier[3].weight
    assert plain.std().item() == pytest.approx((1 / 3 / 4096) ** 0.5, rel=0.01)


def test_the_backbone_of_ssd_has_weights_without_classes_and_metrics():
    weights = VGG16_Weights.IMAGENET1K_FEATURES
    assert (weights.meta["categories"], weights.meta["_metrics"]) == (None, {})
    preset = weights.transforms()
    assert preset.mean == [0.48235, 0.45882, 0.40784]
    assert preset.std == pytest.approx([1 / 255] * 3)


def test_weights_without_classes_leave_their_number_to_the_caller(monkeypatch):
    from flambeau.vision.models import _utils

    monkeypatch.setattr(_utils, "build_with_weights", lambda network, weights, **options: options)
    assert build_classifier(VGG, VGG16_Weights.IMAGENET1K_FEATURES, progress=False, num_classes=7) == {
        "progress": False,
        "num_classes": 7,
    }
    assert build_classifier(VGG, VGG16_Weights.IMAGENET1K_V1, progress=False)["num_classes"] == 1000
