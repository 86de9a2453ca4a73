"""The ResNet family: shapes, options, initialization, the paths into it."""

import copy
import pickle

import pytest
import torch
from torch import nn

from flambeau.vision import models
from flambeau.vision.models.resnet import BasicBlock, Bottleneck, ResNet

BUILDERS = {
    "resnet18": (512, 11_689_512),
    "resnet34": (512, 21_797_672),
    "resnet50": (2048, 25_557_032),
    "resnet101": (2048, 44_549_160),
    "resnet152": (2048, 60_192_808),
    "resnext50_32x4d": (2048, 25_028_904),
    "resnext101_32x8d": (2048, 88_791_336),
    "resnext101_64x4d": (2048, 83_455_272),
    "wide_resnet50_2": (2048, 68_883_240),
    "wide_resnet101_2": (2048, 126_886_696),
}


def tiny(**options):
    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=5, **options)


@pytest.mark.parametrize("name", BUILDERS)
def test_builders_make_networks_of_the_published_size(name):
    features, parameters = BUILDERS[name]
    with torch.device("meta"):
        model = models.get_model(name)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert model.fc.in_features == features


@pytest.mark.parametrize("size", [(1, 1), (32, 32), (65, 33), (224, 224)])
def test_any_size_of_picture_gives_one_logit_per_class(size):
    assert tiny().eval()(torch.rand(2, 3, *size)).shape == (2, 5)


def test_an_empty_batch_gives_an_empty_result():
    assert tiny().eval()(torch.rand(0, 3, 40, 40)).shape == (0, 5)


def test_dilation_replaces_the_stride_and_keeps_parameters():
    plain = models.resnet50(num_classes=2)
    dilated = models.resnet50(num_classes=2, replace_stride_with_dilation=[False, True, True])
    assert {k: v.shape for k, v in plain.state_dict().items()} == {k: v.shape for k, v in dilated.state_dict().items()}
    stages = nn.Sequential(dilated.conv1, dilated.bn1, dilated.maxpool, dilated.layer1, dilated.layer2, dilated.layer3)
    assert dilated.layer4(stages(torch.rand(1, 3, 64, 64))).shape == (1, 2048, 8, 8)
    assert dilated.layer3[0].conv2.dilation == (1, 1)
    assert dilated.layer3[1].conv2.dilation == (2, 2)
    assert dilated.layer4[1].conv2.dilation == (4, 4)


def test_dilation_needs_three_answers():
    with pytest.raises(ValueError, match=r"replace_stride_with_dilation is .*three booleans"):
        tiny(replace_stride_with_dilation=[True])


def test_basic_blocks_refuse_what_they_cannot_do():
    with pytest.raises(ValueError, match="groups=2, base_width=64; use Bottleneck"):
        BasicBlock(8, 8, groups=2)
    with pytest.raises(NotImplementedError, match="got 2; use Bottleneck"):
        BasicBlock(8, 8, dilation=2)


def test_zero_initialized_residuals_make_every_block_the_identity_of_its_shortcut():
    model = models.resnet50(zero_init_residual=True)
    last = [block.bn3.weight for block in model.modules() if isinstance(block, Bottleneck)]
    assert all(not weight.any() for weight in last)
    x = torch.rand(1, 256, 4, 4)
    assert torch.equal(model.layer1[1].eval()(x), x)


def test_convolutions_start_with_the_variance_of_he_et_al():
    weight = models.resnet18().layer3[1].conv1.weight
    fan_out = weight.shape[0] * 9
    assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.02)


def test_another_normalization_is_used_everywhere():
    model = tiny(norm_layer=lambda channels: nn.GroupNorm(4, channels))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    assert model.eval()(torch.rand(2, 3, 32, 32)).shape == (2, 5)


def test_a_normalization_without_scale_is_no_obstacle():
    model = tiny(norm_layer=lambda channels: nn.GroupNorm(4, channels, affine=False), zero_init_residual=True)
    assert model.bn1.weight is None


def test_gradients_reach_every_parameter():
    model = tiny()
    model(torch.rand(2, 3, 32, 32)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_channels_last_stays_channels_last():
    model = tiny().eval().to(memory_format=torch.channels_last)
    seen = []
    model.layer4.register_forward_hook(lambda module, args, out: seen.append(out))
    model(torch.rand(2, 3, 64, 64).to(memory_format=torch.channels_last))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


def test_fixed_widths_of_a_variant_cannot_be_changed():
    with pytest.raises(ValueError, match="'groups' is 8, expected 32"):
        models.resnext50_32x4d(groups=8)


def test_models_pickle_and_copy():
    model = tiny().eval()
    x = torch.rand(1, 3, 32, 32)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), model(x))
    assert torch.equal(copy.deepcopy(model)(x), model(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_models_can_be_scripted():
    model = tiny().eval()
    x = torch.rand(1, 3, 32, 32)
    torch.testing.assert_close(torch.jit.script(model)(x), model(x))


def test_models_compile_whole_and_export_with_a_dynamic_batch():
    model = tiny().eval()
    x = torch.rand(2, 3, 32, 32)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), model(x))
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    y = torch.rand(5, 3, 32, 32)
    torch.testing.assert_close(exported.module()(y), model(y))
