"""Embedding tables larger than memory: rows are on disk, those that are in use in memory, and train there.

What look-ups give and what tables hold is what tables in memory would, to the bit. A checkpoint is on the disk whole or
not at all, whatever happens to the process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._tables import BatchedTables
from flambeau.rec.fbgemm_gpu._training_layout import BY_ELEMENT, STATE_NAMES
from flambeau.rec.fbgemm_gpu.split_embedding_codegen_lookup_invokers.lookup_args import VBEMetadata
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType as OptimType
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import CacheAlgorithm, UVMCacheStatsIndex
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode, EmbeddingLocation, PoolingMode
from flambeau.rec.fbgemm_gpu.tbe.config.optimizer_config import (
    CounterBasedRegularizationDefinition,
    CowClipDefinition,
    WeightDecayMode,
)
from flambeau.rec.fbgemm_gpu.tbe.monitoring.runtime_monitor import TBEStatsReporterConfig
from flambeau.rec.fbgemm_gpu.tbe.ssd._folders import folder_of, when_gone
from flambeau.rec.fbgemm_gpu.tbe.ssd._records import DramKvPerfStat, DramSsdPerfStat, IterData, KVZCHCachedData
from flambeau.rec.fbgemm_gpu.tbe.ssd._settings import regularization_options
from flambeau.rec.fbgemm_gpu.tbe.ssd._stored_tensor import StoredTensor
from flambeau.rec.fbgemm_gpu.tbe.ssd._tiers import TableSpec, TieredTables
from flambeau.rec.fbgemm_gpu.tbe.ssd._trained_lookup import Training, lookup_and_train
from flambeau.rec.fbgemm_gpu.tbe.ssd._upstream_steps import UpstreamSteps
from flambeau.rec.fbgemm_gpu.tbe.ssd._virtual_tables import VirtualTables
from flambeau.rec.fbgemm_gpu.tbe.ssd.common import ASSOC
from flambeau.rec.fbgemm_gpu.tbe.ssd.ssd_config import BackendType, KVZCHParams
from flambeau.rec.fbgemm_gpu.tbe.ssd.utils.partially_materialized_tensor import PartiallyMaterializedTensor
from flambeau.rec.ops import tbe

__all__ = [
    "DramKvPerfStat",
    "DramSsdPerfStat",
    "IterData",
    "KVZCHCachedData",
    "SSDTableBatchedEmbeddingBags",
]

_FATAL = (BoundsCheckMode.FATAL, BoundsCheckMode.V2_FATAL, BoundsCheckMode.NONE)
_GIB = 1 << 30
_TRAINING = (
    OptimType.EXACT_SGD, OptimType.EXACT_ADAGRAD, OptimType.EXACT_ROWWISE_ADAGRAD, OptimType.ADAM,
    OptimType.PARTIAL_ROWWISE_ADAM, OptimType.LAMB, OptimType.PARTIAL_ROWWISE_LAMB, OptimType.LARS_SGD,
)  # fmt: skip


class SSDTableBatchedEmbeddingBags(BatchedTables, VirtualTables, UpstreamSteps):
    """Tables on disk whose rows are pooled over bags, and trained in the backward pass.

    Rows that were never trained are computed and take no space, so that tables of any size are made in no time. Rows
    of a batch are fetched into a cache; those that were not used for the longest time leave it, and are written back
    if they were trained. `checkpoint` makes what tables hold durable; tables that are made again with the same
    directory and `tbe_unique_id` are as at the last checkpoint.

    Options of RocksDB, of streams and of remote stores are taken for compatibility; the store is one of its own,
    `_store`, in files that are mapped into memory.

    Args:
        embedding_specs: (rows, columns) of each table.
        feature_table_map: the table of each feature, in any order; one feature for each table by default.
        cache_sets: rows of the cache by 32; it grows where a batch needs more at once.
        ssd_storage_directory: where the files go; several, separated by commas, are used in turns.
        ssd_uniform_init_lower: rows begin as uniform random numbers, at least this; a number, or one for each table,
        ssd_uniform_init_upper: and below this. The seed is drawn from torch's generator.
        weights_precision: of the tables: FP32, FP16 or BF16.
        output_dtype: of the result.
        optimizer: what trains the tables: SGD, Adagrad, row-wise Adagrad, Adam or LAMB, also by row in part, or LARS.
        stochastic_rounding: whether tables of 16 bits are rounded by chance, so that small steps are not lost.
        gradient_clipping: whether gradients of the output are limited to `max_gradient` in size.
        max_gradient: see there.
        max_norm: rows are scaled down to this norm after row-wise Adagrad; 0 for no limit.
        learning_rate: of the optimizer.
        eps: added to denominators.
        momentum: of LARS.
        weight_decay: rows decay by it, in the way that `weight_decay_mode` says.
        weight_decay_mode: see `WeightDecayMode`.
        eta: trust coefficient of LARS.
        beta1: of the first moment of Adam and LAMB.
        beta2: of the second.
        counter_based_regularization: options where `weight_decay_mode` is COUNTER.
        cowclip_regularization: options where it is COWCLIP.
        pooling_mode: sum, mean, or none: then each index gives a row, and all tables are equally wide.
        bounds_check_mode: what becomes of indices outside of their tables.
        tbe_unique_id: from 0 on, the tables have a folder of this number, which stays, and is opened again. Below 0
            they have one of their own that goes with them.
        gather_ssd_cache_stats: whether what the cache does is reported.
        stats_reporter_config: where to.
        l2_cache_size: GiB of the files that stay in the memory of the process, beside the cache; 0 for one.
        backend_type: what upstream would keep rows in; here, all are on disk.
        kv_zch_params: given, tables are virtual: rows are made when their ids first come up, and may leave again.
        enable_raw_embedding_streaming: whether rows that are written back are given to `stream_rows_to` as well.
        table_names: for messages.

    Raises:
        ValueError: tables, features or options that do not fit together, or a folder with other tables.
        OSError: the folder is open elsewhere, or is damaged.
    """

    _instances: ClassVar[int] = 0

    def __init__(
        self,
        embedding_specs: list[tuple[int, int]],
        feature_table_map: list[int] | None,
        cache_sets: int,
        ssd_storage_directory: str,
        ssd_rocksdb_shards: int = 1,
        ssd_memtable_flush_period: int = -1,
        ssd_memtable_flush_offset: int = -1,
        ssd_l0_files_per_compact: int = 4,
        ssd_rate_limit_mbps: int = 0,
        ssd_size_ratio: int = 10,
        ssd_compaction_trigger: int = 8,
        ssd_rocksdb_write_buffer_size: int = 2 * 1024 * 1024 * 1024,
        ssd_max_write_buffer_num: int = 4,
        ssd_cache_location: EmbeddingLocation = EmbeddingLocation.MANAGED,
        ssd_uniform_init_lower: float | Sequence[float] = -0.01,
        ssd_uniform_init_upper: float | Sequence[float] = 0.01,
        ssd_block_cache_size_per_tbe: int = 0,
        weights_precision: SparseType = SparseType.FP32,
        output_dtype: SparseType = SparseType.FP32,
        optimizer: OptimType = OptimType.EXACT_ROWWISE_ADAGRAD,
        stochastic_rounding: bool = True,
        gradient_clipping: bool = False,
        max_gradient: float = 1.0,
        max_norm: float = 0.0,
        learning_rate: float = 0.01,
        eps: float = 1.0e-8,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.NONE,
        eta: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        counter_based_regularization: CounterBasedRegularizationDefinition | None = None,
        cowclip_regularization: CowClipDefinition | None = None,
        pooling_mode: PoolingMode = PoolingMode.SUM,
        bounds_check_mode: BoundsCheckMode = BoundsCheckMode.WARNING,
        ps_hosts: tuple[tuple[str, int]] | None = None,
        ps_max_key_per_request: int | None = None,
        ps_client_thread_num: int | None = None,
        ps_max_local_index_length: int | None = None,
        tbe_unique_id: int = -1,
        use_passed_in_path: int = True,
        gather_ssd_cache_stats: bool | None = False,
        stats_reporter_config: TBEStatsReporterConfig | None = None,
        l2_cache_size: int = 0,
        prefetch_pipeline: bool = False,
        uvm_host_mapped: bool = False,
        enable_async_update: bool = True,
        bulk_init_chunk_size: int = 0,
        lazy_bulk_init_enabled: bool = False,
        backend_type: BackendType = BackendType.SSD,
        kv_zch_params: KVZCHParams | None = None,
        enable_raw_embedding_streaming: bool = False,
        res_params: Any | None = None,
        flushing_block_size: int = 2_000_000_000,
        table_names: list[str] | None = None,
        use_rowwise_bias_correction: bool = False,
        optimizer_state_dtypes: dict[str, SparseType] = {},  # noqa: B006 - upstream's default, and never written to
        pg: dist.ProcessGroup | None = None,
    ) -> None:
        if optimizer not in _TRAINING:
            known = ", ".join(one.name for one in _TRAINING)
            raise OptionError(f"optimizer {optimizer.name} does not train tables; choose one of {known}.")
        if backend_type == BackendType.PS or ps_hosts is not None:
            raise OptionError("tables on other machines (ps_hosts, BackendType.PS) are not served; keep them on disk.")
        if cache_sets <= 0:
            raise OptionError(f"cache_sets is {cache_sets}; expected 1 or more.")
        if any(one != SparseType.FP32 for one in optimizer_state_dtypes.values()):
            raise OptionError(f"optimizer_state_dtypes is {optimizer_state_dtypes}; what optimizers keep is FP32.")
        if use_rowwise_bias_correction:
            raise OptionError("use_rowwise_bias_correction is not offered; biases are corrected by the step.")
        if weight_decay_mode == WeightDecayMode.DECOUPLE_GLOBAL:
            raise OptionError("weight_decay_mode is DECOUPLE_GLOBAL, for which rows on disk are not decayed; use L2.")
        if kv_zch_params is not None:
            kv_zch_params.validate()
        options = regularization_options(weight_decay_mode, counter_based_regularization, cowclip_regularization)
        BatchedTables.__init__(
            self,
            [(rows, dim) for rows, dim in embedding_specs], feature_table_map, weights_precision, output_dtype,
            pooling_mode, bounds_check_mode, table_names,
        )  # fmt: skip
        self.embedding_specs, self.optimizer, self.kv_zch_params = embedding_specs, optimizer, kv_zch_params
        self.backend_type, self.current_device = backend_type, torch.device("cpu")
        counting = counter_based_regularization is not None or cowclip_regularization is not None
        by_row = counting
        self._optimizer_name = "row_wise_adagrad_with_counter" if counting else optimizer.value
        self._state_names = [*STATE_NAMES.get(optimizer, ()), *(("prev_iter", "row_counter") if by_row else ())]
        self._limit = max_gradient if gradient_clipping else None
        self._learning_rate = learning_rate
        self._options: dict[str, Any] = options | {
            "eps": eps, "weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "momentum": momentum, "eta": eta,
            "max_norm": max_norm, "stochastic_rounding": stochastic_rounding,
        }  # fmt: skip
        # What requires gradients on behalf of the rows; it has no elements of its own.
        self.weights_dev = nn.Parameter(torch.empty(0, dtype=weights_precision.as_dtype()))
        folder, temporary = folder_of(ssd_storage_directory, tbe_unique_id)
        virtual = kv_zch_params is not None
        self.tables = TieredTables(
            folder,
            [
                TableSpec(rows, dim, lower, upper, virtual)
                for (rows, dim), lower, upper in zip(
                    embedding_specs,
                    _of_tables(ssd_uniform_init_lower, len(embedding_specs)),
                    _of_tables(ssd_uniform_init_upper, len(embedding_specs)),
                    strict=True,
                )
            ],
            weights_precision.as_dtype(),
            [*BY_ELEMENT[optimizer], *([False, False] if by_row else [])],
            cache_sets * ASSOC,
            CacheAlgorithm.LRU,
            int(torch.randint(2**62, (1,))),
            (l2_cache_size or 1) * _GIB,
        )
        self._closing = when_gone(self, folder if temporary else None, self.tables.close)
        self.gather_ssd_cache_stats = bool(gather_ssd_cache_stats)
        self.stats_reporter = None if stats_reporter_config is None else stats_reporter_config.create_reporter()
        self.step, self.restored = self._restore()
        self._hook_before: Callable[[Tensor], None] | None = None
        self._consumers: list[Callable[[int, Tensor, Tensor], None]] = []
        self._streaming = enable_raw_embedding_streaming
        self._init_virtual()

    # ----- checkpoints ------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.tables.store.folder

    def checkpoint(self, extra: bytes = b"") -> None:
        """Make what tables, optimizer and step are now durable, whole or not at all.

        Args:
            extra: kept with it, such as the parameters of the rest of the model, so that both are of one step;
                `restored` gives it back.

        Raises:
            OSError: the disk refused; the last checkpoint holds.
        """
        facts = {"step": self.step, "learning_rate": self._learning_rate}
        self.tables.commit(json.dumps(facts).encode() + b"\n" + extra)

    def _restore(self) -> tuple[int, bytes | None]:
        if not self.tables.store.generation:
            return 0, None
        facts, _, extra = self.tables.store.note.partition(b"\n")
        if facts:
            found = json.loads(facts)
            self._learning_rate = found["learning_rate"]
            return found["step"], extra
        return 0, extra

    def close(self) -> None:
        """Let go of the files, and remove them where they have no `tbe_unique_id`; what has no checkpoint is lost."""
        self._closing()

    def create_rocksdb_hard_link_snapshot(self) -> None:
        """Make what tables hold now durable; a checkpoint without extras of its own keeps those of the last one."""
        self.checkpoint(self.restored or b"")

    def flush(self, force: bool = False) -> None:
        """Write rows that were trained from the cache to the files; it is no checkpoint.

        Args:
            force: it is done in any case.
        """
        self.tables.flush()

    def clear_cache(self) -> None:
        """Write back, and empty the cache."""
        self.tables.clear()

    reset_cache_states = clear_cache

    # ----- batches ----------------------------------------------------------------------------------------------------

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor,
        weights: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
        feature_requires_grad: Tensor | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
        vbe_output: Tensor | None = None,
        vbe_output_offsets: Tensor | None = None,
    ) -> Tensor:
        """Pool the rows of each bag.

        Args:
            indices: (L,) int32 or int64, feature-major.
            offsets: (features * B + 1,) int32 or int64.
            weights: (L,) scores of ids, of virtual tables whose rows leave by them.
            per_sample_weights: (L,): a factor for each index.
            feature_requires_grad: (features,), 0 where the feature does not train its table.
            batch_size_per_feature_per_rank: examples of each feature and process, where they differ.
            vbe_output: flat, where the result is written to with such sizes; made by default.
            vbe_output_offsets: (processes, features), where in it each begins; one after another by default.

        Returns:
            (B, columns of all features); (L, columns) without pooling; flat, process after process, with
            `batch_size_per_feature_per_rank`.

        Raises:
            RuntimeError: sizes that do not fit together, or an index outside of its table where that is fatal.
        """
        lookup, shape = self._lookup(
            self.weights_dev, indices, offsets, per_sample_weights, batch_size_per_feature_per_rank
        )
        self._refuse_strays(lookup)
        if self.training or torch.is_grad_enabled():
            self.step += 1
        with self.tables.lock:
            located = self.tables.locate(lookup, self.feature_table_map, allocate=self.training)
            if weights is not None:
                self._score(lookup, weights)
            training = Training(
                self.tables,
                self.feature_table_map,
                tbe.OptimizerSettings(
                    self._optimizer_name, self._learning_rate, self.step, seed=self.step, **self._options
                ),
                len(BY_ELEMENT[self.optimizer]),
                None if feature_requires_grad is None else feature_requires_grad.to(torch.uint8).contiguous(),
                self._limit,
                self._hook_before,
            )
            output = lookup_and_train(self.weights_dev, located, shape, training)
        self._report()
        if self.training:
            self.may_trigger_eviction()
        output = output.to(SparseType.from_int(self.output_dtype).as_dtype())
        if vbe_output is None or vbe_output_offsets is None or batch_size_per_feature_per_rank is None:
            return output
        return self._into(output, vbe_output, vbe_output_offsets, batch_size_per_feature_per_rank)

    def _into(self, output: Tensor, whole: Tensor, places: Tensor, sizes: list[list[int]]) -> Tensor:
        """Write results, process after process, to where they belong in a larger one."""
        widths = [self.dims[table] for table in self.feature_table_map]
        parts = [(rank, at, size[rank] * width) for rank in range(len(sizes[0])) for at, (size, width) in
                 enumerate(zip(sizes, widths, strict=True))]  # fmt: skip
        where = torch.cat([torch.arange(count) + int(places[rank, feature]) for rank, feature, count in parts])
        return whole.index_copy(0, where, output)

    def _refuse_strays(self, lookup: tbe.Lookup) -> None:
        if BoundsCheckMode(self.bounds_check_mode_int) not in _FATAL:
            return
        stray = tbe.kernels(lookup.weights).find_stray(lookup)
        if stray is not None:
            place, feature, index = stray
            table = self.feature_table_map[feature]
            rows = self.embedding_specs[table][0]
            raise RuntimeError(
                f"indices has {index} at {place}, for feature {feature} of {self._name_of(table)} with {rows} rows; "
                f"expected 0 to {rows - 1}. bounds_check_mode decides what becomes of such indices."
            )

    def prefetch(
        self,
        indices: Tensor,
        offsets: Tensor,
        weights: Tensor | None = None,
        forward_stream: torch.cuda.Stream | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
    ) -> None:
        """Fetch the rows of a batch that is looked up soon; safe to call from another thread.

        Args:
            indices: as for `forward`, and the rest likewise.
            offsets: see there.
            weights: see there.
            forward_stream: what waits for it, on an accelerator.
            batch_size_per_feature_per_rank: see there.
        """
        lookup, _ = self._lookup(self.weights_dev, indices, offsets, None, batch_size_per_feature_per_rank)
        self._refuse_strays(lookup)
        with self.tables.lock:
            self.tables.locate(lookup, self.feature_table_map, allocate=self.training)

    def prepare_inputs(
        self,
        indices: Tensor,
        offsets: Tensor,
        per_sample_weights: Tensor | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
        vbe_output: Tensor | None = None,
        vbe_output_offsets: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None, VBEMetadata]:
        """A batch as look-ups take it: within bounds, and where its bags lie.

        Returns:
            indices int64, offsets int64, weights float32, and where bags of different sizes lie.
        """
        lookup, shape = self._lookup(
            self.weights_dev, indices, offsets, per_sample_weights, batch_size_per_feature_per_rank
        )
        sizes = batch_size_per_feature_per_rank
        if sizes is None:
            return lookup.indices.long(), lookup.offsets, lookup.bag_weights, VBEMetadata(None, None, None)
        widths = [self.dims[table] for table in self.feature_table_map]
        flat = [size[rank] * width for rank in range(len(sizes[0])) for size, width in zip(sizes, widths, strict=True)]
        by_rank = [np.concatenate([[0], np.cumsum(size)]) + int(start) for size, start in
                   zip(sizes, lookup.bag_starts, strict=False)]  # fmt: skip
        metadata = VBEMetadata(
            lookup.bag_starts.int(),
            torch.tensor([0, *np.cumsum(flat).tolist()]),
            torch.from_numpy(np.stack(by_rank)).int(),
            max(max(size) for size in sizes),
            max(sum(size) for size in sizes),
            shape[0],
            vbe_output,
            vbe_output_offsets,
        )
        return lookup.indices.long(), lookup.offsets, lookup.bag_weights, metadata

    def _score(self, lookup: tbe.Lookup, weights: Tensor) -> None:
        ends = lookup.offsets[lookup.bag_starts].tolist()
        for feature, table in enumerate(self.feature_table_map):
            known = self.tables.ids.get(table)
            if known is None:
                continue
            mine = slice(ends[feature], ends[feature + 1])
            ids, inverse = np.unique(lookup.indices[mine].numpy().astype(np.int64), return_inverse=True)
            scores = np.bincount(inverse.reshape(-1), weights[mine].float().numpy(), len(ids)).astype(np.float32)
            rows = known.find(ids)
            known.facts["score"][rows[rows >= 0]] += scores[rows >= 0]

    # ----- tables -----------------------------------------------------------------------------------------------------

    def split_embedding_weights(
        self, no_snapshot: bool = True, should_flush: bool = False
    ) -> tuple[
        list[PartiallyMaterializedTensor] | list[Tensor], list[Tensor] | None, list[Tensor] | None, list[Tensor] | None
    ]:
        """The tables, without reading them.

        Args:
            no_snapshot: else a checkpoint is made, too.
            should_flush: whether rows that were trained are written to the files before.

        Returns:
            Each table, (rows, columns); and of virtual tables the ids that have rows, (ids, 1), in whose order these
            are, how many each bucket has, (buckets, 1), and of each id when it was last looked up, in minutes, how
            often, and its score, (ids, 3).
        """
        if not no_snapshot:
            self.create_rocksdb_hard_link_snapshot()
        elif should_flush:
            self.flush()
        if self._loading is not None:
            loading = self._loading
            return (
                loading.cached_weight_tensor_per_table, loading.cached_id_tensor_per_table,
                loading.cached_bucket_splits, None,
            )  # fmt: skip
        virtual = bool(self.tables.ids)
        weights = [
            PartiallyMaterializedTensor(StoredTensor(self.tables, table), virtual)
            for table in range(len(self.embedding_specs))
        ]
        if not virtual:
            return weights, None, None, None
        ids, buckets, facts = [], [], []
        for table, known in self.tables.ids.items():
            rows = known.rows()
            of_table = torch.from_numpy(known.facts["id"][rows].copy())
            ids.append(of_table.view(-1, 1))
            buckets.append(self._by_bucket(table, of_table))
            columns = [known.facts[name][rows].astype(np.float32) for name in ("minute", "count", "score")]
            facts.append(torch.from_numpy(np.stack(columns, 1)))
        return weights, ids, buckets, facts

    def _by_bucket(self, table: int, ids: Tensor) -> Tensor:
        params = self.kv_zch_params
        if params is None or not params.bucket_offsets or not params.bucket_sizes:
            return torch.tensor([[ids.numel()]])
        first, size = params.bucket_offsets[table][0], params.bucket_sizes[table]
        buckets = self._buckets(table)
        return torch.bincount((ids // size - first).clamp(0, buckets - 1), minlength=buckets).view(-1, 1)

    def debug_split_embedding_weights(self) -> list[Tensor]:
        """A copy of each table in memory; of a virtual one, the rows of ids in their order."""
        weights = self.split_embedding_weights()[0]
        return [one.full_tensor() if isinstance(one, PartiallyMaterializedTensor) else one for one in weights]

    def split_optimizer_states(
        self, sorted_id_tensor: list[Tensor] | None = None, no_snapshot: bool = True, should_flush: bool = False
    ) -> list[list[Tensor]]:
        """Of each table, what the optimizer keeps.

        Args:
            sorted_id_tensor: of virtual tables, the ids whose states are wanted; all by default.
            no_snapshot: else a checkpoint is made, too.
            should_flush: whether rows that were trained are written to the files before.

        Returns:
            A number for each row, (rows,), in memory; a number for each element, (rows, columns), as a
            `PartiallyMaterializedTensor`, which is as large as the table.
        """
        if not no_snapshot:
            self.create_rocksdb_hard_link_snapshot()
        elif should_flush:
            self.flush()
        if self._loading is not None:
            states: list[list[Tensor]] = self._loading.cached_optimizer_states_per_table
            return states
        found: list[list[Any]] = []
        for table, form in enumerate(self.tables.forms):
            ids = sorted_id_tensor[table].view(-1) if sorted_id_tensor is not None and self.tables.ids else None
            of_table: list[Any] = []
            for part, numbers in enumerate(form.states, 1):
                stored = StoredTensor(self.tables, table, part, ids)
                if numbers == 1 and form.columns > 1:
                    of_table.append(self._by_row(stored))
                else:
                    of_table.append(PartiallyMaterializedTensor(stored, bool(self.tables.ids)))
            found.append(of_table)
        return found

    def _by_row(self, stored: StoredTensor) -> Tensor:
        found = torch.zeros(stored.rows)
        if stored.is_virtual:
            return stored.narrow(0, 0, stored.rows).view(-1)
        # Of rows that were never written, nothing was kept yet.
        with self.tables.lock:
            self.flush()
            for rows in self.tables.file(stored.table).written():
                found[torch.from_numpy(rows)] = self.tables.read_part(stored.table, rows, stored.part).view(-1)
        return found

    def get_optimizer_state(
        self, sorted_id_tensor: list[Tensor] | None = None, no_snapshot: bool = True, should_flush: bool = False
    ) -> list[dict[str, Tensor]]:
        """Of each table, what the optimizer keeps, by name; see `split_optimizer_states`."""
        states = self.split_optimizer_states(sorted_id_tensor, no_snapshot, should_flush)
        return [dict(zip(self._state_names, of_table, strict=True)) for of_table in states]

    def get_embedding_dim_for_kvt(self, metaheader_dim: int, emb_dim: int, is_loading_checkpoint: bool) -> int:
        """Columns of a table as checkpoints see it.

        Args:
            metaheader_dim: elements of a header that rows would have; facts of ids are apart from them here.
            emb_dim: columns of the table.
            is_loading_checkpoint: whether one is loaded.

        Returns:
            `emb_dim`.
        """
        return emb_dim

    # ----- optimizer --------------------------------------------------------------------------------------------------

    def set_learning_rate(self, lr: float) -> None:
        """Use another learning rate from the next step on."""
        self._learning_rate = lr

    def get_learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self._learning_rate

    def set_optimizer_step(self, step: int) -> None:
        """Count steps from here."""
        self.step = step

    def update_hyper_parameters(self, params_dict: dict[str, float]) -> None:
        """Use other numbers from the next step on.

        Args:
            params_dict: of "lr", "eps", "beta1", "beta2", "weight_decay" and "lower_bound", those that change.

        Raises:
            ValueError: another name; nothing is changed then.
        """
        known = {"lr", "eps", "beta1", "beta2", "weight_decay", "lower_bound"}
        if unknown := sorted(params_dict.keys() - known):
            raise OptionError(
                f"params_dict has {', '.join(unknown)}; what can be changed are {', '.join(sorted(known))}."
            )
        for name, value in params_dict.items():
            if name == "lr":
                self.set_learning_rate(value)
            else:
                self._options[name] = value

    def register_backward_hook_before_eviction(self, backward_hook: Callable[[Tensor], None]) -> None:
        """Call a function with the gradient of the output before rows are trained by it.

        Args:
            backward_hook: that function.
        """
        self._hook_before = backward_hook

    # ----- counts -----------------------------------------------------------------------------------------------------

    def get_ssd_cache_stats(self) -> Tensor:
        """What became of rows that were asked for, by `UVMCacheStatsIndex`: (6,) int64, since the beginning."""
        counts, found = self.tables.counts, torch.zeros(len(UVMCacheStatsIndex), dtype=torch.int64)
        found[UVMCacheStatsIndex.num_calls] = counts.calls
        found[UVMCacheStatsIndex.num_requested_indices] = counts.requested
        found[UVMCacheStatsIndex.num_unique_indices] = counts.unique
        found[UVMCacheStatsIndex.num_unique_misses] = counts.misses
        return found

    def _report(self) -> None:
        reporter, counts = self.stats_reporter, self.tables.counts
        if not self.gather_ssd_cache_stats or reporter is None or not reporter.should_report(self.step):
            return
        for name, value in (
            (DramSsdPerfStat.SSD_NUM_LOOKUPS, counts.unique),
            (DramSsdPerfStat.SSD_NUM_HITS, counts.unique - counts.misses),
            (DramSsdPerfStat.SSD_NUM_WRITES, counts.written),
        ):
            reporter.report_data_amount(self.step, name.value, value, tbe_id=str(self.folder))

    def extra_repr(self) -> str:
        """Tables, features, optimizer and folder."""
        tables = ", ".join(f"{rows} x {dim}" for rows, dim in self.embedding_specs)
        return f"tables [{tables}] in {self.folder}, features {self.feature_table_map}, {self.optimizer}"


def _of_tables(value: float | Sequence[float], count: int) -> Sequence[float]:
    return [float(value)] * count if isinstance(value, int | float) else value
