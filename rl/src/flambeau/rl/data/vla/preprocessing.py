"""Images as OpenVLA reads them."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

__all__ = ["OpenVLAImagePreprocessor"]

_CROPPED_SIDE = math.sqrt(0.9)
_LOBES = 3
_BACKENDS = ("torchvision", "torch_reference", "pil", "tensorflow")


class OpenVLAImagePreprocessor:
    """Images as JPEG and back, resized to a square, and the middle nine tenths of that if wanted.

    OpenVLA was trained on images that had been stored as JPEG, and resized by TensorFlow; "torch_reference" does the
    same without TensorFlow, "tensorflow" with it. "torchvision" and "pil" resize first, by cubic splines in torch and
    by Lanczos' window in Pillow, which is faster and not quite the same.

    Args:
        size: side of the result in pixels.
        jpeg_quality: 1 to 100.
        center_crop: cut out the middle with 0.9 of the area, and enlarge it.
        backend: as said above.
        mean: of each channel in [0, 1], subtracted; several lists give as many normalised images, one behind the other
            in the dimension of channels.
        std: likewise, divided by.

    Raises:
        ValueError: there is no such backend, or one of `mean` and `std` is missing.
        ImportError: when it is called: Pillow or TensorFlow is not installed.

    Example:
        >>> prepare = OpenVLAImagePreprocessor(size=8, backend="torchvision")
        >>> prepare(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
        torch.Size([2, 3, 8, 8])

    References:
        M. J. Kim et al., OpenVLA: An Open-Source Vision-Language-Action Model, arXiv:2406.09246.
    """

    def __init__(
        self, *, size: int = 224, jpeg_quality: int = 95, center_crop: bool = False,
        backend: Literal["torchvision", "torch_reference", "pil", "tensorflow"] = "torch_reference",
        mean: Tensor | Sequence[Any] | None = None, std: Tensor | Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        if backend not in _BACKENDS:
            raise ValueError(f"OpenVLAImagePreprocessor: backend is {backend!r}, expected one of {_BACKENDS}.")
        if (mean is None) != (std is None):
            raise ValueError("OpenVLAImagePreprocessor: mean and std are given together, or neither is.")
        self.size = size
        self.jpeg_quality = jpeg_quality
        self.center_crop = center_crop
        self.backend = backend
        self.mean = None if mean is None else torch.as_tensor(mean, dtype=torch.float32)
        self.std = None if std is None else torch.as_tensor(std, dtype=torch.float32)

    def __call__(self, images: Tensor) -> Tensor:
        """Prepare images.

        Args:
            images: (*batch, channels, height, width), uint8; or floating-point in [0, 1], or in [0, 255] where one is
                above 1.

        Returns:
            (*batch, channels, size, size), uint8; float32 with `mean` and `std`.
        """
        batch = images.shape[:-3]
        made = getattr(self, f"_{self.backend}")(_bytes(images).reshape(-1, *images.shape[-3:]))
        return self._normalised(made).unflatten(0, batch) if batch else self._normalised(made)[0]

    def _normalised(self, images: Tensor) -> Tensor:
        if self.mean is None or self.std is None:
            return images
        scaled = images.float() / 255
        mean, std = (one.to(images.device).reshape(-1, images.shape[-3], 1, 1) for one in (self.mean, self.std))
        return torch.cat([(scaled - centre) / spread for centre, spread in zip(mean, std, strict=True)], -3)

    # The ways of doing it, each from and to (N, channels, height, width), uint8

    def _torchvision(self, images: Tensor) -> Tensor:
        return self._cropped_cubic(_stored(_cubic(images, self.size), self.jpeg_quality))

    def _cropped_cubic(self, images: Tensor) -> Tensor:
        if not self.center_crop:
            return images
        side = round(self.size * _CROPPED_SIDE)
        first = (self.size - side) // 2
        return _cubic(images[..., first : first + side, first : first + side], self.size)

    def _pil(self, images: Tensor) -> Tensor:
        image = importlib.import_module("PIL.Image")
        made = []
        for one in images:
            picture = image.fromarray(one.permute(1, 2, 0).cpu().numpy())
            picture = picture.resize((self.size, self.size), image.Resampling.LANCZOS)
            stored = _through_jpeg(torch.from_numpy(np.array(picture)).permute(2, 0, 1), self.jpeg_quality)
            picture = image.fromarray(stored.permute(1, 2, 0).numpy())
            if self.center_crop:
                side = round(self.size * _CROPPED_SIDE)
                first = (self.size - side) // 2
                picture = picture.crop((first, first, first + side, first + side))
                picture = picture.resize((self.size, self.size), image.Resampling.LANCZOS)
            made.append(torch.from_numpy(np.array(picture)).permute(2, 0, 1))
        return torch.stack(made).to(images.device)

    def _torch_reference(self, images: Tensor) -> Tensor:
        stored = _stored(images, self.jpeg_quality)
        height, width = images.shape[-2:]
        rows, columns = (_lanczos(length, self.size).to(images.device) for length in (height, width))
        resized = (rows @ stored.float() @ columns.mT).round().clamp(0, 255)
        if self.center_crop:
            middle = _middle(self.size).to(images.device)
            # TensorFlow makes bytes of floats in [0, 1] by 255.5 times them, rounded down.
            resized = ((middle @ (resized / 255) @ middle.mT).clamp(0, 1) * 255.5).clamp(max=255)
        return resized.to(torch.uint8)

    def _tensorflow(self, images: Tensor) -> Tensor:
        tf = importlib.import_module("tensorflow")
        size = (self.size, self.size)
        made = []
        for one in images:
            stored = tf.io.encode_jpeg(one.permute(1, 2, 0).cpu().numpy(), quality=self.jpeg_quality)
            image = tf.io.decode_image(stored, expand_animations=False, dtype=tf.uint8)
            image = tf.image.resize(image, size, method="lanczos3", antialias=True)
            image = tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)
            if self.center_crop:
                near = (1 - _CROPPED_SIDE) / 2
                whole = tf.image.convert_image_dtype(image, tf.float32)[None]
                cut = tf.image.crop_and_resize(whole, [[near, near, 1 - near, 1 - near]], [0], size)
                image = tf.image.convert_image_dtype(tf.clip_by_value(cut[0], 0, 1), tf.uint8, saturate=True)
            made.append(torch.from_numpy(image.numpy()).permute(2, 0, 1))
        return torch.stack(made).to(images.device)


def _bytes(images: Tensor) -> Tensor:
    if images.dtype is torch.uint8:
        return images
    if images.is_floating_point() and images.numel() and images.max() <= 1:
        images = images * 255
    return images.round().clamp(0, 255).to(torch.uint8) if images.is_floating_point() else images.clamp(0, 255).byte()


def _cubic(images: Tensor, size: int) -> Tensor:
    resized = interpolate(images.float(), (size, size), mode="bicubic", align_corners=False, antialias=True)
    return resized.round().clamp(0, 255).to(torch.uint8)


def _stored(images: Tensor, quality: int) -> Tensor:
    return torch.stack([_through_jpeg(one, quality) for one in images])


def _through_jpeg(image: Tensor, quality: int) -> Tensor:
    """An image as JPEG, and back: what is lost is lost."""
    try:
        pictures = importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ImportError(
            "OpenVLAImagePreprocessor stores images as JPEG with Pillow. Run: pip install pillow"
        ) from error
    file = io.BytesIO()
    pictures.fromarray(image.permute(1, 2, 0).cpu().numpy()).save(file, "JPEG", quality=quality)
    return torch.from_numpy(np.array(pictures.open(file))).permute(2, 0, 1).to(image.device)


def _lanczos(length: int, size: int) -> Tensor:
    """Weights of all pixels for each resized one, (size, length): Lanczos' window, wider when it is to reduce."""
    step = length / size
    spread = max(step, 1.0)
    centre = (torch.arange(size, dtype=torch.float32) + 0.5) * step
    away = (torch.arange(length, dtype=torch.float32) + 0.5 - centre[:, None]) / spread
    weights = torch.where(away.abs() <= _LOBES, torch.sinc(away) * torch.sinc(away / _LOBES), 0.0)
    return weights / weights.sum(1, keepdim=True)


def _middle(size: int) -> Tensor:
    """Weights of all pixels for each of the enlarged middle, (size, size), linear between neighbours."""
    first = (1 - _CROPPED_SIDE) / 2 * (size - 1)
    step = _CROPPED_SIDE if size > 1 else 0.0
    place = first + torch.arange(size, dtype=torch.float32) * step
    return (1 - (torch.arange(size, dtype=torch.float32) - place[:, None]).abs()).clamp_min(0)
