"""First generation: augmentation policies for one image, a uint8 tensor or a PIL image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.vision.transforms import _policies, _random, _random_parameters
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms._interpolation import InterpolationMode
from flambeau.vision.transforms._policies import AutoAugmentPolicy, Space
from flambeau.vision.transforms._v1_base import Shown
from flambeau.vision.transforms.v2.functional._dtype import max_value

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]

Operation = tuple[str, float]


def _in_levels(space: Mapping[str, Any]) -> Space:
    """Upstream: Solarize counts in the 255 levels of uint8 here."""
    return {**space, "Solarize": (lambda bins, size: torch.linspace(255.0, 0.0, bins), False)}


_AUTO_AUGMENT = _in_levels(_policies.AUTO_AUGMENT)
_RAND_AUGMENT = _in_levels(_policies.RAND_AUGMENT)
_TRIVIAL_AUGMENT_WIDE = _in_levels(_policies.TRIVIAL_AUGMENT_WIDE)


class _Policy(Shown, nn.Module):
    """Base of policies."""

    def __init__(self, interpolation: InterpolationMode, fill: list[float] | None) -> None:
        super().__init__()
        self.interpolation = interpolation
        self.fill = fill

    def apply_operation(self, image: Any, name: str, magnitude: float) -> Any:
        """Apply one operation."""
        threshold = None
        if name == "Solarize":
            full = max_value(image.dtype) if isinstance(image, Tensor) else 255
            threshold = magnitude if full == 255 else magnitude / 255 * full
        return _policies.apply_operation(
            image, name, magnitude, interpolation=self.interpolation, fill=self.fill, threshold=threshold
        )


def _drawn_operation(space: Space, bins: int, size: list[int], index: int | None, among: int = 0) -> Operation:
    """Any operation of a space; arguments as in `v2`, whose draws differ."""
    name = tuple(space)[_random.integer(0, len(space))]
    levels, signed = space[name]
    magnitudes = levels(bins, size)
    magnitude = 0.0
    if magnitudes is not None:
        magnitude = float(magnitudes[_random.integer(0, among) if index is None else index])
    return name, -magnitude if signed and _random.integer(0, 2) else magnitude


class AutoAugment(_Policy):
    """Apply one of 25 policies found by search. Cubuk et al. 2018, arXiv:1805.09501.

    Args:
        policy: which data set they were searched on.
        interpolation: of operations that move pixels.
        fill: of new pixels, one number for each channel; None is 0.
    """

    _shown = ("policy", "fill")
    get_params = staticmethod(_random_parameters.policy)

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: list[float] | None = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.policy = AutoAugmentPolicy(policy)

    def forward(self, img: Any) -> Any:
        """Augment one image."""
        size = F.get_dimensions(img)[1:]
        policies = _policies.POLICIES[self.policy]
        chosen, probabilities, signs = _random_parameters.policy(len(policies))
        for step, (name, probability, index) in enumerate(policies[chosen]):
            if not probabilities[step] <= probability:
                continue
            levels, signed = _AUTO_AUGMENT[name]
            magnitudes = levels(10, size)
            magnitude = 0.0 if magnitudes is None or index is None else float(magnitudes[index])
            img = self.apply_operation(img, name, -magnitude if signed and signs[step] == 0 else magnitude)
        return img


class RandAugment(_Policy):
    """Apply random operations of one strength. Cubuk et al. 2019, arXiv:1909.13719.

    Args:
        num_ops: how many operations.
        magnitude: their strength, an index of the bins.
        num_magnitude_bins: into how many bins the range of strengths is divided.
        interpolation: of operations that move pixels.
        fill: of new pixels, one number for each channel; None is 0.
    """

    _shown = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: list[float] | None = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, img: Any) -> Any:
        """Augment one image."""
        size = F.get_dimensions(img)[1:]
        for _ in range(self.num_ops):
            operation = _drawn_operation(_RAND_AUGMENT, self.num_magnitude_bins, size, self.magnitude)
            img = self.apply_operation(img, *operation)
        return img


class TrivialAugmentWide(_Policy):
    """Apply one random operation of random strength. Müller and Hutter 2021, arXiv:2103.10158.

    Args:
        num_magnitude_bins: into how many bins the range of strengths is divided.
        interpolation: of operations that move pixels.
        fill: of new pixels, one number for each channel; None is 0.
    """

    _shown = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: list[float] | None = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, img: Any) -> Any:
        """Augment one image."""
        size, bins = F.get_dimensions(img)[1:], self.num_magnitude_bins
        return self.apply_operation(img, *_drawn_operation(_TRIVIAL_AUGMENT_WIDE, bins, size, None, bins))


class AugMix(_Policy):
    """Mix an image with several copies, each changed by a chain of operations. Hendrycks et al. 2020, arXiv:1912.02781.

    Args:
        severity: how many of the ten strengths are drawn from, 1 to 10.
        mixture_width: how many chains there are.
        chain_depth: operations in a chain; a number that is not positive draws 1 to 3.
        alpha: parameter of the distributions of weights.
        all_ops: also brightness, saturation, contrast and sharpness.
        interpolation: of operations that move pixels.
        fill: of new pixels, one number for each channel; None is 0.

    Raises:
        ValueError: severity is out of bounds.
    """

    _shown = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill")

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: list[float] | None = None,
    ) -> None:
        super().__init__(interpolation, fill)
        if not 1 <= severity <= _policies.AUG_MIX_BINS:
            raise ValueError(f"severity is {severity}, expected a number between 1 and {_policies.AUG_MIX_BINS}.")
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops

    def forward(self, orig_img: Any) -> Any:
        """Mix one image with its changed copies."""
        image = orig_img if isinstance(orig_img, Tensor) else F.pil_to_tensor(orig_img)
        space = _in_levels(_policies.AUG_MIX if self.all_ops else _policies.AUG_MIX_PARTIAL)
        size = F.get_dimensions(image)[1:]
        weights = _policies.mixing_weights(self.alpha, self.mixture_width, image.shape[0] if image.ndim > 3 else 1)

        def chain(_: int, batch: Tensor) -> Tensor:
            depth = self.chain_depth if self.chain_depth > 0 else _random.integer(1, 4)
            for _ in range(depth):
                operation = _drawn_operation(space, _policies.AUG_MIX_BINS, size, None, self.severity)
                batch = self.apply_operation(batch, *operation)
            return batch

        mixed = _policies.mix_chains(image, weights, chain)
        return mixed if isinstance(orig_img, Tensor) else F.to_pil_image(mixed, mode=orig_img.mode)
