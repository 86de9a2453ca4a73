"""Frames, films and scenes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flambeau.rl.render import compose_frame_grid, encode_gif, encode_video, normalize_frame, write_png
from flambeau.rl.render.films import FilmError, episode, film
from flambeau.rl.render.scenes import SCENES, draw
from flambeau.rl.render.video import normalize_frame_output
from flambeau.rl.runs.environments import NATIVE, make_env


@pytest.mark.parametrize(
    "frame",
    [
        np.full((4, 6), 128, np.uint8),
        np.full((4, 6, 1), 128, np.uint8),
        torch.full((3, 4, 6), 128, dtype=torch.uint8),
        np.full((4, 6, 4), 128, np.uint8),
        torch.full((4, 6, 3), 0.5),
        np.full((1, 4, 6, 3), 128.0),
    ],
    ids=lambda frame: f"{tuple(frame.shape)} {frame.dtype}",
)
def test_frames_of_any_form_become_bytes_of_three_channels(frame):
    made = normalize_frame(frame)
    assert (made.shape, made.dtype) == ((4, 6, 3), np.uint8)
    assert set(np.unique(made)) == {128}


def test_what_is_no_frame_is_refused():
    with pytest.raises(ValueError, match="a frame is"):
        normalize_frame(np.zeros((5, 6, 2)))
    with pytest.raises(ValueError, match="nothing was rendered"):
        normalize_frame_output(None)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [("single", (2, 3, 3)), ("horizontal", (2, 9, 3)), ("vertical", (6, 3, 3)), ("grid", (4, 6, 3))],
)
def test_frames_are_put_side_by_side(layout, shape):
    frames = [np.full((2, 3, 3), value, np.uint8) for value in (10, 20, 30)]
    assert compose_frame_grid(frames, layout).shape == shape


def test_films_and_pictures_are_written(tmp_path):
    frames = [np.full((16, 16, 3), value, np.uint8) for value in (0, 100, 200)]
    assert encode_gif(frames, tmp_path / "a.gif", 10).read_bytes()[:3] == b"GIF"
    assert write_png(frames[0], tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    pytest.importorskip("av")
    assert b"ftyp" in encode_video(frames, tmp_path / "a.mp4", 10).read_bytes()[:16]
    with pytest.raises(ValueError, match="of one size"):
        encode_gif([frames[0], frames[0][:8]], tmp_path / "b.gif", 10)


def test_every_environment_in_tensor_code_has_a_scene():
    assert SCENES.keys() == NATIVE.keys()


@pytest.mark.parametrize("env", sorted(SCENES))
def test_scenes_show_the_state(env):
    root = make_env(env, 2, 0).reset()
    first, second = (draw(env, row.tolist()) for row in root["observation"])
    assert (first.shape, first.dtype) == ((320, 480, 3), np.uint8)
    assert first.std() > 0
    assert (first != second).any()


def test_an_episode_has_a_frame_for_each_state():
    frames, total = episode("CartPole-v1", lambda td: td.set("action", torch.tensor([[1, 0]])), seed=0)
    assert len(frames) == total + 1


def test_films_have_suffixes(tmp_path):
    with pytest.raises(FilmError, match=r"films are .mp4, .mkv, .webm or .gif, pictures .png; got 'run.avi'"):
        film("CartPole-v1", None, tmp_path / "run.avi")
