"""Samples of quantizers, and of look-ups in tables of quantized rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from flambeau.core.testing import Sample
from flambeau.rec.ops._samples._inputs import I32, floats, ints, operator

__all__ = ["quantized_samples"]

# Codes of one dtype are not those of another: inputs are taken as they are.
_as_given = partial(operator, dtypes=())


def quantized_samples() -> Iterator[Sample]:
    """Each operator once."""
    yield from _of_8_bits()
    yield from _of_fewer_bits()
    yield from _of_floats()
    yield from _look_ups()


def _of_8_bits() -> Iterator[Sample]:
    ops, numbers = torch.ops.flambeau_rec, floats("numbers", 4, 8) * 3
    rows = ops.FloatToFused8BitRowwiseQuantized(numbers)
    yield _as_given("FloatToFused8BitRowwiseQuantized", numbers)
    yield _as_given("HalfToFused8BitRowwiseQuantized", numbers.half())
    yield operator("FloatOrHalfToFused8BitRowwiseQuantized", numbers, dtypes=("float32", "float16"))
    yield _as_given("FloatToFused8BitRowwiseQuantizedOut", torch.zeros_like(rows), numbers)
    for kind in ("Float", "Half", "FloatOrHalf", "Bfloat16"):
        yield _as_given(f"Fused8BitRowwiseQuantizedTo{kind}", rows)
    yield _as_given("Fused8BitRowwiseQuantizedToFloatOut", torch.zeros_like(numbers), rows)
    yield _as_given("Fused8BitRowwiseQuantizedToFloatMixedDim", torch.cat([rows, rows], 1), ints([0, 16, 32], I32), 0)


def _of_fewer_bits() -> Iterator[Sample]:
    ops, numbers, bits = torch.ops.flambeau_rec, floats("numbers", 4, 8) * 3, 4
    name = "FusedNBitRowwiseQuantizedSBHalf"
    rows = ops.FloatToFusedNBitRowwiseQuantizedSBHalf(numbers, bits)
    yield _as_given(f"FloatTo{name}", numbers, bits)
    yield _as_given(f"HalfTo{name}", numbers.half(), bits)
    yield operator(f"FloatOrHalfTo{name}", numbers, bits, dtypes=("float32", "float16"))
    limits = torch.stack([numbers.amin(1) / 2, numbers.amax(1) / 2], 1)
    yield _as_given(f"FloatOrHalfTo{name}WithRowwiseMinMax", numbers, bits, limits)
    yield _as_given(f"{name}ToFloat", rows, bits)
    yield _as_given(f"{name}ToHalf", rows, bits)
    yield _as_given(f"{name}ToFloatOrHalf", rows, bits)
    front = torch.cat([rows[:, -4:], rows[:, :-4]], 1)
    yield _as_given(f"{name}FrontToFloatOrHalf", front, bits, 0)


def _of_floats() -> Iterator[Sample]:
    ops, numbers = torch.ops.flambeau_rec, floats("numbers", 4, 32) * 3
    yield _as_given("FloatToBfloat16Quantized", numbers)
    yield _as_given("Bfloat16QuantizedToFloat", ops.FloatToBfloat16Quantized(numbers))
    yield _as_given("FloatToFP8RowwiseQuantized", numbers, True)
    yield _as_given("FP8RowwiseQuantizedToFloat", ops.FloatToFP8RowwiseQuantized(numbers, True), True)
    padded = ops.FloatToPaddedFP8RowwiseQuantized(numbers, True, 16)
    yield _as_given("FloatToPaddedFP8RowwiseQuantized", numbers, True, 16)
    yield _as_given("PaddedFP8RowwiseQuantizedToFloat", padded, True, 16, 32)
    yield _as_given("FloatToHFP8Quantized", numbers, 4, 7, 240.0)
    yield _as_given("HFP8QuantizedToFloat", ops.FloatToHFP8Quantized(numbers, 4, 7, 240.0), 4, 7)
    shared = ops.FloatToMSFPQuantized(numbers, 4, 4, 3, 7, 0.0, 240.0)
    yield _as_given("FloatToMSFPQuantized", numbers, 4, 4, 3, 7, 0.0, 240.0)
    yield _as_given("MSFPQuantizedToFloat", shared, 4, 3, 7)
    groups = ops.quantize_mx4(numbers, 32, 2, 1, 0, False, 0)
    yield _as_given("quantize_mx4", numbers, 32, 2, 1, 0, False, 0)
    yield _as_given("dequantize_mx4", groups, 32, 2, 1)
    yield _as_given("quantize_mx_cuda", numbers, 8, 2, 3, 6.0, 32)
    yield _as_given("dequantize_mx_cuda", groups, 32)


def _look_ups() -> Iterator[Sample]:
    for ending in ("", "_uvm_caching"):
        yield _as_given(f"int_nbit_split_embedding{ending}_codegen_lookup_function", *_tables())


def _tables() -> tuple[object, ...]:
    """Two tables of rows of 8 bits, two features, three examples."""
    rows = torch.ops.flambeau_rec.FloatToFused8BitRowwiseQuantized(floats("rows", 9, 8))
    half = rows[:, 8:].contiguous().view(torch.float32).half().view(torch.uint8)
    table: Tensor = torch.cat([half, rows[:, :8], torch.zeros(9, 4, dtype=torch.uint8)], 1)
    places, starts, kinds = ints([0, 0], I32), ints([0, 5 * 16]), ints([2, 2], torch.uint8)
    ids, offsets = ints([0, 4, -1, 2, 3, 1], I32), ints([0, 2, 2, 3, 4, 4, 6], I32)
    none = torch.empty(0, dtype=torch.uint8)
    widths = ints([0, 8, 16], I32), 16, 0, 0, 8, 0, 0
    return table.flatten(), none, places, starts, kinds, *widths, ids, offsets, 0, None, 0, None, None, 16
