"""Intersection over union of all pairs of boxes along the axes: the operator beside the plain tensor operations."""

import pytest
import torch

from flambeau.vision import tv_tensors
from flambeau.vision.ops import box_iou
from flambeau.vision.ops._box_iou import pairwise_iou, plain_iou


def some_boxes(count, seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(count, 2, generator=generator, dtype=dtype) * 90
    return torch.cat([corners, corners + torch.rand(count, 2, generator=generator, dtype=dtype) * 40], 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count1", "count2"), [(0, 3), (3, 0), (1, 1), (7, 33), (200, 129)])
def test_it_gives_what_the_tensor_operations_give(dtype, count1, count2):
    first, second = some_boxes(count1, 0, dtype), some_boxes(count2, 1, dtype)
    torch.testing.assert_close(pairwise_iou(first, second), plain_iou(first, second), rtol=1e-6, atol=0)
    assert torch.equal(box_iou(first, second), pairwise_iou(first, second))


def test_boxes_may_lie_in_memory_in_any_order():
    first, second = some_boxes(20, 0), some_boxes(30, 1)
    expected = pairwise_iou(first, second)
    assert torch.equal(pairwise_iou(first.T.contiguous().T, second.repeat_interleave(2, 0)[::2]), expected)
    assert torch.equal(pairwise_iou(first.flip(0), second), expected.flip(0))


def test_boxes_without_area_and_coordinates_that_are_no_numbers_are_as_in_tensor_operations():
    odd = torch.tensor(
        [[1.0, 1, 1, 1], [0, 0, 4, 4], [float("nan"), 0, 4, 4], [0, 0, 4, float("nan")], [0, 0, float("inf"), 4],
         [3, 3, 1, 1]]
    )  # fmt: skip
    torch.testing.assert_close(pairwise_iou(odd, odd), plain_iou(odd, odd), equal_nan=True)


def test_every_number_of_threads_gives_the_same_bits():
    first, second = some_boxes(700, 0), some_boxes(900, 1)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(pairwise_iou(first, second))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(result, results[0]) for result in results)


def test_gradients_batches_other_dtypes_and_vmap_take_the_tensor_operations():
    first, second = some_boxes(3, 0), some_boxes(2, 1)
    expected = box_iou(first, second)
    followed = first.double().requires_grad_()
    assert torch.autograd.gradcheck(box_iou, (followed, second.double().requires_grad_()), fast_mode=True)
    torch.testing.assert_close(box_iou(first.expand(2, 3, 4), second), expected.expand(2, 3, 2))
    torch.testing.assert_close(box_iou(first, second.double()), expected.double())
    assert box_iou(first.int(), second.int()).dtype == torch.float32
    torch.testing.assert_close(torch.vmap(box_iou)(first.expand(2, 3, 4), second.expand(2, 2, 4))[1], expected)
    assert box_iou(first.to("meta"), second.to("meta")).shape == (3, 2)


def test_typed_boxes_give_a_plain_matrix():
    boxes = tv_tensors.BoundingBoxes(some_boxes(3, 0), format="XYXY", canvas_size=(200, 200))
    assert type(box_iou(boxes, boxes)) is torch.Tensor
    assert torch.equal(box_iou(boxes, boxes), box_iou(some_boxes(3, 0), some_boxes(3, 0)))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (torch.zeros(3, 5), torch.zeros(3, 4), r"boxes1 has shape \(3, 5\), expected \(N, 4\)"),
        (torch.zeros(3, 4), torch.zeros(4), r"boxes2 has shape \(4,\), expected \(N, 4\)"),
        (torch.zeros(3, 4).int(), torch.zeros(3, 4), r"boxes1 has dtype torch.int32, expected float32 or float64"),
        (torch.zeros(3, 4), torch.zeros(3, 4).double(), r"boxes2 has dtype torch.float64, expected that of boxes1"),
    ],
)
def test_an_error_names_the_argument_and_its_value(first, second, message):
    with pytest.raises(RuntimeError, match=f"box_iou: {message}"):
        torch.ops.flambeau_vision._box_iou(first, second)


def test_torch_finds_nothing_wrong_with_the_registration():
    torch.library.opcheck(torch.ops.flambeau_vision._box_iou.default, (some_boxes(5, 0), some_boxes(3, 1)))


def test_it_compiles_as_one_graph_with_any_number_of_boxes():
    compiled = torch.compile(box_iou, fullgraph=True, dynamic=True, backend="aot_eager")
    for count in (7, 3, 20):
        boxes = some_boxes(count, 0)
        assert torch.equal(compiled(boxes, boxes), box_iou(boxes, boxes))
