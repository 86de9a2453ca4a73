"""First generation: transforms that move pixels of one image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import nn

from flambeau.vision.transforms import _random_parameters
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms._interpolation import InterpolationMode, interpolation_mode
from flambeau.vision.transforms._v1_base import RandomlyApplied, Shown
from flambeau.vision.transforms.v2._utils import check_sequence, setup_pair, setup_range, setup_size
from flambeau.vision.transforms.v2.functional._pad import sides

Mode = InterpolationMode | int
Size = int | Sequence[int]
Fill = float | Sequence[float] | None


class Resize(Shown, nn.Module):
    """Resize an image; arguments as `functional.resize`."""

    _shown: tuple[str, ...] = ("size", "interpolation", "max_size", "antialias")

    def __init__(
        self,
        size: Size | None,
        interpolation: Mode = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if size is not None and not isinstance(size, int):
            check_sequence(size, "size", (1, 2))
        self.size = size
        self.max_size = max_size
        self.interpolation = interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        """Resize one image."""
        return F.resize(img, cast("Any", self.size), self.interpolation, self.max_size, self.antialias)


class CenterCrop(Shown, nn.Module):
    """Cut out the middle of an image, `size` is (height, width) or a number for a square."""

    _shown: tuple[str, ...] = ("size",)

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = setup_size(size)

    def forward(self, img: Any) -> Any:
        """Crop one image."""
        return F.center_crop(img, self.size)


class FiveCrop(CenterCrop):
    """The four corners and the middle of an image, a tuple."""

    def forward(self, img: Any) -> Any:
        """Crop one image."""
        return F.five_crop(img, self.size)


class TenCrop(CenterCrop):
    """The four corners and the middle of an image and of its mirror image, a tuple."""

    _shown: tuple[str, ...] = ("size", "vertical_flip")

    def __init__(self, size: Size, vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> Any:
        """Crop one image."""
        return F.ten_crop(img, self.size, self.vertical_flip)


class Pad(Shown, nn.Module):
    """Add pixels around an image; arguments as `functional.pad`."""

    _shown: tuple[str, ...] = ("padding", "fill", "padding_mode")

    def __init__(
        self, padding: int | Sequence[int], fill: float | Sequence[float] = 0, padding_mode: str = "constant"
    ) -> None:
        super().__init__()
        sides(padding)
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(f"padding_mode is {padding_mode!r}, expected constant, edge, reflect or symmetric.")
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        """Pad one image."""
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class RandomCrop(Shown, nn.Module):
    """Cut out a part of given size from anywhere; arguments as `v2.RandomCrop`."""

    _shown: tuple[str, ...] = ("size", "padding")
    get_params = staticmethod(_random_parameters.crop)

    def __init__(
        self,
        size: Size,
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = tuple(setup_size(size))
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        """Crop one image."""
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        if self.pad_if_needed:
            _, height, width = F.get_dimensions(img)
            missing = [max(self.size[1] - width, 0), max(self.size[0] - height, 0)]
            if any(missing):
                img = F.pad(img, missing, self.fill, self.padding_mode)
        return F.crop(img, *_random_parameters.crop(img, (self.size[0], self.size[1])))


class RandomResizedCrop(Shown, nn.Module):
    """Cut out a part of random area and aspect ratio, and resize it; arguments as `v2.RandomResizedCrop`."""

    _shown: tuple[str, ...] = ("size", "scale", "ratio", "interpolation", "antialias")
    get_params = staticmethod(_random_parameters.resized_crop)

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Mode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = setup_size(size)
        check_sequence(scale, "scale", (2,))
        check_sequence(ratio, "ratio", (2,))
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        """Crop and resize one image."""
        part = _random_parameters.resized_crop(img, self.scale, self.ratio)
        return F.resized_crop(img, *part, self.size, self.interpolation, self.antialias)


class RandomHorizontalFlip(RandomlyApplied):
    """Mirror left and right, with probability p."""

    def apply_to(self, img: Any) -> Any:
        """Flip one image."""
        return F.hflip(img)


class RandomVerticalFlip(RandomlyApplied):
    """Mirror top and bottom, with probability p."""

    def apply_to(self, img: Any) -> Any:
        """Flip one image."""
        return F.vflip(img)


class RandomPerspective(RandomlyApplied):
    """Look at the image from somewhere else, with probability p; arguments as `v2.RandomPerspective`."""

    get_params = staticmethod(_random_parameters.perspective)

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Mode = InterpolationMode.BILINEAR,
        fill: Fill = 0,
    ) -> None:
        super().__init__(p)
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation_mode(interpolation)
        self.fill = fill

    def apply_to(self, img: Any) -> Any:
        """Move the pixels of one image."""
        _, height, width = F.get_dimensions(img)
        corners = _random_parameters.perspective(width, height, self.distortion_scale)
        return F.perspective(img, *corners, self.interpolation, self.fill)


class RandomRotation(Shown, nn.Module):
    """Rotate by a random angle; arguments as `v2.RandomRotation`."""

    _shown: tuple[str, ...] = ("degrees", "interpolation", "expand", "center", "fill")
    get_params = staticmethod(_random_parameters.angle)

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Mode = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[int] | None = None,
        fill: Fill = 0,
    ) -> None:
        super().__init__()
        self.degrees = setup_range(degrees, "degrees")
        if center is not None:
            check_sequence(center, "center", (2,))
        self.interpolation = interpolation_mode(interpolation)
        self.expand = expand
        self.center = center
        self.fill = fill

    def forward(self, img: Any) -> Any:
        """Rotate one image."""
        angle = _random_parameters.angle(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, self.fill)


class RandomAffine(Shown, nn.Module):
    """Rotate, move, scale and shear at random; arguments as `v2.RandomAffine`."""

    _shown: tuple[str, ...] = ("degrees", "translate", "scale", "shear", "interpolation", "fill", "center")
    get_params = staticmethod(_random_parameters.affine)

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Mode = InterpolationMode.NEAREST,
        fill: Fill = 0,
        center: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.degrees = setup_range(degrees, "degrees")
        if translate is not None:
            check_sequence(translate, "translate", (2,))
            if not all(0.0 <= t <= 1.0 for t in translate):
                raise ValueError(f"translate is {translate}, expected parts of width and height between 0 and 1.")
        if scale is not None:
            check_sequence(scale, "scale", (2,))
            if not all(s > 0 for s in scale):
                raise ValueError(f"scale is {scale}, expected positive factors.")
        self.translate = translate
        self.scale = scale
        self.shear = None if shear is None else setup_range(shear, "shear", (2, 4))
        self.interpolation = interpolation_mode(interpolation)
        self.fill = fill
        self.center = center

    def forward(self, img: Any) -> Any:
        """Move the pixels of one image."""
        _, height, width = F.get_dimensions(img)
        drawn = _random_parameters.affine(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return F.affine(img, *drawn, interpolation=self.interpolation, fill=self.fill, center=self.center)


class ElasticTransform(Shown, nn.Module):
    """Move pixels by smooth random displacements; arguments as `v2.ElasticTransform`."""

    _shown: tuple[str, ...] = ("alpha", "sigma", "interpolation", "fill")
    get_params = staticmethod(_random_parameters.displacement)

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: Mode = InterpolationMode.BILINEAR,
        fill: Fill = 0,
    ) -> None:
        super().__init__()
        self.alpha = setup_pair(alpha, "alpha")
        self.sigma = setup_pair(sigma, "sigma")
        self.interpolation = interpolation_mode(interpolation)
        self.fill = fill

    def forward(self, tensor: Any) -> Any:
        """Move the pixels of one image."""
        _, height, width = F.get_dimensions(tensor)
        moves = _random_parameters.displacement(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(tensor, moves, self.interpolation, self.fill)


__all__ = [
    "CenterCrop",
    "ElasticTransform",
    "FiveCrop",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomPerspective",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
]
