"""The kernel for accelerators gives what the reference gives, in Triton's interpreter, which needs none."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPARE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from operator_cases import CASES, copied
from flambeau.rec.ops import _keyed_triton, keyed

compared = 0
for name, arguments in CASES.items():
    if not name.startswith("permute_multi_embedding/"):
        continue
    pooled, permutes, in_shapes, out_shapes, out_lengths = arguments
    plain = [one.detach() for one in pooled]
    loose = dict(rtol=1e-2, atol=1e-2) if plain[0].dtype in (torch.float16, torch.bfloat16) else {}
    there = keyed.reference(plain, permutes, in_shapes, out_shapes, out_lengths)
    ours = _keyed_triton.permute_multi_embedding_function(plain, permutes, in_shapes, out_shapes, out_lengths)
    for one, other in zip(ours, there, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    widths = [one.shape[1] for one in plain]
    for one, other in zip(
        _keyed_triton.permute_multi_embedding_function(there, permutes, out_shapes, in_shapes, widths, True),
        keyed.reference(there, permutes, out_shapes, in_shapes, widths, True),
        strict=True,
    ):
        torch.testing.assert_close(one, other, **loose)
    compared += 1
wide = [torch.randn(70, 200), torch.randn(70, 130)]
names, groups = [["a", "b"], ["c"]], [["c", "a"], ["b", "a", "a"]]
made = keyed.kt_regroup_arguments(wide[0], names, [[150, 50], [130]], groups)
for one, other in zip(_keyed_triton.permute_multi_embedding_function(wide, *made), keyed.reference(wide, *made)):
    assert torch.equal(one, other)
print(compared)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_regrouping_on_accelerators_agrees_with_plain_torch():
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) >= 20
