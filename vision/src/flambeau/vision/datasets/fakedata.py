"""Random pictures, for trying out code without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flambeau.core.datasets import register_dataset
from flambeau.vision.datasets.vision import VisionDataset
from flambeau.vision.transforms.functional import to_pil_image

__all__ = ["FakeData"]


@register_dataset(
    "fakedata",
    task="image-classification",
    schema=[
        {"key": "image", "kind": "image", "shape": ("C", "H", "W"), "dtype": "uint8"},
        {"key": "label", "kind": "label"},
    ],
    description="Random pictures with random labels, the same ones every time.",
)
class FakeData(VisionDataset):
    """Random pictures with random labels; item i is the same in every run, worker and process.

    Args:
        size: number of items.
        image_size: (channels, height, width).
        num_classes: labels lie in [0, num_classes).
        transform: called with the picture.
        target_transform: called with the label.
        random_offset: item i here is item 0 of a dataset with `random_offset + i`.

    Items are (PIL image, int). The image is made of normally distributed values.
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size = size
        self.num_classes = num_classes
        self.image_size = image_size
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(image, label) number `index`, transformed.

        Raises:
            IndexError: `index` is outside [-size, size).
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"There is no item {index}: {type(self).__name__} has {len(self)}.")
        # A generator of its own draws what the default one would, and leaves the default one alone.
        generator = torch.Generator().manual_seed(index % len(self) + self.random_offset)
        values = torch.randn(*self.image_size, generator=generator)
        target: Any = int(torch.randint(0, self.num_classes, (1,), generator=generator))
        image: Any = to_pil_image(values)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __len__(self) -> int:
        return self.size
