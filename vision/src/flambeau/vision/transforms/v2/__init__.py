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

from flambeau.vision.transforms._policies import AutoAugmentPolicy
from flambeau.vision.transforms.v2 import functional as functional
from flambeau.vision.transforms.v2._augment import JPEG, CutMix, MixUp, RandomErasing
from flambeau.vision.transforms.v2._auto_augment import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from flambeau.vision.transforms.v2._batched import batched
from flambeau.vision.transforms.v2._boxes import (
    ClampBoundingBoxes,
    ClampKeyPoints,
    ConvertBoundingBoxFormat,
    SanitizeBoundingBoxes,
    SanitizeKeyPoints,
    SetClampingMode,
)
from flambeau.vision.transforms.v2._color import (
    RGB,
    ColorJitter,
    GaussianBlur,
    GaussianNoise,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomChannelPermutation,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
    RandomPosterize,
    RandomSolarize,
)
from flambeau.vision.transforms.v2._container import Compose, RandomApply, RandomChoice, RandomOrder
from flambeau.vision.transforms.v2._crop import (
    CenterCrop,
    FiveCrop,
    RandomCrop,
    RandomIoUCrop,
    RandomResizedCrop,
    TenCrop,
)
from flambeau.vision.transforms.v2._deprecated import ToTensor
from flambeau.vision.transforms.v2._function import Identity, Lambda
from flambeau.vision.transforms.v2._geometry import (
    ElasticTransform,
    Pad,
    RandomAffine,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomRotation,
    RandomVerticalFlip,
)
from flambeau.vision.transforms.v2._normalize import LinearTransformation, Normalize
from flambeau.vision.transforms.v2._size import RandomResize, RandomShortestSize, RandomZoomOut, Resize, ScaleJitter
from flambeau.vision.transforms.v2._spec import from_spec, to_spec
from flambeau.vision.transforms.v2._temporal import UniformTemporalSubsample
from flambeau.vision.transforms.v2._transform import Transform
from flambeau.vision.transforms.v2._type_conversion import (
    ConvertImageDtype,
    PILToTensor,
    ToDtype,
    ToImage,
    ToPILImage,
    ToPureTensor,
)
from flambeau.vision.transforms.v2._utils import (
    check_type,
    get_bounding_boxes,
    get_keypoints,
    has_all,
    has_any,
    query_chw,
    query_size,
)
from flambeau.vision.transforms.v2.functional import InterpolationMode

__all__ = [
    "JPEG",
    "RGB",
    "AugMix",
    "AutoAugment",
    "AutoAugmentPolicy",
    "CenterCrop",
    "ClampBoundingBoxes",
    "ClampKeyPoints",
    "ColorJitter",
    "Compose",
    "ConvertBoundingBoxFormat",
    "ConvertImageDtype",
    "CutMix",
    "ElasticTransform",
    "FiveCrop",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Identity",
    "InterpolationMode",
    "Lambda",
    "LinearTransformation",
    "MixUp",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "SanitizeBoundingBoxes",
    "SanitizeKeyPoints",
    "ScaleJitter",
    "SetClampingMode",
    "TenCrop",
    "ToDtype",
    "ToImage",
    "ToPILImage",
    "ToPureTensor",
    "ToTensor",
    "Transform",
    "TrivialAugmentWide",
    "UniformTemporalSubsample",
    "batched",
    "check_type",
    "from_spec",
    "functional",
    "get_bounding_boxes",
    "get_keypoints",
    "has_all",
    "has_any",
    "query_chw",
    "query_size",
    "to_spec",
]
