"""Transforms that change the size of everything in a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Generator

from flambeau.vision.transforms import _random
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._transform import RandomApplyTransform, Transform
from flambeau.vision.transforms.v2._utils import FillArgument, check_fill, check_sequence, fill_for, query_size

Interpolation = InterpolationMode | str | int


class _Resizing(Transform):
    """Base of those that resize to `params["size"]`, which their `make_params` draws."""

    def __init__(
        self, interpolation: Interpolation, antialias: bool | None, *, generator: Generator | None = None
    ) -> None:
        super().__init__(generator=generator)
        self.interpolation = interpolation
        self.antialias = antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Resize one leaf."""
        return self._call_kernel(
            F.resize, inpt, params["size"], interpolation=self.interpolation, antialias=self.antialias
        )


class Resize(Transform):
    """Resize to a given size; see `functional.resize`.

    Args:
        size: (height, width); a number, the length of the shorter side; or None, when `max_size` is the length of the
            longer.
        interpolation: a mode, its name or Pillow's number.
        max_size: upper limit of the longer side, where `size` is a number.
        antialias: low-pass filter when a tensor shrinks; PIL images always have it.

    Raises:
        ValueError: size None without max_size, or another number of values.
    """

    _takes_encoded = True

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: Interpolation = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if size is None:
            if not isinstance(max_size, int):
                raise ValueError(f"max_size is {max_size!r}; with size=None it has to be an integer.")
        elif isinstance(size, int):
            size = [size]
        else:
            check_sequence(size, "size", (1, 2))
            size = list(size)
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size
        self.antialias = antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Resize one leaf."""
        return self._call_kernel(
            F.resize,
            inpt,
            self.size,
            interpolation=self.interpolation,
            max_size=self.max_size,
            antialias=self.antialias,
        )


class ScaleJitter(_Resizing):
    """Resize by a random factor, relative to what fits into a target.

    The factor is min(target_size[1] / height, target_size[0] / width) * s, s uniform in `scale_range`. Upstream: the
    target is (width, height) thereby, whatever its name in the papers. Ghiasi et al. 2021, arXiv:2012.07177.

    Args:
        target_size: see above.
        scale_range: limits of s.
        interpolation: see `Resize`.
        antialias: see `Resize`.
        generator: see `Transform`.
    """

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = True,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(interpolation, antialias, generator=generator)
        self.target_size = target_size
        self.scale_range = scale_range

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the new size."""
        height, width = query_size(flat_inputs)
        low, high = self.scale_range
        scale = low + _random.rand(1) * (high - low)
        factor = min(self.target_size[1] / height, self.target_size[0] / width) * scale
        return {"size": (int(height * factor), int(width * factor))}


class RandomShortestSize(_Resizing):
    """Resize so that the shorter side has one of several lengths.

    Args:
        min_size: the lengths.
        max_size: upper limit of the longer side.
        interpolation: see `Resize`.
        antialias: see `Resize`.
        generator: see `Transform`.
    """

    def __init__(
        self,
        min_size: list[int] | tuple[int, ...] | int,
        max_size: int | None = None,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = True,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(interpolation, antialias, generator=generator)
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the new size."""
        height, width = query_size(flat_inputs)
        length = self.min_size[int(_random.randint(0, len(self.min_size)))]
        factor = length / min(height, width)
        if self.max_size is not None:
            factor = min(factor, self.max_size / max(height, width))
        return {"size": (int(height * factor), int(width * factor))}


class RandomResize(_Resizing):
    """Resize so that the shorter side has a random length.

    Args:
        min_size: the smallest length.
        max_size: one more than the largest.
        interpolation: see `Resize`.
        antialias: see `Resize`.
        generator: see `Transform`.
    """

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = True,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(interpolation, antialias, generator=generator)
        self.min_size = min_size
        self.max_size = max_size

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the length."""
        return {"size": [int(_random.randint(self.min_size, self.max_size))]}


class RandomZoomOut(RandomApplyTransform):
    """Put the picture somewhere on a larger canvas. Liu et al. 2016, arXiv:1512.02325.

    Args:
        fill: of the canvas, see `Pad`.
        side_range: limits of the canvas's sides, as multiples of the picture's.
        p: probability of doing so.
        generator: see `Transform`.

    Raises:
        ValueError: limits below 1 or in the wrong order.
    """

    def __init__(
        self,
        fill: FillArgument = 0,
        side_range: Sequence[float] = (1.0, 4.0),
        p: float = 0.5,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(p, generator=generator)
        self.fill = check_fill(fill)
        check_sequence(side_range, "side_range", (2,))
        if not 1.0 <= side_range[0] <= side_range[1]:
            raise ValueError(f"side_range is {side_range}, expected 1 <= side_range[0] <= side_range[1].")
        self.side_range = side_range

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the size of the canvas and the place on it."""
        height, width = query_size(flat_inputs)
        low, high = self.side_range
        factor = low + _random.rand(1) * (high - low)
        more_width, more_height = int(width * factor) - width, int(height * factor) - height
        place = _random.rand(2)
        left, top = int(more_width * place[0]), int(more_height * place[1])
        return {"padding": [left, top, more_width - left, more_height - top]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Pad one leaf."""
        return self._call_kernel(F.pad, inpt, **params, fill=fill_for(self.fill, inpt))
