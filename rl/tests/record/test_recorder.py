"""Recorders: which frames of an environment become a video, what is rendered, what is written."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import Composite, Unbounded
from flambeau.rl.envs import EnvBase, TransformedEnv, check_env_specs
from flambeau.rl.record import PixelRenderTransform, TensorDictRecorder, VideoRecorder


class Film(EnvBase):
    """Frame number i shows the value i, and the fifth is the last."""

    def __init__(self, batch=(), shape=(4, 6, 3)):
        super().__init__(batch_size=batch)
        self.shape_of_frames = shape
        self.observation_spec = Composite(pixels=Unbounded((*batch, *shape), dtype=torch.uint8), shape=batch)
        self.action_spec = Unbounded((*batch, 1))
        self.reward_spec = Unbounded((*batch, 1))
        self.number = 0

    def _frame(self):
        return torch.full((*self.batch_size, *self.shape_of_frames), self.number, dtype=torch.uint8)

    def _reset(self, tensordict=None, **options):
        self.number = 0
        return TensorDict({"pixels": self._frame()}, self.batch_size)

    def _step(self, tensordict):
        self.number += 1
        end = torch.full((*self.batch_size, 1), self.number >= 5)
        reward = torch.zeros(*self.batch_size, 1)
        return TensorDict({"pixels": self._frame(), "reward": reward, "done": end}, self.batch_size)

    def _set_seed(self, seed):
        pass

    def render(self, size=4, **options):
        return np.full((size, size, 3), self.number, np.uint8)


class Kept:
    """A logger that keeps videos."""

    def __init__(self):
        self.videos = []

    def log_video(self, name, video, step=None, **options):
        self.videos.append((name, video, step, options))

    def values(self):
        return [video[0, :, 0, 0, 0].tolist() for _, video, _, _ in self.videos]


@pytest.mark.parametrize(
    ("options", "frames"),
    [
        ({}, [1, 3, 5]),
        ({"skip": 1}, [0, 1, 2, 3, 4, 5]),
        ({"skip": 3}, [2, 5]),
        ({"skip": 1, "max_frames": 2}, [0, 1]),
    ],
)
def test_one_of_so_many_frames_is_kept(options, frames):
    logger = Kept()
    env = TransformedEnv(Film(), VideoRecorder(logger, "film", **options))
    env.rollout(8)
    env.transform.dump()
    assert logger.values() == [frames]


def test_a_video_is_named_and_numbered():
    logger = Kept()
    env = TransformedEnv(Film(), VideoRecorder(logger, "film", skip=1, fps=7))
    env.rollout(2)
    env.transform.dump()
    env.transform.dump()  # nothing came since
    env.rollout(2)
    env.transform.dump(suffix="late")
    assert [(name, step, options) for name, _, step, options in logger.videos] == [
        ("film", 0, {"fps": 7}),
        ("film_late", 2, {"fps": 7}),
    ]


@pytest.mark.parametrize(("count", "size"), [(1, (4, 6)), (2, (4, 12)), (3, (8, 12)), (5, (8, 18)), (7, (12, 18))])
def test_a_batch_is_tiled(count, size):
    logger = Kept()
    env = TransformedEnv(Film((count,)), VideoRecorder(logger, "film"))
    env.rollout(1)
    env.transform.dump()
    assert logger.videos[0][1].shape == (1, 2, 3, *size)


def test_tiles_lie_in_reading_order():
    logger = Kept()
    recorder = VideoRecorder(logger, "film", make_grid=True)
    frames = torch.arange(3, dtype=torch.uint8).reshape(3, 1, 1, 1).expand(3, 2, 2, 3)
    recorder(TensorDict({"pixels": frames}, [3]))
    recorder.dump()
    assert logger.videos[0][1][0, 0, 0, ::2, ::2].tolist() == [[0, 1], [2, 0]]


def test_a_batch_without_a_grid_follows_one_another():
    logger = Kept()
    recorder = VideoRecorder(logger, "film")
    recorder(TensorDict({"pixels": torch.zeros(5, 4, 6, 3, dtype=torch.uint8)}, [5]))
    recorder.dump()
    assert logger.videos[0][1].shape == (1, 5, 3, 4, 6)


@pytest.mark.parametrize("shape", [(3, 4, 6), (1, 4, 6), (4, 6, 1), (4, 6)])
def test_frames_come_in_several_shapes(shape):
    logger = Kept()
    env = TransformedEnv(Film(shape=shape), VideoRecorder(logger, "film", skip=1))
    env.rollout(2)
    env.transform.dump()
    assert logger.videos[0][1].shape == (1, 3, 1 if shape == (4, 6) else 3, 4, 6)
    assert logger.values() == [[0, 1, 2]]


def test_frames_of_fractions_are_scaled():
    logger = Kept()
    recorder = VideoRecorder(logger, "film")
    recorder(TensorDict({"pixels": torch.full((2, 3, 4, 4), 0.5)}, [2]))
    recorder.dump()
    assert logger.values() == [[128, 128]]


def test_the_middle_is_cropped():
    logger = Kept()
    recorder = VideoRecorder(logger, "film", center_crop=2)
    frame = torch.arange(24, dtype=torch.uint8).reshape(1, 4, 6).expand(3, 4, 6)
    recorder(TensorDict({"pixels": frame}, []))
    recorder.dump()
    assert logger.videos[0][1][0, 0, 0].tolist() == [[8, 9], [14, 15]]


def test_a_video_ends_with_its_episode():
    logger = Kept()
    env = TransformedEnv(Film(), VideoRecorder(logger, "film", skip=1, dump_on_done=True))
    env.rollout(20)
    assert logger.values() == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("options", [{"skip": 0}, {"max_frames": 0}])
def test_counts_below_one_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be 1 or more; got 0"):
        VideoRecorder(None, None, **options)


def test_animations_show_the_frames():
    pytest.importorskip("matplotlib").use("Agg")
    recorder = VideoRecorder(None, None)
    with pytest.raises(RuntimeError, match="There are no frames"):
        recorder.to_animation()
    recorder(TensorDict({"pixels": torch.zeros(3, 4, 6, 3, dtype=torch.uint8)}, [3]))
    animation = recorder.to_animation(title="film", clear=True)
    assert len(list(animation.frame_seq)) == 3
    assert recorder.obs == []
    animation._draw_was_started = True  # it was never shown, which matplotlib warns of


def test_what_is_rendered_is_observed():
    env = TransformedEnv(Film(), PixelRenderTransform(out_keys=["view"], size=8))
    check_env_specs(env)
    shown = env.rollout(3)
    assert shown["view"].shape == (3, 8, 8, 3)
    assert shown["next", "view"][:, 0, 0, 0].tolist() == [1, 2, 3]


def test_rendering_can_be_switched_off():
    env = TransformedEnv(Film(), PixelRenderTransform(out_keys=["view"]))
    env.rollout(1)
    env.transform.switch("off")
    assert "view" not in env.rollout(2)
    env.transform.switch()
    assert "view" in env.rollout(2)
    with pytest.raises(ValueError, match="mode must be 'on', 'off'"):
        env.transform.switch("dim")


def test_one_picture_serves_a_whole_batch():
    env = TransformedEnv(Film((2,)), PixelRenderTransform(out_keys=["view"]))
    assert env.rollout(3)["view"].shape == (2, 3, 4, 4, 3)


def test_what_is_no_array_is_kept_as_it_is():
    env = TransformedEnv(Film(), PixelRenderTransform(out_keys=["view"], preproc=lambda frame: f"{frame[0, 0, 0]}"))
    assert env.rollout(2)["view"] == ["0", "1"]


def test_rendering_to_a_video_goes_through_both():
    logger = Kept()
    env = TransformedEnv(Film(), PixelRenderTransform(out_keys=["view"]))
    env.append_transform(VideoRecorder(logger, "view", in_keys=["view"], skip=1))
    env.rollout(3)
    env.transform[-1].dump()
    assert logger.values()[0][-4:] == [0, 1, 2, 3]


@pytest.mark.parametrize(("options", "count"), [({}, 1), ({"skip": 1}, 5), ({"skip": 1, "skip_reset": False}, 6)])
def test_steps_are_written(tmp_path, options, count):
    env = TransformedEnv(Film(), TensorDictRecorder(str(tmp_path / "steps"), **options))
    env.rollout(8)
    env.transform.dump("end")
    kept = torch.load(tmp_path / "steps_end.td", weights_only=False)
    assert kept.batch_size == (count,)
    assert kept["pixels"][-1].unique().tolist() == [4 if not options else 5]
