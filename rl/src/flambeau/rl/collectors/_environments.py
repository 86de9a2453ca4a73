"""Environments as collectors need them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from flambeau.rl.envs._keys import as_tuple
from flambeau.rl.envs.common import EnvBase


def made(create_env_fn: Any, kwargs: dict[str, Any] | None, name: str) -> EnvBase:
    """The environment that a user gave, or a function that makes it.

    Args:
        create_env_fn: the one or the other, or a list of one.
        kwargs: arguments of the function.
        name: of the collector, for messages.

    Raises:
        TypeError: it is neither, or the function makes something else.
        ValueError: there are several.
        RuntimeError: arguments were given for an environment that is made already.
    """
    if isinstance(create_env_fn, EnvBase):
        if kwargs:
            update: Any = getattr(create_env_fn, "update_kwargs", None)
            if update is not None:
                update(kwargs)
            else:
                raise RuntimeError(
                    f"create_env_kwargs are for a function that makes an environment; {name} got one that is made."
                )
        return create_env_fn
    if isinstance(create_env_fn, Sequence):
        if len(create_env_fn) != 1:
            raise ValueError(
                f"A collector in this process takes one environment; got {len(create_env_fn)}. Give "
                "backend='process' for several processes, or a SerialEnv."
            )
        (create_env_fn,) = create_env_fn
        return made(create_env_fn, kwargs, name)
    if not callable(create_env_fn):
        raise TypeError(f"create_env_fn must be an environment or a function that makes one; got {create_env_fn!r}.")
    make: Callable[..., Any] = create_env_fn
    env = make(**(kwargs or {}))
    if not isinstance(env, EnvBase):
        raise TypeError(f"create_env_fn must make an environment; it returned {type(env).__name__}.")
    return env


def counted(env: EnvBase, max_frames_per_traj: int | None) -> Any:
    """An environment whose episodes are truncated in time.

    Args:
        env: the environment.
        max_frames_per_traj: after so many steps; None, 0 or less for never.

    Raises:
        ValueError: it counts its steps already.
    """
    if max_frames_per_traj is None or max_frames_per_traj <= 0:
        return env
    from flambeau.rl.envs.transforms import StepCounter, TransformedEnv

    if any(as_tuple(key)[-1] == "step_count" for key in env.observation_keys):
        raise ValueError(
            "max_frames_per_traj adds a StepCounter, and the environment counts its steps already, at 'step_count'. "
            "Leave out max_frames_per_traj, and give that counter max_steps."
        )
    return TransformedEnv(env, StepCounter(max_steps=max_frames_per_traj))


def with_transforms_of(policy: Any, env: EnvBase, wanted: bool | None) -> Any:
    """An environment with the transforms that a policy's modules need: marks of first steps, and recurrent states.

    Args:
        policy: any callable.
        env: the environment.
        wanted: add them; None to warn where they lack.
    """
    if wanted is False or not isinstance(policy, nn.Module):
        return env
    makers = [each for each in policy.modules() if hasattr(each, "make_tensordict_primer")]
    needed = {as_tuple(key)[-1] for each in makers for key in getattr(each, "in_keys", [])}
    lacking = needed - {as_tuple(key)[-1] for key in env.observation_keys}
    if not makers or not lacking & ({"is_init"} | {name for name in needed if "recurrent" in name}):
        return env
    if wanted is None:
        warnings.warn(
            f"The policy has recurrent modules, and the environment gives no {sorted(lacking)}. Say "
            "auto_register_policy_transforms=True to add the transforms that do, as torchrl 0.15 will by default; "
            "False to go without them.",
            FutureWarning,
            stacklevel=4,
        )
        return env
    from flambeau.rl.envs.transforms import TransformedEnv
    from flambeau.rl.modules.utils import get_env_transforms_from_module

    return TransformedEnv(env, get_env_transforms_from_module(policy))
