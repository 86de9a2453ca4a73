"""`test_ops_nms.py` holds for every implementation: through ctypes, in plain torch, and for Triton's, interpreted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **environment}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=280, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("native", ["ctypes", "off"])
def test_the_operators_tests_pass_in_the_lower_tiers(native):
    tests = ["-m", "pytest", "-q", "-m", "not gpu", "-p", "no:cacheprovider", str(HERE / "test_ops_nms.py")]
    done = run(*tests, FLAMBEAU_NATIVE=native)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


COMPARE_TRITON = """
import contextlib, json, torch
from flambeau.vision.ops import _nms_triton as triton_nms
from flambeau.vision.ops.nms import _reference, _reference_batched

triton_nms._on = lambda device: contextlib.nullcontext()  # the interpreter works on tensors of the CPU
generator = torch.Generator().manual_seed(0)
differ = []
for count in (0, 1, 5, 65):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        corner = torch.rand(count, 2, generator=generator) * 100
        boxes = torch.cat([corner, corner + torch.rand(count, 2, generator=generator) * 60], 1).to(dtype)
        scores = torch.rand(count, generator=generator).to(dtype)
        classes = torch.randint(0, 3, (count,), generator=generator)
        if count > 3:
            boxes[3], scores[3] = boxes[0], scores[0]
            boxes[2, 1] = scores[1] = torch.nan
        for threshold in (0.0, 0.3):
            same = torch.equal(triton_nms.nms(boxes, scores, threshold), _reference(boxes, scores, threshold))
            batched = triton_nms.batched_nms(boxes, scores, classes, threshold)
            if not (same and torch.equal(batched, _reference_batched(boxes, scores, classes, threshold))):
                differ.append([count, str(dtype), threshold])
print(json.dumps(differ))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_the_triton_kernel_gives_the_references_boxes():
    done = run("-c", COMPARE_TRITON, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == []
