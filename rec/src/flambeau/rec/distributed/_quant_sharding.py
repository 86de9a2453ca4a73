"""What sharded quantized collections share: plans by device, environments, and how tables are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from flambeau.rec.distributed._sharded_tables import infos_by_type
from flambeau.rec.distributed.embedding_sharding import EmbeddingShardingInfo
from flambeau.rec.distributed.embeddingbag import get_device_from_parameter_sharding
from flambeau.rec.distributed.fused_params import is_fused_param_quant_state_dict_split_scale_bias
from flambeau.rec.distributed.types import ParameterSharding, ShardingEnv, ShardingType
from flambeau.rec.errors import OptionError
from flambeau.rec.modules.embedding_configs import BaseEmbeddingConfig

__all__ = [
    "DeviceGroup",
    "ShardingKey",
    "check_scales",
    "environment",
    "get_device_for_first_shard_from_sharding_infos",
    "get_device_from_parameter_sharding",
    "get_device_from_sharding_infos",
    "infos_by_device_group",
]

DeviceGroup = str | tuple[str, ...]
"""The kind of device of all ranks, or of each."""
ShardingKey = tuple[str, DeviceGroup]
"""How tables are spread, and over which devices."""

_WIDTHS = (ShardingType.COLUMN_WISE.value, ShardingType.ROW_WISE.value)


def get_device_from_sharding_infos(emb_shard_infos: list[EmbeddingShardingInfo]) -> DeviceGroup:
    """The kind of device that tables are on, or that of each rank where they differ.

    Args:
        emb_shard_infos: the tables.

    Raises:
        AssertionError: tables are on different devices; it is a ValueError too.
    """
    kinds = {get_device_from_parameter_sharding(info.param_sharding) for info in emb_shard_infos}
    if len(kinds) != 1:
        raise OptionError(f"tables are on {sorted(map(str, kinds))}, expected all of them on the same devices.")
    return next(iter(kinds))


def get_device_for_first_shard_from_sharding_infos(emb_shard_infos: list[EmbeddingShardingInfo]) -> str:
    """The kind of device that the first parts of tables are on."""
    kinds = get_device_from_sharding_infos(emb_shard_infos)
    return kinds if isinstance(kinds, str) else kinds[0]


def environment(env: ShardingEnv | Mapping[str, ShardingEnv], infos: list[EmbeddingShardingInfo]) -> ShardingEnv:
    """The devices that tables are spread over.

    Args:
        env: the devices, or those of each kind.
        infos: the tables.

    Raises:
        KeyError: nothing is said about devices of their kind.
    """
    if isinstance(env, ShardingEnv):
        return env
    kind = get_device_for_first_shard_from_sharding_infos(infos)
    if kind not in env:
        raise KeyError(f"env has no {kind!r}, which tables are on; it has {sorted(env)}.")
    return env[kind]


def infos_by_device_group(
    tables: Sequence[BaseEmbeddingConfig],
    weights: Mapping[str, Tensor],
    plan: Mapping[str, ParameterSharding],
    fused_params: dict[str, Any] | None,
    *,
    pooled: bool,
    is_weighted: bool = False,
) -> dict[ShardingKey, list[EmbeddingShardingInfo]]:
    """Tables by the way in which they are spread, and by the devices they are on.

    Args:
        tables: of a collection.
        weights: of each, by name.
        plan: where each goes, by name.
        fused_params: options of kernels.
        pooled: whether rows are pooled.
        is_weighted: whether ids have weights.
    """
    grouped: dict[ShardingKey, list[EmbeddingShardingInfo]] = {}
    found = infos_by_type(tables, weights, plan, fused_params, pooled=pooled, is_weighted=is_weighted)
    for infos in found.values():
        for info in infos:
            sharding = info.param_sharding
            key = sharding.sharding_type, get_device_from_parameter_sharding(sharding)
            grouped.setdefault(key, []).append(info)
    return grouped


def check_scales(plan: Mapping[str, ParameterSharding], fused_params: dict[str, Any] | None) -> None:
    """Tables that are cut have scales and biases apart from their rows.

    Raises:
        AssertionError: they have not; it is a ValueError too.
    """
    cut = [name for name, sharding in plan.items() if sharding.sharding_type in _WIDTHS]
    if cut and not is_fused_param_quant_state_dict_split_scale_bias(fused_params):
        raise OptionError(
            f"tables {cut} are cut by rows or columns, and their scales and biases are in front of each row; quantize "
            "them after quant_prep_enable_quant_state_dict_split_scale_bias, and give the sharder "
            "fused_params={FUSED_PARAM_QUANT_STATE_DICT_SPLIT_SCALE_BIAS: True}."
        )
