"""Adding pixels around pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, constant_pad_nd

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2.functional import _boxes
from flambeau.vision.transforms.v2.functional._kernels import register_partial
from flambeau.vision.tv_tensors import BoundingBoxFormat

if TYPE_CHECKING:
    from PIL import Image

_MODES = ("constant", "edge", "reflect", "symmetric")


@functional(fallback=False)
def pad(
    inpt: Tensor,
    padding: Sequence[int] | int,
    fill: float | Sequence[float] | None = None,
    padding_mode: str = "constant",
) -> Tensor:
    """Add pixels around an image, and move what belongs to it.

    Args:
        inpt: [..., C, H, W] of any dtype, a PIL image, or any of our tensor types.
        padding: pixels on all sides; or (left and right, top and bottom); or (left, top, right, bottom). Negative
            numbers cut pixels off.
        fill: value of new pixels in mode "constant", one for all channels or one for each; None is 0.
        padding_mode: "constant"; "edge", the last pixel again; "reflect", mirrored at the last pixel; "symmetric",
            mirrored beyond it, so that it appears twice. Boxes and key points take "constant" alone.

    Returns:
        [..., C, H + top + bottom, W + left + right], same dtype.

    Raises:
        ValueError: `padding` has another number of values, the mode is unknown, or `fill` does not fit the channels.
    """
    return pad_image(inpt, padding, fill, padding_mode)


@register_kernel(pad, tv_tensors.Image)
def pad_image(
    image: Tensor,
    padding: Sequence[int] | int,
    fill: float | Sequence[float] | None = None,
    padding_mode: str = "constant",
) -> Tensor:
    """`pad` of a tensor [..., C, H, W]."""
    left, top, right, bottom = sides(padding)
    if _checked(padding_mode) != "constant":
        return extended(image, (left, top, right, bottom), padding_mode)
    amounts = [left, right, top, bottom]
    if fill is None or isinstance(fill, (int, float)):
        return constant_pad_nd(image, amounts, fill or 0)
    if len(fill) == 1:
        return constant_pad_nd(image, amounts, fill[0])
    if image.ndim < 3 or len(fill) != image.shape[-3]:
        raise ValueError(f"pad: fill {fill!r} has {len(fill)} values, expected one, or one for each channel.")
    values = torch.tensor(fill, dtype=image.dtype, device=image.device).view(-1, 1, 1)
    if min(amounts) >= 0:
        height, width = image.shape[-2:]
        padded = image.new_empty((*image.shape[:-2], height + top + bottom, width + left + right))
        padded.copy_(values)
        padded[..., top : top + height, left : left + width] = image
        return padded
    inside = constant_pad_nd(torch.ones(image.shape[-2:], dtype=torch.bool, device=image.device), amounts)
    return torch.where(inside, constant_pad_nd(image, amounts), values)


@register_kernel(pad, tv_tensors.Video)
def pad_video(
    video: Tensor,
    padding: Sequence[int] | int,
    fill: float | Sequence[float] | None = None,
    padding_mode: str = "constant",
) -> Tensor:
    """`pad` of a video [..., T, C, H, W]."""
    return pad_image(video, padding, fill, padding_mode)


@register_kernel(pad, tv_tensors.Mask)
def pad_mask(
    mask: Tensor,
    padding: Sequence[int] | int,
    fill: float | Sequence[float] | None = None,
    padding_mode: str = "constant",
) -> Tensor:
    """`pad` of a mask [..., H, W]; `fill` is one number."""
    if fill is not None and not isinstance(fill, (int, float)):
        if len(fill) != 1:
            raise ValueError(f"pad: fill {fill!r} of a mask, which has no channels; expected one number.")
        fill = fill[0]
    return pad_image(mask, padding, fill, padding_mode)


@register_partial(pad, tv_tensors.BoundingBoxes, canvas=True)
def pad_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str,
    canvas_size: tuple[int, int],
    padding: Sequence[int] | int,
    padding_mode: str = "constant",
    clamping_mode: str | None = "soft",
) -> tuple[Tensor, tuple[int, int]]:
    """`pad` of boxes [N, K]: the moved boxes and the new canvas size."""
    left, top, new_size = _moved(canvas_size, padding, padding_mode)
    return _boxes.shifted(bounding_boxes, format, left, top, new_size, clamping_mode), new_size


@register_partial(pad, tv_tensors.KeyPoints, canvas=True)
def pad_keypoints(
    keypoints: Tensor, canvas_size: tuple[int, int], padding: Sequence[int] | int, padding_mode: str = "constant"
) -> tuple[Tensor, tuple[int, int]]:
    """`pad` of points [..., 2]: the moved points and the new canvas size."""
    left, top, new_size = _moved(canvas_size, padding, padding_mode)
    return keypoints + torch.tensor((left, top), dtype=keypoints.dtype, device=keypoints.device), new_size


@register_kernel(pad, "PIL.Image:Image")
def _pad_image_pil(
    image: Image.Image,
    padding: Sequence[int] | int,
    fill: float | Sequence[float] | None = None,
    padding_mode: str = "constant",
) -> Image.Image:
    from PIL import Image

    from flambeau.vision.transforms.v2.functional._pil import fill_color, same_mode

    left, top, right, bottom = sides(padding)
    if _checked(padding_mode) == "constant":
        new_size = (image.width + left + right, image.height + top + bottom)
        padded = Image.new(image.mode, new_size, fill_color(image, 0 if fill is None else fill))
        if image.mode == "P":
            padded.putpalette(image.getpalette() or [])
        padded.paste(image, (left, top))
        return padded
    return same_mode(image, lambda tensor: extended(tensor, (left, top, right, bottom), padding_mode))


def sides(padding: object) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of what `pad` takes.

    Raises:
        TypeError: neither a whole number nor a sequence of them.
        ValueError: another number of values.
    """
    if isinstance(padding, int):
        return padding, padding, padding, padding
    if isinstance(padding, str) or not isinstance(padding, Sequence):
        raise TypeError(f"pad: padding is {padding!r}, expected a whole number, or 1, 2 or 4 of them.")
    if len(padding) not in (1, 2, 4):
        raise ValueError(f"pad: padding {padding!r} has {len(padding)} values, expected 1, 2 (x, y) or 4 (l, t, r, b).")
    left, top = padding[0], padding[1 if len(padding) > 1 else 0]
    return (left, top, padding[2], padding[3]) if len(padding) == 4 else (left, top, left, top)


def extended(image: Tensor, amounts: tuple[int, int, int, int], mode: str) -> Tensor:
    """A tensor [..., H, W] continued beyond its edges by (left, top, right, bottom), however far.

    Every new pixel is a copy of an old one, so it is taken by its index: this serves all dtypes.
    """
    left, top, right, bottom = amounts
    height, width = image.shape[-2:]
    rows, columns = _sources(height, top, bottom, mode, image), _sources(width, left, right, mode, image)
    return image.index_select(-2, rows).index_select(-1, columns)


def _sources(size: int, before: int, after: int, mode: str, like: Tensor) -> Tensor:
    """Where each pixel along a dimension comes from."""
    index = torch.arange(-before, size + after, device=like.device)
    if mode == "edge" or size == 1:
        return index.clamp(0, size - 1)
    if mode == "reflect":
        return (size - 1) - (index.remainder(2 * size - 2) - (size - 1)).abs()
    index = index.remainder(2 * size)
    return torch.where(index < size, index, 2 * size - 1 - index)


def _moved(
    canvas_size: tuple[int, int], padding: Sequence[int] | int, padding_mode: str
) -> tuple[int, int, tuple[int, int]]:
    """Left and top padding, and the new canvas size."""
    if _checked(padding_mode) != "constant":
        raise ValueError(
            f"pad: mode {padding_mode!r} repeats parts of the picture, and what boxes or points mark there is not "
            "known; only 'constant' is supported."
        )
    left, top, right, bottom = sides(padding)
    return left, top, (canvas_size[0] + top + bottom, canvas_size[1] + left + right)


def _checked(padding_mode: str) -> str:
    if padding_mode not in _MODES:
        raise ValueError(f"pad: padding_mode is {padding_mode!r}, expected one of {', '.join(_MODES)}.")
    return padding_mode
