"""Microscaling formats of four bits: groups of numbers share a power of two.

A group of n numbers is n / 2 bytes, the first of two numbers in the lower half, then the exponent of the shared power
of two plus 127. Rows are filled up with zeros to whole groups. The native kernel is `native/quantize_mx.cpp`.

References:
    Rouhani et al. 2023, "Microscaling Data Formats for Deep Learning", arXiv:2310.10537.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._quantized_rows import output_dtype
from flambeau.rec.ops._short_calls import OPS

__all__ = ["CEIL", "EVEN", "FLOOR", "NEAREST", "STOCHASTIC", "quantize_mx4"]

NEAREST, FLOOR, EVEN, STOCHASTIC, CEIL = range(5)
"""How the exponent that a group shares is found from its largest number."""


def quantize_mx4(
    values: Tensor,
    group_size: int = 32,
    ebits: int = 2,
    mbits: int = 1,
    rounding_mode: int = EVEN,
    *,
    stochastic: bool = False,
) -> Tensor:
    """Quantize groups of a row to four bits a number.

    Args:
        values: (..., columns) float32.
        group_size: numbers that share a power of two; even.
        ebits: bits of a code's exponent, 2 or 3.
        mbits: bits of its significand; 3 with the exponent's.
        rounding_mode: how the shared exponent is rounded: `NEAREST`, `FLOOR`, `EVEN`, `STOCHASTIC` or `CEIL`.
        stochastic: whether codes are rounded by chance, so that their mean is right. torch's generator says how.

    Returns:
        (..., ceil(columns / group_size) * (group_size / 2 + 1)) uint8.

    Raises:
        RuntimeError: another dtype, or numbers out of range.
    """
    seed = int(torch.randint(2**62, ())) if stochastic or rounding_mode == STOCHASTIC else 0
    return OPS.quantize_mx4(values, group_size, ebits, mbits, rounding_mode, stochastic, seed)  # type: ignore[no-any-return]


def _check(op: str, group: int, ebits: int, mbits: int) -> None:
    """The same sentences as native/quantize_mx.cpp."""
    if group < 2 or group % 2:
        raise RuntimeError(f"{op}: mx_group_size is {group}, expected a positive even number.")
    if ebits < 2 or ebits + mbits != 3:
        raise RuntimeError(
            f"{op}: codes of {ebits} bits for exponents and {mbits} for significands, expected 2 and 1, or 3 and 0."
        )


def _check_input(values: Tensor, group: int, ebits: int, mbits: int, rounding: int) -> None:
    if values.dim() < 1 or values.dtype != torch.float32:
        raise RuntimeError(
            f"quantize_mx4: input has shape {tuple(values.shape)} and dtype {values.dtype}, expected (..., "
            "columns) of float32."
        )
    _check("quantize_mx4", group, ebits, mbits)
    if not 0 <= rounding <= CEIL:
        raise RuntimeError(
            f"quantize_mx4: rounding_mode is {rounding}, expected 0 (nearest), 1 (floor), 2 (even), 3 (stochastic) or "
            "4 (ceil)."
        )


def _check_codes(codes: Tensor, group: int, ebits: int, mbits: int) -> None:
    _check("dequantize_mx4", group, ebits, mbits)
    size = group // 2 + 1
    if codes.dim() < 1 or codes.dtype != torch.uint8 or codes.shape[-1] % size:
        raise RuntimeError(
            f"dequantize_mx4: input has shape {tuple(codes.shape)} and dtype {codes.dtype}, expected (..., groups * "
            f"{size}) of uint8."
        )


def _fake(values: Tensor, group: int, ebits: int, mbits: int, rounding: int, stochastic: bool, seed: int) -> Tensor:
    _check_input(values, group, ebits, mbits, rounding)
    groups = (values.shape[-1] + group - 1) // group
    return values.new_empty((*values.shape[:-1], groups * (group // 2 + 1)), dtype=torch.uint8)


def _fake_back(codes: Tensor, group: int, ebits: int, mbits: int) -> Tensor:
    _check_codes(codes, group, ebits, mbits)
    return codes.new_empty((*codes.shape[:-1], codes.shape[-1] // (group // 2 + 1) * group), dtype=torch.float32)


def _power_of_two(exponents: Tensor) -> Tensor:
    """float64, which has all of them."""
    return torch.exp2(exponents.double())


def _shared_exponents(most: Tensor, ebits: int, mbits: int, rounding: int, chance: Tensor) -> Tensor:
    finfo = torch.finfo(torch.float32)
    raw = most.clamp(finfo.tiny, finfo.max).view(torch.int32)
    fraction, exponent = raw & 0x7FFFFF, (raw >> 23) - 127
    half_step = 1 << (22 - mbits)
    added = {
        NEAREST: fraction > 0x3504F3,  # the fraction of the square root of two
        FLOOR: torch.zeros_like(fraction, dtype=torch.bool),
        EVEN: fraction + (half_step - 1) > 0x7FFFFF,
        STOCHASTIC: fraction + (chance * 2 * half_step).int() > 0x7FFFFF,
        CEIL: fraction != 0,
    }[rounding]
    return (exponent + added.int() - ebits).clamp(-127, 125)


def _reference(
    values: Tensor, group: int, ebits: int, mbits: int, rounding: int, stochastic: bool, seed: int
) -> Tensor:
    _check_input(values, group, ebits, mbits, rounding)
    generator = torch.Generator(device=values.device).manual_seed(seed)
    filled = torch.nn.functional.pad(values, (0, -values.shape[-1] % group))
    groups = filled.reshape(*values.shape[:-1], filled.shape[-1] // group, group)
    if not groups.numel():
        return _fake(values, group, ebits, mbits, rounding, stochastic, seed)
    most = groups.abs().nan_to_num(0.0, float("inf")).amax(-1, keepdim=True)
    chance = torch.rand(most.shape, generator=generator, device=values.device)
    exponents = _shared_exponents(most.contiguous(), ebits, mbits, rounding, chance)
    strange = groups.isnan()
    size = (groups.double().abs() / _power_of_two(exponents)).masked_fill(strange, 0).clamp(max=2.0**20)
    smallest, unit = 2 - (1 << (ebits - 1)), 1 << mbits
    own = torch.where(size > 0, torch.frexp(size).exponent - 1, smallest).clamp(min=smallest)
    fraction = torch.rand(size.shape, generator=generator, device=values.device) if stochastic else 0.5
    whole = (size * _power_of_two(mbits - own) + fraction).floor().long()
    codes = torch.where(whole < unit, whole, whole + (own - smallest) * unit).clamp(max=7)
    if not mbits:
        # Upstream: without a significand, numbers below the smallest one are not rounded up to it.
        codes = torch.where(size < 2.0**smallest, 0, codes)
    codes = codes | torch.signbit(groups).long() << 3
    packed = codes[..., ::2] | codes[..., 1::2] << 4
    return torch.cat([packed, exponents.long() + 127], -1).to(torch.uint8).flatten(-2)


def _reference_back(codes: Tensor, group: int, ebits: int, mbits: int) -> Tensor:
    _check_codes(codes, group, ebits, mbits)
    groups = codes.reshape(*codes.shape[:-1], codes.shape[-1] // (group // 2 + 1), group // 2 + 1).int()
    packed, exponents = groups[..., :-1], groups[..., -1:] - 127
    each = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
    own, rest = (each & 7) >> mbits, each & ((1 << mbits) - 1)
    smallest, unit = 2 - (1 << (ebits - 1)), 1 << mbits
    size = torch.where(own > 0, rest + unit, rest) * _power_of_two(smallest - mbits + (own - 1).clamp(min=0))
    numbers = torch.where(each > 7, -size, size) * _power_of_two(exponents)
    return numbers.float().flatten(-2)


register_op(
    "quantize_mx4(Tensor input, int mx_group_size, int ebits, int mbits, int rounding_mode, bool stochastic, int seed) "
    "-> Tensor",
    library=LIBRARY,
    fake=_fake,
    python=_reference,
)
register_op(
    "dequantize_mx4(Tensor input, int mx_group_size, int ebits, int mbits) -> Tensor",
    library=LIBRARY,
    fake=_fake_back,
    python=_reference_back,
)


# Under FBGEMM's names. Bits of a significand count the sign and the bit that is not stored there.
def _under_other_name(
    values: Tensor, scale_bits: int, ebits: int, mbits: int, max_norm: float, group: int, flush: bool = False,
    rounding: int = 0,
) -> Tensor:  # fmt: skip
    if scale_bits != 8:
        raise RuntimeError(f"quantize_mx_cuda: scale_bits is {scale_bits}, expected 8.")
    seed = int(torch.randint(2**62, ())) if rounding == STOCHASTIC else 0
    kept = values.float()
    if flush:
        kept = torch.where(kept.abs() < torch.finfo(torch.float32).tiny, torch.zeros_like(kept), kept)
    return OPS.quantize_mx4(kept, group, ebits, mbits - 2, rounding, False, seed)  # type: ignore[no-any-return]


def _under_other_name_fake(
    values: Tensor, scale_bits: int, ebits: int, mbits: int, max_norm: float, group: int, flush: bool = False,
    rounding: int = 0,
) -> Tensor:  # fmt: skip
    groups = (values.shape[-1] + group - 1) // group
    return values.new_empty((*values.shape[:-1], groups * (group // 2 + 1)), dtype=torch.uint8)


register_op(
    "quantize_mx_cuda(Tensor input, int scale_bits, int elem_ebits, int elem_mbits, float elem_max_norm, "
    "int mx_group_size, bool flush_fp32_subnorms=False, int rounding_mode=0) -> Tensor",
    library=LIBRARY,
    fake=_under_other_name_fake,
    python=_under_other_name,
)
register_op(
    "dequantize_mx_cuda(Tensor input, int mx_group_size, int output_dtype=0) -> Tensor",
    library=LIBRARY,
    fake=lambda codes, group, dtype=0: _fake_back(codes, group, 2, 1).to(output_dtype("dequantize_mx_cuda", dtype)),
    python=lambda codes, group, dtype=0: OPS.dequantize_mx4(codes, group, 2, 1).to(
        output_dtype("dequantize_mx_cuda", dtype)
    ),
)
