"""Erasing rectangles, and the damage that JPEG does."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def erase(inpt: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """Set a rectangle of an image to given values.

    Args:
        inpt: [..., C, H, W] of any dtype, a video, or a PIL image.
        i: first row.
        j: first column.
        h: rows.
        w: columns.
        v: the values, a tensor that can be expanded to [..., C, h, w].
        inplace: change the input instead of a copy of it (not PIL images).

    Returns:
        Same shape and dtype.
    """
    return erase_image(inpt, i, j, h, w, v, inplace)


@register_kernel(erase, tv_tensors.Image)
def erase_image(image: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """`erase` of a tensor."""
    if inplace:
        image[..., i : i + h, j : j + w] = v
        return image
    height, width = image.shape[-2:]
    if (
        0 <= i <= height - h
        and 0 <= j <= width - w
        and h >= 0 <= w
        and v.ndim >= 2
        and v.shape[-2:] in ((1, 1), (h, w))
    ):
        out = image.clone()
        out[..., i : i + h, j : j + w] = v
        return out
    rows = torch.arange(image.shape[-2], device=image.device)[:, None]
    columns = torch.arange(image.shape[-1], device=image.device)
    inside = (rows >= i) & (rows < i + h) & (columns >= j) & (columns < j + w)
    v = v.to(image.device, image.dtype)
    if v.ndim < 2 or v.shape[-2:] == (1, 1):
        return torch.where(inside, v, image)
    # The values as large as the image, taken from where they would be.
    height, width = v.shape[-2:]
    placed = v.index_select(-2, (rows[:, 0] - i).clamp(0, height - 1))
    return torch.where(inside, placed.index_select(-1, (columns - j).clamp(0, width - 1)), image)


@register_kernel(erase, tv_tensors.Video)
def erase_video(video: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """`erase` of a video, the same in all frames."""
    return erase_image(video, i, j, h, w, v, inplace)


@register_kernel(erase, "PIL.Image:Image")
def _erase_image_pil(
    image: Image.Image, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False
) -> Image.Image:
    from flambeau.vision.transforms.v2.functional._pil import same_mode

    return same_mode(image, lambda tensor: erase_image(tensor, i, j, h, w, v))


@functional(fallback=False)
def jpeg(image: Tensor, quality: int) -> Tensor:
    """Encode as JPEG and decode again.

    Args:
        image: [..., 1 or 3, H, W], uint8; a video, or a PIL image.
        quality: 1 (worst) to 100.

    Returns:
        Same shape and dtype. Gradients do not flow.

    Raises:
        ValueError: another dtype or number of channels, or a quality out of its range.
    """
    return jpeg_image(image, quality)


@register_kernel(jpeg, tv_tensors.Image)
def jpeg_image(image: Tensor, quality: int) -> Tensor:
    """`jpeg` of a tensor."""
    if image.dtype != torch.uint8 or image.ndim < 3 or image.shape[-3] not in (1, 3):
        raise ValueError(
            f"jpeg: {image.dtype} of shape {list(image.shape)}, expected uint8 [..., 1 or 3, H, W]; convert with "
            "to_dtype(..., torch.uint8, scale=True)."
        )
    if not 1 <= quality <= 100:
        raise ValueError(f"jpeg: quality is {quality}, expected 1 to 100.")
    result: Tensor = _there_and_back(image, quality)
    return result


@torch.library.custom_op("flambeau_vision::jpeg_there_and_back", mutates_args=())
def _there_and_back(image: Tensor, quality: int) -> Tensor:
    # An operator of its own: compilers do not look into the codec.
    from flambeau.vision.io import ImageReadMode, decode_jpeg, encode_jpeg

    mode = ImageReadMode.GRAY if image.shape[-3] == 1 else ImageReadMode.RGB
    out = torch.empty_like(image, memory_format=torch.contiguous_format)
    for frame, place in zip(image.reshape(-1, *image.shape[-3:]), out.view(-1, *image.shape[-3:]), strict=True):
        place.copy_(decode_jpeg(encode_jpeg(frame.cpu(), quality), mode))
    return out


@_there_and_back.register_fake
def _(image: Tensor, quality: int) -> Tensor:
    return torch.empty_like(image, memory_format=torch.contiguous_format)


@_there_and_back.register_vmap
def _(info: object, dims: tuple[int | None, ...], image: Tensor, quality: int) -> tuple[Tensor, int]:
    return _there_and_back(image.movedim(dims[0] or 0, 0), quality), 0


@register_kernel(jpeg, tv_tensors.Video)
def jpeg_video(video: Tensor, quality: int) -> Tensor:
    """`jpeg` of a video, each frame on its own."""
    return jpeg_image(video, quality)


@register_kernel(jpeg, "PIL.Image:Image")
def _jpeg_image_pil(image: Image.Image, quality: int) -> Image.Image:
    from PIL import Image

    file = io.BytesIO()
    image.save(file, format="JPEG", quality=quality)
    with Image.open(file) as decoded:
        return decoded.copy()  # a plain picture, not one that knows a file
