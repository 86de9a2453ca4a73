"""Quantizers write the same bytes as FBGEMM's and read the same numbers from them; so do codecs of collectives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite, cross
from flambeau.core.testing.fill import tensor

pytest.importorskip("fbgemm_gpu", reason="needs fbgemm_gpu; `nox -s parity -- peers rec` has it")

import flambeau.rec.ops.quantize_8bit
import flambeau.rec.ops.quantize_bfloat16
import flambeau.rec.ops.quantize_float8
import flambeau.rec.ops.quantize_mx
import flambeau.rec.ops.quantize_nbit

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
        return {"rows": rows, "read": operator(library, read)(rows, *read_args)}

    return call


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
    "float8/rows-forward": (TYPES["float"], "FloatToFP8RowwiseQuantized", "FP8RowwiseQuantizedToFloat", (True,), (True,)),
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


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
