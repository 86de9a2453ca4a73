"""Networks and losses whose parameters FSDP shards over processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from torch import Tensor

__all__ = ["forward_sharded", "forwarded", "is_sharded", "whole"]

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


def whole(tensor: Any) -> Tensor:
    """A tensor whose parts lie in several processes, gathered; all processes have to ask for it. Others as they are."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered


def forward_sharded(loss: Any, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The results of a loss whose parameters FSDP2 shards, so that it gathers them and reduces their gradients.

    FSDP2 takes no scalar parameters, such as a temperature; where it is told to ignore them (`ignored_params`), their
    gradients are averaged over its processes here.

    Args:
        loss: the sharded loss.
        forward: its forward pass.
        *args: what it takes besides the loss.
        **kwargs: the same.
    """
    if "_scalars_reduced" not in loss.__dict__:
        loss.__dict__["_scalars_reduced"] = _reduce_scalars(loss)
    # What was kept of parameters is memory that FSDP gives back between passes.
    loss.__dict__["_cache"] = {}
    found: list[Any] = []

    def results() -> Named:
        found.append(forward(loss, *args, **kwargs))
        return {"tensors": list(_tensors_of(found[0]))}

    loss.__dict__["_forward_with_results"] = results
    forwarded(loss, _forward_noted)()
    return found[0]


def _forward_noted(loss: Any) -> Named:
    noted: Named = loss.__dict__.pop("_forward_with_results")()
    return noted


def _tensors_of(results: Any) -> Iterator[Tensor]:
    if isinstance(results, Tensor):
        yield results
    elif isinstance(results, (tuple, list)):
        for each in results:
            yield from _tensors_of(each)
    elif hasattr(results, "values"):
        yield from (value for value in results.values(True, True) if isinstance(value, Tensor))


def _reduce_scalars(loss: Any) -> list[Any]:
    """Average gradients of scalar parameters over the processes of a sharded loss whenever they are there."""
    from torch import distributed
    from torch.distributed.tensor import DTensor

    loss.reshard()
    meshes = [parameter.device_mesh for parameter in loss.parameters() if isinstance(parameter, DTensor)]
    group = meshes[0].get_group(meshes[0].ndim - 1) if meshes else None

    def average(parameter: Tensor) -> None:
        assert parameter.grad is not None
        distributed.all_reduce(parameter.grad, group=group)
        parameter.grad /= distributed.get_world_size(group)

    scalars = [each for each in loss.parameters() if each.ndim == 0 and not isinstance(each, DTensor)]
    return [each.register_post_accumulate_grad_hook(average) for each in scalars if each.requires_grad]


def policy_parameters(actor: Any, tensordict: Any) -> dict[Any, Tensor]:
    """What an actor writes until its distribution can be built."""
    before = {id(value) for value in tensordict.values(True, True)}
    written = actor.get_dist_params(tensordict)
    return {key: value for key, value in written.items(True, True) if id(value) not in before}


def written_by(network: Any, tensordict: Any) -> dict[Any, Tensor]:
    """What a network writes."""
    found = network.forward(tensordict)
    return {key: found.get(key) for key in network.out_keys if found.get(key, None) is not None}
