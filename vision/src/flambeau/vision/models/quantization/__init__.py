"""Classifiers that run in 8-bit integers on the CPU.

Each builder makes the network of its namesake in `flambeau.vision.models` with its additions and concatenations as
modules, so that torch can watch their ranges; `quantize=True` makes the int8 model itself. In the registry the builders
are called `quantized_resnet18` and so on.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.models.quantization.googlenet import *
    from flambeau.vision.models.quantization.inception import *
    from flambeau.vision.models.quantization.mobilenetv2 import *
    from flambeau.vision.models.quantization.mobilenetv3 import *
    from flambeau.vision.models.quantization.resnet import *
    from flambeau.vision.models.quantization.shufflenetv2 import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "googlenet": ("QuantizableGoogLeNet", "googlenet"),
        "inception": ("QuantizableInception3", "inception_v3"),
        "mobilenetv2": ("QuantizableMobileNetV2", "mobilenet_v2"),
        "mobilenetv3": ("QuantizableMobileNetV3", "mobilenet_v3_large"),
        "resnet": ("QuantizableResNet", "resnet18", "resnet50", "resnext101_32x8d", "resnext101_64x4d"),
        "shufflenetv2": (
            "QuantizableShuffleNetV2",
            "shufflenet_v2_x0_5",
            "shufflenet_v2_x1_0",
            "shufflenet_v2_x1_5",
            "shufflenet_v2_x2_0",
        ),
        # Weights come from the catalogue itself, so that reading an enum imports no torch.
        "flambeau.vision.weights.quantized_googlenet": ("GoogLeNet_QuantizedWeights",),
        "flambeau.vision.weights.quantized_inception": ("Inception_V3_QuantizedWeights",),
        "flambeau.vision.weights.quantized_mobilenetv2": ("MobileNet_V2_QuantizedWeights",),
        "flambeau.vision.weights.quantized_mobilenetv3": ("MobileNet_V3_Large_QuantizedWeights",),
        "flambeau.vision.weights.quantized_resnet": (
            "ResNeXt101_32X8D_QuantizedWeights",
            "ResNeXt101_64X4D_QuantizedWeights",
            "ResNet18_QuantizedWeights",
            "ResNet50_QuantizedWeights",
        ),
        "flambeau.vision.weights.quantized_shufflenetv2": (
            "ShuffleNet_V2_X0_5_QuantizedWeights",
            "ShuffleNet_V2_X1_0_QuantizedWeights",
            "ShuffleNet_V2_X1_5_QuantizedWeights",
            "ShuffleNet_V2_X2_0_QuantizedWeights",
        ),
    },
    submodules=("utils",),
)
