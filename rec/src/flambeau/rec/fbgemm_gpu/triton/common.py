"""How the power of two that a group shares is rounded, and which numbers codes of four bits stand for."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.quantize_mx import CEIL, EVEN, FLOOR, NEAREST, STOCHASTIC

__all__ = ["RoundingMode", "get_mx4_exp_bias", "get_mx4_lookup_table"]


class RoundingMode(IntEnum):
    """How the exponent of a group's largest number becomes the one that all share."""

    nearest = NEAREST
    floor = FLOOR
    even = EVEN
    stochastic = STOCHASTIC
    ceil = CEIL


def get_mx4_exp_bias(ebits: int) -> int:
    """What is taken off the exponent of a code.

    Args:
        ebits: bits of the exponent, 2 or 3.

    Raises:
        NotImplementedError: another number of bits.
    """
    if ebits not in (2, 3):
        raise NotImplementedError(f"MX4 with ebits={ebits} is no format; expected 2 or 3.")
    return (1 << (ebits - 1)) - 1


def get_mx4_lookup_table(ebits: int, mbits: int, device: torch.device) -> Tensor:
    """(16,) float32: the number that each code stands for before its group's power of two.

    Args:
        ebits: bits of a code's exponent, 2 or 3.
        mbits: bits of its significand, 1 or 0.
        device: of the result.

    Raises:
        OptionError: no such format.
    """
    if (ebits, mbits) not in ((2, 1), (3, 0)):
        raise OptionError(f"MX4 with ebits={ebits} and mbits={mbits} is no format; expected 2 and 1, or 3 and 0.")
    # One group of all sixteen codes, with 1 as its power of two.
    group = [low | (low + 1) << 4 for low in range(0, 16, 2)]
    codes = torch.tensor([*group, 127], dtype=torch.uint8, device=device)
    return OPS.dequantize_mx4(codes, 16, ebits, mbits)  # type: ignore[no-any-return]
