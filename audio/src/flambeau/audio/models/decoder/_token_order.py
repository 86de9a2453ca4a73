"""The order in which upstream numbers tokens for a language model of tokens.

Upstream: without a lexicon, tokens go through a hash table of the C++ library on their way to the language model, and
leave it in that table's order, while the search goes on counting them as they were given. Token 2 is thus scored as
whatever token lies third in the table. Results made with upstream can only be had again in that order.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["hash_table_order"]

_MASK = (1 << 64) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907
# Sizes that libstdc++ gives its tables.
_SIZES = (
    2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 103, 109, 113, 127,
    137, 139, 149, 157, 167, 179, 193, 199, 211, 227, 241, 257, 277, 293, 313, 337, 359, 383, 409, 439, 467, 503, 541,
    577, 619, 661, 709, 761, 823, 887, 953, 1031, 1109, 1193, 1289, 1381, 1493, 1613, 1741, 1879, 2029, 2179, 2357,
    2549, 2753, 2971, 3209, 3469, 3739, 4027, 4349, 4703, 5087, 5503, 5953, 6427, 6949, 7517, 8123, 8783, 9497, 10273,
    11113, 12011, 12983, 14033, 15173, 16411, 17749, 19183, 20753, 22447, 24281, 26267, 28411, 30727, 33223, 35933,
    38873, 42043, 45481, 49201, 53201, 57557, 62233, 67307, 72817, 78779, 85229, 92203, 99733,
)  # fmt: skip


def hash_table_order(entries: Sequence[str]) -> list[str]:
    """Entries in the order of libstdc++'s `std::unordered_map`, made for their number and filled one by one.

    More than 99,733 entries stay in their own order.

    Example:
        >>> hash_table_order(["-", "|", "a", "b", "c", "d", "<unk>"])
        ['<unk>', 'a', 'd', 'b', '|', 'c', '-']
    """
    size = next((size for size in _SIZES if size >= len(entries)), None)
    if size is None:
        return list(entries)
    # A new bucket goes to the front of the table's list, and so does an entry within its bucket.
    buckets: dict[int, list[str]] = {}
    for entry in entries:
        buckets.setdefault(_hash(entry) % size, []).append(entry)
    return [entry for bucket in reversed(buckets.values()) for entry in reversed(bucket)]


def _hash(text: str) -> int:
    """MurmurHash64A (Appleby, public domain) of the text in UTF-8, as `std::hash<std::string>` has it."""
    data = text.encode()
    whole = len(data) - len(data) % 8
    state = _SEED ^ (len(data) * _MULTIPLIER & _MASK)
    for at in range(0, whole, 8):
        block = _mixed(int.from_bytes(data[at : at + 8], "little") * _MULTIPLIER & _MASK) * _MULTIPLIER & _MASK
        state = (state ^ block) * _MULTIPLIER & _MASK
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    return _mixed(_mixed(state) * _MULTIPLIER & _MASK)


def _mixed(value: int) -> int:
    return value ^ (value >> 47)
