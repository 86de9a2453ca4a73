"""What is special to the transformers for pictures."""

import pytest
import torch

from flambeau.vision import models
from flambeau.vision.models import _windows
from flambeau.vision.models.maxvit import MaxVit
from flambeau.vision.models.swin_transformer import ShiftedWindowAttention
from flambeau.vision.models.vision_transformer import ConvStemConfig, VisionTransformer, interpolate_embeddings

SMALL = {"patch_size": 8, "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "mlp_dim": 12, "num_classes": 5}


def small_vit(image_size=32, **options):
    torch.manual_seed(0)
    model = VisionTransformer(image_size=image_size, **{**SMALL, **options}).eval()
    torch.nn.init.normal_(model.heads.head.weight)
    return model


def test_a_picture_of_another_size_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"40 x 32, expected 32 x 32: resize them, or .* dynamic_img_size=True"):
        small_vit()(torch.rand(1, 3, 40, 32))


def test_with_dynamic_size_the_trained_size_gives_the_same_and_others_work_in_whole_patches():
    x = torch.rand(2, 3, 32, 32)
    fixed, dynamic = small_vit(), small_vit(dynamic_img_size=True)
    torch.testing.assert_close(dynamic(x), fixed(x))
    assert dynamic(torch.rand(2, 3, 48, 24)).shape == (2, 5)
    with pytest.raises(ValueError, match="44 x 24, expected multiples of the patch size, 8"):
        dynamic(torch.rand(2, 3, 44, 24))


def test_interpolated_positions_equal_those_of_a_dynamic_model():
    x = torch.rand(1, 3, 48, 48)
    dynamic = small_vit(dynamic_img_size=True)
    larger = small_vit(image_size=48)
    larger.load_state_dict(interpolate_embeddings(48, 8, dynamic.state_dict()))
    torch.testing.assert_close(larger(x), dynamic(x))


def test_interpolation_can_leave_out_the_heads_and_refuses_what_is_no_square():
    state = small_vit().state_dict()
    without = interpolate_embeddings(16, 8, dict(state), reset_heads=True)
    assert set(state) - set(without) == {"heads.head.weight", "heads.head.bias"}
    assert without["encoder.pos_embedding"].shape == (1, 5, 8)
    with pytest.raises(ValueError, match="one square grid"):
        interpolate_embeddings(16, 8, {"encoder.pos_embedding": torch.zeros(1, 7, 8)})


def test_perceptrons_of_older_files_load():
    model = small_vit()
    old = {key.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): value
           for key, value in model.state_dict().items()}  # fmt: skip
    assert old.keys() != model.state_dict().keys()
    assert str(small_vit().load_state_dict(old)) == "<All keys matched successfully>"


def test_a_convolutional_stem_replaces_the_projection_of_patches():
    model = small_vit(conv_stem_configs=[ConvStemConfig(4, 3, 2), ConvStemConfig(6, 3, 4)], representation_size=7)
    names = [name for name, _ in model.conv_proj.named_children()]
    assert names == ["conv_bn_relu_0", "conv_bn_relu_1", "conv_last"]
    assert model.heads.head.in_features == 7
    assert model(torch.rand(1, 3, 32, 32)).shape == (1, 5)


def test_a_member_decides_on_the_size_of_pictures():
    end_to_end = models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1
    assert end_to_end.meta["min_size"] == (384, 384)
    with pytest.raises(ValueError, match="'image_size' is 224, expected 384"):
        models.vit_b_16(weights=end_to_end, image_size=224)


@pytest.mark.parametrize("window", [(2, 3), (2, 3, 4)])
def test_cutting_into_windows_is_undone_by_merging(window):
    sizes = [2 * side for side in window]
    x = torch.rand(2, *sizes, 5)
    windows = _windows.partition(x, window)
    torch.testing.assert_close(_windows.merge(windows, window, sizes), x, rtol=0, atol=0)
    first = x[0][tuple(slice(side) for side in window)]
    torch.testing.assert_close(windows[0], first.flatten(0, -2), rtol=0, atol=0)


def test_relative_positions_are_numbered_by_difference():
    index = _windows.relative_position_index([2, 3])
    assert index.unique().tolist() == list(range(3 * 5))
    assert index.diagonal().unique().tolist() == [7]
    assert (index + index.T == 14).all()


def test_a_pixel_reaches_its_window_and_no_pixel_that_only_rolling_brought_near():
    attention = ShiftedWindowAttention(4, window_size=[4, 4], shift_size=[2, 2], num_heads=1).double()
    x = torch.rand(1, 8, 8, 4, dtype=torch.float64, requires_grad=True)
    attention(x)[0, 0, 0].sum().backward()
    reached = x.grad[0].abs().amax(-1) > 1e-12
    assert reached[:2, :2].all()
    assert reached.sum() == 4


def test_windows_that_cover_the_map_are_not_shifted():
    torch.manual_seed(0)
    shifted = ShiftedWindowAttention(4, window_size=[4, 4], shift_size=[2, 2], num_heads=1)
    still = ShiftedWindowAttention(4, window_size=[4, 4], shift_size=[0, 0], num_heads=1)
    still.load_state_dict(shifted.state_dict())
    x = torch.rand(1, 4, 4, 4)
    torch.testing.assert_close(shifted(x), still(x), rtol=0, atol=0)


def test_sizes_that_no_partition_divides_are_refused():
    options = {"block_channels": [8], "block_layers": [1], "head_dim": 4, "stochastic_depth_prob": 0.0}
    with pytest.raises(ValueError, match="block 0 are 8 x 8, expected multiples of partition_size, 7"):
        MaxVit((32, 32), stem_channels=8, partition_size=7, **options)
    model = MaxVit((28, 56), stem_channels=8, partition_size=7, **options)
    assert model(torch.rand(1, 3, 28, 56)).shape == (1, 1000)


@pytest.mark.parametrize("name", ["swin_t", "swin_v2_t"])
def test_swin_compiles_into_one_graph_and_gives_the_same(name):
    torch.manual_seed(0)
    model = models.get_model(name).eval()
    x = torch.rand(1, 3, 64, 64)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
