"""Videos."""

from __future__ import annotations

from typing import Any, Self

import torch

from flambeau.core.tensors import tensor_type
from flambeau.vision.tv_tensors._tv_tensor import TVTensor, tensor_of


@tensor_type(name="video", shape="... T C H W", plot="flambeau.vision.tv_tensors._show:image_html")
class Video(TVTensor):
    """A video, or a batch of videos of one length and size.

    Args:
        data: [..., T, C, H, W], T frames: a tensor, whose memory is shared, or anything else that `torch.as_tensor`
            takes.
        dtype: of the result; None keeps that of `data`.
        device: of the result; None keeps that of `data`.
        requires_grad: None keeps that of `data`.

    Raises:
        ValueError: fewer than four dimensions.

    Example:
        >>> Video(torch.zeros(16, 3, 8, 8, dtype=torch.uint8))
        Video (16, 3, 8, 8) uint8 cpu
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
        """Make a video; the class says what the arguments mean."""
        tensor = tensor_of(data)
        if tensor.ndim < 4:
            raise ValueError(f"Video: the shape {tuple(tensor.shape)} is that of no video; give [..., T, C, H, W].")
        return super().__new__(cls, tensor, dtype=dtype, device=device, requires_grad=requires_grad, **metadata)
