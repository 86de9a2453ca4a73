"""Tables for inference of which only the rows that were written take memory."""

from __future__ import annotations

from itertools import accumulate, pairwise
from types import SimpleNamespace

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._inference_layout import (
    DEFAULT_SCALE_BIAS_SIZE_IN_BYTES,
    SCALED,
    Spec,
    parts_of_rows,
    rounded_row_size_in_bytes,
)
from flambeau.rec.fbgemm_gpu.split_embedding_configs import FP8QuantizationConfig, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.fbgemm_gpu.tbe.cache._byte_rows import ByteRows
from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import CacheAlgorithm
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode, PoolingMode, RecordCacheMetrics
from flambeau.rec.fbgemm_gpu.tbe.utils.quantize import quantize_embs
from flambeau.rec.ops import tbe_inference
from flambeau.rec.ops.cache_indices import linearize_cache_indices

__all__ = ["KVEmbeddingInference"]

_LOWEST, _HIGHEST = -0.01, 0.01
_READ = (
    "weights_dev", "weights_uvm", "weights_placements", "weights_tys", "D_offsets", "total_D", "pooling_mode",
    "output_dtype", "row_alignment", "fp8_exponent_bits", "fp8_exponent_bias", "max_int2_D", "max_int4_D", "max_int8_D",
    "max_float8_D", "max_float16_D", "max_float32_D",
)  # fmt: skip


class KVEmbeddingInference(IntNBitTableBatchedEmbeddingBagsCodegen):
    """Tables of bytes in a key-value store, whose rows are pooled over bags.

    Rows are written while others look up, and leave again by when they were last written. A row that was never written
    is uniform in [-0.01, 0.01), the same at every look-up, or zeros in a cache of embeddings.

    Args:
        embedding_specs: (name, rows, columns, elements, location) of each table; rows cost nothing unless written.
        feature_table_map: see `IntNBitTableBatchedEmbeddingBagsCodegen`, as all that follow.
        index_remapping: likewise.
        pooling_mode: likewise.
        device: likewise; rows are kept on the host, and taken there.
        bounds_check_mode: likewise.
        weight_lists: likewise.
        pruning_hash_load_factor: likewise.
        use_array_for_index_remapping: likewise.
        output_dtype: likewise.
        cache_algorithm: likewise.
        cache_load_factor: likewise.
        cache_sets: likewise.
        cache_reserved_memory: likewise.
        enforce_hbm: likewise.
        record_cache_metrics: likewise.
        gather_uvm_cache_stats: likewise.
        row_alignment: likewise.
        fp8_exponent_bits: likewise.
        fp8_exponent_bias: likewise.
        cache_assoc: likewise.
        scale_bias_size_in_bytes: likewise.
        cacheline_alignment: likewise.
        uvm_host_mapped: likewise.
        reverse_qparam: likewise.
        feature_names_per_table: likewise.
        indices_dtype: likewise.
        embedding_cache_mode: whether rows that were never written are zeros.

    Raises:
        AssertionError: tables, features or options that do not fit together; it is a ValueError too.
    """

    def __init__(
        self,
        embedding_specs: list[Spec],
        feature_table_map: list[int] | None = None,
        index_remapping: list[Tensor] | None = None,
        pooling_mode: PoolingMode = PoolingMode.SUM,
        device: str | int | torch.device | None = None,
        bounds_check_mode: BoundsCheckMode = BoundsCheckMode.WARNING,
        weight_lists: list[tuple[Tensor, Tensor | None]] | None = None,
        pruning_hash_load_factor: float = 0.5,
        use_array_for_index_remapping: bool = True,
        output_dtype: SparseType = SparseType.FP16,
        cache_algorithm: CacheAlgorithm = CacheAlgorithm.LRU,
        cache_load_factor: float = 0.2,
        cache_sets: int = 0,
        cache_reserved_memory: float = 0.0,
        enforce_hbm: bool = False,
        record_cache_metrics: RecordCacheMetrics | None = None,
        gather_uvm_cache_stats: bool | None = False,
        row_alignment: int | None = None,
        fp8_exponent_bits: int | None = None,
        fp8_exponent_bias: int | None = None,
        cache_assoc: int = 32,
        scale_bias_size_in_bytes: int = DEFAULT_SCALE_BIAS_SIZE_IN_BYTES,
        cacheline_alignment: bool = True,
        uvm_host_mapped: bool = False,
        reverse_qparam: bool = False,
        feature_names_per_table: list[list[str]] | None = None,
        indices_dtype: torch.dtype = torch.int32,
        embedding_cache_mode: bool = False,
    ) -> None:
        super().__init__(
            embedding_specs,
            feature_table_map,
            index_remapping,
            pooling_mode,
            device,
            bounds_check_mode,
            None,
            pruning_hash_load_factor,
            use_array_for_index_remapping,
            output_dtype,
            cache_algorithm,
            cache_load_factor,
            cache_sets,
            cache_reserved_memory,
            enforce_hbm,
            record_cache_metrics,
            gather_uvm_cache_stats,
            row_alignment,
            fp8_exponent_bits,
            fp8_exponent_bias,
            cache_assoc,
            scale_bias_size_in_bytes,
            cacheline_alignment,
            uvm_host_mapped,
            reverse_qparam,
            feature_names_per_table,
            indices_dtype,
        )
        self.embedding_cache_mode = embedding_cache_mode
        self.specs = [(rows, dim, kind.as_int()) for _, rows, dim, kind, _ in self.embedding_specs]
        self.table_sharding_offset = [0] * len(self.specs)
        self._row_bytes = [
            rounded_row_size_in_bytes(dim, kind, self.row_alignment, self.scale_bias_size_in_bytes)
            for _, _, dim, kind, _ in self.embedding_specs
        ]
        self.register_buffer("weights_ids", torch.tensor(0))
        self.kv_embedding_cache_initialized = False
        self.initialize_kv_embedding_cache()
        if weight_lists is not None:
            self.assign_embedding_weights(weight_lists)

    def initialize_kv_embedding_cache(self) -> None:
        """Make an empty store, where there is none yet."""
        if self.kv_embedding_cache_initialized:
            return
        starts = self.construct_hash_size_cumsum()
        self.hash_size_cumsum = torch.tensor(starts)
        mine = [starts[table] for table in self.feature_table_map]
        self.feature_hash_size_cumsum = torch.tensor([*mine, starts[-1]])
        self.kv_embedding_cache = ByteRows(max(self._row_bytes), self._unwritten)
        self.weight_initialized = self.kv_embedding_cache_initialized = True

    def initialize_weights(self) -> None:
        """Make an empty store, where there is none yet: no other memory is needed."""
        self.initialize_kv_embedding_cache()

    def construct_hash_size_cumsum(self) -> list[int]:
        """The number of each table's first row among all rows, and of all rows."""
        return [0, *accumulate(rows for rows, *_ in self.specs)]

    def init_tbe_config(self, table_sharding_offset: list[int]) -> None:
        """Say where in the whole tables those here begin; before rows are written.

        Args:
            table_sharding_offset: for each table the first row that is here.

        Raises:
            AssertionError: another number of tables.
        """
        if len(table_sharding_offset) != len(self.specs):
            raise OptionError(
                f"table_sharding_offset has {len(table_sharding_offset)} tables, expected {len(self.specs)}."
            )
        self.table_sharding_offset = list(table_sharding_offset)

    # --- looking up --------------------------------------------------------------------------------------------------

    def linearize_cache_indices(self, indices: Tensor, offsets: Tensor) -> Tensor:
        """The key of each row that a batch looks up.

        Args:
            indices: (L,) int32 or int64 rows of each feature's table, feature-major.
            offsets: (features * B + 1,).

        Returns:
            (L,) int64: the row's number among those of all tables.
        """
        return linearize_cache_indices(self.feature_hash_size_cumsum, indices.long().cpu(), offsets.long().cpu())

    def _ends(self, offsets: Tensor) -> list[int]:
        """Where the indices of each feature end."""
        batch = (offsets.numel() - 1) // len(self.feature_table_map)
        ends: list[int] = offsets[batch::batch].tolist() if batch else [0] * len(self.feature_table_map)
        return ends

    def calculate_indices_and_weights_offsets(self, indices: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Where the rows of a batch are in its own memory, in which they follow one another as in `indices`.

        Args:
            indices: (L,) rows of each feature's table, feature-major.
            offsets: (features * B + 1,).

        Returns:
            (L,) the number of each row among its feature's, and (features,) the byte at which each feature begins.
        """
        ends = [0, *self._ends(offsets)]
        counts = [end - begin for begin, end in pairwise(ends)]
        sizes = [self._row_bytes[table] for table in self.feature_table_map]
        begins = [0, *accumulate(count * size for count, size in zip(counts, sizes, strict=True))]
        first = torch.tensor(ends[:-1], device=indices.device).repeat_interleave(
            torch.tensor(counts, device=indices.device), output_size=indices.numel()
        )
        places = torch.arange(indices.numel(), device=indices.device) - first
        return places.to(indices.dtype), torch.tensor(begins[:-1], device=indices.device)

    def forward(self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None) -> Tensor:
        """Pool rows; see `IntNBitTableBatchedEmbeddingBagsCodegen.forward`."""
        indices, offsets, weights = self._prepared(indices, offsets, per_sample_weights)
        keys = self.linearize_cache_indices(indices.clamp(min=0), offsets)
        rows = self.kv_embedding_cache.get(keys)
        places, begins = self.calculate_indices_and_weights_offsets(indices, offsets)
        ends = [0, *self._ends(offsets)]
        fetched = [
            rows[begin:end, : self._row_bytes[table]].reshape(-1)
            for table, begin, end in zip(self.feature_table_map, ends, ends[1:], strict=False)
        ]
        memory = torch.cat(fetched).to(self.current_device)
        tables = SimpleNamespace(**{name: getattr(self, name) for name in _READ})
        tables.weights_offsets, tables.host_size = begins, 1 if self.use_cpu else 0
        tables.weights_host = tables.weights_dev = memory
        # What was pruned is no row, as in `indices`.
        return tbe_inference.look_up(tables, places.where(indices >= 0, -1), offsets, weights)

    def _unwritten(self, keys: Tensor) -> Tensor:
        made = torch.zeros(keys.numel(), max(self._row_bytes), dtype=torch.uint8)
        if self.embedding_cache_mode:
            return made
        of_table = torch.bucketize(keys, self.hash_size_cumsum[1:], right=True)
        for table, (_, _, dim, kind, _) in enumerate(self.embedding_specs):
            mine = of_table == table
            if mine.any():
                numbers = _uniform(keys[mine], dim)
                made[mine, : self._row_bytes[table]] = self._packed(table, *quantize_embs(numbers, kind, self._fp8()))
        return made

    def _fp8(self) -> FP8QuantizationConfig | None:
        if self.fp8_exponent_bits < 0:
            return None
        return FP8QuantizationConfig(self.fp8_exponent_bits, self.fp8_exponent_bias)

    def _packed(self, table: int, codes: Tensor, parameters: Tensor | None) -> Tensor:
        """Whole rows of a table: scales and biases, codes, and what fills them up."""
        parts = [codes] if parameters is None else [parameters, codes]
        rows = torch.cat([one.view(torch.uint8) for one in parts], 1)
        return torch.nn.functional.pad(rows, (0, self._row_bytes[table] - rows.shape[1]))

    # --- tables ------------------------------------------------------------------------------------------------------

    def _tables(self) -> list[Tensor]:
        """(rows, bytes) of each table, copies."""
        starts = self.construct_hash_size_cumsum()
        return [
            self.kv_embedding_cache.get(torch.arange(begin, end))[:, :size]
            for begin, end, size in zip(starts, starts[1:], self._row_bytes, strict=False)
        ]

    def fill_random_weights(self) -> None:
        """Write random rows to all tables: codes are random bytes with a scale of 0.01, numbers lie in [0, 1)."""
        for table, (_, rows, dim, kind, _) in enumerate(self.embedding_specs):
            parameters = None
            if kind in (*SCALED, SparseType.FP8):
                codes = torch.randint(0, 256, (rows, dim * kind.bit_rate() // 8), dtype=torch.uint8)
            else:
                codes, _ = quantize_embs(torch.rand(rows, dim), kind)
            if kind in SCALED:
                parameters = torch.tensor([[0.01, 0.0]], dtype=torch.float16).view(torch.uint8).expand(rows, -1)
            self._write(table, torch.arange(rows), self._packed(table, codes, parameters))

    def assign_embedding_weights(self, q_weight_list: list[tuple[Tensor, Tensor | None]]) -> None:
        """Write whole tables; see `IntNBitTableBatchedEmbeddingBagsCodegen.assign_embedding_weights`."""
        if len(q_weight_list) != len(self.specs):
            raise OptionError(f"q_weight_list has {len(q_weight_list)} tables, expected {len(self.specs)}.")
        for table, ((codes, parameters), spec) in enumerate(zip(q_weight_list, self.embedding_specs, strict=True)):
            name, rows, _, kind, _ = spec
            if (parameters is not None) != (kind in SCALED):
                expected = "scales and biases" if kind in SCALED else "none of them"
                raise OptionError(f"table {name!r} is given the wrong parameters, expected {expected}.")
            empty = torch.empty(rows, self._row_bytes[table], dtype=torch.uint8, device="meta")
            expected_shape = parts_of_rows(empty, spec, 1, self.scale_bias_size_in_bytes)[0].shape
            if codes.shape != expected_shape:
                raise RuntimeError(
                    f"table {name!r} is given {tuple(codes.shape)} bytes, expected {tuple(expected_shape)}."
                )
            cpu = codes.cpu(), None if parameters is None else parameters.cpu()
            self._write(table, torch.arange(rows), self._packed(table, *cpu))

    def _write(self, table: int, rows: Tensor, values: Tensor, written_s: int | None = None) -> None:
        """Write rows of a table, counted from its first row here."""
        self.kv_embedding_cache.set(rows + int(self.hash_size_cumsum[table]), values, written_s)

    def embedding_inplace_update(
        self, update_table_indices: list[int], update_row_indices: list[list[int]], update_weights: list[Tensor]
    ) -> None:
        """Overwrite some rows of some tables.

        Args:
            update_table_indices: the tables.
            update_row_indices: their rows, counted through the whole tables (`init_tbe_config`).
            update_weights: for each of these tables (its rows, bytes) uint8, scales and biases included.

        Raises:
            AssertionError: lists that do not fit together, or a row that is not here.
        """
        if not len(update_table_indices) == len(update_row_indices) == len(update_weights):
            raise OptionError(
                f"there are {len(update_table_indices)} tables, {len(update_row_indices)} lists of rows and "
                f"{len(update_weights)} of bytes, expected equally many."
            )
        for table, rows, given in zip(update_table_indices, update_row_indices, update_weights, strict=True):
            self.embedding_inplace_update_per_table(table, torch.tensor(rows, dtype=torch.int64), given)

    def embedding_inplace_update_per_table(
        self,
        table_id: int,
        update_row_indices: Tensor,
        update_weights: Tensor,
        inplace_update_ts_sec: int | None = None,
    ) -> None:
        """Overwrite some rows of a table.

        Args:
            table_id: the table.
            update_row_indices: (count,) its rows, counted through the whole table (`init_tbe_config`).
            update_weights: (count, bytes) uint8, scales and biases included.
            inplace_update_ts_sec: when they were made, in seconds since 1970, by which they leave; now by default.

        Raises:
            AssertionError: a table or a row that is not here, or bytes of other sizes.
        """
        if not 0 <= table_id < len(self.specs):
            raise OptionError(f"table_id is {table_id}, expected 0 to {len(self.specs) - 1}.")
        rows = update_row_indices.long().cpu() - self.table_sharding_offset[table_id]
        held, first = self.specs[table_id][0], self.table_sharding_offset[table_id]
        if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < held:
            raise OptionError(
                f"update_row_indices run from {int(rows.min()) + first} to {int(rows.max()) + first}; table "
                f"{self.feature_names[table_id]!r} has rows {first} to {first + held - 1} here."
            )
        size = self._row_bytes[table_id]
        if update_weights.dim() != 2 or len(update_weights) != rows.numel() or update_weights.shape[1] > size:
            raise OptionError(
                f"update_weights has shape {tuple(update_weights.shape)}, expected ({rows.numel()}, up to {size})."
            )
        self._write(table_id, rows, update_weights.view(torch.uint8).cpu(), inplace_update_ts_sec)

    # --- rows that leave ---------------------------------------------------------------------------------------------

    def embedding_trigger_evict(self, inplace_update_ts_sec: int) -> None:
        """Let rows leave that were made before a time.

        Args:
            inplace_update_ts_sec: in seconds since 1970.
        """
        self.kv_embedding_cache.evict(inplace_update_ts_sec)

    def embedding_wait_evict_completion(self) -> None:
        """Wait until rows have left; they have when `embedding_trigger_evict` returns."""

    def log_inplace_update_stats(self) -> None:
        """Log how many rows there are, and how many were written, were new and left."""
        store = self.kv_embedding_cache
        self.log(
            f"{len(store)} rows; {store.written} written, {store.inserted} of them new, {store.evicted} left since the "
            "store was made"
        )


def _uniform(keys: Tensor, columns: int) -> Tensor:
    from flambeau.rec.fbgemm_gpu.tbe.ssd._initial import UniformRows

    return torch.from_numpy(UniformRows(0, columns, _LOWEST, _HIGHEST)(keys.numpy()))
