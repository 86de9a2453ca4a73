"""AES on tensors in plain torch: no tables, no branches, bits of four blocks in each word of 64.

`native/aes_bitsliced.cpp` is the same in C++ and says how bits lie and which fields the S-box inverts in;
`_aes_triton.py` is the same in Triton. Here the eight words of equal bits are a list of int64 tensors (groups,), each
group having four blocks. Shifts to the right keep the sign, so that each is followed by a mask.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["counting_blocks", "counting_blocks_from", "decrypt_blocks", "encrypt_blocks", "expand", "sliced_keys"]

Four = tuple[Tensor, Tensor]
Sixteen = tuple[Tensor, Tensor, Tensor, Tensor]
Words = list[Tensor]


def encrypt_blocks(blocks: Tensor, keys: Tensor) -> Tensor:
    """The cipher of blocks (FIPS 197, section 5.1).

    Args:
        blocks: (count, 16), uint8.
        keys: (rounds + 1, 16), uint8, of `expand`.

    Returns:
        (count, 16), uint8.
    """
    words, sliced = _sliced(blocks), sliced_keys(keys).unbind()
    words = _added(words, sliced[0])
    for number, key in enumerate(sliced[1:], start=1):
        words = [_shifted(word) for word in _substituted(words)]
        if number < len(sliced) - 1:
            words = _mixed(words)
        words = _added(words, key)
    return _joined(words, len(blocks))


def decrypt_blocks(blocks: Tensor, keys: Tensor) -> Tensor:
    """The inverse of `encrypt_blocks`, whose arguments and result it shares (FIPS 197, section 5.3)."""
    words, sliced = _sliced(blocks), sliced_keys(keys).unbind()
    for number in range(len(sliced) - 1, 0, -1):
        words = _added(words, sliced[number])
        if number < len(sliced) - 1:
            words = _unmixed(words)
        words = _substituted_back([_shifted_back(word) for word in words])
    return _joined(_added(words, sliced[0]), len(blocks))


def expand(key: Tensor) -> Tensor:
    """The keys of all rounds (FIPS 197, section 5.2).

    Args:
        key: (16,), (24,) or (32,), uint8.

    Returns:
        (11, 16), (13, 16) or (15, 16), uint8, on the same device.
    """
    size = len(key) // 4
    words, constant = list(key.reshape(size, 4).unbind()), 1
    for number in range(size, 4 * (size + 7)):
        word = words[-1]
        if number % size == 0:
            word = _substituted_bytes(word.roll(-1))
            word = torch.cat([word[:1] ^ constant, word[1:]])
            constant = (constant << 1) ^ ((constant >> 7) * 0x11B)
        elif size > 6 and number % size == 4:
            word = _substituted_bytes(word)
        words.append(words[-size] ^ word)
    return torch.stack(words).view(-1, 16)


def counting_blocks(first: int, count: int, device: torch.device, attempt: int = 0) -> Tensor:
    """Blocks (count, 16) that count from `first`: eight bytes little-endian, then eight with the attempt's number."""
    numbers = torch.arange(first, first + count, dtype=torch.int64, device=device)
    return torch.stack([numbers, torch.full_like(numbers, attempt)], dim=1).view(torch.uint8)


def counting_blocks_from(initial: Tensor, count: int) -> Tensor:
    """Blocks (count, 16) that count upwards from an initial one, big-endian (NIST SP 800-38A, appendix B.1)."""
    digits = initial.to(torch.int64)
    carry = torch.arange(count, dtype=torch.int64, device=initial.device)
    columns = []
    for byte in range(15, -1, -1):
        total = digits[byte] + carry
        columns.append((total & 255).to(torch.uint8))
        carry = total >> 8
    return torch.stack(columns[::-1], dim=1)


# Words of bytes and words of bits


def _sliced(blocks: Tensor) -> Words:
    missing = -len(blocks) % 4
    if missing:
        blocks = torch.cat([blocks, blocks.new_zeros(missing, 16)])
    return _transposed(list(blocks.contiguous().view(torch.int64).view(-1, 8).unbind(1)))


def _joined(words: Words, count: int) -> Tensor:
    return torch.stack(_transposed(words), dim=1).view(torch.uint8).view(-1, 16)[:count]


def sliced_keys(keys: Tensor) -> Tensor:
    """Words of every round's key, (rounds + 1, 8), int64, the same for all groups of blocks."""
    repeated = keys.view(-1, 1, 16).expand(-1, 4, 16).reshape(-1, 16)
    return torch.stack(_sliced(repeated), dim=1)


def _transposed(words: Words) -> Words:
    words = list(words)
    for distance, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        for i in range(8):
            if not i & distance:
                moved = ((words[i] >> distance) ^ words[i + distance]) & mask
                words[i] = words[i] ^ (moved << distance)
                words[i + distance] = words[i + distance] ^ moved
    return words


def _added(words: Words, key: Iterable[Tensor]) -> Words:
    return [word ^ each for word, each in zip(words, key, strict=True)]


# The S-box: inversion in a tower of fields


def _times4(x: Four, y: Four) -> Four:
    low = x[0] & y[0]
    return low ^ (x[1] & y[1]), ((x[0] ^ x[1]) & (y[0] ^ y[1])) ^ low


def _times16(x: Sixteen, y: Sixteen) -> Sixteen:
    low = _times4(x[:2], y[:2])
    high = _times4(x[2:], y[2:])
    both = _times4((x[0] ^ x[2], x[1] ^ x[3]), (y[0] ^ y[2], y[1] ^ y[3]))
    return low[0] ^ high[1], low[1] ^ high[0] ^ high[1], both[0] ^ low[0], both[1] ^ low[1]


def _inverse16(x: Sixteen) -> Sixteen:
    product = _times4(x[2:], x[:2])
    norm = (product[0] ^ x[3] ^ x[0] ^ x[1], product[1] ^ x[2] ^ x[1])
    inverted = (norm[0] ^ norm[1], norm[1])
    return _times4((x[0] ^ x[2], x[1] ^ x[3]), inverted) + _times4(x[2:], inverted)


def _inverted(x: Words) -> Words:
    low, high = (x[0], x[1], x[2], x[3]), (x[4], x[5], x[6], x[7])
    a, b, c, d = _times16(high, low)
    # Squares of both halves, that of the upper one times w z.
    norm = (
        a ^ x[6] ^ x[0] ^ x[1] ^ x[3],
        b ^ x[6] ^ x[7] ^ x[1] ^ x[2],
        c ^ x[5] ^ x[6] ^ x[7] ^ x[2] ^ x[3],
        d ^ x[4] ^ x[7] ^ x[3],
    )
    inverted = _inverse16(norm)
    both = (x[0] ^ x[4], x[1] ^ x[5], x[2] ^ x[6], x[3] ^ x[7])
    return [*_times16(both, inverted), *_times16(high, inverted)]


def _substituted(x: Words) -> Words:
    a, b, d, e = x[1] ^ x[6], x[2] ^ x[5], x[5] ^ x[7], x[4] ^ x[5]
    c = x[3] ^ a
    x = _inverted([x[0] ^ x[2], x[7] ^ a, b, x[7] ^ c, x[1] ^ d, a ^ e, c ^ x[4] ^ b, d])
    a, b, c, e, f = x[2] ^ x[4], x[0] ^ x[5], x[0] ^ x[1], x[3] ^ x[5], x[3] ^ x[4]
    d = x[6] ^ a
    return [~(a ^ b), ~(x[2] ^ c), c, b ^ d, b ^ f, ~(a ^ e), ~(x[7] ^ x[4] ^ x[6]), d]


def _substituted_back(x: Words) -> Words:
    x = [~x[0], ~x[1], x[2], x[3], x[4], ~x[5], ~x[6], x[7]]
    a, b, d, e = x[1] ^ x[2], x[4] ^ x[5], x[0] ^ x[3], x[0] ^ x[4]
    c, f = x[7] ^ a, x[3] ^ b
    x = _inverted([a ^ b, x[1] ^ b, a, a ^ e, c ^ d, c ^ f, d, x[6] ^ c])
    a, b = x[1] ^ x[3], x[5] ^ x[6]
    c = a ^ b
    d = x[2] ^ c
    return [x[0] ^ c, x[4] ^ x[7], c, a, x[7] ^ x[1] ^ x[5], d, x[2] ^ x[3] ^ x[4] ^ b, x[7] ^ d]


def _substituted_bytes(values: Tensor) -> Tensor:
    """The S-box of some bytes, in the first of four blocks."""
    block = torch.cat([values, values.new_zeros(16 - len(values))]).view(1, 16)
    return _joined(_substituted(_sliced(block)), 1)[0, : len(values)]


# Rows and columns


def _shifted(x: Tensor) -> Tensor:
    other = ((x >> 1) & 0x5555555555555555) | ((x & 0x5555555555555555) << 1)
    first = (x & 0x000000FF000000FF) | (other & 0x00FF000000FF0000) | ((x >> 32) & 0x000000000000FF00)
    second = ((other << 32) & 0x0000FF0000000000) | ((x << 32) & _LAST_BYTE) | ((other >> 32) & 0x00000000FF000000)
    return first | second


def _shifted_back(x: Tensor) -> Tensor:
    other = ((x >> 1) & 0x5555555555555555) | ((x & 0x5555555555555555) << 1)
    first = (x & 0x000000FF000000FF) | (other & 0x00FF000000FF0000) | ((other >> 32) & 0x000000000000FF00)
    second = ((x << 32) & 0x0000FF0000000000) | ((other << 32) & _LAST_BYTE) | ((x >> 32) & 0x00000000FF000000)
    return first | second


def _next_row(x: Tensor) -> Tensor:
    return ((x >> 8) & 0x00FFFFFF00FFFFFF) | ((x << 24) & (_LAST_BYTE | 0x00000000FF000000))


def _opposite_row(x: Tensor) -> Tensor:
    return ((x >> 16) & 0x0000FFFF0000FFFF) | ((x << 16) & (_LAST_BYTE | 0x00FF0000FFFF0000))


def _mixed(x: Words) -> Words:
    following = [_next_row(word) for word in x]
    sums = [word ^ other for word, other in zip(x, following, strict=True)]
    mixed = [following[i] ^ _opposite_row(sums[i]) ^ sums[i - 1] for i in range(8)]
    for i in (1, 3, 4):  # x^8 = x^4 + x^3 + x + 1
        mixed[i] = mixed[i] ^ sums[7]
    return mixed


def _unmixed(x: Words) -> Words:
    sums = [word ^ _opposite_row(word) for word in x]
    # A product with 4 x^2 + 5, after which the inverse is the same.
    products = [
        sums[6], sums[6] ^ sums[7], sums[0] ^ sums[7], sums[1] ^ sums[6], sums[2] ^ sums[6] ^ sums[7],
        sums[3] ^ sums[7], sums[4], sums[5],
    ]  # fmt: skip
    return _mixed(_added(x, products))


# 0xff00000000000000, which is negative in 64 bits.
_LAST_BYTE = -0x0100000000000000
