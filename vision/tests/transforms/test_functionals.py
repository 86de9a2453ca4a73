"""Flips, crops, pads, maps, colours: what they do, to tensors and to PIL images, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_table import CANVAS, boxes, picture
from PIL import Image
from torch import Tensor

from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional as F

BYTES = F.to_dtype(picture(), torch.uint8, scale=True)
PIL = F.to_pil_image(BYTES)


def levels(image: Image.Image | Tensor) -> Tensor:
    return (image if isinstance(image, Tensor) else F.pil_to_tensor(image)).int()


# Functional, arguments, and by how many levels a tensor's result may differ from Pillow's.
AGREE = [
    ("horizontal_flip", {}, 0), ("vertical_flip", {}, 0), ("crop", {"top": -2, "left": 3, "height": 9, "width": 20}, 0),
    ("pad", {"padding": [1, 2, 3, 4], "fill": 9}, 0), ("pad", {"padding": 3, "padding_mode": "reflect"}, 0),
    ("pad", {"padding": [2, 3], "padding_mode": "symmetric"}, 0), ("pad", {"padding": -2}, 0),
    ("pad", {"padding": 2, "padding_mode": "edge"}, 0), ("invert", {}, 0), ("posterize", {"bits": 0}, 0),
    ("posterize", {"bits": 3}, 0), ("solarize", {"threshold": 100}, 0), ("equalize", {}, 0), ("autocontrast", {}, 1),
    ("adjust_brightness", {"brightness_factor": 1.4}, 1), ("adjust_contrast", {"contrast_factor": 0.5}, 1),
    ("adjust_saturation", {"saturation_factor": 1.5}, 2), ("adjust_hue", {"hue_factor": 0.25}, 16),
    ("adjust_gamma", {"gamma": 0.5}, 1), ("adjust_sharpness", {"sharpness_factor": 0.0}, 1),
    ("permute_channels", {"permutation": [1, 2, 0]}, 0), ("gaussian_blur", {"kernel_size": 3}, 0),
    ("rotate", {"angle": 90, "expand": True}, 0), ("rotate", {"angle": 180}, 0),
    ("affine", {"angle": 0, "translate": [3, -2], "scale": 1, "shear": 0, "fill": 5}, 0),
    ("erase", {"i": 1, "j": 2, "h": 3, "w": 4, "v": torch.tensor([[[7]], [[8]], [[9]]], dtype=torch.uint8)}, 0),
    ("grayscale_to_rgb", {}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("functional", "arguments", "most"), AGREE, ids=lambda value: str(value)[:30])
def test_tensors_and_pil_images_agree(functional: str, arguments: dict[str, Any], most: int) -> None:
    result = getattr(F, functional)(PIL, **arguments)

    assert isinstance(result, Image.Image)
    assert (levels(result) - levels(getattr(F, functional)(BYTES, **arguments))).abs().max() <= most


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("functional", "arguments"),
    [
        ("affine", {"angle": 20.0, "translate": [1, 2], "scale": 1.2, "shear": [5, 0]}),
        ("rotate", {"angle": 30.0, "expand": True}),
        ("perspective", {"startpoints": [[0, 0], [17, 0], [17, 12], [0, 12]],
                         "endpoints": [[1, 1], [16, 0], [17, 11], [0, 12]]}),
    ],
)  # fmt: skip
def test_maps_of_tensors_and_pil_images_agree_inside(functional: str, arguments: dict[str, Any], mode: str) -> None:
    ours = levels(getattr(F, functional)(BYTES, interpolation=mode, **arguments))
    pillow = levels(getattr(F, functional)(PIL, interpolation=mode, **arguments))

    # At the edges the two have rules of their own; and Pillow rounds places to fractions of a pixel.
    assert ours.shape == pillow.shape
    assert (ours - pillow).abs().float().quantile(0.75) <= 1


@pytest.mark.parametrize("flip", [F.horizontal_flip, F.vertical_flip])
@pytest.mark.parametrize("format", ["XYXY", "XYWH", "CXCYWH", "XYXYXYXY"])
def test_flipping_twice_changes_nothing(flip: Any, format: str) -> None:
    typed = tv_tensors.BoundingBoxes(boxes(format), format=format, canvas_size=CANVAS)
    for value in (BYTES, PIL, typed):
        again = flip(flip(value))
        assert type(again) is type(value)
        before, after = (F.pil_to_tensor(v) if isinstance(v, Image.Image) else v for v in (value, again))
        assert (before - after).abs().max() <= 1e-4


@settings(max_examples=40, deadline=None)
@given(top=st.integers(-30, 30), left=st.integers(-30, 30), height=st.integers(1, 30), width=st.integers(1, 30))
def test_a_crop_shows_the_picture_on_zeros_wherever_it_is(top: int, left: int, height: int, width: int) -> None:
    wide = torch.zeros(3, 100, 100, dtype=torch.uint8)
    wide[:, 40:52, 40:57] = BYTES
    expected = wide[:, 40 + top : 40 + top + height, 40 + left : 40 + left + width]

    assert torch.equal(F.crop(BYTES, top, left, height, width), expected)


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 9), before=st.integers(0, 30), after=st.integers(0, 30))
@pytest.mark.parametrize(("mode", "numpys"), [("reflect", "reflect"), ("symmetric", "symmetric"), ("edge", "edge")])
def test_padding_is_numpys_however_wide(mode: str, numpys: str, size: int, before: int, after: int) -> None:
    row = torch.arange(size)[None, None]
    padded = F.pad(row, [before, 0, after, 0], padding_mode=mode)

    assert padded.flatten().tolist() == np.pad(np.arange(size), (before, after), mode=numpys).tolist()  # type: ignore[call-overload]


def test_padding_has_a_value_for_each_channel() -> None:
    padded = F.pad(BYTES, 1, fill=[1, 2, 3])
    assert padded[:, 0, 0].tolist() == [1, 2, 3]
    assert torch.equal(padded[:, 1:-1, 1:-1], BYTES)


@pytest.mark.parametrize("angle", [0, 90, 180, 270, -90, 360, 450])
def test_quarter_turns_move_pixels_only(angle: int) -> None:
    square = BYTES[:, :, :12]
    assert torch.equal(F.rotate(square, angle), square.rot90(angle // 90, (-2, -1)))
    assert torch.equal(F.rotate(BYTES, angle, expand=True), BYTES.rot90(angle // 90, (-2, -1)))


@settings(max_examples=30, deadline=None)
@given(angle=st.floats(-180, 180))
def test_points_go_where_the_picture_goes(angle: float) -> None:
    image = torch.zeros(1, 41, 51)
    image[0, 12, 30] = 1
    blurred = F.gaussian_blur(image, 9, 1.5)
    turned, points = (
        F.rotate(blurred, angle, "bilinear", expand=True),
        F.rotate(tv_tensors.KeyPoints([[30.5, 12.5]], canvas_size=(41, 51)), angle, expand=True),
    )
    y, x = (
        turned[0]
        / turned.sum()
        * torch.stack(torch.meshgrid(*(torch.arange(n) + 0.5 for n in turned.shape[1:]), indexing="ij"))
    ).sum((1, 2))

    assert points.canvas_size == tuple(turned.shape[1:])
    # An enlarged canvas is rounded up to whole pixels.
    assert (points[0] - torch.stack([x, y])).abs().max() < 1.1


@pytest.mark.parametrize("name", ["XYWHR", "CXCYWHR", "XYXYXYXY"])
@pytest.mark.parametrize("angle", [30.0, -75.0])
def test_boxes_with_an_angle_turn_with_the_picture(name: str, angle: float) -> None:
    box = tv_tensors.BoundingBoxes(boxes(name)[:1], format=name, canvas_size=CANVAS, clamping_mode=None)
    before, after = (F.convert_bounding_box_format(b, new_format="CXCYWHR")[0] for b in (box, F.rotate(box, angle)))

    assert torch.allclose(after[2:4], before[2:4], atol=1e-4)
    assert (after[4] - before[4] - angle + 180) % 360 - 180 == pytest.approx(0, abs=1e-3)


class TestClamping:
    def rotated(self, seed: int, mode: str | None) -> tv_tensors.BoundingBoxes:
        numbers = torch.rand(200, 5, generator=torch.Generator().manual_seed(seed))
        numbers = numbers * torch.tensor([30.0, 25.0, 20.0, 15.0, 360.0]) - torch.tensor([6.0, 6.0, -1.0, -1.0, 0.0])
        return tv_tensors.BoundingBoxes(numbers, format="CXCYWHR", canvas_size=CANVAS, clamping_mode=mode)

    @pytest.mark.parametrize("seed", range(3))
    def test_no_corner_stays_outside_when_it_is_hard(self, seed: int) -> None:
        clamped = F.clamp_bounding_boxes(self.rotated(seed, "hard"))
        corners = F.convert_bounding_box_format(clamped, new_format="XYXYXYXY").reshape(-1, 4, 2)
        limits = torch.tensor([CANVAS[1], CANVAS[0]])
        assert ((corners >= -1e-3) & (corners <= limits + 1e-3)).all()

    @pytest.mark.parametrize("mode", ["soft", "hard"])
    def test_boxes_inside_and_angles_of_all_stay(self, mode: str) -> None:
        loose = self.rotated(0, mode)
        clamped = F.clamp_bounding_boxes(loose)
        corners = F.convert_bounding_box_format(loose, new_format="XYXYXYXY").reshape(-1, 4, 2)
        inside = ((corners >= 0) & (corners <= torch.tensor([CANVAS[1], CANVAS[0]]))).all(-1).all(-1)
        assert 0 < inside.sum() < len(loose)
        difference = (clamped[:, 4] - loose[:, 4] + 180) % 360 - 180
        assert difference[clamped[:, 2:4].amin(1) > 1e-2].abs().max() < 0.1
        assert torch.allclose(clamped[inside][:, :4], loose[inside][:, :4], atol=1e-3)

    def test_soft_is_idempotent_and_larger_than_hard(self) -> None:
        soft = F.clamp_bounding_boxes(self.rotated(1, "soft"))
        again, hard = F.clamp_bounding_boxes(soft), F.clamp_bounding_boxes(self.rotated(1, "hard"))
        assert torch.allclose(again[:, 2:4], soft[:, 2:4], atol=1e-2)
        assert (hard[:, 2:4] <= soft[:, 2:4] + 1e-3).all()

    def test_none_leaves_boxes_and_auto_asks_them(self) -> None:
        loose = tv_tensors.BoundingBoxes(
            [[-5.0, 2.0, 30.0, 4.0]], format="XYXY", canvas_size=CANVAS, clamping_mode=None
        )
        assert F.clamp_bounding_boxes(loose).tolist() == loose.tolist()
        assert F.clamp_bounding_boxes(loose, clamping_mode="soft").tolist() == [[0, 2, 17, 4]]


@pytest.mark.parametrize("name", ["XYXY", "XYWH", "CXCYWH"])
def test_integer_boxes_stay_integers_in_every_format(name: str) -> None:
    corners = torch.tensor([[1, 2, 8, 9], [3, 4, 6, 10]])
    there = F.convert_bounding_box_format(corners, "XYXY", name)
    assert there.dtype == torch.int64
    # As upstream: of a centre rounded down, odd sides, and edges that are truncated, up to a pixel is lost.
    lost = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0]]) if name == "CXCYWH" else 0
    assert torch.equal(F.convert_bounding_box_format(there, name, "XYXY"), corners - lost)
    moved = F.rotate(tv_tensors.BoundingBoxes(there, format=name, canvas_size=CANVAS), 12.0)
    assert moved.dtype == torch.int64


def test_sanitizing_says_which_are_left() -> None:
    candidates = tv_tensors.BoundingBoxes(
        [[0, 0, 5, 5], [0, 0, 0.5, 5], [1, 1, 18, 5], [2, 2, 3.5, 3]], format="XYXY", canvas_size=CANVAS
    )
    left, valid = F.sanitize_bounding_boxes(candidates, min_area=2)
    assert valid.tolist() == [True, False, False, False]
    assert (type(left), left.tolist()) == (tv_tensors.BoundingBoxes, [[0, 0, 5, 5]])
    points, valid = F.sanitize_keypoints(tv_tensors.KeyPoints([[0.0, 0.0], [17.0, 3.0]], canvas_size=CANVAS))
    assert (points.tolist(), valid.tolist()) == ([[0, 0]], [True, False])


def test_the_input_changes_on_request_alone() -> None:
    image, value = BYTES.clone(), torch.tensor(3, dtype=torch.uint8)
    assert F.erase(image, 0, 0, 2, 2, value, inplace=True) is image
    assert torch.equal(image, F.erase(BYTES, 0, 0, 2, 2, value))
    converted = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    F.convert_bounding_box_format(converted, "XYWH", "XYXY", inplace=True)
    assert converted.tolist() == [[1, 2, 4, 6]]


def test_noise_has_the_moments_asked_for_and_follows_the_seed() -> None:
    torch.manual_seed(0)
    noisy = F.gaussian_noise(torch.full((1, 200, 200), 0.5), mean=0.1, sigma=0.05)
    assert noisy.mean().item() == pytest.approx(0.6, abs=1e-3)
    assert noisy.std().item() == pytest.approx(0.05, abs=1e-3)
    torch.manual_seed(0)
    assert torch.equal(noisy, F.gaussian_noise(torch.full((1, 200, 200), 0.5), mean=0.1, sigma=0.05))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.adjust_brightness(BYTES, -1), ValueError, "brightness_factor is -1"),
        (lambda: F.adjust_hue(BYTES, 0.6), ValueError, "from -0.5 to 0.5"),
        (lambda: F.adjust_gamma(BYTES, -1), ValueError, "gamma is -1"),
        (lambda: F.adjust_sharpness(BYTES, -1), ValueError, "sharpness_factor is -1"),
        (lambda: F.posterize(BYTES, 9), ValueError, "expected 0 to 8"),
        (lambda: F.solarize(picture(), 128), TypeError, "full intensity of torch.float32 is 1"),
        (lambda: F.gaussian_blur(BYTES, 4), ValueError, "odd positive"),
        (lambda: F.gaussian_blur(BYTES, 3, 0.0), ValueError, "sigma is 0.0"),
        (lambda: F.gaussian_noise(BYTES, sigma=-1.0), ValueError, "sigma is -1.0"),
        (lambda: F.jpeg(picture(), 50), ValueError, "expected uint8"),
        (lambda: F.jpeg(BYTES, 0), ValueError, "quality is 0"),
        (lambda: F.permute_channels(BYTES, [0, 0, 1]), ValueError, "no order of the 3 channels"),
        (lambda: F.pad(BYTES, [1, 2, 3]), ValueError, "expected 1, 2"),
        (lambda: F.pad(BYTES, 1, padding_mode="wrap"), ValueError, "expected one of constant"),
        (lambda: F.pad(BYTES, 1, fill=[1, 2]), ValueError, "one for each channel"),
        (lambda: F.pad(tv_tensors.KeyPoints([[1, 2]], canvas_size=CANVAS), 1, padding_mode="edge"), ValueError, "only"),
        (lambda: F.affine(BYTES, 0, [1], 1.0, 0), ValueError, "translate is"),
        (lambda: F.affine(BYTES, 0, [1, 1], 0.0, 0), ValueError, "scale is 0.0"),
        (lambda: F.rotate(BYTES, 10, "bicubic"), ValueError, "expected 'nearest' or 'bilinear'"),
        (lambda: F.rotate(BYTES, 10, fill=[1, 2]), ValueError, "one for each of 3 channels"),
        (lambda: F.perspective(BYTES, None, None), ValueError, "give startpoints and endpoints"),
        (lambda: F.perspective(BYTES, [[0, 0]] * 4, [[0, 0]] * 4), ValueError, "on a line"),
        (lambda: F.perspective(BYTES, [[0, 0]], [[0, 0]] * 4, coefficients=[1] * 8), ValueError, "not both"),
        (lambda: F.elastic(BYTES, torch.zeros(1, 2, 3, 2)), ValueError, "displacement has shape"),
        (lambda: F.five_crop(BYTES, 13), ValueError, "larger than the image"),
        (lambda: F.uniform_temporal_subsample(torch.zeros(3, 1, 2, 2), 0), ValueError, "1 or more"),
        (lambda: F.get_num_frames(torch.zeros(3, 1, 2)), TypeError, "four dimensions"),
        (lambda: F.clamp_bounding_boxes(boxes()), ValueError, "a plain tensor needs format"),
        (lambda: F.clamp_keypoints(boxes()[:, :2]), ValueError, "a plain tensor needs canvas_size"),
        (lambda: F.convert_bounding_box_format(boxes(), new_format="XYWH"), ValueError, "needs old_format"),
        (lambda: F.convert_bounding_box_format(boxes(), "XYXY", "XYWHR"), ValueError, "of one kind"),
        (lambda: F.sanitize_bounding_boxes(boxes(), min_size=0), ValueError, "expected 1 or more"),
        (lambda: F.sanitize_keypoints(boxes()[:, :2]), ValueError, "needs canvas_size"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


class Sketch(tv_tensors.TVTensor):
    """A user's own type."""


class TestRegisterKernel:
    def test_a_type_of_ones_own_gets_its_kernel(self) -> None:
        F.register_kernel("invert", Sketch)(lambda inpt: "inverted")
        assert F.invert(Sketch(torch.zeros(1))) == "inverted"
        with pytest.raises(TypeError, match="no kernel for Sketch"):
            F.horizontal_flip(Sketch(torch.zeros(1)))

    @pytest.mark.parametrize(
        ("functional", "cls", "message"),
        [
            ("no_such", Sketch, "'no_such' is no functional"),
            (F.to_image, Sketch, "is no functional"),
            (F.invert, Tensor, "no subclass of TVTensor"),
            (F.invert, tv_tensors.Mask, "Mask is built in"),
        ],
    )
    def test_what_cannot_be_registered_is_refused(self, functional: Any, cls: type, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            F.register_kernel(functional, cls)


def test_the_deprecated_name_says_what_to_use() -> None:
    with pytest.warns(DeprecationWarning, match="use to_image"):
        assert F.to_tensor(PIL).max() <= 1


def test_pure_tensors_are_those_without_a_type() -> None:
    assert F.is_pure_tensor(BYTES)
    assert not F.is_pure_tensor(tv_tensors.Image(BYTES))
    assert not F.is_pure_tensor(PIL)


@pytest.mark.parametrize("padding", [[1, 2, 3, 4], [0, 2, 0, 0], [-1, 2, 3, -2]])
def test_a_fill_for_each_channel_is_that_of_the_channels_one_by_one(padding):
    values = [0.1, 0.2, 0.3]
    batch = torch.rand(2, 3, 5, 6, dtype=torch.float64, requires_grad=True)
    padded = F.pad(batch, padding, fill=values)
    for channel, value in enumerate(values):
        assert torch.equal(padded[:, channel], F.pad(batch[:, channel : channel + 1], padding, fill=value)[:, 0])
    assert torch.autograd.gradcheck(lambda x: F.pad(x, padding, fill=values), (batch,), fast_mode=True)
    assert torch.equal(torch.vmap(lambda x: F.pad(x, padding, fill=values))(batch), padded)
