"""Element types of embedding tables, and optimizers."""

from __future__ import annotations

import enum
from typing import Any

import torch

__all__ = [
    "EmbOptimType",
    "FP8QuantizationConfig",
    "QuantizationConfig",
    "SparseType",
    "pad4",
    "pad16",
    "sparse_type_int_to_dtype",
    "sparse_type_to_int",
]


def pad4(value: int) -> int:
    """The next multiple of 4."""
    return -(-value // 4) * 4


def pad16(value: int) -> int:
    """The next multiple of 16."""
    return -(-value // 16) * 16


@enum.unique
class EmbOptimType(enum.Enum):
    """Optimizers of embedding tables; those called exact add up the gradients of a row before they run."""

    SGD = "sgd"
    EXACT_SGD = "exact_sgd"
    LAMB = "lamb"
    ADAM = "adam"
    EXACT_ADAGRAD = "exact_adagrad"
    EXACT_ROWWISE_ADAGRAD = "exact_row_wise_adagrad"
    LARS_SGD = "lars_sgd"
    PARTIAL_ROWWISE_ADAM = "partial_row_wise_adam"
    PARTIAL_ROWWISE_LAMB = "partial_row_wise_lamb"
    ROWWISE_ADAGRAD = "row_wise_adagrad"
    SHAMPOO = "shampoo"
    SHAMPOO_V2 = "shampoo_v2"
    MADGRAD = "madgrad"
    EXACT_ROWWISE_WEIGHTED_ADAGRAD = "exact_row_wise_weighted_adagrad"
    ENSEMBLE_ROWWISE_ADAGRAD = "ensemble_row_wise_adagrad"
    EMAINPLACE_ROWWISE_ADAGRAD = "ema_in_place_row_wise_adagrad"
    NONE = "none"

    def __str__(self) -> str:
        return self.value


class QuantizationConfig:
    """Numbers that say how an element type is laid out, by name."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The number of that name; -1 where there is none."""
        return -1


class FP8QuantizationConfig(QuantizationConfig):
    """A float of eight bits.

    Args:
        exponent_bits: of the exponent; the rest are of the significand.
        exponent_bias: what is taken off the exponent.
    """

    def __init__(self, exponent_bits: int, exponent_bias: int) -> None:
        super().__init__()
        largest = 2 ** ((1 << exponent_bits) - 2 - exponent_bias) * (2 - 2 ** (exponent_bits - 7))
        self.config = {"exponent_bits": exponent_bits, "exponent_bias": exponent_bias, "max_position": largest}

    def get(self, name: str) -> Any:
        """The number of that name.

        Raises:
            RuntimeError: there is none.
        """
        if name not in self.config:
            raise RuntimeError(f"an FP8QuantizationConfig has no {name!r}; it has {', '.join(self.config)}.")
        return self.config[name]


class SparseType(enum.Enum):
    """Element types of embedding tables and of what is looked up in them."""

    FP32 = "fp32"
    FP16 = "fp16"
    FP8 = "fp8"
    NFP8 = "nfp8"
    INT8 = "int8"
    INT4 = "int4"
    INT2 = "int2"
    BF16 = "bf16"
    MX4 = "mx4"

    def __str__(self) -> str:
        return self.value

    @staticmethod
    def from_int(ty: int) -> SparseType:
        """The type that operators return under a number; not the inverse of `as_int` for MX4 and NFP8, as upstream.

        Raises:
            ValueError: no type has it.
        """
        if ty not in _FROM_INT:
            raise ValueError(f"no element type has the number {ty}; those there are: {sorted(_FROM_INT)}.")
        return _FROM_INT[ty]

    @staticmethod
    def from_dtype(dtype: torch.dtype, is_mx: bool = False) -> SparseType:
        """The type that is held in tensors of a dtype.

        Raises:
            ValueError: none is.
        """
        if dtype == torch.uint8 and is_mx:
            return SparseType.MX4
        if dtype not in _FROM_DTYPE:
            raise ValueError(f"no element type is held in tensors of {dtype}; expected one of {list(_FROM_DTYPE)}.")
        return _FROM_DTYPE[dtype]

    def as_int(self) -> int:
        """The number that operators take for it."""
        return _AS_INT[self]

    def as_dtype(self) -> torch.dtype:
        """The dtype of tensors that hold it."""
        return _AS_DTYPE[self]

    def bit_rate(self) -> int:
        """Bits of an element."""
        return _BITS[self]

    def align_size(self) -> int:
        """Elements that fill four bytes at least, or a whole number of them, as rows are padded to."""
        return _ALIGNED[self]

    def is_float(self) -> bool:
        """Whether elements are floating-point numbers by themselves."""
        return self in _FLOATS

    def default_config(self) -> QuantizationConfig:
        """How elements are laid out where nothing else is said."""
        return FP8QuantizationConfig(4, 7) if self is SparseType.FP8 else QuantizationConfig()


_S = SparseType
_AS_INT = {
    _S.FP32: 0, _S.FP16: 1, _S.INT8: 2, _S.INT4: 3, _S.INT2: 4, _S.BF16: 5, _S.FP8: 6, _S.MX4: 7, _S.NFP8: 8,
}  # fmt: skip
_FROM_INT = {
    0: _S.FP32, 1: _S.FP16, 2: _S.INT8, 3: _S.INT4, 4: _S.INT2, 5: _S.BF16, 6: _S.FP8, 8: _S.MX4, 9: _S.NFP8,
}  # fmt: skip
_AS_DTYPE = {
    _S.FP32: torch.float32, _S.FP16: torch.float16, _S.FP8: torch.uint8, _S.NFP8: torch.float8_e4m3fn,
    _S.INT8: torch.uint8, _S.INT4: torch.quint4x2, _S.INT2: torch.quint2x4, _S.BF16: torch.bfloat16,
    _S.MX4: torch.uint8,
}  # fmt: skip
_FROM_DTYPE = {
    torch.float32: _S.FP32, torch.float16: _S.FP16, torch.int8: _S.INT8, torch.uint8: _S.INT8,
    torch.quint4x2: _S.INT4, torch.quint2x4: _S.INT2, torch.bfloat16: _S.BF16, torch.float8_e4m3fn: _S.NFP8,
}  # fmt: skip
_BITS = {
    _S.FP32: 32, _S.FP16: 16, _S.FP8: 8, _S.NFP8: 8, _S.INT8: 8, _S.INT4: 4, _S.INT2: 2, _S.BF16: 16, _S.MX4: 4,
}  # fmt: skip
_ALIGNED = {
    _S.FP32: 1, _S.FP16: 2, _S.FP8: 4, _S.NFP8: 4, _S.INT8: 4, _S.INT4: 8, _S.INT2: 16, _S.BF16: 2, _S.MX4: 8,
}  # fmt: skip
_FLOATS = {_S.FP32, _S.FP16, _S.FP8, _S.NFP8, _S.BF16}


def sparse_type_to_int(sparse_type: SparseType) -> int:
    """The number that operators take for an element type."""
    return sparse_type.as_int()


def sparse_type_int_to_dtype(ty: int) -> torch.dtype:
    """The dtype of tensors that hold the element type of a number."""
    return SparseType.from_int(ty).as_dtype()
