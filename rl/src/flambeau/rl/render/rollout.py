"""Episodes of a policy, with frames of their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.envs._keys import as_tuple
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import ExplorationType, set_exploration_type
from flambeau.rl.render.backends.env import EnvRenderBackend
from flambeau.rl.render.backends.mujoco import MujocoStateReader
from flambeau.rl.render.backends.null import NullRenderBackend
from flambeau.rl.render.backends.pixels import TensorDictPixelsBackend
from flambeau.rl.render.config import FrameBundle, RenderConfig, RenderResult

__all__ = ["collect_render_rollouts"]

_MOST_STEPS = 1000
_EXPLORATION = {
    "deterministic": ExplorationType.DETERMINISTIC,
    "mode": ExplorationType.MODE,
    "mean": ExplorationType.MEAN,
    "random": ExplorationType.RANDOM,
}


def collect_render_rollouts(env: Any, policy: Any, config: RenderConfig) -> RenderResult:
    """Record episodes one after the other: their data, and frames from the first state to the last.

    Args:
        env: one of this library's environments, or one whose `reset` and `step` take and give tensordicts.
        policy: writes actions into tensordicts.
        config: of the run.
    """
    backends = _backends(config)
    record = _recorded if isinstance(env, EnvBase) else _stepped
    mode = config.exploration_mode or ("deterministic" if config.deterministic else "random")
    result = RenderResult(None, [], [], {}, [])
    try:
        for index in range(config.num_trajs):
            recorder = _Recorder(backends, env, config, index)
            with torch.no_grad(), set_exploration_type(_EXPLORATION[mode]):
                data = record(env, policy, config, recorder)
            result.trajectories.append(recorder.with_states(data))
            result.frames.append(recorder.frames)
            if not recorder.frames:
                result.warnings.append(
                    f"Episode {index} has no frames: gymnasium's environments draw with render_mode='rgb_array', "
                    "others with from_pixels=True."
                )
    finally:
        for backend in backends:
            backend.close()
    result.metadata = _described(result, config)
    return result


def _backends(config: RenderConfig) -> list[Any]:
    known: dict[str, list[Any]] = {
        "pixels": [TensorDictPixelsBackend()],
        "env": [EnvRenderBackend()],
        "null": [NullRenderBackend()],
    }
    return known.get(config.render_backend, [*known["pixels"], *known["env"], *known["null"]])


class _Recorder:
    """Takes frames of an episode's states, and the states of its simulation where they are wanted."""

    def __init__(self, backends: list[Any], env: Any, config: RenderConfig, index: int) -> None:
        self.backends = [backend for backend in backends if backend.supports(env, config)]
        self.env, self.config, self.index = env, config, index
        self.frames: list[FrameBundle] = []
        self.states: list[TensorDictBase] = []
        self.step = 0
        self.reader = MujocoStateReader() if config.mujoco_qpos_key is not None else None

    def __call__(self, tensordict: TensorDictBase) -> None:
        for backend in self.backends:
            found = backend.capture(self.env, tensordict, self.config, step=self.step, trajectory_index=self.index)
            if found is not None:
                self.frames.append(found)
                break
        if self.reader is not None:
            self.states.append(self.reader.capture(self.env))
        self.step += 1

    def with_states(self, data: TensorDictBase) -> TensorDictBase:
        """The data with the coordinates before and after each step, beside them and below "next"."""
        if self.reader is None:
            return data
        time = data.batch_size[-1]
        coordinates = torch.stack([state["qpos"] for state in self.states], len(data.batch_size) - 1)
        key = as_tuple(self.config.mujoco_qpos_key)
        along = len(data.batch_size) - 1
        data.set(key, coordinates.narrow(along, 0, time))
        return data.set(("next", *key), coordinates.narrow(along, 1, time))


def _recorded(env: EnvBase, policy: Any, config: RenderConfig, record: Callable[..., None]) -> TensorDictBase:
    """An episode of one of this library's environments."""
    limit = config.max_steps or _MOST_STEPS
    device = config.device if config.policy_device is None else config.policy_device
    moves = env.device is not None and env.device != device
    current = env.reset()
    record(current)
    steps = []
    for _ in range(limit):
        current = policy(current.to(device)).to(env.device) if moves else policy(current)
        step = env.step(current)
        steps.append(step.clone())
        record(step.get("next"))
        if bool(_done(step.get("next"), config).all()):
            break
        current = env.step_mdp(step)
    return torch.stack(steps, len(steps[0].batch_size))


def _stepped(env: Any, policy: Any, config: RenderConfig, record: Callable[..., None]) -> TensorDictBase:
    """An episode of an environment that has `reset` and `step` of tensordicts and nothing else."""
    current = env.reset()
    record(current)
    steps = []
    for _ in range(config.max_steps or _MOST_STEPS):
        step = env.step(policy(current))
        steps.append(step.clone())
        current = step.get("next").exclude("reward")
        record(current)
        if bool(_done(step.get("next"), config).all()):
            break
    return torch.stack(steps, 0)


def _done(data: TensorDictBase, config: RenderConfig) -> torch.Tensor:
    found = data.get(config.done_key, None)
    if found is None:
        raise KeyError(f"Episodes end by {config.done_key!r} below 'next'; there is {list(data.keys(True, True))}.")
    return found  # type: ignore[no-any-return]


def _described(result: RenderResult, config: RenderConfig) -> dict[str, Any]:
    return {
        "format": config.format,
        "num_trajs": config.num_trajs,
        "max_steps": config.max_steps,
        "fps": config.fps,
        "render_backend": config.render_backend,
        "env_backend": config.env_backend,
        "trajectories": [
            {
                "index": index,
                "num_steps": int(data.batch_size[-1]),
                "return": _return(data, config),
                "num_frames": len(frames),
                "cameras": sorted({name for bundle in frames for name in bundle.frames}),
            }
            for index, (data, frames) in enumerate(zip(result.trajectories, result.frames, strict=True))
        ],
        "warnings": list(result.warnings),
    }


def _return(data: TensorDictBase, config: RenderConfig) -> float | None:
    reward = data.get(("next", *as_tuple(config.reward_key)), None)
    return None if reward is None else float(reward.sum())
