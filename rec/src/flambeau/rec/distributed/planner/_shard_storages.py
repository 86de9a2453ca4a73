"""How much memory shards take: their rows, what optimizers keep of them, and what a batch needs."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from flambeau.rec.distributed.embedding_types import EmbeddingComputeKernel
from flambeau.rec.distributed.planner._costs import Storage
from flambeau.rec.distributed.planner._interfaces import SharderData
from flambeau.rec.distributed.planner.constants import KV_CACHING_RATIO
from flambeau.rec.distributed.types import (
    KeyValueParams,
    ParameterStorage,
    PipelineType,
    ShardingType,
    compute_storage_usage,
)

__all__ = ["batch_bytes", "calculate_pipeline_io_cost", "calculate_shard_storages"]

_CACHED = frozenset({EmbeddingComputeKernel.FUSED_UVM_CACHING.value, EmbeddingComputeKernel.QUANT_UVM_CACHING.value})
_VIRTUAL = frozenset(
    {
        EmbeddingComputeKernel.SSD_VIRTUAL_TABLE.value,
        EmbeddingComputeKernel.DRAM_VIRTUAL_TABLE.value,
        EmbeddingComputeKernel.DRAM_SSD_VIRTUAL_TABLE.value,
    }
)
_STORED = _VIRTUAL | {EmbeddingComputeKernel.KEY_VALUE.value}

# Numbers that an optimizer keeps for each of a table's; of classes that are not listed, one.
_KEPT_BY_OPTIMIZER = {"SGD": 0.0, "Adam": 2.0}

# Of a cache: bytes for each row of the table, and of the cache.
_CACHE_BYTES_PER_TABLE_ROW = 4
_CACHE_BYTES_PER_CACHED_ROW = 16


def calculate_pipeline_io_cost(
    input_size: int,
    output_size: int,
    prefetch_size: int,
    pipeline_type: PipelineType,
    multipass_prefetch_max_pass: int | None,
    count_ephemeral_storage_cost: bool = False,
    is_inference: bool = False,
) -> int:
    """Memory of a shard for inputs and outputs of the batches that a pipeline has at a time.

    Args:
        input_size: bytes of the ids of a batch.
        output_size: bytes of what they become.
        prefetch_size: bytes of ids for which rows are fetched into a cache.
        pipeline_type: what is overlapped.
        multipass_prefetch_max_pass: passes in which rows are fetched; 1 by default.
        count_ephemeral_storage_cost: whether outputs count although they are gone when memory is scarcest.
        is_inference: whether nothing is trained; then nothing counts.
    """
    if is_inference:
        return 0
    outputs = output_size if count_ephemeral_storage_cost else 0
    if pipeline_type == PipelineType.TRAIN_SPARSE_DIST:
        return 2 * input_size + outputs
    if pipeline_type == PipelineType.TRAIN_PREFETCH_SPARSE_DIST:
        passes = multipass_prefetch_max_pass or 1
        return 3 * input_size + int((1 + 6 / passes) * prefetch_size) + outputs
    return input_size + output_size


def calculate_shard_storages(
    sharder_data: SharderData,
    sharding_type: str,
    tensor: Tensor,
    compute_device: str,
    compute_kernel: str,
    shard_sizes: list[list[int]],
    batch_sizes: list[int],
    world_size: int,
    local_world_size: int,
    input_lengths: list[float],
    num_poolings: list[float],
    caching_ratio: float,
    is_pooled: bool,
    input_data_type_size: float,
    output_data_type_size: float,
    pipeline_type: PipelineType = PipelineType.NONE,
    count_ephemeral_storage_cost: bool = False,
    is_inference: bool = False,
    multipass_prefetch_max_pass: int | None = None,
    key_value_params: KeyValueParams | None = None,
    kv_cache_load_factor: float = KV_CACHING_RATIO,
    use_virtual_table: bool = False,
) -> list[Storage]:
    """Memory of the shards of a table.

    Args:
        sharder_data: what is known of the sharder.
        sharding_type: a value of `ShardingType`.
        tensor: the table's weights; only shape, type and optimizer are looked at.
        compute_device: "cuda", "cpu" or "mtia".
        compute_kernel: a value of `EmbeddingComputeKernel`.
        shard_sizes: rows and columns of each shard.
        batch_sizes: examples of each process, for each feature.
        world_size: devices.
        local_world_size: devices of a host.
        input_lengths: ids in a bag, for each feature.
        num_poolings: bags of an example, for each feature.
        caching_ratio: rows of a cache on the device, as a share of the table's.
        is_pooled: whether bags are pooled.
        input_data_type_size: bytes of an id.
        output_data_type_size: bytes of a number that is looked up.
        pipeline_type: what is overlapped.
        count_ephemeral_storage_cost: see `calculate_pipeline_io_cost`, as of the next two.
        is_inference: whether nothing is trained.
        multipass_prefetch_max_pass: passes in which rows are fetched into a cache.
        key_value_params: of a table in a key-value store.
        kv_cache_load_factor: rows of the store's cache on the device, as a share of the table's.
        use_virtual_table: whether rows are made when their ids first come up, so that the table takes no memory before.

    Raises:
        ValueError: the sharding type is none of these.
    """
    on_cpu = compute_device == "cpu"
    inputs, outputs = batch_bytes(
        sharding_type,
        tensor.shape[1],
        shard_sizes,
        batch_sizes,
        world_size,
        local_world_size,
        input_lengths,
        num_poolings,
        is_pooled,
        input_data_type_size,
        output_data_type_size,
    )
    hbm, ddr, ssd = _table_bytes(tensor, compute_device, compute_kernel, sharder_data, use_virtual_table)
    cached_on_device = compute_kernel in _CACHED and not on_cpu and not use_virtual_table
    if cached_on_device:
        hbm = round(ddr * caching_ratio)
    cached = not on_cpu and (compute_kernel in _CACHED or compute_kernel in _STORED)
    store_cache = 0 if on_cpu else _store_cache_bytes(tensor, compute_kernel, key_value_params, kv_cache_load_factor)
    storages = []
    for size, input_size, output_size in zip(shard_sizes, inputs, outputs, strict=True):
        args = (tensor, size, sharding_type, is_inference)
        ratio = caching_ratio if cached_on_device else None
        on_device = _shard_bytes(hbm, *args, ratio) + store_cache
        on_host = _shard_bytes(ddr, *args)
        on_drive = _shard_bytes(ssd, *args, caching_ratio if ssd else None)
        if on_cpu:
            on_host += 0 if is_inference else input_size + output_size
        else:
            on_device += calculate_pipeline_io_cost(
                input_size,
                output_size,
                input_size if cached else 0,
                pipeline_type,
                multipass_prefetch_max_pass,
                count_ephemeral_storage_cost,
                is_inference,
            )
        storages.append(Storage(0 if on_cpu else on_device, on_host, on_drive))
    return storages


def _table_bytes(
    tensor: Tensor, compute_device: str, compute_kernel: str, sharder_data: SharderData, use_virtual_table: bool
) -> tuple[int, int, int]:
    """Of the device's memory, the host's, and drives."""
    usage = compute_storage_usage(tensor, compute_device, compute_kernel, sharder_data.storage_usage_type)
    if compute_kernel in _VIRTUAL:
        return 0, 0, 0
    if compute_kernel == EmbeddingComputeKernel.KEY_VALUE.value:
        return 0, 0, sum(usage.values())
    if use_virtual_table:
        return 0, 0, 0
    return usage.get(ParameterStorage.HBM.value, 0), usage.get(ParameterStorage.DDR.value, 0), 0


def _store_cache_bytes(
    tensor: Tensor, compute_kernel: str, key_value_params: KeyValueParams | None, load_factor: float
) -> int:
    """Of the cache of a key-value store on the device."""
    if key_value_params is None or not key_value_params.max_l1_cache_size or compute_kernel not in _STORED:
        return 0
    table = tensor.element_size() * tensor.numel()
    return min(math.ceil(table * load_factor), key_value_params.max_l1_cache_size * 1024**2)


def _shard_bytes(
    table: int,
    tensor: Tensor,
    size: list[int],
    sharding_type: str,
    is_inference: bool,
    caching_ratio: float | None = None,
) -> int:
    """A shard's part of a table's bytes, with what the optimizer and a cache keep for it."""
    rows, columns = size
    if sharding_type == ShardingType.DATA_PARALLEL.value:
        weights = table
    else:
        weights = math.ceil(table * (rows * columns) / tensor.numel()) if tensor.numel() else 0
    if is_inference:
        return weights
    total = weights + math.ceil(weights * _kept_by_optimizer(tensor))
    if caching_ratio is not None:
        total += math.ceil(rows * (_CACHE_BYTES_PER_TABLE_ROW + _CACHE_BYTES_PER_CACHED_ROW * caching_ratio))
    return total


def _kept_by_optimizer(tensor: Tensor) -> float:
    """Numbers that the table's optimizer keeps for each of its own."""
    optimizer: Any = (getattr(tensor, "_optimizer_classes", None) or [None])[0]
    if optimizer is None:
        return 0.0
    if optimizer.__name__ == "RowWiseAdagrad":
        return 1 / tensor.shape[-1]
    return _KEPT_BY_OPTIMIZER.get(optimizer.__name__, 1.0)


def batch_bytes(
    sharding_type: str,
    dim: int,
    shard_sizes: list[list[int]],
    batch_sizes: list[int],
    world_size: int,
    local_world_size: int,
    input_lengths: list[float],
    num_poolings: list[float],
    is_pooled: bool,
    id_size: float,
    number_size: float,
) -> tuple[list[int], list[int]]:
    """Of each shard, bytes of the ids of a batch and of what they become."""
    ids = sum(map(_product, input_lengths, num_poolings, batch_sizes))
    bags = sum(map(_product, (min(1.0, length) for length in input_lengths), num_poolings, batch_sizes))
    columns = [size[1] for size in shard_sizes]
    processes = world_size
    empty_free = False
    match sharding_type:
        case ShardingType.DATA_PARALLEL.value:
            processes, columns = 1, [dim] * len(columns)
        case ShardingType.TABLE_WISE.value:
            columns = [dim] * len(columns)
        case ShardingType.COLUMN_WISE.value | ShardingType.TABLE_COLUMN_WISE.value:
            pass
        case ShardingType.ROW_WISE.value:
            ids /= world_size
            empty_free = True
        case ShardingType.TABLE_ROW_WISE.value | ShardingType.GRID_SHARD.value:
            ids /= local_world_size
            empty_free = True
        case _:
            raise ValueError(
                f"sharding_type is {sharding_type!r}, but must be one of "
                f"{', '.join(kind.value for kind in ShardingType)}."
            )
    rows_out = bags if is_pooled else ids
    inputs, outputs = [], []
    for (rows, _), width in zip(shard_sizes, columns, strict=True):
        nothing = empty_free and rows * width == 0
        inputs.append(0 if nothing else math.ceil(ids * processes * id_size))
        outputs.append(0 if nothing else math.ceil(rows_out * processes * width * number_size))
    return inputs, outputs


def _product(a: float, b: float, c: float) -> float:
    return a * b * c
