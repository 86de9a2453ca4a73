"""Transforms of clips [C, T, H, W], which old video pipelines import from here; see `_functional_video`."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from flambeau.vision.transforms import _functional_video as F
from flambeau.vision.transforms import _random, _random_parameters
from flambeau.vision.transforms._v1_geometry import RandomCrop, RandomResizedCrop

__all__ = [
    "CenterCropVideo",
    "NormalizeVideo",
    "RandomCropVideo",
    "RandomHorizontalFlipVideo",
    "RandomResizedCropVideo",
    "ToTensorVideo",
]


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


class RandomCropVideo(RandomCrop):
    """Cut a part of `size` (height, width, or a number for a square) out of all frames, from anywhere."""

    _shown = ("size",)

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__(_pair(size))

    def forward(self, clip: Tensor) -> Tensor:
        """Crop [C, T, H, W]."""
        return F.crop(clip, *_random_parameters.crop(clip, (self.size[0], self.size[1])))


class RandomResizedCropVideo(RandomResizedCrop):
    """Cut a part of random area and aspect ratio out of all frames, and resize it.

    Args:
        size: height and width, or a number for a square.
        scale: the part's area, in areas of a frame.
        ratio: the part's width, in heights.
        interpolation_mode: "nearest", "bilinear" or "bicubic".
    """

    _shown = ("size", "interpolation_mode", "scale", "ratio")

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation_mode: str = "bilinear",
    ) -> None:
        super().__init__(_pair(size), scale, ratio)
        self.size: tuple[int, int] = _pair(size)  # type: ignore[assignment]
        self.interpolation_mode = interpolation_mode

    def forward(self, clip: Tensor) -> Tensor:
        """Crop and resize floating [C, T, H, W]."""
        place = _random_parameters.resized_crop(clip, self.scale, self.ratio)
        return F.resized_crop(clip, *place, self.size, self.interpolation_mode)


class CenterCropVideo:
    """Cut `crop_size` (height, width, or a number for a square) out of the middle of all frames."""

    def __init__(self, crop_size: int | Sequence[int]) -> None:
        self.crop_size = _pair(crop_size)

    def __call__(self, clip: Tensor) -> Tensor:
        """Crop [C, T, H, W]."""
        return F.center_crop(clip, self.crop_size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(crop_size={self.crop_size})"


class NormalizeVideo:
    """Subtract `mean` from each channel and divide by `std`; `inplace` changes the clip itself."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def __call__(self, clip: Tensor) -> Tensor:
        """Normalize floating [C, T, H, W]."""
        return F.normalize(clip, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mean={self.mean}, std={self.std}, inplace={self.inplace})"


class ToTensorVideo:
    """Turn [T, H, W, C], uint8, into [C, T, H, W], float32 in [0, 1]."""

    def __call__(self, clip: Tensor) -> Tensor:
        """Convert a clip."""
        return F.to_tensor(clip)

    def __repr__(self) -> str:
        return type(self).__name__


class RandomHorizontalFlipVideo:
    """Mirror all frames with probability `p`.

    Upstream: draws from Python's generator; here from torch's, as all transforms do.
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, clip: Tensor) -> Tensor:
        """Mirror [C, T, H, W], or return it as it is."""
        return F.hflip(clip) if _random.happens(self.p) else clip

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"
