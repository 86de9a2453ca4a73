"""Shardings of quantized tables over the devices of one process: what goes where, and how it comes together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from flambeau.rec.distributed._infer_lookups import (
    InferGroupedEmbeddingsLookup,
    InferGroupedPooledEmbeddingsLookup,
    devices_of_ranks,
)
from flambeau.rec.distributed.dist_data import KJTOneToAll
from flambeau.rec.distributed.embedding_sharding import BaseSparseFeaturesDist, EmbeddingShardingInfo
from flambeau.rec.distributed.embedding_types import GroupedEmbeddingConfig, InputDistOutputs, KJTList
from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["InferTwSparseFeaturesDist", "OneProcess", "ToDevices", "kinds_of_devices", "one_to_all"]


def kinds_of_devices(sharding_infos: list[EmbeddingShardingInfo]) -> str | tuple[str, ...] | None:
    """The kind of device that the shards of tables are on; those of each rank where they differ.

    Args:
        sharding_infos: the tables; all of them are on the same devices.
    """
    for info in sharding_infos:
        shards = getattr(info.param_sharding.sharding_spec, "shards", None)
        if shards:
            kinds = tuple(shard.placement.device().type for shard in shards)
            return kinds[0] if len(set(kinds)) == 1 else kinds
    return None


class ToDevices(nn.Module):
    """Gives each device of a process its sparse features, where devices are of several kinds.

    Args:
        splits: features for each device.
        devices: they.
    """

    def __init__(self, splits: list[int], devices: list[torch.device]) -> None:
        super().__init__()
        self._splits, self._devices = splits, devices

    def forward(self, kjt: KeyedJaggedTensor) -> KJTList:
        """The features of each device, there; those of the first device come first."""
        parts = kjt.split(self._splits)
        return KJTList([part.to(device, non_blocking=True) for part, device in zip(parts, self._devices, strict=True)])


def one_to_all(splits: list[int], kinds: str | tuple[str, ...] | None, device: torch.device | None) -> nn.Module:
    """What gives each device its sparse features.

    Args:
        splits: features for each device.
        kinds: of devices; see `devices_of_ranks`.
        device: of the module; features for tables on the meta device stay where they are.
    """
    if isinstance(kinds, tuple):
        return ToDevices(splits, devices_of_ranks(device, kinds, len(splits)))
    kind = "meta" if device is not None and device.type == "meta" else kinds
    return KJTOneToAll(splits, len(splits), torch.device(kind) if kind else device)


class InferTwSparseFeaturesDist(BaseSparseFeaturesDist[InputDistOutputs]):
    """Gives the devices of a process the features of their tables.

    Args:
        features_per_rank: features of each device.
        world_size: devices.
        device: of which kind they are; CUDA by default.
    """

    def __init__(self, features_per_rank: list[int], world_size: int, device: torch.device | None = None) -> None:
        super().__init__()
        self._dist: nn.Module = KJTOneToAll(features_per_rank, world_size, device)

    def forward(self, sparse_features: KeyedJaggedTensor) -> InputDistOutputs:
        """Features of each device, there; those of the first device come first."""
        return InputDistOutputs(features=self._dist(sparse_features))


class OneProcess:
    """What shardings over the devices of one process have in common; the other base says what goes where."""

    _grouped_embedding_configs_per_rank: list[list[GroupedEmbeddingConfig]]
    _sharding_infos: list[EmbeddingShardingInfo]
    _world_size: int
    _device: torch.device | None

    def _part(self, info: EmbeddingShardingInfo, shard: Any, whole: Any) -> Any:
        """The part of a table that a shard is, in columns of the table where shards are cut from bytes."""
        made = super()._part(info, shard, whole)  # type: ignore[misc]
        table, width = info.embedding_config, info.param.shape[1]
        columns = shard.shard_sizes[1] * table.embedding_dim
        if shard.shard_sizes[1] == width:
            columns = table.embedding_dim * width
        if columns % width:
            raise OptionError(
                f"table {table.name!r} is cut after {shard.shard_sizes[1]} of {width} bytes of a row, expected whole "
                f"columns, of which it has {table.embedding_dim}."
            )
        later = made.averaged_later
        made = replace(made, local_cols=columns // width)
        made.averaged_later = later
        return made

    def create_input_dist(self, device: torch.device | None = None) -> BaseSparseFeaturesDist[Any]:
        """What gives devices their features."""
        splits: list[int] = self.features_per_rank()  # type: ignore[attr-defined]
        made = InferTwSparseFeaturesDist(splits, self._world_size)
        made._dist = one_to_all(splits, self._kinds(), device)
        return made

    def _kinds(self) -> str | tuple[str, ...] | None:
        return kinds_of_devices(self._sharding_infos)

    def _devices(self) -> list[torch.device]:
        """Where the parts of each rank lie."""
        return devices_of_ranks(self._device, self._kinds(), self._world_size)

    def _home(self, device: torch.device | None) -> torch.device:
        """Where results come together."""
        if device is not None or self._device is not None:
            return device if device is not None else self._device  # type: ignore[return-value]
        return devices_of_ranks(None, self._kinds(), self._world_size)[0]

    def _pooled_lookups(self, device: torch.device | None, fused_params: dict[str, Any] | None) -> Any:
        return InferGroupedPooledEmbeddingsLookup(
            grouped_configs_per_rank=self._grouped_embedding_configs_per_rank,
            world_size=self._world_size,
            fused_params=fused_params,
            device=device if device is not None else self._device,
            device_type_from_sharding_infos=self._kinds(),
        )

    def _sequence_lookups(self, device: torch.device | None, fused_params: dict[str, Any] | None) -> Any:
        return InferGroupedEmbeddingsLookup(
            grouped_configs_per_rank=self._grouped_embedding_configs_per_rank,
            world_size=self._world_size,
            fused_params=fused_params,
            device=device if device is not None else self._device,
            device_type_from_sharding_infos=self._kinds(),
        )

    def _ranks_with_tables(self) -> int:
        return sum(bool(configs) for configs in self._grouped_embedding_configs_per_rank)
