"""Data of models of vision, language and action: tokens of actions, images, metadata, and what must be there."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.vla import (
    OpenVLAImagePreprocessor,
    RobotDatasetMetadata,
    UniformActionTokenizer,
    VLAAction,
    VLAImages,
    VLAObservation,
    VocabTailActionTokenizer,
    validate_vla_tensordict,
)

BOUNDS = {"norm_low": torch.tensor([0.0, -1, 0]), "norm_high": torch.tensor([1.0, 3, 1])}
GRIPPER = torch.tensor([True, True, False])


def test_tokens_are_the_last_ids_of_the_vocabulary():
    tokenizer = VocabTailActionTokenizer(256, full_vocab_size=32000)
    tokens = tokenizer.encode(torch.linspace(-1, 1, 1001))
    assert (int(tokens.min()), int(tokens.max())) == (32000 - 256, 31999)
    assert (tokens.diff() <= 0).all()


def test_an_action_comes_back_within_half_a_bin():
    tokenizer = VocabTailActionTokenizer(64)
    actions = torch.linspace(-1, 1, 997)
    assert (tokenizer.decode(tokenizer.encode(actions)) - actions).abs().max() <= 1 / 63 + 1e-6


def test_bounds_bring_actions_to_the_environment_and_back():
    tokenizer = VocabTailActionTokenizer(256, **BOUNDS, norm_mask=GRIPPER)
    actions = torch.tensor([[0.2, 2.5, -0.3], [0.9, -0.5, 0.8]])
    torch.testing.assert_close(tokenizer.decode(tokenizer.encode(actions)), actions, atol=0.01, rtol=0)


def test_grippers_are_open_or_closed():
    tokenizer = VocabTailActionTokenizer(8, **BOUNDS, norm_mask=GRIPPER, gripper_binarize=True, gripper_invert=True)
    grippers = tokenizer.decode(torch.arange(8).repeat_interleave(3).view(8, 3))[:, 2]
    assert grippers.tolist() == [-1.0] * 4 + [1.0] * 4


def test_bounds_of_a_data_set_are_those_of_its_metadata():
    about = RobotDatasetMetadata(
        dataset_id="arm", action_low=torch.tensor([0.0, -2]), action_high=torch.tensor([1.0, 2]), batch_size=[]
    )
    assert UniformActionTokenizer.from_metadata(about, 4).decode(torch.tensor([0, 3])).tolist() == [0.125, 1.5]
    with pytest.raises(ValueError, match="no action_low"):
        UniformActionTokenizer.from_metadata(RobotDatasetMetadata(dataset_id="arm", batch_size=[]), 4)


def test_metadata_come_back_from_a_file(tmp_path):
    about = RobotDatasetMetadata(
        dataset_id="arm", action_names=("x", "y"), camera_keys=(("observation", "image"),),
        action_mean=torch.tensor([0.5, 1]), batch_size=[],
    )  # fmt: skip
    about.to_json(str(tmp_path / "about.json"))
    found = RobotDatasetMetadata.from_json(str(tmp_path / "about.json"))
    assert (found.action_names, found.camera_keys) == (("x", "y"), (("observation", "image"),))
    assert found.action_mean.tolist() == [0.5, 1.0]


@pytest.mark.parametrize("text", ["[]", "{}"])
def test_other_json_is_refused(tmp_path, text):
    (tmp_path / "about.json").write_text(text)
    with pytest.raises(ValueError, match="dataset_id"):
        RobotDatasetMetadata.from_json(str(tmp_path / "about.json"))


def test_containers_are_indexed_with_all_they_hold():
    images = VLAImages(image=torch.zeros(3, 3, 8, 8), batch_size=[3])
    seen = VLAObservation(images=images, state=torch.arange(6.0).view(3, 2), batch_size=[3])
    assert seen[1:].images.image.shape == (2, 3, 8, 8)
    action = VLAAction(chunk=torch.zeros(3, 4, 2), batch_size=[3])
    assert (action[0].chunk.shape, action.tokens) == ((4, 2), None)


def test_what_is_missing_is_said_at_once():
    with pytest.raises(ValueError, match=r"no instruction.*neither images.*no action"):
        validate_vla_tensordict(TensorDict({}, [2]))
    assert validate_vla_tensordict(TensorDict({"action": torch.zeros(2)}, [2]), raise_on_error=False)[0].startswith(
        "there is no instruction"
    )


@pytest.mark.parametrize("backend", ["torch_reference", "torchvision", "pil"])
@pytest.mark.parametrize("center_crop", [False, True])
def test_images_keep_what_they_show(backend, center_crop):
    pytest.importorskip("PIL")
    ramp = torch.linspace(0, 255, 64).byte().expand(1, 3, 48, 64)
    made = OpenVLAImagePreprocessor(size=32, backend=backend, center_crop=center_crop)(ramp)
    assert made.shape == (1, 3, 32, 32)
    edge = 7 if center_crop else 0  # the crop leaves out a twentieth of each side
    expected = torch.linspace(edge, 255 - edge, 32)
    assert (made[0, 0, 16].float() - expected).abs().max() < 9


def test_several_normalisations_lie_behind_one_another():
    pytest.importorskip("PIL")
    grey = torch.full((2, 3, 16, 16), 0.5)
    prepare = OpenVLAImagePreprocessor(size=8, mean=[[0.5] * 3, [0.0] * 3], std=[[0.5] * 3, [1.0] * 3])
    made = prepare(grey)
    assert made.shape == (2, 6, 8, 8)
    torch.testing.assert_close(made.mean((0, 2, 3)), torch.tensor([0.0] * 3 + [0.5] * 3), atol=0.01, rtol=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: VocabTailActionTokenizer(1),
        lambda: VocabTailActionTokenizer(8, full_vocab_size=4),
        lambda: VocabTailActionTokenizer(8, norm_low=torch.zeros(2)),
        lambda: RobotDatasetMetadata(dataset_id="x", gripper_mode="magnetic", batch_size=[]),
        lambda: OpenVLAImagePreprocessor(backend="jax"),
        lambda: OpenVLAImagePreprocessor(mean=[0.5]),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(ValueError, match=r"expected|together"):
        make()
