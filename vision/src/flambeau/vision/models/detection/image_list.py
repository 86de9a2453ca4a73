"""A batch of pictures of different sizes, padded to one size."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ImageList"]


class ImageList:
    """Pictures in one tensor, each in the upper left of its plane, and how large each is there.

    Args:
        tensors: (N, C, H, W).
        image_sizes: (height, width) of each picture, at most (H, W).
    """

    def __init__(self, tensors: Tensor, image_sizes: list[tuple[int, int]]) -> None:
        self.tensors = tensors
        self.image_sizes = image_sizes

    def to(self, device: torch.device) -> ImageList:
        """The same on another device."""
        return ImageList(self.tensors.to(device), self.image_sizes)
