"""What is special to the models for videos."""

import pytest
import torch

from flambeau.core.weights import empty_parameters
from flambeau.vision.models import video
from flambeau.vision.models.video.mvit import MSBlockConfig, MViT, _for_differences
from flambeau.vision.models.video.resnet import Bottleneck, Conv2Plus1D, R2Plus1dStem, VideoResNet
from flambeau.vision.models.video.swin_transformer import ShiftedWindowAttention3d, SwinTransformer3d
from flambeau.vision.transforms._presets import OpticalFlow, VideoClassification


def small_mvit(second: bool) -> MViT:
    torch.manual_seed(0)
    blocks = [
        MSBlockConfig(1, 8, 8 if second else 16, [3, 3, 3] if second else [], [3, 3, 3], [1, 1, 1] if second else [],
                      [1, 2, 2]),
        MSBlockConfig(2, 8 if second else 16, 16, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 1, 1]),
    ]  # fmt: skip
    return MViT((32, 32), 4, blocks, second, False, second, second, num_classes=5).eval()


@pytest.mark.parametrize("second", [False, True])
def test_mvit_takes_one_size_and_says_which(second):
    model = small_mvit(second)
    assert model(torch.rand(2, 3, 4, 32, 32)).shape == (2, 5)
    with pytest.raises(ValueError, match=r"\(4, 32, 40\), expected \(4, 32, 32\)"):
        model(torch.rand(2, 3, 4, 32, 40))


@pytest.mark.parametrize("second", [False, True])
def test_gradients_reach_every_parameter_of_mvit(second):
    model = small_mvit(second).train()
    model(torch.rand(2, 3, 4, 32, 32)).sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_relative_positions_are_looked_up_by_difference_in_the_finer_map():
    table = torch.arange(7.0)[:, None]
    assert _for_differences(table, 4, 4)[..., 0].tolist() == [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]]
    assert _for_differences(table, 2, 4)[..., 0].tolist() == [[3, 2, 1, 0], [5, 4, 3, 2]]
    assert _for_differences(table, 4, 2)[..., 0].tolist() == [[2, 0], [3, 1], [4, 2], [5, 3]]


def test_a_window_shrinks_to_a_short_video():
    torch.manual_seed(0)
    large = ShiftedWindowAttention3d(4, window_size=[8, 2, 2], shift_size=[4, 1, 1], num_heads=2)
    assert large(torch.rand(1, 3, 5, 4, 4)).shape == (1, 3, 5, 4, 4)
    bias = large.get_relative_position_bias([3, 2, 2])
    torch.testing.assert_close(bias, large.get_relative_position_bias([8, 2, 2])[..., :12, :12])


def test_swin_pads_a_video_to_whole_patches():
    model = SwinTransformer3d([2, 4, 4], 8, [1, 1], [1, 2], [2, 2, 2], num_classes=3).eval()
    x = torch.rand(1, 3, 3, 13, 14)
    padded = torch.nn.functional.pad(x, [0, 2, 0, 3, 0, 1])
    torch.testing.assert_close(model(x), model(padded))


def test_deeper_networks_with_bottlenecks_begin_as_their_shortcuts():
    model = VideoResNet(Bottleneck, [Conv2Plus1D] * 4, [1, 2, 1, 1], R2Plus1dStem, 7, zero_init_residual=True).eval()
    x = torch.rand(1, 512, 2, 4, 4)
    torch.testing.assert_close(model.layer2[1](x), x)
    assert model(torch.rand(1, 3, 4, 16, 16)).shape == (1, 7)


@pytest.mark.parametrize("name", ["swin3d_t", "r3d_18"])
def test_a_compiled_model_is_one_graph_and_gives_the_same(name):
    torch.manual_seed(0)
    model = getattr(video, name)().eval()
    x = torch.rand(1, 3, 4, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(x), model(x))


def test_tables_of_positions_have_values_when_parameters_have_none():
    with empty_parameters():
        model = video.swin3d_t()
    index = model.features[0][0].attn.relative_position_index
    assert (index.device.type, index.shape, int(index.max())) == ("cpu", (392, 392), 15 * 13 * 13 - 1)


def test_the_preset_prepares_frames_and_puts_time_behind_channels():
    preset = VideoClassification(crop_size=(8, 10), resize_size=(12, 16))
    clip = torch.randint(0, 256, (4, 3, 20, 30), dtype=torch.uint8)
    out = preset(clip)
    assert (out.shape, out.dtype) == ((3, 4, 8, 10), torch.float32)
    torch.testing.assert_close(preset(torch.stack([clip, clip]))[1], out)
    gray = preset(torch.full((1, 3, 20, 30), 0.5))
    expected = [(0.5 - mean) / std for mean, std in zip(preset.mean, preset.std, strict=True)]
    torch.testing.assert_close(gray[:, 0, 0, 0], torch.tensor(expected))
    assert "112" in VideoClassification(crop_size=(112, 112), resize_size=(128,)).describe()


def test_the_preset_of_flow_scales_both_pictures_to_plus_and_minus_one():
    first, second = OpticalFlow()(torch.tensor([[[0, 255]]], dtype=torch.uint8), torch.tensor([[[0.5]]]))
    assert (first.tolist(), second.tolist()) == ([[[-1.0, 1.0]]], [[[0.0]]])
