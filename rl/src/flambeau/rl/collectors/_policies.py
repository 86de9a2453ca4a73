"""Policies as collectors call them: with a tensordict, which they write actions into."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import TensorDictModule, TensorDictModuleBase
from flambeau.rl.envs._keys import as_tuple
from flambeau.rl.modules.tensordict_module.exploration import RandomPolicy, set_exploration_modules_spec_from_env


def called_with_tensordicts(policy: Any, env: Any, trust: bool | None) -> Any:
    """A policy that takes a tensordict, from what a user gave.

    Args:
        policy: None for random actions; a module of tensordicts, or a function of one; any other function or module is
            called with observations, by the names of its arguments, and what it returns are the actions.
        env: what it is for.
        trust: take it as it is.

    Raises:
        TypeError: its arguments are no observations.
    """
    if policy is None:
        return RandomPolicy(env.full_action_spec)
    if not callable(policy):
        raise TypeError(f"A policy must be callable; got {type(policy).__name__}.")
    if isinstance(policy, nn.Module):
        set_exploration_modules_spec_from_env(policy, env)
    if trust or isinstance(policy, (TensorDictModuleBase, RandomPolicy)):
        return policy
    forward = policy.forward if isinstance(policy, nn.Module) else policy
    try:
        parameters = inspect.signature(forward).parameters
    except (TypeError, ValueError):  # built-in functions have none
        return policy
    if _takes_a_tensordict(parameters):
        return policy
    named = {as_tuple(key)[-1]: key for key in env.observation_keys}
    needed = [name for name, each in parameters.items() if each.default is each.empty]
    unknown = [name for name in needed if name not in named]
    if unknown or not needed:
        raise TypeError(
            f"The policy takes {list(parameters)}, the environment observes {list(env.observation_keys)}. Name its "
            "arguments like observations, or let it take one argument `tensordict`; trust_policy=True calls it with a "
            "tensordict whatever it takes."
        )
    taken = [named[name] for name in parameters if name in named]
    return TensorDictModule(policy, in_keys=taken, out_keys=list(env.action_keys))


def _takes_a_tensordict(parameters: Any) -> bool:
    needed = [each for each in parameters.values() if each.default is each.empty] or list(parameters.values())
    if len(needed) != 1:
        return False
    (only,) = needed
    if only.kind is only.VAR_POSITIONAL or only.name in ("tensordict", "td"):
        return True
    kind = only.annotation
    if isinstance(kind, str):
        return kind.rpartition(".")[2] in ("TensorDict", "TensorDictBase")
    return isinstance(kind, type) and issubclass(kind, TensorDictBase)


def on_device(policy: Any, device: torch.device | None) -> tuple[Any, bool]:
    """A policy with its parameters on a device, and whether that is a copy.

    Args:
        policy: any callable.
        device: None for where it is.
    """
    if device is None or not isinstance(policy, nn.Module):
        return policy, False
    tensors = [*policy.parameters(), *policy.buffers()]
    if all(_same(each.device, device) for each in tensors):
        return policy, False
    return copy.deepcopy(policy).to(device), True


def _same(one: torch.device, other: torch.device) -> bool:
    return one.type == other.type and (one.index or 0) == (other.index or 0)


def compiled(policy: Callable[..., Any], compile_policy: Any, cudagraph_policy: Any) -> Callable[..., Any]:
    """A policy that is compiled, and recorded as a CUDA graph, as far as that was asked for.

    Args:
        policy: what is called.
        compile_policy: True, or arguments of `torch.compile`.
        cudagraph_policy: True, or arguments of `CudaGraphModule`.
    """
    if compile_policy:
        from flambeau.rl._utils import compile_with_warmup

        policy = compile_with_warmup(policy, **({"warmup": 1} | _options(compile_policy)))
    if cudagraph_policy:
        from flambeau.data.tensordict.nn import CudaGraphModule

        policy = CudaGraphModule(policy, **_options(cudagraph_policy))
    return policy


def _options(given: Any) -> dict[str, Any]:
    return {} if given is True else dict(given)
