"""Plans by hand: which way each table of a module is sharded, and on which devices.

::

    plan = construct_module_sharding_plan(
        collection,
        per_param_sharding={"users": row_wise(), "items": table_wise(rank=1), "shops": data_parallel()},
        sharder=EmbeddingBagCollectionSharder(),
        local_size=2, world_size=2, device_type="cuda",
    )
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharding_spec.api import EnumerableShardingSpec

from flambeau.rec.distributed.comm import get_local_size
from flambeau.rec.distributed.embedding_types import EmbeddingComputeKernel
from flambeau.rec.distributed.planner._shard_layouts import runs_of_shards, shards_of_runs
from flambeau.rec.distributed.planner.constants import MIN_CW_DIM
from flambeau.rec.distributed.planner.utils import placement
from flambeau.rec.distributed.types import (
    EmbeddingModuleShardingPlan,
    ModuleSharder,
    ParameterSharding,
    ShardingType,
)
from flambeau.rec.errors import OptionError

__all__ = [
    "MIN_CW_DIM",
    "apply_to_all",
    "calculate_shard_sizes_and_offsets",
    "column_wise",
    "construct_module_sharding_plan",
    "data_parallel",
    "get_default_sharders",
    "get_module_to_default_sharders",
    "get_sharding_constructor_from_type",
    "grid_shard",
    "placement",
    "placement_helper",
    "row_wise",
    "table_row_wise",
    "table_wise",
]

ParameterShardingGenerator = Callable[
    [nn.Parameter, int, int, str, ModuleSharder[nn.Module]],
    ParameterSharding,
]
"""From a parameter, the devices of a host, all devices, their kind, and the sharder: how the parameter is sharded."""

Sharder = ModuleSharder[nn.Module]


def get_default_sharders() -> list[Sharder]:
    """A sharder for each kind of module that can be sharded."""
    # Here, as all sharded modules come with them.
    from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
    from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from flambeau.rec.distributed.fused_embedding import FusedEmbeddingCollectionSharder
    from flambeau.rec.distributed.fused_embeddingbag import FusedEmbeddingBagCollectionSharder

    sharders: list[Any] = [
        EmbeddingBagCollectionSharder(),
        FusedEmbeddingBagCollectionSharder(),
        EmbeddingCollectionSharder(),
        FusedEmbeddingCollectionSharder(),
    ]
    return sharders


def get_module_to_default_sharders() -> dict[type[nn.Module], Sharder]:
    """The same by the class of modules that they shard."""
    return {sharder.module_type: sharder for sharder in get_default_sharders()}


def calculate_shard_sizes_and_offsets(
    tensor: Tensor,
    world_size: int,
    local_world_size: int,
    sharding_type: str,
    col_wise_shard_dim: int | None = None,
    device_memory_sizes: list[int] | None = None,
    num_buckets: int | None = None,
) -> tuple[list[list[int]], list[list[int]]]:
    """The shards of a table.

    Args:
        tensor: (rows, columns); only its shape is looked at.
        world_size: devices.
        local_world_size: devices of a host.
        sharding_type: a value of `ShardingType`.
        col_wise_shard_dim: columns that a shard of some columns has at least; 128 by default.
        device_memory_sizes: bytes of each device, in proportion to which rows are spread over them.
        num_buckets: rows are spread by buckets, of which there are so many.

    Returns:
        Of each shard its rows and columns, and its first row and column.

    Raises:
        ValueError: the sharding type is none of these.

    Example:
        >>> calculate_shard_sizes_and_offsets(torch.empty(5, 8), 2, 2, "row_wise")
        ([[3, 8], [2, 8]], [[0, 0], [3, 0]])
    """
    rows, columns = tensor.shape
    return shards_of_runs(
        runs_of_shards(
            rows,
            columns,
            world_size,
            local_world_size,
            sharding_type,
            col_wise_shard_dim,
            device_memory_sizes,
            num_buckets,
        )
    )


def placement_helper(device_type: str, index: int = 0, rank: int = 0) -> str:
    """A device as sharding specifications name it: of a kind, its number on the host, and the rank of its process."""
    return f"rank:{rank}/{device_type}" if device_type == "cpu" else f"rank:{rank}/{device_type}:{index}"


def data_parallel() -> ParameterShardingGenerator:
    """Every device has the whole table."""

    def generate(
        param: nn.Parameter, local_size: int, world_size: int, device_type: str, sharder: Sharder
    ) -> ParameterSharding:
        kind = ShardingType.DATA_PARALLEL.value
        kernel = _kernel(param, kind, device_type, sharder)
        return ParameterSharding(sharding_type=kind, compute_kernel=kernel, ranks=list(range(world_size)))

    return generate


def table_wise(rank: int, device: str | None = None, compute_kernel: str | None = None) -> ParameterShardingGenerator:
    """One device has the whole table.

    Args:
        rank: of its process.
        device: its kind, where that is another than the others'.
        compute_kernel: a value of `EmbeddingComputeKernel`; by default "dense", or "fused" for tables that have an
            optimizer.
    """

    def generate(
        param: nn.Parameter, local_size: int, world_size: int, device_type: str, sharder: Sharder
    ) -> ParameterSharding:
        kind = ShardingType.TABLE_WISE.value
        _check_rank(rank, world_size, "rank")
        placements = None if device is None else [placement_helper(device, rank % local_size, rank)]
        shards = calculate_shard_sizes_and_offsets(param, world_size, local_size, kind)
        return _sharding(param, kind, shards, [rank], local_size, device_type, sharder, placements, compute_kernel)

    return generate


def row_wise(
    sizes_placement: tuple[list[int], str | list[str]] | None = None,
    compute_kernel: str | None = None,
    num_buckets: int | None = None,
) -> ParameterShardingGenerator:
    """Every device has some rows: as many as the others, or as is said.

    Args:
        sizes_placement: rows of each device, and their kind or kinds.
        compute_kernel: a value of `EmbeddingComputeKernel`; by default "dense", or "fused" for tables that have an
            optimizer.
        num_buckets: rows are spread by buckets, of which there are so many.
    """

    def generate(
        param: nn.Parameter, local_size: int, world_size: int, device_type: str, sharder: Sharder
    ) -> ParameterSharding:
        kind = ShardingType.ROW_WISE.value
        placements = None
        if sizes_placement is None:
            shards = calculate_shard_sizes_and_offsets(param, world_size, local_size, kind, num_buckets=num_buckets)
            ranks = list(range(world_size))
        else:
            rows, kinds = sizes_placement
            if sum(rows) != param.shape[0]:
                raise OptionError(
                    f"sizes_placement has {sum(rows)} rows for a table of {param.shape[0]}; give rows that add up."
                )
            firsts = [sum(rows[:number]) for number in range(len(rows))]
            shards = ([[count, param.shape[1]] for count in rows], [[first, 0] for first in firsts])
            ranks = list(range(len(rows)))
            if isinstance(kinds, str):
                kinds = [kinds] * len(rows)
            placements = [placement_helper(name, rank % local_size, rank) for rank, name in enumerate(kinds)]
        return _sharding(param, kind, shards, ranks, local_size, device_type, sharder, placements, compute_kernel)

    return generate


def column_wise(
    ranks: list[int] | None = None,
    size_per_rank: list[int] | None = None,
    compute_kernel: str | None = None,
    device_types: list[str] | None = None,
) -> ParameterShardingGenerator:
    """Some devices have some columns: as many as the others, or as is said.

    Args:
        ranks: of their processes; the first ones by default. May repeat.
        size_per_rank: columns of each.
        compute_kernel: a value of `EmbeddingComputeKernel`; by default "dense", or "fused" for tables that have an
            optimizer.
        device_types: their kinds, where they are others than the others'.

    Raises:
        OptionError: when a table is sharded: its columns cannot be divided so.
    """
    if ranks is None and size_per_rank is None:
        raise OptionError("ranks and size_per_rank are None; give the devices, or the columns of each.")

    def generate(
        param: nn.Parameter, local_size: int, world_size: int, device_type: str, sharder: Sharder
    ) -> ParameterSharding:
        kind = ShardingType.COLUMN_WISE.value
        rows, columns = param.shape
        chosen = list(range(len(size_per_rank or ()))) if ranks is None else ranks
        for rank in chosen:
            _check_rank(rank, world_size, "ranks")
        if size_per_rank is None:
            width, rest = divmod(columns, len(chosen))
            if rest:
                raise OptionError(
                    f"ranks has {len(chosen)} devices, among which {columns} columns cannot be divided equally; "
                    "give size_per_rank."
                )
            widths = [width] * len(chosen)
        else:
            widths = size_per_rank
        if len(widths) != len(chosen) or sum(widths) != columns:
            raise OptionError(
                f"size_per_rank is {widths} for {len(chosen)} devices and {columns} columns; give a number of columns "
                "for each device, which add up."
            )
        firsts = [sum(widths[:number]) for number in range(len(widths))]
        shards = ([[rows, width] for width in widths], [[0, first] for first in firsts])
        placements = None
        if device_types is not None:
            placements = [
                placement_helper(name, rank % local_size, rank) for rank, name in zip(chosen, device_types, strict=True)
            ]
        return _sharding(param, kind, shards, chosen, local_size, device_type, sharder, placements, compute_kernel)

    return generate


def table_row_wise(host_index: int) -> ParameterShardingGenerator:
    """Every device of one host has some rows.

    Args:
        host_index: of the host.
    """

    def generate(
        param: nn.Parameter, local_size: int, world_size: int, device_type: str, sharder: Sharder
    ) -> ParameterSharding:
        kind = ShardingType.TABLE_ROW_WISE.value
        shards = calculate_shard_sizes_and_offsets(param, world_size, local_size, kind)
        ranks = _of_host(host_index, local_size, world_size, "host_index")
        return _sharding(param, kind, shards, ranks, local_size, device_type, sharder)

    return generate


def grid_shard(host_indexes: list[int]) -> ParameterShardingGenerator:
    """Some hosts have some columns, and every device of them some rows of these.

    Args:
        host_indexes: of the hosts.
    """

    def generate(
        param: nn.Parameter, local_size: int, world_size: int, device_type: str, sharder: Sharder
    ) -> ParameterSharding:
        kind = ShardingType.GRID_SHARD.value
        rows, columns = param.shape
        width, rest = divmod(columns, len(host_indexes))
        if rest:
            raise OptionError(
                f"host_indexes has {len(host_indexes)} hosts, among which {columns} columns cannot be divided equally."
            )
        sizes, offsets, ranks = [], [], []
        for number, host in enumerate(host_indexes):
            of_host = runs_of_shards(rows, width, world_size, local_size, ShardingType.TABLE_ROW_WISE.value)
            some_sizes, some_offsets = shards_of_runs(of_host)
            sizes += some_sizes
            offsets += [[first, number * width] for first, _ in some_offsets]
            ranks += _of_host(host, local_size, world_size, "host_indexes")
        return _sharding(param, kind, (sizes, offsets), ranks, local_size, device_type, sharder)

    return generate


def get_sharding_constructor_from_type(sharding_type: ShardingType) -> Callable[..., ParameterShardingGenerator]:
    """The function of this module that shards in a way.

    Raises:
        ValueError: there is none for it.
    """
    constructors: dict[ShardingType, Callable[..., ParameterShardingGenerator]] = {
        ShardingType.DATA_PARALLEL: data_parallel,
        ShardingType.TABLE_WISE: table_wise,
        ShardingType.COLUMN_WISE: column_wise,
        ShardingType.ROW_WISE: row_wise,
        ShardingType.TABLE_ROW_WISE: table_row_wise,
        ShardingType.GRID_SHARD: grid_shard,
    }
    if sharding_type not in constructors:
        known = ", ".join(kind.name for kind in constructors)
        raise ValueError(f"sharding_type is {sharding_type}, but tables are sharded by hand by one of {known}.")
    return constructors[sharding_type]


def apply_to_all(
    module: nn.Module,
    parameter_sharding_generator: ParameterShardingGenerator,
    sharder: Sharder | None = None,
) -> dict[str, ParameterShardingGenerator]:
    """The same way for every table of a module.

    Args:
        module: the module.
        parameter_sharding_generator: the way.
        sharder: says what its tables are; the one for its class by default.
    """
    return dict.fromkeys(_sharder_of(module, sharder).shardable_parameters(module), parameter_sharding_generator)


def construct_module_sharding_plan(
    module: nn.Module,
    per_param_sharding: dict[str, ParameterShardingGenerator],
    sharder: Sharder | None = None,
    local_size: int | None = None,
    world_size: int | None = None,
    device_type: str | None = None,
) -> EmbeddingModuleShardingPlan:
    """The plan of a module from ways for each of its tables.

    Args:
        module: the module.
        per_param_sharding: of each table, by name, what a function of this module gave.
        sharder: of the module; the one for its class by default.
        local_size: devices of a host; those of this one by default.
        world_size: devices; those of the process group by default.
        device_type: their kind; "cuda" where there is some, else "cpu", by default.

    Raises:
        OptionError: a table is lacking or unknown, or its sharder does not offer the way.
    """
    if device_type is None:
        device_type = "cuda" if torch.cuda.is_available() else "cpu"
    sharder = _sharder_of(module, sharder)
    parameters = sharder.shardable_parameters(module)
    if parameters.keys() != per_param_sharding.keys():
        raise OptionError(
            f"per_param_sharding has {sorted(per_param_sharding)}, but the tables of the module are "
            f"{sorted(parameters)}; give a way for each."
        )
    if local_size is None:
        local_size = get_local_size()
    if world_size is None:
        world_size = dist.get_world_size()
    plan = EmbeddingModuleShardingPlan()
    for name, generate in per_param_sharding.items():
        sharding = generate(parameters[name], local_size, world_size, device_type, sharder)
        offered = sharder.sharding_types(device_type)
        if sharding.sharding_type not in offered:
            raise OptionError(
                f"per_param_sharding[{name!r}] is {sharding.sharding_type}, but {type(sharder).__name__} offers on "
                f"{device_type} only {', '.join(offered)}."
            )
        plan[name] = sharding
    return plan


def _sharder_of(module: nn.Module, sharder: Sharder | None) -> Sharder:
    if sharder is None:
        sharder = get_module_to_default_sharders().get(type(module))
        if sharder is None:
            raise OptionError(f"There is no sharder for {type(module).__name__}; give sharder.")
    if not isinstance(module, sharder.module_type):
        raise OptionError(
            f"sharder is a {type(sharder).__name__}, for {sharder.module_type.__name__}, but the module is a "
            f"{type(module).__name__}."
        )
    return sharder


def _check_rank(rank: int, world_size: int, argument: str) -> None:
    if not 0 <= rank < world_size:
        raise OptionError(f"{argument} has {rank}, but ranks are from 0 to {world_size - 1}.")


def _of_host(host: int, local_size: int, world_size: int, argument: str) -> list[int]:
    if not 0 <= host < max(world_size // local_size, 1):
        raise OptionError(f"{argument} has {host}, but there are {max(world_size // local_size, 1)} hosts.")
    return list(range(host * local_size, (host + 1) * local_size))


def _kernel(param: nn.Parameter, sharding_type: str, device_type: str, sharder: Sharder) -> str:
    """The kernel of a table: fused with its optimizer if it has one, and not every device has the table; else dense."""
    trained = getattr(param, "_in_backward_optimizers", None) or getattr(param, "_optimizer_classes", None)
    if trained and sharding_type != ShardingType.DATA_PARALLEL.value:
        return EmbeddingComputeKernel.FUSED.value
    quantized = EmbeddingComputeKernel.QUANT.value
    offered = sharder.compute_kernels(sharding_type, device_type)
    return quantized if quantized in offered else EmbeddingComputeKernel.DENSE.value


def _sharding(
    param: nn.Parameter,
    sharding_type: str,
    shards: tuple[Sequence[list[int]], Sequence[list[int]]],
    ranks: list[int],
    local_size: int,
    device_type: str,
    sharder: Sharder,
    placements: list[str] | None = None,
    compute_kernel: str | None = None,
) -> ParameterSharding:
    if placements is None:
        placements = [placement(device_type, rank, local_size) for rank in ranks]
    metadata = [
        ShardMetadata(shard_offsets=offset, shard_sizes=size, placement=place)
        for size, offset, place in zip(*shards, placements, strict=True)
    ]
    return ParameterSharding(
        sharding_type=sharding_type,
        compute_kernel=compute_kernel or _kernel(param, sharding_type, device_type, sharder),
        ranks=ranks,
        sharding_spec=EnumerableShardingSpec(metadata),
    )
