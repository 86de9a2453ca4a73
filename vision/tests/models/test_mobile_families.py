"""MobileNets, MNASNet, ShuffleNet, SqueezeNet: widths, options, old checkpoints, refusals."""

import pytest
import torch
from torch import nn

from flambeau.vision import models
from flambeau.vision.models import mobilenetv2, mobilenetv3, shufflenetv2
from flambeau.vision.models.mnasnet import MNASNet
from flambeau.vision.models.mobilenetv2 import MobileNetV2
from flambeau.vision.models.mobilenetv3 import MobileNetV3, _mobilenet_v3_conf
from flambeau.vision.models.shufflenetv2 import ShuffleNetV2, channel_shuffle
from flambeau.vision.models.squeezenet import SqueezeNet


@pytest.mark.parametrize(("width", "last"), [(0.5, 1280), (1.0, 1280), (1.5, 1920)])
def test_the_width_of_mobilenet_v2_scales_channels_but_never_narrows_the_end(width, last):
    with torch.device("meta"):
        model = MobileNetV2(num_classes=2, width_mult=width)
    assert model.last_channel == last
    assert model.features[0][0].out_channels == 32 * width


@pytest.mark.parametrize("setting", [[], [[1, 16, 1]], ()])
def test_mobilenet_v2_wants_four_numbers_a_stage(setting):
    with pytest.raises(ValueError, match="expected four numbers per stage"):
        MobileNetV2(inverted_residual_setting=setting)


def test_mobilenet_v2_takes_another_block_and_normalization():
    def norm(channels):
        return nn.GroupNorm(2, channels)

    model = MobileNetV2(num_classes=2, inverted_residual_setting=[[2, 8, 2, 2]], norm_layer=norm)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    assert [block.use_res_connect for block in model.features[1:3]] == [False, True]


@pytest.mark.parametrize(
    "make",
    [
        lambda: mobilenetv2.InvertedResidual(8, 8, stride=3, expand_ratio=1),
        lambda: shufflenetv2.InvertedResidual(8, 8, stride=3),
        lambda: mobilenetv3.InvertedResidual(
            mobilenetv3.InvertedResidualConfig(8, 3, 8, 8, False, "RE", 3, 1, 1.0), nn.BatchNorm2d
        ),
    ],
)
def test_blocks_have_stride_one_or_two(make):
    with pytest.raises(ValueError, match="stride is 3, expected 1 or 2"):
        make()


def test_a_dilated_mobilenet_v3_keeps_the_resolution_of_its_tail():
    plain, dilated = models.mobilenet_v3_small(num_classes=2), models.mobilenet_v3_small(num_classes=2, dilated=True)
    x = torch.rand(1, 3, 64, 64)
    assert plain.eval().features(x).shape[2:] == (2, 2)
    assert dilated.eval().features(x).shape[2:] == (4, 4)
    assert {k: v.shape for k, v in plain.state_dict().items()} == {k: v.shape for k, v in dilated.state_dict().items()}


def test_a_reduced_tail_has_half_of_the_channels():
    blocks, last = _mobilenet_v3_conf("mobilenet_v3_large", reduced_tail=True)
    assert [block.out_channels for block in blocks[-4:]] == [112, 80, 80, 80]
    assert [block.expanded_channels for block in blocks[-3:]] == [672, 480, 480]
    assert last == 640
    with pytest.raises(ValueError, match="arch is 'mobilenet_v3'"):
        _mobilenet_v3_conf("mobilenet_v3")


def test_mobilenet_v3_wants_configurations():
    with pytest.raises(ValueError, match="inverted_residual_setting is empty"):
        MobileNetV3([], 8)
    with pytest.raises(TypeError, match="expected InvertedResidualConfig"):
        MobileNetV3([1, 2], 8)


def test_mobilenet_v3_normalizes_with_its_own_constants():
    norms = [module for module in models.mobilenet_v3_small().modules() if isinstance(module, nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(0.001, 0.01)}


def first_version(alpha: float) -> MNASNet:
    model = MNASNet(alpha, num_classes=2)
    with pytest.warns(UserWarning, match="first version"):
        model._use_first_stem()
    return model.eval()


def test_mnasnet_checkpoints_of_the_first_version_load_with_a_warning():
    torch.manual_seed(0)
    old = first_version(0.5)
    assert old.layers[0].out_channels == 32
    model = MNASNet(0.5, num_classes=2).eval()
    with pytest.warns(UserWarning, match="first version.*width 0.5"):
        model.load_state_dict(old.state_dict())
    x = torch.rand(1, 3, 32, 32)
    assert torch.equal(model(x), old(x))
    assert {module.training for module in model.modules()} == {False}
    again = MNASNet(0.5, num_classes=2).double().eval()
    with pytest.warns(UserWarning, match="first version"):
        again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again(x.double()), old(x).double())


def test_mnasnet_checkpoints_of_today_load_without_one():
    model = MNASNet(0.5, num_classes=2)
    model.load_state_dict(MNASNet(0.5, num_classes=2).state_dict())
    assert model.layers[0].out_channels == 16


def test_mnasnet_wants_a_positive_width():
    with pytest.raises(ValueError, match="alpha is 0"):
        MNASNet(0)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_channel_shuffle_is_a_transposition_of_groups_and_keeps_the_memory_format(groups):
    x = torch.rand(2, 8, 3, 5)
    expected = x.reshape(2, groups, 8 // groups, 3, 5).transpose(1, 2).reshape(2, 8, 3, 5)
    assert torch.equal(channel_shuffle(x, groups), expected)
    out = channel_shuffle(x.to(memory_format=torch.channels_last), groups)
    assert torch.equal(out, expected)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(channel_shuffle(channel_shuffle(x, groups), 8 // groups), x)


def test_shufflenet_says_how_many_numbers_it_wants():
    with pytest.raises(ValueError, match=r"expected three\s+and five numbers"):
        ShuffleNetV2([4, 8], [24, 48, 96, 192, 1024])
    with pytest.raises(ValueError, match="expected an even oup"):
        shufflenetv2.InvertedResidual(8, 16, stride=1)


def test_squeezenet_knows_its_versions():
    with pytest.raises(ValueError, match=r"version is '1_2'.*'1_0', '1_1'"):
        SqueezeNet("1_2")


def test_squeezenet_can_be_fitted_to_other_classes_by_name():
    model = models.get_model("squeezenet1_1", num_classes=7)
    assert model.eval()(torch.rand(1, 3, 32, 32)).shape == (1, 7)
