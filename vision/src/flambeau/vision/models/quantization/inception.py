"""Inception v3 for 8-bit integers.

Reading order: convolution, the five kinds of modules, the network, the builder. Network and paper are those of
`models/inception.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from flambeau.vision.models import inception
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface, without_layers
from flambeau.vision.models.inception import Inception3, InceptionOutputs
from flambeau.vision.models.quantization._building import build_quantizable, meant, meant_before
from flambeau.vision.models.quantization._eager import DeQuantStub, FloatFunctional, QuantStub
from flambeau.vision.models.quantization.googlenet import QuantizableBasicConv2d
from flambeau.vision.weights.inception import Inception_V3_Weights
from flambeau.vision.weights.quantized_inception import Inception_V3_QuantizedWeights

__all__ = ["Inception_V3_QuantizedWeights", "QuantizableInception3", "inception_v3"]


class QuantizableInceptionA(inception.InceptionA):
    """`InceptionA` whose concatenation is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, conv_block=QuantizableBasicConv2d, **kwargs)  # type: ignore[misc]
        self.myop = FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        joined: Tensor = self.myop.cat(self._forward(x), 1)
        return joined


class QuantizableInceptionB(inception.InceptionB):
    """`InceptionB` whose concatenation is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, conv_block=QuantizableBasicConv2d, **kwargs)  # type: ignore[misc]
        self.myop = FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        joined: Tensor = self.myop.cat(self._forward(x), 1)
        return joined


class QuantizableInceptionC(inception.InceptionC):
    """`InceptionC` whose concatenation is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, conv_block=QuantizableBasicConv2d, **kwargs)  # type: ignore[misc]
        self.myop = FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        joined: Tensor = self.myop.cat(self._forward(x), 1)
        return joined


class QuantizableInceptionD(inception.InceptionD):
    """`InceptionD` whose concatenation is a module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, conv_block=QuantizableBasicConv2d, **kwargs)  # type: ignore[misc]
        self.myop = FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        joined: Tensor = self.myop.cat(self._forward(x), 1)
        return joined


class QuantizableInceptionE(inception.InceptionE):
    """`InceptionE` whose three concatenations are modules."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, conv_block=QuantizableBasicConv2d, **kwargs)  # type: ignore[misc]
        self.myop1 = FloatFunctional()
        self.myop2 = FloatFunctional()
        self.myop3 = FloatFunctional()

    def _forward(self, x: Tensor) -> list[Tensor]:
        whole = self.branch1x1(x)
        single = self.branch3x3_1(x)
        single = self.myop1.cat([self.branch3x3_2a(single), self.branch3x3_2b(single)], 1)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        double = self.myop2.cat([self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double)], 1)
        return [whole, single, double, self.branch_pool(inception._smoothed(x))]

    def forward(self, x: Tensor) -> Tensor:
        """Concatenate the branches."""
        joined: Tensor = self.myop3.cat(self._forward(x), 1)
        return joined


class QuantizableInceptionAux(inception.InceptionAux):
    """`InceptionAux` with quantizable convolutions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, conv_block=QuantizableBasicConv2d, **kwargs)  # type: ignore[misc]


_BLOCKS = (
    QuantizableBasicConv2d,
    QuantizableInceptionA,
    QuantizableInceptionB,
    QuantizableInceptionC,
    QuantizableInceptionD,
    QuantizableInceptionE,
    QuantizableInceptionAux,
)


class QuantizableInception3(Inception3):
    """`Inception3` that torch can quantize.

    Args:
        args: for `Inception3`.
        kwargs: for `Inception3`, without `inception_blocks`.

    Shape:
        As `Inception3`; float32 in and out, in int8 too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, inception_blocks=_BLOCKS, **kwargs)  # type: ignore[misc]
        self.quant = QuantStub()
        self.dequant = DeQuantStub()

    def forward(self, x: Tensor) -> Tensor | InceptionOutputs:
        """Map images (N, 3, H, W) to logits (N, num_classes), in train mode together with those of the other head."""
        logits, aux = self._forward(self.quant(self._transform_input(x)))
        return self.eager_outputs(self.dequant(logits), None if aux is None else self.dequant(aux))

    def fuse_model(self, is_qat: bool | None = None) -> None:
        """Merge each convolution with the normalization and activation behind it, in place.

        Args:
            is_qat: for training with simulated quantization; None: where the model is in train mode.
        """
        for module in self.modules():
            if isinstance(module, QuantizableBasicConv2d):
                module.fuse_model(is_qat)


@register_model(
    "quantized_inception_v3",
    task="image-classification",
    tags=("imagenet", "int8"),
    head=("fc", "AuxLogits.fc"),
    stem="Conv2d_1a_3x3.conv",
)
@handle_legacy_interface(
    weights=meant_before(Inception_V3_QuantizedWeights.IMAGENET1K_FBGEMM_V1, Inception_V3_Weights.IMAGENET1K_V1)
)
def inception_v3(
    *,
    weights: Inception_V3_QuantizedWeights | Inception_V3_Weights | None = None,
    progress: bool = True,
    quantize: bool = False,
    **kwargs: Any,
) -> QuantizableInception3:
    """Inception v3 for pictures of 299x299, for 8-bit integers (Szegedy et al. 2015, arXiv:1512.00567, table 1).

    Args:
        weights: pretrained weights or None. A name means an int8 member with `quantize`, else a float one; an int8
            member means `quantize`. With weights, `transform_input` is True and `aux_logits` False unless given.
        progress: show the download's progress.
        quantize: make the int8 model, in eval mode; without weights its ranges are arbitrary.
        **kwargs: passed to `QuantizableInception3`.

    Raises:
        ValueError: `aux_logits` is True with int8 weights, whose file has no auxiliary head.
    """
    chosen, quantize = meant(Inception_V3_QuantizedWeights, Inception_V3_Weights, weights, quantize)
    if chosen is not None:
        kwargs.setdefault("transform_input", True)
        kwargs.setdefault("aux_logits", False)
        if kwargs["aux_logits"] and quantize:
            raise ValueError(f"aux_logits is True, but {chosen!r} have no auxiliary head; leave it out.")
        if not kwargs["aux_logits"]:
            kwargs["convert"] = partial(without_layers, prefix="AuxLogits.")
    return build_quantizable(
        QuantizableInception3, chosen, quantize=quantize, backend="fbgemm", progress=progress, **kwargs
    )
