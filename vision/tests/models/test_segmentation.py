"""Segmentation models: outputs, heads, and the options of the builders."""

import pytest
import torch

from flambeau.vision.models.resnet import ResNet50_Weights
from flambeau.vision.models.segmentation import (
    FCN_ResNet50_Weights,
    deeplabv3_mobilenet_v3_large,
    fcn_resnet50,
    lraspp_mobilenet_v3_large,
)
from flambeau.vision.models.segmentation.deeplabv3 import ASPP
from flambeau.vision.transforms._presets import SemanticSegmentation

BUILDERS = [deeplabv3_mobilenet_v3_large, lraspp_mobilenet_v3_large]


@pytest.mark.parametrize("builder", BUILDERS)
def test_every_pixel_gets_logits_whatever_the_size(builder):
    model = builder(weights_backbone=None, num_classes=4).eval()
    assert model(torch.rand(2, 3, 61, 45))["out"].shape == (2, 4, 61, 45)


def test_the_auxiliary_head_is_there_on_request():
    model = deeplabv3_mobilenet_v3_large(weights_backbone=None, num_classes=3, aux_loss=True)
    out = model(torch.rand(2, 3, 64, 64))
    assert {name: tuple(value.shape) for name, value in out.items()} == {"out": (2, 3, 64, 64), "aux": (2, 3, 64, 64)}
    (out["out"].sum() + out["aux"].sum()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_resnets_are_dilated_to_an_output_stride_of_eight():
    with torch.device("meta"):
        model = fcn_resnet50(weights_backbone=None)
        assert model.backbone(torch.rand(1, 3, 64, 64))["out"].shape == (1, 2048, 8, 8)


def test_pooling_sees_the_whole_picture():
    pyramid = ASPP(4, (2, 3), out_channels=8).eval()
    assert pyramid(torch.rand(1, 4, 7, 9)).shape == (1, 8, 7, 9)
    pooled = pyramid.convs[-1](torch.rand(1, 4, 7, 9))
    torch.testing.assert_close(pooled, pooled[..., :1, :1].expand_as(pooled))


def test_weights_have_an_auxiliary_head_and_21_classes():
    with pytest.raises(ValueError, match="'aux_loss' is False, expected True"):
        fcn_resnet50(weights=FCN_ResNet50_Weights.DEFAULT, aux_loss=False)
    with pytest.raises(ValueError, match="'num_classes' is 3, expected 21"):
        fcn_resnet50(weights=FCN_ResNet50_Weights.DEFAULT, num_classes=3)


def test_backbones_refuse_other_models_weights():
    with pytest.raises(TypeError, match="expected MobileNet_V3_Large_Weights"):
        lraspp_mobilenet_v3_large(weights_backbone=ResNet50_Weights.IMAGENET1K_V1)


def test_lite_models_have_no_auxiliary_head():
    with pytest.raises(NotImplementedError, match="no auxiliary head"):
        lraspp_mobilenet_v3_large(weights_backbone=None, aux_loss=True)


def test_channels_last_stays_channels_last():
    model = lraspp_mobilenet_v3_large(weights_backbone=None).eval().to(memory_format=torch.channels_last)
    out = model(torch.rand(1, 3, 64, 64).to(memory_format=torch.channels_last))["out"]
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_models_compile_whole_and_export():
    model = lraspp_mobilenet_v3_large(weights_backbone=None, num_classes=2).eval()
    x = torch.rand(2, 3, 64, 64)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x)["out"], model(x)["out"])
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    y = torch.rand(3, 3, 64, 64)
    torch.testing.assert_close(exported.module()(y)["out"], model(y)["out"])


class TestPreset:
    def test_the_shorter_side_is_resized_and_values_are_normalized(self):
        prepared = SemanticSegmentation(resize_size=26)(torch.full((3, 52, 78), 255, dtype=torch.uint8))
        assert prepared.shape == (3, 26, 39)
        expected = (1 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
        torch.testing.assert_close(prepared.mean((1, 2)), expected)

    def test_no_size_keeps_the_size(self):
        assert SemanticSegmentation(resize_size=None)(torch.zeros(2, 3, 5, 7)).shape == (2, 3, 5, 7)
