"""Feature pyramids: what they make of maps, and which checkpoints load."""

import pytest
import torch

from flambeau.vision.ops.feature_pyramid_network import (
    ExtraFPNBlock,
    FeaturePyramidNetwork,
    LastLevelMaxPool,
    LastLevelP6P7,
)


def maps() -> dict[str, torch.Tensor]:
    return {"fine": torch.rand(2, 4, 17, 12), "middle": torch.rand(2, 8, 9, 6), "coarse": torch.rand(2, 16, 5, 3)}


def test_maps_keep_their_names_and_sizes():
    pyramid = FeaturePyramidNetwork([4, 8, 16], 6)(maps())
    assert {name: tuple(value.shape) for name, value in pyramid.items()} == {
        "fine": (2, 6, 17, 12), "middle": (2, 6, 9, 6), "coarse": (2, 6, 5, 3),
    }  # fmt: skip


def test_a_pool_level_takes_every_second_pixel():
    pyramid = FeaturePyramidNetwork([4, 8, 16], 6, LastLevelMaxPool())(maps())
    assert torch.equal(pyramid["pool"], pyramid["coarse"][:, :, ::2, ::2])


@pytest.mark.parametrize(("channels", "from_pyramid"), [(6, True), (16, False)])
def test_p6_comes_from_the_map_that_has_its_channels(channels, from_pyramid):
    block = LastLevelP6P7(channels, 6)
    inputs = maps()
    pyramid = FeaturePyramidNetwork([4, 8, 16], 6, block)(inputs)
    assert list(pyramid) == ["fine", "middle", "coarse", "p6", "p7"]
    assert torch.equal(pyramid["p6"], block.p6(pyramid["coarse"] if from_pyramid else inputs["coarse"]))


def test_normalization_replaces_the_bias():
    plain, normed = (FeaturePyramidNetwork([4], 6, norm_layer=norm) for norm in (None, torch.nn.BatchNorm2d))
    assert list(plain.state_dict()) == [
        f"{block}.0.0.{name}" for block in ("inner_blocks", "layer_blocks") for name in ("weight", "bias")
    ]
    assert "inner_blocks.0.0.bias" not in normed.state_dict()
    assert "inner_blocks.0.1.running_var" in normed.state_dict()


def test_checkpoints_of_the_older_format_load():
    model = FeaturePyramidNetwork([4, 8], 6)
    old = {
        name.replace(".0.weight", ".weight").replace(".0.bias", ".bias"): value
        for name, value in model.state_dict().items()
    }
    assert "inner_blocks.1.weight" in old
    other = FeaturePyramidNetwork([4, 8], 6)
    other.load_state_dict(old)
    assert torch.equal(other.inner_blocks[1][0].weight, model.inner_blocks[1][0].weight)


def test_the_memory_format_is_kept():
    model = FeaturePyramidNetwork([4, 8, 16], 6).to(memory_format=torch.channels_last)
    inputs = {name: value.to(memory_format=torch.channels_last) for name, value in maps().items()}
    assert all(value.is_contiguous(memory_format=torch.channels_last) for value in model(inputs).values())


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"in_channels_list is \[4, 0\]"):
        FeaturePyramidNetwork([4, 0], 6)
    with pytest.raises(TypeError, match="extra_blocks is a Identity, expected an ExtraFPNBlock"):
        FeaturePyramidNetwork([4], 6, extra_blocks=torch.nn.Identity())
    with pytest.raises(NotImplementedError, match="ExtraFPNBlock has to define forward"):
        ExtraFPNBlock()([], [], [])
