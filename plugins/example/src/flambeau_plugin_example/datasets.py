"""Two intertwined spirals of points, computed from a formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from flambeau.core import register_dataset
from torch import Tensor
from torch.utils.data import Dataset

__all__ = ["Spirals"]

_SIZES = {"train": 2000, "test": 1000}


@register_dataset(
    "spirals",
    task="point-classification",
    sizes=_SIZES,
    schema=[
        {"key": "point", "kind": "tensor", "shape": [2], "dtype": "float32"},
        {"key": "label", "kind": "label", "classes": 2},
    ],
    license="BSD-3-Clause",
    citation="""@inproceedings{lang1988learning,
  author = {Kevin J. Lang and Michael J. Witbrock},
  title = {Learning to Tell Two Spirals Apart},
  booktitle = {Proceedings of the 1988 Connectionist Models Summer School},
  year = {1988}
}""",
    description="Points on two noisy spirals that wind round each other one and a half times.",
)
class Spirals(Dataset[tuple[Any, int]]):
    """Points on two spirals, the same ones each time.

    Args:
        split: "train", 2,000 points, or "test", 1,000 others.
        noise: standard deviation of what is added to each coordinate; the spirals reach from radius 0.25 to 1.
        transform: called with the point, a float32 tensor (2,).
        target_transform: called with the label, 0 or 1.
    """

    def __init__(
        self,
        split: Literal["train", "test"] = "train",
        *,
        noise: float = 0.08,
        transform: Callable[[Tensor], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
    ) -> None:
        if split not in _SIZES:
            raise ValueError(f"split is {split!r}, expected one of {', '.join(_SIZES)}.")
        self.split, self.noise = split, noise
        self.transform, self.target_transform = transform, target_transform
        self.points, self.labels = _spirals(_SIZES[split], noise, seed=list(_SIZES).index(split))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        point, label = self.points[index].clone(), int(self.labels[index])
        return (
            point if self.transform is None else self.transform(point),
            label if self.target_transform is None else self.target_transform(label),
        )

    def __repr__(self) -> str:
        return f"Spirals(split={self.split!r}, noise={self.noise}), {len(self)} points"


def _spirals(count: int, noise: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Points (count, 2) and labels (count,)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    radius = 0.25 + 0.75 * torch.rand(count, generator=generator)
    angle = 3 * math.pi * radius + math.pi * labels
    points = radius.unsqueeze(1) * torch.stack([angle.cos(), angle.sin()], dim=1)
    return points + noise * torch.randn(count, 2, generator=generator), labels
