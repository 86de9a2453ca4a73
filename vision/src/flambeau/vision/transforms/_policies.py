"""Augmentation policies: which operations there are, how strong they get, and what each does to an image.

Tables: Cubuk et al. 2018, arXiv:1805.09501 (AutoAugment); Cubuk et al. 2019, arXiv:1909.13719 (RandAugment); Müller and
Hutter 2021, arXiv:2103.10158 (TrivialAugment); Hendrycks et al. 2020, arXiv:1912.02781 (AugMix).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from flambeau.vision.transforms import _random
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.functional._dtype import max_value


class AutoAugmentPolicy(Enum):
    """The data set that the policies of AutoAugment were searched on."""

    __module__ = "flambeau.vision.transforms.autoaugment"

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


Step = tuple[str, float, int | None]
# Of each policy two steps: operation, probability, index of the magnitude among ten.
POLICIES: dict[AutoAugmentPolicy, tuple[tuple[Step, Step], ...]] = {
    AutoAugmentPolicy.IMAGENET: (
        (("Posterize", 0.4, 8), ("Rotate", 0.6, 9)),
        (("Solarize", 0.6, 5), ("AutoContrast", 0.6, None)),
        (("Equalize", 0.8, None), ("Equalize", 0.6, None)),
        (("Posterize", 0.6, 7), ("Posterize", 0.6, 6)),
        (("Equalize", 0.4, None), ("Solarize", 0.2, 4)),
        (("Equalize", 0.4, None), ("Rotate", 0.8, 8)),
        (("Solarize", 0.6, 3), ("Equalize", 0.6, None)),
        (("Posterize", 0.8, 5), ("Equalize", 1.0, None)),
        (("Rotate", 0.2, 3), ("Solarize", 0.6, 8)),
        (("Equalize", 0.6, None), ("Posterize", 0.4, 6)),
        (("Rotate", 0.8, 8), ("Color", 0.4, 0)),
        (("Rotate", 0.4, 9), ("Equalize", 0.6, None)),
        (("Equalize", 0.0, None), ("Equalize", 0.8, None)),
        (("Invert", 0.6, None), ("Equalize", 1.0, None)),
        (("Color", 0.6, 4), ("Contrast", 1.0, 8)),
        (("Rotate", 0.8, 8), ("Color", 1.0, 2)),
        (("Color", 0.8, 8), ("Solarize", 0.8, 7)),
        (("Sharpness", 0.4, 7), ("Invert", 0.6, None)),
        (("ShearX", 0.6, 5), ("Equalize", 1.0, None)),
        (("Color", 0.4, 0), ("Equalize", 0.6, None)),
        (("Equalize", 0.4, None), ("Solarize", 0.2, 4)),
        (("Solarize", 0.6, 5), ("AutoContrast", 0.6, None)),
        (("Invert", 0.6, None), ("Equalize", 1.0, None)),
        (("Color", 0.6, 4), ("Contrast", 1.0, 8)),
        (("Equalize", 0.8, None), ("Equalize", 0.6, None)),
    ),
    AutoAugmentPolicy.CIFAR10: (
        (("Invert", 0.1, None), ("Contrast", 0.2, 6)),
        (("Rotate", 0.7, 2), ("TranslateX", 0.3, 9)),
        (("Sharpness", 0.8, 1), ("Sharpness", 0.9, 3)),
        (("ShearY", 0.5, 8), ("TranslateY", 0.7, 9)),
        (("AutoContrast", 0.5, None), ("Equalize", 0.9, None)),
        (("ShearY", 0.2, 7), ("Posterize", 0.3, 7)),
        (("Color", 0.4, 3), ("Brightness", 0.6, 7)),
        (("Sharpness", 0.3, 9), ("Brightness", 0.7, 9)),
        (("Equalize", 0.6, None), ("Equalize", 0.5, None)),
        (("Contrast", 0.6, 7), ("Sharpness", 0.6, 5)),
        (("Color", 0.7, 7), ("TranslateX", 0.5, 8)),
        (("Equalize", 0.3, None), ("AutoContrast", 0.4, None)),
        (("TranslateY", 0.4, 3), ("Sharpness", 0.2, 6)),
        (("Brightness", 0.9, 6), ("Color", 0.2, 8)),
        (("Solarize", 0.5, 2), ("Invert", 0.0, None)),
        (("Equalize", 0.2, None), ("AutoContrast", 0.6, None)),
        (("Equalize", 0.2, None), ("Equalize", 0.6, None)),
        (("Color", 0.9, 9), ("Equalize", 0.6, None)),
        (("AutoContrast", 0.8, None), ("Solarize", 0.2, 8)),
        (("Brightness", 0.1, 3), ("Color", 0.7, 0)),
        (("Solarize", 0.4, 5), ("AutoContrast", 0.9, None)),
        (("TranslateY", 0.9, 9), ("TranslateY", 0.7, 9)),
        (("AutoContrast", 0.9, None), ("Solarize", 0.8, 3)),
        (("Equalize", 0.8, None), ("Invert", 0.1, None)),
        (("TranslateY", 0.7, 9), ("AutoContrast", 0.9, None)),
    ),
    AutoAugmentPolicy.SVHN: (
        (("ShearX", 0.9, 4), ("Invert", 0.2, None)),
        (("ShearY", 0.9, 8), ("Invert", 0.7, None)),
        (("Equalize", 0.6, None), ("Solarize", 0.6, 6)),
        (("Invert", 0.9, None), ("Equalize", 0.6, None)),
        (("Equalize", 0.6, None), ("Rotate", 0.9, 3)),
        (("ShearX", 0.9, 4), ("AutoContrast", 0.8, None)),
        (("ShearY", 0.9, 8), ("Invert", 0.4, None)),
        (("ShearY", 0.9, 5), ("Solarize", 0.2, 6)),
        (("Invert", 0.9, None), ("AutoContrast", 0.8, None)),
        (("Equalize", 0.6, None), ("Rotate", 0.9, 3)),
        (("ShearX", 0.9, 4), ("Solarize", 0.3, 3)),
        (("ShearY", 0.8, 8), ("Invert", 0.7, None)),
        (("Equalize", 0.9, None), ("TranslateY", 0.6, 6)),
        (("Invert", 0.9, None), ("Equalize", 0.6, None)),
        (("Contrast", 0.3, 3), ("Rotate", 0.8, 4)),
        (("Invert", 0.8, None), ("TranslateY", 0.0, 2)),
        (("ShearY", 0.7, 6), ("Solarize", 0.4, 8)),
        (("Invert", 0.6, None), ("Rotate", 0.8, 4)),
        (("ShearY", 0.3, 7), ("TranslateX", 0.9, 3)),
        (("ShearX", 0.1, 6), ("Invert", 0.6, None)),
        (("Solarize", 0.7, 2), ("TranslateY", 0.6, 7)),
        (("ShearY", 0.8, 4), ("Invert", 0.8, None)),
        (("ShearX", 0.7, 9), ("TranslateY", 0.8, 3)),
        (("ShearY", 0.8, 5), ("AutoContrast", 0.7, None)),
        (("ShearX", 0.7, 2), ("Invert", 0.1, None)),
    ),
}

Magnitudes = Tensor | None
# bins, (height, width) -> magnitudes from weakest to strongest
Levels = Callable[[int, Sequence[int]], Magnitudes]
Space = Mapping[str, tuple[Levels, bool]]  # operation -> (levels, whether the sign is random)


def _up_to(strongest: float) -> Levels:
    return lambda bins, size: torch.linspace(0.0, strongest, bins)


def _part_of(axis: int, part: float) -> Levels:
    return lambda bins, size: torch.linspace(0.0, part * size[axis], bins)


def _bits(weakest: int, range_: int) -> Levels:
    return lambda bins, size: (weakest - torch.arange(bins) / ((bins - 1) / range_)).round().int()


def _down_to_zero(bins: int, size: Sequence[int]) -> Magnitudes:
    return torch.linspace(1.0, 0.0, bins)


def _none(bins: int, size: Sequence[int]) -> Magnitudes:
    return None


def _space(
    names: str, *, shear: float, shift: tuple[Levels, Levels], angle: float, bits: Levels, factor: float
) -> Space:
    everything: Space = {
        "Identity": (_none, False),
        "ShearX": (_up_to(shear), True),
        "ShearY": (_up_to(shear), True),
        "TranslateX": (shift[0], True),
        "TranslateY": (shift[1], True),
        "Rotate": (_up_to(angle), True),
        "Brightness": (_up_to(factor), True),
        "Color": (_up_to(factor), True),
        "Contrast": (_up_to(factor), True),
        "Sharpness": (_up_to(factor), True),
        "Posterize": (bits, False),
        "Solarize": (_down_to_zero, False),
        "AutoContrast": (_none, False),
        "Equalize": (_none, False),
        "Invert": (_none, False),
    }
    return {name: everything[name] for name in names.split()}


_MOVES = "ShearX ShearY TranslateX TranslateY Rotate"
_COLORS = "Brightness Color Contrast Sharpness"
_TONES = "Posterize Solarize AutoContrast Equalize"
_SHIFT = (_part_of(1, 150.0 / 331.0), _part_of(0, 150.0 / 331.0))
_THIRD = (_part_of(1, 1.0 / 3.0), _part_of(0, 1.0 / 3.0))

AUTO_AUGMENT = _space(
    f"{_MOVES} {_COLORS} {_TONES} Invert", shear=0.3, shift=_SHIFT, angle=30.0, bits=_bits(8, 4), factor=0.9
)
RAND_AUGMENT = _space(
    f"Identity {_MOVES} {_COLORS} {_TONES}", shear=0.3, shift=_SHIFT, angle=30.0, bits=_bits(8, 4), factor=0.9
)
TRIVIAL_AUGMENT_WIDE = _space(
    f"Identity {_MOVES} {_COLORS} {_TONES}",
    shear=0.99,
    shift=(_up_to(32.0), _up_to(32.0)),
    angle=135.0,
    bits=_bits(8, 6),
    factor=0.99,
)
AUG_MIX = _space(f"{_MOVES} {_TONES} {_COLORS}", shear=0.3, shift=_THIRD, angle=30.0, bits=_bits(4, 4), factor=0.9)
AUG_MIX_PARTIAL = {name: levels for name, levels in AUG_MIX.items() if name not in _COLORS.split()}

AUG_MIX_BINS = 10


def apply_operation(
    image: Any,
    name: str,
    magnitude: float,
    *,
    interpolation: InterpolationMode | str | int,
    fill: Any,
    threshold: float | None = None,
) -> Any:
    """Apply an operation of a policy to an image.

    Args:
        image: a tensor, an `Image`, a `Video` or a PIL image.
        name: of the operation.
        magnitude: of a shear the slope, of a translation pixels, of a rotation degrees, of Brightness, Color, Contrast
            and Sharpness what is added to the factor 1, of Posterize bits, of Solarize part of full intensity.
        interpolation: of operations that move pixels.
        fill: of new pixels.
        threshold: of Solarize in the image's own unit; None takes the magnitude.
    """
    moving = {"interpolation": interpolation, "fill": fill}
    if name.startswith("Shear"):
        # The magnitude is a slope, and the line that stays is the first of the picture.
        degrees = math.degrees(math.atan(magnitude))
        shear = [degrees, 0.0] if name == "ShearX" else [0.0, degrees]
        return F.affine(image, angle=0.0, translate=[0, 0], scale=1.0, shear=shear, center=[0, 0], **moving)
    if name.startswith("Translate"):
        shift = [int(magnitude), 0] if name == "TranslateX" else [0, int(magnitude)]
        return F.affine(image, angle=0.0, translate=shift, scale=1.0, shear=[0.0, 0.0], **moving)
    if name == "Rotate":
        return F.rotate(image, angle=magnitude, **moving)
    if name == "Solarize":
        full = max_value(image.dtype) if isinstance(image, Tensor) else 255
        return F.solarize(image, threshold=full * magnitude if threshold is None else threshold)
    return _TONE_OPERATIONS[name](image, magnitude)


_TONE_OPERATIONS: dict[str, Callable[[Any, float], Any]] = {
    "Identity": lambda image, magnitude: image,
    "Brightness": lambda image, magnitude: F.adjust_brightness(image, 1.0 + magnitude),
    "Color": lambda image, magnitude: F.adjust_saturation(image, 1.0 + magnitude),
    "Contrast": lambda image, magnitude: F.adjust_contrast(image, 1.0 + magnitude),
    "Sharpness": lambda image, magnitude: F.adjust_sharpness(image, 1.0 + magnitude),
    "Posterize": lambda image, magnitude: F.posterize(image, int(magnitude)),
    "AutoContrast": lambda image, magnitude: F.autocontrast(image),
    "Equalize": lambda image, magnitude: F.equalize(image),
    "Invert": lambda image, magnitude: F.invert(image),
}


def mix_chains(
    image: Tensor, weights: tuple[Tensor, Tensor], chain: Callable[[int, Tensor], Tensor], *, video: bool = False
) -> Tensor:
    """AugMix: mix an image with augmented copies of itself.

    Args:
        image: [..., C, H, W].
        weights: what `mixing_weights` draws.
        chain: index of a chain, batch -> augmented batch.
        video: whether dimensions are [..., T, C, H, W].
    """
    shape = list(image.shape)
    batch = image.reshape([1] * max((5 if video else 4) - image.ndim, 0) + shape)
    own, others = (weight.to(batch.device) for weight in weights)
    column = [batch.shape[0]] + [1] * (batch.ndim - 1)
    mixed = own.reshape(column) * batch
    for index in range(others.shape[1]):
        mixed = mixed + others[:, index].reshape(column) * chain(index, batch)
    return mixed.reshape(shape).to(image.dtype)


def mixing_weights(alpha: float, width: int, batch: int) -> tuple[Tensor, Tensor]:
    """Weight of the image [B] and of the chains [B, width]; together 1."""
    beta = _random.dirichlet(torch.tensor([alpha, alpha]).expand(batch, -1))
    return beta[:, 0], _random.dirichlet(torch.tensor([alpha] * width).expand(batch, -1)) * beta[:, 1:]
