"""Datasets; each loads when its name is first used, and the registry has their facts without loading them."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.datasets.cifar import CIFAR10 as CIFAR10
    from flambeau.vision.datasets.cifar import CIFAR100 as CIFAR100
    from flambeau.vision.datasets.fakedata import FakeData as FakeData
    from flambeau.vision.datasets.folder import DatasetFolder as DatasetFolder
    from flambeau.vision.datasets.folder import ImageFolder as ImageFolder
    from flambeau.vision.datasets.vision import VisionDataset as VisionDataset

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "cifar": ("CIFAR10", "CIFAR100"),
        "fakedata": ("FakeData",),
        "folder": ("DatasetFolder", "ImageFolder"),
        "vision": ("VisionDataset",),
    },
    submodules=("utils",),
)
