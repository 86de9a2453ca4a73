"""One way to shard a table, with what it costs; and what users allow of such ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from flambeau.rec.distributed.planner._costs import Perf, Storage
from flambeau.rec.distributed.planner._hashing import hash_sha256_to_int
from flambeau.rec.distributed.planner._shard_layouts import ShardRun, shards_of_runs
from flambeau.rec.distributed.planner.constants import POOLING_FACTOR
from flambeau.rec.distributed.types import CacheParams, KeyValueParams
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode
from flambeau.rec.modules.embedding_modules import EmbeddingCollectionInterface
from flambeau.rec.types import DataType

__all__ = ["ParameterConstraints", "PartitionByType", "Shard", "ShardingOption"]


class PartitionByType(Enum):
    """Where the shards of a table may go: anywhere, all to one host, one to each device, to some hosts."""

    DEVICE = "device"
    HOST = "host"
    UNIFORM = "uniform"
    MULTI_HOST = "multi_host"


@dataclass
class Shard:
    """A part of a table.

    Args:
        size: rows and columns.
        offset: its first row and column.
        storage: memory that it takes; None before it is estimated.
        perf: time that it takes; None before it is estimated.
        rank: the device that has it; None before it is placed.
    """

    size: list[int]
    offset: list[int]
    storage: Storage | None = None
    perf: Perf | None = None
    rank: int | None = None

    def __hash__(self) -> int:
        return hash((tuple(self.size), tuple(self.offset), self.storage, self.perf, self.rank))

    def __str__(self) -> str:
        return (
            f"Shard size: {tuple(self.size)}, offset: {tuple(self.offset)}, storage: {self.storage}, rank: {self.rank}"
        )


class CostRun(NamedTuple):
    """Shards that follow each other and cost the same.

    Args:
        count: how many.
        storage: memory of each.
        perf: time of each.
    """

    count: int  # type: ignore[assignment]  # nobody looks for numbers in a run
    storage: Storage
    perf: Perf


class ShardingOption:
    """One way to shard a table: how, computed by which kernel, into which shards, which cost what.

    Args:
        name: of the table.
        tensor: its weights; only shape and type are looked at.
        module: path of the module that has it, and the module.
        input_lengths: ids in a bag of each of its features, on average.
        batch_size: examples of each process.
        sharding_type: a value of `ShardingType`.
        partition_by: a value of `PartitionByType`.
        compute_kernel: a value of `EmbeddingComputeKernel`.
        shards: its parts.
        cache_params: of a table on the host.
        enforce_hbm: whether the cache must be in the device's memory.
        stochastic_rounding: whether tables of 16 bits are rounded by chance.
        bounds_check_mode: what becomes of ids outside of the table.
        dependency: options with the same name here go to the same host.
        is_pooled: whether bags are pooled; found out from the module when None.
        feature_names: its features.
        output_dtype: element type of what is looked up.
        key_value_params: of a table in a key-value store.
        num_poolings: bags of an example, for each feature.
    """

    def __init__(
        self,
        name: str,
        tensor: Tensor,
        module: tuple[str, nn.Module],
        input_lengths: list[float],
        batch_size: int,
        sharding_type: str,
        partition_by: str,
        compute_kernel: str,
        shards: list[Shard],
        cache_params: CacheParams | None = None,
        enforce_hbm: bool | None = None,
        stochastic_rounding: bool | None = None,
        bounds_check_mode: BoundsCheckMode | None = None,
        dependency: str | None = None,
        is_pooled: bool | None = None,
        feature_names: list[str] | None = None,
        output_dtype: DataType | None = None,
        key_value_params: KeyValueParams | None = None,
        num_poolings: list[float] | None = None,
    ) -> None:
        self.name = name
        self._tensor = tensor
        self._module = module
        self.input_lengths = input_lengths
        self.batch_size = batch_size
        self.sharding_type = sharding_type
        self.partition_by = partition_by
        self.compute_kernel = compute_kernel
        self.cache_params = cache_params
        self.enforce_hbm = enforce_hbm
        self.stochastic_rounding = stochastic_rounding
        self.bounds_check_mode = bounds_check_mode
        self.dependency = dependency
        self._is_pooled = is_pooled
        self.is_weighted: bool | None = None
        self.feature_names = feature_names
        self.output_dtype = output_dtype
        self.key_value_params = key_value_params
        self.num_poolings = num_poolings
        # Either single shards, or what they are made from when somebody asks for them.
        self._shards: list[Shard] | None = shards
        self._runs: tuple[ShardRun, ...] = ()
        self._run_storages: Sequence[Storage] | None = None
        self._run_perfs: Sequence[Perf] | None = None
        self._ranks: Sequence[int] | None = None
        self._cost_runs: tuple[CostRun, ...] | None = None
        # Sums, with the runs that they are sums of.
        self._totals: tuple[tuple[CostRun, ...], Storage, float] | None = None

    def describe_by(self, runs: tuple[ShardRun, ...]) -> ShardingOption:
        """Describe the shards by runs of equal ones, in place of what the constructor was given. Returns itself."""
        self._shards, self._runs = None, runs
        return self

    @property
    def shards(self) -> list[Shard]:
        """Its parts; from the first time that they are asked for, what is written to them counts."""
        if self._shards is None:
            self._shards = self._single_shards()
            self._cost_runs = None
        return self._shards

    @shards.setter
    def shards(self, shards: list[Shard]) -> None:
        self._shards = shards
        self._cost_runs = None

    def _single_shards(self) -> list[Shard]:
        sizes, offsets = shards_of_runs(self._runs)
        counts = [run.count for run in self._runs]
        storages = _repeated(self._run_storages, counts)
        perfs = _repeated(self._run_perfs, counts)
        ranks = self._ranks if self._ranks is not None else [None] * len(sizes)
        return [Shard(*parts) for parts in zip(sizes, offsets, storages, perfs, ranks, strict=True)]

    def placements(self) -> Iterable[tuple[list[int], list[int], int | None]]:
        """Offset, size and device of each shard; unlike `shards` it makes none."""
        if self._shards is None:
            sizes, offsets = shards_of_runs(self._runs)
            return zip(offsets, sizes, self.get_shards_assignment(), strict=True)
        return ((shard.offset, shard.size, shard.rank) for shard in self._shards)

    @property
    def tensor(self) -> Tensor:
        """The table's weights."""
        return self._tensor

    @property
    def module(self) -> tuple[str, nn.Module]:
        """Path of the module that has the table, and the module."""
        return self._module

    @property
    def path(self) -> str:
        """Path of the module that has the table."""
        return self._module[0]

    @property
    def fqn(self) -> str:
        """Path of the table: the module's, a dot, the table's name."""
        return f"{self._module[0]}.{self.name}"

    @property
    def module_type_key(self) -> str:
        """The class of the module that has the table, as sharders are found by."""
        kind = type(self._module[1])
        return f"{kind.__module__}.{kind.__name__}"

    @property
    def num_shards(self) -> int:
        """How many shards there are."""
        return sum(run.count for run in self._runs) if self._shards is None else len(self._shards)

    @property
    def num_inputs(self) -> int:
        """How many features the table has."""
        return len(self.input_lengths)

    @property
    def cache_load_factor(self) -> float | None:
        """Rows of the cache as a share of the table's, None where nobody says."""
        return self.cache_params.load_factor if self.cache_params is not None else None

    @property
    def is_pooled(self) -> bool:
        """Whether bags are pooled, rather than each id looked up for itself."""
        if self._is_pooled is None:
            self._is_pooled = self.module_pooled(self._module[1], self.name)
        return self._is_pooled

    @property
    def has_feature_processor(self) -> bool:
        """Whether the module gives each id a weight of its own, which is learned."""
        module = self._module[1]
        return bool(getattr(module, "has_feature_processor", False)) or hasattr(module, "_feature_processors")

    @staticmethod
    def module_pooled(module: nn.Module, sharding_option_name: str) -> bool:
        """Whether a table of a module is pooled: it belongs to no `EmbeddingCollection`."""
        if isinstance(module, EmbeddingCollectionInterface):
            return False
        return not any(
            sharding_option_name in name
            for part in module.modules()
            if isinstance(part, EmbeddingCollectionInterface)
            for name, _ in part.named_parameters()
        )

    @property
    def total_storage(self) -> Storage:
        """Memory of all shards."""
        runs = self.cost_runs()
        if self._totals is not None and self._totals[0] is runs:
            return self._totals[1]
        return self._sum(runs)[1]

    @property
    def total_perf(self) -> float:
        """Milliseconds of all shards, one after another."""
        runs = self.cost_runs()
        if self._totals is not None and self._totals[0] is runs:
            return self._totals[2]
        return self._sum(runs)[2]

    def _sum(self, runs: tuple[CostRun, ...]) -> tuple[tuple[CostRun, ...], Storage, float]:
        storage = Storage(
            sum(run.count * run.storage.hbm for run in runs),
            sum(run.count * run.storage.ddr for run in runs),
            sum(run.count * run.storage.ssd for run in runs),
        )
        total = 0.0
        for run in runs:
            total = repeated_sum(total, run.perf.total, run.count)
        self._totals = runs, storage, total
        return self._totals

    def get_shards_assignment(self) -> list[int | None]:
        """The device of each shard, by rank."""
        if self._shards is None:
            return list(self._ranks) if self._ranks is not None else [None] * self.num_shards
        return [shard.rank for shard in self._shards]

    def ranks(self) -> Sequence[int | None]:
        """The device of each shard, by rank; a range where they are consecutive and known to be so."""
        return self._ranks if self._shards is None and self._ranks is not None else self.get_shards_assignment()

    def sizes(self) -> list[list[int]]:
        """Rows and columns of the shards that costs are estimated for: one of each run where they are in runs."""
        if self._shards is None:
            return [[run.rows, run.columns] for run in self._runs]
        return [shard.size for shard in self._shards]

    def run_sizes(self) -> list[list[int]]:
        """Rows and columns of a shard of each run of `cost_runs`."""
        if self._shards is None:
            return self.sizes()
        sizes, shard = [], 0
        for run in self.cost_runs():
            sizes.append(self._shards[shard].size)
            shard += run.count
        return sizes

    def set_storages(self, storages: Sequence[Storage]) -> None:
        """Keep the memory of the shards, in the order of `sizes`."""
        self._cost_runs = None
        if self._shards is None:
            self._run_storages = storages
            return
        for shard, storage in zip(self._shards, storages, strict=True):
            shard.storage = storage

    def set_perfs(self, perfs: Sequence[Perf]) -> None:
        """Keep the time of the shards, in the order of `sizes`; as many as there are shards may be given as well."""
        self._cost_runs = None
        if self._shards is None and len(perfs) == len(self._runs):
            self._run_perfs = perfs
            return
        for shard, perf in zip(self.shards, perfs, strict=True):
            shard.perf = perf

    def cost_runs(self) -> tuple[CostRun, ...]:
        """What the shards cost, equal neighbours together.

        Raises:
            ValueError: no costs were estimated.
        """
        if self._cost_runs is not None:
            return self._cost_runs
        if self._shards is not None:
            return tuple(_runs_of(self._shards, self.name))
        if self._run_storages is None or self._run_perfs is None:
            raise _not_estimated(self.name)
        counts = (run.count for run in self._runs)
        self._cost_runs = tuple(map(CostRun, counts, self._run_storages, self._run_perfs))
        return self._cost_runs

    def placed(self, ranks: Sequence[int] | None) -> ShardingOption:
        """A copy on these devices; its shards are its own."""
        clone = object.__new__(type(self))
        vars(clone).update(vars(self))
        clone._ranks = ranks
        if self._shards is not None:
            places = ranks if ranks is not None else [shard.rank for shard in self._shards]
            clone._shards = [
                Shard(list(shard.size), list(shard.offset), shard.storage, shard.perf, rank)
                for shard, rank in zip(self._shards, places, strict=True)
            ]
        return clone

    def place(self, ranks: Sequence[int] | None) -> None:
        """Put the shards on these devices, or on none."""
        self._ranks = ranks
        for number, shard in enumerate(self._shards or ()):
            shard.rank = None if ranks is None else ranks[number]

    def __deepcopy__(self, memo: dict[int, Any] | None) -> ShardingOption:
        # Tables and modules are as large as memory: they stay shared.
        return self.placed(self._ranks)

    def storage_hash(self) -> int:
        """A number by which the option is found again in a plan that was kept: the same in every process.

        It counts what a plan decides: the table, how it is sharded, the kernel, and the columns of a shard.
        """
        return hash_sha256_to_int([self.fqn, self.sharding_type, self.compute_kernel, self.sizes()[0][1]])

    def __hash__(self) -> int:
        return hash((self.fqn, self.sharding_type, self.compute_kernel, tuple(self.shards), self.cache_params))

    def __str__(self) -> str:
        return (
            f"ShardingOption({self.fqn}: {self.sharding_type} by {self.compute_kernel} "
            f"in {self.num_shards} shards on {self.get_shards_assignment()})"
        )


@dataclass
class ParameterConstraints:
    """What users allow and know of a table; None for whatever is possible, or known from its module.

    Args:
        sharding_types: values of `ShardingType` to choose among.
        compute_kernels: values of `EmbeddingComputeKernel` to choose among.
        min_partition: columns that a shard of some columns has at least.
        pooling_factors: ids in a bag of each feature, on average.
        num_poolings: bags of an example for each feature, on average.
        batch_sizes: examples of each feature, where they differ.
        is_weighted: whether ids have weights.
        cache_params: of the cache, for tables on the host.
        enforce_hbm: whether the cache must be in the device's memory.
        stochastic_rounding: whether tables of 16 bits are rounded by chance.
        bounds_check_mode: what becomes of ids outside of the table.
        feature_names: the table's features.
        output_dtype: element type of what is looked up.
        device_group: the kind of device that it must be on.
        key_value_params: of a table in a key-value store.
        use_virtual_table: whether rows are made when their ids first come up.
    """

    sharding_types: list[str] | None = None
    compute_kernels: list[str] | None = None
    min_partition: int | None = None
    pooling_factors: list[float] = field(default_factory=lambda: [POOLING_FACTOR])
    num_poolings: list[float] | None = None
    batch_sizes: list[int] | None = None
    is_weighted: bool = False
    cache_params: CacheParams | None = None
    enforce_hbm: bool | None = None
    stochastic_rounding: bool | None = None
    bounds_check_mode: BoundsCheckMode | None = None
    feature_names: list[str] | None = None
    output_dtype: DataType | None = None
    device_group: str | None = None
    key_value_params: KeyValueParams | None = None
    use_virtual_table: bool = False

    def __hash__(self) -> int:
        return hash(tuple(tuple(value) if isinstance(value, list) else value for value in vars(self).values()))


def repeated_sum(start: float, value: float, count: int) -> float:
    """What comes of adding a value many times, to the last bit: options are compared with others added up singly."""
    if count < 16:
        for _ in range(count):
            start += value
        return start
    terms = np.full(count + 1, value)
    terms[0] = start
    return float(np.cumsum(terms)[-1])


def _repeated(values: Sequence[Any] | None, counts: Sequence[int]) -> list[Any]:
    if values is None:
        return [None] * sum(counts)
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]


def _runs_of(shards: Sequence[Shard], name: str) -> list[CostRun]:
    runs: list[CostRun] = []
    count = 0
    last: Shard | None = None
    for shard in shards:
        if shard.storage is None or shard.perf is None:
            raise _not_estimated(name)
        if last is not None and shard.storage is last.storage and shard.perf is last.perf and shard.size == last.size:
            count += 1
            continue
        if last is not None and last.storage is not None and last.perf is not None:
            runs.append(CostRun(count, last.storage, last.perf))
        last, count = shard, 1
    if last is not None and last.storage is not None and last.perf is not None:
        runs.append(CostRun(count, last.storage, last.perf))
    return runs


def _not_estimated(name: str) -> ValueError:
    return ValueError(f"The costs of table {name} are not known; let the enumerator's populate_estimates find them.")
