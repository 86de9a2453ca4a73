"""Networks and losses whose parameters FSDP shards over processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

from torch import Tensor

__all__ = ["forwarded"]

Named = dict[Any, Any]


def forwarded(module: Any, function: Callable[..., Named]) -> Callable[..., Named]:
    """A function of a module, called as its forward pass where FSDP2 (`fully_shard`) shards its parameters.

    FSDP gathers parameters in forward calls alone, and reduces gradients only of tensors that it finds in their
    results: in dicts, but neither in tensordicts nor in distributions.

    Args:
        module: whose parameters may be sharded.
        function: takes the module and further arguments, and returns a dict.

    Returns:
        The function of the further arguments.
    """
    sharding = sys.modules.get("torch.distributed.fsdp")
    if sharding is None or not isinstance(module, sharding.FSDPModule):
        return MethodType(function, module)
    name = f"_forwarded_{function.__name__}"
    if name not in module.__dict__:
        module.__dict__[name] = MethodType(function, module)
        sharding.register_fsdp_forward_method(module, name)
    found: Callable[..., Named] = getattr(module, name)
    return found


def is_sharded(module: Any) -> bool:
    """Whether FSDP2 shards the parameters of a module."""
    sharding = sys.modules.get("torch.distributed.fsdp")
    return sharding is not None and isinstance(module, sharding.FSDPModule)


def policy_parameters(actor: Any, tensordict: Any) -> dict[Any, Tensor]:
    """What an actor writes until its distribution can be built."""
    before = {id(value) for value in tensordict.values(True, True)}
    written = actor.get_dist_params(tensordict)
    return {key: value for key, value in written.items(True, True) if id(value) not in before}


def written_by(network: Any, tensordict: Any) -> dict[Any, Tensor]:
    """What a network writes."""
    found = network.forward(tensordict)
    return {key: found.get(key) for key in network.out_keys if found.get(key, None) is not None}
