"""How precisely kernels for accelerators multiply matrices in recurrent layers."""

from __future__ import annotations

import os
from typing import Literal, cast

import torch

__all__ = [
    "RecurrentMatmulPrecision",
    "RecurrentMatmulPrecisionUserMode",
    "get_recurrent_matmul_precision",
    "set_recurrent_matmul_precision",
]

RecurrentMatmulPrecision = Literal["ieee", "tf32", "tf32x3"]
RecurrentMatmulPrecisionUserMode = Literal["auto", "fast", "high-prec", "ieee", "tf32", "tf32x3"]

_MODES = ("auto", "fast", "high-prec", "ieee", "tf32", "tf32x3")
_OF_TORCH = {"highest": "ieee", "high": "high-prec", "medium": "fast"}
_chosen: str | None = None


def set_recurrent_matmul_precision(mode: str | None) -> None:
    """Set the precision of the process; layers that were given their own keep it.

    Args:
        mode: "ieee", "tf32" or "tf32x3"; "fast" and "high-prec" are tf32 and tf32x3 where the GPU has them, else ieee;
            "auto" or None follows the environment variable TORCHRL_RNN_PRECISION, or else
            `torch.get_float32_matmul_precision`.

    Raises:
        ValueError: another mode.
    """
    global _chosen
    if mode is not None:
        check_precision(mode)
    _chosen = None if mode == "auto" else mode


def get_recurrent_matmul_precision() -> RecurrentMatmulPrecision:
    """The precision that is used where a layer says nothing of its own: "ieee", "tf32" or "tf32x3"."""
    return resolved("auto")


def check_precision(mode: str) -> None:
    """Raise ValueError for a mode that there is not."""
    if mode not in _MODES:
        raise ValueError(f"recurrent_matmul_precision is {mode!r}, expected one of {', '.join(map(repr, _MODES))}.")


def resolved(mode: str | None) -> RecurrentMatmulPrecision:
    """The precision that a layer's mode comes to."""
    if mode in (None, "auto"):
        mode = _chosen or os.environ.get("TORCHRL_RNN_PRECISION") or "auto"
        check_precision(mode)
    if mode == "auto":
        mode = _OF_TORCH[torch.get_float32_matmul_precision()]
    if mode in ("fast", "high-prec"):
        ampere = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8
        mode = ("tf32" if mode == "fast" else "tf32x3") if ampere else "ieee"
    return cast(RecurrentMatmulPrecision, mode)
