"""Embedding tables that are looked up together, and trained by the optimizer in their backward pass."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._cached_tables import CachedTables, CacheOptions
from flambeau.rec.fbgemm_gpu._dense_training import DenseTableBatchedEmbeddingBagsCodegen
from flambeau.rec.fbgemm_gpu._optimizer_options import CHANGEABLE, OptimizerOptions
from flambeau.rec.fbgemm_gpu._slow_copies import average_and_swap, average_in_place
from flambeau.rec.fbgemm_gpu._split_state import (
    Spec,
    apply_split_helper,
    construct_split_state,
    get_available_compute_device,
    one_piece,
)
from flambeau.rec.fbgemm_gpu._training_layout import BY_ELEMENT, STATE_NAMES, elements_by_rank
from flambeau.rec.fbgemm_gpu._writeback import only_first_gradients
from flambeau.rec.fbgemm_gpu.split_embedding_codegen_lookup_invokers.lookup_args import VBEMetadata
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training_common import (
    check_allocated_vbe_output,
    generate_vbe_metadata,
)
from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import (
    CacheAlgorithm,
    MultiPassPrefetchConfig,
    UVMCacheStatsIndex,
)
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import (
    BoundsCheckMode,
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
    RecordCacheMetrics,
)
from flambeau.rec.fbgemm_gpu.tbe.config.optimizer_config import (
    CounterBasedRegularizationDefinition,
    CowClipDefinition,
    DoesNotHavePrefix,
    EmainplaceModeDefinition,
    EnsembleModeDefinition,
    GlobalWeightDecayDefinition,
    StepMode,
    UserEnabledConfigDefinition,
    WeightDecayMode,
)
from flambeau.rec.ops import tbe

__all__ = [
    "BoundsCheckMode",
    "CacheAlgorithm",
    "ComputeDevice",
    "DenseTableBatchedEmbeddingBagsCodegen",
    "EmbeddingLocation",
    "PoolingMode",
    "PrefetchedInfo",
    "RESParams",
    "SplitTableBatchedEmbeddingBagsCodegen",
    "UVMCacheStatsIndex",
    "WeightDecayMode",
    "apply_split_helper",
    "construct_split_state",
    "get_available_compute_device",
]


@dataclass
class RESParams:
    """Where rows that were trained are streamed to.

    Args:
        res_server_port: of the server, on this machine.
        res_store_shards: of its store.
        table_names: of all tables.
        table_offsets: number of each table's first row.
        table_sizes: rows of each.
    """

    res_server_port: int = 0
    res_store_shards: int = 1
    table_names: list[str] = field(default_factory=list)
    table_offsets: list[int] = field(default_factory=list)
    table_sizes: list[int] = field(default_factory=list)


@dataclass
class PrefetchedInfo:
    """The distinct rows of a batch that was fetched.

    Args:
        linear_unique_indices: (L,) numbers among all rows, of which the first ones count.
        linear_unique_cache_indices: (L,) slots of the cache.
        linear_unique_indices_length: (1,) how many count.
        hash_zch_identities: what rows stand for, where ids were hashed.
        hash_zch_runtime_meta: what is kept of each.
    """

    linear_unique_indices: Tensor
    linear_unique_cache_indices: Tensor
    linear_unique_indices_length: Tensor
    hash_zch_identities: Tensor | None
    hash_zch_runtime_meta: Tensor | None


class SplitTableBatchedEmbeddingBagsCodegen(CachedTables):
    """Tables of embeddings whose rows are pooled over bags, and trained in the backward pass.

    Args:
        embedding_specs: (rows, columns, location, device) of each table. Tables in MANAGED and MANAGED_CACHING memory
            are in that of the host, the latter with a cache on the device; without an accelerator that is the same
            memory. All tables are in one piece of memory, the slowest that one of them asks for.
        feature_table_map: the table of each feature, in any order; one feature for each table by default.
        cache_algorithm: which row gives way in a cache.
        cache_load_factor: what part of all cached tables' rows it holds.
        cache_sets: its sets of 32 rows, in place of that.
        cache_reserved_memory: bytes of the device's free memory that it leaves.
        cache_precision: of its rows; that of the tables by default.
        weights_precision: of the tables: FP32, FP16 or BF16.
        output_dtype: of the result: FP32, FP16 or BF16.
        enforce_hbm: whether managed memory is the device's nevertheless.
        optimizer: what trains the tables.
        record_cache_metrics: which misses of the cache are counted, see `get_cache_miss_counter`.
        gather_uvm_cache_stats: whether the cache counts its calls, see `get_uvm_cache_stats`.
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
        ensemble_mode: options of ENSEMBLE_ROWWISE_ADAGRAD.
        emainplace_mode: options of EMAINPLACE_ROWWISE_ADAGRAD.
        counter_based_regularization: options where `weight_decay_mode` is COUNTER.
        cowclip_regularization: options where it is COWCLIP.
        pooling_mode: sum, mean, or none: then each index gives a row, and all tables are equally wide.
        device: where tables are; the CPU for locations on the host.
        bounds_check_mode: what becomes of indices outside of their tables.
        uvm_non_rowwise_momentum: whether what an optimizer keeps of elements is in managed memory.
        use_experimental_tbe: without effect; there is one kernel.
        prefetch_pipeline: whether rows that were fetched stay in the cache until their batch was trained.
        stats_reporter_config: its `create_reporter()` makes what is told the cache's counts.
        table_names: for messages.
        optimizer_state_dtypes: "momentum1" and "momentum2", what an optimizer keeps, in FP32 (as by default), FP16 or
            BF16.
        multipass_prefetch_config: how a large prefetch is cut.
        global_weight_decay: options where `weight_decay_mode` is DECOUPLE_GLOBAL.
        uvm_host_mapped: without effect; managed memory is the host's.
        extra_optimizer_config: options that are off unless asked for.
        tbe_input_multiplexer_config: kept, not used.
        embedding_table_index_type: of indices; others are taken as well.
        embedding_table_offset_type: of offsets; others are taken as well.
        embedding_shard_info: (rows, columns, rows of the whole, columns of the whole) of each table. Kept, not used.
        enable_raw_embedding_streaming: whether rows that were trained are streamed to a server. There is none.
        res_params: of the server.
        is_qr_tbe: whether tables hold quotients and remainders of ids. Kept, not used.
        preallocated_host_buffers: memory on the host for "weights", "momentum1", ..., in place of new.

    Raises:
        OptionError: tables, features or options that do not fit together.
    """

    iter: Tensor
    max_counter: Tensor
    feature_dims: Tensor

    def __init__(
        self,
        embedding_specs: list[Spec],
        feature_table_map: list[int] | None = None,
        cache_algorithm: CacheAlgorithm = CacheAlgorithm.LRU,
        cache_load_factor: float = 0.2,
        cache_sets: int = 0,
        cache_reserved_memory: float = 0.0,
        cache_precision: SparseType | None = None,
        weights_precision: SparseType = SparseType.FP32,
        output_dtype: SparseType = SparseType.FP32,
        enforce_hbm: bool = False,
        optimizer: EmbOptimType = EmbOptimType.EXACT_SGD,
        record_cache_metrics: RecordCacheMetrics | None = None,
        gather_uvm_cache_stats: bool | None = False,
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
        ensemble_mode: EnsembleModeDefinition | None = None,
        emainplace_mode: EmainplaceModeDefinition | None = None,
        counter_based_regularization: CounterBasedRegularizationDefinition | None = None,
        cowclip_regularization: CowClipDefinition | None = None,
        pooling_mode: PoolingMode = PoolingMode.SUM,
        device: str | int | torch.device | None = None,
        bounds_check_mode: BoundsCheckMode = BoundsCheckMode.WARNING,
        uvm_non_rowwise_momentum: bool = False,
        use_experimental_tbe: bool = False,
        prefetch_pipeline: bool = False,
        stats_reporter_config: Any = None,
        table_names: list[str] | None = None,
        optimizer_state_dtypes: dict[str, SparseType] | None = None,
        multipass_prefetch_config: MultiPassPrefetchConfig | None = None,
        global_weight_decay: GlobalWeightDecayDefinition | None = None,
        uvm_host_mapped: bool = False,
        extra_optimizer_config: UserEnabledConfigDefinition | None = None,
        tbe_input_multiplexer_config: Any = None,
        embedding_table_index_type: torch.dtype = torch.int64,
        embedding_table_offset_type: torch.dtype = torch.int64,
        embedding_shard_info: list[tuple[int, int, int, int]] | None = None,
        enable_raw_embedding_streaming: bool = False,
        res_params: RESParams | None = None,
        is_qr_tbe: bool = False,
        preallocated_host_buffers: dict[str, Tensor] | None = None,
    ) -> None:
        self._optimizer_options = OptimizerOptions(
            optimizer,
            {
                "eps": eps, "weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "momentum": momentum,
                "eta": eta, "max_norm": max_norm,
            },
            stochastic_rounding,
            gradient_clipping,
            max_gradient,
            weight_decay_mode,
            counter_based_regularization,
            cowclip_regularization,
            global_weight_decay,
            extra_optimizer_config or UserEnabledConfigDefinition(),
        )  # fmt: skip
        if enable_raw_embedding_streaming:
            raise OptionError(
                "enable_raw_embedding_streaming needs a server that takes rows, which does not come with this library; "
                "read rows that were trained from split_embedding_weights()."
            )
        super().__init__(
            [(rows, dim) for rows, dim, _, _ in embedding_specs],
            feature_table_map,
            weights_precision,
            output_dtype,
            pooling_mode,
            bounds_check_mode,
            table_names,
        )
        self.embedding_specs, self.optimizer, self.weight_decay_mode = embedding_specs, optimizer, weight_decay_mode
        devices = {device for _, _, _, device in embedding_specs}
        if len(devices) > 1:
            raise OptionError(f"embedding_specs has devices {sorted(one.name for one in devices)}, expected one.")
        on_gpu = devices == {ComputeDevice.CUDA} and device is None and torch.cuda.is_available()
        self.current_device = torch.device("cuda" if on_gpu else "cpu" if device is None else device)
        self.use_cpu, self.use_mtia = self.current_device.type in ("cpu", "meta"), devices == {ComputeDevice.MTIA}
        self.is_nobag, self.stochastic_rounding = pooling_mode == PoolingMode.NONE, stochastic_rounding
        self.enforce_hbm, self.uvm_host_mapped = enforce_hbm, uvm_host_mapped
        self.is_experimental, self.is_qr_tbe = use_experimental_tbe, is_qr_tbe
        self.embedding_table_index_type = embedding_table_index_type
        self.embedding_table_offset_type = embedding_table_offset_type
        self.embedding_shard_info, self.res_params = embedding_shard_info, res_params
        self.enable_raw_embedding_streaming, self.int8_emb_row_dim_offset = False, 8
        self.bounds_check_version, self.step = 1, 0
        self._register_facts()
        self._make_memory(optimizer_state_dtypes or {}, uvm_non_rowwise_momentum, preallocated_host_buffers or {})
        self._set_up_cache(
            [place for _, _, place, _ in embedding_specs],
            CacheOptions(
                cache_algorithm,
                cache_load_factor,
                cache_sets,
                cache_reserved_memory,
                cache_precision or weights_precision,
                record_cache_metrics or RecordCacheMetrics(),
                bool(gather_uvm_cache_stats),
                prefetch_pipeline,
                multipass_prefetch_config,
                stochastic_rounding,
            ),
        )
        self.optimizer_args = self._optimizer_options.args(self.total_hash_size)
        self.learning_rate_tensor = torch.tensor(learning_rate, dtype=torch.float32)
        self._learning_rate = learning_rate
        self.iter_cpu = torch.zeros(1, dtype=torch.int64)
        self.gwd_start_iter, self.gwd_lower_bound = 0, 0.0
        if self._optimizer_options.global_decay is not None:
            decay = self._optimizer_options.global_decay
            self.gwd_start_iter, self.gwd_lower_bound = decay.start_iter, decay.lower_bound
        self._set_up_averages(ensemble_mode or EnsembleModeDefinition(), emainplace_mode or EmainplaceModeDefinition())
        self._batch: tuple[Tensor, Tensor] | None = None
        self.stats_reporter = None if stats_reporter_config is None else stats_reporter_config.create_reporter()
        self.tbe_input_multiplexer_config = tbe_input_multiplexer_config

    # --- memory -------------------------------------------------------------------------------------------------------

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor)

    def _register_facts(self) -> None:
        """What a batch is told about tables, by the names that programs read."""
        layout, tables = self._layout, self.feature_table_map
        device = self.current_device
        rows = [count for count, _ in layout.shapes]
        widths = [self.dims[table] for table in tables]
        self.max_D, self.mixed_D = max(self.dims, default=0), len(set(self.dims)) > 1
        self.total_hash_size = sum(rows)
        self.total_hash_size_bits = max(self.total_hash_size - 1, 0).bit_length()
        starts = [layout.table_rows[table] for table in tables]
        self._keep("D_offsets", torch.tensor(layout.column_ends, dtype=torch.int32, device=device))
        self._keep("hash_size_cumsum", torch.tensor([*starts, self.total_hash_size], device=device))
        self._keep("rows_per_table", torch.tensor([rows[table] for table in tables], dtype=torch.int64, device=device))
        self._keep("bounds_check_warning", torch.zeros(1, dtype=torch.int64, device=device))
        self._keep("feature_dims", torch.tensor(widths, dtype=torch.int64))

    def _make_memory(self, dtypes: dict[str, SparseType], managed_momentum: bool, buffers: dict[str, Tensor]) -> None:
        self._uvm_tensors_log: list[str] = []
        specs, options, kind = self.embedding_specs, self._optimizer_options, self.optimizer
        wanted = {"weights": (True, self.weights_precision.as_dtype())}
        for at, by_element in enumerate(BY_ELEMENT[kind], 1):
            wanted[f"momentum{at}"] = (by_element, dtypes.get(f"momentum{at}", SparseType.FP32).as_dtype())
        if options.counts_rows or options.decays_globally:
            wanted["prev_iter"] = (False, torch.float32)
        if options.counts_rows or options.corrects_by_row:
            wanted["row_counter"] = (False, torch.float32)
        self._check_names("optimizer_state_dtypes", dtypes, wanted.keys() - {"weights"})
        self._check_names("preallocated_host_buffers", buffers, wanted.keys())
        for name, (_, dtype) in wanted.items():
            if dtype not in (torch.float32, torch.float16, torch.bfloat16):
                raise OptionError(f"optimizer_state_dtypes has {dtype} for {name!r}; choose FP32, FP16 or BF16.")
        self._names: dict[str, str] = {}
        for name, (by_element, dtype) in wanted.items():
            managed = EmbeddingLocation.MANAGED if name != "weights" and by_element and managed_momentum else None
            split = one_piece(specs, rowwise=not by_element, placement=managed)
            where = "dev" if split.dev_size else "uvm" if split.uvm_size else "host"
            split.host_size = max(split.host_size, 0)
            self._names[name] = f"{name}_{where}"
            whole = (self.total_hash_size, self.max_D)
            apply_split_helper(
                self._keep, lambda key, value: setattr(self, key, value), self.current_device, True,
                self.feature_table_map, split, name, dtype, self.enforce_hbm, make_dev_param=True,
                dev_reshape=whole if kind == EmbOptimType.NONE and name == "weights" else None,
                uvm_tensors_log=self._uvm_tensors_log, uvm_host_mapped=self.uvm_host_mapped,
                preallocated_host_buffer=buffers.get(name),
            )  # fmt: skip
            if name != "weights":
                self._memory(name).requires_grad_(False)
        self.weights_name = self._names["weights"]
        if kind == EmbOptimType.NONE:
            if self.mixed_D:
                raise OptionError(f"without an optimizer all tables are equally wide; they have {self.dims} columns.")
            weights = self._memory("weights").detach().view(self.total_hash_size, self.max_D)
            setattr(self, self.weights_name, nn.Parameter(weights))
        self.register_buffer("max_counter", torch.ones(1), persistent=options.counts_rows)
        self.register_buffer("iter", torch.zeros(1, dtype=torch.int64), persistent=options.keeps_step)

    def _check_names(self, argument: str, given: dict[str, Any], known: Any) -> None:
        if unknown := sorted(given.keys() - known):
            raise OptionError(
                f"{argument} has {', '.join(unknown)}; {self.optimizer.name} has {', '.join(sorted(known)) or 'none'}."
            )

    def _memory(self, name: str) -> Tensor:
        found: Tensor = getattr(self, self._names[name]) if name in self._names else torch.zeros(0)
        return found

    def _parts(self, name: str) -> list[Tensor]:
        """A view of each table, or of what the optimizer keeps of each under a name."""
        numbers = {f"momentum{at}": one for at, one in enumerate(BY_ELEMENT[self.optimizer], 1)}
        by_element = numbers.get(name, name == "weights")
        return self._layout.split(self._memory(name).detach().view(-1), by_element=by_element)

    def get_states(self, prefix: str) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Memory of all tables, or of what the optimizer keeps of them.

        Args:
            prefix: "weights", "momentum1", ...

        Returns:
            On the device, on the host, managed; place and beginning of each table.

        Raises:
            DoesNotHavePrefix: the optimizer keeps nothing of the name.
        """
        if prefix not in self._names:
            raise DoesNotHavePrefix(f"there is no {prefix!r}; there is {', '.join(self._names)}.")
        dev, host, uvm = (getattr(self, f"{prefix}_{part}") for part in ("dev", "host", "uvm"))
        placements = [int(place) for place in getattr(self, f"{prefix}_physical_placements")]
        offsets = getattr(self, f"{prefix}_physical_offsets")
        return dev, host, uvm, torch.tensor(placements, dtype=torch.int32), torch.tensor(offsets, dtype=torch.int64)

    def get_all_states(self) -> list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]:
        """`get_states` of the tables, and of all that the optimizer keeps."""
        return [self.get_states(name) for name in self._names]

    # --- looking up ---------------------------------------------------------------------------------------------------

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor,
        per_sample_weights: Tensor | None = None,
        feature_requires_grad: Tensor | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
        total_unique_indices: int | None = None,
        hash_zch_identities: Tensor | None = None,
        hash_zch_runtime_meta: Tensor | None = None,
        vbe_output: Tensor | None = None,
        vbe_output_offsets: Tensor | None = None,
    ) -> Tensor:
        """Pool the rows of each bag.

        Args:
            indices: (L,) int32 or int64, feature-major.
            offsets: (features * B + 1,) int32 or int64.
            per_sample_weights: (L,): a factor for each index.
            feature_requires_grad: (features,), 0 where the feature does not train its table.
            batch_size_per_feature_per_rank: examples of each feature and process, where they differ.
            total_unique_indices: how many rows are looked up. A hint that is not needed here.
            hash_zch_identities: what rows are streamed with. Not looked at.
            hash_zch_runtime_meta: what rows are streamed with. Not looked at.
            vbe_output: (numbers,) of `output_dtype`, which the result is written into, with
                `batch_size_per_feature_per_rank`; several modules may write into one, whose gradients go to each.
            vbe_output_offsets: (processes, features) where in it each process and feature begins.

        Returns:
            (B, columns of all features); (L, columns) without pooling; flat, process after process, with
            `batch_size_per_feature_per_rank`; `vbe_output` where that is given.

        Raises:
            RuntimeError: sizes that do not fit together, or an index outside of its table where that is fatal.
        """
        sizes = batch_size_per_feature_per_rank
        if vbe_output is not None or vbe_output_offsets is not None:
            check_allocated_vbe_output(self.output_dtype, sizes, vbe_output, vbe_output_offsets)
        lookup, shape = self._lookup(self._weights, indices, offsets, per_sample_weights, sizes)
        self.__dict__["step"] += 1  # past `nn.Module.__setattr__`, which takes as long as a small look-up
        output = self._looked_up(lookup, shape, feature_requires_grad, sizes)
        if self._optimizer_options.extra.use_writeback_bwd_prehook:
            batch = self._batch = lookup.indices, lookup.offsets[lookup.bag_starts]
            if output.requires_grad:
                output.register_hook(lambda gradient: self._written_once(gradient, *batch))
        if self.output_dtype:  # of look-ups is 0, float32
            output = output.to(SparseType.from_int(self.output_dtype).as_dtype())
        if vbe_output is None or vbe_output_offsets is None or sizes is None:
            return output
        widths = [self.dims[table] for table in self.feature_table_map]
        return vbe_output.index_copy_(0, elements_by_rank(sizes, widths, vbe_output_offsets), output)

    def _looked_up(
        self,
        lookup: tbe.Lookup,
        shape: tuple[int, ...],
        feature_requires_grad: Tensor | None,
        sizes: list[list[int]] | None,
    ) -> Tensor:
        options = self._optimizer_options
        differentiated = torch.is_grad_enabled()
        learns = self.training or differentiated
        find_slots, when_done = self._enter(lookup.indices, lookup.offsets, sizes)
        if find_slots is not None:
            lookup = replace(lookup, cache=self.lxu_cache_weights, find_slots=find_slots)
        if self.optimizer == EmbOptimType.NONE:
            return tbe.lookup(
                lookup, shape, feature_requires_grad=feature_requires_grad, sparse=True, max_gradient=options.limit
            )
        if learns and options.counts_steps:
            self._count_step()
        decays = options.decays_globally and self.training
        factors = lookup.bag_weights
        differentiated &= lookup.weights.requires_grad or (factors is not None and factors.requires_grad)
        if differentiated or decays:
            settings = options.settings(
                self.optimizer_args, lr=self._learning_rate, iteration=self._iteration, seed=self.step,
                max_counter=float(self.max_counter) if options.counts_rows else 1.0,
            )  # fmt: skip
        missed = self._missed_decay(lookup, settings) if decays else None
        if differentiated:
            output = tbe.lookup_and_train(
                lookup,
                shape,
                self._states(),
                settings,
                feature_requires_grad=feature_requires_grad,
                max_gradient=options.limit,
                row_factors=missed,
                when_done=when_done,
            )
        else:
            output = tbe.pool(lookup, shape, missed)
        if when_done is not None and not output.requires_grad:
            when_done()
        self._report()
        return output

    @property
    def _iteration(self) -> int:
        return int(self.iter)

    def _count_step(self) -> None:
        self.iter.add_(1)
        options = self._optimizer_options
        if self.optimizer == EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD:
            self.ema_inplace(self._emainplace_mode)
        elif self.optimizer == EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD:
            self.ensemble_and_swap(self._ensemble_mode)
        if options.counters is not None:
            every = options.counters.max_counter_update_freq
            if every > 0 and self._iteration % every == 0 and self.total_hash_size:
                self.max_counter[0] = self._memory("row_counter").max() + 1

    def _missed_decay(self, lookup: tbe.Lookup, settings: tbe.OptimizerSettings) -> Tensor:
        """(L,): what the row of each index decayed by since it was updated last."""
        bases = torch.repeat_interleave(self._layout.rows, lookup.offsets[lookup.bag_starts].diff().cpu())
        before = self._memory("prev_iter")[lookup.indices.long() + bases.to(lookup.indices.device)]
        return tbe.missed_decay(before, settings)

    def _states(self) -> tbe.OptimizerStates:
        by_element = (False,) if self.optimizer == EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD else BY_ELEMENT[self.optimizer]
        offsets = [self._layout.elements if one else self._layout.rows for one in by_element]
        kept = {name: self._memory(name) for name in self._names if name != "weights"}
        return tbe.OptimizerStates(
            kept.get("momentum1"),
            offsets[0] if offsets else None,
            kept.get("momentum2") if len(offsets) > 1 else None,
            offsets[1] if len(offsets) > 1 else None,
            kept.get("prev_iter"),
            kept.get("row_counter"),
            self._layout.rows,
        )

    def _report(self) -> None:
        reporter = self.stats_reporter
        if reporter is None or not self.gather_uvm_cache_stats or not reporter.should_report(self.step):
            return
        for place in UVMCacheStatsIndex:
            reporter.report_data_amount(self.step, f"tbe.cache.{place.name}", int(self.uvm_cache_stats[place]))

    def prepare_inputs(
        self,
        indices: Tensor,
        offsets: Tensor,
        per_sample_weights: Tensor | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
        force_cast_input_types: bool = True,
        prefetch_pipeline: bool = False,
        vbe_output: Tensor | None = None,
        vbe_output_offsets: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None, VBEMetadata]:
        """A batch as tables look it up: of fitting dtypes, its indices within bounds.

        Args:
            indices: see `forward`.
            offsets: see `forward`.
            per_sample_weights: see `forward`.
            batch_size_per_feature_per_rank: see `forward`.
            force_cast_input_types: whether factors become float32; offsets take the dtype of indices in any case.
            prefetch_pipeline: whether the batch is for `prefetch`. Without effect.
            vbe_output: see `forward`.
            vbe_output_offsets: see `forward`.

        Returns:
            Indices, offsets and factors; where bags lie, see `VBEMetadata`.

        Raises:
            RuntimeError: see `forward`.
        """
        sizes = batch_size_per_feature_per_rank
        metadata = generate_vbe_metadata(
            offsets, sizes, self.pooling_mode, self.feature_dims, self.current_device, vbe_output, vbe_output_offsets
        )
        indices, offsets = self._checked(indices, offsets, sizes)
        if force_cast_input_types and per_sample_weights is not None:
            per_sample_weights = per_sample_weights.float()
        return indices, offsets.to(indices.dtype), per_sample_weights, metadata

    def writeback_hook(self, module: Any, grad: tuple[Tensor]) -> tuple[Tensor]:
        """Leave each row the first of its gradients; without `use_writeback_bwd_prehook`, leave all.

        Args:
            module: this one.
            grad: of what was looked up last.

        Returns:
            Alike.

        Raises:
            OptionError: bags have other than one index.
        """
        if not self._optimizer_options.extra.use_writeback_bwd_prehook or self._batch is None:
            return grad
        return (self._written_once(grad[0], *self._batch),)

    def _written_once(self, gradient: Tensor, indices: Tensor, ends: Tensor) -> Tensor:
        by_first = self._optimizer_options.extra.writeback_first_feature_only
        bases = torch.repeat_interleave(self._layout.rows, ends.diff().cpu()).to(indices.device)
        widths = None if self.is_nobag else [self.dims[table] for table in self.feature_table_map]
        return only_first_gradients(gradient, indices.long() + bases, ends.tolist(), widths, by_first_feature=by_first)

    def raw_embedding_stream(self) -> None:
        """Stream rows that were trained; there is no server to stream to."""

    def should_log(self) -> bool:
        """Whether statistics of this step are wanted: with a cache, of steps 1, 2, 4, 8, ... and each 1024th."""
        step = self.step
        return self._is_cached and step > 0 and (step % 1024 == 0 or step & (step - 1) == 0)

    # --- averages -----------------------------------------------------------------------------------------------------

    def _set_up_averages(self, ensemble: EnsembleModeDefinition, in_place: EmainplaceModeDefinition) -> None:
        self._ensemble_mode = {name: float(value) for name, value in asdict(ensemble).items()}
        self._emainplace_mode = {name: float(value) for name, value in asdict(in_place).items()}
        if self.optimizer == EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD and any(dim % 2 for dim in self.dims):
            raise OptionError(f"EMAINPLACE_ROWWISE_ADAGRAD averages halves of rows; tables have {self.dims} columns.")
        if self.optimizer == EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD and ensemble.step_mode == StepMode.USE_COUNTER:
            raise OptionError("ensemble_mode has step_mode USE_COUNTER; averages go by steps, which is USE_ITER.")

    def ema_inplace(self, emainplace_mode: dict[str, float]) -> None:
        """Move the second half of each row towards the first, in steps in which that is due.

        Args:
            emainplace_mode: the fields of `EmainplaceModeDefinition` by name.
        """
        with torch.no_grad():
            average_in_place(self.split_embedding_weights(), self._iteration, emainplace_mode)

    def ensemble_and_swap(self, ensemble_mode: dict[str, float]) -> None:
        """Take tables into their averages, and those into their place, in steps in which that is due.

        Args:
            ensemble_mode: the fields of `EnsembleModeDefinition` by name.

        Raises:
            OptionError: the optimizer keeps no averages.
        """
        if self.optimizer != EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD:
            raise OptionError(f"{self.optimizer.name} keeps no averages; ENSEMBLE_ROWWISE_ADAGRAD does.")
        with torch.no_grad():
            average_and_swap(self.split_embedding_weights(), self._parts("momentum2"), self._iteration, ensemble_mode)

    # --- tables and optimizer -----------------------------------------------------------------------------------------

    def split_embedding_weights(self) -> list[Tensor]:
        """A view of each table, (rows, columns); rows in a cache are written back before."""
        self._give_away()
        return self._parts("weights")

    def split_optimizer_states(self) -> list[list[Tensor]]:
        """Of each table, views of what the optimizer keeps: (rows,) or (rows, columns); empty if that is nothing."""
        parts = [self._parts(name) for name in self._names if name != "weights"]
        return [list(states) for states in zip(*parts, strict=True)]

    def get_optimizer_state(self) -> list[dict[str, Tensor]]:
        """Of each table, what the optimizer keeps, by name; empty if that is nothing."""
        names = [*STATE_NAMES.get(self.optimizer, ()), *(n for n in ("prev_iter", "row_counter") if n in self._names)]
        return [dict(zip(names, states, strict=True)) for states in self.split_optimizer_states()]

    def init_embedding_weights_uniform(self, min_val: float, max_val: float) -> None:
        """Fill all tables with random numbers between two.

        Raises:
            RuntimeError: the first is above the second.
        """
        self.reset_cache_states()
        with torch.no_grad():
            self._weights.uniform_(min_val, max_val)

    def set_learning_rate(self, lr: float) -> None:
        """Use another learning rate from the next step on."""
        self._learning_rate = lr
        self.learning_rate_tensor.fill_(lr)

    def get_learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self._learning_rate

    def update_hyper_parameters(self, params_dict: dict[str, float]) -> None:
        """Use other numbers from the next step on.

        Args:
            params_dict: of "lr", "eps", "beta1", "beta2", "weight_decay" and "lower_bound", those that change.

        Raises:
            ValueError: another name; nothing is changed then.
        """
        if unknown := sorted(params_dict.keys() - {"lr", *CHANGEABLE}):
            raise UnknownHyperParameter(
                f"params_dict has {', '.join(unknown)}; what can be changed are lr, {', '.join(sorted(CHANGEABLE))}."
            )
        changes = {name: value for name, value in params_dict.items() if name != "lr"}
        if "lr" in params_dict:
            self.set_learning_rate(params_dict["lr"])
        if "lower_bound" in changes and self._optimizer_options.global_decay is not None:
            decay = self._optimizer_options.global_decay
            self._optimizer_options.global_decay = GlobalWeightDecayDefinition(decay.start_iter, changes["lower_bound"])
            self.gwd_lower_bound = changes["lower_bound"]
        self.optimizer_args = self.optimizer_args._replace(**changes)  # type: ignore[arg-type]

    def reset_embedding_weight_momentum(
        self,
        pruned_indices: Tensor,
        pruned_indices_offsets: Tensor,
        logical_table_ids: Tensor,
        buffer_ids: Tensor,
    ) -> None:
        """Make rows, and what the optimizer keeps of them, zero: what was pruned starts anew.

        Args:
            pruned_indices: (rows,) rows of tables, table after table.
            pruned_indices_offsets: (tables + 1,) where those of each table begin, and the last's end.
            logical_table_ids: (tables,) numbers of the tables before any were split.
            buffer_ids: (tables,) which of the tables here each one is.

        Raises:
            RuntimeError: sizes that do not fit together, or a row or table that there is not.
        """
        ends, tables = pruned_indices_offsets.tolist(), buffer_ids.tolist()
        if not len(tables) == len(ends) - 1 == logical_table_ids.numel() or ends[-1] != pruned_indices.numel():
            raise RuntimeError(
                f"{len(tables)} buffer_ids, {logical_table_ids.numel()} logical_table_ids, {len(ends)} offsets up to "
                f"{ends[-1] if ends else 0} and {pruned_indices.numel()} pruned_indices do not fit together."
            )
        weights = self.split_embedding_weights()
        states = self.split_optimizer_states() or [[] for _ in weights]
        chosen = list(zip(tables, pruned_indices.split([b - a for a, b in pairwise(ends)]), strict=True))
        for table, rows in chosen:
            if not 0 <= table < len(weights):
                raise RuntimeError(f"buffer_ids has {table}, expected 0 to {len(weights) - 1}.")
            if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < len(weights[table]):
                raise RuntimeError(
                    f"pruned_indices of {self._name_of(table)} are not all below its {len(weights[table])} rows."
                )
        for table, rows in chosen:
            for tensor in (weights[table], *states[table]):
                tensor[rows.long()] = 0

    def get_optimizer_buffer(self, state: str) -> Tensor:
        """What the optimizer keeps of all tables together.

        Args:
            state: "iter", how many steps were taken.

        Raises:
            ValueError: there is no such buffer.
        """
        if state != "iter":
            raise ValueError(f"there is no optimizer buffer {state!r}; there is 'iter'.")
        return self.iter

    def set_optimizer_step(self, step: int) -> None:
        """Count steps from here."""
        self.iter.fill_(step)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # Upstream: checkpoints have an empty tensor that its autograd needs.
        state_dict.pop(f"{prefix}placeholder_autograd_tensor", None)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """Tables, features and optimizer."""
        tables = ", ".join(f"{rows} x {dim}" for rows, dim, _, _ in self.embedding_specs)
        return f"tables [{tables}], features {self.feature_table_map}, {self.pooling_mode.name}, {self.optimizer}"


class UnknownHyperParameter(ValueError, NotImplementedError):
    """An optimizer has no such number; a NotImplementedError as well, which is what upstream raises."""
