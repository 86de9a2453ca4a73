"""Transforms of images, and the preprocessing that pretrained models expect.

Importing this package imports no torch; the names below load when they are first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.transforms import functional as functional
    from flambeau.vision.transforms import v2 as v2
    from flambeau.vision.transforms._interpolation import InterpolationMode as InterpolationMode
    from flambeau.vision.transforms.autoaugment import AugMix as AugMix
    from flambeau.vision.transforms.autoaugment import AutoAugment as AutoAugment
    from flambeau.vision.transforms.autoaugment import AutoAugmentPolicy as AutoAugmentPolicy
    from flambeau.vision.transforms.autoaugment import RandAugment as RandAugment
    from flambeau.vision.transforms.autoaugment import TrivialAugmentWide as TrivialAugmentWide
    from flambeau.vision.transforms.transforms import CenterCrop as CenterCrop
    from flambeau.vision.transforms.transforms import ColorJitter as ColorJitter
    from flambeau.vision.transforms.transforms import Compose as Compose
    from flambeau.vision.transforms.transforms import ConvertImageDtype as ConvertImageDtype
    from flambeau.vision.transforms.transforms import ElasticTransform as ElasticTransform
    from flambeau.vision.transforms.transforms import FiveCrop as FiveCrop
    from flambeau.vision.transforms.transforms import GaussianBlur as GaussianBlur
    from flambeau.vision.transforms.transforms import Grayscale as Grayscale
    from flambeau.vision.transforms.transforms import Lambda as Lambda
    from flambeau.vision.transforms.transforms import LinearTransformation as LinearTransformation
    from flambeau.vision.transforms.transforms import Normalize as Normalize
    from flambeau.vision.transforms.transforms import Pad as Pad
    from flambeau.vision.transforms.transforms import PILToTensor as PILToTensor
    from flambeau.vision.transforms.transforms import RandomAdjustSharpness as RandomAdjustSharpness
    from flambeau.vision.transforms.transforms import RandomAffine as RandomAffine
    from flambeau.vision.transforms.transforms import RandomApply as RandomApply
    from flambeau.vision.transforms.transforms import RandomAutocontrast as RandomAutocontrast
    from flambeau.vision.transforms.transforms import RandomChoice as RandomChoice
    from flambeau.vision.transforms.transforms import RandomCrop as RandomCrop
    from flambeau.vision.transforms.transforms import RandomEqualize as RandomEqualize
    from flambeau.vision.transforms.transforms import RandomErasing as RandomErasing
    from flambeau.vision.transforms.transforms import RandomGrayscale as RandomGrayscale
    from flambeau.vision.transforms.transforms import RandomHorizontalFlip as RandomHorizontalFlip
    from flambeau.vision.transforms.transforms import RandomInvert as RandomInvert
    from flambeau.vision.transforms.transforms import RandomOrder as RandomOrder
    from flambeau.vision.transforms.transforms import RandomPerspective as RandomPerspective
    from flambeau.vision.transforms.transforms import RandomPosterize as RandomPosterize
    from flambeau.vision.transforms.transforms import RandomResizedCrop as RandomResizedCrop
    from flambeau.vision.transforms.transforms import RandomRotation as RandomRotation
    from flambeau.vision.transforms.transforms import RandomSolarize as RandomSolarize
    from flambeau.vision.transforms.transforms import RandomVerticalFlip as RandomVerticalFlip
    from flambeau.vision.transforms.transforms import Resize as Resize
    from flambeau.vision.transforms.transforms import TenCrop as TenCrop
    from flambeau.vision.transforms.transforms import ToPILImage as ToPILImage
    from flambeau.vision.transforms.transforms import ToTensor as ToTensor

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_interpolation": ("InterpolationMode",),
        "autoaugment": (
            "AugMix",
            "AutoAugment",
            "AutoAugmentPolicy",
            "RandAugment",
            "TrivialAugmentWide",
        ),
        "transforms": (
            "CenterCrop",
            "ColorJitter",
            "Compose",
            "ConvertImageDtype",
            "ElasticTransform",
            "FiveCrop",
            "GaussianBlur",
            "Grayscale",
            "Lambda",
            "LinearTransformation",
            "Normalize",
            "PILToTensor",
            "Pad",
            "RandomAdjustSharpness",
            "RandomAffine",
            "RandomApply",
            "RandomAutocontrast",
            "RandomChoice",
            "RandomCrop",
            "RandomEqualize",
            "RandomErasing",
            "RandomGrayscale",
            "RandomHorizontalFlip",
            "RandomInvert",
            "RandomOrder",
            "RandomPerspective",
            "RandomPosterize",
            "RandomResizedCrop",
            "RandomRotation",
            "RandomSolarize",
            "RandomVerticalFlip",
            "Resize",
            "TenCrop",
            "ToPILImage",
            "ToTensor",
        ),
    },
    submodules=(
        "_functional_pil",
        "_functional_tensor",
        "_functional_video",
        "_presets",
        "_transforms_video",
        "functional",
        "v2",
    ),
)
