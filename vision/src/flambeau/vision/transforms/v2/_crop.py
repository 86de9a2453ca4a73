"""Transforms that cut out parts of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator

from flambeau.vision import tv_tensors
from flambeau.vision.ops import box_iou
from flambeau.vision.transforms import _random, _random_parameters
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._size import Interpolation
from flambeau.vision.transforms.v2._transform import Transform
from flambeau.vision.transforms.v2._utils import (
    FillArgument,
    check_fill,
    check_sequence,
    fill_for,
    get_bounding_boxes,
    has_all,
    has_any,
    query_size,
    setup_size,
)
from flambeau.vision.transforms.v2.functional._convert import is_pure_tensor
from flambeau.vision.transforms.v2.functional._pad import sides
from flambeau.vision.transforms.v2.functional._pil import is_pil


class CenterCrop(Transform):
    """Cut out the middle; see `functional.center_crop`.

    Args:
        size: (height, width), or a number for a square.
    """

    _takes_encoded = True

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = setup_size(size)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Crop one leaf."""
        return self._call_kernel(F.center_crop, inpt, output_size=self.size)


class RandomCrop(Transform):
    """Cut out a part of given size from anywhere.

    Args:
        size: (height, width), or a number for a square.
        padding: pixels added first, see `Pad`.
        pad_if_needed: add what is missing to smaller pictures. Upstream: all of it on both sides.
        fill: of added pixels, see `Pad`.
        padding_mode: see `Pad`.
        generator: see `Transform`.

    Raises:
        ValueError: when called: the picture is smaller.
    """

    _takes_encoded = True
    get_params = staticmethod(_random_parameters.crop)

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: FillArgument = 0,
        padding_mode: str = "constant",
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.size = setup_size(size)
        self.padding = None if padding is None else list(sides(padding))
        self.pad_if_needed = pad_if_needed
        self.fill = check_fill(fill)
        self.padding_mode = padding_mode

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the place."""
        height, width = query_size(flat_inputs)
        crop_height, crop_width = self.size
        left, top, right, bottom = self.padding or (0, 0, 0, 0)
        height, width = height + top + bottom, width + left + right
        if self.pad_if_needed:
            more = max(crop_height - height, 0)
            top, bottom, height = top + more, bottom + more, height + 2 * more
            more = max(crop_width - width, 0)
            left, right, width = left + more, right + more, width + 2 * more
        if height < crop_height or width < crop_width:
            padded = "padded " if self.padding else ""
            raise ValueError(
                f"A crop of {(crop_height, crop_width)} does not fit into the {padded}image of {(height, width)}; pass "
                "pad_if_needed=True or a smaller size."
            )
        y = int(_random.randint(0, height - crop_height + 1)) if height > crop_height else 0
        x = int(_random.randint(0, width - crop_width + 1)) if width > crop_width else 0
        return {
            "needs_crop": height > crop_height or width > crop_width,
            "top": y,
            "left": x,
            "height": crop_height,
            "width": crop_width,
            "needs_pad": any((left, top, right, bottom)),
            "padding": [left, top, right, bottom],
        }

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Pad and crop one leaf."""
        if params["needs_pad"]:
            fill = fill_for(self.fill, inpt)
            inpt = self._call_kernel(F.pad, inpt, params["padding"], fill=fill, padding_mode=self.padding_mode)
        if params["needs_crop"]:
            place = {name: params[name] for name in ("top", "left", "height", "width")}
            inpt = self._call_kernel(F.crop, inpt, **place)
        return inpt


class RandomResizedCrop(Transform):
    """Cut out a part of random area and aspect ratio, and resize it. Szegedy et al. 2015, arXiv:1409.4842.

    Ten tries are made to fit the part into the picture, then it is the largest one in the middle within the ratio.

    Args:
        size: (height, width) of the result, or a number for a square.
        scale: limits of the part's area, as a part of the picture's.
        ratio: limits of width / height; its logarithm is uniform.
        interpolation: see `Resize`.
        antialias: see `Resize`.
        generator: see `Transform`.
    """

    _takes_encoded = True
    get_params = staticmethod(_random_parameters.resized_crop)

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = True,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.size = setup_size(size)
        self.scale = _increasing(scale, "scale")
        self.ratio = _increasing(ratio, "ratio")
        self.interpolation = interpolation
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the part."""
        place = _random_parameters.crop_of_area(*query_size(flat_inputs), self.scale, self.ratio)
        return dict(zip(("top", "left", "height", "width"), place, strict=True))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Crop and resize one leaf."""
        return self._call_kernel(
            F.resized_crop, inpt, **params, size=self.size, interpolation=self.interpolation, antialias=self.antialias
        )


def _increasing(limits: Sequence[float], name: str) -> Sequence[float]:
    check_sequence(limits, name, (2,))
    if limits[0] > limits[1]:
        raise ValueError(f"{name} is {limits}, expected the lower limit first.")
    return limits


class _Crops(Transform):
    """Base of those that make several pictures of one, so that boxes and masks cannot follow."""

    _transformed_types = (is_pure_tensor, tv_tensors.Image, tv_tensors.Video, is_pil)

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = setup_size(size)

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Refuse samples with boxes or masks; key points, upstream, come back as they are."""
        if has_any(flat_inputs, tv_tensors.BoundingBoxes, tv_tensors.Mask):
            raise TypeError(f"{type(self).__name__} makes several pictures of one; take out boxes and masks.")


class FiveCrop(_Crops):
    """The four corners and the middle, as a tuple in place of the picture; see `functional.five_crop`.

    Args:
        size: (height, width), or a number for a square.
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Crop one picture."""
        return self._call_kernel(F.five_crop, inpt, self.size)


class TenCrop(_Crops):
    """The four corners and the middle, and those of the mirror image; see `functional.ten_crop`.

    Args:
        size: (height, width), or a number for a square.
        vertical_flip: mirror top and bottom instead of left and right.
    """

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Crop one picture."""
        return self._call_kernel(F.ten_crop, inpt, self.size, vertical_flip=self.vertical_flip)


class RandomIoUCrop(Transform):
    """Cut out a part that overlaps enough with one box at least. Liu et al. 2016, arXiv:1512.02325, section 2.2.

    Boxes with their centre outside become zeros: `SanitizeBoundingBoxes` should follow.

    Args:
        min_scale: smallest side, as a part of the picture's.
        max_scale: largest side.
        min_aspect_ratio: smallest width / height.
        max_aspect_ratio: largest.
        sampler_options: overlaps (intersection over union) of which one is drawn; 1 or more leaves the picture whole.
            None: 0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.
        trials: tries with one overlap, before another is drawn.
        generator: see `Transform`.
    """

    _takes_encoded = True

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: list[float] | None = None,
        trials: int = 40,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.min_scale = min_scale
        self.max_scale = max_scale
        self.min_aspect_ratio = min_aspect_ratio
        self.max_aspect_ratio = max_aspect_ratio
        self.sampler_options = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0] if sampler_options is None else sampler_options
        self.trials = trials

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Require a picture and its boxes."""
        pictures = (is_pure_tensor, tv_tensors.Image, tv_tensors.EncodedImage, tv_tensors.Video, is_pil)
        if not (has_all(flat_inputs, tv_tensors.BoundingBoxes) and has_any(flat_inputs, *pictures)):
            raise TypeError(f"{type(self).__name__} needs samples with an image and tv_tensors.BoundingBoxes.")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the part; empty for the whole picture."""
        height, width = query_size(flat_inputs)
        boxes = get_bounding_boxes(flat_inputs)
        corners = F.convert_bounding_box_format(
            boxes.as_subclass(torch.Tensor), old_format=boxes.format, new_format="XYXY"
        )
        x, y = 0.5 * (corners[..., 0] + corners[..., 2]), 0.5 * (corners[..., 1] + corners[..., 3])
        centers = list(zip(x.tolist(), y.tolist(), strict=True))
        while True:
            overlap = self.sampler_options[_random.integer(0, len(self.sampler_options))]
            if overlap >= 1.0:
                return {}
            for _ in range(self.trials):
                if (params := self._part(height, width, corners, centers, overlap)) is not None:
                    return params

    def _part(
        self, height: int, width: int, corners: torch.Tensor, centers: list[tuple[float, float]], overlap: float
    ) -> dict[str, Any] | None:
        """A part, if the first one drawn will do. Most will not, so tensors come in late: each operation costs more
        than all comparisons of a dozen boxes.
        """
        scale = self.min_scale + (self.max_scale - self.min_scale) * _random.rand(2)
        w, h = map(int, (scale * torch.tensor((width, height))).tolist())
        if w == 0 or h == 0 or not self.min_aspect_ratio <= w / h <= self.max_aspect_ratio:
            return None
        left, top = map(int, (_random.rand(2) * torch.tensor((width - w, height - h))).tolist())
        found = [left < x < left + w and top < y < top + h for x, y in centers]
        if not any(found):
            return None
        inside = torch.tensor(found, device=corners.device)
        part = torch.tensor([[left, top, left + w, top + h]], dtype=corners.dtype, device=corners.device)
        if box_iou(corners[inside], part).max() < overlap:
            return None
        return {"top": top, "left": left, "height": h, "width": w, "is_within_crop_area": inside}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Crop one leaf."""
        if not params:
            return inpt
        place = {name: params[name] for name in ("top", "left", "height", "width")}
        output = self._call_kernel(F.crop, inpt, **place)
        if isinstance(output, tv_tensors.BoundingBoxes):
            output[~params["is_within_crop_area"]] = 0
        return output
