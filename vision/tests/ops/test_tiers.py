"""The operators' tests hold for every implementation: through ctypes, in plain torch, and for Triton's, interpreted."""

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
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=290, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("native", ["ctypes", "off"])
@pytest.mark.parametrize(
    "file", ["test_region_pooling.py", "test_deform_conv2d.py", "test_box_iou.py", "test_box_iou_rotated.py"]
)
def test_the_operators_tests_pass_in_the_lower_tiers(file, native):
    # What torch's compiler sees is the same in every tier.
    tests = ["-m", "pytest", "-q", "-k", "not compiles and not exports", "-p", "no:cacheprovider", str(HERE / file)]
    # Threads of torch's own scatter add up gradients in any order, and the tests ask for equal bits.
    threads = {"OMP_NUM_THREADS": "1"} if native == "off" else {}
    done = run(*tests, FLAMBEAU_NATIVE=native, **threads)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


COMPARE_TRITON = """
import contextlib, importlib, json, sys, torch

sys.path.insert(0, sys.argv[1])
import test_box_iou_rotated, test_deform_conv2d, test_region_pooling as pooling
from flambeau.vision.ops import _box_iou_rotated_triton, _deform_conv2d_triton
from flambeau.vision.ops import _roi_pooling_triton
from flambeau.vision.ops.box_iou_rotated import _reference as reference_iou

for module in (_roi_pooling_triton, _deform_conv2d_triton, _box_iou_rotated_triton):
    module.on = lambda device: contextlib.nullcontext()  # the interpreter works on tensors of the CPU
differ = []

def compare(what, ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        close = torch.allclose(one, other, rtol=1e-3, atol=1e-3 if one.dtype == torch.float16 else 1e-4)
        if not close or one.stride() != other.stride() or one.dtype != other.dtype:
            differ.append(what)

def several(results):
    return results if isinstance(results, tuple) else (results,)

for name, choices in pooling.POOLINGS.items():
    triton = importlib.import_module(f"flambeau.vision.ops._{name}_triton")
    plain = pooling.module(name)
    for number, kwargs in enumerate(choices):
        cells = ((torch.float32, False), (torch.float64, True), (torch.float16, False))
        for dtype, last in cells[: 1 if number else None]:
            maps, boxes = pooling.inputs(dtype, last=last, channels=6, count=5)
            forward, (before, after) = pooling.arguments(name, kwargs)
            expected = several(plain._reference(maps, boxes, *forward))
            compare([name, number, str(dtype)], several(getattr(triton, name)(maps, boxes, *forward)), expected)
            grad = torch.randn(expected[0].shape, generator=torch.Generator().manual_seed(1)).to(dtype)
            call = (grad, boxes, *expected[1:], *before, *maps.shape, *after)
            flow = getattr(triton, f"{name}_backward")(*call)
            compare([name, number, str(dtype), "backward"], (flow,), (plain._reference_backward(*call),))

for groups in test_deform_conv2d.GROUPS[1:2]:
    for dtype, masked in ((torch.float32, True), (torch.float64, False)):
        call = test_deform_conv2d.arguments(
            *test_deform_conv2d.inputs(groups, dtype=dtype, masked=masked, images=1, size=(4, 5)))
        expected = test_deform_conv2d.reference._reference(*call)
        compare(["deform_conv2d", str(dtype)], (_deform_conv2d_triton.deform_conv2d(*call),), (expected,))
        grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        compare(["deform_conv2d backward", str(dtype)], _deform_conv2d_triton.deform_conv2d_backward(grad, *call),
                test_deform_conv2d.reference._reference_backward(grad, *call))

boxes = test_box_iou_rotated.some_boxes(12, 0), test_box_iou_rotated.some_boxes(9, 1)
compare(["box_iou_rotated"], (_box_iou_rotated_triton.box_iou_rotated(*boxes),), (reference_iou(*boxes),))
print(json.dumps(differ))
"""


def test_every_triton_kernel_is_compared_here_or_with_nms():
    from flambeau.vision import ops
    from flambeau.vision.ops._library import LIBRARY

    assert all(hasattr(ops, name) for name in ops.__all__)  # importing an operator registers it
    found = {about["triton"].partition(":")[0] for about in LIBRARY.operators.values() if about["triton"]}
    compared = ["box_iou_rotated", "deform_conv2d", "nms", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool"]
    assert sorted(found) == [f"flambeau.vision.ops._{name}_triton" for name in compared]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_the_triton_kernels_give_the_references_numbers():
    done = run("-c", COMPARE_TRITON, str(HERE), TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []
