"""GoogLeNet for 8-bit integers.

Reading order: convolution, the inception module, the auxiliary head, the network, the builder. Network and paper are
those of `models/googlenet.py`.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface, without_layers
from flambeau.vision.models.googlenet import (
    BasicConv2d,
    GoogLeNet,
    GoogLeNetOutputs,
    Inception,
    InceptionAux,
)
from flambeau.vision.models.quantization._building import build_quantizable, meant, meant_before
from flambeau.vision.models.quantization._eager import DeQuantStub, FloatFunctional, QuantStub, fuse
from flambeau.vision.weights.googlenet import GoogLeNet_Weights
from flambeau.vision.weights.quantized_googlenet import GoogLeNet_QuantizedWeights

__all__ = ["GoogLeNet_QuantizedWeights", "QuantizableGoogLeNet", "googlenet"]


class QuantizableBasicConv2d(BasicConv2d):
    """`BasicConv2d` whose activation is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H', W')."""
        activated: Tensor = self.relu(self.bn(self.conv(x)))
        return activated

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge the convolution with what follows, in place."""
        fuse(self, ["conv", "bn", "relu"], is_qat, inplace=True)


class QuantizableInception(Inception):
    """`Inception` whose concatenation is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, conv_block=QuantizableBasicConv2d, **kwargs)  # type: ignore[misc]
        self.cat = FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        joined: Tensor = self.cat.cat(self._forward(x), 1)
        return joined


class QuantizableInceptionAux(InceptionAux):
    """`InceptionAux` with quantizable convolutions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, conv_block=QuantizableBasicConv2d, **kwargs)  # type: ignore[misc]


class QuantizableGoogLeNet(GoogLeNet):
    """`GoogLeNet` that torch can quantize.

    Args:
        args: for `GoogLeNet`.
        kwargs: for `GoogLeNet`, without `blocks`.

    Shape:
        As `GoogLeNet`; float32 in and out, in int8 too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        blocks = (QuantizableBasicConv2d, QuantizableInception, QuantizableInceptionAux)
        super().__init__(*args, blocks=blocks, **kwargs)  # type: ignore[misc]
        self.quant = QuantStub()
        self.dequant = DeQuantStub()

    def forward(self, x: Tensor) -> Tensor | GoogLeNetOutputs:
        """Map images (N, 3, H, W) to logits (N, num_classes), in train mode together with those of auxiliary heads."""
        outputs = self._forward(self.quant(self._transform_input(x)))
        logits, aux2, aux1 = (one if one is None else self.dequant(one) for one in outputs)
        return self.eager_outputs(logits, aux2, aux1)  # type: ignore[arg-type]  # there are logits in any case

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge each convolution with the normalization and activation behind it, in place.

        Args:
            is_qat: for training with simulated quantization; None: where the model is in train mode.
        """
        for module in self.modules():
            if isinstance(module, QuantizableBasicConv2d):
                module.fuse_model(is_qat)


@register_model(
    "quantized_googlenet",
    task="image-classification",
    tags=("imagenet", "int8"),
    head=("fc", "aux1.fc2", "aux2.fc2"),
    stem="conv1.conv",
)
@handle_legacy_interface(
    weights=meant_before(GoogLeNet_QuantizedWeights.IMAGENET1K_FBGEMM_V1, GoogLeNet_Weights.IMAGENET1K_V1)
)
def googlenet(
    *,
    weights: GoogLeNet_QuantizedWeights | GoogLeNet_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableGoogLeNet:
    """GoogLeNet with batch normalization, for 8-bit integers (Szegedy et al. 2014, arXiv:1409.4842, table 1).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`. With weights, `transform_input` is True and `aux_logits` False unless given.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableGoogLeNet`.
    """
    chosen, quantize = meant(GoogLeNet_QuantizedWeights, GoogLeNet_Weights, weights, quantize)
    if chosen is not None:
        kwargs.setdefault("transform_input", True)
        kwargs.setdefault("aux_logits", False)
        if kwargs["aux_logits"]:
            warnings.warn("The auxiliary heads of these GoogLeNet weights are not trained: train them.", stacklevel=3)
        else:
            kwargs["convert"] = partial(without_layers, prefix="aux")
    return build_quantizable(
        QuantizableGoogLeNet, chosen, quantize=quantize, backend="fbgemm", progress=progress, **kwargs
    )
