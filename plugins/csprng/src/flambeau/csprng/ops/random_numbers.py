"""Random numbers of a key: words of the stream of AES-128, made integers, numbers of an interval or normal ones.

The stream is the cipher of blocks that count from 0 (little-endian in their first eight bytes, the rest zero), cut into
words of 2, 4 or 8 bytes, little-endian. Element i is made of word i alone, so that neither threads nor devices nor
layouts change it. The native kernels are `native/random_numbers.cpp` and `native/normal_numbers.cpp`, those for CUDA
and XPU are in `_aes_triton.py`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.csprng.ops import _bitsliced
from flambeau.csprng.ops._library import LIBRARY

__all__ = ["fill_integers", "fill_normal", "fill_uniform", "random_words"]

_INTEGERS = (
    torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64,
    torch.uint64,
)  # fmt: skip
# How native/random_numbers.cpp counts kinds of elements.
_KINDS = {torch.float32: 4, torch.float64: 5, torch.bool: 6} | {
    dtype: (0 if dtype.itemsize == 1 else dtype.itemsize.bit_length() - 1) for dtype in _INTEGERS
}
_LOW_53 = (1 << 53) - 1


def fill_integers(
    output: Tensor, key: Tensor, word_bytes: int, range: int, base: int = 0, *, unbiased: bool = False
) -> None:
    """Fill a tensor with `word mod range + base`.

    Args:
        output: any shape, without gaps; bool, integers, float32 or float64.
        key: (16,), uint8, on the output's device.
        word_bytes: 2, 4 or 8.
        range: how many values there are, 1 to 2^64.
        base: the least of them, -2^63 to 2^64 - 1.
        unbiased: reject words above the largest multiple of `range`, which make its lower values more frequent: by
            at most range / 2^(8 word_bytes) each. The next try takes the same word of another stream.

    Raises:
        RuntimeError: another dtype, shape or size of words.

    Example:
        >>> values = torch.empty(3, dtype=torch.int64)
        >>> fill_integers(values, torch.zeros(16, dtype=torch.uint8), 4, 6, 1)
        >>> values
        tensor([5, 4, 3])
    """
    torch.ops.flambeau_csprng.fill_integers(output, key, word_bytes, _signed(range), _signed(base), unbiased)


def fill_uniform(output: Tensor, key: Tensor, low: float, width: float, limit: float) -> None:
    """Fill a tensor with numbers `x * width + low`, x being the low 53 bits of a word of 64 times 2^-53.

    Args:
        output: any shape, without gaps, float32 or float64.
        key: (16,), uint8, on the output's device.
        low: the least number.
        width: from the least to the largest one, which rounding may give.
        limit: what numbers above become; exactly representable in the output's dtype.

    Raises:
        RuntimeError: another dtype or shape.

    Example:
        >>> values = torch.empty(3)
        >>> fill_uniform(values, torch.zeros(16, dtype=torch.uint8), 0.0, 1.0, 1.0)
        >>> values
        tensor([0.3920, 0.3502, 0.4724])
    """
    torch.ops.flambeau_csprng.fill_uniform(output, key, low, width, limit)


def fill_normal(output: Tensor, key: Tensor, mean: float, deviation: float) -> None:
    """Fill a tensor with normal numbers, element i from words 2 i and 2 i + 1 of 64 bits.

    They are `sqrt(-2 log(1 - b)) cos(2 pi a) * deviation + mean`, a and b being the low 53 bits of the two words times
    2^-53, in float64, rounded to the output's dtype. The native kernel's polynomials have relative errors of 1e-16 for
    float64 and 3e-11 for float32, so that few of the latter differ from the reference, and by one unit.

    Args:
        output: any shape, without gaps, float32 or float64.
        key: (16,), uint8, on the output's device.
        mean: of the distribution.
        deviation: its standard deviation.

    Raises:
        RuntimeError: another dtype or shape.

    Example:
        >>> values = torch.empty(3)
        >>> fill_normal(values, torch.zeros(16, dtype=torch.uint8), 0.0, 1.0)
        >>> values
        tensor([-0.7227, -1.1367,  0.3900])

    References:
        Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
    """
    torch.ops.flambeau_csprng.fill_normal(output, key, mean, deviation)


def random_words(key: Tensor, block: int, count: int) -> Tensor:
    """Words of 64 bits of a key's stream.

    Args:
        key: (16,), uint8.
        block: number of the block that the first word begins; each has two.
        count: how many words.

    Returns:
        (count,), int64, on the key's device.

    Raises:
        RuntimeError: another key, a negative number.

    Example:
        >>> random_words(torch.zeros(16, dtype=torch.uint8), 0, 2)
        tensor([4263935709876578662, 3326810793440857224])
    """
    return torch.ops.flambeau_csprng.random_words(key, block, count)  # type: ignore[no-any-return]


def _signed(number: int) -> int:
    """The number of 64 bits with a sign that has the same bits."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def check_key(op: str, key: Tensor) -> None:
    """The same sentence as native/random_numbers.cpp, here and below."""
    if key.dtype != torch.uint8 or key.shape != (16,):
        raise RuntimeError(
            f"{op}: key has dtype {key.dtype} and shape {tuple(key.shape)}, expected torch.uint8 and (16,)."
        )


def check_output(op: str, output: Tensor, key: Tensor, dtypes: str) -> None:
    """Device, gaps and dtype of what is filled."""
    check_key(op, key)
    if output.device != key.device:
        raise RuntimeError(f"{op}: output is on {output.device} and key on {key.device}, expected one device.")
    if not output.is_contiguous():
        raise RuntimeError(f"{op}: output has gaps; pass a contiguous tensor.")
    allowed = _KINDS if dtypes.startswith("bool") else (torch.float32, torch.float64)
    if output.dtype not in allowed:
        raise RuntimeError(f"{op}: output has dtype {output.dtype}, expected {dtypes}.")


def check_integers(output: Tensor, key: Tensor, word_bytes: int) -> None:
    """Arguments of `fill_integers`."""
    check_output("fill_integers", output, key, "bool, an integer dtype, float32 or float64")
    if word_bytes not in (2, 4, 8):
        raise RuntimeError(f"fill_integers: word_bytes is {word_bytes}, expected 2, 4 or 8.")


def check_words(key: Tensor, block: int, count: int) -> None:
    """Arguments of `random_words`."""
    check_key("random_words", key)
    if block < 0 or count < 0:
        raise RuntimeError(f"random_words: block is {block} and count {count}, expected 0 or more.")


def _fake_integers(output: Tensor, key: Tensor, word_bytes: int, range: int, base: int, unbiased: bool) -> None:
    check_integers(output, key, word_bytes)


def _fake_uniform(output: Tensor, key: Tensor, low: float, width: float, limit: float) -> None:
    check_output("fill_uniform", output, key, "float32 or float64")


def _fake_normal(output: Tensor, key: Tensor, mean: float, deviation: float) -> None:
    check_output("fill_normal", output, key, "float32 or float64")


def _fake_words(key: Tensor, block: int, count: int) -> Tensor:
    check_words(key, block, count)
    return key.new_empty(count, dtype=torch.int64)


Stream = Callable[[Tensor, int, int, int], Tensor]
"""Bytes of a key's stream: (key, first block, blocks, attempt) -> (16 * blocks,), uint8."""


def stream(key: Tensor, first: int, blocks: int, attempt: int = 0) -> Tensor:
    """Bytes of a key's stream, in plain torch."""
    counters = _bitsliced.counting_blocks(first, blocks, key.device, attempt)
    return _bitsliced.encrypt_blocks(counters, _bitsliced.expand(key)).flatten()


def integers_of(
    stream: Stream, output: Tensor, key: Tensor, word_bytes: int, range: int, base: int, unbiased: bool
) -> None:
    """`fill_integers` of a stream's bytes."""
    check_integers(output, key, word_bytes)
    count, bits = output.numel(), 8 * word_bytes
    if not count:
        return
    values = _words(stream, key, word_bytes, count, 0)
    span = range % (1 << 64) or 1 << 64
    usable = (1 << bits) // span * span
    if unbiased and span < 1 << bits and usable < 1 << bits:
        attempt = 0
        while (bad := _at_least(values, usable)).any():
            attempt += 1
            values = torch.where(bad, _words(stream, key, word_bytes, count, attempt), values)
    values = _remainder(values, span, bits) + base
    output.copy_(_stored(values, output.dtype).view(output.shape))


def uniform_of(stream: Stream, output: Tensor, key: Tensor, low: float, width: float, limit: float) -> None:
    """`fill_uniform` of a stream's bytes."""
    check_output("fill_uniform", output, key, "float32 or float64")
    if not output.numel():
        return
    words = _words(stream, key, 8, output.numel(), 0)
    values = (words & _LOW_53).to(torch.float64) * 2.0**-53 * width + low
    output.copy_(values.to(output.dtype).clamp_(max=limit).view(output.shape))


def normal_of(stream: Stream, output: Tensor, key: Tensor, mean: float, deviation: float) -> None:
    """`fill_normal` of a stream's bytes."""
    check_output("fill_normal", output, key, "float32 or float64")
    if not output.numel():
        return
    words = _words(stream, key, 8, 2 * output.numel(), 0).view(-1, 2)
    turn, radius = ((words & _LOW_53).to(torch.float64) * 2.0**-53).unbind(1)
    values = torch.sqrt(-2 * torch.log1p(-radius)) * torch.cos(2 * math.pi * turn) * deviation + mean
    output.copy_(values.view(output.shape))


def words_of(stream: Stream, key: Tensor, block: int, count: int) -> Tensor:
    """`random_words` of a stream's bytes."""
    check_words(key, block, count)
    return stream(key, block, -(-count // 2), 0).view(torch.int64)[:count].clone()


def _words(stream: Stream, key: Tensor, word_bytes: int, count: int, attempt: int) -> Tensor:
    """Words as int64: those of 64 bits with a sign, the others without."""
    made = stream(key, 0, -(-count * word_bytes // 16), attempt)
    dtype = {2: torch.int16, 4: torch.int32, 8: torch.int64}[word_bytes]
    words = made.view(dtype)[:count].to(torch.int64)
    return words if word_bytes == 8 else words & ((1 << 8 * word_bytes) - 1)


def _at_least(words: Tensor, bound: int) -> Tensor:
    """Comparison of words as numbers without a sign."""
    if bound < 1 << 63:
        return (words < 0) | (words >= bound)
    return (words < 0) & (words >= bound - (1 << 64))


def _remainder(words: Tensor, span: int, bits: int) -> Tensor:
    if span >= 1 << bits:
        return words
    if span & (span - 1) == 0:
        return words & (span - 1)
    if bits < 64:
        return words % span
    if span > 1 << 63:
        return torch.where(_at_least(words, span), words - _signed(span), words)
    # 2^63 + rest: a negative word is its low 63 bits and 2^63 more. The sum of both remainders may pass 2^63.
    low = (words & ((1 << 63) - 1)) % span
    more = (1 << 63) % span
    wrapped = torch.where(low >= span - more, low - (span - more), low + more)
    return torch.where(words < 0, wrapped, low)


def _stored(values: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype in (torch.uint16, torch.uint32, torch.uint64):  # of which torch has few functions
        signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}[dtype]
        return values.to(signed).view(dtype)
    return values != 0 if dtype == torch.bool else values.to(dtype)


def _integers(output: Tensor, key: Tensor, word_bytes: int, range: int, base: int, unbiased: bool) -> None:
    integers_of(stream, output, key, word_bytes, range, base, unbiased)


def _uniform(output: Tensor, key: Tensor, low: float, width: float, limit: float) -> None:
    uniform_of(stream, output, key, low, width, limit)


def _normal(output: Tensor, key: Tensor, mean: float, deviation: float) -> None:
    normal_of(stream, output, key, mean, deviation)


def _random_words(key: Tensor, block: int, count: int) -> Tensor:
    return words_of(stream, key, block, count)


_POINTER, _SIZE, _INT, _DOUBLE, _WORD = (
    ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_double, ctypes.c_uint64,
)  # fmt: skip


def _native_integers(output: Tensor, key: Tensor, word_bytes: int, range: int, base: int, unbiased: bool) -> None:
    """The native kernels through ctypes, where torch's dispatcher cannot call them directly."""
    check_integers(output, key, word_bytes)
    types = [_POINTER, _POINTER, _SIZE, _INT, _SIZE, _WORD, _WORD, _INT, _INT]
    LIBRARY.function("fb_fill_integers", types, _INT)(
        key.contiguous().data_ptr(), output.data_ptr(), output.numel(), _KINDS[output.dtype], word_bytes,
        range % (1 << 64), base % (1 << 64), unbiased, torch.get_num_threads(),
    )  # fmt: skip


def _native_uniform(output: Tensor, key: Tensor, low: float, width: float, limit: float) -> None:
    check_output("fill_uniform", output, key, "float32 or float64")
    types = [_POINTER, _POINTER, _SIZE, _INT, _DOUBLE, _DOUBLE, _DOUBLE, _INT]
    LIBRARY.function("fb_fill_uniform", types, _INT)(
        key.contiguous().data_ptr(), output.data_ptr(), output.numel(), _KINDS[output.dtype], low, width, limit,
        torch.get_num_threads(),
    )  # fmt: skip


def _native_normal(output: Tensor, key: Tensor, mean: float, deviation: float) -> None:
    check_output("fill_normal", output, key, "float32 or float64")
    LIBRARY.function("fb_fill_normal", [_POINTER, _POINTER, _SIZE, _INT, _DOUBLE, _DOUBLE, _INT], _INT)(
        key.contiguous().data_ptr(), output.data_ptr(), output.numel(), _KINDS[output.dtype], mean, deviation,
        torch.get_num_threads(),
    )  # fmt: skip


def _native_words(key: Tensor, block: int, count: int) -> Tensor:
    check_words(key, block, count)
    words = torch.empty(count, dtype=torch.int64)
    LIBRARY.function("fb_random_words", [_POINTER, _WORD, _POINTER, _SIZE, _INT], None)(
        key.contiguous().data_ptr(), block, words.data_ptr(), count, torch.get_num_threads()
    )
    return words


_operators: list[Any] = [
    register_op(
        "fill_integers(Tensor(a!) output, Tensor key, int word_bytes, int range, int base, bool unbiased) -> ()",
        library=LIBRARY,
        symbol=_native_integers,
        fake=_fake_integers,
        python=_integers,
        triton="flambeau.csprng.ops._aes_triton:fill_integers",
    ),
    register_op(
        "fill_uniform(Tensor(a!) output, Tensor key, float low, float width, float limit) -> ()",
        library=LIBRARY,
        symbol=_native_uniform,
        fake=_fake_uniform,
        python=_uniform,
        triton="flambeau.csprng.ops._aes_triton:fill_uniform",
    ),
    register_op(
        "fill_normal(Tensor(a!) output, Tensor key, float mean, float deviation) -> ()",
        library=LIBRARY,
        symbol=_native_normal,
        fake=_fake_normal,
        python=_normal,
        triton="flambeau.csprng.ops._aes_triton:fill_normal",
    ),
    register_op(
        "random_words(Tensor key, SymInt block, SymInt count) -> Tensor",
        library=LIBRARY,
        symbol=_native_words,
        fake=_fake_words,
        python=_random_words,
        triton="flambeau.csprng.ops._aes_triton:random_words",
    ),
]
