"""Environments by their names: several at once, in tensor code where there is some, else by gymnasium."""

from __future__ import annotations

import importlib.util
from typing import Any

from flambeau.core.errors import FlambeauError, close_names
from flambeau.rl.envs import SerialEnv, TransformedEnv
from flambeau.rl.envs.custom.classic_control import AcrobotEnv, CartPoleEnv, MountainCarContinuousEnv, MountainCarEnv
from flambeau.rl.envs.custom.gym_pendulum import GymPendulumEnv
from flambeau.rl.envs.transforms import CatTensors, DoubleToFloat, RewardSum, StepCounter

__all__ = ["NATIVE", "UnknownEnvironmentError", "is_native", "make_env"]

NATIVE: dict[str, Any] = {
    "Acrobot-v1": AcrobotEnv,
    "CartPole-v1": CartPoleEnv,
    "MountainCar-v0": MountainCarEnv,
    "MountainCarContinuous-v0": MountainCarContinuousEnv,
    "Pendulum-v1": GymPendulumEnv,
}
"""Those that are written here, which run thousands at once."""


class UnknownEnvironmentError(FlambeauError, KeyError):
    """There is no environment of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


def is_native(env_id: str) -> bool:
    """Whether an environment is written in tensor code."""
    return env_id in NATIVE


def make_env(env_id: str, count: int, seed: int, *, device: Any = None) -> Any:
    """Several environments as one, (count,), with observations at "observation", and sums at "episode_reward".

    Args:
        env_id: the name that gymnasium has for it.
        count: how many.
        seed: of the first; the others have those that follow it.
        device: of observations and actions.

    Raises:
        UnknownEnvironmentError: there is none of that name.
    """
    if is_native(env_id):
        env = TransformedEnv(NATIVE[env_id]([count], seed=seed, device=device), RewardSum())
    else:
        env = _gym(env_id, count, device)
        env.set_seed(seed)
    return env


def _gym(env_id: str, count: int, device: Any) -> Any:
    if importlib.util.find_spec("gymnasium") is None:
        raise UnknownEnvironmentError(
            f"{env_id!r} is none of {', '.join(NATIVE)}, and gymnasium, which may have it, is not installed. "
            "Run: pip install 'flambeau-rl[gym]'"
        )
    import gymnasium

    from flambeau.rl.envs import GymEnv

    if env_id not in gymnasium.registry:
        near = close_names(env_id, [*NATIVE, *gymnasium.registry])
        hint = f" Close names: {', '.join(near)}." if near else ""
        raise UnknownEnvironmentError(f"gymnasium knows no environment {env_id!r}.{hint}")
    env = TransformedEnv(SerialEnv(count, lambda: GymEnv(env_id), device=device))
    keys = sorted(str(key) for key in list(env.observation_spec.keys()))
    if keys != ["observation"]:
        env.append_transform(CatTensors(in_keys=keys, out_key="observation"))
    env.append_transform(DoubleToFloat())
    env.append_transform(StepCounter())
    env.append_transform(RewardSum())
    return env
