"""Films of policies at work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from flambeau.core.errors import FlambeauError
from flambeau.rl.envs.utils import ExplorationType, set_exploration_type
from flambeau.rl.render.scenes import SCENES, draw
from flambeau.rl.render.video import encode_gif, encode_video, write_png
from flambeau.rl.runs.environments import is_native, make_env

__all__ = ["FilmError", "episode", "film"]

_LONGEST = 100_000
_RATES = {"Acrobot-v1": 15.0, "CartPole-v1": 50.0, "Pendulum-v1": 20.0}
"""Frames a second that show a second of the environment in one; others are shown at 30."""


class FilmError(FlambeauError, ValueError):
    """The environment shows nothing, or the file is of no kind that can be written."""


@torch.no_grad()
def episode(env_id: str, policy: Any, *, seed: int = 0, frames: bool = True) -> tuple[list[Any], float]:
    """An episode of a policy that does not explore.

    Args:
        env_id: the environment's name.
        policy: writes actions into tensordicts.
        seed: of the episode.
        frames: draw each step, else none.

    Returns:
        Frames, (height, width, 3) in uint8, and the sum of rewards.

    Raises:
        FilmError: the environment shows nothing.
    """
    env, picture = _env(env_id, seed)
    shown, total = [], 0.0
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        root = env.reset()
        for _ in range(_LONGEST):
            if frames:
                shown.append(picture(root))
            step, root = env.step_and_maybe_reset(policy(root))
            total += float(step.get(("next", "reward")).sum())
            if bool(step.get(("next", "done")).all()):
                if frames:
                    shown.append(picture(step.get("next")))
                break
    if not env.is_closed:
        env.close(raise_if_closed=False)
    return shown, total


def film(env_id: str, policy: Any, path: str | Path, *, seed: int = 0) -> float:
    """Film an episode of a policy.

    Args:
        env_id: the environment's name.
        policy: writes actions into tensordicts.
        path: .mp4, .mkv or .webm for a film, .gif for an animated image, .png for the last moment.
        seed: of the episode.

    Returns:
        The sum of rewards.

    Raises:
        FilmError: the environment shows nothing, or the file is of another kind.
        ImportError: PyAV or Pillow is not installed.
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".mp4", ".mkv", ".webm", ".gif", ".png"):
        raise FilmError(f"films are .mp4, .mkv, .webm or .gif, pictures .png; got {target.name!r}.")
    frames, total = episode(env_id, policy, seed=seed)
    rate = _RATES.get(env_id, 30.0)
    if kind == ".gif":
        encode_gif(frames, target, rate)
    elif kind == ".png":
        write_png(frames[-1], target)
    else:
        encode_video(frames, target, rate, video_codec="libvpx-vp9" if kind == ".webm" else None)
    return total


def _env(env_id: str, seed: int) -> tuple[Any, Any]:
    """One environment, and what draws it."""
    if is_native(env_id) and env_id in SCENES:
        return make_env(env_id, 1, seed), lambda data: draw(env_id, data.get("observation")[0].tolist())
    import gymnasium

    from flambeau.rl.envs import GymEnv, TransformedEnv
    from flambeau.rl.envs.transforms import DoubleToFloat

    base = GymEnv(env_id, render_mode="rgb_array")
    env = TransformedEnv(base, DoubleToFloat())
    env.set_seed(seed)

    def picture(data: Any) -> Any:
        shown = base._env.render()
        if shown is None:
            raise FilmError(f"{env_id} shows nothing: its render() gives no frames.")
        return shown

    try:
        env.reset()
        picture(None)
    except gymnasium.error.DependencyNotInstalled as error:
        raise FilmError(f"{env_id} cannot be shown: {error}") from error
    return env, picture
