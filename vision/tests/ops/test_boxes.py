"""Functions on boxes: formats, areas, overlaps, selection."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.vision import ops
from flambeau.vision.ops._rotated_iou import rotated_iou

number = st.floats(-50, 50, width=32)
side = st.floats(1, 40, width=32)
angle = st.floats(-360, 360, width=32)
rotated_box = st.tuples(number, number, side, side, angle)
AXIS_ALIGNED = ["xyxy", "xywh", "cxcywh"]
ROTATED = ["xywhr", "cxcywhr", "xyxyxyxy"]


def some_boxes(count: int = 7, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    corner = torch.rand(count, 2, generator=torch.Generator().manual_seed(count)) * 20
    sides = torch.rand(count, 2, generator=torch.Generator().manual_seed(1)) * 15 + 1
    return torch.cat([corner, corner + sides], 1).to(dtype)


class TestConvert:
    @pytest.mark.parametrize(("formats", "values"), [(AXIS_ALIGNED, 4), (ROTATED, 5)])
    def test_there_and_back_is_the_same(self, formats, values):
        start = torch.rand(3, 4, values, dtype=torch.float64) + 1
        first = formats[0]
        for fmt in formats[1:]:
            there = ops.box_convert(start, first, fmt)
            torch.testing.assert_close(ops.box_convert(there, fmt, first), start)

    def test_a_box_turned_by_ninety_degrees_lies_above_its_corner(self):
        corners = ops.box_convert(torch.tensor([10.0, 10.0, 4.0, 2.0, 90.0]), "xywhr", "xyxyxyxy")
        expected = torch.tensor([10.0, 10.0, 10.0, 6.0, 12.0, 6.0, 12.0, 10.0])
        torch.testing.assert_close(corners, expected)

    def test_integers_stay_integers_except_where_centres_need_halves(self):
        boxes = torch.tensor([[1, 2, 4, 8]])
        assert ops.box_convert(boxes, "xyxy", "xywh").tolist() == [[1, 2, 3, 6]]
        assert ops.box_convert(boxes, "xyxy", "cxcywh").tolist() == [[2.5, 5.0, 3.0, 6.0]]
        turned = ops.box_convert(torch.tensor([[10, 10, 4, 2, 30]]), "xywhr", "cxcywhr")
        assert turned.dtype == torch.int64
        assert turned.tolist() == [[12, 10, 4, 2, 30]]

    def test_the_same_format_gives_a_copy(self):
        boxes = some_boxes()
        copy = ops.box_convert(boxes, "xyxy", "xyxy")
        assert torch.equal(copy, boxes)
        assert copy.data_ptr() != boxes.data_ptr()

    @pytest.mark.parametrize(("in_fmt", "out_fmt"), [("xyxy", "xyxr"), ("hello", "xyxy")])
    def test_an_unknown_format_is_named(self, in_fmt, out_fmt):
        with pytest.raises(ValueError, match=r"'(xyxr|hello)' is unknown"):
            ops.box_convert(some_boxes(), in_fmt, out_fmt)

    def test_no_boxes_turn_between_kinds(self):
        with pytest.raises(NotImplementedError, match="Append an angle of 0"):
            ops.box_convert(some_boxes(), "xyxy", "xywhr")

    def test_the_number_of_values_has_to_fit(self):
        with pytest.raises(ValueError, match=r"shape \(7, 4\), expected \(\.\.\., 5\) for format 'xywhr'"):
            ops.box_convert(some_boxes(), "xywhr", "cxcywhr")

    def test_gradients_pass(self):
        boxes = torch.rand(3, 5, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: ops.box_convert(x, "cxcywhr", "xyxyxyxy"), boxes)


class TestArea:
    @pytest.mark.parametrize("fmt", AXIS_ALIGNED)
    def test_it_does_not_depend_on_the_format(self, fmt):
        boxes = some_boxes()
        torch.testing.assert_close(ops.box_area(ops.box_convert(boxes, "xyxy", fmt), fmt), ops.box_area(boxes))

    @pytest.mark.parametrize("fmt", ROTATED)
    def test_turning_does_not_change_it(self, fmt):
        boxes = torch.tensor([[3.0, 4.0, 6.0, 2.0, 77.0]])
        assert ops.box_area(ops.box_convert(boxes, "cxcywhr", fmt), fmt).item() == pytest.approx(12.0, rel=1e-5)

    @pytest.mark.parametrize(("dtype", "result"), [(torch.uint8, torch.int32), (torch.float16, torch.float32)])
    def test_narrow_types_do_not_overflow(self, dtype, result):
        area = ops.box_area(torch.tensor([[0, 0, 250, 250]], dtype=dtype))
        assert area.dtype == result
        assert area.item() == 62500


class TestOverlap:
    @pytest.mark.parametrize("function", [ops.box_iou, ops.generalized_box_iou])
    def test_a_box_and_itself_give_one(self, function):
        boxes = some_boxes()
        torch.testing.assert_close(function(boxes, boxes).diagonal(), torch.ones(7))

    def test_the_kinds_rank_as_the_papers_say(self):
        one, two = some_boxes(5), some_boxes(6)
        iou, distance, complete = (f(one, two) for f in (ops.box_iou, ops.distance_box_iou, ops.complete_box_iou))
        assert (distance <= iou).all()
        assert (complete <= distance + 1e-6).all()
        assert (ops.generalized_box_iou(one, two) <= iou + 1e-6).all()

    def test_leading_dimensions_are_kept(self):
        batch = torch.stack([some_boxes(4), some_boxes(4) + 1])
        for function in (ops.box_iou, ops.generalized_box_iou, ops.distance_box_iou, ops.complete_box_iou):
            whole = function(batch, batch.flip(0))
            assert whole.shape == (2, 4, 4)
            torch.testing.assert_close(whole[0], function(batch[0], batch[1]))

    def test_no_boxes_give_no_overlaps(self):
        assert ops.box_iou(torch.empty(0, 4), some_boxes()).shape == (0, 7)
        assert ops.box_iou(some_boxes(), torch.empty(0, 5)[:, :4]).shape == (7, 0)

    def test_shapes_are_checked(self):
        with pytest.raises(ValueError, match="boxes2 has shape"):
            ops.generalized_box_iou(some_boxes(), torch.rand(3, 5))


class TestRotatedOverlap:
    @given(rotated_box, rotated_box)
    def test_it_is_symmetric_and_between_zero_and_one(self, one, two):
        first, second = torch.tensor([one], dtype=torch.float64), torch.tensor([two], dtype=torch.float64)
        there, back = rotated_iou(first, second), rotated_iou(second, first)
        assert 0 <= there.item() <= 1
        torch.testing.assert_close(there, back, rtol=1e-9, atol=1e-9)

    @given(rotated_box)
    def test_a_box_and_itself_give_one_however_it_is_described(self, box):
        x, y, width, height, degrees = box
        same = torch.tensor([box, (x, y, height, width, degrees + 90), (x, y, width, height, degrees + 180)])
        torch.testing.assert_close(
            rotated_iou(same[:1].double(), same.double()), torch.ones(1, 3).double(), atol=1e-4, rtol=0
        )

    @given(rotated_box, rotated_box, angle)
    def test_turning_the_plane_changes_nothing(self, one, two, turn):
        boxes = torch.tensor([one, two], dtype=torch.float64)
        radians = math.radians(turn)
        cos, sin = math.cos(radians), math.sin(radians)
        rotation = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
        turned = torch.cat([boxes[:, :2] @ rotation.T, boxes[:, 2:4], boxes[:, 4:] + turn], 1)
        torch.testing.assert_close(
            rotated_iou(turned[:1], turned[1:]), rotated_iou(boxes[:1], boxes[1:]), atol=1e-8, rtol=0
        )

    def test_without_rotation_it_is_the_plain_one(self):
        one, two = some_boxes(5), some_boxes(6)
        flat = [
            torch.cat([ops.box_convert(boxes, "xyxy", "cxcywh"), torch.zeros(len(boxes), 1)], 1) for boxes in (one, two)
        ]
        torch.testing.assert_close(ops.box_iou(*flat, fmt="cxcywhr"), ops.box_iou(one, two))

    def test_a_square_and_itself_turned_by_half_a_right_angle_share_an_octagon(self):
        boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0], [0.0, 0.0, 2.0, 2.0, 45.0]])
        octagon = 8 * (math.sqrt(2) - 1)
        assert ops.box_iou(boxes[:1], boxes[1:], fmt="cxcywhr").item() == pytest.approx(octagon / (8 - octagon))

    def test_boxes_without_area_and_boxes_that_touch_share_nothing(self):
        flat = torch.tensor([[0.0, 0.0, 2.0, 0.0, 10.0]])
        assert rotated_iou(flat, flat).item() == 0
        touching = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0], [2.0, 0.0, 2.0, 2.0, 0.0]])
        assert rotated_iou(touching[:1], touching[1:]).item() == 0


class TestSelection:
    def test_boxes_are_clipped_to_height_and_width(self):
        boxes = torch.tensor([[-3.0, 5.0, 40.0, 90.0]])
        assert ops.clip_boxes_to_image(boxes, (50, 30)).tolist() == [[0.0, 5.0, 30.0, 50.0]]

    def test_both_sides_have_to_be_long_enough(self):
        boxes = torch.tensor([[0.0, 0.0, 5.0, 5.0], [0.0, 0.0, 5.0, 4.9], [0.0, 0.0, 9.0, 5.0]])
        assert ops.remove_small_boxes(boxes, 5.0).tolist() == [0, 2]

    def test_the_box_of_a_mask_ends_at_its_last_pixels(self):
        masks = torch.zeros(3, 6, 9, dtype=torch.bool)
        masks[0, 2:5, 1:8] = True
        masks[1, 5, 8] = True
        assert ops.masks_to_boxes(masks).tolist() == [[1, 2, 7, 4], [8, 5, 8, 5], [0, 0, 0, 0]]

    def test_no_masks_give_no_boxes(self):
        assert ops.masks_to_boxes(torch.zeros(0, 6, 9)).shape == (0, 4)

    def test_masks_need_three_dimensions(self):
        with pytest.raises(ValueError, match=r"masks has shape \(6, 9\), expected \(N, H, W\)"):
            ops.masks_to_boxes(torch.zeros(6, 9))


LOSSES = [ops.generalized_box_iou_loss, ops.distance_box_iou_loss, ops.complete_box_iou_loss]


class TestLosses:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_equal_boxes_lose_nothing(self, loss):
        torch.testing.assert_close(loss(some_boxes(), some_boxes()), torch.zeros(7), atol=1e-6, rtol=0)

    @pytest.mark.parametrize(
        ("loss", "measure"),
        list(zip(LOSSES, [ops.generalized_box_iou, ops.distance_box_iou, ops.complete_box_iou], strict=True)),
    )
    def test_they_are_one_minus_the_measure(self, loss, measure):
        one, two = some_boxes(), some_boxes().flip(0)
        torch.testing.assert_close(loss(one, two), 1 - measure(one, two).diagonal(), atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_the_mean_over_no_boxes_is_zero_and_has_a_gradient(self, loss):
        boxes = torch.empty(0, 4, requires_grad=True)
        value = loss(boxes, torch.empty(0, 4), reduction="mean")
        value.backward()
        assert value.item() == 0
        assert boxes.grad.shape == (0, 4)

    @pytest.mark.parametrize("loss", LOSSES[:2])
    def test_gradients_are_right(self, loss):
        one, two = some_boxes(4, torch.float64).requires_grad_(), some_boxes(4, torch.float64).flip(0) + 0.3
        assert torch.autograd.gradcheck(lambda x: loss(x, two), one)

    @pytest.mark.parametrize("loss", [*LOSSES, ops.sigmoid_focal_loss])
    def test_an_unknown_reduction_is_named(self, loss):
        with pytest.raises(ValueError, match="reduction is 'median', expected 'none', 'mean' or 'sum'"):
            loss(torch.rand(3, 4), torch.rand(3, 4), reduction="median")

    def test_focal_loss_without_focus_is_cross_entropy(self):
        x, y = torch.randn(5, 3), torch.rand(5, 3).round()
        plain = torch.nn.functional.binary_cross_entropy_with_logits(x, y)
        torch.testing.assert_close(ops.sigmoid_focal_loss(x, y, alpha=-1, gamma=0, reduction="mean"), plain)

    def test_focal_loss_refuses_weights_outside_zero_and_one(self):
        with pytest.raises(ValueError, match=r"alpha is 1\.5"):
            ops.sigmoid_focal_loss(torch.rand(2), torch.rand(2), alpha=1.5)


@pytest.mark.parametrize("fmt", ["xyxy", "cxcywhr"])
def test_overlaps_compile_whole(fmt):
    values = 5 if fmt == "cxcywhr" else 4
    one, two = torch.rand(3, values) + torch.arange(values), torch.rand(4, values) + torch.arange(values)
    compiled = torch.compile(lambda a, b: ops.box_iou(a, b, fmt=fmt), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(one, two), ops.box_iou(one, two, fmt=fmt))
