"""First generation: transforms of one image's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.vision.transforms import _random_parameters
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms._v1_base import RandomlyApplied, Shown
from flambeau.vision.transforms.v2._augment import check_erasing, erased_values
from flambeau.vision.transforms.v2._normalize import check_linear, linear
from flambeau.vision.transforms.v2._utils import setup_pair, setup_size

Limits = float | Sequence[float]

__all__ = [
    "ColorJitter",
    "ConvertImageDtype",
    "GaussianBlur",
    "Grayscale",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "ToPILImage",
    "ToTensor",
]


class ToTensor(Shown):
    """Make a tensor of a PIL image or an array; uint8 is scaled to [0, 1], see `functional.to_tensor`."""

    def __call__(self, pic: Any) -> Tensor:
        """Convert one image."""
        return F.to_tensor(pic)


class PILToTensor(Shown):
    """Make a tensor of a PIL image; values stay."""

    def __call__(self, pic: Any) -> Tensor:
        """Convert one image."""
        return F.pil_to_tensor(pic)


class ToPILImage(Shown):
    """Make a PIL image of a tensor or an array; see `functional.to_pil_image`."""

    _shown = ("mode",)

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        """Convert one image."""
        return F.to_pil_image(pic, self.mode)


class ConvertImageDtype(Shown, nn.Module):
    """Change dtype and scale values; see `functional.convert_image_dtype`."""

    _shown = ("dtype",)

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        """Convert one image.

        Raises:
            TypeError: `image` is no tensor.
        """
        if not isinstance(image, Tensor):
            raise TypeError(f"img is a {type(image).__name__}, expected a tensor; use PILToTensor first.")
        return F.convert_image_dtype(image, self.dtype)


class Normalize(Shown, nn.Module):
    """Subtract a mean and divide by a standard deviation, channel by channel; see `functional.normalize`."""

    _shown = ("mean", "std")

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Tensor) -> Tensor:
        """Normalize one image."""
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class LinearTransformation(Shown, nn.Module):
    """Subtract a vector from an image's values and multiply by a matrix; see `v2.LinearTransformation`."""

    _shown = ("transformation_matrix", "mean_vector")

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        check_linear(transformation_matrix, mean_vector)
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        """Transform one image."""
        return linear(tensor, self.transformation_matrix, self.mean_vector)


class Grayscale(Shown, nn.Module):
    """Turn an image gray, with 1 or 3 equal channels."""

    _shown = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        """Turn one image gray."""
        return F.rgb_to_grayscale(img, self.num_output_channels)


class RandomGrayscale(RandomlyApplied):
    """Turn an image gray with probability p, with as many channels as before."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def apply_to(self, img: Any) -> Any:
        """Turn one image gray."""
        return F.rgb_to_grayscale(img, F.get_dimensions(img)[0])


class ColorJitter(Shown, nn.Module):
    """Change brightness, contrast, saturation and hue in random order; arguments as `v2.ColorJitter`."""

    _shown = ("brightness", "contrast", "saturation", "hue")
    get_params = staticmethod(_random_parameters.jitter)

    def __init__(self, brightness: Limits = 0, contrast: Limits = 0, saturation: Limits = 0, hue: Limits = 0) -> None:
        super().__init__()
        self.brightness = _random_parameters.color_range(brightness, "brightness")
        self.contrast = _random_parameters.color_range(contrast, "contrast")
        self.saturation = _random_parameters.color_range(saturation, "saturation")
        self.hue = _random_parameters.color_range(hue, "hue", center=0, bound=(-0.5, 0.5), clip_first_on_zero=False)

    def forward(self, img: Any) -> Any:
        """Change the colours of one image."""
        order, *factors = _random_parameters.jitter(self.brightness, self.contrast, self.saturation, self.hue)
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for index in order.tolist():
            factor = factors[index]
            if factor is not None:
                img = changes[index](img, factor)
        return img


class GaussianBlur(Shown, nn.Module):
    """Blur with a Gaussian of random width; arguments as `v2.GaussianBlur`."""

    _shown = ("kernel_size", "sigma")
    get_params = staticmethod(_random_parameters.blur_sigma)

    def __init__(self, kernel_size: int | Sequence[int], sigma: Limits = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = setup_size(kernel_size)
        if any(size <= 0 or size % 2 == 0 for size in self.kernel_size):
            raise ValueError(f"kernel_size is {kernel_size}, expected odd positive numbers.")
        self.sigma = setup_pair(sigma, "sigma")
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(f"sigma is {sigma}, expected 0 < sigma[0] <= sigma[1].")

    def forward(self, img: Any) -> Any:
        """Blur one image."""
        sigma = _random_parameters.blur_sigma(*self.sigma)
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])


class RandomInvert(RandomlyApplied):
    """Turn an image into its negative, with probability p."""

    def apply_to(self, img: Any) -> Any:
        """Invert one image."""
        return F.invert(img)


class RandomPosterize(RandomlyApplied):
    """Keep the highest bits of each value only, with probability p."""

    _shown = ("bits", "p")

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def apply_to(self, img: Any) -> Any:
        """Posterize one image."""
        return F.posterize(img, self.bits)


class RandomSolarize(RandomlyApplied):
    """Invert the values from a threshold on, with probability p."""

    _shown = ("threshold", "p")

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def apply_to(self, img: Any) -> Any:
        """Solarize one image."""
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(RandomlyApplied):
    """Sharpen (factor above 1) or blur (below), with probability p."""

    _shown = ("sharpness_factor", "p")

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def apply_to(self, img: Any) -> Any:
        """Sharpen one image."""
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomAutocontrast(RandomlyApplied):
    """Stretch each channel to the full range, with probability p."""

    def apply_to(self, img: Any) -> Any:
        """Stretch the channels of one image."""
        return F.autocontrast(img)


class RandomEqualize(RandomlyApplied):
    """Make all values of a channel equally frequent, with probability p."""

    def apply_to(self, img: Any) -> Any:
        """Equalize one image."""
        return F.equalize(img)


class RandomErasing(RandomlyApplied):
    """Erase a rectangle of a tensor, with probability p; arguments as `v2.RandomErasing`."""

    _shown = ("p", "scale", "ratio", "value", "inplace")
    get_params = staticmethod(_random_parameters.erased_region)

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p)
        if not 0 <= p <= 1:
            raise ValueError(f"p is {p}, expected a probability in [0.0, 1.0].")
        self.scale, self.ratio = check_erasing(scale, ratio, value)
        self.value = value
        self.inplace = inplace

    def apply_to(self, img: Any) -> Any:
        """Erase a rectangle of one image."""
        values = None if isinstance(self.value, str) else erased_values(self.value)
        if values is not None and len(values) not in (1, img.shape[-3]):
            raise ValueError(
                f"value has {len(values)} numbers, expected one, or one for each of {img.shape[-3]} channels."
            )
        return F.erase(img, *_random_parameters.erased_region(img, self.scale, self.ratio, values), self.inplace)
