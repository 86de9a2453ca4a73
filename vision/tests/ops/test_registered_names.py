"""Operators are found by their names in torch's registry, whatever was imported of the package before."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import flambeau.vision  # noqa: F401  # it shows the operators

CALLS = {
    "nms": "(torch.zeros(0, 4), torch.zeros(0), 0.5)",
    "batched_nms": "(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.int64), 0.5)",
    "box_iou_rotated": "(torch.zeros(0, 5), torch.zeros(0, 5))",
}
NAMES = [*CALLS, "deform_conv2d", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool"]


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("imports", ["import flambeau.vision, torch", "import torch, flambeau.vision.ops"])
def test_an_operator_is_there_without_its_function_being_touched(imports):
    shown = printed(f"{imports}\nprint(torch.ops.flambeau_vision.nms{CALLS['nms']}.shape, torch.__spec__.loader)")
    assert shown.startswith("torch.Size([0]) <_frozen_importlib_external.SourceFileLoader")


def test_all_names_are_there_and_others_are_not():
    code = "import flambeau.vision, torch\n" + "\n".join(f"torch.ops.flambeau_vision.{name}.default" for name in NAMES)
    assert printed(f"{code}\nprint(hasattr(torch.ops.flambeau_vision, 'none'))") == "False"


def test_the_package_still_imports_no_torch():
    assert printed("import flambeau.vision.ops, sys\nprint('torch' in sys.modules)") == "False"


def test_compiled_code_finds_them():
    def area(boxes, others):
        return torch.ops.flambeau_vision.box_iou_rotated(boxes, others).sum()

    boxes = torch.tensor([[2.0, 2.0, 2.0, 2.0, 30.0]])
    assert torch.compile(area, fullgraph=True, backend="eager")(boxes, boxes).item() == pytest.approx(1.0)
