"""Where embedding tables are, how bags are pooled, and what becomes of indices outside of their tables."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = [
    "BoundsCheckMode",
    "ComputeDevice",
    "EmbeddingLocation",
    "EmbeddingSpecInfo",
    "PoolingMode",
    "RecordCacheMetrics",
    "SplitState",
    "get_bounds_check_version_for_platform",
    "get_new_embedding_location",
    "round_up",
    "tensor_to_device",
]


class EmbeddingLocation(enum.IntEnum):
    """Where a table is: on the device, in memory that both see (with a cache on the device), in the host's memory."""

    DEVICE = 0
    MANAGED = 1
    MANAGED_CACHING = 2
    HOST = 3
    MTIA = 4


class PoolingMode(enum.IntEnum):
    """What becomes of the rows of a bag: their sum, their mean, or all of them."""

    SUM = 0
    MEAN = 1
    NONE = 2


class BoundsCheckMode(enum.IntEnum):
    """What becomes of an index outside of its table: an error, 0 with a warning, 0 without one, or nothing."""

    FATAL = 0
    WARNING = 1
    IGNORE = 2
    NONE = 3
    V2_IGNORE = 4
    V2_WARNING = 5
    V2_FATAL = 6


class ComputeDevice(enum.IntEnum):
    """What looks rows up."""

    CPU = 0
    CUDA = 1
    MTIA = 2


class EmbeddingSpecInfo(enum.IntEnum):
    """Places in the description of a table for inference."""

    feature_names = 0
    rows = 1
    dims = 2
    sparse_type = 3
    embedding_location = 4


@dataclass
class RecordCacheMetrics:
    """Which misses of the cache are counted."""

    record_cache_miss_counter: bool = False
    record_tablewise_cache_miss: bool = False


@dataclass
class SplitState:
    """How much memory of each kind tables or states take, and where each of them lies in it, in elements."""

    dev_size: int
    host_size: int
    uvm_size: int
    placements: list[EmbeddingLocation] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)


def round_up(a: int, b: int) -> int:
    """The next multiple of `b`."""
    return -(-a // b) * b


def tensor_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device."""
    return tensor.to(device)


def get_bounds_check_version_for_platform() -> int:
    """The version of the check of indices that serves here; there is one."""
    return 1


def get_new_embedding_location(device: torch.device, cache_load_factor: float) -> EmbeddingLocation:
    """Where tables go for a device: with a cache that holds all of them on it, with a smaller one in shared memory.

    Raises:
        ValueError: the factor is not between 0 and 1.
    """
    if not 0 <= cache_load_factor <= 1:
        raise ValueError(f"cache_load_factor is {cache_load_factor}, expected 0 to 1.")
    if device.type in ("cpu", "mtia"):
        return EmbeddingLocation.HOST if device.type == "cpu" else EmbeddingLocation.MTIA
    if cache_load_factor == 0:
        return EmbeddingLocation.MANAGED
    return EmbeddingLocation.MANAGED_CACHING if cache_load_factor < 1 else EmbeddingLocation.DEVICE
