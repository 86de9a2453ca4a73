"""Transforms of images: to channels first, resized, cut out, in gray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite
from flambeau.rl.envs.transforms._base.transform import ObservationTransform
from flambeau.rl.envs.transforms._observation.resizing import MODES, resized
from flambeau.rl.envs.transforms._observation.spec_mapping import mapped
from flambeau.rl.envs.transforms.functional import rgb_to_grayscale

__all__ = ["CenterCrop", "Crop", "GrayScale", "Resize", "ToTensorImage"]

Keys = Sequence[NestedKey] | None


class _OfImages(ObservationTransform):
    """A transform of every image by itself.

    Args:
        in_keys: of images; default: "pixels".
        out_keys: where to write them; default: `in_keys`.
    """

    def __init__(self, in_keys: Keys = None, out_keys: Keys = None) -> None:
        in_keys = ["pixels"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of transformed images: of their shape, between their bounds.

        Args:
            observation_spec: a composite.
        """
        return mapped(observation_spec, self._apply_transform)


class ToTensorImage(_OfImages):
    """Images as networks take them: channels first, floating point, bytes between 0 and 1.

    Args:
        from_int: divide by 255; default: images of dtype uint8 are.
        unsqueeze: give a single image a first dimension.
        dtype: of the result; default: `torch.get_default_dtype()`.
        in_keys: of images (..., height, width, channels); default: "pixels".
        out_keys: where to write images (..., channels, height, width); default: `in_keys`.
        shape_tolerant: leave images alone whose last dimension is not of size 3: they have their channels first.

    Example:
        >>> ToTensorImage(in_keys=["pixels"])(torch.full((5, 4, 3), 255, dtype=torch.uint8)).shape
        torch.Size([3, 5, 4])
    """

    def __init__(
        self, from_int: bool | None = None, unsqueeze: bool = False, dtype: torch.dtype | None = None, *,
        in_keys: Keys = None, out_keys: Keys = None, shape_tolerant: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(in_keys, out_keys)
        self.from_int = from_int
        self.unsqueeze = unsqueeze
        self.dtype = torch.get_default_dtype() if dtype is None else dtype
        self.shape_tolerant = shape_tolerant

    def _apply_transform(self, observation: Tensor) -> Tensor:
        if not self.shape_tolerant or observation.shape[-1] == 3:
            observation = observation.movedim(-1, -3)
        scaled = observation.dtype is torch.uint8 if self.from_int is None else self.from_int
        # One pass: torch converts while it divides.
        if scaled and self.dtype is torch.get_default_dtype() and not observation.is_floating_point():
            observation = observation.div(255)
        elif scaled:
            observation = observation.to(self.dtype).div_(255)
        else:
            observation = observation.to(self.dtype)
        return observation.unsqueeze(0) if self.unsqueeze and observation.ndim == 3 else observation


class Resize(_OfImages):
    """Images of another size, with a wider kernel where they shrink.

    Args:
        w: size of the first of the two dimensions of the image.
        h: size of the second; default: `w`.
        interpolation: "nearest", "nearest-exact", "bilinear" or "bicubic".
        in_keys: of images (..., channels, w, h); default: "pixels".
        out_keys: where to write them; default: `in_keys`.
    """

    def __init__(
        self, w: int, h: int | None = None, interpolation: str = "bilinear", in_keys: Keys = None,
        out_keys: Keys = None,
    ) -> None:  # fmt: skip
        super().__init__(in_keys, out_keys)
        self.w, self.h = int(w), int(w if h is None else h)
        mode = getattr(interpolation, "value", interpolation)
        if mode not in MODES:
            raise ValueError(f"Resize: interpolation is {mode!r}, expected one of {', '.join(MODES)}.")
        self.interpolation = mode

    def _apply_transform(self, observation: Tensor) -> Tensor:
        return resized(observation, self.w, self.h, self.interpolation)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(w={self.w}, h={self.h}, interpolation={self.interpolation}, keys={self.in_keys})"


class CenterCrop(_OfImages):
    """The middle of images; what is smaller is framed in zeros first.

    Args:
        w: size of the first of the two dimensions of the image.
        h: size of the second; default: `w`.
        in_keys: of images (..., channels, width, height); default: "pixels".
        out_keys: where to write them; default: `in_keys`.
    """

    def __init__(self, w: int, h: int | None = None, in_keys: Keys = None, out_keys: Keys = None) -> None:
        super().__init__(in_keys, out_keys)
        self.w, self.h = w, w if h is None else h

    def _apply_transform(self, observation: Tensor) -> Tensor:
        missing = [max(0, want - have) for want, have in zip((self.w, self.h), observation.shape[-2:], strict=True)]
        if any(missing):
            first, second = missing
            observation = pad(observation, (second // 2, (second + 1) // 2, first // 2, (first + 1) // 2))
        rows, columns = observation.shape[-2:]
        top, left = round((rows - self.w) / 2), round((columns - self.h) / 2)
        return observation[..., top : top + self.w, left : left + self.h]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(w={self.w}, h={self.h}, keys={self.in_keys})"


class Crop(_OfImages):
    """A part of images; what lies outside them is zero.

    Args:
        w: size of the first of the two dimensions of the image.
        h: size of the second; default: `w`.
        top: where the part begins in the first dimension.
        left: where it begins in the second.
        in_keys: of images (..., channels, width, height); default: "pixels".
        out_keys: where to write them; default: `in_keys`.
    """

    def __init__(
        self, w: int, h: int | None = None, top: int = 0, left: int = 0, in_keys: Keys = None, out_keys: Keys = None
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.w, self.h, self.top, self.left = w, w if h is None else h, top, left

    def _apply_transform(self, observation: Tensor) -> Tensor:
        rows, columns = observation.shape[-2:]
        bottom, right = self.top + self.w, self.left + self.h
        outside = (max(-self.left, 0), max(right - columns, 0), max(-self.top, 0), max(bottom - rows, 0))
        part = observation[..., max(self.top, 0) : max(bottom, 0), max(self.left, 0) : max(right, 0)]
        return pad(part, outside) if any(outside) else part

    def __repr__(self) -> str:
        return f"{type(self).__name__}(w={self.w}, h={self.h}, top={self.top}, left={self.left}, keys={self.in_keys})"


class GrayScale(_OfImages):
    """Luminance of images, 0.2989 R + 0.587 G + 0.114 B.

    Args:
        in_keys: of images (..., 3, height, width); default: "pixels".
        out_keys: where to write images (..., 1, height, width); default: `in_keys`.
    """

    def _apply_transform(self, observation: Tensor) -> Tensor:
        return rgb_to_grayscale(observation)
