"""Pictures that `utils` makes beside torchvision's: grids, files, boxes, masks, key points and flow."""

from __future__ import annotations

from pathlib import Path

import PIL
import pytest
import torch
from pictures import NAMES, describe, programs

from flambeau.core.testing.differential import Suite, cross
from flambeau.vision import utils

pytest.importorskip("torchvision.utils")

# Both libraries draw labels with the same file, since a default of one's own is no other's.
FONT = str(next(Path(utils.__file__).parent.glob("**/*.ttf")))
NAMES = NAMES | {
    "FONT": FONT,
    "RED": {"colors": "red", "font": FONT},
    "TAGS": {"label_colors": "blue", "fill_labels": True},
}


def read_pictures(path: Path) -> object:
    """The pixels of a file that was saved: encoders' options are nobody's business."""
    with PIL.Image.open(path) as picture:
        return {"format": picture.format, "mode": picture.mode, "pixels": torch.from_numpy(NAMES["np"].array(picture))}


SUITE = Suite(
    "utils",
    ours="flambeau.vision",
    peer="torchvision",
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe],
    files=dict.fromkeys((".png", ".jpg", ".bmp", ".gif"), read_pictures),
    rtol=1e-4,
    atol=1e-5,
)

_RANDOM = "torch.rand({shape}, generator=torch.Generator().manual_seed(0))"


def _floats(*shape: int) -> str:
    return _RANDOM.format(shape=shape)


def _bytes(*shape: int) -> str:
    return f"({_floats(*shape)} * 256).to(torch.uint8)"


GRIDS = {
    "one-2d": {"x": _floats(5, 7)},
    "one-gray": {"x": _floats(1, 5, 7)},
    "one-rgb": {"x": _floats(3, 5, 7)},
    "one-of-four": {"x": _floats(4, 5, 7)},
    "batch": {"x": _floats(10, 3, 5, 7)},
    "batch-gray": {"x": _floats(10, 1, 5, 7)},
    "batch-of-one": {"x": _floats(1, 3, 5, 7)},
    "batch-gray-of-one": {"x": _floats(1, 1, 5, 7)},
    "batch-two-channels": {"x": _floats(3, 2, 5, 7)},
    "batch-centred": {"x": f"{_floats(5, 3, 4, 4)} * 6 - 3"},
    "batch-flat": {"x": "torch.full((3, 3, 4, 4), 0.25)"},
    "batch-float64": {"x": f"{_floats(5, 3, 4, 4)}.double()"},
    "batch-float16": {"x": f"{_floats(5, 3, 4, 4)}.half()"},
    "batch-uint8": {"x": _bytes(5, 3, 4, 4)},
    "batch-int64": {"x": f"{_bytes(5, 3, 4, 4)}.long()"},
    "batch-bool": {"x": f"{_floats(5, 3, 4, 4)} > 0.5"},
    "batch-grad": {"x": f"{_floats(5, 3, 4, 4)}.requires_grad_()"},
    "channels-last": {"x": f"{_floats(5, 3, 4, 6)}.contiguous(memory_format=torch.channels_last)"},
    "strided": {"x": f"{_floats(5, 3, 8, 12)}[:, :, ::2, ::3]"},
    "list": {"x": f"list({_floats(5, 3, 4, 6)})"},
    "list-gray": {"x": f"list({_floats(5, 1, 4, 6)})"},
    "list-of-one": {"x": f"[{_floats(3, 4, 6)}]"},
    "list-2d": {"x": f"list({_floats(5, 4, 6)})"},
    "list-uneven": {"x": "[torch.rand(3, 4, 4), torch.rand(3, 4, 5)]"},
    "list-empty": {"x": "[]"},
    "list-of-numbers": {"x": "[1, 2]"},
    "tuple": {"x": f"tuple({_floats(5, 3, 4, 6)})"},
    "none-in-batch": {"x": "torch.rand(0, 3, 4, 6)"},
    "five-dimensions": {"x": "torch.rand(2, 2, 3, 4, 6)"},
    "one-dimension": {"x": "torch.rand(4)"},
    "array": {"x": "np.zeros((3, 4, 6))"},
    "image": {"x": f"tv_tensors.Image({_floats(5, 3, 4, 6)})"},
}
GRID_PROGRAMS = programs("""
    utils.make_grid(x)
    utils.make_grid(x, nrow=3)
    utils.make_grid(x, 100)
    utils.make_grid(x, padding=0)
    utils.make_grid(x, padding=5, pad_value=0.5)
    utils.make_grid(x, nrow=2, padding=1, pad_value=7)
    utils.make_grid(x, normalize=True)
    utils.make_grid(x, normalize=True, scale_each=True)
    utils.make_grid(x, normalize=True, value_range=(0, 0.5))
    utils.make_grid(x, normalize=True, value_range=(-1, 1), scale_each=True)
    utils.make_grid(x, normalize=True, value_range=[0, 1])
    utils.make_grid(x, value_range=(0, 0.5))
    utils.make_grid(x, nrow=0)
    utils.make_grid(x, padding=-1)
""")
FILES = programs("""
    utils.save_image(x, folder / "a.png")
    utils.save_image(x, str(folder / "a.png"), nrow=3, padding=1, pad_value=1)
    utils.save_image(x, folder / "a.bmp", normalize=True)
    utils.save_image(x, folder / "a.png", format="JPEG")
    utils.save_image(x, open(folder / "a.png", "wb"), format="png")
    utils.save_image(x, folder / "a.unknown")
    utils.save_image(x, folder / "none" / "a.png")
""")

PICTURES = {
    "uint8": {"image": _bytes(3, 60, 80)},
    "uint8-gray": {"image": _bytes(1, 60, 80)},
    "uint8-flat": {"image": "torch.full((3, 60, 80), 90, dtype=torch.uint8)"},
    # Levels of 8 bits, which drawing leaves as they are; "fine" has values in between.
    "float32": {"image": f"{_bytes(3, 60, 80)} / 255"},
    "float32-fine": {"image": _floats(3, 60, 80)},
    "float32-black": {"image": "torch.zeros(3, 60, 80)"},
    "float64": {"image": f"{_bytes(3, 60, 80)}.double() / 255"},
    "float16": {"image": f"({_bytes(3, 60, 80)} / 255).half()"},
    "strided": {"image": f"{_bytes(3, 120, 160)}[:, ::2, ::2]"},
    "channels-last": {"image": f"{_bytes(1, 3, 60, 80)}.contiguous(memory_format=torch.channels_last)[0]"},
    "image": {"image": f"tv_tensors.Image({_bytes(3, 60, 80)})"},
}
REFUSED = {
    "int32": {"image": f"{_bytes(3, 60, 80)}.int()"},
    "bool": {"image": f"{_floats(3, 60, 80)} > 0.5"},
    "batch": {"image": _bytes(2, 3, 60, 80)},
    "rgba": {"image": _bytes(4, 60, 80)},
    "plane": {"image": _bytes(60, 80)},
    "array": {"image": "np.zeros((3, 60, 80), 'uint8')"},
    "pil": {"image": "Image.new('RGB', (80, 60))"},
}
_BOXES = {
    "boxes": "torch.tensor([[5, 6, 40, 30], [20, 22, 70, 55], [0, 0, 79, 59], [60, 40, 90, 70]])",
    "fractions": "torch.tensor([[5.7, 6.2, 40.9, 30.1], [20.0, 22.5, 70.5, 55.0]])",
    "points": "torch.tensor([[10, 10, 10, 10], [20, 20, 20, 40]])",
    "typed": "tv_tensors.BoundingBoxes([[5, 6, 40, 30]], format='XYXY', canvas_size=(60, 80))",
    "rotated": "torch.tensor([[30.0, 10.0, 60.0, 25.0, 50.0, 45.0, 20.0, 30.0]])",
    "rotated_ints": "torch.tensor([[10, 10, 40, 10, 40, 30, 10, 30], [30, 5, 70, 20, 60, 50, 20, 35]])",
    "wrong": "torch.tensor([[40, 30, 5, 6]])",
    "nothing": "torch.zeros(0, 4)",
    "row": "torch.tensor([5, 6, 40, 30])",
    "five": "torch.rand(2, 5)",
}
BOXES = programs("""
    utils.draw_bounding_boxes(image, boxes)
    utils.draw_bounding_boxes(image, boxes, colors="red")
    utils.draw_bounding_boxes(image, boxes, colors="#FF00FF", width=3)
    utils.draw_bounding_boxes(image, boxes, colors=(1, 34, 122), width=2)
    utils.draw_bounding_boxes(image, boxes, colors=["red", "#0f0", (0, 0, 255), "orange"])
    utils.draw_bounding_boxes(image, boxes, colors=["red", "blue", "green", "white", "black"])
    utils.draw_bounding_boxes(image, boxes, colors=["red"])
    utils.draw_bounding_boxes(image, boxes, colors=[(1, 34, 122)] * 4)
    utils.draw_bounding_boxes(image, boxes, colors=7)
    utils.draw_bounding_boxes(image, boxes, colors="no colour")
    utils.draw_bounding_boxes(image, boxes, colors=(1, 2))
    utils.draw_bounding_boxes(image, boxes, colors=(300, 0, 0))
    utils.draw_bounding_boxes(image, boxes, colors="red", fill=True)
    utils.draw_bounding_boxes(image, boxes, fill=True, width=4)
    utils.draw_bounding_boxes(image, boxes, colors="red", fill=None)
    utils.draw_bounding_boxes(image, boxes, colors="red", width=0)
    utils.draw_bounding_boxes(image, boxes, ["a", "b", "c", "d"], colors="red")
    utils.draw_bounding_boxes(image, boxes, ["a", "b", "c", "d"], **RED)
    utils.draw_bounding_boxes(image, boxes, ["dog", None, "cat", "été"], **RED, font_size=14)
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, font=FONT, font_size=12, fill_labels=True)
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, **RED, font_size=12, fill_labels=True)
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, **RED, label_colors="blue")
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, **RED, label_colors=["red", "#fff"] * 2, fill_labels=True)
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, **RED, label_background_colors="yellow", fill_labels=True)
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, **RED, **TAGS, label_background_colors=["yellow"] * 4, width=3)
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, **RED, label_background_colors="yellow")
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, **RED, label_colors=["blue"])
    utils.draw_bounding_boxes(image, boxes, ["two\\nlines"] * 4, **RED, fill_labels=True)
    utils.draw_bounding_boxes(image, boxes, [""] * 4, **RED, fill_labels=True)
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 3, **RED)
    utils.draw_bounding_boxes(image, boxes, [], colors="red")
    utils.draw_bounding_boxes(image, boxes, [1, 2, 3, 4], **RED)
    utils.draw_bounding_boxes(image, boxes, ["dog"] * 4, font="nothing.ttf")
    utils.draw_bounding_boxes(image, fractions, colors="red")
    utils.draw_bounding_boxes(image, points, colors="red")
    utils.draw_bounding_boxes(image, points, colors="red", width=4, fill=True)
    utils.draw_bounding_boxes(image, typed, colors="red")
    utils.draw_bounding_boxes(image, rotated, colors="red")
    utils.draw_bounding_boxes(image, rotated, colors="red", width=4)
    utils.draw_bounding_boxes(image, rotated, colors="red", fill=True)
    utils.draw_bounding_boxes(image, rotated_ints, colors=["red", "lime"], width=2, fill=True)
    utils.draw_bounding_boxes(image, rotated_ints, ["dog", "cat"], colors=["red", "lime"], font=FONT, fill_labels=True)
    utils.draw_bounding_boxes(image, wrong)
    utils.draw_bounding_boxes(image, nothing)
    utils.draw_bounding_boxes(image, nothing, [])
    utils.draw_bounding_boxes(image, row)
    utils.draw_bounding_boxes(image, five)
    utils.draw_bounding_boxes(image, boxes.numpy())
""")
_MASKS = {
    "masks": "torch.arange(3 * 60 * 80).reshape(3, 60, 80) % torch.tensor([5, 7, 11])[:, None, None] < 3",
    "apart": "torch.arange(4).reshape(4, 1, 1) * 15 == torch.arange(60)[:, None].expand(60, 80) // 15 * 15",
    "single": "torch.arange(60 * 80).reshape(60, 80) % 3 == 0",
    "empty": "torch.zeros(2, 60, 80, dtype=torch.bool)",
    "nothing": "torch.zeros(0, 60, 80, dtype=torch.bool)",
    "typed": "tv_tensors.Mask(torch.arange(60 * 80).reshape(1, 60, 80) % 3 == 0)",
    "small": "torch.ones(2, 30, 40, dtype=torch.bool)",
    "numbers": "torch.ones(2, 60, 80)",
    "deep": "torch.ones(1, 2, 60, 80, dtype=torch.bool)",
}
MASKS = programs("""
    utils.draw_segmentation_masks(image, masks)
    utils.draw_segmentation_masks(image, apart)
    utils.draw_segmentation_masks(image, apart, alpha=0.3)
    utils.draw_segmentation_masks(image, apart, colors="red")
    utils.draw_segmentation_masks(image, masks, colors=["red", "#00ff00", (0, 0, 255)])
    utils.draw_segmentation_masks(image, masks, alpha=0.5, colors=["red", "#00ff00", (0, 0, 255)])
    utils.draw_segmentation_masks(image, masks, alpha=0, colors="red")
    utils.draw_segmentation_masks(image, masks, alpha=1, colors="red")
    utils.draw_segmentation_masks(image, masks, alpha=1.5)
    utils.draw_segmentation_masks(image, masks, alpha=-1)
    utils.draw_segmentation_masks(image, masks, colors=["red"])
    utils.draw_segmentation_masks(image, masks, colors=["red"] * 5)
    utils.draw_segmentation_masks(image, masks, colors=7)
    utils.draw_segmentation_masks(image, masks, colors=(10, 20, 30))
    utils.draw_segmentation_masks(image, single)
    utils.draw_segmentation_masks(image, single, colors="blue", alpha=0.7)
    utils.draw_segmentation_masks(image, typed, colors="blue")
    utils.draw_segmentation_masks(image, empty)
    utils.draw_segmentation_masks(image, nothing)
    utils.draw_segmentation_masks(image, small)
    utils.draw_segmentation_masks(image, numbers)
    utils.draw_segmentation_masks(image, deep)
    utils.draw_segmentation_masks(image, None)
""")
_POINTS = {
    "points": "torch.tensor([[[10, 10], [20, 40], [70, 50]], [[40, 5], [75, 55], [5, 55]]])",
    "fractions": "torch.tensor([[[10.7, 10.2], [20.5, 40.9]]])",
    "outside": "torch.tensor([[[-10, 10], [90, 40], [79, 59]]])",
    "typed": "tv_tensors.KeyPoints([[[10, 10], [20, 40], [70, 50]]], canvas_size=(60, 80))",
    "nothing": "torch.zeros(0, 3, 2)",
    "flat": "torch.tensor([[10, 10], [20, 40]])",
    "seen": "torch.tensor([[1, 0, 1], [1, 1, 0]])",
    "seen_bool": "torch.tensor([[True, False, True], [True, True, False]])",
    "seen_deep": "torch.tensor([[[1], [0], [1]], [[2], [0], [2]]])",
}
POINTS = programs("""
    utils.draw_keypoints(image, points)
    utils.draw_keypoints(image, points, colors="red")
    utils.draw_keypoints(image, points, colors="#FF00FF", radius=5)
    utils.draw_keypoints(image, points, colors=(1, 34, 122), radius=0)
    utils.draw_keypoints(image, points, connectivity=[(0, 1), (1, 2)])
    utils.draw_keypoints(image, points, [(0, 2), (1, 0)], "red", 4, 1)
    utils.draw_keypoints(image, points, connectivity=[(0, 1), (1, 2)], colors="red", width=6)
    utils.draw_keypoints(image, points, connectivity=[])
    utils.draw_keypoints(image, points, connectivity=[(0, 7)])
    utils.draw_keypoints(image, points, connectivity=[(0, -1)])
    utils.draw_keypoints(image, points, connectivity=[(0, 1), (1, 2)], visibility=seen)
    utils.draw_keypoints(image, points, connectivity=[(0, 1), (0, 2)], visibility=seen_bool, colors="blue")
    utils.draw_keypoints(image, points, connectivity=[(0, 1), (0, 2)], visibility=seen_deep)
    utils.draw_keypoints(image, points, visibility=seen[:1])
    utils.draw_keypoints(image, points, visibility=[[1, 0, 1], [1, 1, 0]])
    utils.draw_keypoints(image, points, colors="no colour")
    utils.draw_keypoints(image, points, colors=["red", "blue"])
    utils.draw_keypoints(image, fractions, connectivity=[(0, 1)], colors="red")
    utils.draw_keypoints(image, outside, connectivity=[(0, 1), (1, 2)])
    utils.draw_keypoints(image, typed, colors="red")
    utils.draw_keypoints(image, nothing)
    utils.draw_keypoints(image, flat)
    utils.draw_keypoints(image, points.tolist())
""")
FLOWS = {
    "flow": {"x": f"{_floats(2, 9, 11)} * 8 - 4"},
    "batch": {"x": f"{_floats(3, 2, 9, 11)} * 8 - 4"},
    "batch-of-one": {"x": f"{_floats(1, 2, 9, 11)} - 0.5"},
    "zero": {"x": "torch.zeros(2, 5, 6)"},
    "axes": {"x": "torch.tensor([[[1.0, 0, -1, 0]], [[0.0, 1, 0, -1]]])"},
    "double": {"x": f"{_floats(2, 9, 11)}.double() - 0.5"},
    "half": {"x": f"({_floats(2, 9, 11)} - 0.5).half()"},
    "ints": {"x": "torch.ones(2, 5, 6, dtype=torch.int64)"},
    "three": {"x": "torch.rand(3, 5, 6)"},
    "plane": {"x": "torch.rand(5, 6)"},
    "five-dimensions": {"x": "torch.rand(1, 1, 2, 5, 6)"},
    "strided": {"x": f"{_floats(2, 18, 22)}[:, ::2, ::2] - 0.5"},
    "empty": {"x": "torch.zeros(0, 2, 5, 6)"},
    "array": {"x": "np.zeros((2, 5, 6), 'float32')"},
}


def _on(extra: dict[str, str]) -> dict[str, dict[str, str]]:
    return {name: kind | extra for name, kind in (PICTURES | REFUSED).items()}


SUITE.add(*cross("grids", GRIDS, GRID_PROGRAMS, names=NAMES))
SUITE.add(*cross("files", GRIDS, FILES, names=NAMES))
SUITE.add(*cross("boxes", _on(_BOXES), BOXES, names=NAMES))
SUITE.add(*cross("masks", _on(_MASKS), MASKS, names=NAMES))
SUITE.add(*cross("points", _on(_POINTS), POINTS, names=NAMES))
SUITE.add(*cross("flow", FLOWS, ["utils.flow_to_image(x)"], names=NAMES))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
