"""First generation: transforms of one image, a tensor or a PIL image. `transforms.v2` has all of them, and more."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from flambeau.vision.transforms import _fused, _random, _v1_fusion
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms._v1_color import (
    ColorJitter,
    ConvertImageDtype,
    GaussianBlur,
    Grayscale,
    LinearTransformation,
    Normalize,
    PILToTensor,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
    ToPILImage,
    ToTensor,
)
from flambeau.vision.transforms._v1_geometry import (
    CenterCrop,
    ElasticTransform,
    FiveCrop,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    TenCrop,
)

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "ElasticTransform",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
]


class Compose:
    """Apply transforms one after another.

    Cropping or resizing, mirroring, `ToTensor` and `Normalize` that follow each other are one pass over a picture of 8
    bits. What is drawn stays the same; a PIL picture that is resized is within one level of what Pillow gives.
    FLAMBEAU_FUSED_TRANSFORMS=0 in the environment keeps to single steps.
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        """Transform one image."""
        if _fused.is_wanted() and _random.current().tape is None:
            return _v1_fusion.applied(_v1_fusion.planned(self.transforms), img)
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        """The transforms, one on each line."""
        return _listed(self, self.transforms)


class Lambda:
    """Apply a function of your own.

    Raises:
        TypeError: `lambd` is no function.
    """

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"lambd is a {type(lambd).__name__}, expected a function of one image.")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        """Transform one image."""
        return self.lambd(img)

    def __repr__(self) -> str:
        """The class alone."""
        return f"{type(self).__name__}()"


class RandomTransforms:
    """Base of those that hold several transforms.

    Raises:
        TypeError: `transforms` is no sequence.
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        if not isinstance(transforms, Sequence):
            raise TypeError(f"transforms is {type(transforms).__name__}, expected a sequence of transforms.")
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        """Transform one image."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """The transforms, one on each line."""
        return _listed(self, self.transforms)


class RandomApply(nn.Module):
    """Apply transforms one after another, all of them or, with probability 1 - p, none."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]] | nn.ModuleList, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Any) -> Any:
        """Transform one image, or return it as it is."""
        if not _random.happens(self.p):
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        """The transforms, one on each line."""
        return _listed(self, self.transforms, f"    p={self.p}")


class RandomOrder(RandomTransforms):
    """Apply transforms in any order. Upstream: the order comes from Python's generator, `random`."""

    def __call__(self, img: Any) -> Any:
        """Transform one image."""
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for index in order:
            img = self.transforms[index](img)
        return img


class RandomChoice(RandomTransforms):
    """Apply one of several transforms. Upstream: the choice comes from Python's generator, `random`.

    Raises:
        TypeError: `transforms` or `p` is no sequence.
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError(f"p is {type(p).__name__}, expected a sequence of weights.")
        self.p = p

    def __call__(self, *args: Any) -> Any:
        """Transform one image."""
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self) -> str:
        """The transforms, one on each line, and their weights."""
        return f"{super().__repr__()}(p={self.p})"


def _listed(container: Any, transforms: Any, *lines: str) -> str:
    shown = [*lines, *(f"    {transform}" for transform in transforms)]
    return "\n".join([f"{type(container).__name__}(", *shown, ")"])
