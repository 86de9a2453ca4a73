"""AES for CUDA and XPU, in Triton. Imported when it is first needed, because it needs Triton.

The circuit is that of `_bitsliced.py`, on words of 64 bits that hold equal bits of four blocks; a program works on as
many such groups as its block has. The keys of rounds and the counters of blocks are made by torch.
"""

# Triton is not there on most machines, and its functions' arguments are of its own kinds.
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from flambeau.csprng.ops import _bitsliced
from flambeau.csprng.ops.crypt import CTR_DECRYPT, CTR_ENCRYPT, ECB_DECRYPT, _whole
from flambeau.csprng.ops.random_numbers import integers_of, normal_of, uniform_of, words_of

# Groups of four blocks that a program works on at once.
_GROUPS = 128


@triton.jit
def _swap(a, b, distance: tl.constexpr, mask: tl.constexpr):
    moved = ((a >> distance) ^ b) & mask
    return a ^ (moved << distance), b ^ moved


@triton.jit
def _transposed(a, b, c, d, e, f, g, h):
    a, b = _swap(a, b, 1, 0x5555555555555555)
    c, d = _swap(c, d, 1, 0x5555555555555555)
    e, f = _swap(e, f, 1, 0x5555555555555555)
    g, h = _swap(g, h, 1, 0x5555555555555555)
    a, c = _swap(a, c, 2, 0x3333333333333333)
    b, d = _swap(b, d, 2, 0x3333333333333333)
    e, g = _swap(e, g, 2, 0x3333333333333333)
    f, h = _swap(f, h, 2, 0x3333333333333333)
    a, e = _swap(a, e, 4, 0x0F0F0F0F0F0F0F0F)
    b, f = _swap(b, f, 4, 0x0F0F0F0F0F0F0F0F)
    c, g = _swap(c, g, 4, 0x0F0F0F0F0F0F0F0F)
    d, h = _swap(d, h, 4, 0x0F0F0F0F0F0F0F0F)
    return a, b, c, d, e, f, g, h


@triton.jit
def _times4(a, b, c, d):
    low = a & c
    return low ^ (b & d), ((a ^ b) & (c ^ d)) ^ low


@triton.jit
def _times16(a, b, c, d, p, q, r, s):
    low0, low1 = _times4(a, b, p, q)
    high0, high1 = _times4(c, d, r, s)
    both0, both1 = _times4(a ^ c, b ^ d, p ^ r, q ^ s)
    return low0 ^ high1, low1 ^ high0 ^ high1, both0 ^ low0, both1 ^ low1


@triton.jit
def _inverted(a, b, c, d, e, f, g, h):
    p, q, r, s = _times16(e, f, g, h, a, b, c, d)
    # Squares of both halves, that of the upper one times w z.
    p ^= g ^ a ^ b ^ d
    q ^= g ^ h ^ b ^ c
    r ^= f ^ g ^ h ^ c ^ d
    s ^= e ^ h ^ d
    x, y = _times4(r, s, p, q)
    x ^= s ^ p ^ q
    y ^= r ^ q
    x ^= y
    t, u = _times4(p ^ r, q ^ s, x, y)
    v, w = _times4(r, s, x, y)
    i, j, k, m = _times16(a ^ e, b ^ f, c ^ g, d ^ h, t, u, v, w)
    e, f, g, h = _times16(e, f, g, h, t, u, v, w)
    return i, j, k, m, e, f, g, h


@triton.jit
def _substituted(a, b, c, d, e, f, g, h):
    s, t, u, v = b ^ g, c ^ f, f ^ h, e ^ f
    w = d ^ s
    a, b, c, d, e, f, g, h = _inverted(a ^ c, h ^ s, t, h ^ w, b ^ u, s ^ v, w ^ e ^ t, u)
    s, t, u, v, w = c ^ e, a ^ f, a ^ b, d ^ f, d ^ e
    x = g ^ s
    return ~(s ^ t), ~(c ^ u), u, t ^ x, t ^ w, ~(s ^ v), ~(h ^ e ^ g), x


@triton.jit
def _substituted_back(a, b, c, d, e, f, g, h):
    a, b, f, g = ~a, ~b, ~f, ~g
    s, t, u, v = b ^ c, e ^ f, a ^ d, a ^ e
    w, x = h ^ s, d ^ t
    a, b, c, d, e, f, g, h = _inverted(s ^ t, b ^ t, s, s ^ v, w ^ u, w ^ x, u, g ^ w)
    s, t = b ^ d, f ^ g
    u = s ^ t
    v = c ^ u
    return a ^ u, e ^ h, u, s, h ^ b ^ f, v, c ^ d ^ e ^ t, h ^ v


@triton.jit
def _shifted(x, BACK: tl.constexpr):
    other = ((x >> 1) & 0x5555555555555555) | ((x & 0x5555555555555555) << 1)
    same = (x & 0x000000FF000000FF) | (other & 0x00FF000000FF0000)
    if BACK:
        up, down, up3, down3 = other, x, x, other
    else:
        up, down, up3, down3 = x, other, other, x
    second = ((up >> 32) & 0x000000000000FF00) | ((down << 32) & 0x0000FF0000000000)
    return same | second | ((down3 << 32) & -0x0100000000000000) | ((up3 >> 32) & 0x00000000FF000000)


@triton.jit
def _next_row(x):
    return ((x >> 8) & 0x00FFFFFF00FFFFFF) | ((x << 24) & -0x00FFFFFF01000000)


@triton.jit
def _opposite_row(x):
    return ((x >> 16) & 0x0000FFFF0000FFFF) | ((x << 16) & -0x0000FFFF00010000)


@triton.jit
def _mixed(a, b, c, d, e, f, g, h):
    na, nb, nc, nd = _next_row(a), _next_row(b), _next_row(c), _next_row(d)
    ne, nf, ng, nh = _next_row(e), _next_row(f), _next_row(g), _next_row(h)
    a, b, c, d, e, f, g, h = a ^ na, b ^ nb, c ^ nc, d ^ nd, e ^ ne, f ^ nf, g ^ ng, h ^ nh
    na ^= _opposite_row(a) ^ h
    nb ^= _opposite_row(b) ^ a ^ h
    nc ^= _opposite_row(c) ^ b
    nd ^= _opposite_row(d) ^ c ^ h
    ne ^= _opposite_row(e) ^ d ^ h
    nf ^= _opposite_row(f) ^ e
    ng ^= _opposite_row(g) ^ f
    nh ^= _opposite_row(h) ^ g
    return na, nb, nc, nd, ne, nf, ng, nh


@triton.jit
def _unmixed(a, b, c, d, e, f, g, h):
    p, q, r, s = a ^ _opposite_row(a), b ^ _opposite_row(b), c ^ _opposite_row(c), d ^ _opposite_row(d)
    t, u, v, w = e ^ _opposite_row(e), f ^ _opposite_row(f), g ^ _opposite_row(g), h ^ _opposite_row(h)
    return _mixed(a ^ v, b ^ v ^ w, c ^ p ^ w, d ^ q ^ v, e ^ r ^ v ^ w, f ^ s ^ w, g ^ t, h ^ u)


@triton.jit
def _added(keys, round, a, b, c, d, e, f, g, h):
    at = keys + 8 * round
    a, b, c, d = a ^ tl.load(at), b ^ tl.load(at + 1), c ^ tl.load(at + 2), d ^ tl.load(at + 3)
    e, f, g, h = e ^ tl.load(at + 4), f ^ tl.load(at + 5), g ^ tl.load(at + 6), h ^ tl.load(at + 7)
    return a, b, c, d, e, f, g, h


@triton.jit
def _cipher(source, target, keys, groups, ROUNDS: tl.constexpr, BACK: tl.constexpr, GROUPS: tl.constexpr):
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    there = group < groups
    at = source + 8 * group
    a, b = tl.load(at, mask=there, other=0), tl.load(at + 1, mask=there, other=0)
    c, d = tl.load(at + 2, mask=there, other=0), tl.load(at + 3, mask=there, other=0)
    e, f = tl.load(at + 4, mask=there, other=0), tl.load(at + 5, mask=there, other=0)
    g, h = tl.load(at + 6, mask=there, other=0), tl.load(at + 7, mask=there, other=0)
    a, b, c, d, e, f, g, h = _transposed(a, b, c, d, e, f, g, h)
    a, b, c, d, e, f, g, h = _added(keys, ROUNDS if BACK else 0, a, b, c, d, e, f, g, h)
    for step in range(1, ROUNDS + 1):
        if BACK:
            a, b, c, d = _shifted(a, True), _shifted(b, True), _shifted(c, True), _shifted(d, True)
            e, f, g, h = _shifted(e, True), _shifted(f, True), _shifted(g, True), _shifted(h, True)
            a, b, c, d, e, f, g, h = _substituted_back(a, b, c, d, e, f, g, h)
            a, b, c, d, e, f, g, h = _added(keys, ROUNDS - step, a, b, c, d, e, f, g, h)
            if step < ROUNDS:
                a, b, c, d, e, f, g, h = _unmixed(a, b, c, d, e, f, g, h)
        else:
            a, b, c, d, e, f, g, h = _substituted(a, b, c, d, e, f, g, h)
            a, b, c, d = _shifted(a, False), _shifted(b, False), _shifted(c, False), _shifted(d, False)
            e, f, g, h = _shifted(e, False), _shifted(f, False), _shifted(g, False), _shifted(h, False)
            if step < ROUNDS:
                a, b, c, d, e, f, g, h = _mixed(a, b, c, d, e, f, g, h)
            a, b, c, d, e, f, g, h = _added(keys, step, a, b, c, d, e, f, g, h)
    a, b, c, d, e, f, g, h = _transposed(a, b, c, d, e, f, g, h)
    at = target + 8 * group
    tl.store(at, a, mask=there)
    tl.store(at + 1, b, mask=there)
    tl.store(at + 2, c, mask=there)
    tl.store(at + 3, d, mask=there)
    tl.store(at + 4, e, mask=there)
    tl.store(at + 5, f, mask=there)
    tl.store(at + 6, g, mask=there)
    tl.store(at + 7, h, mask=there)


def _on(device: torch.device) -> Any:
    """Triton launches on the current device: make it the tensors' own."""
    return torch.get_device_module(device).device(device)


def _run(blocks: Tensor, keys: Tensor, back: bool) -> Tensor:
    """Whole blocks (count, 16), uint8, through the cipher or its inverse."""
    count = len(blocks)
    groups = triton.cdiv(count, 4)
    if 4 * groups != count:
        blocks = torch.cat([blocks, blocks.new_zeros(4 * groups - count, 16)])
    results = torch.empty_like(blocks)
    if count:
        sliced = _bitsliced.sliced_keys(keys)
        source, target = blocks.contiguous().view(torch.int64), results.view(torch.int64)
        with _on(blocks.device):
            _cipher[(triton.cdiv(groups, _GROUPS),)](
                source, target, sliced, groups, ROUNDS=len(keys) - 1, BACK=back, GROUPS=_GROUPS
            )
    return results[:count]


def _stream(key: Tensor, first: int, blocks: int, attempt: int) -> Tensor:
    counters = _bitsliced.counting_blocks(first, blocks, key.device, attempt)
    return _run(counters, _bitsliced.expand(key), back=False).flatten()


def _blocks(blocks: Tensor, key: Tensor, mode: int, iv: Tensor | None) -> Tensor:
    keys = _bitsliced.expand(key)
    if mode not in (CTR_ENCRYPT, CTR_DECRYPT):
        return _run(blocks, keys, back=mode == ECB_DECRYPT)
    if iv is None:
        counters = _bitsliced.counting_blocks(0, len(blocks), blocks.device)
    else:
        counters = _bitsliced.counting_blocks_from(iv, len(blocks))
    return blocks ^ _run(counters, keys, back=False)


def crypt(input: Tensor, output: Tensor, key: Tensor, key_bytes: int, mode: int, iv: Tensor | None) -> None:
    """`torch.ops.flambeau_csprng.crypt` on tensors of an accelerator."""
    _whole(_blocks, input, output, key, key_bytes, mode, iv)


def fill_integers(output: Tensor, key: Tensor, word_bytes: int, range: int, base: int, unbiased: bool) -> None:
    """`torch.ops.flambeau_csprng.fill_integers` on a tensor of an accelerator."""
    integers_of(_stream, output, key, word_bytes, range, base, unbiased)


def fill_uniform(output: Tensor, key: Tensor, low: float, width: float, limit: float) -> None:
    """`torch.ops.flambeau_csprng.fill_uniform` on a tensor of an accelerator."""
    uniform_of(_stream, output, key, low, width, limit)


def fill_normal(output: Tensor, key: Tensor, mean: float, deviation: float) -> None:
    """`torch.ops.flambeau_csprng.fill_normal` on a tensor of an accelerator."""
    normal_of(_stream, output, key, mean, deviation)


def random_words(key: Tensor, block: int, count: int) -> Tensor:
    """`torch.ops.flambeau_csprng.random_words` on an accelerator."""
    return words_of(_stream, key, block, count)
