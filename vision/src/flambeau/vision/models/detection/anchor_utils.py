"""Boxes from which detectors start: one set at every position of every feature map.

References:
    Ren et al. 2015, Faster R-CNN, arXiv:1506.01497, section 3.1.1; Liu et al. 2015, SSD, arXiv:1512.02325, section 2.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.vision.models.detection.image_list import ImageList

__all__ = ["AnchorGenerator", "DefaultBoxGenerator"]

Sizes = Sequence[Sequence[float]]


class AnchorGenerator(nn.Module):
    """Anchors of given sizes and aspect ratios, centred on the corners of a map's cells.

    Args:
        sizes: for every map the anchors' sizes, square roots of their areas in pixels of the image; a flat sequence
            gives each map one size.
        aspect_ratios: for every map the ratios height / width; a flat sequence is used for all maps.

    Shape:
        An `ImageList` (N, C, H, W) and maps (N, C_i, H_i, W_i) -> N times the same (K, 4) xyxy, in the order map, row,
        column, ratio, size.
    """

    def __init__(
        self,
        sizes: Sizes | Sequence[float] = ((128, 256, 512),),
        aspect_ratios: Sizes | Sequence[float] = ((0.5, 1.0, 2.0),),
    ) -> None:
        super().__init__()
        per_map: Any = sizes if isinstance(sizes[0], (list, tuple)) else tuple((size,) for size in sizes)
        ratios: Any = aspect_ratios if isinstance(aspect_ratios[0], (list, tuple)) else (aspect_ratios,) * len(per_map)
        self.sizes: Sizes = per_map
        self.aspect_ratios: Sizes = ratios
        pairs = zip(self.sizes, self.aspect_ratios, strict=True)
        self.cell_anchors = [self.generate_anchors(size, ratio) for size, ratio in pairs]

    def generate_anchors(
        self,
        scales: list[int],
        aspect_ratios: list[float],
        dtype: torch.dtype = torch.float32,
        device: torch.device = torch.device("cpu"),  # noqa: B008  # a constant, and upstream's signature
    ) -> Tensor:
        """Anchors (ratios * scales, 4) around the origin, rounded to whole pixels."""
        # The device is explicit: anchors have values under `torch.device("meta")` too.
        sizes = torch.as_tensor(scales, dtype=dtype, device=device)
        tall = torch.as_tensor(aspect_ratios, dtype=dtype, device=device).sqrt()[:, None]
        heights, widths = (tall * sizes).flatten(), (1 / tall * sizes).flatten()
        return (torch.stack([-widths, -heights, widths, heights], 1) / 2).round()

    def set_cell_anchors(self, dtype: torch.dtype, device: torch.device) -> None:
        """Convert the anchors around the origin."""
        self.cell_anchors = [anchors.to(dtype=dtype, device=device) for anchors in self.cell_anchors]

    def num_anchors_per_location(self) -> list[int]:
        """How many anchors each position of each map has."""
        return [len(size) * len(ratio) for size, ratio in zip(self.sizes, self.aspect_ratios, strict=True)]

    def grid_anchors(self, grid_sizes: list[list[int]], strides: list[list[Tensor]]) -> list[Tensor]:
        """Anchors at every position.

        Args:
            grid_sizes: [height, width] of every map.
            strides: [vertical, horizontal] distance of positions, in pixels of the image, numbers or tensors.

        Returns:
            For every map (height * width * anchors per location, 4).

        Raises:
            ValueError: there are not as many maps as sets of anchors.
        """
        if not len(grid_sizes) == len(strides) == len(self.cell_anchors):
            raise ValueError(
                f"AnchorGenerator has sizes for {len(self.cell_anchors)} maps and was given {len(grid_sizes)} maps and "
                f"{len(strides)} strides; give `sizes` and `aspect_ratios` one entry for each map."
            )
        grids = zip(grid_sizes, strides, self.cell_anchors, strict=True)
        return [_on_grid(size, stride, anchors) for size, stride, anchors in grids]

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        """Anchors of all maps, for every picture."""
        height, width = image_list.tensors.shape[-2:]
        dtype, device = feature_maps[0].dtype, feature_maps[0].device
        if any(anchors.dtype != dtype or anchors.device != device for anchors in self.cell_anchors):
            self.set_cell_anchors(dtype, device)
        sizes = [list(features.shape[-2:]) for features in feature_maps]
        strides: Any = [[height // rows, width // columns] for rows, columns in sizes]
        anchors = torch.cat(self.grid_anchors(sizes, strides))
        return [anchors for _ in image_list.image_sizes]


def _on_grid(size: Sequence[int], stride: Sequence[Any], anchors: Tensor) -> Tensor:
    def positions(count: int, step: Any) -> Tensor:
        steps: Tensor = torch.arange(count, dtype=torch.int32, device=anchors.device) * step
        return steps

    y, x = torch.meshgrid(positions(size[0], stride[0]), positions(size[1], stride[1]), indexing="ij")
    shifts = torch.stack([x, y, x, y], -1).reshape(-1, 1, 4)
    return (shifts + anchors).reshape(-1, 4)


class DefaultBoxGenerator(nn.Module):
    """Default boxes of SSD, centred on a map's cells.

    Args:
        aspect_ratios: for every map the ratios besides 1; each is used as it is and inverted.
        min_ratio: scale of the boxes of the first map, as a part of the image's size.
        max_ratio: scale of the boxes of the last map; those between are spaced evenly.
        scales: the scales of all maps and one more, in place of `min_ratio` and `max_ratio`.
        steps: distance of positions in pixels of the image, for every map; None divides the image evenly.
        clip: limit widths and heights to the image's.

    Shape:
        An `ImageList` (N, C, H, W) and maps (N, C_i, H_i, W_i) -> N times the same (K, 4) xyxy, in pixels.

    Raises:
        ValueError: `steps` or `scales` have not one entry for each map (and one more).
    """

    def __init__(
        self,
        aspect_ratios: list[list[int]],
        min_ratio: float = 0.15,
        max_ratio: float = 0.9,
        scales: list[float] | None = None,
        steps: list[int] | None = None,
        clip: bool = True,
    ) -> None:
        super().__init__()
        maps = len(aspect_ratios)
        if steps is not None and len(steps) != maps:
            raise ValueError(f"steps has {len(steps)} entries, expected {maps}: one for each map of aspect_ratios.")
        if scales is not None and len(scales) != maps + 1:
            raise ValueError(f"scales has {len(scales)} entries, expected {maps + 1}: one for each map, and one more.")
        self.aspect_ratios = aspect_ratios
        self.steps = steps
        self.clip = clip
        self.scales = list(scales) if scales is not None else _even_scales(min_ratio, max_ratio, maps)
        # Plain numbers: tensors would have no values under `torch.device("meta")`.
        self._sides = [self._sides_of(index) for index in range(maps)]

    def _sides_of(self, index: int) -> list[list[float]]:
        """Widths and heights of a map's boxes, as parts of the image."""
        scale, between = self.scales[index], math.sqrt(self.scales[index] * self.scales[index + 1])
        sides = [[scale, scale], [between, between]]
        for ratio in self.aspect_ratios[index]:
            width, height = scale * math.sqrt(ratio), scale / math.sqrt(ratio)
            sides += [[width, height], [height, width]]
        return sides

    def num_anchors_per_location(self) -> list[int]:
        """How many boxes each position of each map has."""
        return [len(sides) for sides in self._sides]

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        """Boxes of all maps, for every picture."""
        height, width = image_list.tensors.shape[-2:]
        like = feature_maps[0]
        boxes = [self._on_map(index, map.shape[-2:], (height, width), like) for index, map in enumerate(feature_maps)]
        pixels = torch.cat(boxes) * like.new_tensor([width, height, width, height])
        return [pixels for _ in image_list.image_sizes]

    def _on_map(self, index: int, size: Sequence[int], image: tuple[int, int], like: Tensor) -> Tensor:
        """Boxes (H_i * W_i * number, 4), xyxy, as parts of the image."""
        rows, columns = size if self.steps is None else (side / self.steps[index] for side in image)
        y = (torch.arange(size[0], dtype=torch.float32, device=like.device) + 0.5) / rows
        x = (torch.arange(size[1], dtype=torch.float32, device=like.device) + 0.5) / columns
        y, x = torch.meshgrid(y.to(like.dtype), x.to(like.dtype), indexing="ij")
        center = torch.stack([x, y], -1).reshape(-1, 1, 2)
        sides = like.new_tensor(self._sides[index])
        half = 0.5 * (sides.clamp(min=0, max=1) if self.clip else sides)
        return torch.cat([center - half, center + half], -1).reshape(-1, 4)

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        return f"aspect_ratios={self.aspect_ratios}, clip={self.clip}, scales={self.scales}, steps={self.steps}"


def _even_scales(smallest: float, largest: float, maps: int) -> list[float]:
    if maps == 1:
        return [smallest, largest]
    return [smallest + (largest - smallest) * index / (maps - 1) for index in range(maps)] + [1.0]
