"""Environments to render."""

from __future__ import annotations

from typing import Any

from flambeau.rl.envs.common import EnvBase
from flambeau.rl.render.config import RenderConfig, RenderEnvSpec
from flambeau.rl.render.import_utils import call_with_supported_kwargs, import_from_string

__all__ = ["add_step_counter", "make_render_env", "normalize_env", "seed_env"]


def make_render_env(config: RenderConfig, checkpoint: Any | None = None) -> Any:
    """The environment of a configuration, seeded, with its number of steps limited.

    Args:
        config: of the run.
        checkpoint: what is in the checkpoint, for the environment's function.
    """
    spec = RenderEnvSpec.from_config(config, checkpoint)
    factory = import_from_string(config.env) if isinstance(config.env, str) else config.env
    env = normalize_env(call_with_supported_kwargs(factory, spec, {**vars(spec), **spec.env_kwargs}), config)
    if config.max_steps is not None:
        env = add_step_counter(env, config.max_steps)
    seed_env(env, config.seed)
    return env


def normalize_env(env: Any, config: RenderConfig) -> Any:
    """One of this library's environments, of one of gymnasium's or dm_control's; others as they are.

    Args:
        env: the environment.
        config: says of which library it is, and on which device it is to be.
    """
    if isinstance(env, EnvBase):
        return env
    device = config.device if config.env_device is None else config.env_device
    module = type(env).__module__.partition(".")[0]
    pixels = {"from_pixels": config.from_pixels, "pixels_only": config.pixels_only}
    if config.env_backend == "dm_control" or (config.env_backend == "auto" and module == "dm_control"):
        from flambeau.rl.envs.libs.dm_control import DMControlWrapper

        return DMControlWrapper(env, device=device, **pixels)
    if config.env_backend in ("gym", "gymnasium", "mujoco") or hasattr(env, "action_space"):
        from flambeau.rl.envs.libs.gym import GymWrapper

        return GymWrapper(env, device=device, **pixels)
    return env


def add_step_counter(env: Any, max_steps: int) -> Any:
    """Truncate episodes of one of this library's environments; others stay as they are.

    Args:
        env: the environment.
        max_steps: number of steps.
    """
    from flambeau.rl.envs.transforms._base.environment import TransformedEnv
    from flambeau.rl.envs.transforms._env.counters import StepCounter

    if not isinstance(env, EnvBase) or "step_count" in env.full_observation_spec.keys(True, True):
        return env
    return TransformedEnv(env, StepCounter(max_steps=max_steps))


def seed_env(env: Any, seed: int | None) -> None:
    """Seed an environment that has `set_seed` or `seed`.

    Args:
        env: the environment.
        seed: None for not at all.
    """
    if seed is None:
        return
    for name in ("set_seed", "seed"):
        method = getattr(env, name, None)
        if callable(method):
            method(seed)
            return
