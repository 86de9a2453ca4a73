"""Brightness, contrast, saturation, hue and gamma; order of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flambeau.core.tensors import functional, register_kernel
from flambeau.vision import tv_tensors
from flambeau.vision.ops._color import recolored, recurved, serves
from flambeau.vision.transforms.v2.functional._dtype import to_dtype_image
from flambeau.vision.transforms.v2.functional._value_range import blended, channels_of, narrowed, widened

if TYPE_CHECKING:
    from PIL import Image


@functional(fallback=False)
def adjust_brightness(inpt: Tensor, brightness_factor: float) -> Tensor:
    """Multiply all values: blend with black.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.
        brightness_factor: 0 is black, 1 changes nothing, 2 is twice as bright.

    Returns:
        Same shape and dtype, values between 0 and full intensity, integers truncated.

    Raises:
        ValueError: the factor is negative.
    """
    return adjust_brightness_image(inpt, brightness_factor)


@register_kernel(adjust_brightness, tv_tensors.Image)
def adjust_brightness_image(image: Tensor, brightness_factor: float) -> Tensor:
    """`adjust_brightness` of a tensor."""
    _check_factor("brightness", brightness_factor)
    if serves(image):
        return recolored("brightness", image, brightness_factor)
    return brightened(image, brightness_factor)


def brightened(image: Tensor, factor: float) -> Tensor:
    """The formula."""
    return narrowed(widened(image) * factor, image.dtype)


@register_kernel(adjust_brightness, tv_tensors.Video)
def adjust_brightness_video(video: Tensor, brightness_factor: float) -> Tensor:
    """`adjust_brightness` of a video."""
    return adjust_brightness_image(video, brightness_factor)


@register_kernel(adjust_brightness, "PIL.Image:Image")
def _adjust_brightness_image_pil(image: Image.Image, brightness_factor: float) -> Image.Image:
    from PIL import ImageEnhance

    from flambeau.vision.transforms.v2.functional import _pil_tones

    return _pil_tones.brightness(image, brightness_factor) or ImageEnhance.Brightness(image).enhance(brightness_factor)


@functional(fallback=False)
def adjust_contrast(inpt: Tensor, contrast_factor: float) -> Tensor:
    """Move all values away from, or towards, the mean of the grayscale image: blend with it.

    Args:
        inpt: [..., 1 or 3, H, W] of any dtype, a video, or a PIL image.
        contrast_factor: 0 is plain gray, 1 changes nothing, 2 is twice the contrast.

    Returns:
        Same shape and dtype, values between 0 and full intensity, integers truncated. Pillow rounds the mean to an
        integer, so results differ slightly.

    Raises:
        ValueError: the factor is negative.
        TypeError: another number of channels.
    """
    return adjust_contrast_image(inpt, contrast_factor)


@register_kernel(adjust_contrast, tv_tensors.Image)
def adjust_contrast_image(image: Tensor, contrast_factor: float) -> Tensor:
    """`adjust_contrast` of a tensor."""
    _check_factor("contrast", contrast_factor)
    if image.numel() == 0:
        return image
    channels_of("adjust_contrast", image)
    if serves(image):
        return recolored("contrast", image, contrast_factor)
    return contrasted(image, contrast_factor)


def contrasted(image: Tensor, factor: float) -> Tensor:
    """The formula."""
    return blended(image, _gray(image).mean((-3, -2, -1), keepdim=True), factor)


@register_kernel(adjust_contrast, tv_tensors.Video)
def adjust_contrast_video(video: Tensor, contrast_factor: float) -> Tensor:
    """`adjust_contrast` of a video, each frame by its own mean."""
    return adjust_contrast_image(video, contrast_factor)


@register_kernel(adjust_contrast, "PIL.Image:Image")
def _adjust_contrast_image_pil(image: Image.Image, contrast_factor: float) -> Image.Image:
    from PIL import ImageEnhance

    from flambeau.vision.transforms.v2.functional import _pil_tones

    return _pil_tones.contrast(image, contrast_factor) or ImageEnhance.Contrast(image).enhance(contrast_factor)


@functional(fallback=False)
def adjust_saturation(inpt: Tensor, saturation_factor: float) -> Tensor:
    """Make colours stronger or weaker: blend with the grayscale image.

    Args:
        inpt: [..., 3, H, W] of any dtype, a video, or a PIL image. One channel is gray already and stays as it is.
        saturation_factor: 0 is gray, 1 changes nothing, 2 is twice as colourful.

    Returns:
        Same shape and dtype, values between 0 and full intensity, integers truncated.

    Raises:
        ValueError: the factor is negative.
        TypeError: another number of channels.
    """
    return adjust_saturation_image(inpt, saturation_factor)


@register_kernel(adjust_saturation, tv_tensors.Image)
def adjust_saturation_image(image: Tensor, saturation_factor: float) -> Tensor:
    """`adjust_saturation` of a tensor."""
    _check_factor("saturation", saturation_factor)
    if channels_of("adjust_saturation", image) == 1:
        return image
    if serves(image):
        return recolored("saturation", image, saturation_factor)
    return saturated(image, saturation_factor)


def saturated(image: Tensor, factor: float) -> Tensor:
    """The formula."""
    return blended(image, _gray(image), factor)


@register_kernel(adjust_saturation, tv_tensors.Video)
def adjust_saturation_video(video: Tensor, saturation_factor: float) -> Tensor:
    """`adjust_saturation` of a video."""
    return adjust_saturation_image(video, saturation_factor)


@register_kernel(adjust_saturation, "PIL.Image:Image")
def _adjust_saturation_image_pil(image: Image.Image, saturation_factor: float) -> Image.Image:
    from PIL import ImageEnhance

    from flambeau.vision.transforms.v2.functional import _pil_tones

    return _pil_tones.saturation(image, saturation_factor) or ImageEnhance.Color(image).enhance(saturation_factor)


@functional(fallback=False)
def adjust_hue(inpt: Tensor, hue_factor: float) -> Tensor:
    """Turn the circle of colours: shift the hue of HSV.

    Args:
        inpt: [..., 3, H, W] of any dtype, a video, or a PIL image. One channel has no hue and stays as it is.
        hue_factor: in turns, -0.5 to 0.5; 0 changes nothing, both ends give complementary colours.

    Returns:
        Same shape and dtype. Pillow has hues of 8 bits, so results differ slightly.

    Raises:
        ValueError: the factor is out of its range.
        TypeError: another number of channels.

    References:
        Smith 1978, Color Gamut Transform Pairs.
    """
    return adjust_hue_image(inpt, hue_factor)


@register_kernel(adjust_hue, tv_tensors.Image)
def adjust_hue_image(image: Tensor, hue_factor: float) -> Tensor:
    """`adjust_hue` of a tensor."""
    _check_hue(hue_factor)
    if channels_of("adjust_hue", image) == 1 or image.numel() == 0:
        return image
    if serves(image):
        return recolored("hue", image, hue_factor)
    return hue_turned(image, hue_factor)


def hue_turned(image: Tensor, turns: float) -> Tensor:
    """The formula."""
    wide = image.dtype in (torch.int32, torch.int64, torch.float64)
    values = to_dtype_image(image, torch.float64 if wide else torch.float32, scale=True)
    hue, saturation, value = _to_hsv(values)
    shifted = _to_rgb((hue + turns).remainder(1.0), saturation, value)
    return to_dtype_image(shifted.clamp(0, 1), image.dtype, scale=True)


@register_kernel(adjust_hue, tv_tensors.Video)
def adjust_hue_video(video: Tensor, hue_factor: float) -> Tensor:
    """`adjust_hue` of a video."""
    return adjust_hue_image(video, hue_factor)


@register_kernel(adjust_hue, "PIL.Image:Image")
def _adjust_hue_image_pil(image: Image.Image, hue_factor: float) -> Image.Image:
    from PIL import Image

    _check_hue(hue_factor)
    if image.mode in ("1", "L", "LA", "I", "I;16", "F"):
        return image
    hue, saturation, value = image.convert("HSV").split()
    shift = int(hue_factor * 255)
    turned = hue.point([(level + shift) % 256 for level in range(256)])
    return Image.merge("HSV", (turned, saturation, value)).convert(image.mode)


def _to_hsv(image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    red, green, blue = image.unbind(-3)
    value, low = image.amax(-3), image.amin(-3)
    chroma = value - low
    gray = chroma == 0
    saturation = torch.where(gray, 0, chroma / torch.where(gray, 1, value))
    divisor = torch.where(gray, 1, chroma)
    sector = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    return (sector / 6).remainder(1.0), saturation, value


def _to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    # Each channel falls from `value` to the lowest value and rises again, a third of the circle after the other.
    channels = []
    for offset in (5, 3, 1):
        place = (hue * 6 + offset).remainder(6.0)
        depth = torch.minimum(place, 4 - place).clamp(0, 1)
        channels.append(value - value * saturation * depth)
    return torch.stack(channels, -3)


@functional(fallback=False)
def adjust_gamma(inpt: Tensor, gamma: float, gain: float = 1) -> Tensor:
    """Bend the curve of values: gain * value ** gamma, value from 0 to 1.

    Args:
        inpt: [..., C, H, W] of any dtype and number of channels, a video, or a PIL image.
        gamma: >= 0; above 1 darkens shadows, below 1 lightens them.
        gain: factor.

    Returns:
        Same shape and dtype, values between 0 and full intensity.

    Raises:
        ValueError: gamma is negative.
    """
    return adjust_gamma_image(inpt, gamma, gain)


@register_kernel(adjust_gamma, tv_tensors.Image)
def adjust_gamma_image(image: Tensor, gamma: float, gain: float = 1.0) -> Tensor:
    """`adjust_gamma` of a tensor."""
    _check_gamma(gamma)
    if image.dtype == torch.uint8 and serves(image):
        curve = gamma_curved(torch.arange(256, dtype=torch.uint8, device=image.device), gamma, gain)
        return recurved(image, curve)
    return gamma_curved(image, gamma, gain)


def gamma_curved(image: Tensor, gamma: float, gain: float) -> Tensor:
    """The formula."""
    if image.is_floating_point():
        return (image**gamma).mul_(gain).clamp(0, 1)
    values = to_dtype_image(image, widened(image[..., :0]).dtype, scale=True)
    return to_dtype_image((values**gamma).mul_(gain).clamp(0, 1), image.dtype, scale=True)


@register_kernel(adjust_gamma, tv_tensors.Video)
def adjust_gamma_video(video: Tensor, gamma: float, gain: float = 1) -> Tensor:
    """`adjust_gamma` of a video."""
    return adjust_gamma_image(video, gamma, gain)


@register_kernel(adjust_gamma, "PIL.Image:Image")
def _adjust_gamma_image_pil(image: Image.Image, gamma: float, gain: float = 1) -> Image.Image:
    _check_gamma(gamma)
    mode = image.mode
    image = image.convert("RGB")
    curve = [min(int((255 + 1 - 1e-3) * gain * (level / 255) ** gamma), 255) for level in range(256)]
    return image.point(curve * 3).convert(mode)


@functional(fallback=False)
def permute_channels(inpt: Tensor, permutation: Sequence[int]) -> Tensor:
    """Put the channels into another order.

    Args:
        inpt: [..., C, H, W] of any dtype, a video, or a PIL image.
        permutation: for each channel of the result the one it comes from.

    Raises:
        ValueError: not one number for each channel.
    """
    return permute_channels_image(inpt, permutation)


@register_kernel(permute_channels, tv_tensors.Image)
def permute_channels_image(image: Tensor, permutation: Sequence[int]) -> Tensor:
    """`permute_channels` of a tensor."""
    channels = image.shape[-3]
    if sorted(permutation) != list(range(channels)):
        raise ValueError(f"permute_channels: {permutation!r} is no order of the {channels} channels.")
    return image.index_select(-3, torch.tensor(permutation, device=image.device))


@register_kernel(permute_channels, tv_tensors.Video)
def permute_channels_video(video: Tensor, permutation: Sequence[int]) -> Tensor:
    """`permute_channels` of a video."""
    return permute_channels_image(video, permutation)


@register_kernel(permute_channels, "PIL.Image:Image")
def _permute_channels_image_pil(image: Image.Image, permutation: Sequence[int]) -> Image.Image:
    from flambeau.vision.transforms.v2.functional._pil import same_mode

    return same_mode(image, lambda tensor: permute_channels_image(tensor, permutation))


def _gray(image: Tensor) -> Tensor:
    """The grayscale image [..., 1, H, W] to blend with; of integers its values are integers."""
    from flambeau.vision.transforms.v2.functional._grayscale import luma

    values = widened(image)
    if image.ndim < 3 or image.shape[-3] == 1:
        return values
    return luma(values) if image.is_floating_point() else luma(values).floor()


def _check_factor(what: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"adjust_{what}: {what}_factor is {factor}, expected a number that is not negative.")


def _check_hue(hue_factor: float) -> None:
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"adjust_hue: hue_factor is {hue_factor}, expected a number from -0.5 to 0.5.")


def _check_gamma(gamma: float) -> None:
    if gamma < 0:
        raise ValueError(f"adjust_gamma: gamma is {gamma}, expected a number that is not negative.")
