"""Masks: which pixels belong to what."""

from __future__ import annotations

from typing import Any, Self

import torch

from flambeau.core.tensors import tensor_type
from flambeau.vision.tv_tensors._tv_tensor import TVTensor, tensor_of


@tensor_type(name="mask", shape="... H W")
class Mask(TVTensor):
    """A segmentation mask (the class of each pixel), or N detection masks (whether a pixel belongs to object n).

    Args:
        data: [..., H, W] of any dtype: a tensor, whose memory is shared, anything else that `torch.as_tensor` takes,
            or a PIL image, which gives [C, H, W] with the values it holds (the indices, if it has a palette).
        dtype: of the result; None keeps that of `data`.
        device: of the result; None keeps that of `data`.
        requires_grad: None keeps that of `data`.

    Example:
        >>> Mask(torch.zeros(5, 8, 8, dtype=torch.bool))
        Mask (5, 8, 8) bool cpu
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
        """Make a mask; the class says what the arguments mean."""
        return super().__new__(
            cls, tensor_of(data), dtype=dtype, device=device, requires_grad=requires_grad, **metadata
        )
