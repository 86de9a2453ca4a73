"""Preprocessing that pretrained models expect; `weights.transforms()` makes one of these.

Each takes a PIL image, a tensor [C, H, W] or a batch [B, C, H, W].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.vision.transforms import _fused
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode
from flambeau.vision.transforms.v2.functional._crop import middle
from flambeau.vision.transforms.v2.functional._resize import resized_size

__all__ = [
    "HandwrittenDigit",
    "ImageClassification",
    "ObjectDetection",
    "OpticalFlow",
    "SemanticSegmentation",
    "VideoClassification",
]


class ImageClassification(nn.Module):
    """Resize the shorter side, cut out the middle, scale to [0, 1], normalize.

    For uint8 pictures on the CPU that is one pass; see `transforms.v2.Compose`.

    Args:
        crop_size: side of the square that the model sees.
        resize_size: length of the shorter side before cropping; or (height, width).
        mean: subtracted per channel, after scaling to [0, 1].
        std: divisor per channel.
        interpolation: of resizing; a mode, or its name such as "bicubic".
        antialias: low-pass filter when a tensor shrinks; PIL images always have it.

    Shape:
        PIL image, or [..., C, H, W] with integers or floating point in [0, 1] -> [..., C, crop_size, crop_size],
        floating point. C is the number of values in `mean`.
    """

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int | Sequence[int] = 256,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.crop_size = [crop_size]
        self.resize_size = [resize_size] if isinstance(resize_size, int) else list(resize_size)
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation = interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Tensor) -> Tensor:
        """Prepare one picture or a batch of them."""
        if _fused.is_wanted() and (out := self._in_one_pass(img)) is not None:
            return out
        img = F.resize(img, self.resize_size, interpolation=self.interpolation, antialias=self.antialias)
        img = F.center_crop(img, self.crop_size)
        if not isinstance(img, Tensor):
            img = F.pil_to_tensor(img)
        img = F.convert_image_dtype(img, torch.float)
        return F.normalize(img, mean=self.mean, std=self.std)

    def _in_one_pass(self, img: Any) -> Tensor | None:
        """The same by one kernel, for uint8; None where it is not made for the picture."""
        picture = _fused.picture_for(img, self.interpolation)
        if picture is None or not _fused.fits(self.mean, self.std, picture.shape[-3]):
            return None
        size = resized_size((picture.shape[-2], picture.shape[-1]), self.resize_size)
        height, width = self.crop_size[0], self.crop_size[-1]
        if min(size) < 1 or size[0] < height or size[1] < width:
            return None
        part = (*middle(*size, height, width), height, width)
        antialias = bool(self.antialias) or picture is not img
        return _fused.normalized(picture, size, part, self.mean, self.std, mode=self.interpolation, antialias=antialias)

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        return (
            f"crop_size={self.crop_size}, resize_size={self.resize_size}, mean={self.mean}, std={self.std}, "
            f"interpolation={self.interpolation}, antialias={self.antialias}"
        )

    def describe(self) -> str:
        """What happens to a picture, in a sentence or two."""
        return (
            f"The shorter side is resized to {self.resize_size} with {self.interpolation} interpolation, the middle "
            f"{self.crop_size} is cut out, values are scaled to [0, 1] and normalized with mean={self.mean} and "
            f"std={self.std}. PIL images and tensors (..., C, H, W) are accepted."
        )


class ObjectDetection(nn.Module):
    """Scale to [0, 1]; the models resize and normalize by themselves.

    Shape:
        PIL image, or [..., C, H, W] of integers or floating point in [0, 1] -> [..., C, H, W], float32.
    """

    def forward(self, img: Tensor) -> Tensor:
        """Prepare one picture or a batch of them."""
        if not isinstance(img, Tensor):
            img = F.pil_to_tensor(img)
        return F.convert_image_dtype(img, torch.float)

    def describe(self) -> str:
        """What happens to a picture, in a sentence or two."""
        return (
            "Values are scaled to [0, 1]. PIL images and tensors (..., C, H, W) are accepted, of any size: the model "
            "resizes and normalizes them."
        )


class SemanticSegmentation(nn.Module):
    """Resize the shorter side, scale to [0, 1], normalize.

    Args:
        resize_size: length of the shorter side; None keeps the size.
        mean: subtracted per channel, after scaling to [0, 1].
        std: divisor per channel.
        interpolation: of resizing; a mode, or its name such as "bicubic".
        antialias: low-pass filter when a tensor shrinks; PIL images always have it.

    Shape:
        PIL image, or [..., C, H, W] of integers or floating point in [0, 1] -> [..., C, H', W'], floating point. C is
        the number of values in `mean`.
    """

    def __init__(
        self,
        *,
        resize_size: int | None,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.resize_size = None if resize_size is None else [resize_size]
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation = interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Tensor) -> Tensor:
        """Prepare one picture or a batch of them."""
        if self.resize_size is not None:
            img = F.resize(img, self.resize_size, interpolation=self.interpolation, antialias=self.antialias)
        if not isinstance(img, Tensor):
            img = F.pil_to_tensor(img)
        img = F.convert_image_dtype(img, torch.float)
        return F.normalize(img, mean=self.mean, std=self.std)

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        return (
            f"resize_size={self.resize_size}, mean={self.mean}, std={self.std}, "
            f"interpolation={self.interpolation}, antialias={self.antialias}"
        )

    def describe(self) -> str:
        """What happens to a picture, in a sentence or two."""
        resizing = (
            "The size is kept"
            if self.resize_size is None
            else f"The shorter side is resized to {self.resize_size} with {self.interpolation} interpolation"
        )
        return (
            f"{resizing}, values are scaled to [0, 1] and normalized with mean={self.mean} and std={self.std}. PIL "
            "images and tensors (..., C, H, W) are accepted."
        )


class VideoClassification(nn.Module):
    """Resize every frame, cut out the middle, scale to [0, 1], normalize, and put time behind channels.

    Args:
        crop_size: height and width that the model sees.
        resize_size: (height, width) before cropping, or a tuple of one length for the shorter side.
        mean: subtracted per channel, after scaling to [0, 1].
        std: divisor per channel.
        interpolation: of resizing; a mode, or its name such as "bicubic".

    Shape:
        [..., T, C, H, W] of integers or floating point in [0, 1], with at most one dimension before T ->
        [..., C, T, *crop_size], floating point.
    """

    def __init__(
        self,
        *,
        crop_size: tuple[int, int],
        resize_size: tuple[int] | tuple[int, int],
        mean: tuple[float, ...] = (0.43216, 0.394666, 0.37645),
        std: tuple[float, ...] = (0.22803, 0.22145, 0.216989),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    ) -> None:
        super().__init__()
        self.crop_size = list(crop_size)
        self.resize_size = list(resize_size)
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation = interpolation_mode(interpolation)

    def forward(self, vid: Tensor) -> Tensor:
        """Prepare one video or a batch of them."""
        frames = vid.flatten(0, -4)
        # Upstream: frames are shrunk without a low-pass filter; the published accuracies were measured so.
        frames = F.resize(frames, self.resize_size, interpolation=self.interpolation, antialias=False)
        frames = F.center_crop(frames, self.crop_size)
        frames = F.convert_image_dtype(frames, torch.float)
        frames = F.normalize(frames, mean=self.mean, std=self.std)
        return frames.view(*vid.shape[:-3], *frames.shape[-3:]).transpose(-4, -3)

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        return (
            f"crop_size={self.crop_size}, resize_size={self.resize_size}, mean={self.mean}, std={self.std}, "
            f"interpolation={self.interpolation}"
        )

    def describe(self) -> str:
        """What happens to a video, in a sentence or two."""
        return (
            f"Frames are resized to {self.resize_size} with {self.interpolation} interpolation, the middle "
            f"{self.crop_size} is cut out, values are scaled to [0, 1] and normalized with mean={self.mean} and "
            f"std={self.std}. Videos (..., T, C, H, W) are accepted and come out as (..., C, T, H, W)."
        )


class OpticalFlow(nn.Module):
    """Scale two pictures to [-1, 1].

    Shape:
        Two PIL images, or two [..., C, H, W] of integers or floating point in [0, 1] -> the same, floating point.
    """

    def forward(self, img1: Tensor, img2: Tensor) -> tuple[Tensor, Tensor]:
        """Prepare a pair of pictures, or two batches of them."""
        return _to_signed(img1), _to_signed(img2)

    def describe(self) -> str:
        """What happens to the pictures, in a sentence or two."""
        return (
            "Values are scaled to [-1, 1]. PIL images and tensors (..., C, H, W) are accepted; height and width have "
            "to be multiples of 8."
        )


def _to_signed(img: Tensor) -> Tensor:
    """Values from -1 to 1 of a PIL image, or of [..., C, H, W]."""
    if not isinstance(img, Tensor):
        img = F.pil_to_tensor(img)
    return (F.convert_image_dtype(img, torch.float) * 2 - 1).contiguous()


class HandwrittenDigit(nn.Module):
    """Find a digit in a picture, dark on light or light on dark, and fit it into a small square as ink on nothing.

    Gray value is distance from the background, which is what most of the picture's border shows. The digit is cut
    out along the edges of its ink, shrunk by averaging until its longer side is `size`, and put in the middle. This
    is how the UCI digits were made from scanned sheets, so a picture of any size and margin ends up like one of them.

    Args:
        size: side of the square that the model sees.
        threshold: ink fainter than this part of the darkest ink does not count as an edge of the digit.

    Shape:
        PIL image, or [..., C, H, W] with 1 to 4 channels (gray or RGB, with or without alpha) of integers or
        floating point in [0, 1] -> [..., 1, size, size], float32, in [0, 1]. A picture of one colour gives zeros.
    """

    def __init__(self, *, size: int = 8, threshold: float = 0.25) -> None:
        super().__init__()
        self.size = size
        self.threshold = threshold

    def forward(self, img: Tensor) -> Tensor:
        """Prepare one picture or a batch of them."""
        if not isinstance(img, Tensor):
            # Pillow knows palettes, bits and the like; RGBA keeps what transparency there is.
            img = F.pil_to_tensor(img.convert("RGBA"))
        gray = _on_paper(F.convert_image_dtype(img, torch.float))
        out = gray.new_zeros(*gray.shape[:-2], self.size, self.size)
        for picture, place in zip(gray.flatten(0, -3), out.flatten(0, -3), strict=True):
            self._fit(picture, place)
        return out

    def _fit(self, gray: Tensor, out: Tensor) -> None:
        """Put the ink of one picture [H, W] into zeros [size, size]."""
        ink = _ink(gray)
        marked = ink > self.threshold * ink.max()
        if not marked.any():
            return
        rows, columns = marked.any(1).nonzero().flatten(), marked.any(0).nonzero().flatten()
        digit = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        height, width = digit.shape
        scale = self.size / max(height, width)
        new_height, new_width = max(1, round(height * scale)), max(1, round(width * scale))
        small = nn.functional.interpolate(digit[None, None], size=(new_height, new_width), mode="area")[0, 0]
        top, left = (self.size - new_height) // 2, (self.size - new_width) // 2
        out[top : top + new_height, left : left + new_width] = small / small.max()

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        return f"size={self.size}, threshold={self.threshold}"

    def describe(self) -> str:
        """What happens to a picture, in a sentence or two."""
        return (
            "The digit is told from the background by its contrast with the picture's border, cut out, shrunk by "
            f"averaging to a longer side of {self.size} and centred in {self.size}x{self.size}; values are ink from 0 "
            "to 1. PIL images and tensors (..., C, H, W) are accepted, of any size, dark on light or light on dark."
        )


def _on_paper(image: Tensor) -> Tensor:
    """Gray [..., 1, H, W] of [..., 1 to 4, H, W] in [0, 1]; what is transparent shows white paper."""
    if image.shape[-3] in (2, 4):
        alpha = image[..., -1:, :, :]
        image = image[..., :-1, :, :] * alpha + (1 - alpha)
    return F.rgb_to_grayscale(image)


def _ink(gray: Tensor) -> Tensor:
    """How far each pixel of [H, W] is from the background, on the side where the picture goes furthest from it."""
    border = torch.cat([gray[0], gray[-1], gray[1:-1, 0], gray[1:-1, -1]])
    background = border.median()
    lighter, darker = gray.max() - background, background - gray.min()
    ink = (gray - background) if lighter > darker else (background - gray)
    return ink.clamp_(min=0)
