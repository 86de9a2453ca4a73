"""Units, sizes that sharders know, and searches in one dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import nn

from flambeau.rec.distributed.planner._costs import Storage
from flambeau.rec.distributed.planner._interfaces import SharderData
from flambeau.rec.distributed.planner._options import ParameterConstraints, ShardingOption
from flambeau.rec.distributed.planner.constants import NUM_POOLINGS
from flambeau.rec.distributed.types import CommOp, ModuleSharder, StorageUsageType

__all__ = [
    "NUM_POOLINGS",
    "BinarySearchPredicate",
    "LuusJaakolaSearch",
    "build_sharder_data",
    "build_sharder_data_map",
    "bytes_to_gb",
    "bytes_to_mb",
    "extract_comm_data_type_size",
    "gb_to_bytes",
    "get_num_poolings",
    "is_prefetch_pipelined",
    "mb_to_bytes",
    "placement",
    "prod",
    "reset_shard_rank",
    "sharder_name",
    "storage_repr_in_gb",
]


def sharder_name(t: type[Any]) -> str:
    """A class's module and name, by which sharders are found."""
    return f"{t.__module__}.{t.__name__}"


def bytes_to_gb(num_bytes: int) -> float:
    """Bytes in GiB."""
    return float(num_bytes / (1024 * 1024 * 1024))


def bytes_to_mb(num_bytes: float | int) -> float:
    """Bytes in MiB."""
    return float(num_bytes / (1024 * 1024))


def gb_to_bytes(gb: float) -> int:
    """GiB in bytes."""
    return int(gb * 1024 * 1024 * 1024)


def mb_to_bytes(mb: float) -> int:
    """MiB in bytes."""
    return int(mb * 1024 * 1024)


def prod(iterable: Iterable[int]) -> int:
    """The product of numbers."""
    return math.prod(iterable)


def placement(compute_device: str, rank: int, local_size: int) -> str:
    """A device as sharding specifications name it, such as "rank:9/cuda:1".

    Args:
        compute_device: "cpu", "cuda" or "mtia".
        rank: of its process.
        local_size: devices of a host.
    """
    device = compute_device if compute_device == "cpu" else f"{compute_device}:{rank % local_size}"
    return f"rank:{rank}/{device}"


def storage_repr_in_gb(storage: Storage | None) -> str:
    """Memory in GiB, to three digits."""
    if storage is None:
        return ""
    hbm, ddr = round(bytes_to_gb(storage.hbm), 3), round(bytes_to_gb(storage.ddr), 3)
    return f"Storage(hbm = {hbm} GB, ddr = {ddr} GB)"


def reset_shard_rank(proposal: list[ShardingOption]) -> None:
    """Take all shards from their devices."""
    for option in proposal:
        option.place(None)


def get_num_poolings(constraints: dict[str, ParameterConstraints] | None, so: ShardingOption) -> list[float]:
    """Bags of an example for each feature of an option's table: of the constraints, else of the option, else 1."""
    constraint = (constraints or {}).get(so.name)
    if constraint is not None and constraint.num_poolings is not None:
        return constraint.num_poolings
    return so.num_poolings or [NUM_POOLINGS] * len(so.input_lengths)


def build_sharder_data(sharder: ModuleSharder[nn.Module]) -> SharderData:
    """What estimators need to know of a sharder."""
    sizes: dict[str, tuple[float, float]] = {}
    for name, codecs in (sharder.qcomm_codecs_registry or {}).items():
        dtypes = (codecs.forward.quantized_dtype, codecs.backward.quantized_dtype)
        sizes[name] = cast("tuple[float, float]", tuple(float(_dtype_size(dtype)) for dtype in dtypes))
    return SharderData(
        fused_params=dict(getattr(sharder, "fused_params", None) or {}),
        qcomm_dtype_sizes=sizes,
        storage_usage_type=_storage_usage_type(sharder),
    )


def _dtype_size(dtype: Any) -> int:
    return torch.empty(0, dtype=dtype() if callable(dtype) else dtype).element_size()


def _storage_usage_type(sharder: ModuleSharder[nn.Module]) -> StorageUsageType:
    """By the class whose way of counting it has."""
    names = {kind.__name__ for kind in type(sharder).__mro__}
    return next((kind for kind in StorageUsageType if kind.value in names), StorageUsageType.DEFAULT)


def build_sharder_data_map(sharder_map: dict[str, ModuleSharder[nn.Module]]) -> dict[str, SharderData]:
    """The same for several, by name."""
    return {name: build_sharder_data(sharder) for name, sharder in sharder_map.items()}


def extract_comm_data_type_size(
    sharding_option: ShardingOption, sharder_data: SharderData
) -> tuple[float, float, float, float]:
    """Bytes of an element that is sent: by all-to-all forward and backward, by reduce-scatter forward and backward."""
    own = float(sharding_option.tensor.element_size())
    sizes = sharder_data.qcomm_dtype_sizes
    exchange = (
        CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL if sharding_option.is_pooled else CommOp.SEQUENCE_EMBEDDINGS_ALL_TO_ALL
    )
    forward, backward = sizes.get(exchange.name, (own, own))
    reduced = (own, own)
    if sharding_option.is_pooled:
        reduced = sizes.get(CommOp.POOLED_EMBEDDINGS_REDUCE_SCATTER.name, reduced)
    return forward, backward, *reduced


def is_prefetch_pipelined(sharding_option: ShardingOption, sharder_data: SharderData) -> bool:
    """Whether caches are filled for a batch while another one is computed."""
    wanted = sharding_option.cache_params.prefetch_pipeline if sharding_option.cache_params is not None else None
    return bool(wanted or sharder_data.fused_params.get("prefetch_pipeline", False))


class BinarySearchPredicate:
    """The largest number for which something holds, found by asking.

    Args:
        A: the smallest number.
        B: the largest number.
        tolerance: how close to it is enough.

    Example:
        >>> search = BinarySearchPredicate(0, 100, 0)
        >>> best, number = None, search.next(True)
        >>> while number is not None:
        ...     holds = number <= 42
        ...     best = number if holds else best
        ...     number = search.next(holds)
        >>> best
        42
    """

    def __init__(self, A: int, B: int, tolerance: int) -> None:
        self.left = A
        self.right = B
        self.tolerance = tolerance
        self.first = True

    def next(self, prior_result: bool) -> int | None:
        """The number to ask for next, None when it is found.

        Args:
            prior_result: whether it holds for the last one; ignored the first time.
        """
        middle = self._middle()
        if self.first:
            self.first = False
        elif prior_result:
            self.left = middle + 1
        else:
            self.right = middle - 1
        if self.right < self.left or self.right - self.left < self.tolerance:
            return None
        return self._middle()

    def _middle(self) -> int:
        return self.left + (self.right - self.left) // 2


class LuusJaakolaSearch:
    """The smallest value of a function that need be neither smooth nor of one valley, found by trying.

    From the best point so far a step of random length is tried; with every better point, steps become shorter.

    Args:
        A: the smallest argument.
        B: the largest argument.
        max_iterations: how often the function is asked.
        seed: of the random numbers.
        left_cost: the function's value at `A`, where it is known.

    References:
        Luus and Jaakola 1973, "Optimization by direct search and systematic reduction of the size of search region".
    """

    def __init__(self, A: float, B: float, max_iterations: int, seed: int = 42, left_cost: float | None = None) -> None:
        self.left = A
        self.right = B
        self.iteration = -1
        self.max_iterations = max_iterations
        self.gen = torch.Generator()
        self.gen.manual_seed(seed)
        self.x: float = self.uniform(self.left, self.right)
        self.fx: float = 0.0
        self.y: float = math.nan
        self.fleft: float | None = left_cost
        self.fright: float | None = None
        self.d: float = self.right - self.left

    def shrink_right(self, B: float) -> None:
        """From now on nothing above `B` is tried: the function is infinite there."""
        self.right = B
        self.fright = math.inf
        self.d = self.right - self.left
        self.x = self.clamp(self.x)

    def clamp(self, x: float) -> float:
        """The nearest argument that may be tried."""
        return min(max(x, self.left), self.right)

    def uniform(self, A: float, B: float) -> float:
        """A random number between two."""
        return A + (B - A) * torch.rand(1, generator=self.gen).item()

    def next(self, fy: float) -> float | None:
        """The argument to try next, None after the last.

        Args:
            fy: the function's value at the argument before; ignored the first time.
        """
        self.iteration += 1
        if self.iteration == 0:
            return self.x
        if self.iteration >= self.max_iterations:
            # Upstream: the last argument is tried for its own sake; the best one is among those before it.
            return None
        if self.iteration == 1:
            self.fx = fy
        else:
            self._learn(fy)
        # Steps beyond an end lead there; what the function is there need not be asked twice.
        self.y = self._step()
        for _ in range(1000):
            known = (self.y == self.left and self.fleft is not None) or (
                self.y == self.right and self.fright is not None
            )
            if not known:
                break
            self.y = self._step()
        return self.y

    def _learn(self, fy: float) -> None:
        if self.y == self.left:
            self.fleft = fy
        elif self.y == self.right:
            self.fright = fy
        if fy <= self.fx:
            self.x, self.fx = self.y, fy
            self.d *= 0.95

    def _step(self) -> float:
        return self.clamp(self.x + self.uniform(-self.d, self.d))

    def best(self) -> tuple[float, float]:
        """The best argument so far, and the function's value there."""
        return self.x, self.fx
