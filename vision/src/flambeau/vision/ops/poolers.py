"""Pooling of regions from a feature pyramid: large boxes from coarse levels, small ones from fine levels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, fx, nn

from flambeau.vision.ops.boxes import box_area
from flambeau.vision.ops.roi_align import roi_align

__all__ = ["LevelMapper", "MultiScaleRoIAlign", "initLevelMapper"]

_FINEST, _COARSEST = -4, 16  # levels of maps: of 16 times the image's size, of 1 / 65536 of it


class LevelMapper:
    """Chooses the level of a pyramid for each box, by its size.

    `level = floor(canonical_level + log2(sqrt(area) / canonical_scale) + eps)`, kept within the levels there are
    (Lin et al. 2016, arXiv:1612.03144, equation 1).

    Args:
        k_min: finest level; level k has a stride of 2**k.
        k_max: coarsest level.
        canonical_scale: side of a box that goes to `canonical_level`, in pixels.
        canonical_level: see there.
        eps: keeps boxes of exactly a level's size from falling below it.
    """

    def __init__(
        self, k_min: int, k_max: int, canonical_scale: int = 224, canonical_level: int = 4, eps: float = 1e-6
    ) -> None:
        self.k_min = k_min
        self.k_max = k_max
        self.s0 = canonical_scale
        self.lvl0 = canonical_level
        self.eps = eps

    def __call__(self, boxlists: list[Tensor]) -> Tensor:
        """Levels, counted from `k_min`, as (sum of the N_i,) int64, of boxes [(N_i, 4), ...]."""
        side = torch.cat([box_area(boxes) for boxes in boxlists]).sqrt()
        level = torch.floor(self.lvl0 + torch.log2(side / self.s0) + self.eps)
        return level.clamp(min=self.k_min, max=self.k_max).to(torch.int64) - self.k_min


def initLevelMapper(
    k_min: int, k_max: int, canonical_scale: int = 224, canonical_level: int = 4, eps: float = 1e-6
) -> LevelMapper:
    """A `LevelMapper` with these arguments. Upstream: the name."""
    return LevelMapper(k_min, k_max, canonical_scale, canonical_level, eps)


class MultiScaleRoIAlign(nn.Module):
    """`roi_align` from the level of a pyramid that fits each box's size.

    Strides of the levels are inferred from the maps and the largest image, and are powers of two.

    Args:
        featmap_names: the levels to use, finest first.
        output_size: height and width of the result, or one number for both.
        sampling_ratio: samples per bin and direction; 0 or less adapts it to the box.
        canonical_scale: see `LevelMapper`.
        canonical_level: see `LevelMapper`.

    Shape:
        Maps {name: (N, C, H_i, W_i)}, boxes of each image [(K_i, 4), ...] and image sizes [(height, width), ...]
        -> (sum of the K_i, C, *output_size). Boxes are in pixels of the images.

    Raises:
        ValueError: there are no images, or no map has one of the names.
    """

    def __init__(
        self,
        featmap_names: list[str],
        output_size: int | tuple[int, ...] | list[int],
        sampling_ratio: int,
        *,
        canonical_scale: int = 224,
        canonical_level: int = 4,
    ) -> None:
        super().__init__()
        size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.featmap_names = featmap_names
        self.output_size = size
        self.sampling_ratio = sampling_ratio
        self.canonical_scale = canonical_scale
        self.canonical_level = canonical_level

    def forward(self, x: dict[str, Tensor], boxes: list[Tensor], image_shapes: list[tuple[int, int]]) -> Tensor:
        """Pool every box from its level, in the order of the boxes."""
        return _multi_scale_roi_align(
            x,
            boxes,
            image_shapes,
            self.featmap_names,
            self.output_size,
            self.sampling_ratio,
            self.canonical_scale,
            self.canonical_level,
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(featmap_names={self.featmap_names}, output_size={self.output_size}, "
            f"sampling_ratio={self.sampling_ratio})"
        )


@fx.wrap  # it looks at which maps there are, and at sizes
def _multi_scale_roi_align(
    x: dict[str, Tensor],
    boxes: list[Tensor],
    image_shapes: list[tuple[int, int]],
    names: list[str],
    output_size: tuple[int, ...],
    sampling_ratio: int,
    canonical_scale: int,
    canonical_level: int,
) -> Tensor:
    maps = [x[name] for name in names if name in x]
    if not maps:
        raise ValueError(f"MultiScaleRoIAlign: the maps are {list(x)}, expected some of {names}.")
    if not image_shapes:
        raise ValueError("MultiScaleRoIAlign: image_shapes is empty, expected (height, width) of each image.")
    strides = [_level(features, image_shapes) for features in maps]
    scales = [2.0**-k for k in strides]
    rois = _with_image_index(boxes)
    if len(maps) == 1:
        return roi_align(maps[0], rois, output_size, scales[0], sampling_ratio)
    levels = LevelMapper(strides[0], strides[-1], canonical_scale, canonical_level)(boxes)
    pooled, order = [], []
    for level, (features, scale) in enumerate(zip(maps, scales, strict=True)):
        chosen = torch.where(levels == level)[0]
        pooled.append(roi_align(features, rois[chosen], output_size, scale, sampling_ratio))
        order.append(chosen)
    # Autocast may pool one level in another dtype than the rest; concatenation promotes.
    return torch.cat(pooled)[torch.argsort(torch.cat(order))]


def _level(features: Tensor, image_shapes: Sequence[tuple[int, int]]) -> int:
    """The k for which a map has nearest to 1 / 2**k of the height of the largest image."""
    tallest = max(height for height, _ in image_shapes)
    # By comparison and not by logarithm: sizes may be symbolic.
    for k in range(_FINEST, _COARSEST):
        if features.shape[-2] * 2 ** (k + 0.5) >= tallest:
            return k
    return _COARSEST


def _with_image_index(boxes: list[Tensor]) -> Tensor:
    """Boxes of all images as rows (image, x1, y1, x2, y2)."""
    rows = [torch.cat([torch.full_like(each[:, :1], index), each], 1) for index, each in enumerate(boxes)]
    return torch.cat(rows)
