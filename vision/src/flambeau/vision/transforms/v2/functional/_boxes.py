"""Bounding boxes and key points as such: formats, cutting at the canvas, dropping what is no good."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.tensors import functional, unwrap
from flambeau.core.tensors import register_kernel as register
from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2.functional import _formats
from flambeau.vision.transforms.v2.functional._clamp_rotated import clamp_rotated
from flambeau.vision.tv_tensors import BoundingBoxFormat, is_rotated_bounding_format
from flambeau.vision.tv_tensors._bounding_boxes import _CLAMPING_MODES, bounding_box_format
from flambeau.vision.tv_tensors._tv_tensor import size_of_canvas


@functional(fallback=False)
def convert_bounding_box_format(
    inpt: Tensor,
    old_format: BoundingBoxFormat | str | None = None,
    new_format: BoundingBoxFormat | str | None = None,
    inplace: bool = False,
) -> Tensor:
    """Write bounding boxes in another format.

    Args:
        inpt: `BoundingBoxes`, or a plain tensor [..., K].
        old_format: the format they have; for plain tensors only, `BoundingBoxes` know theirs.
        new_format: the format wanted, of the same kind (with or without angle).
        inplace: write the result into the input too, where both have the same number of values.

    Returns:
        Boxes of the same dtype. Edges of integer boxes are truncated, a centre in CXCYWH is rounded down.

    Raises:
        TypeError: `new_format` is missing.
        ValueError: `old_format` is missing for a plain tensor, or given for `BoundingBoxes`; or one format has an angle
            and the other has not.
    """
    if old_format is None:
        raise ValueError("convert_bounding_box_format: a plain tensor needs old_format, the format it has.")
    return _converted(inpt, old_format, new_format, inplace)


@register(convert_bounding_box_format, tv_tensors.BoundingBoxes)
def _convert_bounding_boxes(
    inpt: Tensor,
    old_format: BoundingBoxFormat | str | None = None,
    new_format: BoundingBoxFormat | str | None = None,
    inplace: bool = False,
    *,
    format: BoundingBoxFormat,
) -> tuple[Tensor, dict[str, BoundingBoxFormat]]:
    if old_format is not None:
        raise ValueError(
            f"convert_bounding_box_format: BoundingBoxes know their format ({format.name}); leave out old_format."
        )
    result = _converted(inpt, format, new_format, inplace)
    return result, {"format": bounding_box_format(new_format)}


def _converted(
    boxes: Tensor, old_format: BoundingBoxFormat | str, new_format: BoundingBoxFormat | str | None, inplace: bool
) -> Tensor:
    if new_format is None:
        raise TypeError("convert_bounding_box_format: new_format, the format wanted, is missing.")
    old, new = bounding_box_format(old_format), bounding_box_format(new_format)
    if is_rotated_bounding_format(old) != is_rotated_bounding_format(new):
        raise ValueError(
            f"convert_bounding_box_format: {old.name} to {new.name} would turn axis-aligned boxes into rotated ones or "
            "the reverse; expected two formats of one kind."
        )
    result = _formats.converted(boxes, old, new)
    return boxes.copy_(result) if inplace and result.shape == boxes.shape else result


@functional(fallback=False)
def clamp_bounding_boxes(
    inpt: Tensor,
    format: BoundingBoxFormat | str | None = None,
    canvas_size: tuple[int, int] | None = None,
    clamping_mode: str | None = "auto",
) -> Tensor:
    """Cut bounding boxes at the edges of the picture.

    Args:
        inpt: `BoundingBoxes`, or a plain tensor [N, K].
        format: the boxes' format; for plain tensors only.
        canvas_size: (height, width) of the picture; for plain tensors only.
        clamping_mode: "soft": what lies outside is cut off, then the smallest box of the same angle is put around the
            rest; "hard": the largest box of the same angle that is inside of both box and picture; None: boxes stay
            as they are. Without angle soft and hard are the same. "auto" is the mode of the `BoundingBoxes`.

    Returns:
        Boxes of the same format. A box entirely outside has no area afterwards.

    Raises:
        ValueError: something is missing for a plain tensor, or given for `BoundingBoxes`, or the mode is unknown.
    """
    if format is None or canvas_size is None or clamping_mode == "auto":
        raise ValueError(
            "clamp_bounding_boxes: a plain tensor needs format, canvas_size and clamping_mode; got "
            f"format={format}, canvas_size={canvas_size}, clamping_mode={clamping_mode!r}."
        )
    return clamped(inpt, bounding_box_format(format), canvas_size, clamping_mode)


@register(clamp_bounding_boxes, tv_tensors.BoundingBoxes, wrap=False)
def _clamp_bounding_boxes(
    inpt: tv_tensors.BoundingBoxes,
    format: BoundingBoxFormat | str | None = None,
    canvas_size: tuple[int, int] | None = None,
    clamping_mode: str | None = "auto",
) -> Tensor:
    if format is not None or canvas_size is not None:
        raise ValueError("clamp_bounding_boxes: BoundingBoxes know format and canvas_size; leave both out.")
    mode = inpt.clamping_mode if clamping_mode == "auto" else clamping_mode
    return tv_tensors.wrap(clamped(_bare(inpt), inpt.format, inpt.canvas_size, mode), like=inpt)


def clamped(
    boxes: Tensor, format: BoundingBoxFormat | str, canvas_size: tuple[int, int], clamping_mode: str | None
) -> Tensor:
    """Boxes [N, K] cut at the edges; see `clamp_bounding_boxes`."""
    if clamping_mode is None:
        return boxes.clone()
    if clamping_mode not in _CLAMPING_MODES:
        raise ValueError(f"clamping_mode is {clamping_mode!r}, expected 'soft', 'hard', 'auto' or None.")
    # Halves of integers, such as the edges around a centre, are dropped once, at the end.
    corners = _formats.corners_of(_formats.in_fractions(boxes), format)
    return _formats.from_corners(clamped_corners(corners, canvas_size, clamping_mode), format).to(boxes.dtype)


def shifted(
    boxes: Tensor,
    format: BoundingBoxFormat | str,
    x: float,
    y: float,
    canvas_size: tuple[int, int],
    clamping_mode: str | None,
) -> Tensor:
    """Boxes [N, K] moved by (x, y), and cut at the edges of their new canvas."""
    size = boxes.shape[-1]
    corners = bounding_box_format(format) in (BoundingBoxFormat.XYXY, BoundingBoxFormat.XYXYXYXY)
    offset = [x, y] * (size // 2) if corners else [x, y, *[0] * (size - 2)]
    moved = boxes + torch.tensor(offset, dtype=boxes.dtype, device=boxes.device)
    return clamped(moved, format, canvas_size, clamping_mode)


def clamped_corners(corners: Tensor, canvas_size: tuple[int, int], clamping_mode: str | None) -> Tensor:
    """Boxes in XYXY or XYXYXYXY, cut at the edges."""
    height, width = canvas_size
    if clamping_mode is None:
        return corners
    if corners.shape[-1] == 8:
        return clamp_rotated(corners, canvas_size, clamping_mode)
    limits = torch.tensor((width, height, width, height), dtype=corners.dtype, device=corners.device)
    return torch.minimum(corners.clamp(min=0), limits)


@functional(fallback=False)
def clamp_keypoints(inpt: Tensor, canvas_size: tuple[int, int] | None = None) -> Tensor:
    """Move key points outside of the picture to its nearest pixel.

    Args:
        inpt: `KeyPoints`, or a plain tensor [..., 2].
        canvas_size: (height, width) of the picture; for plain tensors only.

    Returns:
        Points with x in [0, width - 1] and y in [0, height - 1].

    Raises:
        ValueError: `canvas_size` is missing for a plain tensor, or given for `KeyPoints`.
    """
    if canvas_size is None:
        raise ValueError("clamp_keypoints: a plain tensor needs canvas_size, the (height, width) of the picture.")
    return _clamped_points(inpt, canvas_size)


@register(clamp_keypoints, tv_tensors.KeyPoints, wrap=False)
def _clamp_keypoints(inpt: tv_tensors.KeyPoints, canvas_size: tuple[int, int] | None = None) -> Tensor:
    if canvas_size is not None:
        raise ValueError("clamp_keypoints: KeyPoints know their canvas_size; leave it out.")
    return tv_tensors.wrap(_clamped_points(_bare(inpt), inpt.canvas_size), like=inpt)


def _clamped_points(points: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    height, width = canvas_size
    return torch.stack([points[..., 0].clamp(0, width - 1), points[..., 1].clamp(0, height - 1)], -1)


def sanitize_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str | None = None,
    canvas_size: tuple[int, int] | None = None,
    min_size: float = 1.0,
    min_area: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Drop bounding boxes that are too small, or have a corner outside of the picture.

    Transforms cut boxes at the edges; what little is left of some is better left out, together with labels and masks.

    Args:
        bounding_boxes: `BoundingBoxes`, or a plain tensor [N, K].
        format: the boxes' format; for plain tensors only.
        canvas_size: (height, width) of the picture; for plain tensors only.
        min_size: shortest side that is kept, in pixels.
        min_area: smallest area that is kept, in square pixels.

    Returns:
        The boxes that are left, and a boolean tensor [N] that says which. Sizes depend on values: no graph with a
        fixed number of boxes holds it.

    Raises:
        ValueError: something is missing for a plain tensor, or given for `BoundingBoxes`; or min_size or min_area is
            less than 1.
    """
    if min_size < 1 or min_area < 1:
        raise ValueError(f"sanitize_bounding_boxes: min_size={min_size}, min_area={min_area}; expected 1 or more.")
    if not isinstance(bounding_boxes, tv_tensors.BoundingBoxes):
        if format is None or canvas_size is None:
            raise ValueError("sanitize_bounding_boxes: a plain tensor needs format and canvas_size.")
        valid = valid_boxes(bounding_boxes, format, size_of_canvas("boxes", canvas_size), min_size, min_area)
        return bounding_boxes[valid], valid
    if format is not None or canvas_size is not None:
        raise ValueError("sanitize_bounding_boxes: BoundingBoxes know format and canvas_size; leave both out.")
    boxes = _bare(bounding_boxes)
    valid = valid_boxes(boxes, bounding_boxes.format, bounding_boxes.canvas_size, min_size, min_area)
    return tv_tensors.wrap(boxes[valid], like=bounding_boxes), valid


def valid_boxes(
    boxes: Tensor,
    format: BoundingBoxFormat | str,
    canvas_size: tuple[int, int],
    min_size: float,
    min_area: float,
) -> Tensor:
    """Which boxes [N, K] are large enough and inside of the picture: a boolean tensor [N]."""
    points = _formats.points_of(_formats.corners_of(boxes, format))
    if not points.is_floating_point():
        points = points.to(torch.float64)
    width, height = (torch.linalg.vector_norm(points[:, b] - points[:, a], dim=-1) for a, b in ((0, 1), (1, 2)))
    if not is_rotated_bounding_format(format):
        # A box that is inside out has negative sides.
        width, height = points[:, 2, 0] - points[:, 0, 0], points[:, 2, 1] - points[:, 0, 1]
    limits = torch.tensor([canvas_size[1], canvas_size[0]], dtype=points.dtype, device=points.device)
    inside = ((points >= 0) & (points <= limits)).flatten(1).all(1)
    valid: Tensor = (width >= min_size) & (height >= min_size) & (width * height >= min_area) & inside
    return valid


def sanitize_keypoints(key_points: Tensor, canvas_size: tuple[int, int] | None = None) -> tuple[Tensor, Tensor]:
    """Drop key points outside of the picture.

    Args:
        key_points: `KeyPoints`, or a plain tensor, [N, 2]; or [N, ..., 2], groups of points that stay or go together.
        canvas_size: (height, width) of the picture; for plain tensors only.

    Returns:
        The points with 0 <= x < width and 0 <= y < height (groups all of whose points are), and a boolean tensor [N]
        that says which.

    Raises:
        ValueError: `canvas_size` is missing for a plain tensor, or given for `KeyPoints`.
    """
    if not isinstance(key_points, tv_tensors.KeyPoints):
        if canvas_size is None:
            raise ValueError(
                "sanitize_keypoints: a plain tensor needs canvas_size, the (height, width) of the picture."
            )
        valid = valid_keypoints(key_points, canvas_size)
        return key_points[valid], valid
    if canvas_size is not None:
        raise ValueError("sanitize_keypoints: KeyPoints know their canvas_size; leave it out.")
    points = _bare(key_points)
    valid = valid_keypoints(points, key_points.canvas_size)
    return tv_tensors.wrap(points[valid], like=key_points), valid


def valid_keypoints(points: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    """Which points (or groups of points) are inside of the picture: a boolean tensor [N]."""
    height, width = canvas_size
    x, y = points[..., 0], points[..., 1]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    return inside.flatten(1).all(1) if inside.ndim > 1 else inside


def _bare(value: Tensor) -> Tensor:
    bare: Tensor = unwrap([value])[0][0]
    return bare
