"""Floats cut to sixteen bits: sign, exponent and the first seven bits of the significand, rounded to nearest.

Upstream: ties go away from zero, where `Tensor.bfloat16` takes the even one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._quantized_rows import given_as

__all__: list[str] = []


def _check(values: Tensor) -> None:
    if values.dtype != torch.float32:
        raise RuntimeError(
            f"FloatToBfloat16Quantized: input has dtype {values.dtype}, expected torch.float32; convert it."
        )


def _encode(values: Tensor) -> Tensor:
    _check(values)
    return given_as(values, torch.bfloat16)


def _encode_fake(values: Tensor) -> Tensor:
    _check(values)
    return values.new_empty(values.shape, dtype=torch.bfloat16)


def _decode(values: Tensor) -> Tensor:
    """Bits may come under another name of sixteen."""
    if values.dtype not in (torch.bfloat16, torch.float16, torch.int16):
        raise RuntimeError(
            f"Bfloat16QuantizedToFloat: input has dtype {values.dtype}, expected bfloat16, or its bits as float16 or "
            "int16."
        )
    return values.contiguous().view(torch.bfloat16).to(torch.float32)


register_op("FloatToBfloat16Quantized(Tensor input) -> Tensor", library=LIBRARY, fake=_encode_fake, python=_encode)
register_op(
    "Bfloat16QuantizedToFloat(Tensor input) -> Tensor",
    library=LIBRARY,
    fake=lambda values: values.new_empty(values.shape, dtype=torch.float32),
    python=_decode,
)
