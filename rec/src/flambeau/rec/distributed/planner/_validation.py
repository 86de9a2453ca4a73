"""Whether a plan can be carried out."""

from __future__ import annotations

from torch import nn
from torch.distributed._shard.sharding_spec.api import EnumerableShardingSpec

from flambeau.rec.distributed.embedding_types import EmbeddingComputeKernel
from flambeau.rec.distributed.planner.types import (
    ParameterConstraints,
    PlannerError,
    PlannerErrorType,
    ShardingOption,
    Topology,
)
from flambeau.rec.distributed.planner.utils import sharder_name
from flambeau.rec.distributed.types import EmbeddingModuleShardingPlan, ModuleSharder, ShardingPlan, ShardingType

__all__ = [
    "validate_compute_kernels",
    "validate_modules_inclusion_in_sharding_plan",
    "validate_rank_assignment",
]

_KERNELS = frozenset(kernel.value for kernel in EmbeddingComputeKernel)


def validate_compute_kernels(best_plan: list[ShardingOption]) -> None:
    """Refuse kernels that there are not, and `dense` ones for tables that not every device has.

    Args:
        best_plan: the options of a plan.

    Raises:
        PlannerError: with all such tables.
    """
    faults = []
    for option in best_plan:
        if option.compute_kernel not in _KERNELS:
            faults.append(f"{option.fqn} has the unknown kernel {option.compute_kernel!r}")
        elif (
            option.compute_kernel == EmbeddingComputeKernel.DENSE.value
            and option.sharding_type != ShardingType.DATA_PARALLEL.value
        ):
            faults.append(f"{option.fqn} is {option.sharding_type}, which the kernel 'dense' cannot train; use 'fused'")
    if faults:
        raise PlannerError(
            f"The plan cannot be computed: {'; '.join(faults)}.", PlannerErrorType.INVALID_COMPUTE_KERNEL
        )


def validate_rank_assignment(sharding_plan: ShardingPlan, topology: Topology) -> None:
    """Refuse shards on devices that there are not.

    Args:
        sharding_plan: the plan.
        topology: the devices.

    Raises:
        PlannerError: with the first such shard.
    """
    for path, module_plan in sharding_plan.plan.items():
        if not isinstance(module_plan, EmbeddingModuleShardingPlan):
            continue
        for name, sharding in module_plan.items():
            ranks: list[int | None] = list(sharding.ranks or ())
            if isinstance(sharding.sharding_spec, EnumerableShardingSpec):
                ranks += [_rank(shard.placement) for shard in sharding.sharding_spec.shards]
            for rank in ranks:
                if rank is None or not 0 <= rank < topology.world_size:
                    raise PlannerError(
                        f"A shard of {path}.{name} is on rank {rank}, but ranks are from 0 to "
                        f"{topology.world_size - 1}; plan for these devices.",
                        PlannerErrorType.INVALID_RANK_ASSIGNMENT,
                    )


def _rank(placement: object) -> int | None:
    """Of a placement such as "rank:1/cuda:1", without asking a process group as torch's own method does."""
    rank = getattr(placement, "_rank", None)
    return rank if isinstance(rank, int) else None


def validate_modules_inclusion_in_sharding_plan(
    sharding_plan: ShardingPlan,
    module: nn.Module,
    sharders: list[ModuleSharder[nn.Module]],
    constraints: dict[str, ParameterConstraints] | None = None,
    device_group: str | None = None,
) -> None:
    """Refuse a plan without a module that can be sharded.

    Args:
        sharding_plan: the plan.
        module: the model.
        sharders: say which of its modules can be sharded.
        constraints: what users allow and know, by table.
        device_group: only tables on this kind of device count.

    Raises:
        PlannerError: with all modules that are missing.
    """
    by_class = {sharder_name(sharder.module_type): sharder for sharder in sharders}
    missing = []
    waiting = [("", module)]
    while waiting:
        path, part = waiting.pop(0)
        sharder = by_class.get(sharder_name(type(part)))
        if sharder is None:
            prefix = f"{path}." if path else ""
            waiting += [(prefix + name, child) for name, child in part.named_children()]
            continue
        names = [
            name
            for name in sharder.shardable_parameters(part)
            if device_group is None or _group(name, constraints) == device_group
        ]
        if names and path not in sharding_plan.plan:
            missing.append(path)
    if missing:
        raise PlannerError(
            f"The plan has nothing for {', '.join(map(repr, missing))}, which can be sharded; plan for all of it.",
            PlannerErrorType.MISSING_MODULE_IN_PLAN,
        )


def _group(name: str, constraints: dict[str, ParameterConstraints] | None) -> str | None:
    constraint = (constraints or {}).get(name)
    return constraint.device_group if constraint is not None else None
