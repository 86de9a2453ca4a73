"""Tensors filled from a generator: one new key for each call, and element i made of the key and i alone.

Integers, uniform and normal numbers have kernels of their own. The other distributions are made of words of 64
bits in float64, a stretch of elements at a time, and rounded to the tensor's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from flambeau.csprng.generators import Generator, aes128_key_tensor
from flambeau.csprng.ops.random_numbers import fill_integers, fill_normal, fill_uniform, random_words

__all__ = [
    "VALUES", "bernoulli", "cauchy", "exponential", "geometric", "integers", "log_normal", "multinomial", "normal",
    "permutation", "random", "uniform",
]  # fmt: skip

# How many values `random_()` has: all that a float can count to, and what is not negative of an integer.
VALUES = {
    torch.bool: 2, torch.uint8: 1 << 8, torch.uint16: 1 << 16, torch.uint32: 1 << 32, torch.uint64: 1 << 64,
    torch.int8: 1 << 7, torch.int16: 1 << 15, torch.int32: 1 << 31, torch.int64: 1 << 63,
    torch.float16: (1 << 11) + 1, torch.bfloat16: (1 << 8) + 1, torch.float32: (1 << 24) + 1,
    torch.float64: (1 << 53) + 1,
}  # fmt: skip
_LONG = (torch.float64, torch.int64, torch.uint64)
_HALF = (torch.float16, torch.bfloat16)
_RANGED_LONG = (torch.int64, torch.uint64, torch.float64, torch.float32, torch.bfloat16)
_LOW_53 = (1 << 53) - 1
# Elements made at once: their words and numbers stay in the caches.
_STRETCH = 1 << 16


def random(tensor: Tensor, generator: Generator) -> None:
    """Every value of the dtype alike, as `random_()` has it: integers that are not negative, floats that count."""
    word_bytes = 8 if tensor.dtype in _LONG else 2 if tensor.dtype in _HALF else 4
    _fill_integers(tensor, generator, word_bytes, VALUES[tensor.dtype], 0)


def integers(tensor: Tensor, low: int, high: int, generator: Generator) -> None:
    """Integers from `low` up to, but without, `high`."""
    _fill_integers(tensor, generator, 8 if tensor.dtype in _RANGED_LONG else 4, high - low, low)


def uniform(tensor: Tensor, low: float, high: float, generator: Generator) -> None:
    """Numbers of [low, high): what rounding would make `high` is the largest number of the dtype below it."""
    limit = _below(high, tensor.dtype) if low < high else float(torch.tensor(low, dtype=tensor.dtype))
    limit = max(limit, float(torch.tensor(low, dtype=tensor.dtype)))
    width = high - low
    if tensor.dtype in (torch.float32, torch.float64) and _is_plain(tensor):
        fill_uniform(tensor, _key(generator, tensor), low, width, limit)
        _changed(tensor)
        return
    _fill(tensor, generator, 1, lambda words: (_unit(words) * width + low).to(tensor.dtype).clamp_(max=limit))


def normal(tensor: Tensor, mean: float, std: float, generator: Generator) -> None:
    """The normal distribution, by Box and Muller (1958)."""
    if tensor.dtype in (torch.float32, torch.float64):
        plain = _is_plain(tensor)
        target = tensor if plain else torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        fill_normal(target, _key(generator, tensor), mean, std)
        _changed(tensor) if plain else tensor.copy_(target)
        return
    _fill(tensor, generator, 2, lambda words: _normal(words) * std + mean)


def log_normal(tensor: Tensor, mean: float, std: float, generator: Generator) -> None:
    """What the exponential function makes of a normal distribution."""
    _fill(tensor, generator, 2, lambda words: (_normal(words) * std + mean).exp_())


def cauchy(tensor: Tensor, median: float, sigma: float, generator: Generator) -> None:
    """The distribution of Cauchy, by inversion."""
    _fill(tensor, generator, 1, lambda words: torch.tan(math.pi * (_unit(words) - 0.5)) * sigma + median)


def exponential(tensor: Tensor, rate: float, generator: Generator) -> None:
    """The exponential distribution, by inversion; 1 - x is never 0, and the result not infinite."""
    _fill(tensor, generator, 1, lambda words: torch.log1p(-_unit(words)) / -rate)


def geometric(tensor: Tensor, p: float, generator: Generator) -> None:
    """How many tries of probability `p` it takes to succeed, by inversion."""
    word_bytes = 8 if tensor.dtype in _LONG else 2 if tensor.dtype in _HALF else 4
    bits = {8: 53, 4: 24, 2: 16}[word_bytes]
    # Of 0, whose logarithm is not finite, the least other value takes the place.
    least, scale = 2.0**-bits, math.log1p(-p)

    def tries(words: Tensor) -> Tensor:
        unit = (words & ((1 << bits) - 1)).to(torch.float64).mul_(least).clamp_(min=least)
        return torch.ceil(unit.log_() / scale)

    _fill(tensor, generator, 1, tries, word_bytes=word_bytes)


def bernoulli(tensor: Tensor, probabilities: float | Tensor, generator: Generator) -> None:
    """1 with a probability, one for all or one for each element, else 0."""
    if not isinstance(probabilities, Tensor):
        _fill(tensor, generator, 1, lambda words: _unit(words) < probabilities)
        return
    drawn = torch.empty(tensor.shape, dtype=torch.float64, device=tensor.device)
    uniform(drawn, 0.0, 1.0, generator)
    tensor.copy_(drawn < probabilities.expand(tensor.shape))


def permutation(tensor: Tensor, generator: Generator) -> None:
    """The numbers from 0 in a random order: that of as many words of 64 bits."""
    words = random_words(_key(generator, tensor), 0, tensor.numel())
    tensor.copy_(torch.argsort(words, stable=True))


def multinomial(weights: Tensor, count: int, replacement: bool, generator: Generator) -> Tensor:
    """Positions drawn by their weights, (..., count), int64: the largest weights over exponential numbers."""
    if not replacement:
        drawn = torch.empty(weights.shape, dtype=torch.float64, device=weights.device)
        exponential(drawn, 1.0, generator)
        return torch.topk(weights.double() / drawn, count, dim=-1).indices
    drawn = torch.empty((*weights.shape[:-1], count), dtype=torch.float64, device=weights.device)
    uniform(drawn, 0.0, 1.0, generator)
    steps = weights.double().cumsum(-1)
    return torch.searchsorted(steps, drawn * steps[..., -1:], right=True)


def _key(generator: Generator, tensor: Tensor) -> Tensor:
    return aes128_key_tensor(generator).to(tensor.device)


def _is_plain(tensor: Tensor) -> bool:
    """Whether a kernel may write into the tensor's memory, and no gradient needs to know."""
    return tensor.is_contiguous() and not (tensor.requires_grad and torch.is_grad_enabled())


def _changed(tensor: Tensor) -> None:
    torch.autograd.graph.increment_version(tensor)


def _fill_integers(tensor: Tensor, generator: Generator, word_bytes: int, values: int, base: int) -> None:
    key, unbiased = _key(generator, tensor), generator.unbiased
    if tensor.dtype not in _HALF and _is_plain(tensor):
        fill_integers(tensor, key, word_bytes, values, base, unbiased=unbiased)
        _changed(tensor)
        return
    dtype = torch.int64 if tensor.dtype in _HALF else tensor.dtype
    made = torch.empty(tensor.shape, dtype=dtype, device=tensor.device)
    fill_integers(made, key, word_bytes, values, base, unbiased=unbiased)
    tensor.copy_(made)


def _fill(
    tensor: Tensor, generator: Generator, words_each: int, make: Callable[[Tensor], Tensor], word_bytes: int = 8
) -> None:
    """Fill with what `make` makes of words (elements, words_each) of 64 bits, or (elements,) where that is 1."""
    key, count = _key(generator, tensor), tensor.numel()
    plain = _is_plain(tensor)
    target = tensor.view(-1) if plain else torch.empty(count, dtype=tensor.dtype, device=tensor.device)
    per_block = 16 // word_bytes // words_each
    for begin in range(0, count, _STRETCH):
        size = min(_STRETCH, count - begin)
        words = random_words(key, begin // per_block, -(-size * words_each * word_bytes // 8))
        if word_bytes != 8:
            words = words.view(torch.int32 if word_bytes == 4 else torch.int16)[:size].to(torch.int64)
        target[begin : begin + size] = make(words.view(size, words_each) if words_each > 1 else words)
    if not plain:
        tensor.copy_(target.view(tensor.shape))


def _unit(words: Tensor) -> Tensor:
    """Numbers of [0, 1) from the low 53 bits of words."""
    return (words & _LOW_53).to(torch.float64).mul_(2.0**-53)


def _normal(words: Tensor) -> Tensor:
    turn, radius = _unit(words[:, 0]), _unit(words[:, 1])
    return torch.sqrt(-2 * torch.log1p(-radius)) * torch.cos((2 * math.pi) * turn)


def _below(number: float, dtype: torch.dtype) -> float:
    """The largest number of a dtype below another number."""
    rounded = torch.tensor(number, dtype=dtype)
    if float(rounded) >= number:
        rounded = torch.nextafter(rounded, torch.tensor(-math.inf, dtype=dtype))
    return float(rounded)
