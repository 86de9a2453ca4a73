"""Spread a module, or all modules in a model, over processes, and leave the rest of the model as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.distributed.model_parallel import DistributedModelParallel, get_module
from flambeau.rec.distributed.types import ModuleSharder, ModuleShardingPlan, ShardingEnv, ShardingPlan
from flambeau.rec.distributed.utils import init_parameters
from flambeau.rec.errors import OptionError

__all__ = ["shard", "shard_modules"]


def _environment(env: ShardingEnv | None) -> ShardingEnv:
    if env is not None:
        return env
    pg = dist.group.WORLD if dist.is_initialized() else None
    if pg is None:
        raise OptionError(
            "there is no default process group to spread the module over; call torch.distributed.init_process_group, "
            "or give env."
        )
    return ShardingEnv.from_process_group(pg)


def _device(device: torch.device | None, env: ShardingEnv) -> torch.device:
    if device is not None:
        return torch.device(device)
    on_gpu = env.process_group is not None and dist.get_backend(env.process_group) == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def shard(
    module: nn.Module,
    plan: ModuleShardingPlan | dict[str, Callable[..., Any]] | Callable[..., Any],
    env: ShardingEnv | None = None,
    device: torch.device | None = None,
    sharder: ModuleSharder[nn.Module] | None = None,
) -> nn.Module:
    """The sharded form of a module.

    Args:
        module: such as an `EmbeddingBagCollection`.
        plan: where its tables go: a plan; or, of each table or for all of them, what makes the plan of a table, such as
            `sharding_plan.row_wise()`.
        env: the processes; those of the default group by default.
        device: of this process; that of the group's backend by default.
        sharder: for modules of this class; the default one by default.

    Returns:
        The sharded module; its parameters are `TableBatchedEmbeddingSlice`s.

    Raises:
        OptionError: there is no process group, or no sharder for the module.
    """
    from flambeau.rec.distributed.sharding_plan import (
        apply_to_all,
        construct_module_sharding_plan,
        get_module_to_default_sharders,
    )

    torch._C._log_api_usage_once("flambeau.rec.distributed.shard")
    env = _environment(env)
    device = _device(device, env)
    if sharder is None:
        sharder = get_module_to_default_sharders().get(type(module))
        if sharder is None:
            raise OptionError(f"there is no sharder for {type(module).__name__}; give one.")
    if not isinstance(plan, ModuleShardingPlan):
        per_table = plan if isinstance(plan, dict) else apply_to_all(module, plan, sharder)
        plan = construct_module_sharding_plan(
            module,
            per_table,
            sharder=sharder,
            local_size=min(get_local_size(env.world_size), env.world_size),
            world_size=env.world_size,
            device_type=device.type,
        )
    return sharder.shard(module, plan, env, device)  # type: ignore[arg-type]


def shard_modules(
    module: nn.Module,
    env: ShardingEnv | None = None,
    device: torch.device | None = None,
    plan: ShardingPlan | None = None,
    sharders: list[ModuleSharder[nn.Module]] | None = None,
    init_params: bool = False,
) -> nn.Module:
    """Replace all modules of a model that can be spread by their sharded forms.

    Args:
        module: the model, changed in place.
        env: the processes; those of the default group by default.
        device: of this process; that of the group's backend by default.
        plan: where tables go; made by an `EmbeddingShardingPlanner` by default.
        sharders: for each class of modules; the default ones by default.
        init_params: whether to fill what is on the meta device.

    Returns:
        The model, or its sharded form where it is itself such a module.

    Raises:
        OptionError: there is no process group.
    """
    torch._C._log_api_usage_once("flambeau.rec.distributed.shard_modules")
    env = _environment(env)
    device = _device(device, env)
    wrapped = DistributedModelParallel(
        module, env, device, plan, sharders, init_data_parallel=False, init_parameters=False
    )
    made = get_module(wrapped)
    if init_params:
        init_parameters(made, device)
    return made
