"""Transforms of images together with everything that belongs to them: boxes, masks, key points, labels.

::

    augment = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])
    image, target = augment(image, target)
    again, params = augment(image, generator=torch.Generator().manual_seed(0), return_params=True)
    augment(mask, replay=params)                            # the same crop, flipped the same way
    v2.batched(augment)(images)                             # [B, C, H, W], parameters for each sample
    v2.from_spec(json.loads(json.dumps(augment.to_spec())))  # the same pipeline

See `Transform` for how samples are seen, and where random numbers come from.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.transforms._interpolation import InterpolationMode as InterpolationMode
    from flambeau.vision.transforms._policies import AutoAugmentPolicy as AutoAugmentPolicy
    from flambeau.vision.transforms.v2 import functional as functional
    from flambeau.vision.transforms.v2._augment import JPEG as JPEG
    from flambeau.vision.transforms.v2._augment import CutMix as CutMix
    from flambeau.vision.transforms.v2._augment import MixUp as MixUp
    from flambeau.vision.transforms.v2._augment import RandomErasing as RandomErasing
    from flambeau.vision.transforms.v2._auto_augment import AugMix as AugMix
    from flambeau.vision.transforms.v2._auto_augment import AutoAugment as AutoAugment
    from flambeau.vision.transforms.v2._auto_augment import RandAugment as RandAugment
    from flambeau.vision.transforms.v2._auto_augment import TrivialAugmentWide as TrivialAugmentWide
    from flambeau.vision.transforms.v2._batched import batched as batched
    from flambeau.vision.transforms.v2._boxes import ClampBoundingBoxes as ClampBoundingBoxes
    from flambeau.vision.transforms.v2._boxes import ClampKeyPoints as ClampKeyPoints
    from flambeau.vision.transforms.v2._boxes import ConvertBoundingBoxFormat as ConvertBoundingBoxFormat
    from flambeau.vision.transforms.v2._boxes import SanitizeBoundingBoxes as SanitizeBoundingBoxes
    from flambeau.vision.transforms.v2._boxes import SanitizeKeyPoints as SanitizeKeyPoints
    from flambeau.vision.transforms.v2._boxes import SetClampingMode as SetClampingMode
    from flambeau.vision.transforms.v2._color import RGB as RGB
    from flambeau.vision.transforms.v2._color import ColorJitter as ColorJitter
    from flambeau.vision.transforms.v2._color import GaussianBlur as GaussianBlur
    from flambeau.vision.transforms.v2._color import GaussianNoise as GaussianNoise
    from flambeau.vision.transforms.v2._color import Grayscale as Grayscale
    from flambeau.vision.transforms.v2._color import RandomAdjustSharpness as RandomAdjustSharpness
    from flambeau.vision.transforms.v2._color import RandomAutocontrast as RandomAutocontrast
    from flambeau.vision.transforms.v2._color import RandomChannelPermutation as RandomChannelPermutation
    from flambeau.vision.transforms.v2._color import RandomEqualize as RandomEqualize
    from flambeau.vision.transforms.v2._color import RandomGrayscale as RandomGrayscale
    from flambeau.vision.transforms.v2._color import RandomInvert as RandomInvert
    from flambeau.vision.transforms.v2._color import RandomPhotometricDistort as RandomPhotometricDistort
    from flambeau.vision.transforms.v2._color import RandomPosterize as RandomPosterize
    from flambeau.vision.transforms.v2._color import RandomSolarize as RandomSolarize
    from flambeau.vision.transforms.v2._container import Compose as Compose
    from flambeau.vision.transforms.v2._container import RandomApply as RandomApply
    from flambeau.vision.transforms.v2._container import RandomChoice as RandomChoice
    from flambeau.vision.transforms.v2._container import RandomOrder as RandomOrder
    from flambeau.vision.transforms.v2._crop import CenterCrop as CenterCrop
    from flambeau.vision.transforms.v2._crop import FiveCrop as FiveCrop
    from flambeau.vision.transforms.v2._crop import RandomCrop as RandomCrop
    from flambeau.vision.transforms.v2._crop import RandomIoUCrop as RandomIoUCrop
    from flambeau.vision.transforms.v2._crop import RandomResizedCrop as RandomResizedCrop
    from flambeau.vision.transforms.v2._crop import TenCrop as TenCrop
    from flambeau.vision.transforms.v2._deprecated import ToTensor as ToTensor
    from flambeau.vision.transforms.v2._geometry import ElasticTransform as ElasticTransform
    from flambeau.vision.transforms.v2._geometry import Pad as Pad
    from flambeau.vision.transforms.v2._geometry import RandomAffine as RandomAffine
    from flambeau.vision.transforms.v2._geometry import RandomHorizontalFlip as RandomHorizontalFlip
    from flambeau.vision.transforms.v2._geometry import RandomPerspective as RandomPerspective
    from flambeau.vision.transforms.v2._geometry import RandomRotation as RandomRotation
    from flambeau.vision.transforms.v2._geometry import RandomVerticalFlip as RandomVerticalFlip
    from flambeau.vision.transforms.v2._lambda import Identity as Identity
    from flambeau.vision.transforms.v2._lambda import Lambda as Lambda
    from flambeau.vision.transforms.v2._normalize import LinearTransformation as LinearTransformation
    from flambeau.vision.transforms.v2._normalize import Normalize as Normalize
    from flambeau.vision.transforms.v2._size import RandomResize as RandomResize
    from flambeau.vision.transforms.v2._size import RandomShortestSize as RandomShortestSize
    from flambeau.vision.transforms.v2._size import RandomZoomOut as RandomZoomOut
    from flambeau.vision.transforms.v2._size import Resize as Resize
    from flambeau.vision.transforms.v2._size import ScaleJitter as ScaleJitter
    from flambeau.vision.transforms.v2._spec import from_spec as from_spec
    from flambeau.vision.transforms.v2._spec import to_spec as to_spec
    from flambeau.vision.transforms.v2._temporal import UniformTemporalSubsample as UniformTemporalSubsample
    from flambeau.vision.transforms.v2._transform import Transform as Transform
    from flambeau.vision.transforms.v2._type_conversion import ConvertImageDtype as ConvertImageDtype
    from flambeau.vision.transforms.v2._type_conversion import PILToTensor as PILToTensor
    from flambeau.vision.transforms.v2._type_conversion import ToDtype as ToDtype
    from flambeau.vision.transforms.v2._type_conversion import ToImage as ToImage
    from flambeau.vision.transforms.v2._type_conversion import ToPILImage as ToPILImage
    from flambeau.vision.transforms.v2._type_conversion import ToPureTensor as ToPureTensor
    from flambeau.vision.transforms.v2._utils import check_type as check_type
    from flambeau.vision.transforms.v2._utils import get_bounding_boxes as get_bounding_boxes
    from flambeau.vision.transforms.v2._utils import get_keypoints as get_keypoints
    from flambeau.vision.transforms.v2._utils import has_all as has_all
    from flambeau.vision.transforms.v2._utils import has_any as has_any
    from flambeau.vision.transforms.v2._utils import query_chw as query_chw
    from flambeau.vision.transforms.v2._utils import query_size as query_size

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "flambeau.vision.transforms._interpolation": ("InterpolationMode",),
        "flambeau.vision.transforms._policies": ("AutoAugmentPolicy",),
        "_augment": ("CutMix", "JPEG", "MixUp", "RandomErasing"),
        "_auto_augment": ("AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"),
        "_batched": ("batched",),
        "_boxes": (
            "ClampBoundingBoxes",
            "ClampKeyPoints",
            "ConvertBoundingBoxFormat",
            "SanitizeBoundingBoxes",
            "SanitizeKeyPoints",
            "SetClampingMode",
        ),
        "_color": (
            "ColorJitter",
            "GaussianBlur",
            "GaussianNoise",
            "Grayscale",
            "RGB",
            "RandomAdjustSharpness",
            "RandomAutocontrast",
            "RandomChannelPermutation",
            "RandomEqualize",
            "RandomGrayscale",
            "RandomInvert",
            "RandomPhotometricDistort",
            "RandomPosterize",
            "RandomSolarize",
        ),
        "_container": ("Compose", "RandomApply", "RandomChoice", "RandomOrder"),
        "_crop": ("CenterCrop", "FiveCrop", "RandomCrop", "RandomIoUCrop", "RandomResizedCrop", "TenCrop"),
        "_deprecated": ("ToTensor",),
        "_lambda": ("Identity", "Lambda"),
        "_geometry": (
            "ElasticTransform",
            "Pad",
            "RandomAffine",
            "RandomHorizontalFlip",
            "RandomPerspective",
            "RandomRotation",
            "RandomVerticalFlip",
        ),
        "_normalize": ("LinearTransformation", "Normalize"),
        "_size": ("RandomResize", "RandomShortestSize", "RandomZoomOut", "Resize", "ScaleJitter"),
        "_spec": ("from_spec", "to_spec"),
        "_temporal": ("UniformTemporalSubsample",),
        "_transform": ("Transform",),
        "_type_conversion": ("ConvertImageDtype", "PILToTensor", "ToDtype", "ToImage", "ToPILImage", "ToPureTensor"),
        "_utils": (
            "check_type",
            "get_bounding_boxes",
            "get_keypoints",
            "has_all",
            "has_any",
            "query_chw",
            "query_size",
        ),
    },
    submodules=("functional",),
)
