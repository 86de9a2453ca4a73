"""Points on a canvas, as a tensor type, and what transforms of pictures mean for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.tensors import TypedTensor, register_kernel, tensor_type
from torch import Tensor

__all__ = ["Points", "center_crop_points"]


@tensor_type(name="points", fields={"canvas_size": tuple[int, int]}, shape="... 2", dtypes="floating", index="keep")
class Points(TypedTensor):
    """Points x, y on a canvas such as a picture.

    Args:
        data: (..., 2), floating point, in pixels.
        canvas_size: height and width of the canvas in pixels.
    """

    canvas_size: tuple[int, int]


# The functional belongs to another plugin, which need not be installed: it is named and not imported.
@register_kernel("flambeau.vision.transforms.v2.functional:center_crop", Points)
def center_crop_points(
    points: Tensor, output_size: Sequence[int] | int, *, canvas_size: tuple[int, int]
) -> tuple[Tensor, dict[str, Any]]:
    """Move points as cropping the middle of the canvas moves what is on it.

    Args:
        points: (..., 2).
        output_size: height and width of what remains, or one number for both.
        canvas_size: height and width of the canvas before.

    Returns:
        The moved points, which may lie outside of the new canvas, and the metadata that changes.
    """
    sizes = [output_size] if isinstance(output_size, int) else list(output_size)
    height, width = sizes[0], sizes[-1]
    top = round((canvas_size[0] - height) / 2)
    left = round((canvas_size[1] - width) / 2)
    return points - points.new_tensor([left, top]), {"canvas_size": (height, width)}
