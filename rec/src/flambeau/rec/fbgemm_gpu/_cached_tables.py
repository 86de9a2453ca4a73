"""Tables in slow memory whose rows a cache in fast memory takes in before they are looked up.

Rows are written back when they give way to others, before a checkpoint is made of the tables, and before these are
given away; what optimizers keep of rows stays where it is, so that it is always up to date. Where an index's row is,
is found out at the moment it is read or updated: results are those of the same tables without a cache, whatever else
was fetched in between. On a machine without an accelerator the fast memory is a piece of the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._tables import BatchedTables
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_common import construct_cache_state
from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import CacheAlgorithm, MultiPassPrefetchConfig
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import EmbeddingLocation, RecordCacheMetrics
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.cache import lxu_cache_lookup
from flambeau.rec.ops.cache_indices import get_unique_indices, linearize_cache_indices

__all__ = ["CacheOptions", "CachedTables"]

ASSOC = 32
"""Slots of a set: a row may be in any of its set's."""

_STATS = 6


@dataclass(frozen=True)
class CacheOptions:
    """What a cache is like; see `SplitTableBatchedEmbeddingBagsCodegen`."""

    algorithm: CacheAlgorithm
    load_factor: float
    sets: int
    reserved_memory: float
    precision: SparseType
    metrics: RecordCacheMetrics
    gather_stats: bool
    prefetch_pipeline: bool
    multipass: MultiPassPrefetchConfig | None
    stochastic_rounding: bool


@dataclass
class _Fetched:
    """A batch that was fetched: the slots it keeps locked, and which filling of the cache they are of."""

    slots: Tensor
    filling: int


class CachedTables(BatchedTables):
    """Tables some of which have a cache; `_set_up_cache` makes it.

    The parameter that holds them is `self.<weights_name>`.
    """

    weights_name: str
    current_device: torch.device
    weights_offsets: Tensor
    D_offsets: Tensor
    table_wise_cache_miss: Tensor
    cache_miss_counter: Tensor
    uvm_cache_stats: Tensor
    local_uvm_cache_stats: Tensor
    lxu_cache_weights: Tensor
    cache_hash_size_cumsum: Tensor
    cache_index_table_map: Tensor
    lxu_cache_state: Tensor
    lxu_state: Tensor
    lxu_cache_locking_counter: Tensor

    @property
    def _weights(self) -> Tensor:
        weights: Tensor = getattr(self, self.weights_name)
        return weights

    def _set_up_cache(self, locations: Sequence[EmbeddingLocation], options: CacheOptions) -> None:
        self._cache_options = options
        self.cache_algorithm, self.prefetch_pipeline = options.algorithm, options.prefetch_pipeline
        # Whoever is looked up most stays anyway.
        self.lock_cache_line = options.prefetch_pipeline and options.algorithm == CacheAlgorithm.LRU
        self.gather_uvm_cache_stats, self.record_cache_metrics = options.gather_stats, options.metrics
        self.multipass_prefetch_config = options.multipass
        self.uvm_cache_stats_size, self.timestep, self.max_prefetch_depth = _STATS, 1, 100
        self.timesteps_prefetched: list[int] = []
        self.prefetched_info_list: list[Any] = []
        self.lxu_cache_locations_list: list[Tensor] = []
        self._fetched: list[_Fetched] = []
        self._filling = 0
        rows = [count for count, _ in self._layout.shapes]
        state = construct_cache_state(rows, list(locations), self.feature_table_map)
        total = state.total_cache_hash_size
        self.total_cache_hash_size = total
        cached = total > 0
        widths = [
            dim for dim, place in zip(self.dims, locations, strict=True) if place == EmbeddingLocation.MANAGED_CACHING
        ]
        width = max(widths, default=0)
        sets = self._sets(total, width) if cached else 0
        device = self.current_device

        def buffer(name: str, tensor: Tensor, *, persistent: bool = False) -> None:
            self.register_buffer(name, tensor.to(device), persistent=persistent)

        misses = len(rows) if options.metrics.record_tablewise_cache_miss else 0
        buffer("table_wise_cache_miss", torch.zeros(misses, dtype=torch.int64), persistent=True)
        buffer("cache_miss_counter", torch.zeros(2, dtype=torch.int64))
        buffer("uvm_cache_stats", torch.zeros(_STATS if options.gather_stats else 1, dtype=torch.int64))
        buffer("local_uvm_cache_stats", torch.zeros(_STATS if options.gather_stats else 1, dtype=torch.int32))
        # Checkpoints hold the tables alone, which are complete then.
        dtype = options.precision.as_dtype()
        buffer("lxu_cache_weights", torch.zeros(sets * ASSOC, width, dtype=dtype), persistent=not cached)
        buffer("cache_hash_size_cumsum", torch.tensor(state.cache_hash_size_cumsum))
        buffer("cache_index_table_map", torch.tensor(state.cache_index_table_map, dtype=torch.int32))
        buffer("lxu_cache_state", torch.full((sets, ASSOC), -1, dtype=torch.int64))
        lru = options.algorithm == CacheAlgorithm.LRU
        shape = (sets, ASSOC) if lru else (total + 1 if cached else 0,)
        buffer("lxu_state", torch.zeros(shape, dtype=torch.int64))
        buffer("lxu_cache_locking_counter", torch.zeros(sets if options.prefetch_pipeline else 0, ASSOC).int())
        if cached:
            self.register_state_dict_pre_hook(lambda module, *_: module.flush())  # type: ignore[no-untyped-call]
            self.register_load_state_dict_post_hook(  # type: ignore[no-untyped-call]
                lambda module, _: module.reset_cache_states()
            )

    def _sets(self, total: int, width: int) -> int:
        options = self._cache_options
        if options.sets < 0 or options.load_factor < 0:
            raise OptionError(
                f"cache_sets is {options.sets} and cache_load_factor {options.load_factor}, expected 0 or more."
            )
        sets = options.sets or math.ceil(total * options.load_factor / ASSOC)
        bytes_of_set = ASSOC * width * options.precision.bit_rate() // 8
        if self.current_device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.current_device)
            sets = min(sets, max(int(free - options.reserved_memory), 0) // bytes_of_set)
        return max(sets, 1)

    @property
    def _is_cached(self) -> bool:
        return self.total_cache_hash_size > 0 and self.lxu_cache_state.numel() > 0

    def _numbers(self, indices: Tensor, offsets: Tensor, sizes: Sequence[Sequence[int]] | None) -> Tensor:
        """(L,) int64: the number of each index's row among all cached rows; the one behind the last without a cache."""
        starts, most = None, -1
        if sizes is not None:
            batches = [sum(ranks) for ranks in sizes]
            starts = torch.tensor([0, *batches], device=indices.device).cumsum(0)
            most = max(batches, default=0)
        return linearize_cache_indices(self.cache_hash_size_cumsum, indices.long(), offsets.long(), starts, most)

    def _find(self, numbers: Tensor) -> Callable[[], Tensor]:
        def find() -> Tensor:
            return lxu_cache_lookup(numbers, self.lxu_cache_state, self.total_cache_hash_size)

        return find

    # --- filling ------------------------------------------------------------------------------------------------------

    def prefetch(
        self,
        indices: Tensor,
        offsets: Tensor,
        forward_stream: torch.Stream | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
    ) -> None:
        """Take the rows of a later batch into the cache; tables without one need nothing.

        With `prefetch_pipeline` they stay until that batch was trained, so that further ones may be fetched before.

        Args:
            indices: of the batch, see `forward`.
            offsets: of the batch.
            forward_stream: the stream of the accelerator that the batch is going to be looked up on.
            batch_size_per_feature_per_rank: of the batch.

        Raises:
            RuntimeError: more than `max_prefetch_depth` batches were fetched and not looked up.
        """
        if not self._is_cached:
            return
        if len(self._fetched) >= self.max_prefetch_depth:
            raise RuntimeError(
                f"{len(self._fetched)} batches were fetched and not looked up; look up each batch that is fetched."
            )
        indices, offsets = self._checked(indices, offsets, batch_size_per_feature_per_rank)
        if forward_stream is not None and indices.is_cuda:
            for tensor in (indices, offsets):
                tensor.record_stream(forward_stream)
        self._fetch(indices, offsets, batch_size_per_feature_per_rank)

    def _fetch(self, indices: Tensor, offsets: Tensor, sizes: Sequence[Sequence[int]] | None) -> None:
        self.timestep += 1
        self.timesteps_prefetched.append(self.timestep)
        numbers = self._numbers(indices, offsets, sizes)
        if self.record_cache_metrics.record_cache_miss_counter or self.record_cache_metrics.record_tablewise_cache_miss:
            self._count_misses(numbers)
        self.local_uvm_cache_stats.zero_()
        for part, _, _ in self.get_prefetch_passes(self.multipass_prefetch_config, numbers, numbers):
            self._populate(part)
        if self.gather_uvm_cache_stats:
            self.uvm_cache_stats += self.local_uvm_cache_stats
        slots = self._find(numbers)()
        if self.lock_cache_line:  # once for a batch, however many passes it took
            used = slots[slots >= 0].long().unique()
            self.lxu_cache_locking_counter.view(-1)[used] += 1
        self.lxu_cache_locations_list.append(slots)
        self._fetched.append(_Fetched(slots, self._filling))

    def _populate(self, numbers: Tensor) -> None:
        options = self._cache_options
        place = (self.cache_index_table_map, self.weights_offsets, self.D_offsets)
        slow, starts, total = self._weights.detach(), self.cache_hash_size_cumsum, self.total_cache_hash_size
        ops = torch.ops.flambeau_rec
        if self.cache_algorithm == CacheAlgorithm.LRU:
            ops.lru_cache_populate(
                slow, starts, total, *place, numbers, self.lxu_cache_state, self.lxu_cache_weights, self.timestep,
                self.lxu_state, options.stochastic_rounding, self.gather_uvm_cache_stats, self.local_uvm_cache_stats,
                False, self.lxu_cache_locking_counter if self.lock_cache_line else None,
            )  # fmt: skip
            return
        ops.lfu_cache_populate(
            slow, starts, total, *place, numbers, self.lxu_cache_state, self.lxu_cache_weights, self.lxu_state,
            options.stochastic_rounding,
        )  # fmt: skip

    def get_prefetch_passes(
        self, multipass_prefetch_config: MultiPassPrefetchConfig | None, input_tensor: Tensor, output_tensor: Tensor
    ) -> list[tuple[Tensor, Tensor, int]]:
        """Cut a large prefetch.

        Args:
            multipass_prefetch_config: how; None for one pass.
            input_tensor: (L,).
            output_tensor: (L,).

        Returns:
            Of each pass a view of both, and where it begins.
        """
        size = input_tensor.numel()
        if multipass_prefetch_config is None:
            return [(input_tensor, output_tensor, 0)]
        share = max(
            multipass_prefetch_config.min_splitable_pass_size, math.ceil(size / multipass_prefetch_config.num_passes)
        )
        ends = [*range(0, size, share), size] if size else [0, 0]
        return [(input_tensor[a:b], output_tensor[a:b], a) for a, b in pairwise(ends)]

    def _release(self, fetched: _Fetched) -> None:
        """Let go of the rows of a batch that was trained."""
        if self.lock_cache_line and fetched.filling == self._filling:
            OPS.lxu_cache_locking_counter_decrement(self.lxu_cache_locking_counter, fetched.slots)

    def _enter(
        self, indices: Tensor, offsets: Tensor, sizes: Sequence[Sequence[int]] | None
    ) -> tuple[Callable[[], Tensor] | None, Callable[[], None] | None]:
        """Fetch a batch that is about to be looked up, unless it was.

        Returns:
            What finds its rows, and what to call when it was trained.
        """
        if not self._is_cached:
            return None, None
        if not self._fetched:
            self._fetch(indices, offsets, sizes)
        self.timesteps_prefetched.pop(0)
        self.lxu_cache_locations_list.pop(0)
        fetched = self._fetched.pop(0)
        return self._find(self._numbers(indices, offsets, sizes)), lambda: self._release(fetched)

    # --- emptying -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write rows in the cache back to the tables; they stay in it. Without a cache there is nothing to write."""
        if self._is_cached:
            with torch.no_grad():
                OPS.lxu_cache_flush(
                    self._weights.detach(), self.cache_hash_size_cumsum, self.cache_index_table_map,
                    self.weights_offsets, self.D_offsets, self.total_D, self.lxu_cache_state, self.lxu_cache_weights,
                    self._cache_options.stochastic_rounding,
                )  # fmt: skip

    def reset_cache_states(self) -> None:
        """Forget what is in the cache, and do not write it back; without a cache there is nothing to forget."""
        if self._is_cached:
            self._filling += 1
            self.lxu_cache_state.fill_(-1)
            self.lxu_state.zero_()
            self.lxu_cache_locking_counter.zero_()

    def _give_away(self) -> None:
        """Make the tables complete, so that whoever gets them may change them."""
        if self._is_cached and bool((self.lxu_cache_state >= 0).any()):
            self.flush()
            self.reset_cache_states()

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count_misses(self, numbers: Tensor) -> None:
        total = self.total_cache_hash_size
        unique, count = get_unique_indices(numbers, total, False)[:2]
        unique = unique[: int(count)]
        unique = unique[unique < total]
        missed = unique[self._find(unique)() < 0]
        if self.record_cache_metrics.record_cache_miss_counter:
            self.cache_miss_counter[0] += int(len(missed) > 0)
            self.cache_miss_counter[1] += len(missed)
        if self.record_cache_metrics.record_tablewise_cache_miss:
            first_features = self.cache_index_table_map[missed].long()
            tables = torch.tensor(self.feature_table_map, device=missed.device)[first_features]
            self.table_wise_cache_miss += torch.bincount(tables, minlength=len(self.table_wise_cache_miss))

    def get_cache_miss_counter(self) -> Tensor:
        """Batches that missed rows in the cache, and such rows: (2,), zero without a cache."""
        return self.cache_miss_counter

    def get_table_wise_cache_miss(self) -> Tensor:
        """Rows of each table that were missed in the cache: (tables,); empty where that is not recorded."""
        return self.table_wise_cache_miss

    def _require_stats(self) -> None:
        if not self.gather_uvm_cache_stats:
            raise OptionError("the cache counts nothing; construct tables with gather_uvm_cache_stats=True.")

    def reset_uvm_cache_stats(self) -> None:
        """Count the cache's calls from here.

        Raises:
            OptionError: it counts nothing.
        """
        self._require_stats()
        self.uvm_cache_stats.zero_()
        self.local_uvm_cache_stats.zero_()

    def get_uvm_cache_stats(self, use_local_cache: bool = False) -> Tensor:
        """What the cache counted, at the places of `UVMCacheStatsIndex`.

        Args:
            use_local_cache: whether only of the last batch that was fetched.

        Returns:
            (6,).

        Raises:
            OptionError: it counts nothing.
        """
        self._require_stats()
        return self.local_uvm_cache_stats if use_local_cache else self.uvm_cache_stats

    def print_uvm_cache_stats(self, use_local_cache: bool = False) -> None:
        """Write what the cache counted to the log.

        Args:
            use_local_cache: whether only of the last batch that was fetched.

        Raises:
            OptionError: it counts nothing.
        """
        stats = self.get_uvm_cache_stats(use_local_cache).tolist()
        calls, requested, unique, misses, conflicts, conflict_misses = stats
        self.log(
            f"cache: {calls} calls, {requested} indices of {unique} rows, of which {misses} were missed and "
            f"{conflicts} found no slot; {conflict_misses} indices were looked up in slow memory."
        )
