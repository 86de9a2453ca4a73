"""Embedding tables for inference, of any element type, looked up together."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._inference_layout import (
    DEFAULT_SCALE_BIAS_SIZE_IN_BYTES,
    SCALED,
    Spec,
    align_to_cacheline,
    nbit_construct_split_state,
    parts_of_rows,
    random_quant_scaled_tensor,
    rounded_row_size_in_bytes,
    unpadded_row_size_in_bytes,
)
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import CacheAlgorithm, UVMCacheStatsIndex
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import (
    BoundsCheckMode,
    EmbeddingLocation,
    PoolingMode,
    RecordCacheMetrics,
)
from flambeau.rec.ops import bounds, pruning, tbe_inference
from flambeau.rec.ops._large_pages import zeros

__all__ = [
    "DEFAULT_SCALE_BIAS_SIZE_IN_BYTES",
    "IntNBitTableBatchedEmbeddingBagsCodegen",
    "align_to_cacheline",
    "inputs_to_device",
    "nbit_construct_split_state",
    "random_quant_scaled_tensor",
    "rounded_row_size_in_bytes",
    "unpadded_row_size_in_bytes",
]

logger = logging.getLogger("flambeau.rec.tbe")

_WIDEST = {
    "max_int2_D": (SparseType.INT2,),
    "max_int4_D": (SparseType.INT4,),
    "max_int8_D": (SparseType.INT8,),
    "max_float8_D": (SparseType.FP8,),
    "max_float16_D": (SparseType.FP16, SparseType.BF16),
    "max_float32_D": (SparseType.FP32,),
}


def inputs_to_device(
    indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None, bounds_check_warning: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Indices, offsets and weights where the tables are.

    Args:
        indices: any device.
        offsets: any device.
        per_sample_weights: any device, or None.
        bounds_check_warning: a tensor of the tables' device.
    """
    if bounds_check_warning.device.type == "meta":
        return indices, offsets, per_sample_weights
    device = bounds_check_warning.device
    weights = None if per_sample_weights is None else per_sample_weights.to(device)
    return indices.to(device), offsets.to(device), weights


class IntNBitTableBatchedEmbeddingBagsCodegen(nn.Module):
    """Tables of bytes whose rows are pooled over bags.

    A row of INT8, INT4 or INT2 is its scale and its bias as float16, then its codes, the first in the lowest bits; a
    row
    of FP32, FP16, BF16 or FP8 is its numbers.

    Args:
        embedding_specs: (name, rows, columns, elements, location) of each table. Columns must fill whole bytes.
        feature_table_map: the table of each feature, in any order; one feature for each table by default.
        index_remapping: for each table (rows before pruning,) int32: the row that is left of each, or -1.
        pooling_mode: sum, mean, or none: then each index gives a row, and all tables are equally wide.
        device: where rows are looked up; the current accelerator by default, or the CPU where there is none.
        bounds_check_mode: what becomes of indices outside of their tables.
        weight_lists: for each table (rows, bytes) of codes, and (rows, 4) of scales and biases or None.
        pruning_hash_load_factor: how full hash tables of remappings are at most.
        use_array_for_index_remapping: whether remappings are arrays, or hash tables.
        output_dtype: of the result: FP32, FP16, BF16, or INT8 for tables of INT8: then each feature's columns are codes
            with a scale and a bias as float32 behind them, and without pooling rows as they are in the table.
        cache_algorithm: kept for what asks for it: tables are not cached here.
        cache_load_factor: likewise.
        cache_sets: likewise.
        cache_reserved_memory: likewise.
        enforce_hbm: likewise.
        record_cache_metrics: likewise; the counts are 0.
        gather_uvm_cache_stats: likewise.
        row_alignment: bytes that rows are a multiple of; by default 1 on the CPU and 16 elsewhere.
        fp8_exponent_bits: of FP8 tables.
        fp8_exponent_bias: of FP8 tables.
        cache_assoc: see `cache_algorithm`.
        scale_bias_size_in_bytes: 4.
        cacheline_alignment: whether tables begin at multiples of 128 bytes.
        uvm_host_mapped: kept for what asks for it.
        reverse_qparam: likewise.
        feature_names_per_table: likewise.
        indices_dtype: likewise: look-ups take int32 and int64.

    Raises:
        AssertionError: tables, features or options that do not fit together; it is a ValueError too.
    """

    embedding_specs: list[Spec]
    D_offsets: Tensor
    rows_per_table: Tensor
    original_rows_per_table: Tensor
    bounds_check_warning: Tensor
    weights_tys: Tensor
    index_remappings_array: Tensor
    index_remappings_array_offsets: Tensor
    index_remapping_hash_table: Tensor
    index_remapping_hash_table_offsets: Tensor
    cache_miss_counter: Tensor
    weights_dev: Tensor
    weights_host: Tensor
    weights_uvm: Tensor
    max_int2_D: int
    max_int4_D: int
    max_int8_D: int
    max_float8_D: int
    max_float16_D: int
    max_float32_D: int
    table_wise_cache_miss: Tensor
    uvm_cache_stats: Tensor

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
    ) -> None:
        super().__init__()
        self.uuid = str(uuid.uuid4())
        self.current_device = _device(device)
        self.use_cpu = self.current_device.type in ("cpu", "meta")
        self.scale_bias_size_in_bytes = scale_bias_size_in_bytes
        self.pooling_mode = pooling_mode
        self.bounds_check_mode_int = int(bounds_check_mode)
        self.embedding_specs = [self._spec(*spec) for spec in embedding_specs]
        self.output_dtype = output_dtype.as_int()
        self.uvm_host_mapped, self.enforce_hbm, self.reverse_qparam = uvm_host_mapped, enforce_hbm, reverse_qparam
        self.feature_names_per_table, self.indices_dtype = feature_names_per_table, indices_dtype
        self.feature_names = [name for name, *_ in self.embedding_specs]
        self.cache_load_factor, self.cache_sets, self.cache_assoc = cache_load_factor, cache_sets, cache_assoc
        self.cache_reserved_memory, self.cache_algorithm = cache_reserved_memory, cache_algorithm
        self.record_cache_metrics = record_cache_metrics or RecordCacheMetrics(False, False)
        self.gather_uvm_cache_stats = gather_uvm_cache_stats
        self.uvm_cache_stats_size = len(UVMCacheStatsIndex)
        self.row_alignment = (1 if self.use_cpu else 16) if row_alignment is None else row_alignment
        self.feature_table_map = (
            list(range(len(self.embedding_specs))) if feature_table_map is None else list(feature_table_map)
        )
        self._check_features()
        self.fp8_exponent_bits = -1 if fp8_exponent_bits is None else fp8_exponent_bits
        self.fp8_exponent_bias = -1 if fp8_exponent_bias is None else fp8_exponent_bias
        self._check_float8()
        self._describe_tables()
        self._make_counters()
        self.weight_initialized = False
        for name in ("weights_dev", "weights_host", "weights_uvm"):
            setattr(self, name, torch.empty(0, dtype=torch.uint8, device=self.current_device))
        self.initialize_physical_weights_placements_and_offsets(cacheline_alignment)
        if weight_lists is not None:
            self._take_over(weight_lists)
        if index_remapping is not None:
            self.set_index_remappings(index_remapping, pruning_hash_load_factor, use_array_for_index_remapping)

    # --- tables ------------------------------------------------------------------------------------------------------

    def _spec(self, name: str, rows: int, dim: int, kind: SparseType, location: EmbeddingLocation) -> Spec:
        if rows < 0 or dim < 1:
            raise OptionError(
                f"table {name!r} has {rows} rows and {dim} columns, expected some columns and no fewer rows."
            )
        if dim * kind.bit_rate() % 8:
            raise OptionError(
                f"table {name!r} has {dim} columns of {kind}, expected a multiple of {8 // kind.bit_rate()}: rows "
                "are whole "
                "bytes."
            )
        if self.use_cpu and location is not EmbeddingLocation.HOST:
            raise OptionError(f"table {name!r} is at {location.name}, expected HOST: rows are looked up by the CPU.")
        return name, rows, dim, kind, location

    def _check_features(self) -> None:
        tables = len(self.embedding_specs)
        if not self.feature_table_map or not all(0 <= one < tables for one in self.feature_table_map):
            raise OptionError(f"feature_table_map is {self.feature_table_map}, expected tables from 0 to {tables - 1}.")
        widths = {self.embedding_specs[table][2] for table in self.feature_table_map}
        if self.pooling_mode is PoolingMode.NONE and len(widths) > 1:
            raise OptionError(f"tables have {sorted(widths)} columns, expected equally many: rows are not pooled.")

    def _check_float8(self) -> None:
        if not any(kind is SparseType.FP8 for *_, kind, _ in self.embedding_specs):
            return
        if self.fp8_exponent_bits < 0 or self.fp8_exponent_bias < 0:
            raise OptionError(
                "fp8_exponent_bits and fp8_exponent_bias are not given, expected both: eight-bit floats have many "
                "formats."
            )

    def _describe_tables(self) -> None:
        device = self.current_device
        used = [self.embedding_specs[table] for table in self.feature_table_map]
        ends = [0, *accumulate(dim for _, _, dim, _, _ in used)]
        self.total_D = ends[-1]
        for name, kinds in _WIDEST.items():
            setattr(self, name, max((dim for _, _, dim, kind, _ in self.embedding_specs if kind in kinds), default=0))
        rows = [spec[1] for spec in used]
        numbers = [spec[3].as_int() for spec in used]
        self.register_buffer("D_offsets", torch.tensor(ends, dtype=torch.int32, device=device))
        self.register_buffer("rows_per_table", torch.tensor(rows, dtype=torch.int64, device=device))
        self.register_buffer("bounds_check_warning", torch.zeros(1, dtype=torch.int64, device=device))
        self.register_buffer("weights_tys", torch.tensor(numbers, dtype=torch.uint8, device=device))
        for name, dtype in (
            ("index_remappings_array_offsets", torch.int64), ("index_remappings_array", torch.int32),
            ("index_remapping_hash_table_offsets", torch.int64), ("index_remapping_hash_table", torch.int32),
            ("original_rows_per_table", torch.int64), ("table_wise_cache_miss", torch.int64),
        ):  # fmt: skip
            self.register_buffer(name, torch.empty(0, dtype=dtype, device=device))

    def _make_counters(self) -> None:
        """Of a cache that there is not; programs ask for them."""
        device = self.current_device
        self.register_buffer("lxu_cache_weights", torch.empty(0, 0, dtype=torch.uint8, device=device))
        self.register_buffer("cache_miss_counter", torch.zeros(4, dtype=torch.int64, device=device), persistent=False)
        counts = torch.zeros(self.uvm_cache_stats_size, dtype=torch.int64, device=device)
        self.register_buffer("uvm_cache_stats", counts, persistent=False)

    def initialize_physical_weights_placements_and_offsets(self, cacheline_alignment: bool = True) -> None:
        """Find out where tables begin.

        Args:
            cacheline_alignment: whether at multiples of 128 bytes.
        """
        split = nbit_construct_split_state(
            self.embedding_specs,
            cacheable=False,
            row_alignment=self.row_alignment,
            scale_bias_size_in_bytes=self.scale_bias_size_in_bytes,
            cacheline_alignment=cacheline_alignment,
        )
        self.weights_physical_placements = [int(one) for one in split.placements]
        self.weights_physical_offsets = split.offsets
        self.host_size, self.dev_size, self.uvm_size = split.host_size, split.dev_size, split.uvm_size
        self.initialize_logical_weights_placements_and_offsets()

    def initialize_logical_weights_placements_and_offsets(self) -> None:
        """Say of each feature where its table begins."""
        device = self.current_device
        tables = self.feature_table_map
        self.weights_placements = torch.tensor(
            [self.weights_physical_placements[table] for table in tables], dtype=torch.int32, device=device
        )
        self.weights_offsets = torch.tensor(
            [self.weights_physical_offsets[table] for table in tables], dtype=torch.int64, device=device
        )

    def initialize_weights(self) -> None:
        """Make room for the tables, zeros, where that was not done yet."""
        if self.weight_initialized:
            return
        for name, size in (
            ("weights_dev", self.dev_size), ("weights_host", self.host_size), ("weights_uvm", self.uvm_size),
        ):  # fmt: skip
            setattr(self, name, zeros(size, dtype=torch.uint8, device=self.current_device))
        self.weight_initialized = True

    def _tables(self) -> list[Tensor]:
        """(rows, bytes) of each table, views."""
        if not self.weight_initialized:
            raise OptionError("tables have no memory yet; call `initialize_weights` or `fill_random_weights` first.")
        found = []
        for (_, rows, dim, kind, _), place, offset in zip(
            self.embedding_specs, self.weights_physical_placements, self.weights_physical_offsets, strict=True
        ):
            size = rounded_row_size_in_bytes(dim, kind, self.row_alignment, self.scale_bias_size_in_bytes)
            memory: Tensor = getattr(self, _MEMORIES[place])
            found.append(memory[offset : offset + rows * size].view(rows, size))
        return found

    def split_embedding_weights_with_scale_bias(
        self, split_scale_bias_mode: int = 1
    ) -> list[tuple[Tensor, Tensor | None, Tensor | None]]:
        """Views of each table.

        Args:
            split_scale_bias_mode: 0 gives whole rows with what fills them up; 1 codes, and scale and bias as (rows, 4)
                bytes; 2 codes, and (rows, 1) float16 of each.

        Returns:
            Codes, scales and biases; None where there are none.

        Raises:
            AssertionError: tables without memory, or another mode.
        """
        return [
            parts_of_rows(table, spec, split_scale_bias_mode, self.scale_bias_size_in_bytes)
            for table, spec in zip(self._tables(), self.embedding_specs, strict=True)
        ]

    def split_embedding_weights(self, split_scale_shifts: bool = True) -> list[tuple[Tensor, Tensor | None]]:
        """Views of each table.

        Args:
            split_scale_shifts: whether codes are given without scale and bias, and those beside them.

        Returns:
            (rows, bytes), and (rows, 4) or None.

        Raises:
            AssertionError: tables without memory.
        """
        return [parts[:2] for parts in self.split_embedding_weights_with_scale_bias(1 if split_scale_shifts else 0)]

    def fill_random_weights(self) -> None:
        """Fill tables with random numbers: codes and eight-bit floats are random bytes, others lie in [0, 1)."""
        self.initialize_weights()
        for (codes, parameters), (_, _, _, kind, _) in zip(
            self.split_embedding_weights(), self.embedding_specs, strict=True
        ):
            if kind in (*SCALED, SparseType.FP8):
                codes.random_(0, 256)
            else:
                dtype = {SparseType.FP32: torch.float32, SparseType.FP16: torch.float16}.get(kind, torch.bfloat16)
                shape = (codes.shape[0], codes.shape[1] // dtype.itemsize)
                codes.copy_(torch.rand(shape, device=codes.device).to(dtype).view(torch.uint8))
            if parameters is not None:
                one = torch.tensor([[0.01, 0.0]], dtype=torch.float16, device=codes.device).view(torch.uint8)
                parameters.copy_(one.expand_as(parameters))

    def assign_embedding_weights(self, q_weight_list: list[tuple[Tensor, Tensor | None]]) -> None:
        """Overwrite all tables.

        Args:
            q_weight_list: for each table (rows, bytes) of codes, and (rows, 4) of scales and biases, or None.

        Raises:
            AssertionError: another number of tables, or scales where there should be none and the other way round.
            RuntimeError: other shapes.
        """
        tables = self.split_embedding_weights()
        if len(tables) != len(q_weight_list):
            raise OptionError(f"q_weight_list has {len(q_weight_list)} tables, expected {len(tables)}.")
        for (mine, parameters), (given, given_parameters), name in zip(
            tables, q_weight_list, self.feature_names, strict=True
        ):
            if (parameters is None) != (given_parameters is None):
                expected = "scales and biases" if parameters is not None else "none of them"
                raise OptionError(f"table {name!r} is given the wrong parameters, expected {expected}.")
            if mine.shape != given.shape:
                raise RuntimeError(f"table {name!r} is given {tuple(given.shape)} bytes, expected {tuple(mine.shape)}.")
            mine.copy_(given)
            if parameters is not None and given_parameters is not None:
                parameters.copy_(given_parameters)

    def _take_over(self, weight_lists: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        self.initialize_weights()
        self.assign_embedding_weights(list(weight_lists))

    # --- pruned rows -------------------------------------------------------------------------------------------------

    def set_index_remappings_array(self, index_remapping: list[Tensor]) -> None:
        """Say by arrays which rows are left of each table.

        Args:
            index_remapping: for each table (rows before pruning,): the row that is left of each, or -1; an array
                without
                entries where nothing was pruned.

        Raises:
            AssertionError: another number of tables.
        """
        arrays = self._remappings(index_remapping)
        ends = [0, *accumulate(one.numel() for one in arrays)]
        self.index_remappings_array_offsets = torch.tensor(ends, dtype=torch.int64, device=self.current_device)
        self.index_remappings_array = torch.cat(arrays).to(torch.int32).to(self.current_device)

    def set_index_remappings(
        self,
        index_remapping: list[Tensor],
        pruning_hash_load_factor: float = 0.5,
        use_array_for_index_remapping: bool = True,
    ) -> None:
        """Say which rows are left of each table.

        Args:
            index_remapping: see `set_index_remappings_array`.
            pruning_hash_load_factor: how full hash tables are at most.
            use_array_for_index_remapping: arrays take four bytes for each row there was; hash tables eight for each
                that
                is left, over the load factor.

        Raises:
            AssertionError: another number of tables.
        """
        arrays = self._remappings(index_remapping)
        rows = [
            one.numel() or self.embedding_specs[table][1]
            for one, table in zip(arrays, self.feature_table_map, strict=True)
        ]
        self.original_rows_per_table = torch.tensor(rows, dtype=torch.int64, device=self.current_device)
        if use_array_for_index_remapping:
            self.set_index_remappings_array(index_remapping)
            return
        sizes = [round(int((one >= 0).sum()) / pruning_hash_load_factor) if one.numel() else 0 for one in arrays]
        ends = torch.tensor([0, *accumulate(sizes)], dtype=torch.int64)
        table = torch.full((int(ends[-1]), 2), -1, dtype=torch.int32)
        offsets = torch.tensor([0, *accumulate(one.numel() for one in arrays)], dtype=torch.int32)
        before = torch.cat([torch.arange(one.numel(), dtype=torch.int32) for one in arrays])
        pruning.pruned_hashmap_insert(before, torch.cat(arrays).to(torch.int32).cpu(), offsets, table, ends)
        self.index_remapping_hash_table = table.to(self.current_device)
        self.index_remapping_hash_table_offsets = ends.to(self.current_device)

    def _remappings(self, given: Sequence[Tensor]) -> list[Tensor]:
        """One for each feature."""
        if len(given) != len(self.embedding_specs):
            raise OptionError(f"index_remapping has {len(given)} tables, expected {len(self.embedding_specs)}.")
        return [given[table].reshape(-1) for table in self.feature_table_map]

    # --- looking up --------------------------------------------------------------------------------------------------

    def forward(self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None) -> Tensor:
        """Pool rows.

        Args:
            indices: (total,) int32 or int64: rows of each feature's table; -1 is no row.
            offsets: (features * batch + 1,) int32 or int64: where each bag begins, feature-major.
            per_sample_weights: (total,) factors of rows; they have no meaning without pooling.

        Returns:
            (batch, columns of all features), or (total, columns) without pooling, of `output_dtype`.

        Raises:
            AssertionError: tables without memory.
            RuntimeError: indices and offsets that do not fit, or a stray index where the mode says so.
        """
        if not self.weight_initialized:
            raise OptionError("tables have no memory yet; call `initialize_weights` or `fill_random_weights` first.")
        indices, offsets, weights = self._prepared(indices, offsets, per_sample_weights)
        return tbe_inference.look_up(self, indices, offsets, weights)

    def _prepared(
        self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Indices where the tables are, checked, and as the rows that are left of those that were pruned."""
        indices, offsets, per_sample_weights = inputs_to_device(
            indices, offsets, per_sample_weights, self.bounds_check_warning
        )
        if self.bounds_check_mode_int != BoundsCheckMode.NONE:
            if torch.compiler.is_compiling():
                indices, offsets = indices.clone(), offsets.clone()  # a program leaves what it is given as it is
            pruned = self.original_rows_per_table.numel() > 0
            bounds.bounds_check_indices(
                self.original_rows_per_table if pruned else self.rows_per_table,
                indices, offsets, self.bounds_check_mode_int, self.bounds_check_warning, per_sample_weights,
            )  # fmt: skip
        if self.index_remapping_hash_table.numel():
            indices = pruning.pruned_hashmap_lookup(
                indices, offsets, self.index_remapping_hash_table, self.index_remapping_hash_table_offsets
            )
        elif self.index_remappings_array.numel():
            indices = pruning.pruned_array_lookup(
                indices, offsets, self.index_remappings_array, self.index_remappings_array_offsets
            )
        weights = None if per_sample_weights is None else per_sample_weights.float().contiguous()
        return indices, offsets, weights

    # --- changing tables in use --------------------------------------------------------------------------------------

    def embedding_inplace_update(
        self, update_table_indices: list[int], update_row_indices: list[list[int]], update_weights: list[Tensor]
    ) -> None:
        """Overwrite some rows of some tables.

        Args:
            update_table_indices: the tables.
            update_row_indices: their rows.
            update_weights: for each of these tables (its rows, bytes) uint8, scales and biases included.

        Raises:
            AssertionError: lists that do not fit together.
            RuntimeError: rows of other sizes.
        """
        if not len(update_table_indices) == len(update_row_indices) == len(update_weights):
            raise OptionError(
                f"there are {len(update_table_indices)} tables, {len(update_row_indices)} lists of rows and "
                f"{len(update_weights)} of bytes, expected equally many."
            )
        tables = self._tables()
        for table, rows, given in zip(update_table_indices, update_row_indices, update_weights, strict=True):
            at = torch.tensor(rows, dtype=torch.int64, device=self.current_device)
            tables[table][at, : given.shape[-1]] = given.view(len(rows), -1).to(self.current_device)

    def embedding_inplace_update_internal(
        self, update_table_indices: list[int], update_row_indices: list[int], update_weights: Tensor
    ) -> None:
        """Overwrite rows whose bytes are given one after another.

        Args:
            update_table_indices: the table of each row.
            update_row_indices: the rows.
            update_weights: (bytes,) uint8: each row with what fills it up.

        Raises:
            AssertionError: lists that do not fit together, or another number of bytes.
        """
        tables = self._tables()
        sizes = [tables[table].shape[1] for table in update_table_indices]
        if len(sizes) != len(update_row_indices) or sum(sizes) != update_weights.numel():
            raise OptionError(
                f"there are {len(sizes)} tables, {len(update_row_indices)} rows and {update_weights.numel()} bytes, "
                "expected "
                f"a row for each table, and {sum(sizes)} bytes."
            )
        parts = update_weights.view(-1).split(sizes)
        for table, row, part in zip(update_table_indices, update_row_indices, parts, strict=True):
            tables[table][row] = part.to(self.current_device)

    def reset_weights_placements_and_offsets(self, device: torch.device, location: int) -> None:
        """Put all tables elsewhere; their content is lost.

        Args:
            device: where rows will be looked up.
            location: of all tables, by number.
        """
        self.reset_embedding_spec_location(device, EmbeddingLocation(location))
        self.weight_initialized = False
        self.initialize_physical_weights_placements_and_offsets()

    def reset_embedding_spec_location(self, device: torch.device, target_location: EmbeddingLocation) -> None:
        """Say of all tables that they are elsewhere.

        Args:
            device: where rows will be looked up.
            target_location: of all tables.
        """
        self.current_device = torch.device(device)
        self.use_cpu = self.current_device.type in ("cpu", "meta")
        self.row_alignment = 1 if self.use_cpu else 16
        self.embedding_specs = [self._spec(*spec[:4], target_location) for spec in self.embedding_specs]

    def recompute_module_buffers(self) -> None:
        """Make buffers of the meta device anew on the device of the tables."""
        if self.current_device.type == "meta" or self.D_offsets.device.type != "meta":
            return
        self._describe_tables()
        self._make_counters()
        self.initialize_logical_weights_placements_and_offsets()

    def move_to_device_with_cache(self, device: torch.device, cache_load_factor: float) -> None:
        """Take all tables to a device, with their content.

        Args:
            device: where rows will be looked up.
            cache_load_factor: kept for what asks for it.
        """
        self.cache_load_factor = cache_load_factor
        if torch.device(device) == self.current_device:
            return
        held = [
            (codes.clone(), None if more is None else more.clone()) for codes, more in self.split_embedding_weights()
        ]
        location = EmbeddingLocation.HOST if torch.device(device).type == "cpu" else EmbeddingLocation.DEVICE
        self.reset_weights_placements_and_offsets(torch.device(device), location.value)
        self.to(device)
        self.initialize_weights()
        self.assign_embedding_weights(held)

    # --- a cache that there is not -----------------------------------------------------------------------------------

    def update_cache_load_factor(self, cache_load_factor: float = 0.2) -> None:
        """Keep a number for what asks for it: tables are not cached here."""
        self.cache_load_factor = cache_load_factor

    def reset_cache_states(self) -> None:
        """Empty the cache; there is none."""

    def prefetch(self, indices: Tensor, offsets: Tensor) -> None:
        """Bring rows into the cache; there is none."""

    def prefetch_32way(self, linear_cache_indices: Tensor) -> None:
        """Bring rows into the cache; there is none."""

    def prefetch_1way(self, linear_cache_indices: Tensor) -> None:
        """Bring rows into the cache; there is none."""

    def get_cache_miss_counter(self) -> Tensor:
        """(4,) int64 counts of misses, all 0.

        Raises:
            AssertionError: they were not asked for.
        """
        self._asked_for("record_cache_miss_counter", self.record_cache_metrics.record_cache_miss_counter)
        return self.cache_miss_counter

    def get_table_wise_cache_miss(self) -> Tensor:
        """(tables,) int64 counts of misses, all 0.

        Raises:
            AssertionError: they were not asked for.
        """
        self._asked_for("record_tablewise_cache_miss", self.record_cache_metrics.record_tablewise_cache_miss)
        return torch.zeros(len(self.embedding_specs), dtype=torch.int64, device=self.current_device)

    def get_feature_num_per_table(self) -> list[int]:
        """How many features read each table; none where their names were not given."""
        return [len(names) for names in self.feature_names_per_table or []]

    def get_uvm_cache_stats(self) -> Tensor:
        """(6,) int64 counts, by `UVMCacheStatsIndex`, all 0.

        Raises:
            AssertionError: they were not asked for.
        """
        self._asked_for("gather_uvm_cache_stats", bool(self.gather_uvm_cache_stats))
        return self.uvm_cache_stats

    def reset_cache_miss_counter(self) -> None:
        """Count misses from 0.

        Raises:
            AssertionError: they were not asked for.
        """
        self.get_cache_miss_counter().zero_()

    def reset_uvm_cache_stats(self) -> None:
        """Count from 0.

        Raises:
            AssertionError: counts were not asked for.
        """
        self.get_uvm_cache_stats().zero_()

    def print_cache_miss_counter(self) -> None:
        """Log the counts of misses.

        Raises:
            AssertionError: they were not asked for.
        """
        self.log(f"misses: {self.get_cache_miss_counter().tolist()}")

    def print_uvm_cache_stats(self) -> None:
        """Log the counts.

        Raises:
            AssertionError: they were not asked for.
        """
        counts = zip(UVMCacheStatsIndex, self.get_uvm_cache_stats().tolist(), strict=True)
        self.log(", ".join(f"{place.name}: {count}" for place, count in counts))

    def log(self, msg: str) -> None:
        """Log a message with these tables' name."""
        logger.info("%s: %s", self.uuid, msg)

    @staticmethod
    def _asked_for(option: str, given: bool) -> None:
        if not given:
            raise OptionError(f"{option} is off, expected on: nothing was counted.")

    def extra_repr(self) -> str:
        """Tables, features and pooling."""
        tables = ", ".join(f"{name}: {rows} x {dim} {kind}" for name, rows, dim, kind, _ in self.embedding_specs)
        return f"tables [{tables}], features {self.feature_table_map}, {self.pooling_mode.name}"


_MEMORIES = {
    EmbeddingLocation.DEVICE.value: "weights_dev",
    EmbeddingLocation.HOST.value: "weights_host",
    EmbeddingLocation.MANAGED.value: "weights_uvm",
    EmbeddingLocation.MANAGED_CACHING.value: "weights_uvm",
}


def _device(given: str | int | torch.device | None) -> torch.device:
    if given is not None:
        return torch.device(given)
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
