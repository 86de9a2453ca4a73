"""Transforms that change colours and leave every pixel in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator

from flambeau.vision.transforms import _random, _random_parameters
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._transform import RandomApplyTransform, Transform
from flambeau.vision.transforms.v2._utils import query_chw, setup_pair, setup_size

Limits = float | Sequence[float] | None


class Grayscale(Transform):
    """Turn the picture gray.

    Args:
        num_output_channels: 1, or 3 equal ones.
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Turn one leaf gray."""
        return self._call_kernel(F.rgb_to_grayscale, inpt, num_output_channels=self.num_output_channels)


class RandomGrayscale(RandomApplyTransform):
    """Turn the picture gray with probability p, with as many channels as before."""

    def __init__(self, p: float = 0.1, *, generator: Generator | None = None) -> None:
        super().__init__(p, generator=generator)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """See how many channels there are."""
        return {"num_input_channels": query_chw(flat_inputs)[0]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Turn one leaf gray."""
        return self._call_kernel(F.rgb_to_grayscale, inpt, num_output_channels=params["num_input_channels"])


class RGB(Transform):
    """Give gray pictures three equal channels; others stay."""

    def __init__(self) -> None:
        super().__init__()

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Make one leaf RGB."""
        return self._call_kernel(F.grayscale_to_rgb, inpt)


class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random factors, in random order.

    Args:
        brightness: limits of the factor; a number b stands for (max(0, 1 - b), 1 + b); None: no change.
        contrast: likewise.
        saturation: likewise.
        hue: limits of the shift as a part of the circle, within [-0.5, 0.5]; a number h stands for (-h, h).
        generator: see `Transform`.

    Raises:
        ValueError: limits out of bounds or in the wrong order.
        TypeError: neither a number nor two.
    """

    get_params = staticmethod(_random_parameters.jitter)

    def __init__(
        self,
        brightness: Limits = None,
        contrast: Limits = None,
        saturation: Limits = None,
        hue: Limits = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.brightness = _random_parameters.color_range(brightness, "brightness")
        self.contrast = _random_parameters.color_range(contrast, "contrast")
        self.saturation = _random_parameters.color_range(saturation, "saturation")
        self.hue = _random_parameters.color_range(hue, "hue", center=0, bound=(-0.5, 0.5), clip_first_on_zero=False)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw order and factors."""
        drawn = _random_parameters.jitter(self.brightness, self.contrast, self.saturation, self.hue)
        names = ("fn_idx", "brightness_factor", "contrast_factor", "saturation_factor", "hue_factor")
        return dict(zip(names, drawn, strict=True))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change the colours of one leaf."""
        return jittered(self._call_kernel, inpt, params)


def jittered(call: Any, image: Any, params: dict[str, Any]) -> Any:
    """Apply the changes of `ColorJitter` in their order; `call(functional, image, factor)` applies one."""
    changes = (
        (F.adjust_brightness, params["brightness_factor"]),
        (F.adjust_contrast, params["contrast_factor"]),
        (F.adjust_saturation, params["saturation_factor"]),
        (F.adjust_hue, params["hue_factor"]),
    )
    for index in params["fn_idx"]:
        change, factor = changes[index]
        if factor is not None:
            image = call(change, image, factor)
    return image


class RandomChannelPermutation(Transform):
    """Put the channels in random order."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the order."""
        return {"permutation": _random.randperm(query_chw(flat_inputs)[0]).tolist()}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Permute the channels of one leaf."""
        return self._call_kernel(F.permute_channels, inpt, params["permutation"])


class RandomPhotometricDistort(Transform):
    """Change colours as training of SSD does. Liu et al. 2016, arXiv:1512.02325.

    Each of brightness, contrast, saturation, hue and the order of channels changes with probability p; contrast either
    before saturation and hue or after.

    Args:
        brightness: limits of the factor.
        contrast: likewise.
        saturation: likewise.
        hue: limits of the shift as a part of the circle.
        p: probability of each change.
        generator: see `Transform`.
    """

    def __init__(
        self,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        p: float = 0.5,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue
        self.p = p

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw which changes are made, and their factors."""
        channels = query_chw(flat_inputs)[0]
        params: dict[str, Any] = {
            f"{name}_factor": _random.uniform(*getattr(self, name)) if _random.happens(self.p) else None
            for name in ("brightness", "contrast", "saturation", "hue")
        }
        params["contrast_before"] = bool(_random.rand() < 0.5)
        params["channel_permutation"] = _random.randperm(channels).tolist() if _random.happens(self.p) else None
        return params

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change the colours of one leaf."""
        contrast = (F.adjust_contrast, params["contrast_factor"])
        early, late = (contrast, None) if params["contrast_before"] else (None, contrast)
        changes: tuple[tuple[Any, Any] | None, ...] = (
            (F.adjust_brightness, params["brightness_factor"]),
            early,
            (F.adjust_saturation, params["saturation_factor"]),
            (F.adjust_hue, params["hue_factor"]),
            late,
            (F.permute_channels, params["channel_permutation"]),
        )
        for change, factor in filter(None, changes):
            if factor is not None:
                inpt = self._call_kernel(change, inpt, factor)
        return inpt


class RandomInvert(RandomApplyTransform):
    """Turn the picture into its negative, with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Invert one leaf."""
        return self._call_kernel(F.invert, inpt)


class RandomPosterize(RandomApplyTransform):
    """Keep the highest bits of each value only, with probability p.

    Args:
        bits: how many are kept, 0 to 8.
        p: probability.
        generator: see `Transform`.
    """

    def __init__(self, bits: int, p: float = 0.5, *, generator: Generator | None = None) -> None:
        super().__init__(p, generator=generator)
        self.bits = bits

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Posterize one leaf."""
        return self._call_kernel(F.posterize, inpt, bits=self.bits)


class RandomSolarize(RandomApplyTransform):
    """Invert the values from a threshold on, with probability p.

    Args:
        threshold: in the values' own unit: 0 to 255, or 0 to 1.
        p: probability.
        generator: see `Transform`.
    """

    def __init__(self, threshold: float, p: float = 0.5, *, generator: Generator | None = None) -> None:
        super().__init__(p, generator=generator)
        self.threshold = threshold

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Solarize one leaf."""
        return self._call_kernel(F.solarize, inpt, threshold=self.threshold)


class RandomAutocontrast(RandomApplyTransform):
    """Stretch each channel to the full range, with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Stretch the channels of one leaf."""
        return self._call_kernel(F.autocontrast, inpt)


class RandomEqualize(RandomApplyTransform):
    """Make all values of a channel equally frequent, with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Equalize one leaf."""
        return self._call_kernel(F.equalize, inpt)


class RandomAdjustSharpness(RandomApplyTransform):
    """Sharpen or blur, with probability p.

    Args:
        sharpness_factor: 0 blurs, 1 changes nothing, more sharpens.
        p: probability.
        generator: see `Transform`.
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5, *, generator: Generator | None = None) -> None:
        super().__init__(p, generator=generator)
        self.sharpness_factor = sharpness_factor

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Sharpen one leaf."""
        return self._call_kernel(F.adjust_sharpness, inpt, sharpness_factor=self.sharpness_factor)


class GaussianBlur(Transform):
    """Blur with a Gaussian of random width.

    Args:
        kernel_size: odd number of pixels, or (height, width).
        sigma: limits of the standard deviation in pixels, or the one.
        generator: see `Transform`.

    Raises:
        ValueError: an even kernel, or limits that are not positive or in the wrong order.
    """

    get_params = staticmethod(_random_parameters.blur_sigma)

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        sigma: float | Sequence[float] = (0.1, 2.0),
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.kernel_size = setup_size(kernel_size)
        if any(size <= 0 or size % 2 == 0 for size in self.kernel_size):
            raise ValueError(f"kernel_size is {kernel_size}, expected odd positive numbers.")
        self.sigma = setup_pair(sigma, "sigma")
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(f"sigma is {sigma}, expected 0 < sigma[0] <= sigma[1].")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the standard deviation."""
        sigma = _random_parameters.blur_sigma(*self.sigma)
        return {"sigma": [sigma, sigma]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Blur one leaf."""
        return self._call_kernel(F.gaussian_blur, inpt, self.kernel_size, **params)


class GaussianNoise(Transform):
    """Add normally distributed noise; see `functional.gaussian_noise`.

    With a generator, and for recording, the noise is made from one seed that is drawn; otherwise it is drawn from
    torch's default generator directly, as upstream does.

    Args:
        mean: of the noise, as part of full intensity.
        sigma: its standard deviation, likewise.
        clip: keep floating point within [0, 1].
        generator: see `Transform`.
    """

    def __init__(
        self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True, *, generator: Generator | None = None
    ) -> None:
        super().__init__(generator=generator)
        self.mean = mean
        self.sigma = sigma
        self.clip = clip

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the seed, where one is needed."""
        session = _random.current()
        if session.generator is None and session.tape is None:
            return {}
        return {"seed": _random.integer(0, 2**62)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Add noise to one leaf."""
        if "seed" not in params:
            return self._call_kernel(F.gaussian_noise, inpt, mean=self.mean, sigma=self.sigma, clip=self.clip)
        with torch.random.fork_rng(devices=[inpt.device] if getattr(inpt, "is_cuda", False) else []):
            torch.manual_seed(params["seed"])
            return self._call_kernel(F.gaussian_noise, inpt, mean=self.mean, sigma=self.sigma, clip=self.clip)
