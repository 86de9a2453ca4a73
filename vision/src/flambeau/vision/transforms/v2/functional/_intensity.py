"""Curves of values: invert, posterize, solarize, autocontrast, equalize."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops._color import recolored, serves
from flambeau.vision.transforms.v2.functional._dtype import _VALUE_BITS, max_value, to_dtype_image
from flambeau.vision.transforms.v2.functional._value_range import narrowed, widened

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def invert(inpt: Tensor) -> Tensor:
    """Turn a picture into its negative: full intensity minus each value.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.

    Returns:
        Same shape and dtype.
    """
    return invert_image(inpt)


@register_kernel(invert, tv_tensors.Image)
def invert_image(image: Tensor) -> Tensor:
    """`invert` of a tensor."""
    if image.dtype == torch.uint8:
        return image.bitwise_not()
    if image.dtype == torch.uint16:  # on which torch does not calculate; in two's complement it is the same
        return image.view(torch.int16).bitwise_not().view(torch.uint16)
    return image.logical_not() if image.dtype == torch.bool else max_value(image.dtype) - image


@register_kernel(invert, tv_tensors.Video)
def invert_video(video: Tensor) -> Tensor:
    """`invert` of a video."""
    return invert_image(video)


@register_kernel(invert, "PIL.Image:Image")
def _invert_image_pil(image: Image.Image) -> Image.Image:
    from PIL import ImageOps

    return ImageOps.invert(image)


@functional(fallback=False)
def posterize(inpt: Tensor, bits: int) -> Tensor:
    """Keep the highest bits of each value.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.
        bits: how many to keep, 0 to 8.

    Returns:
        Same shape and dtype. Of integers the other bits become 0; floating point x becomes
        clamp(floor(x * 2**bits), 0, 2**bits - 1) / 2**bits.

    Raises:
        ValueError: `bits` is out of its range.
    """
    return posterize_image(inpt, bits)


@register_kernel(posterize, tv_tensors.Image)
def posterize_image(image: Tensor, bits: int) -> Tensor:
    """`posterize` of a tensor."""
    _check_bits(bits)
    if image.is_floating_point():
        levels = 1 << bits
        return recolored("posterize", image, levels) if serves(image) else posterized(image, levels)
    if image.dtype not in _VALUE_BITS:
        raise TypeError(f"posterize: the image is of {image.dtype}, expected integers or floating point.")
    lost = _VALUE_BITS[image.dtype] - bits
    if lost <= 0:
        return image
    kept = max_value(image.dtype) >> lost << lost
    return (image.int() & kept).to(image.dtype) if image.dtype == torch.uint16 else image & kept


def posterized(image: Tensor, levels: float) -> Tensor:
    """The formula for floating point."""
    return (image * levels).floor().clamp(0, levels - 1) / levels


@register_kernel(posterize, tv_tensors.Video)
def posterize_video(video: Tensor, bits: int) -> Tensor:
    """`posterize` of a video."""
    return posterize_image(video, bits)


@register_kernel(posterize, "PIL.Image:Image")
def _posterize_image_pil(image: Image.Image, bits: int) -> Image.Image:
    from PIL import ImageOps

    from flambeau.vision.transforms.v2.functional import _pil_tones

    _check_bits(bits)
    if bits == 0:  # which Pillow refuses
        return image.point(lambda level: 0)
    return _pil_tones.posterize(image, bits) or ImageOps.posterize(image, bits)


@functional(fallback=False)
def solarize(inpt: Tensor, threshold: float) -> Tensor:
    """Invert the values that are not below a threshold.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.
        threshold: in the image's units, at most full intensity.

    Returns:
        Same shape and dtype.

    Raises:
        TypeError: the threshold is larger than full intensity, as 128 is for floating point.
    """
    return solarize_image(inpt, threshold)


@register_kernel(solarize, tv_tensors.Image)
def solarize_image(image: Tensor, threshold: float) -> Tensor:
    """`solarize` of a tensor."""
    full = max_value(image.dtype)
    if threshold > full:
        raise TypeError(f"solarize: threshold is {threshold}, but full intensity of {image.dtype} is {full}.")
    return recolored("solarize", image, threshold) if serves(image) else solarized(image, threshold)


def solarized(image: Tensor, threshold: float) -> Tensor:
    """The formula."""
    values = widened(image) if image.dtype == torch.uint16 else image  # which torch does not compare
    return torch.where(values >= threshold, invert_image(image), image)


@register_kernel(solarize, tv_tensors.Video)
def solarize_video(video: Tensor, threshold: float) -> Tensor:
    """`solarize` of a video."""
    return solarize_image(video, threshold)


@register_kernel(solarize, "PIL.Image:Image")
def _solarize_image_pil(image: Image.Image, threshold: float) -> Image.Image:
    from PIL import ImageOps

    from flambeau.vision.transforms.v2.functional import _pil_tones

    return _pil_tones.solarize(image, threshold) or ImageOps.solarize(image, threshold=threshold)  # type: ignore[arg-type]


@functional(fallback=False)
def autocontrast(inpt: Tensor) -> Tensor:
    """Stretch each channel so that its lowest value becomes 0 and its highest full intensity.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.

    Returns:
        Same shape and dtype, integers truncated. Channels of one value stay as they are.
    """
    return autocontrast_image(inpt)


@register_kernel(autocontrast, tv_tensors.Image)
def autocontrast_image(image: Tensor) -> Tensor:
    """`autocontrast` of a tensor."""
    if image.numel() == 0:
        return image
    return recolored("autocontrast", image) if serves(image) else autocontrasted(image)


def autocontrasted(image: Tensor, _: float = 0.0) -> Tensor:
    """The formula."""
    values = widened(image)
    low, high = values.amin((-2, -1), keepdim=True), values.amax((-2, -1), keepdim=True)
    constant = low == high
    scale = torch.where(constant, 1, high - low) / max_value(image.dtype)
    return torch.where(constant, image, narrowed((values - low) / scale, image.dtype))


@register_kernel(autocontrast, tv_tensors.Video)
def autocontrast_video(video: Tensor) -> Tensor:
    """`autocontrast` of a video, each frame on its own."""
    return autocontrast_image(video)


@register_kernel(autocontrast, "PIL.Image:Image")
def _autocontrast_image_pil(image: Image.Image) -> Image.Image:
    from PIL import ImageOps

    from flambeau.vision.transforms.v2.functional import _pil_tones

    return _pil_tones.autocontrast(image) or ImageOps.autocontrast(image)


@functional(fallback=False)
def equalize(inpt: Tensor) -> Tensor:
    """Flatten the histogram of each channel, so that all levels occur about equally often.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.

    Returns:
        Same shape and dtype. There are 256 levels: other dtypes than uint8 are converted to it and back. Channels of
        very few values stay as they are. Gradients do not flow.
    """
    return equalize_image(inpt)


@register_kernel(equalize, tv_tensors.Image)
def equalize_image(image: Tensor) -> Tensor:
    """`equalize` of a tensor."""
    if image.numel() == 0:
        return image
    levels = to_dtype_image(image, torch.uint8, scale=True)
    equal = recolored("equalize", levels) if serves(levels) else equalized(levels)
    return to_dtype_image(equal, image.dtype, scale=True)


def equalized(image: Tensor, _: float = 0.0) -> Tensor:
    """The formula, for uint8."""
    levels = image.long().flatten(-2)
    counts = torch.zeros(*levels.shape[:-1], 256, dtype=torch.int64, device=image.device)
    counts = counts.scatter_add(-1, levels, torch.ones_like(levels))
    # Pillow's rule: the pixels of the highest level are left out, so that it becomes full intensity.
    step = (levels.shape[-1] - counts.gather(-1, levels.amax(-1, keepdim=True))) // 255
    below = counts.cumsum(-1) - counts
    table = ((below + step // 2) // step.clamp(min=1)).clamp(0, 255)
    return torch.where(step == 0, levels, table.gather(-1, levels)).reshape(image.shape).to(torch.uint8)


@register_kernel(equalize, tv_tensors.Video)
def equalize_video(video: Tensor) -> Tensor:
    """`equalize` of a video, each frame on its own."""
    return equalize_image(video)


@register_kernel(equalize, "PIL.Image:Image")
def _equalize_image_pil(image: Image.Image) -> Image.Image:
    from PIL import ImageOps

    from flambeau.vision.transforms.v2.functional import _pil_tones

    return _pil_tones.equalize(image) or ImageOps.equalize(image)


def _check_bits(bits: int) -> None:
    if not 0 <= bits <= 8:
        raise ValueError(f"posterize: bits is {bits}, expected 0 to 8.")
