"""Transforms of observations: images, shapes, frames of several steps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from observing_env import Observing

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from flambeau.rl.envs import check_env_specs
from flambeau.rl.envs.transforms import (
    CatFrames,
    CatTensors,
    CenterCrop,
    ClipTransform,
    Compose,
    Crop,
    ExpandAs,
    FiniteTensorDictCheck,
    FlattenObservation,
    GrayScale,
    NextObservationDelta,
    PermuteTransform,
    PinMemoryTransform,
    Resize,
    SqueezeTransform,
    TimeMaxPool,
    ToTensorImage,
    TransformedEnv,
    UnsqueezeTransform,
)
from flambeau.rl.envs.transforms.functional import cat_frames, rgb_to_grayscale

EVERY = {
    "images": lambda: Compose(ToTensorImage(), GrayScale(), Resize(4, 5), CenterCrop(3), Crop(2)),
    "frames": lambda: Compose(ToTensorImage(), CatFrames(3, dim=-3)),
    "constant frames": lambda: CatFrames(3, dim=-1, in_keys=["observation"], padding="constant", padding_value=-7),
    "vectors": lambda: Compose(FlattenObservation(-3, -1), CatTensors(["observation", "pixels"])),
    "shapes": lambda: Compose(
        UnsqueezeTransform(-1, in_keys=["observation"]), PermuteTransform((-1, -2), in_keys=["observation"]),
        SqueezeTransform(-2, in_keys=["observation"]),
    ),
    "clipped": lambda: ClipTransform(["observation", "reward"], in_keys_inv=["action"], low=-1.0, high=1.0),
    "greatest": lambda: TimeMaxPool(["observation"], ["most"], T=2),
    "expanded": lambda: Compose(ExpandAs("reward", "observation"), FiniteTensorDictCheck()),
    "differences": lambda: NextObservationDelta(["observation"]),
}  # fmt: skip


@pytest.mark.parametrize("batch_size", [(), (2,)], ids=str)
@pytest.mark.parametrize("name", EVERY)
def test_an_environment_with_the_transform_gives_what_its_specs_say(name, batch_size):
    check_env_specs(TransformedEnv(Observing(batch_size), EVERY[name]()))


def test_images_become_channels_first_and_bytes_fractions():
    image = torch.randint(0, 256, (2, 6, 8, 3), dtype=torch.uint8)
    assert torch.equal(ToTensorImage()(image), image.permute(0, 3, 1, 2) / 255)
    assert ToTensorImage(from_int=False)(image).max() > 1
    assert ToTensorImage(dtype=torch.float64)(image).dtype is torch.float64
    assert ToTensorImage(shape_tolerant=True)(image.movedim(-1, 1)).shape == (2, 3, 6, 8)


def test_a_resized_image_of_one_color_keeps_it():
    image = torch.full((3, 6, 8), 77, dtype=torch.uint8)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        assert torch.equal(Resize(4, 11, mode)(image), torch.full((3, 4, 11), 77, dtype=torch.uint8))


def test_crops_outside_an_image_are_zero():
    image = torch.ones(1, 4, 4)
    assert Crop(2, top=3, left=3)(image).tolist() == [[[1, 0], [0, 0]]]
    assert CenterCrop(6, 4)(image).sum() == 16


def test_gray_is_the_luminance_of_the_colors():
    assert rgb_to_grayscale(torch.tensor([1.0, 0.0, 0.0]).view(3, 1, 1)).item() == pytest.approx(0.2989)
    with pytest.raises(TypeError, match="2 channels"):
        rgb_to_grayscale(torch.zeros(2, 4, 4))


def test_frames_of_an_environment_are_those_of_its_rollout():
    """What the transform concatenates step by step, and from the rollout of single frames, is the same."""
    for padding in ("same", "constant"):
        for batch_size in ((), (2,)):
            online = TransformedEnv(
                Observing(batch_size), CatFrames(3, -1, ["observation"], ["frames"], padding=padding, padding_value=9)
            ).rollout(11, break_when_any_done=False, return_contiguous=True)
            keys = ["observation", ("next", "observation")], ["frames", ("next", "frames")]
            offline = CatFrames(3, -1, *keys, padding=padding, padding_value=9)
            steps = offline(online.exclude("frames", ("next", "frames")))
            assert torch.equal(steps["frames"], online["frames"])
            assert torch.equal(steps["next", "frames"], online["next", "frames"])


def test_frames_that_were_given_out_can_be_changed_without_harm():
    env = TransformedEnv(Observing(), CatFrames(2, dim=-1, in_keys=["observation"]))
    root = env.reset()
    root["observation"].fill_(99)
    assert env.rand_step(root)["next", "observation"].tolist() == [0, 0, 1, -1]


def test_frames_go_on_from_a_state_dict():
    env = TransformedEnv(Observing(), CatFrames(2, dim=-1, in_keys=["observation"]))
    last = env.rollout(2)[-1]["next"]
    other = TransformedEnv(Observing(), CatFrames(2, dim=-1, in_keys=["observation"]))
    other.reset()
    other.load_state_dict(env.state_dict())
    other.base_env.count = env.base_env.count
    assert other.rand_step(last)["next", "observation"].tolist() == [2, -2, 3, -3]


def test_frames_to_come_end_with_the_episode_and_are_marked():
    steps = TensorDict(
        {"x": torch.arange(4.0).view(4, 1), "next": {"done": torch.tensor([[0], [1], [0], [0]]).bool()}}, [4]
    )
    out = CatFrames(2, -1, ["x"], ["ahead"], future=True, mask_key="padded")(steps)
    assert out["ahead"].tolist() == [[0, 1], [1, 1], [2, 3], [3, 3]]
    assert out["padded"].tolist() == [[False, False], [False, True], [False, False], [False, True]]


def test_frames_on_their_way_into_a_buffer():
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(20), transform=CatFrames(2, -1, ["observation"], as_inverse=True), batch_size=4
    )
    buffer.extend(Observing().rollout(3, return_contiguous=True))
    assert buffer[:]["observation"].tolist() == [[0, 0, 0, 0], [0, 0, 1, -1], [1, -1, 2, -2]]


def test_a_buffer_of_single_frames_gives_windows_of_several():
    transform, sampler = CatFrames(3, -1, ["observation"]).make_rb_transform_and_sampler(batch_size=5)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(50), sampler=sampler, transform=transform, batch_size=5
    )  # fmt: skip
    buffer.extend(Observing().rollout(9, break_when_any_done=False, return_contiguous=True))
    batch = buffer.sample()
    assert batch.batch_size == (5,)
    assert batch["observation"].tolist() == [[0, 0, 1, -1, 2, -2]] * 5
    assert batch["next", "observation"].tolist() == [[1, -1, 2, -2, 3, -3]] * 5


def test_slices_of_a_buffer_are_data_with_time():
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(50),
        sampler=SliceSampler(slice_len=3, end_key=("next", "done")),
        transform=CatFrames(2, -1, ["observation"]),
        batch_size=6,
    )
    buffer.extend(Observing().rollout(9, break_when_any_done=False, return_contiguous=True))
    assert buffer.sample()["observation"].tolist() == [[0, 0, 0, 0], [0, 0, 1, -1], [1, -1, 2, -2]] * 2


@pytest.mark.parametrize("options", [{"as_inverse": True}, {"future": True}, {"mask_key": "padded"}], ids=str)
def test_frames_for_buffers_alone_are_refused_by_environments(options):
    with pytest.raises(RuntimeError, match="replay buffers"):
        TransformedEnv(Observing(), CatFrames(2, -1, ["observation"], **options)).reset()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 5), st.sampled_from(["same", "constant"]))
def test_no_frame_is_of_another_episode(ends, count, padding):
    """Frames are numbered by their step: those of a window are consecutive, from the episode on."""
    done = torch.tensor(ends).view(-1, 1)
    steps = torch.arange(len(ends))
    data = TensorDict({"x": steps.view(-1, 1).clone(), "next": {"done": done}}, [len(ends)])
    frames = CatFrames(count, -1, ["x"], padding=padding, padding_value=-1)(data)["x"]
    for at in range(len(ends)):
        first = max((step + 1 for step in range(at) if ends[step]), default=0)
        pad = first if padding == "same" else -1
        assert frames[at].tolist() == [step if step >= first else pad for step in range(at - count + 1, at + 1)]


def test_the_function_takes_time_and_frames_along_any_dimensions():
    x = torch.arange(6.0).view(2, 3)
    assert cat_frames(x, 2, -2, time_dim=-1).tolist() == [[0, 0, 1], [3, 3, 4], [0, 1, 2], [3, 4, 5]]
    windows = cat_frames(x.t(), 2, -1, time_dim=-2)
    assert windows.tolist() == [[0, 3, 0, 3], [0, 3, 1, 4], [1, 4, 2, 5]]
    with pytest.raises(ValueError, match="negative"):
        cat_frames(x, 2, 0, time_dim=-1)


def test_the_greatest_of_the_last_observations_leaves_the_past_episode():
    steps = TransformedEnv(Observing(), TimeMaxPool(["observation"], ["most"], T=2)).rollout(
        5, break_when_any_done=False, return_contiguous=True
    )
    assert steps["next", "most"].tolist() == [[1, 0], [2, -1], [3, -2], [1, 0], [2, -1]]
    assert steps["most"][3].tolist() == [0, 0]


def test_actions_pass_through_the_inverse():
    env = TransformedEnv(Observing(), UnsqueezeTransform(-1, in_keys=[], in_keys_inv=["action"]))
    assert env.action_spec.shape == (1, 1)
    assert env.transform.inv(TensorDict({"action": torch.ones(1, 1)}))["action"].shape == (1,)
    assert ClipTransform(in_keys_inv=["a"], low=0).inv(TensorDict({"a": torch.tensor([-1.0])}))["a"].item() == 0


def test_next_observations_are_restored_from_their_differences():
    env = TransformedEnv(Observing(), NextObservationDelta(["observation"]))
    stored = env.rollout(7, break_when_any_done=False, return_contiguous=True)
    assert ("next", "observation") not in stored.keys(True, True)
    assert stored["next", "delta", "observation"].dtype is torch.float16
    plain = Observing().rollout(7, break_when_any_done=False, return_contiguous=True)
    assert torch.equal(stored["observation"], plain["observation"])
    restored = NextObservationDelta(["observation"])(stored)
    assert torch.equal(restored["next", "observation"], plain["next", "observation"])
    assert ("next", "delta") not in restored.keys(True)


def test_values_that_are_not_finite_are_found():
    with pytest.raises(ValueError, match="Of 2 values 1 are not finite"):
        FiniteTensorDictCheck()(TensorDict({"a": {"b": torch.tensor([1.0, float("inf")])}}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="what there is to say without a GPU")
def test_memory_is_not_pinned_without_a_gpu():
    with pytest.raises(RuntimeError, match="no GPU"):
        PinMemoryTransform()(TensorDict({"a": torch.ones(2)}))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: CatFrames(2, dim=1), ValueError, "dim is 1"),
        (lambda: CatFrames(2, dim=-1, padding="zeros"), ValueError, "'zeros'"),
        (lambda: Resize(3, interpolation="cubed"), ValueError, "'cubed'"),
        (lambda: FlattenObservation(1, 2), ValueError, "allow_positive_dim"),
        (lambda: UnsqueezeTransform(1), RuntimeError, "allow_positive_dim"),
        (lambda: PermuteTransform((-1, -1)), ValueError, "-2 to -1"),
        (lambda: ClipTransform(["x"]), TypeError, "low"),
        (lambda: ClipTransform(["x"], low=2, high=1), ValueError, "greater"),
        (lambda: TimeMaxPool(T=0), ValueError, "T is 0"),
        (lambda: NextObservationDelta(delta_dtype=torch.int8), ValueError, "torch.int8"),
        (lambda: CatTensors(["a", "b"])(TensorDict({"a": torch.ones(1)})), KeyError, "'b'"),
        (lambda: CatFrames(2, -1, ["x"])(TensorDict({"x": torch.ones(3)})), ValueError, "time"),
        (lambda: CatFrames(2, -1, ["x"])(TensorDict({"x": torch.ones(3)}, [3])), KeyError, "done"),
        (lambda: ExpandAs("a", "b")(TensorDict({"a": torch.ones(2), "b": torch.ones(3, 4)})), RuntimeError, "'a'"),
    ],
)
def test_what_is_wrong_is_said(make, error, match):
    with pytest.raises(error, match=match):
        make()
