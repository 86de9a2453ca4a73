"""Pictures folded with a row and a column, and normalized, in one pass over each row.

The native kernels are in `native/blur.cpp`; whether they serve, `_color.serves` says.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY


def blur(image: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Fold pictures with a column of weights, then with a row; outside, the picture is its mirror image.

    Args:
        image: (N, C, H, W), uint8 or float32; sides longer than half of the weights.
        row: (K,), float32, K odd.
        column: likewise.

    Returns:
        Same shape and dtype, uint8 rounded; channels last where those of `image` are.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    return torch.ops.flambeau_vision._blur(image, row, column)  # type: ignore[no-any-return]


def normalize(image: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(image - mean) / std, channel by channel.

    Args:
        image: (N, C, H, W), float32.
        mean: (C,), float32.
        std: likewise.

    Returns:
        Same shape; channels last where those of `image` are.

    Raises:
        RuntimeError: other shapes or dtypes.
    """
    return torch.ops.flambeau_vision._normalize(image, mean, std)  # type: ignore[no-any-return]


def _check_blur(image: Tensor, row: Tensor, column: Tensor) -> None:
    """The same sentences as `blur` in native/blur.cpp."""
    if image.dim() != 4:
        raise RuntimeError(f"_blur: image has shape {tuple(image.shape)}, expected (N, C, H, W).")
    if image.dtype not in (torch.uint8, torch.float32):
        raise RuntimeError(f"_blur: image has dtype {image.dtype}, expected torch.uint8 or torch.float32; convert it.")
    if any(each.dim() != 1 or each.shape[0] % 2 == 0 or each.dtype != torch.float32 for each in (row, column)):
        raise RuntimeError("_blur: row and column have to be float32, one-dimensional and of odd length.")


def _check_normalize(image: Tensor, mean: Tensor, std: Tensor) -> None:
    """The same sentences as `normalize` in native/blur.cpp."""
    if image.dim() != 4:
        raise RuntimeError(f"_normalize: image has shape {tuple(image.shape)}, expected (N, C, H, W).")
    for each in (image, mean, std):
        if each.dtype != torch.float32:
            raise RuntimeError(f"_normalize: a tensor has dtype {each.dtype}, expected torch.float32; convert it.")
    if any(each.shape != image.shape[1:2] for each in (mean, std)):
        raise RuntimeError(f"_normalize: mean and std have to be of shape ({image.shape[1]},), one for each channel.")


def _like(image: Tensor) -> Tensor:
    last = image.is_contiguous(memory_format=torch.channels_last) and not image.is_contiguous()
    return torch.empty_like(image, memory_format=torch.channels_last if last else torch.contiguous_format)


def _fake_blur(image: Tensor, row: Tensor, column: Tensor) -> Tensor:
    _check_blur(image, row, column)
    return _like(image)


def _fake_normalize(image: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    _check_normalize(image, mean, std)
    return _like(image)


def _reference_blur(image: Tensor, row: Tensor, column: Tensor) -> Tensor:
    _check_blur(image, row, column)
    out = _like(image)
    if image.numel():
        aside, above = row.shape[0] // 2, column.shape[0] // 2
        values = pad(image.float(), (aside, aside, above, above), mode="reflect").flatten(0, 1)[:, None]
        values = conv2d(conv2d(values, column.view(1, 1, -1, 1)), row.view(1, 1, 1, -1)).reshape(image.shape)
        out.copy_(values if image.is_floating_point() else values.round().clamp(0, 255))
    return out


def _reference_normalize(image: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    _check_normalize(image, mean, std)
    return _like(image).copy_((image - mean.view(-1, 1, 1)) / std.view(-1, 1, 1))


register_op(
    "_blur(Tensor image, Tensor row, Tensor column) -> Tensor",
    library=LIBRARY,
    fake=_fake_blur,
    python=_reference_blur,
)
register_op(
    "_normalize(Tensor image, Tensor mean, Tensor std) -> Tensor",
    library=LIBRARY,
    fake=_fake_normalize,
    python=_reference_normalize,
)
