"""Datasets; each loads when its name is first used, and the registry has their facts without loading them."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.datasets.cifar import CIFAR10 as CIFAR10
    from flambeau.vision.datasets.cifar import CIFAR100 as CIFAR100
    from flambeau.vision.datasets.clevr import CLEVRClassification as CLEVRClassification
    from flambeau.vision.datasets.country211 import Country211 as Country211
    from flambeau.vision.datasets.dtd import DTD as DTD
    from flambeau.vision.datasets.eurosat import EuroSAT as EuroSAT
    from flambeau.vision.datasets.fakedata import FakeData as FakeData
    from flambeau.vision.datasets.fer2013 import FER2013 as FER2013
    from flambeau.vision.datasets.fgvc_aircraft import FGVCAircraft as FGVCAircraft
    from flambeau.vision.datasets.flowers102 import Flowers102 as Flowers102
    from flambeau.vision.datasets.folder import DatasetFolder as DatasetFolder
    from flambeau.vision.datasets.folder import ImageFolder as ImageFolder
    from flambeau.vision.datasets.food101 import Food101 as Food101
    from flambeau.vision.datasets.gtsrb import GTSRB as GTSRB
    from flambeau.vision.datasets.oxford_iiit_pet import OxfordIIITPet as OxfordIIITPet
    from flambeau.vision.datasets.pcam import PCAM as PCAM
    from flambeau.vision.datasets.rendered_sst2 import RenderedSST2 as RenderedSST2
    from flambeau.vision.datasets.stanford_cars import StanfordCars as StanfordCars
    from flambeau.vision.datasets.sun397 import SUN397 as SUN397
    from flambeau.vision.datasets.vision import VisionDataset as VisionDataset

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "cifar": ("CIFAR10", "CIFAR100"),
        "clevr": ("CLEVRClassification",),
        "country211": ("Country211",),
        "dtd": ("DTD",),
        "eurosat": ("EuroSAT",),
        "fakedata": ("FakeData",),
        "fer2013": ("FER2013",),
        "fgvc_aircraft": ("FGVCAircraft",),
        "flowers102": ("Flowers102",),
        "folder": ("DatasetFolder", "ImageFolder"),
        "food101": ("Food101",),
        "gtsrb": ("GTSRB",),
        "oxford_iiit_pet": ("OxfordIIITPet",),
        "pcam": ("PCAM",),
        "rendered_sst2": ("RenderedSST2",),
        "stanford_cars": ("StanfordCars",),
        "sun397": ("SUN397",),
        "vision": ("VisionDataset",),
    },
    submodules=("utils",),
)
