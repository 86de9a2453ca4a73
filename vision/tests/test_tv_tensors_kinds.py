"""Videos, masks, bounding boxes and key points: what they are made of, what is refused, and what they keep."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import PIL.Image
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flambeau.core.registry import TENSOR_TYPES
from flambeau.vision.tv_tensors import (
    BoundingBoxes,
    BoundingBoxFormat,
    Image,
    KeyPoints,
    Mask,
    Video,
    is_rotated_bounding_format,
    wrap,
)

NUMBERS = {"XYXY": 4, "XYWH": 4, "CXCYWH": 4, "XYWHR": 5, "CXCYWHR": 5, "XYXYXYXY": 8}


def boxes(format: str = "XYXY", n: int = 2, **kwargs: Any) -> BoundingBoxes:
    return BoundingBoxes(torch.rand(n, NUMBERS[format]), format=format, canvas_size=(10, 12), **kwargs)


SAMPLES = [
    Video(torch.rand(2, 3, 4, 5)),
    Mask(torch.zeros(4, 5, dtype=torch.uint8)),
    boxes(clamping_mode="hard"),
    KeyPoints(torch.rand(3, 2), canvas_size=(10, 12)),
]


@pytest.mark.parametrize("cls", [BoundingBoxes, KeyPoints, Mask, Video])
def test_they_are_registered(cls: type) -> None:
    names = {BoundingBoxes: "bounding-boxes", KeyPoints: "key-points", Mask: "mask", Video: "video"}
    assert TENSOR_TYPES.resolve(f"vision/{names[cls]}") is cls


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Video(torch.zeros(3, 4, 5)), r"the shape \(3, 4, 5\) is that of no video"),
        (lambda: BoundingBoxes(torch.zeros(1, 2, 4), format="XYXY", canvas_size=(1, 1)), r"one box \[K\] or N boxes"),
        (lambda: BoundingBoxes(torch.zeros(4), format="XXYY", canvas_size=(1, 1)), "No bounding box format 'XXYY'"),
        (lambda: BoundingBoxes([[1, 2, 3, 4, 5]], format="XYWHR", canvas_size=(1, 1)), "cannot hold the angles of XYW"),
        (lambda: boxes(clamping_mode="loud"), "clamping_mode='loud' was refused"),
        (lambda: BoundingBoxes(torch.zeros(4), format="XYXY", canvas_size=5), "canvas_size=5, expected"),
        (lambda: KeyPoints(torch.zeros(2, 3), canvas_size=(1, 1)), r"expected points \[..., 2\]"),
        (lambda: KeyPoints(torch.zeros(2, 2), canvas_size=(1, 1, 3)), r"expected \(height, width\)"),
    ],
)
def test_what_does_not_fit_is_a_value_error_that_says_what_would(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("cls", [BoundingBoxes, KeyPoints])
def test_boxes_and_points_need_a_canvas(cls: type) -> None:
    with pytest.raises(TypeError, match="canvas_size"):
        cls(torch.zeros(2, 2))


def test_a_single_box_or_point_becomes_a_row() -> None:
    assert BoundingBoxes([1, 2, 3, 4], format="XYXY", canvas_size=(5, 5)).tolist() == [[1, 2, 3, 4]]
    assert KeyPoints([1, 2], canvas_size=(5, 5)).tolist() == [[1, 2]]


def test_masks_of_pil_images_keep_their_values() -> None:
    palette = PIL.Image.new("P", (3, 2), 7)
    mask = Mask(palette)

    assert (mask.shape, mask.dtype, mask.unique().tolist()) == ((1, 2, 3), torch.uint8, [7])


@pytest.mark.parametrize("name", NUMBERS)
def test_formats_go_by_name_or_member(name: str) -> None:
    assert BoundingBoxes(torch.zeros(NUMBERS[name]), format=name.lower(), canvas_size=(1, 1)).format.name == name
    assert is_rotated_bounding_format(name) is is_rotated_bounding_format(BoundingBoxFormat[name])
    assert is_rotated_bounding_format(name) is (NUMBERS[name] > 4)


def test_an_unknown_format_is_a_key_error_too() -> None:
    with pytest.raises(KeyError):
        is_rotated_bounding_format("XYX")


def test_the_canvas_is_a_tuple_whatever_it_was_given_as() -> None:
    made = BoundingBoxes([1, 2, 3, 4], format="XYXY", canvas_size=[5, torch.tensor(6)])  # type: ignore[arg-type]
    assert made.canvas_size == (5, 6)
    assert wrap(made.clone(), like=made, canvas_size=[7, 8]).canvas_size == (7, 8)
    assert wrap(made.clone(), like=made, format="xywh").format is BoundingBoxFormat.XYWH


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.clone(),
        lambda x: x.to(torch.float64),
        lambda x: x.detach(),
        copy.deepcopy,
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: wrap(x + 1, like=x),
    ],
)
def test_kind_and_metadata_are_kept(operation: Any, sample: Any) -> None:
    result = operation(sample)

    assert type(result) is type(sample)
    assert vars(result).keys() == vars(sample).keys()
    for name in ("format", "canvas_size", "clamping_mode"):
        assert getattr(result, name, None) == getattr(sample, name, None)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_results_of_arithmetic_are_plain(sample: Any) -> None:
    assert type(sample + 1) is type(torch.stack([sample, sample])) is Tensor


def test_a_batch_stacks_pictures_and_lists_boxes_and_points() -> None:
    samples = [
        {
            "image": Image(torch.rand(3, 4, 5)),
            "mask": Mask(torch.zeros(4, 5)),
            "video": Video(torch.rand(2, 3, 4, 5)),
            "boxes": boxes(n=n, clamping_mode=None),
            "points": KeyPoints(torch.rand(n, 2), canvas_size=(4, 5)),
        }
        for n in (0, 3)
    ]
    [batch] = DataLoader(samples, batch_size=2, num_workers=1)  # type: ignore[arg-type]

    assert {type(batch[name]) for name in ("image", "mask", "video")} == {Image, Mask, Video}
    assert [(type(b), len(b), b.clamping_mode) for b in batch["boxes"]] == [(BoundingBoxes, n, None) for n in (0, 3)]
    assert [p.canvas_size for p in batch["points"]] == [(4, 5)] * 2


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_files_load_without_trust(sample: Any) -> None:
    file = io.BytesIO()
    torch.save([sample], file)
    file.seek(0)
    [loaded] = torch.load(file, weights_only=True)

    assert type(loaded) is type(sample)
    assert getattr(loaded, "format", None) is getattr(sample, "format", None)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_they_are_wrapped_inside_of_graphs(sample: Any) -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda x: wrap(x.clone(), like=x), fullgraph=True, backend="aot_eager")
    result = compiled(sample)

    assert type(result) is type(sample)
    assert getattr(result, "canvas_size", None) == getattr(sample, "canvas_size", None)
