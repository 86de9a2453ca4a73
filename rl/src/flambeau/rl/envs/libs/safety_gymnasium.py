"""Safety-Gymnasium: tasks whose steps have a cost beside the reward."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.rl.data.tensor_specs import Unbounded
from flambeau.rl.envs.gym_like import default_info_dict_reader
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs.gym import GymWrapper

__all__ = ["SafetyGymnasiumEnv", "SafetyGymnasiumWrapper"]

INSTALL = "pip install safety-gymnasium"


def _tasks() -> list[str]:
    import gymnasium

    backend("safety_gymnasium", "SafetyGymnasiumEnv", INSTALL)  # registers them
    return sorted(name for name in gymnasium.registry if name.startswith("Safety"))


def with_cost_in_info(env: Any) -> Any:
    """An environment whose steps give five values, as gymnasium's do, and the cost in the dictionary.

    Raises:
        TypeError: `env` is no environment of gymnasium's kind.
    """
    import gymnasium

    if not isinstance(env, gymnasium.Env):
        raise TypeError(
            f"SafetyGymnasiumWrapper takes a task of Safety-Gymnasium, got {type(env).__name__}; "
            "make one with safety_gymnasium.make."
        )

    class CostInInfo(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            six: Any = self.env.step(action)
            observation, reward, cost, terminated, truncated, info = six
            return observation, reward, terminated, truncated, {**info, "cost": np.float32(cost)}

    return CostInInfo(env)


class SafetyGymnasiumWrapper(GymWrapper):
    """A task of Safety-Gymnasium, which was made already: a `GymWrapper` that writes "cost", (1,), beside the reward.

    Args:
        env: the task.
        kwargs: as for `GymWrapper`.

    References:
        J. Ji et al., Safety Gymnasium: A Unified Safe Reinforcement Learning Benchmark, arXiv:2310.12567.
    """

    git_url = "https://github.com/PKU-Alignment/safety-gymnasium"
    libname = "safety_gymnasium"
    available_envs = Available("safety_gymnasium", _tasks)

    def __init__(self, env: Any = None, **kwargs: Any) -> None:
        super().__init__(with_cost_in_info(env), **kwargs)
        cost = Unbounded((1,), device=self.device)
        self.set_info_dict_reader(default_info_dict_reader(["cost"], spec={"cost": cost}))


class SafetyGymnasiumEnv(SafetyGymnasiumWrapper):
    """A task of Safety-Gymnasium by its name.

    Args:
        env_name: such as "SafetyPointGoal1-v0".
        kwargs: as for `GymWrapper`, and all others for the task.

    Raises:
        ImportError: Safety-Gymnasium is not installed.
    """

    def __init__(self, env_name: str, **kwargs: Any) -> None:
        names = ("categorical_action_encoding", "frame_skip", "from_pixels", "pixels_only", "device", "spec_locked")
        own = {key: kwargs.pop(key) for key in names if key in kwargs}
        if own.get("from_pixels"):
            kwargs.setdefault("render_mode", "rgb_array")
        library = backend("safety_gymnasium", type(self).__name__, INSTALL)
        self.__dict__["env_name"] = env_name
        super().__init__(library.make(env_name, **kwargs), **own)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("safety_gymnasium", type(self).__name__, INSTALL)
