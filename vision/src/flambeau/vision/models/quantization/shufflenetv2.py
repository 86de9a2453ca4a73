"""ShuffleNet v2 for 8-bit integers.

Reading order: the block, the network, the builders. Networks and paper are those of `models/shufflenetv2.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from flambeau.vision.models import shufflenetv2
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.quantization._building import build_quantizable, meant, meant_before
from flambeau.vision.models.quantization._eager import DeQuantStub, FloatFunctional, QuantStub, fuse
from flambeau.vision.weights.quantized_shufflenetv2 import (
    ShuffleNet_V2_X0_5_QuantizedWeights,
    ShuffleNet_V2_X1_0_QuantizedWeights,
    ShuffleNet_V2_X1_5_QuantizedWeights,
    ShuffleNet_V2_X2_0_QuantizedWeights,
)
from flambeau.vision.weights.shufflenetv2 import (
    ShuffleNet_V2_X0_5_Weights,
    ShuffleNet_V2_X1_0_Weights,
    ShuffleNet_V2_X1_5_Weights,
    ShuffleNet_V2_X2_0_Weights,
)

__all__ = [
    "QuantizableShuffleNetV2",
    "ShuffleNet_V2_X0_5_QuantizedWeights",
    "ShuffleNet_V2_X1_0_QuantizedWeights",
    "ShuffleNet_V2_X1_5_QuantizedWeights",
    "ShuffleNet_V2_X2_0_QuantizedWeights",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
]


class QuantizableInvertedResidual(shufflenetv2.InvertedResidual):
    """`InvertedResidual` whose concatenation is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cat = FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, inp, H, W) to (N, oup, H', W')."""
        if self.stride == 1:
            kept, changed = x.chunk(2, dim=1)
            out = self.cat.cat([kept, self.branch2(changed)], dim=1)
        else:
            out = self.cat.cat([self.branch1(x), self.branch2(x)], dim=1)
        return shufflenetv2.channel_shuffle(out, 2)


class QuantizableShuffleNetV2(shufflenetv2.ShuffleNetV2):
    """`ShuffleNetV2` that torch can quantize.

    Args:
        args: for `ShuffleNetV2`.
        kwargs: for `ShuffleNetV2`.

    Shape:
        (N, 3, H, W), float32 -> (N, num_classes), logits in float32, in int8 too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, inverted_residual=QuantizableInvertedResidual, **kwargs)  # type: ignore[misc]
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
        for stem in (self.conv1, self.conv5):
            fuse(stem, ["0", "1", "2"], is_qat, inplace=True)
        for module in self.modules():
            if isinstance(module, QuantizableInvertedResidual):
                if len(module.branch1):
                    fuse(module.branch1, [["0", "1"], ["2", "3", "4"]], is_qat, inplace=True)
                fuse(module.branch2, [["0", "1", "2"], ["3", "4"], ["5", "6", "7"]], is_qat, inplace=True)


_build = partial(build_quantizable, QuantizableShuffleNetV2, backend="fbgemm")


@register_model(
    "quantized_shufflenet_v2_x0_5", task="image-classification", tags=("imagenet", "int8"), head="fc", stem="conv1.0"
)
@handle_legacy_interface(
    weights=meant_before(
        ShuffleNet_V2_X0_5_QuantizedWeights.IMAGENET1K_FBGEMM_V1, ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1
    )
)
def shufflenet_v2_x0_5(
    *,
    weights: ShuffleNet_V2_X0_5_QuantizedWeights | ShuffleNet_V2_X0_5_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableShuffleNetV2:
    """ShuffleNet v2 of half complexity, for 8-bit integers (Ma et al. 2018, arXiv:1807.11164, table 5).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableShuffleNetV2`.
    """
    chosen, quantize = meant(ShuffleNet_V2_X0_5_QuantizedWeights, ShuffleNet_V2_X0_5_Weights, weights, quantize)
    return _build(chosen, (4, 8, 4), (24, 48, 96, 192, 1024), quantize=quantize, progress=progress, **kwargs)


@register_model(
    "quantized_shufflenet_v2_x1_0", task="image-classification", tags=("imagenet", "int8"), head="fc", stem="conv1.0"
)
@handle_legacy_interface(
    weights=meant_before(
        ShuffleNet_V2_X1_0_QuantizedWeights.IMAGENET1K_FBGEMM_V1, ShuffleNet_V2_X1_0_Weights.IMAGENET1K_V1
    )
)
def shufflenet_v2_x1_0(
    *,
    weights: ShuffleNet_V2_X1_0_QuantizedWeights | ShuffleNet_V2_X1_0_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableShuffleNetV2:
    """ShuffleNet v2 of complexity 1.0, for 8-bit integers (Ma et al. 2018, arXiv:1807.11164, table 5).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableShuffleNetV2`.
    """
    chosen, quantize = meant(ShuffleNet_V2_X1_0_QuantizedWeights, ShuffleNet_V2_X1_0_Weights, weights, quantize)
    return _build(chosen, (4, 8, 4), (24, 116, 232, 464, 1024), quantize=quantize, progress=progress, **kwargs)


@register_model(
    "quantized_shufflenet_v2_x1_5", task="image-classification", tags=("imagenet", "int8"), head="fc", stem="conv1.0"
)
@handle_legacy_interface(
    weights=meant_before(
        ShuffleNet_V2_X1_5_QuantizedWeights.IMAGENET1K_FBGEMM_V1, ShuffleNet_V2_X1_5_Weights.IMAGENET1K_V1
    )
)
def shufflenet_v2_x1_5(
    *,
    weights: ShuffleNet_V2_X1_5_QuantizedWeights | ShuffleNet_V2_X1_5_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableShuffleNetV2:
    """ShuffleNet v2 of complexity 1.5, for 8-bit integers (Ma et al. 2018, arXiv:1807.11164, table 5).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableShuffleNetV2`.
    """
    chosen, quantize = meant(ShuffleNet_V2_X1_5_QuantizedWeights, ShuffleNet_V2_X1_5_Weights, weights, quantize)
    return _build(chosen, (4, 8, 4), (24, 176, 352, 704, 1024), quantize=quantize, progress=progress, **kwargs)


@register_model(
    "quantized_shufflenet_v2_x2_0", task="image-classification", tags=("imagenet", "int8"), head="fc", stem="conv1.0"
)
@handle_legacy_interface(
    weights=meant_before(
        ShuffleNet_V2_X2_0_QuantizedWeights.IMAGENET1K_FBGEMM_V1, ShuffleNet_V2_X2_0_Weights.IMAGENET1K_V1
    )
)
def shufflenet_v2_x2_0(
    *,
    weights: ShuffleNet_V2_X2_0_QuantizedWeights | ShuffleNet_V2_X2_0_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableShuffleNetV2:
    """ShuffleNet v2 of complexity 2.0, for 8-bit integers (Ma et al. 2018, arXiv:1807.11164, table 5).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableShuffleNetV2`.
    """
    chosen, quantize = meant(ShuffleNet_V2_X2_0_QuantizedWeights, ShuffleNet_V2_X2_0_Weights, weights, quantize)
    return _build(chosen, (4, 8, 4), (24, 244, 488, 976, 2048), quantize=quantize, progress=progress, **kwargs)
