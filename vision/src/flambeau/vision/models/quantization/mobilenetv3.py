"""MobileNet v3 for 8-bit integers.

Reading order: the gate, the block, the network, the builder. Network and paper are those of `models/mobilenetv3.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.mobilenetv3 import (
    InvertedResidual,
    InvertedResidualConfig,
    MobileNetV3,
    _mobilenet_v3_conf,
)
from flambeau.vision.models.quantization._building import build_quantizable, meant, meant_before
from flambeau.vision.models.quantization._eager import DeQuantStub, FloatFunctional, QuantStub, fuse
from flambeau.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from flambeau.vision.weights.mobilenetv3 import MobileNet_V3_Large_Weights
from flambeau.vision.weights.quantized_mobilenetv3 import MobileNet_V3_Large_QuantizedWeights

__all__ = ["MobileNet_V3_Large_QuantizedWeights", "QuantizableMobileNetV3", "mobilenet_v3_large"]


class QuantizableSqueezeExcitation(SqueezeExcitation):
    """`SqueezeExcitation` with a piecewise linear gate, whose multiplication is a module.

    Before version 2 the gate's output was not observed: checkpoints of that time bring no range for it.
    """

    _version = 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "scale_activation": nn.Hardsigmoid})
        self.skip_mul = FloatFunctional()

    def forward(self, input: Tensor) -> Tensor:
        """Gate the channels of (N, C, H, W)."""
        gates = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        gated: Tensor = self.skip_mul.mul(gates, input)
        return gated

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge the first convolution with its activation, in place."""
        fuse(self, ["fc1", "activation"], is_qat, inplace=True)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        if local_metadata.get("version", 1) < 2:
            gate = f"{prefix}scale_activation."
            for name, value in self.scale_activation.state_dict(prefix=gate).items():
                state_dict.setdefault(name, value)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)


class QuantizableInvertedResidual(InvertedResidual):
    """`InvertedResidual` whose gate is quantizable and whose addition is a module."""

    def __init__(
        self,
        cnf: InvertedResidualConfig,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = QuantizableSqueezeExcitation,
    ) -> None:
        super().__init__(cnf, norm_layer, se_layer)
        self.skip_add = FloatFunctional()

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, out_channels, H', W')."""
        result: Tensor = self.block(input)
        return self.skip_add.add(result, input) if self.use_res_connect else result


class QuantizableMobileNetV3(MobileNetV3):
    """`MobileNetV3` that torch can quantize.

    Args:
        args: for `MobileNetV3`; `block` is a `QuantizableInvertedResidual`.
        kwargs: for `MobileNetV3`.

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
        """Merge each convolution with its normalization, and with its activation where that is a ReLU, in place.

        Args:
            is_qat: for training with simulated quantization; None: where the model is in train mode.
        """
        for module in self.modules():
            if type(module) is Conv2dNormActivation:
                names = ["0", "1", "2"] if len(module) == 3 and type(module[2]) is nn.ReLU else ["0", "1"]
                fuse(module, names, is_qat, inplace=True)
            elif isinstance(module, QuantizableSqueezeExcitation):
                module.fuse_model(is_qat)


@register_model(
    "quantized_mobilenet_v3_large",
    task="image-classification",
    tags=("imagenet", "int8"),
    head="classifier.3",
    stem="features.0.0",
)
@handle_legacy_interface(
    weights=meant_before(
        MobileNet_V3_Large_QuantizedWeights.IMAGENET1K_QNNPACK_V1, MobileNet_V3_Large_Weights.IMAGENET1K_V1
    )
)
def mobilenet_v3_large(
    *,
    weights: MobileNet_V3_Large_QuantizedWeights | MobileNet_V3_Large_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableMobileNetV3:
    """MobileNet v3 large, for 8-bit integers (Howard et al. 2019, arXiv:1905.02244, table 1).

    The published int8 checkpoint holds the model as training with simulated quantization left it.

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableMobileNetV3`.
    """
    chosen, quantize = meant(MobileNet_V3_Large_QuantizedWeights, MobileNet_V3_Large_Weights, weights, quantize)
    shape = ("width_mult", "reduced_tail", "dilated")
    setting = {key: kwargs.pop(key) for key in shape if key in kwargs}
    blocks, last_channel = _mobilenet_v3_conf("mobilenet_v3_large", **setting)
    return build_quantizable(
        QuantizableMobileNetV3,
        chosen,
        blocks,
        last_channel,
        block=QuantizableInvertedResidual,
        quantize=quantize,
        backend="qnnpack",
        trained=True,
        progress=progress,
        **kwargs,
    )
