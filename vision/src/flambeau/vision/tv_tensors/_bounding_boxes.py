"""Bounding boxes, their formats, and what is done with those that leave the picture."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, Self

import torch
from torch import Tensor

from flambeau.core.errors import UnknownNameError
from flambeau.core.tensors import Field, tensor_type
from flambeau.vision.tv_tensors._tv_tensor import TVTensor, size_of_canvas

CLAMPING_MODE_TYPE = Literal["soft", "hard"] | None
_CLAMPING_MODES = (None, "soft", "hard")


class BoundingBoxFormat(Enum):
    """What the numbers of a box are, in pixels; angles r in degrees, counter-clockwise as seen on the screen.

    ============  ====================================================================================
    `XYXY`        left, top, right, bottom
    `XYWH`        left, top, width, height
    `CXCYWH`      centre, width, height
    `XYWHR`       corner that is top left at r = 0, width, height, r
    `CXCYWHR`     centre, width, height, r
    `XYXYXYXY`    corners: top left, top right, bottom right, bottom left at r = 0
    ============  ====================================================================================
    """

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"
    XYWHR = "XYWHR"
    CXCYWHR = "CXCYWHR"
    XYXYXYXY = "XYXYXYXY"


_ROTATED = (BoundingBoxFormat.XYWHR, BoundingBoxFormat.CXCYWHR, BoundingBoxFormat.XYXYXYXY)


def bounding_box_format(value: Any) -> BoundingBoxFormat:
    """The format that a member or its name, in capitals or not, stands for.

    Raises:
        UnknownNameError: it stands for none (a KeyError and a ValueError).
    """
    if isinstance(value, BoundingBoxFormat):
        return value
    found = BoundingBoxFormat.__members__.get(value.upper()) if isinstance(value, str) else None
    if found is None:
        names = ", ".join(BoundingBoxFormat.__members__)
        raise UnknownNameError(f"No bounding box format {value!r}, expected a BoundingBoxFormat or one of {names}.")
    return found


def is_rotated_bounding_format(format: BoundingBoxFormat | str) -> bool:
    """Whether boxes of a format have an angle.

    Raises:
        UnknownNameError: there is no such format.
    """
    return bounding_box_format(format) in _ROTATED


def _known_mode(mode: str | None) -> bool:
    """None, "soft" or "hard"."""
    return mode in _CLAMPING_MODES


@tensor_type(
    name="bounding-boxes",
    fields={
        "format": BoundingBoxFormat,
        "canvas_size": tuple[int, int],
        "clamping_mode": Field(str | None, default="soft", validator=_known_mode),
    },
    shape="N K",
    batch="list",
)
class BoundingBoxes(TVTensor):
    """The bounding boxes of the objects in one picture.

    Args:
        data: [N, K], K = 4 numbers, 5 with an angle, 8 for four corners; [K] becomes one box. A tensor, whose memory
            is shared, or anything else that `torch.as_tensor` takes.
        format: a `BoundingBoxFormat` or its name.
        canvas_size: (height, width) of the picture.
        clamping_mode: what transforms do with boxes that leave the picture. "soft": cut off what is outside, but let
            corners of rotated boxes stay outside; "hard": no corner stays outside; None: nothing. For boxes without
            an angle soft and hard are the same.
        dtype: of the result; None keeps that of `data`. Formats with an angle need floating point.
        device: of the result; None keeps that of `data`.
        requires_grad: None keeps that of `data`.

    Raises:
        ValueError: another number of dimensions, an unknown format or clamping mode, or integers in a format with an
            angle.

    Example:
        >>> BoundingBoxes([[0.0, 0.0, 5.0, 5.0]], format="XYXY", canvas_size=(10, 10)).canvas_size
        (10, 10)
    """

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    clamping_mode: CLAMPING_MODE_TYPE

    def __new__(
        cls,
        data: Any,
        *,
        format: BoundingBoxFormat | str,
        canvas_size: tuple[int, int],
        clamping_mode: CLAMPING_MODE_TYPE = "soft",
        dtype: torch.dtype | None = None,
        device: torch.device | str | int | None = None,
        requires_grad: bool | None = None,
        **metadata: Any,
    ) -> Self:
        """Make boxes; the class says what the arguments mean."""
        chosen = bounding_box_format(format)
        boxes = _rows(data if isinstance(data, Tensor) else torch.as_tensor(data, dtype=dtype))
        if chosen in _ROTATED and not (dtype or boxes.dtype).is_floating_point:
            raise ValueError(
                f"BoundingBoxes: {dtype or boxes.dtype} cannot hold the angles of {chosen.name}; use floating point, "
                "for instance dtype=torch.float32."
            )
        return super().__new__(
            cls,
            boxes,
            dtype=dtype,
            device=device,
            requires_grad=requires_grad,
            format=chosen,
            canvas_size=size_of_canvas("BoundingBoxes", canvas_size),
            clamping_mode=clamping_mode,
            **metadata,
        )

    @classmethod
    def wrap(cls, tensor: Tensor, like: TVTensor, **kwargs: Any) -> TVTensor:
        """Give a tensor the type and metadata of `like`; `kwargs` may change format, canvas size and clamping mode."""
        if "format" in kwargs:
            kwargs["format"] = bounding_box_format(kwargs["format"])
        if "canvas_size" in kwargs:
            kwargs["canvas_size"] = size_of_canvas("BoundingBoxes", kwargs["canvas_size"])
        return super().wrap(tensor, like, **kwargs)


def _rows(boxes: Tensor) -> Tensor:
    if boxes.ndim == 1:
        return boxes.unsqueeze(0)
    if boxes.ndim != 2:
        raise ValueError(f"BoundingBoxes: the shape is {tuple(boxes.shape)}, expected one box [K] or N boxes [N, K].")
    return boxes
