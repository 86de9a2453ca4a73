"""Layers that models share: convolution blocks, gates, perceptron, frozen normalization, two kinds of dropout."""

import pytest
import torch
from torch import nn

from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module
from flambeau.vision import ops
from flambeau.vision.ops.misc import ConvNormActivation

GOLDEN = ["FrozenBatchNorm2d", "Conv2dNormActivation", "Conv3dNormActivation", "SqueezeExcitation", "MLP", "Permute"]
MAPS = {2: (2, 3, 11, 14), 3: (2, 3, 7, 9, 8)}
DROP = {2: ops.drop_block2d, 3: ops.drop_block3d}


@pytest.mark.parametrize("name", GOLDEN)
def test_results_and_gradients_are_the_recorded_ones(name):
    import flambeau.vision

    cases = parity_module("cases", __file__)
    (case,) = [case for case in golden_values("ops", __file__)["cases"] if case["id"] == name]
    fault = fill.matches(cases.run(case, flambeau.vision), case["expected"], case["rtol"], case["atol"])
    assert fault is None, fault


def test_frozen_normalization_has_constants_only_and_loads_what_a_trained_one_saved():
    trained = nn.BatchNorm2d(4)
    trained(torch.rand(8, 4, 5, 5))
    frozen = ops.FrozenBatchNorm2d(4)
    frozen.load_state_dict(trained.state_dict())
    x = torch.rand(2, 4, 5, 5).to(memory_format=torch.channels_last)
    torch.testing.assert_close(frozen.train()(x), trained.eval()(x))
    assert list(frozen.parameters()) == []
    assert list(frozen.state_dict()) == ["weight", "bias", "running_mean", "running_var"]
    assert frozen(x).is_contiguous(memory_format=torch.channels_last)
    assert repr(frozen) == "FrozenBatchNorm2d(4, eps=1e-05)"


@pytest.mark.parametrize(
    ("options", "padding"),
    [
        ({}, (1, 1)),
        ({"kernel_size": 5, "dilation": 2}, (4, 4)),
        ({"kernel_size": (1, 7)}, (0, 3)),
        ({"kernel_size": 3, "dilation": (1, 2)}, (1, 2)),
        ({"padding": 0}, (0, 0)),
    ],
)
def test_convolutions_keep_the_size_unless_told_otherwise(options, padding):
    block = ops.Conv2dNormActivation(3, 4, **options)
    assert block[0].padding == padding
    size = block(torch.rand(1, 3, 20, 20)).shape[2:]
    assert (size == (20, 20)) is (options.get("padding") is None)


def test_a_convolution_has_a_bias_where_nothing_normalizes_after_it():
    assert ops.Conv2dNormActivation(3, 4)[0].bias is None
    assert ops.Conv2dNormActivation(3, 4, norm_layer=None)[0].bias is not None
    assert ops.Conv2dNormActivation(3, 4, bias=True)[0].bias is not None


def test_parts_of_a_block_can_be_left_out_or_replaced():
    plain = ops.Conv3dNormActivation(3, 4, norm_layer=None, activation_layer=None)
    assert [type(layer) for layer in plain] == [nn.Conv3d]
    silu = ops.Conv2dNormActivation(3, 4, activation_layer=nn.SiLU, inplace=None)
    assert [type(layer) for layer in silu] == [nn.Conv2d, nn.BatchNorm2d, nn.SiLU]
    assert silu[2].inplace is False
    assert silu.out_channels == 4


def test_the_base_of_the_convolution_blocks_says_what_to_use():
    with pytest.warns(UserWarning, match="use one of those"):
        ConvNormActivation(3, 4)


def test_squeeze_excitation_scales_each_channel_by_one_gate_and_keeps_the_memory_format():
    layer = ops.SqueezeExcitation(6, 2, scale_activation=nn.Hardsigmoid)
    x = (torch.rand(2, 6, 4, 5) + 0.5).to(memory_format=torch.channels_last)
    out = layer(x)
    ratio = (out / x).flatten(2)
    torch.testing.assert_close(ratio, ratio[:, :, :1].expand_as(ratio))
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert [name for name, _ in layer.named_children()] == ["avgpool", "fc1", "fc2", "activation", "scale_activation"]


def test_a_perceptron_ends_with_a_linear_layer_and_dropout():
    layers = ops.MLP(8, [16, 4], norm_layer=nn.LayerNorm, activation_layer=nn.GELU, dropout=0.5, bias=False)
    assert [type(layer) for layer in layers] == [nn.Linear, nn.LayerNorm, nn.GELU, nn.Dropout, nn.Linear, nn.Dropout]
    assert layers[4].bias is None
    assert layers(torch.rand(2, 3, 8)).shape == (2, 3, 4)
    with pytest.raises(ValueError, match=r"hidden_channels is \[\]"):
        ops.MLP(8, [])


def test_a_permutation_is_a_view():
    x = torch.rand(2, 3, 4)
    permuted = ops.Permute([2, 0, 1])(x)
    assert permuted.shape == (4, 2, 3)
    assert permuted.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("mode", ["row", "batch"])
def test_stochastic_depth_drops_whole_samples_and_scales_the_others(mode):
    torch.manual_seed(0)
    x = torch.rand(200, 2, 3, 3) + 1
    factors = (ops.stochastic_depth(x, 0.25, mode) / x).flatten(1)
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors))
    dropped = factors[:, 0] == 0
    torch.testing.assert_close(factors[~dropped, 0], torch.full(((~dropped).sum(),), 4 / 3))
    assert (0 < dropped.sum().item() < 200) is (mode == "row")


def test_stochastic_depth_draws_one_number_a_decision_from_the_default_generator():
    x = torch.ones(6, 1)
    torch.manual_seed(3)
    expected = torch.empty(6, 1).bernoulli_(0.6) / 0.6
    torch.manual_seed(3)
    assert torch.equal(ops.stochastic_depth(x, 0.4, "row"), expected)


def test_stochastic_depth_has_limits():
    x = torch.rand(3, 2)
    assert not ops.stochastic_depth(x, 1.0, "row").any()
    assert ops.stochastic_depth(x, 0.0, "row") is x
    assert ops.StochasticDepth(0.9, "batch").eval()(x) is x
    with pytest.raises(ValueError, match=r"p is 1\.5"):
        ops.stochastic_depth(x, 1.5, "row")
    with pytest.raises(ValueError, match="mode is 'rows'"):
        ops.stochastic_depth(x, 0.5, "rows")


@pytest.mark.parametrize("dimensions", [2, 3])
def test_dropped_blocks_are_blocks_and_the_rest_is_scaled(dimensions):
    torch.manual_seed(0)
    x = torch.ones(MAPS[dimensions])
    out = DROP[dimensions](x, 0.3, 3)
    kept = out != 0
    assert 0 < kept.sum() < kept.numel()
    assert out.sum().item() == pytest.approx(x.numel(), rel=1e-4)
    pool = {2: nn.functional.max_pool2d, 3: nn.functional.max_pool3d}[dimensions]
    centres = -pool(-(~kept).float(), 3, stride=1)  # where a whole block is dropped
    blocks = pool(nn.functional.pad(centres, [1] * (2 * dimensions)), 3, stride=1, padding=1)
    assert torch.equal(blocks.bool(), ~kept)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_about_the_wanted_share_is_dropped(dimensions):
    torch.manual_seed(0)
    shape = (16, 8, *MAPS[dimensions][2:])
    for p in (0.05, 0.1):
        share = (DROP[dimensions](torch.ones(shape), p, 3) == 0).float().mean().item()
        assert share == pytest.approx(p, rel=0.2)


def test_blocks_larger_than_the_map_shrink_to_what_fits():
    torch.manual_seed(0)
    out = ops.drop_block2d(torch.ones(50, 2, 4, 6), 0.2, 7)
    assert out.shape == (50, 2, 4, 6)
    assert (out == 0).any()


def test_half_precision_counts_large_maps():
    out = ops.drop_block2d(torch.ones(1, 2, 200, 200, dtype=torch.float16), 0.1, 3)
    assert out.dtype is torch.float16
    assert out.float().mean().item() == pytest.approx(1.0, rel=0.01)


def test_drop_block_can_work_in_place_and_does_nothing_in_eval_mode():
    torch.manual_seed(0)
    x = torch.ones(2, 3, 9, 9)
    assert ops.DropBlock2d(0.3, 3, inplace=True)(x) is x
    assert not x.all()
    assert ops.DropBlock2d(0.3, 3).eval()(x) is x
    assert repr(ops.DropBlock3d(0.3, 3)) == "DropBlock3d(p=0.3, block_size=3, inplace=False)"


def test_drop_block_keeps_the_memory_format_and_empty_inputs():
    x = torch.ones(2, 4, 9, 9).to(memory_format=torch.channels_last)
    assert ops.drop_block2d(x, 0.5, 3).is_contiguous(memory_format=torch.channels_last)
    assert ops.drop_block2d(torch.ones(0, 4, 9, 9), 0.5, 3).shape == (0, 4, 9, 9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 2, 3), 0.5, 3), "input has 3 dimensions, expected 4"),
        (((1, 2, 3, 3), -0.1, 3), r"p is -0\.1"),
        (((1, 2, 3, 3), 0.5, 2), "block_size is 2, expected an odd number"),
        (((1, 2, 3, 3), 0.5, -1), "block_size is -1"),
    ],
)
def test_drop_block_refuses_what_it_cannot_do(arguments, message):
    shape, *rest = arguments
    with pytest.raises(ValueError, match=message):
        ops.drop_block2d(torch.ones(shape), *rest)


@pytest.mark.parametrize(
    "layer",
    [ops.DropBlock2d(0.3, 3), ops.StochasticDepth(0.3, "row"), ops.FrozenBatchNorm2d(4), ops.SqueezeExcitation(4, 2)],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_compile_whole_with_dynamic_sizes(layer):
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for size in (8, 11):
        assert compiled(torch.ones(2, 4, size, size)).shape == (2, 4, size, size)
