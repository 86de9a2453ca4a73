"""Where the highest value of heat maps of boxes lies, as an operator: how large a box is depends on values, so that the
loop over boxes cannot be traced. Only compiled and exported programs call the operator.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from flambeau.core.native import register_op
from flambeau.vision.ops._library import LIBRARY

_NAME = "_heatmap_peaks"


def heatmap_peaks(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """The highest position of each map, after it was enlarged to its box.

    Each map is enlarged to its box's size, in pixels rounded up, by bicubic interpolation; the middle of the highest
    pixel is the answer.

    Args:
        maps: (N, K, M, M), floating point.
        rois: (N, 4), floating point, xyxy.

    Returns:
        (N, K, 3): x, y and 1; and (N, K): the values there.

    Raises:
        RuntimeError: other shapes or dtypes, in compiled programs.
    """
    if torch.compiler.is_compiling():
        return torch.ops.flambeau_vision._heatmap_peaks(maps.detach(), rois.detach())  # type: ignore[no-any-return]
    return _peaks(maps, rois)


def _peaks(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    if maps.shape[0] == 0:
        return maps.new_zeros(0, maps.shape[1], 3), maps.new_zeros(0, maps.shape[1])
    sides = (rois[:, 2:] - rois[:, :2]).clamp(min=1)
    pixels = sides.ceil()
    points, scores = [], []
    for heat, (width, height) in zip(maps, pixels.long().tolist(), strict=True):
        enlarged = interpolate(heat[None], size=(height, width), mode="bicubic", align_corners=False)[0]
        score, position = enlarged.flatten(1).max(1)
        points.append(torch.stack([position % width, position // width], 1))
        scores.append(score)
    places = (torch.stack(points) + 0.5) * (sides / pixels)[:, None] + rois[:, None, :2]
    return torch.cat([places.to(maps.dtype), maps.new_ones(*places.shape[:2], 1)], 2), torch.stack(scores)


def _check(maps: Tensor, rois: Tensor) -> None:
    if maps.dim() != 4 or not maps.is_floating_point():
        raise RuntimeError(f"{_NAME}: maps is {maps.dtype} {tuple(maps.shape)}, expected floating point (N, K, M, M).")
    if rois.dim() != 2 or rois.shape[1] != 4 or not rois.is_floating_point():
        raise RuntimeError(f"{_NAME}: rois is {rois.dtype} {tuple(rois.shape)}, expected floating point (N, 4).")
    torch._check(
        maps.shape[0] == rois.shape[0],
        lambda: f"{_NAME}: maps are of {maps.shape[0]} boxes and rois of {rois.shape[0]}, expected as many.",
    )


def _reference(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    _check(maps, rois)
    return _peaks(maps, rois)


def _fake(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    _check(maps, rois)
    return maps.new_empty(*maps.shape[:2], 3), maps.new_empty(maps.shape[:2])


register_op(f"{_NAME}(Tensor maps, Tensor rois) -> (Tensor, Tensor)", library=LIBRARY, fake=_fake, python=_reference)
