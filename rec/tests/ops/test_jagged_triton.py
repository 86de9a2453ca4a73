"""The Triton kernels of jagged operators give the references' numbers, in Triton's interpreter."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

COMPARED = {
    "_dense_to_jagged": ("dense_to_jagged", "jagged_conversion", "_to_jagged"),
    "_jagged_to_dense": ("jagged_to_dense", "jagged_conversion", "_to_dense"),
    "jagged_1d_to_dense": ("jagged_1d_to_dense", "jagged_conversion", "_to_dense"),
    "jagged_2d_to_dense": ("jagged_2d_to_dense", "jagged_conversion", "_to_dense"),
    "jagged_dense_bmm_forward": ("jagged_dense_bmm", "jagged_matmul", "_jagged_dense"),
    "jagged_jagged_bmm": ("jagged_jagged_bmm", "jagged_matmul", "_jagged_jagged"),
    "jagged_softmax_backward": ("jagged_softmax_backward", "jagged_softmax", "_softmax_backward"),
    "jagged_softmax_forward": ("jagged_softmax_forward", "jagged_softmax", "_softmax"),
}

COMPARE = """
import contextlib, json, sys, torch

sys.path.insert(0, sys.argv[1])
from jagged_cases import ends, floats
from operator_cases import F16, F32, F64, I32, I64, ids
from flambeau.rec.ops import _jagged_triton as kernels, jagged_conversion, jagged_matmul, jagged_softmax

kernels._on = lambda device: contextlib.nullcontext()  # the interpreter works on tensors of the CPU
differ = []

def compare(what, ours, theirs):
    tolerance = 2e-3 if ours.dtype == F16 else 1e-5
    if ours.dtype != theirs.dtype or not torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True):
        differ.append([str(part) for part in what])

LAYOUTS = ([2, 0, 3, 1], [40, 35], [], [0, 0])
for lengths in LAYOUTS:
    total, rows = sum(lengths), len(lengths)
    for kind, longest in ((I32, 2), (I64, 37)):
        offsets = ends(lengths, kind)
        for dtype in (F32, F16, F64):
            what = lengths, kind, longest, dtype
            x, wide, vector = (floats(n, (total, w), dtype) for n, w in (("x", 3), ("w", 70), ("v", 1)))
            padded = kernels.jagged_to_dense(wide, offsets, longest, -0.5, 0)
            compare(("to dense", *what), padded, jagged_conversion._to_dense("", wide, offsets, longest, -0.5))
            compare(("2d", *what), kernels.jagged_2d_to_dense(x, offsets, longest),
                    jagged_conversion._to_dense("", x, offsets, longest, 0))
            for known in (None, total):
                compare(("to jagged", *what), kernels.dense_to_jagged(padded, offsets, known),
                        jagged_conversion._to_jagged(padded, offsets, known))
            compare(("softmax", *what), kernels.jagged_softmax_forward(wide * 40, offsets, longest),
                    jagged_softmax._softmax(wide * 40, offsets, longest))
            given = wide, floats("o", (total, 70), dtype), offsets, longest
            compare(("softmax backward", *what), kernels.jagged_softmax_backward(*given),
                    jagged_softmax._softmax_backward(*given))
            compare(("items", *what), kernels.jagged_jagged_bmm(x, wide, offsets, longest),
                    jagged_matmul._jagged_jagged(x, wide, offsets, longest))
            y = floats("y", (rows, 70, 5), dtype)
            compare(("dense", *what), kernels.jagged_dense_bmm(wide, offsets, y, longest),
                    jagged_matmul._jagged_dense(wide, offsets, y, longest))
        numbers = ids("n", total, 90) + 2**60
        compare(("1d", lengths, kind, longest), kernels.jagged_1d_to_dense(numbers, offsets, longest, 2**62 + 1),
                jagged_conversion._to_dense("", numbers, offsets, longest, 2**62 + 1))
        truths = floats("t", (total, 2)) > 0
        compare(("bool", lengths, kind, longest), kernels.jagged_to_dense(truths, offsets, longest, 1.0, 1),
                jagged_conversion._to_dense("", truths, offsets, longest, True))
print(json.dumps(differ))
"""


def test_every_triton_kernel_of_a_jagged_operator_is_compared_here():
    import flambeau.rec.ops
    from flambeau.rec.ops._library import LIBRARY

    for module in pkgutil.iter_modules(flambeau.rec.ops.__path__, "flambeau.rec.ops."):
        if module.name.rpartition(".")[2].startswith(("jagged_", "sll_")):
            importlib.import_module(module.name)
    found = {
        name: about["triton"] for name, about in LIBRARY.operators.items() if "_jagged_triton" in str(about["triton"])
    }
    assert found == {name: f"flambeau.rec.ops._jagged_triton:{one[0]}" for name, one in COMPARED.items()}
    for kernel, module, plain in COMPARED.values():
        assert f"kernels.{kernel}(" in COMPARE and f"{module}.{plain}(" in COMPARE


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_the_triton_kernels_give_the_references_numbers():
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, str(Path(__file__).parent)],
        capture_output=True, text=True, timeout=580, env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []
