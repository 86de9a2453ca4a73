"""Quantizers write the same bytes as FBGEMM's and read the same numbers from them; so do codecs of collectives."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite, cross
from flambeau.core.testing.fill import tensor

pytest.importorskip("fbgemm_gpu", reason="needs fbgemm_gpu; `nox -s parity -- peers rec` has it")

# Importing them makes them known: they register operators, or are looked up below their packages.
for _module in (
    *(f"flambeau.rec.ops.quantize_{kind}" for kind in ("8bit", "bfloat16", "float8", "mx", "nbit")),
    *(f"{root}.{name}" for root in ("fbgemm_gpu", "flambeau.rec.fbgemm_gpu")
      for name in ("quantize.quantize_ops", "tbe.utils.quantize", "triton.quantize_ref")),
):  # fmt: skip
    importlib.import_module(_module)

SUITE = Suite(
    "quantize",
    ours="flambeau.rec.fbgemm_gpu",
    peer="fbgemm_gpu",
    roots=("flambeau.rec", "fbgemm_gpu"),
    differences=Path(__file__).with_name("differences.toml"),
)

SHAPES = {
    "plain": (4, 8), "odd": (3, 17), "single": (1, 1), "wide": (5, 64), "long": (2, 101), "no-rows": (0, 8),
    "cube": (2, 3, 16),
}  # fmt: skip


def _with(value, at=3):
    made = tensor("special", (4, 24))
    made.view(-1)[at] = value
    return made


VALUES = {name: (lambda shape=shape, name=name: tensor(name, shape)) for name, shape in SHAPES.items()} | {
    "constant": lambda: torch.full((3, 12), 0.7),
    "zeros": lambda: torch.zeros(2, 16),
    "one-outlier": lambda: _with(1e4),
    "tiny": lambda: tensor("tiny", (3, 16)) * 1e-7,
    "denormal": lambda: tensor("denormal", (3, 16)) * 1e-39,
    "large": lambda: tensor("large", (3, 16)) * 3e4,
    "huge": lambda: tensor("huge", (3, 16)) * 1e30,
    "infinite": lambda: _with(float("inf")),
    "minus-infinite": lambda: _with(-float("inf"), 40),
    "not-a-number": lambda: _with(float("nan"), 70),
    "halves": lambda: torch.arange(-32.0, 32.0).view(4, 16) / 2,
    "no-columns": lambda: torch.zeros(3, 0),
    "vector": lambda: tensor("vector", (12,)),
    "transposed": lambda: tensor("transposed", (16, 8)).t(),
}
TYPES = {"float": torch.float32, "half": torch.float16}


def operator(library, name):
    return getattr(torch.ops.flambeau_rec if library.ours else torch.ops.fbgemm, name)


def there_and_back(write, read, write_args=(), read_args=()):
    """What is written, and what is read from it."""

    def call(library, given):
        rows = operator(library, write)(given["x"], *write_args)
        values = operator(library, read)(rows, *read_args)
        if values.dtype == torch.bfloat16 and "8Bit" in read:
            values = without_ties(values, operator(library, "Fused8BitRowwiseQuantizedToFloat")(rows))
        return {"rows": rows, "read": values}

    return call


def without_ties(values, exact):
    """Values in bfloat16, but float32 where that lies between two of them.

    Which of the two FBGEMM takes depends on the processor: with AVX-512 it rounds after a fused multiply and add, and
    with less after the product, too.
    """
    rest = exact.view(torch.int32) & 0xFFFF
    return torch.where((rest - 0x8000).abs() <= 1, exact, values.float())


PAIRS = {
    "8bit/float": (TYPES["float"], "FloatToFused8BitRowwiseQuantized", "Fused8BitRowwiseQuantizedToFloat", (), ()),
    "8bit/half": (TYPES["half"], "HalfToFused8BitRowwiseQuantized", "Fused8BitRowwiseQuantizedToHalf", (), ()),
    "8bit/bfloat16": (
        TYPES["float"], "FloatOrHalfToFused8BitRowwiseQuantized", "Fused8BitRowwiseQuantizedToBfloat16", (), (),
    ),
    "8bit/either": (
        TYPES["half"], "FloatOrHalfToFused8BitRowwiseQuantized", "Fused8BitRowwiseQuantizedToFloatOrHalf", (), (5,),
    ),
    "nbit/4-float": (
        TYPES["float"], "FloatToFusedNBitRowwiseQuantizedSBHalf", "FusedNBitRowwiseQuantizedSBHalfToFloat", (4,), (4,),
    ),
    "nbit/2-float": (
        TYPES["float"], "FloatToFusedNBitRowwiseQuantizedSBHalf", "FusedNBitRowwiseQuantizedSBHalfToFloat", (2,), (2,),
    ),
    "nbit/4-half": (
        TYPES["half"], "HalfToFusedNBitRowwiseQuantizedSBHalf", "FusedNBitRowwiseQuantizedSBHalfToHalf", (4,), (4,),
    ),
    "nbit/2-either": (
        TYPES["half"], "FloatOrHalfToFusedNBitRowwiseQuantizedSBHalf", "FusedNBitRowwiseQuantizedSBHalfToFloatOrHalf",
        (2,), (2, 1),
    ),
    "float8/e4m3": (TYPES["float"], "FloatToHFP8Quantized", "HFP8QuantizedToFloat", (4, 14, 7.5), (4, 14)),
    "float8/e4m3-usual": (TYPES["float"], "FloatToHFP8Quantized", "HFP8QuantizedToFloat", (4, 7, 240.0), (4, 7)),
    "float8/e5m2": (TYPES["float"], "FloatToHFP8Quantized", "HFP8QuantizedToFloat", (5, 15, 57344.0), (5, 15)),
    "float8/rows-forward": (
        TYPES["float"], "FloatToFP8RowwiseQuantized", "FP8RowwiseQuantizedToFloat", (True,), (True,),
    ),
    "float8/rows-backward": (
        TYPES["float"], "FloatToFP8RowwiseQuantized", "FP8RowwiseQuantizedToFloat", (False,), (False, 5),
    ),
    "float8/rows-half": (
        TYPES["half"], "FloatToFP8RowwiseQuantized", "FP8RowwiseQuantizedToFloat", (True,), (True, 1),
    ),
    "bfloat16/float": (TYPES["float"], "FloatToBfloat16Quantized", "Bfloat16QuantizedToFloat", (), ()),
}  # fmt: skip
for _name, (_dtype, _write, _read, _write_args, _read_args) in PAIRS.items():
    for _kind, _make in VALUES.items():
        SUITE.add(
            Cell(
                f"{_name}/{_kind}",
                _name.partition("/")[0],
                there_and_back(_write, _read, _write_args, _read_args),
                lambda library, make=_make, dtype=_dtype: {"x": make().to(dtype)},
            )
        )


LENT = {"torch": torch}
CODEC = (
    "c = quantize_comm.QuantizedCommCodec(split_embedding_configs.SparseType.{precision}, {options}); "
    "ctx = c.create_context(); q = c.encode(x, ctx); "
    "[q, c.decode(q, ctx), c.calc_quantized_size(x.numel(), ctx), str(c.quantized_dtype), vars(ctx)]"
)
CODECS = [
    CODEC.format(precision=precision, options=options)
    for precision in ("FP32", "FP16", "BF16", "FP8", "INT8", "MX4", "INT4")
    for options in ("", "loss_scale=4.0", "row_dim=16", "is_fwd=False", "is_fwd=False, loss_scale=0.5, row_dim=8")
]
TENSORS = {
    "rows": {"x": lambda library: tensor("codec", (8, 40))},
    "groups": {"x": lambda library: tensor("codec", (4, 64))},
    "wide-range": {"x": lambda library: tensor("codec", (2, 64)) * 10.0 ** torch.arange(-32.0, 32.0) / 1e3},
}
SUITE.add(*cross("codec", TENSORS, CODECS, names=LENT))
SIZES = [
    f"c = quantize_comm.QuantizedCommCodec(split_embedding_configs.SparseType.{precision}{row}); "
    f"ctx = c.create_context(); {ask}"
    for precision, row in (("MX4", ""), ("MX4", ", row_dim=8"), ("INT8", ""), ("FP8", ", row_dim=16"), ("FP16", ""))
    for ask in (
        "c.calc_quantized_size(0, ctx)", "c.calc_quantized_size(96, ctx)", "c.calc_quantized_size(70, ctx)",
        "[c.padded_size(x, [40, 24], 0, ctx), ctx.padded_dim_sum_per_rank]", "c.padded_size(x, [24, 24], 1, ctx)",
    )
]  # fmt: skip
SUITE.add(*cross("codec", {"sizes": TENSORS["rows"]}, SIZES, names=LENT))
UTILITIES = [
    "quantize_utils.fp32_to_fp16_with_clamp(x)",
    "quantize_utils.fp32_to_bf16_with_clamp(x)",
    "quantize_utils.fp32_to_hfp8_with_clamp(x)",
    "quantize_utils.fp32_to_hfp8_with_clamp(x, 5, 2, 15)",
    "quantize_utils.hfp8_to_fp32(quantize_utils.fp32_to_hfp8_with_clamp(x))",
    "quantize_utils.fp16_to_fp32(x.half())",
    "quantize_utils.bf16_to_fp32(x.bfloat16())",
    *(
        f"q = quantize_utils.fp32_to_mx4(x, {group}, {ebits}, {3 - ebits}, {mode}); "
        f"[q, quantize_utils.mx4_to_fp32(q, {group}, True, {ebits}, {3 - ebits})]"
        for group, ebits in ((32, 2), (16, 2), (32, 3))
        for mode in (0, 1, 2, 4)
    ),
    "quantize_utils.fp32_to_mx4(x, 32, 1, 2)",
    "quantize_utils.mx4_to_float(quantize_utils.fp32_to_mx4(x), output_dtype=split_embedding_configs.SparseType.BF16)",
    "quantize_utils.mx4_to_float(quantize_utils.fp32_to_mx4(x), output_dtype=split_embedding_configs.SparseType.FP16)",
    "triton.quantize_ref.py_quantize_mx4(x)",
    "triton.quantize_ref.py_dequantize_mx4(triton.quantize_ref.py_quantize_mx4(x, 16), 16)",
    "q = quantize.quantize_ops.quantize_mx(x); [q, quantize.quantize_ops.dequantize_mx(q)]",
    "[triton.common.get_mx4_lookup_table(e, 3 - e, torch.device('cpu')) for e in (2, 3)]",
    "[triton.common.get_mx4_exp_bias(e) for e in (2, 3)]",
]
NUMBERS = {
    "plain": {"x": lambda library: tensor("numbers", (4, 64))},
    "odd": {"x": lambda library: tensor("numbers", (3, 50))},
    "vector": {"x": lambda library: tensor("numbers", (70,))},
    "ranges": {"x": lambda library: tensor("numbers", (4, 64)) * 2.0 ** torch.arange(-130.0, 126.0).view(4, 64)},
    "infinite": {"x": lambda library: _with(float("inf"))},
    "small": {"x": lambda library: tensor("numbers", (2, 32)) * 1e-42},
    "zeros": {"x": lambda library: torch.zeros(2, 32)},
    "empty": {"x": lambda library: torch.zeros(0, 32)},
}
SUITE.add(*cross("utilities", NUMBERS, UTILITIES, names=LENT))
TABLES = [
    f"q = tbe.utils.quantize.quantize_embs(w, split_embedding_configs.SparseType.{kind}, "
    "split_embedding_configs.FP8QuantizationConfig(4, 7)); d = tbe.utils.quantize.dequantize_embs(q[0], q[1], "
    f"split_embedding_configs.SparseType.{kind}, True, split_embedding_configs.FP8QuantizationConfig(4, 7)); [q, d]"
    for kind in ("FP32", "FP16", "BF16", "FP8", "INT8", "INT4", "INT2")
]
ROWS = {
    "plain": {"w": lambda library: tensor("table", (5, 16))},
    "half": {"w": lambda library: tensor("table", (5, 16)).half()},
    "empty": {"w": lambda library: torch.zeros(0, 16)},
    "wide": {"w": lambda library: tensor("table", (2, 128)) * 300},
}
# Upstream prints what it is doing.
SUITE.add(*(dataclasses.replace(cell, printed=False) for cell in cross("tables", ROWS, TABLES, names=LENT)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
