"""Table-batched embeddings for inference: rows of any element types looked up and pooled in one pass.

Tables lie one after another in bytes. A row of INT8, INT4 or INT2 is scale and bias as float16, then codes with the
first
number in the lowest bits; rows of FP32, FP16, BF16 and FP8 are their numbers. Rows end at multiples of `row_alignment`.
The native kernels are `native/tbe_inference.cpp` and `native/tbe_inference_rows.cpp`.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops import quantize_8bit, quantize_float8
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._quantized_rows import as_numbers
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.quantize_nbit import unpack

__all__ = ["Tables", "look_up", "row_bytes"]

FP32, FP16, INT8, INT4, INT2, BF16, FP8 = range(7)
_OUTPUTS = {FP32: torch.float32, FP16: torch.float16, INT8: torch.uint8, BF16: torch.bfloat16}
_BITS = {INT8: 8, INT4: 4, INT2: 2}
_SUM, _MEAN, _NONE = range(3)
_MANAGED = (1, 2)  # places of tables that lie in `uvm_weights`
_INDICES = (torch.int32, torch.int64)
_OP = "int_nbit_split_embedding_codegen_lookup_function"


def row_bytes(weight_type: int, dim: int, row_alignment: int = 1) -> int:
    """Bytes of a row with all that belongs to it.

    Args:
        weight_type: 0 to 6: FP32, FP16, INT8, INT4, INT2, BF16, FP8.
        dim: its numbers.
        row_alignment: what the result is a multiple of.

    Returns:
        Bytes from one row to the next.
    """
    if weight_type in _BITS:
        size = (dim * _BITS[weight_type] + 7) // 8 + 4
    else:
        size = dim * {FP32: 4, FP16: 2, BF16: 2, FP8: 1}[weight_type]
    return -(-size // row_alignment) * row_alignment


class Tables(Protocol):
    """What says where tables are; see `fbgemm_gpu.split_table_batched_embeddings_ops_inference`."""

    weights_dev: Tensor
    weights_host: Tensor
    weights_uvm: Tensor
    weights_placements: Tensor
    weights_offsets: Tensor
    weights_tys: Tensor
    D_offsets: Tensor
    total_D: int
    host_size: int
    pooling_mode: Any
    output_dtype: int
    row_alignment: int
    fp8_exponent_bits: int
    fp8_exponent_bias: int
    max_int2_D: int
    max_int4_D: int
    max_int8_D: int
    max_float8_D: int
    max_float16_D: int
    max_float32_D: int


def look_up(tables: Tables, indices: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
    """Pool rows of tables.

    Args:
        tables: where they are, and how rows are pooled.
        indices: (total,) int32 or int64; -1 for rows that were pruned.
        offsets: (features * batch + 1,) int32 or int64.
        weights: (total,) float32 factors of rows, or None.

    Returns:
        (batch, columns), or (total, columns) without pooling.

    Raises:
        RuntimeError: an index outside of its table, or arguments that do not fit.
    """
    return OPS.int_nbit_split_embedding_codegen_lookup_function(  # type: ignore[no-any-return]
        tables.weights_host if tables.host_size else tables.weights_dev,
        tables.weights_uvm,
        tables.weights_placements,
        tables.weights_offsets,
        tables.weights_tys,
        tables.D_offsets,
        tables.total_D,
        tables.max_int2_D,
        tables.max_int4_D,
        tables.max_int8_D,
        tables.max_float16_D,
        tables.max_float32_D,
        indices,
        offsets,
        int(tables.pooling_mode),
        weights,
        tables.output_dtype,
        None,
        None,
        tables.row_alignment,
        tables.max_float8_D,
        tables.fp8_exponent_bits,
        tables.fp8_exponent_bias,
    )


def _fake(
    dev_weights: Tensor, uvm_weights: Tensor, weights_placements: Tensor, weights_offsets: Tensor, weights_tys: Tensor,
    D_offsets: Tensor, total_D: int, max_int2_D: int, max_int4_D: int, max_int8_D: int, max_float16_D: int,
    max_float32_D: int, indices: Tensor, offsets: Tensor, pooling_mode: int, indice_weights: Tensor | None,
    output_dtype: int = 1, lxu_cache_weights: Tensor | None = None, lxu_cache_locations: Tensor | None = None,
    row_alignment: int | None = None, max_float8_D: int | None = 0, fp8_exponent_bits: int | None = -1,
    fp8_exponent_bias: int | None = -1,
) -> Tensor:  # fmt: skip
    features = D_offsets.shape[0] - 1
    _check(features, indices, offsets, pooling_mode, output_dtype)
    dtype, in_bytes = _OUTPUTS[output_dtype], output_dtype == INT8
    if pooling_mode == _NONE:
        return dev_weights.new_empty((indices.shape[0], total_D // features + 4 * in_bytes), dtype=dtype)
    batch = (offsets.shape[0] - 1) // features
    return dev_weights.new_empty((batch, total_D + 8 * in_bytes * features), dtype=dtype)


def _check(features: int, indices: Tensor, offsets: Tensor, pooling_mode: int, output_dtype: int) -> None:
    """The same sentences as native/tbe_inference.cpp."""
    for name, tensor in (("indices", indices), ("offsets", offsets)):
        if tensor.dim() != 1 or tensor.dtype not in _INDICES:
            raise RuntimeError(
                f"{_OP}: {name} has shape {tuple(tensor.shape)} and dtype {tensor.dtype}, expected (n,) of int32 or "
                "int64."
            )
    if features < 1:
        raise RuntimeError(
            f"{_OP}: offsets has {offsets.shape[0]} entries for {features} features, expected features * batch + 1."
        )
    if not 0 <= pooling_mode <= _NONE:
        raise RuntimeError(f"{_OP}: pooling_mode is {pooling_mode}, expected 0 (sum), 1 (mean) or 2 (none).")
    if output_dtype not in _OUTPUTS:
        raise RuntimeError(
            f"{_OP}: output_dtype is {output_dtype}, expected 0 (float32), 1 (float16), 2 (int8) or 5 (bfloat16)."
        )


def _rows_as_floats(rows: Tensor, weight_type: int, dim: int, exponent_bits: int, exponent_bias: int) -> Tensor:
    """(n, dim) float32 of (n, bytes) uint8."""
    if weight_type in _BITS:
        scale, bias = as_numbers(rows[:, :4], torch.float16).float().split(1, -1)
        codes = unpack(rows[:, 4:], _BITS[weight_type])[:, :dim].float()
        values: Tensor = codes * scale + bias
        return values
    if weight_type == FP8:
        return quantize_float8.decoded(rows[:, :dim], exponent_bits, exponent_bias)
    dtype = _OUTPUTS[weight_type]
    return as_numbers(rows[:, : dim * dtype.itemsize], dtype).float()


def _reference(
    dev_weights: Tensor, uvm_weights: Tensor, weights_placements: Tensor, weights_offsets: Tensor, weights_tys: Tensor,
    D_offsets: Tensor, total_D: int, max_int2_D: int, max_int4_D: int, max_int8_D: int, max_float16_D: int,
    max_float32_D: int, indices: Tensor, offsets: Tensor, pooling_mode: int, indice_weights: Tensor | None,
    output_dtype: int = 1, lxu_cache_weights: Tensor | None = None, lxu_cache_locations: Tensor | None = None,
    row_alignment: int | None = None, max_float8_D: int | None = 0, fp8_exponent_bits: int | None = -1,
    fp8_exponent_bias: int | None = -1,
) -> Tensor:  # fmt: skip
    features = D_offsets.shape[0] - 1
    _check(features, indices, offsets, pooling_mode, output_dtype)
    for name, memory in (("dev_weights", dev_weights), ("uvm_weights", uvm_weights)):
        if not memory.is_contiguous():
            raise RuntimeError(f"{_OP}: {name} has gaps; give it `contiguous()`.")
    ends, widths = offsets.tolist(), D_offsets.diff().tolist()
    batch = (len(ends) - 1) // features
    parts = []
    for feature, (start, place, weight_type, dim) in enumerate(
        zip(weights_offsets.tolist(), weights_placements.tolist(), weights_tys.tolist(), widths, strict=True)
    ):
        if output_dtype == INT8 and weight_type != INT8:
            raise RuntimeError(
                f"{_OP}: output_dtype is int8, expected tables of int8 alone; feature {feature} reads another. "
                "Choose a "
                "floating output_dtype."
            )
        memory = uvm_weights if place in _MANAGED else dev_weights
        size = row_bytes(weight_type, dim, row_alignment or 1)
        managed = (weights_placements == 1) | (weights_placements == 2)
        same = managed if place in _MANAGED else ~managed
        later = weights_offsets[same & (weights_offsets > start)].tolist()
        rows = (min([memory.numel(), *later]) - start) // size if size else 0
        table = memory[start : start + rows * size].view(rows, size)
        first, last = ends[feature * batch], ends[(feature + 1) * batch]
        ids = indices[first:last].long()
        if bool(((ids < -1) | (ids >= rows)).any()):
            at = int(((ids < -1) | (ids >= rows)).nonzero()[0])
            raise RuntimeError(
                f"{_OP}: indices has {int(ids[at])} at {first + at}, for feature {feature} whose table has {rows} "
                "rows; "
                f"expected 0 to {rows - 1}, or -1 for a row that was pruned."
            )
        present = ids >= 0
        if output_dtype == INT8 and pooling_mode == _NONE:  # rows as they are
            parts.append(table[ids.clamp(min=0), : dim + 4] * present[:, None])
            continue
        values = torch.zeros((len(ids), dim), device=memory.device)
        values[present] = _rows_as_floats(
            table[ids[present]], weight_type, dim, fp8_exponent_bits or -1, fp8_exponent_bias or 0
        )
        if pooling_mode == _NONE:
            parts.append(values)
            continue
        if indice_weights is not None:
            values = values * indice_weights[first:last, None]
        lengths = offsets[feature * batch : (feature + 1) * batch + 1].diff().long()
        bags = torch.repeat_interleave(torch.arange(batch, device=memory.device), lengths)
        pooled = torch.zeros((batch, dim), device=memory.device).index_add(0, bags, values)
        if pooling_mode == _MEAN:
            pooled = pooled * (1.0 / lengths.clamp(min=1).float())[:, None]
        parts.append(pooled)
    if output_dtype == INT8 and pooling_mode != _NONE:
        parts = [quantize_8bit.from_float(part) for part in parts]
    return torch.cat(parts, 0 if pooling_mode == _NONE else 1).to(_OUTPUTS[output_dtype])


_COMMON = (
    "Tensor dev_weights, Tensor uvm_weights, Tensor weights_placements, Tensor weights_offsets, Tensor weights_tys, "
    "Tensor D_offsets, SymInt total_D, int max_int2_D, int max_int4_D, int max_int8_D, int max_float16_D, "
    "int max_float32_D, Tensor indices, Tensor offsets, int pooling_mode, Tensor? indice_weights"
)
register_op(
    f"{_OP}({_COMMON}, int output_dtype=1, Tensor? lxu_cache_weights=None, Tensor? lxu_cache_locations=None, "
    "int? row_alignment=None, int? max_float8_D=0, int? fp8_exponent_bits=-1, int? fp8_exponent_bias=-1) -> Tensor",
    library=LIBRARY,
    fake=_fake,
    python=_reference,
)


def _with_cache(*args: object, **kwargs: object) -> Tensor:
    """What is in a cache is in the tables as well."""
    for name in _CACHE:
        kwargs.pop(name, None)
    plain = torch.ops.flambeau_rec.int_nbit_split_embedding_codegen_lookup_function
    return plain(*args[:23], **kwargs)  # type: ignore[no-any-return]


_CACHE = ("cache_hash_size_cumsum", "total_cache_hash_size", "cache_index_table_map", "lxu_cache_state", "lxu_state")
register_op(
    f"int_nbit_split_embedding_uvm_caching_codegen_lookup_function({_COMMON}=None, int output_dtype=1, "
    "Tensor? lxu_cache_weights=None, Tensor? lxu_cache_locations=None, int? row_alignment=-1, int? max_float8_D=0, "
    "int? fp8_exponent_bits=-1, int? fp8_exponent_bias=-1, Tensor? cache_hash_size_cumsum=None, "
    "int? total_cache_hash_size=-1, Tensor? cache_index_table_map=None, Tensor? lxu_cache_state=None, "
    "Tensor? lxu_state=None) -> Tensor",
    library=LIBRARY,
    fake=lambda *args, **kwargs: _fake(*args[:23], **{k: v for k, v in kwargs.items() if k not in _CACHE}),
    python=_with_cache,
)
