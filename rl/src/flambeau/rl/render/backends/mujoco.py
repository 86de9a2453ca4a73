"""States of MuJoCo's simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from flambeau.data.tensordict import TensorDict, TensorDictBase

__all__ = ["MujocoStateReader"]

_FIELDS = ("qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat", "time")


class MujocoStateReader:
    """Reads the state of a simulation: from `get_state`, of `MujocoEnv`, or from `data`, of gymnasium's environments.

    Example:
        >>> from types import SimpleNamespace
        >>> env = SimpleNamespace(data=SimpleNamespace(qpos=np.array([0.0, 1.0]), time=0.25))
        >>> MujocoStateReader().capture(env)["qpos"].tolist()
        [0.0, 1.0]
    """

    def supports(self, env: Any) -> bool:
        """Whether there is a state to read.

        Args:
            env: the environment.
        """
        inner = _innermost(env)
        return callable(getattr(inner, "get_state", None)) or hasattr(getattr(inner, "data", None), "qpos")

    def capture(self, env: Any) -> TensorDictBase:
        """The state: "qpos", and what there is of "qvel", "act", "ctrl", "mocap_pos", "mocap_quat" and "time".

        Args:
            env: the environment.

        Raises:
            TypeError: there is no state to read.
            KeyError: the state has no "qpos".
        """
        inner = _innermost(env)
        if callable(getattr(inner, "get_state", None)):
            state = inner.get_state()
            if not isinstance(state, TensorDictBase):
                state = TensorDict({key: _copied(value) for key, value in state.items()}, [])
        elif hasattr(getattr(inner, "data", None), "qpos"):
            found = {name: getattr(inner.data, name, None) for name in _FIELDS}
            kept = {name: value for name, value in found.items() if value is not None and np.size(value)}
            state = TensorDict({name: _copied(value) for name, value in kept.items()}, [])
        else:
            raise TypeError(f"{type(env).__name__} has no state of MuJoCo to read: neither get_state() nor data.qpos.")
        if state.get("qpos", None) is None:
            raise KeyError(f"The state of {type(env).__name__} has no 'qpos'; it has {list(state.keys())}.")
        return state.detach().clone()


def _innermost(env: Any) -> Any:
    while True:
        if callable(getattr(env, "get_state", None)) or hasattr(getattr(env, "data", None), "qpos"):
            return env
        places = ("base_env", "_env", "unwrapped")
        inner = next((getattr(env, name, None) for name in places if hasattr(env, name)), None)
        if inner is None or inner is env:
            return env
        env = inner


def _copied(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return torch.tensor(value) if isinstance(value, float) else torch.as_tensor(np.array(value))
