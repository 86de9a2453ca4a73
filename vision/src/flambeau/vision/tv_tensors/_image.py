"""Images."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from flambeau.core.tensors import tensor_type
from flambeau.vision.tv_tensors._tv_tensor import TVTensor, tensor_of


@tensor_type(name="image", shape="... C H W", plot="flambeau.vision.tv_tensors._show:image_html")
class Image(TVTensor):
    """An image, or a batch of images of one size.

    Args:
        data: [..., C, H, W], or [H, W], which becomes one channel: a tensor, whose memory is shared, anything else
            that `torch.as_tensor` takes, or a PIL image.
        dtype: of the result; None keeps that of `data`.
        device: of the result; None keeps that of `data`.
        requires_grad: None keeps that of `data`.

    Raises:
        ValueError: fewer than two dimensions.

    Example:
        >>> Image(torch.zeros(8, 8, dtype=torch.uint8))
        Image (1, 8, 8) uint8 cpu
    """

    def __new__(
        cls,
        data: Any,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | int | None = None,
        requires_grad: bool | None = None,
        **metadata: Any,
    ) -> Self:
        """Make an image; the class says what the arguments mean."""
        return super().__new__(
            cls, _channels(tensor_of(data)), dtype=dtype, device=device, requires_grad=requires_grad, **metadata
        )


def _channels(image: Tensor) -> Tensor:
    if image.ndim < 2:
        raise ValueError(
            f"Image: the shape {tuple(image.shape)} has no height and width; give [..., C, H, W] or [H, W]."
        )
    return image.unsqueeze(0) if image.ndim == 2 else image
