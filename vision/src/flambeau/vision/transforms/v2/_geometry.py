"""Transforms that move pixels, and boxes, masks and key points with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Generator

from flambeau.vision.transforms import _random_parameters
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._size import Interpolation
from flambeau.vision.transforms.v2._transform import RandomApplyTransform, Transform
from flambeau.vision.transforms.v2._utils import (
    FillArgument,
    check_fill,
    check_sequence,
    fill_for,
    query_size,
    setup_pair,
    setup_range,
)
from flambeau.vision.transforms.v2.functional._pad import sides


class RandomHorizontalFlip(RandomApplyTransform):
    """Mirror left and right, with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Flip one leaf."""
        return self._call_kernel(F.horizontal_flip, inpt)


class RandomVerticalFlip(RandomApplyTransform):
    """Mirror top and bottom, with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Flip one leaf."""
        return self._call_kernel(F.vertical_flip, inpt)


class Pad(Transform):
    """Add pixels around the picture; see `functional.pad`.

    Args:
        padding: pixels on all sides; or (left and right, top and bottom); or (left, top, right, bottom).
        fill: of new pixels: a number, one for each channel, None for 0; or a dictionary from types (or "others") to
            these, such as `{tv_tensors.Image: 127, tv_tensors.Mask: 255}`.
        padding_mode: "constant", "edge", "reflect" or "symmetric".

    Raises:
        ValueError: another number of values in `padding`.
        TypeError: `fill` is nothing of these.
    """

    def __init__(
        self,
        padding: int | Sequence[int],
        fill: FillArgument = 0,
        padding_mode: Literal["constant", "edge", "reflect", "symmetric"] = "constant",
    ) -> None:
        super().__init__()
        sides(padding)
        self.padding = padding
        self.fill = check_fill(fill)
        self.padding_mode = padding_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Pad one leaf."""
        fill = fill_for(self.fill, inpt)
        return self._call_kernel(F.pad, inpt, padding=self.padding, fill=fill, padding_mode=self.padding_mode)


class RandomRotation(Transform):
    """Rotate by a random angle; see `functional.rotate`.

    Args:
        degrees: limits of the angle, counter-clockwise; a number d stands for (-d, d).
        interpolation: a mode, its name or Pillow's number.
        expand: enlarge the canvas so that all of the picture stays in it.
        center: (x, y) that stays where it is; None is the middle.
        fill: of new pixels, see `Pad`.
        generator: see `Transform`.
    """

    get_params = staticmethod(_random_parameters.angle)

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Interpolation = "nearest",
        expand: bool = False,
        center: list[float] | None = None,
        fill: FillArgument = 0,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.degrees = setup_range(degrees, "degrees")
        self.interpolation = interpolation
        self.expand = expand
        self.fill = check_fill(fill)
        if center is not None:
            check_sequence(center, "center", (2,))
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the angle."""
        return {"angle": _random_parameters.angle(self.degrees)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Rotate one leaf."""
        return self._call_kernel(
            F.rotate,
            inpt,
            **params,
            interpolation=self.interpolation,
            expand=self.expand,
            center=self.center,
            fill=fill_for(self.fill, inpt),
        )


class RandomAffine(Transform):
    """Rotate, move, scale and shear at random; see `functional.affine`.

    Args:
        degrees: limits of the angle; a number d stands for (-d, d).
        translate: farthest translation as a part of the width and of the height; None: none.
        scale: limits of the factor; None: 1.
        shear: limits in x in degrees, a number s stands for (-s, s); with two more, limits in y; None: none.
        interpolation: a mode, its name or Pillow's number.
        fill: of new pixels, see `Pad`.
        center: (x, y) of rotation and shear; None is the middle.
        generator: see `Transform`.

    Raises:
        ValueError: a translation outside of [0, 1], or a scale that is not positive.
    """

    get_params = staticmethod(_random_parameters.affine)

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Interpolation = "nearest",
        fill: FillArgument = 0,
        center: list[float] | None = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.degrees = setup_range(degrees, "degrees")
        self.translate = translate
        if translate is not None:
            check_sequence(translate, "translate", (2,))
            if not all(0.0 <= t <= 1.0 for t in translate):
                raise ValueError(f"translate is {translate}, expected parts of width and height between 0 and 1.")
        self.scale = scale
        if scale is not None:
            check_sequence(scale, "scale", (2,))
            if not all(s > 0 for s in scale):
                raise ValueError(f"scale is {scale}, expected positive factors.")
        self.shear = None if shear is None else setup_range(shear, "shear", (2, 4))
        self.interpolation = interpolation
        self.fill = check_fill(fill)
        if center is not None:
            check_sequence(center, "center", (2,))
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw angle, translation, scale and shear."""
        height, width = query_size(flat_inputs)
        drawn = _random_parameters.affine(self.degrees, self.translate, self.scale, self.shear, (width, height))
        return dict(zip(("angle", "translate", "scale", "shear"), drawn, strict=True))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Move the pixels of one leaf."""
        fill = fill_for(self.fill, inpt)
        return self._call_kernel(
            F.affine, inpt, **params, interpolation=self.interpolation, fill=fill, center=self.center
        )


class RandomPerspective(RandomApplyTransform):
    """Look at the picture from somewhere else, with probability p; see `functional.perspective`.

    Args:
        distortion_scale: how far the corners may move to the inside, as a part of half of the sides; from 0 to 1.
        p: probability.
        interpolation: a mode, its name or Pillow's number.
        fill: of new pixels, see `Pad`.
        generator: see `Transform`.

    Raises:
        ValueError: distortion_scale is outside of [0, 1].
    """

    get_params = staticmethod(_random_parameters.perspective)

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Interpolation = "bilinear",
        fill: FillArgument = 0,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(p, generator=generator)
        if not 0 <= distortion_scale <= 1:
            raise ValueError(f"distortion_scale is {distortion_scale}, expected a number between 0 and 1.")
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation
        self.fill = check_fill(fill)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw where the corners go."""
        height, width = query_size(flat_inputs)
        start, end = _random_parameters.perspective(width, height, self.distortion_scale)
        return {"startpoints": start, "endpoints": end}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Move the pixels of one leaf."""
        fill = fill_for(self.fill, inpt)
        return self._call_kernel(F.perspective, inpt, **params, interpolation=self.interpolation, fill=fill)


class ElasticTransform(Transform):
    """Move pixels by smooth random displacements, as seen through water. Simard et al. 2003.

    Args:
        alpha: size of displacements, one number or (x, y).
        sigma: their smoothness, the standard deviation of the blur in pixels, one number or (x, y).
        interpolation: a mode, its name or Pillow's number.
        fill: of new pixels, see `Pad`.
        generator: see `Transform`.
    """

    get_params = staticmethod(_random_parameters.displacement)

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: Interpolation = "bilinear",
        fill: FillArgument = 0,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.alpha = setup_pair(alpha, "alpha")
        self.sigma = setup_pair(sigma, "sigma")
        self.interpolation = interpolation
        self.fill = check_fill(fill)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the displacements."""
        return {"displacement": _random_parameters.displacement(self.alpha, self.sigma, query_size(flat_inputs))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Move the pixels of one leaf."""
        fill = fill_for(self.fill, inpt)
        return self._call_kernel(F.elastic, inpt, **params, interpolation=self.interpolation, fill=fill)
