"""Key points."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from flambeau.core.tensors import tensor_type
from flambeau.vision.tv_tensors._tv_tensor import TVTensor, size_of_canvas


@tensor_type(name="key-points", fields={"canvas_size": tuple[int, int]}, shape="... 2", batch="list")
class KeyPoints(TVTensor):
    """Points in one picture, such as joints of a body or corners of an outline.

    Args:
        data: [..., 2], x to the right and y downwards, in pixels; (0, 0) is the centre of the first pixel. [2] becomes
            one point. A tensor, whose memory is shared, or anything else that `torch.as_tensor` takes.
        canvas_size: (height, width) of the picture.
        dtype: of the result; None keeps that of `data`.
        device: of the result; None keeps that of `data`.
        requires_grad: None keeps that of `data`.

    Raises:
        ValueError: the last dimension is not 2.

    Example:
        >>> KeyPoints([[3.0, 4.0]], canvas_size=(10, 10)).canvas_size
        (10, 10)
    """

    canvas_size: tuple[int, int]

    def __new__(
        cls,
        data: Any,
        *,
        canvas_size: tuple[int, int],
        dtype: torch.dtype | None = None,
        device: torch.device | str | int | None = None,
        requires_grad: bool | None = None,
        **metadata: Any,
    ) -> Self:
        """Make key points; the class says what the arguments mean."""
        points = data if isinstance(data, Tensor) else torch.as_tensor(data, dtype=dtype)
        if points.ndim == 0 or points.shape[-1] != 2:
            raise ValueError(f"KeyPoints: the shape is {tuple(points.shape)}, expected points [..., 2].")
        return super().__new__(
            cls,
            points.unsqueeze(0) if points.ndim == 1 else points,
            dtype=dtype,
            device=device,
            requires_grad=requires_grad,
            canvas_size=size_of_canvas("KeyPoints", canvas_size),
            **metadata,
        )

    @classmethod
    def wrap(cls, tensor: Tensor, like: TVTensor, **kwargs: Any) -> TVTensor:
        """Give a tensor the type and metadata of `like`; `kwargs` may change the canvas size."""
        if "canvas_size" in kwargs:
            kwargs["canvas_size"] = size_of_canvas("KeyPoints", kwargs["canvas_size"])
        return super().wrap(tensor, like, **kwargs)
