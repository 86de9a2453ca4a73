"""What the operator `box_iou_rotated` does; `test_boxes.py` says what overlaps of rotated boxes are."""

from __future__ import annotations

import os

import pytest
import torch

from flambeau.vision.ops import box_iou
from flambeau.vision.ops._library import LIBRARY
from flambeau.vision.ops.box_iou_rotated import _reference, box_iou_rotated

NATIVE = os.environ.get("FLAMBEAU_NATIVE", "auto")
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def some_boxes(count, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(count, 5, generator=generator, dtype=torch.float64)
    return (values * torch.tensor([50, 50, 30, 30, 720.0]) - torch.tensor([0, 0, 0, 0, 360.0])).to(dtype)


def test_the_expected_tier_serves():
    expected = {"auto": "dispatcher", "dispatcher": "dispatcher", "ctypes": "ctypes", "off": "python"}[NATIVE]
    assert LIBRARY.operators["box_iou_rotated"]["provider"] == expected, LIBRARY.reason


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_implementation_agrees_with_the_reference(dtype):
    first, second = some_boxes(60, 0, dtype), some_boxes(40, 1, dtype)
    second[:10] = first[:10]
    second[10:15], second[10:15, 4] = first[10:15], first[10:15, 4] + 90
    second[15, 2] = 0
    ours = box_iou_rotated(first, second)
    torch.testing.assert_close(ours, _reference(first, second), rtol=0, atol={torch.float64: 1e-13}.get(dtype, 1e-6))
    assert ours[:, 15].count_nonzero() == 0


def test_turned_by_whole_right_angles_it_is_the_plain_overlap():
    corners = torch.rand(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 20
    plain = torch.cat([corners, corners + 5 + corners.flip(0) / 4], 1)
    centre, side = (plain[:, :2] + plain[:, 2:]) / 2, plain[:, 2:] - plain[:, :2]
    zero = torch.zeros(20, 1, dtype=torch.float64)
    turned = torch.cat([centre, side.flip(1), zero + 90], 1), torch.cat([centre, side, zero + 180], 1)
    torch.testing.assert_close(box_iou_rotated(*turned), box_iou(plain, plain), rtol=0, atol=1e-12)


def test_any_strides_will_do_and_none_are_enough():
    first, second = some_boxes(6, 0), some_boxes(4, 1)
    wide = torch.zeros(12, 9, dtype=torch.float64)
    wide[::2, ::2][:, :5] = first
    assert torch.equal(box_iou_rotated(wide[::2, ::2], second.t().contiguous().t()), box_iou_rotated(first, second))
    assert box_iou_rotated(first[:0], second).shape == (0, 4)
    assert box_iou_rotated(first, second[:0]).shape == (6, 0)


def test_the_result_does_not_depend_on_the_number_of_threads():
    first, second = some_boxes(200, 0), some_boxes(150, 1)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(box_iou_rotated(first, second))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(result, results[0]) for result in results)


def test_it_has_a_gradient_and_takes_batches():
    first, second = some_boxes(3, 0).requires_grad_(), some_boxes(2, 1).requires_grad_()
    assert torch.autograd.gradcheck(box_iou_rotated, (first, second), fast_mode=True)
    batch = box_iou_rotated(first.detach().expand(2, 3, 5), second.detach())
    torch.testing.assert_close(batch, box_iou_rotated(first.detach(), second.detach()).expand(2, 3, 2))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (torch.zeros(3, 4), torch.zeros(3, 5), r"boxes1 has shape \(3, 4\), expected \(N, 5\): centre, width"),
        (torch.zeros(3, 5), torch.zeros(5), r"boxes2 has shape \(5,\), expected \(N, 5\)"),
        (torch.zeros(3, 5).int(), torch.zeros(3, 5), r"boxes1 has dtype torch.int32, expected float32"),
        (torch.zeros(3, 5), torch.zeros(3, 5).double(), r"boxes2 has dtype torch.float64, expected that of boxes1"),
    ],
)
def test_an_error_names_the_argument_and_its_value(first, second, message):
    with pytest.raises(RuntimeError, match=f"box_iou_rotated: {message}"):
        torch.ops.flambeau_vision.box_iou_rotated(first, second)


def test_torch_finds_nothing_wrong_with_the_registration():
    torch.library.opcheck(torch.ops.flambeau_vision.box_iou_rotated.default, (some_boxes(5, 0), some_boxes(3, 1)))


def test_it_compiles_as_one_graph_with_any_number_of_boxes():
    compiled = torch.compile(box_iou_rotated, fullgraph=True, dynamic=True, backend="aot_eager")
    for count in (7, 3, 20):
        boxes = some_boxes(count, 0)
        assert torch.equal(compiled(boxes, boxes), box_iou_rotated(boxes, boxes))
