"""What all kernels have in common, over the table of all of them: new ones are tested the day they are added."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernel_table import ARGUMENTS, BYTES, CANVAS, RANDOM, boxes, keywords, names, picture, sample, split, typed
from torch import Tensor

from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2 import functional as F

ASKS = ("get_dimensions", "get_num_channels", "get_num_frames", "get_size")
PLAIN = [name for name in names() if split(name)[0] not in ASKS]  # type: ignore[index]
IMAGE = [name for name in PLAIN if name.endswith("_image")]
FORMATS = ("XYXY", "XYWH", "CXCYWH", "XYWHR", "CXCYWHR", "XYXYXYXY")


def assert_same(actual: Any, expected: Any, **tolerance: float) -> None:
    if isinstance(expected, tuple) and not all(isinstance(part, int) for part in expected):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, **tolerance)
    elif isinstance(expected, Tensor):
        assert type(actual) is type(expected)
        actual, expected = (value.as_subclass(Tensor) for value in (actual, expected))
        torch.testing.assert_close(actual, expected, **tolerance)
    else:
        assert actual == expected


def test_the_table_holds_every_kernel() -> None:
    suffixes = ("_image", "_video", "_mask", "_bounding_boxes", "_keypoints")
    ending = {name for name in F.__all__ if name.endswith(suffixes)}
    # These functionals happen to end like kernels.
    assert ending - set(names()) == {
        "clamp_bounding_boxes", "clamp_keypoints", "sanitize_bounding_boxes", "sanitize_keypoints", "to_image",
        "to_pil_image",
    }  # fmt: skip
    assert len(names()) > 100


@pytest.mark.parametrize("name", PLAIN)
def test_a_kernel_compiles_to_one_graph(name: str) -> None:
    torch.compiler.reset()
    kernel, (functional, kind) = getattr(F, name), split(name)  # type: ignore[misc]
    inpt, arguments = sample(functional, kind), keywords(name)
    compiled = torch.compile(lambda x: kernel(x, **arguments), fullgraph=True, backend="aot_eager")
    assert_same(compiled(inpt.clone()), kernel(inpt, **arguments))


@pytest.mark.parametrize("functional", sorted(set(ARGUMENTS) - set(ASKS)))
def test_a_typed_sample_goes_through_one_graph(functional: str) -> None:
    torch.compiler.reset()
    kinds = [split(name)[1] for name in PLAIN if split(name)[0] == functional]  # type: ignore[index]
    samples = {kind: typed(functional, kind) for kind in kinds}
    if "image" in samples:
        samples["batch"] = tv_tensors.Image(samples["image"].as_subclass(Tensor)[None])
    dispatch, arguments = getattr(F, functional), ARGUMENTS[functional]

    def every(tree: dict[str, Any]) -> dict[str, Any]:
        return {kind: dispatch(value, **arguments) for kind, value in tree.items()}

    expected = every(samples)
    results = torch.compile(every, fullgraph=True, backend="aot_eager")(samples)
    for kind in samples:
        assert_same(results[kind], expected[kind])
        assert getattr(results[kind], "canvas_size", None) == getattr(expected[kind], "canvas_size", None)


@pytest.mark.parametrize("name", [name for name in PLAIN if split(name)[0] not in RANDOM])  # type: ignore[index]
def test_a_kernel_may_be_mapped_over_a_batch(name: str) -> None:
    kernel, (functional, kind) = getattr(F, name), split(name)  # type: ignore[misc]
    arguments = keywords(name)
    batch = torch.stack([sample(functional, kind), sample(functional, kind).flip(-2)])

    def tensors(inpt: Tensor) -> Any:
        result = kernel(inpt, **arguments)
        # Sizes are no tensors; they are the same for all.
        return result[0] if isinstance(result, tuple) and isinstance(result[1], tuple) else result

    mapped = torch.vmap(tensors)(batch)
    looped = [tensors(inpt) for inpt in batch]
    stacked = (
        tuple(map(torch.stack, zip(*looped, strict=True))) if isinstance(looped[0], tuple) else torch.stack(looped)
    )
    assert_same(mapped, stacked, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PLAIN)
def test_dispatch_finds_the_kernel_and_keeps_the_type(name: str) -> None:
    functional, kind = split(name)  # type: ignore[misc]
    inpt = typed(functional, kind)
    result = getattr(F, functional)(inpt, **ARGUMENTS[functional])
    direct = getattr(F, name)(sample(functional, kind), **keywords(name))
    if isinstance(direct, tuple) and isinstance(direct[1], tuple):
        assert result.canvas_size == direct[1]
        direct = direct[0]
    for typed_part, part in zip(*([r] if isinstance(r, Tensor) else r for r in (result, direct)), strict=True):
        assert type(typed_part) is type(inpt)
        torch.testing.assert_close(typed_part.as_subclass(Tensor), part, check_dtype=functional != "to_dtype")


@pytest.mark.parametrize("name", PLAIN)
def test_the_input_stays_as_it_was(name: str) -> None:
    functional, kind = split(name)  # type: ignore[misc]
    inpt = sample(functional, kind)
    before = inpt.clone()
    getattr(F, name)(inpt, **keywords(name))
    assert torch.equal(inpt, before)


DTYPES = (torch.uint8, torch.int16, torch.uint16, torch.int32, torch.float16, torch.bfloat16, torch.float64)
# Of 8 bits alone, or not of all integers; or one value for another dtype, as the functional is about dtypes.
NARROW = {"jpeg", "to_dtype", "equalize", "normalize", "solarize", "gaussian_noise"}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [name for name in IMAGE if split(name)[0] not in NARROW])  # type: ignore[index]
def test_every_dtype_gives_about_the_same_picture(name: str, dtype: torch.dtype) -> None:
    functional, _ = split(name)  # type: ignore[misc]
    image = sample(functional, "image").double()
    arguments = {**keywords(name), **({"fill": 0} if functional == "pad" else {})}
    result = getattr(F, name)(F.to_dtype(image, dtype, scale=True), **arguments)
    expected = getattr(F, name)(image, **arguments)
    for got, wanted in zip(*([r] if isinstance(r, Tensor) else r for r in (result, expected)), strict=True):
        assert got.dtype == dtype
        step = 2**-3 if functional == "posterize" else 0  # a value just below a level falls to the one below
        tolerance = 0.02 if dtype in (torch.uint8, torch.bfloat16) else 0.005
        difference = (F.to_dtype(got, torch.float64, scale=True) - wanted.clamp(0, 1)).abs()
        assert difference.quantile(0.97) <= tolerance
        assert difference.max() <= max(tolerance, step + 1e-2)


ANY_CHANNELS = (
    "adjust_brightness", "adjust_gamma", "adjust_sharpness", "affine", "autocontrast", "center_crop", "crop",
    "elastic", "equalize", "erase", "five_crop", "gaussian_blur", "gaussian_noise", "horizontal_flip", "invert", "pad",
    "perspective", "posterize", "resize", "resized_crop", "rotate", "solarize", "ten_crop", "to_dtype",
    "vertical_flip",
)  # fmt: skip


@pytest.mark.parametrize("functional", ANY_CHANNELS)
@pytest.mark.parametrize("channels", [1, 2, 7])
def test_channels_are_treated_alike_however_many(functional: str, channels: int) -> None:
    image, dispatch = picture(channels=channels), getattr(F, functional)
    together = dispatch(image, **ARGUMENTS[functional])
    alone = [dispatch(channel[None], **ARGUMENTS[functional]) for channel in image]
    if isinstance(together, tuple):
        together, alone = torch.stack(together), [torch.stack(part) for part in alone]
    torch.testing.assert_close(together, torch.cat(alone, -3), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("functional", ["adjust_contrast", "adjust_hue", "adjust_saturation", "grayscale_to_rgb"])
def test_colour_needs_colours(functional: str) -> None:
    with pytest.raises(TypeError, match=r"has shape \[2, 12, 17\], expected 1 or 3 channels"):
        getattr(F, functional)(picture(channels=2), **ARGUMENTS[functional])


@pytest.mark.parametrize("name", [name for name in IMAGE if split(name)[0] not in BYTES | {"five_crop", "ten_crop"}])  # type: ignore[index]
def test_an_empty_batch_stays_one(name: str) -> None:
    functional, _ = split(name)  # type: ignore[misc]
    image = sample(functional, "image")
    result = getattr(F, name)(image.new_empty(0, *image.shape), **keywords(name))
    assert result.shape == (0, *getattr(F, name)(image, **keywords(name)).shape)


GEOMETRY = sorted({split(name)[0] for name in names() if name.endswith("_bounding_boxes")} - {"get_size"})  # type: ignore[index]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("functional", GEOMETRY)
def test_boxes_move_alike_in_every_format(functional: str, format: str) -> None:
    corner = "XYXY" if len(boxes(format)[0]) == 4 else "XYXYXYXY"
    results = []
    for current in (format, corner):
        inpt = tv_tensors.BoundingBoxes(
            boxes(current), format=current, canvas_size=CANVAS, clamping_mode=None if corner == "XYXYXYXY" else "soft"
        )
        moved = getattr(F, functional)(inpt, **ARGUMENTS[functional])
        assert moved.format.name == current
        results.append(F.convert_bounding_box_format(moved, new_format=corner))
    assert results[0].canvas_size == results[1].canvas_size
    torch.testing.assert_close(*(result.as_subclass(Tensor) for result in results), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("functional", GEOMETRY)
@pytest.mark.parametrize("kind", ["bounding_boxes", "keypoints"])
def test_no_objects_are_no_problem(functional: str, kind: str) -> None:
    for cls in FORMATS if kind == "bounding_boxes" else ("",):
        none = boxes(cls)[:0] if cls else torch.empty(0, 2)
        inpt = (
            tv_tensors.BoundingBoxes(none, format=cls, canvas_size=CANVAS)
            if cls
            else tv_tensors.KeyPoints(none, canvas_size=CANVAS)
        )
        assert getattr(F, functional)(inpt, **ARGUMENTS[functional]).shape == none.shape


SMOOTH = ("adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
          "adjust_sharpness", "affine", "autocontrast", "crop", "elastic", "erase", "gaussian_blur", "normalize", "pad",
          "perspective", "resize", "resized_crop", "rgb_to_grayscale", "rotate")  # fmt: skip


@pytest.mark.parametrize("functional", SMOOTH)
def test_gradients_flow(functional: str) -> None:
    image = (picture().double()[:, :6, :7] * 0.5 + 0.2).requires_grad_()
    arguments = dict(ARGUMENTS[functional])
    if functional == "affine":
        arguments["interpolation"] = "bilinear"
    if functional == "elastic":
        arguments["displacement"] = arguments["displacement"][:, :6, :7]
    assert torch.autograd.gradcheck(lambda x: getattr(F, functional)(x, **arguments), (image,))


@pytest.mark.parametrize("functional", sorted(set(ARGUMENTS) - {"to_dtype"}))
def test_other_types_are_refused(functional: str) -> None:
    with pytest.raises(TypeError, match="has no kernel for list"):
        getattr(F, functional)([1, 2], **ARGUMENTS[functional])
