"""RegNet, EfficientNet and ConvNeXt: how numbers become stages, how drop rates grow, options and refusals."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flambeau.vision import models
from flambeau.vision.models.convnext import CNBlock, CNBlockConfig, ConvNeXt, LayerNorm2d
from flambeau.vision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig
from flambeau.vision.models.regnet import BlockParams, RegNet
from flambeau.vision.ops import SqueezeExcitation, StochasticDepth


def drop_rates(model: nn.Module) -> list[float]:
    return [module.p for module in model.modules() if isinstance(module, StochasticDepth)]


@given(
    depth=st.integers(1, 40),
    w_0=st.integers(1, 40).map(lambda eighths: 8 * eighths),
    w_a=st.floats(0, 200),
    w_m=st.floats(1.5, 3),
    group_width=st.sampled_from([1, 8, 16, 24, 48]),
    multiplier=st.sampled_from([1.0, 2.0, 0.5]),
)
def test_stages_of_a_regnet_hold_all_blocks_and_widths_fit_their_groups(depth, w_0, w_a, w_m, group_width, multiplier):
    params = BlockParams.from_init_params(depth, w_0, w_a, w_m, group_width, multiplier, se_ratio=0.25)
    assert sum(params.depths) == depth
    assert params.se_ratio == 0.25
    stages = list(params._get_expanded_params())
    assert len(stages) == len(params.widths)
    for width, stride, _, group, ratio in stages:
        assert (stride, ratio) == (2, multiplier)
        assert int(width * ratio) % group == 0
        assert group <= group_width


@pytest.mark.parametrize("wrong", [{"w_0": 12}, {"w_0": 0}, {"w_a": -1.0}, {"w_m": 1.0}])
def test_a_regnet_refuses_numbers_outside_their_ranges(wrong):
    settings = {"depth": 4, "w_0": 8, "w_a": 8.0, "w_m": 2.0, "group_width": 8, **wrong}
    with pytest.raises(ValueError, match="Invalid RegNet settings"):
        BlockParams.from_init_params(**settings)


def test_a_y_network_has_gates_measured_by_the_input_of_each_block():
    params = BlockParams(
        depths=[2], widths=[32], group_widths=[8], bottleneck_multipliers=[1.0], strides=[2], se_ratio=0.25
    )
    model = RegNet(params, num_classes=2, stem_width=16)
    gates = [module for module in model.modules() if isinstance(module, SqueezeExcitation)]
    assert [gate.fc1.out_channels for gate in gates] == [4, 8]
    params.se_ratio = None
    assert not any(isinstance(module, SqueezeExcitation) for module in RegNet(params, num_classes=2).modules())


def test_a_regnet_uses_the_activation_and_normalization_it_is_given():
    params = BlockParams(depths=[1], widths=[16], group_widths=[8], bottleneck_multipliers=[1.0], strides=[2])
    model = RegNet(params, num_classes=2, activation=nn.SiLU, norm_layer=lambda channels: nn.GroupNorm(2, channels))
    kinds = {type(module) for module in model.modules()}
    assert {nn.SiLU, nn.GroupNorm} <= kinds
    assert not {nn.ReLU, nn.BatchNorm2d} & kinds


def test_weights_of_weakly_supervised_networks_are_not_for_commercial_use():
    for member in models.get_model_weights("regnet_y_128gf"):
        assert member.license == "CC-BY-NC-4.0"
    end_to_end, linear = models.get_model_weights("regnet_y_128gf")
    assert (end_to_end.transforms().crop_size, linear.transforms().crop_size) == ([384], [224])


def test_pretrained_true_finds_no_original_weights_of_the_largest_regnet():
    with pytest.raises(ValueError, match="regnet_y_128gf"):
        models.regnet_y_128gf(pretrained=True, num_classes=3)


def tiny_efficientnet(**options):
    stages = [FusedMBConvConfig(1, 3, 1, 8, 8, 2), MBConvConfig(4, 3, 2, 8, 16, 3)]
    return EfficientNet(stages, dropout=0.1, num_classes=3, **options)


def test_the_drop_rate_of_an_efficientnet_grows_with_the_number_of_the_block():
    assert drop_rates(tiny_efficientnet(stochastic_depth_prob=0.5)) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_the_first_block_of_a_stage_alone_changes_the_shape():
    stage = tiny_efficientnet().features[2]
    assert [block.use_res_connect for block in stage] == [False, True, True]
    assert [block.block[0][0].in_channels for block in stage] == [8, 16, 16]


@pytest.mark.parametrize(
    ("width", "depth", "channels", "blocks"), [(1.0, 1.0, 40, 2), (1.4, 1.8, 56, 4), (2.0, 3.1, 80, 7)]
)
def test_scaling_rounds_channels_to_eights_and_blocks_up(width, depth, channels, blocks):
    stage = MBConvConfig(6, 5, 2, 24, 40, 2, width_mult=width, depth_mult=depth)
    assert (stage.out_channels, stage.num_layers) == (channels, blocks)


@pytest.mark.parametrize(
    ("name", "eps", "momentum", "dropout"),
    [("efficientnet_b0", 1e-5, 0.1, 0.2), ("efficientnet_b5", 1e-3, 0.01, 0.4), ("efficientnet_v2_s", 1e-3, 0.1, 0.2)],
)
def test_normalization_and_dropout_are_those_of_the_published_networks(name, eps, momentum, dropout):
    with torch.device("meta"):
        model = models.get_model(name)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(eps, momentum)}
    assert model.classifier[0].p == dropout


def test_published_settings_can_be_changed():
    with torch.device("meta"):
        model = models.efficientnet_b5(dropout=0.9, norm_layer=lambda channels: nn.GroupNorm(1, channels))
    assert model.classifier[0].p == 0.9
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())


@pytest.mark.parametrize(
    ("make", "name"),
    [(lambda stages: EfficientNet(stages, 0.1), "inverted_residual_setting"), (ConvNeXt, "block_setting")],
)
def test_networks_want_configurations_of_stages(make, name):
    with pytest.raises(ValueError, match=f"{name} is empty"):
        make([])
    with pytest.raises(TypeError, match=f"{name} holds 3, expected"):
        make([3])


def test_the_drop_rate_of_a_convnext_reaches_its_value_at_the_last_block():
    model = ConvNeXt([CNBlockConfig(8, 16, 2), CNBlockConfig(16, None, 3)], stochastic_depth_prob=0.4, num_classes=2)
    assert drop_rates(model) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert drop_rates(ConvNeXt([CNBlockConfig(8, None, 1)], stochastic_depth_prob=0.4, num_classes=2)) == [0.0]


def test_a_new_block_of_a_convnext_is_nearly_the_identity():
    block = CNBlock(8, layer_scale=1e-6, stochastic_depth_prob=0.0)
    x = torch.rand(2, 8, 6, 7)
    torch.testing.assert_close(block(x), x, atol=1e-4, rtol=0)
    assert block.layer_scale.shape == (8, 1, 1)


def test_layer_normalization_of_pixels_is_that_of_their_channels():
    norm = LayerNorm2d(6, eps=1e-6)
    x = torch.rand(2, 6, 3, 4)
    out = norm(x)
    torch.testing.assert_close(out.mean(1), torch.zeros(2, 3, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(out[0, :, 1, 2], nn.functional.layer_norm(x[0, :, 1, 2], (6,), eps=1e-6))
    assert out.is_contiguous(memory_format=torch.channels_last)
