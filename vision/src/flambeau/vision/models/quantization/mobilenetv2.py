"""MobileNet v2 for 8-bit integers.

Reading order: the block, the network, the builder. Network and paper are those of `models/mobilenetv2.py`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.mobilenetv2 import InvertedResidual, MobileNetV2
from flambeau.vision.models.quantization._building import build_quantizable, meant, meant_before
from flambeau.vision.models.quantization._eager import DeQuantStub, FloatFunctional, QuantStub, fuse
from flambeau.vision.ops.misc import Conv2dNormActivation
from flambeau.vision.weights.mobilenetv2 import MobileNet_V2_Weights
from flambeau.vision.weights.quantized_mobilenetv2 import MobileNet_V2_QuantizedWeights

__all__ = ["MobileNet_V2_QuantizedWeights", "QuantizableMobileNetV2", "mobilenet_v2"]


class QuantizableInvertedResidual(InvertedResidual):
    """`InvertedResidual` whose addition is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.skip_add = FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inp, H, W) to (N, oup, H', W')."""
        out: Tensor = self.conv(x)
        return self.skip_add.add(x, out) if self.use_res_connect else out

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge the last convolution, which has no activation, with its normalization, in place."""
        convolutions = [index for index, layer in enumerate(self.conv) if type(layer) is nn.Conv2d]
        for index in convolutions:
            fuse(self.conv, [str(index), str(index + 1)], is_qat, inplace=True)


class QuantizableMobileNetV2(MobileNetV2):
    """`MobileNetV2` that torch can quantize.

    Args:
        args: for `MobileNetV2`; `block` is a `QuantizableInvertedResidual`.
        kwargs: for `MobileNetV2`.

    Shape:
        (N, 3, H, W), float32 -> (N, num_classes), logits in float32, in int8 too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.quant = QuantStub()
        self.dequant = DeQuantStub()

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.dequant(super().forward(self.quant(x)))
        return logits

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge each convolution with the normalization and activation behind it, in place.

        Args:
            is_qat: for training with simulated quantization; None: where the model is in train mode.
        """
        for module in self.modules():
            if type(module) is Conv2dNormActivation:
                fuse(module, ["0", "1", "2"], is_qat, inplace=True)
            elif isinstance(module, QuantizableInvertedResidual):
                module.fuse_model(is_qat)


@register_model(
    "quantized_mobilenet_v2",
    task="image-classification",
    tags=("imagenet", "int8"),
    head="classifier.1",
    stem="features.0.0",
)
@handle_legacy_interface(
    weights=meant_before(MobileNet_V2_QuantizedWeights.IMAGENET1K_QNNPACK_V1, MobileNet_V2_Weights.IMAGENET1K_V1)
)
def mobilenet_v2(
    *,
    weights: MobileNet_V2_QuantizedWeights | MobileNet_V2_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableMobileNetV2:
    """MobileNet v2 of width 1.0, for 8-bit integers (Sandler et al. 2018, arXiv:1801.04381, table 2).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableMobileNetV2`.
    """
    chosen, quantize = meant(MobileNet_V2_QuantizedWeights, MobileNet_V2_Weights, weights, quantize)
    return build_quantizable(
        QuantizableMobileNetV2,
        chosen,
        block=QuantizableInvertedResidual,
        quantize=quantize,
        backend="qnnpack",
        progress=progress,
        **kwargs,
    )
