"""Skipping padding: the real tokens of a batch are gathered once, worked on as rows, and put back once.

Linear layers and normalizations treat each token alone, so they need no padding. Attention mixes the tokens of a
sequence: on CPUs, sequences of one length attend together, without padding and without a mask; elsewhere, where a
kernel's launch costs more than the padding does, they are put back for it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["Places", "Plan", "attend", "attention_mask", "is_traced", "plan"]


class Places:
    """Where the real tokens of a batch are, to take them out of (N, T, C) and put them back.

    Rows are sorted by the length of their sequence, so that those of one length are one block.

    Args:
        real: (N, T), True where there is a token and no padding.
        by_length: attend length by length; otherwise `groups` is None.
    """

    def __init__(self, real: Tensor, *, by_length: bool) -> None:
        self.shape = real.shape
        lengths, order = real.sum(1).sort(stable=True)
        found = real[order].flatten().nonzero().squeeze(1)
        width = max(real.shape[1], 1)
        self.rows = order[found // width] * width + found % width
        self.groups: list[tuple[int, int]] | None = None
        if by_length:
            values, counts = lengths.unique_consecutive(return_counts=True)
            pairs = zip(counts.tolist(), values.tolist(), strict=True)
            self.groups = [(count, length) for count, length in pairs if length]

    def pack(self, x: Tensor) -> Tensor:
        """(N, T, C) -> (M, C)."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, rows: Tensor) -> Tensor:
        """(M, C) -> (N, T, C), 0 at padding."""
        whole = rows.new_zeros(self.shape[0] * self.shape[1], rows.shape[1])
        return whole.index_copy(0, self.rows, rows).view(*self.shape, rows.shape[1])


class Plan(NamedTuple):
    """How a batch is worked on.

    Attributes:
        places: of the real tokens, None where all of the batch is worked on.
        mask: for attention, None where every key counts.
        reason: why.
        hidden: (N, T, 1), True at padding that is worked on.
    """

    places: Places | None
    mask: Tensor | None
    reason: str
    hidden: Tensor | None = None

    def begin(self, x: Tensor) -> Tensor:
        """What is worked on of (N, T, C)."""
        return x if self.places is None else self.places.pack(x)

    def end(self, x: Tensor) -> Tensor:
        """(N, T, C) of what was worked on, 0 at padding whichever way it went."""
        if self.places is not None:
            return self.places.unpack(x)
        return x if self.hidden is None else x.masked_fill(self.hidden, 0.0)


def plan(real: Tensor, attn_mask: Tensor | None, dtype: torch.dtype) -> Plan:
    """Decide whether to skip padding.

    Args:
        real: (N, T), True where there is a token and no padding.
        attn_mask: (T, T), True where a key is hidden, or floats that are added to the scores.
        dtype: of the scores.
    """
    if is_traced():
        reason = "within a graph, where sizes may not depend on values, padding is masked"
        return Plan(None, attention_mask(real, attn_mask, dtype), reason, ~real[..., None])
    if real.is_meta:
        reason = "tensors without values have no padding to find"
        return Plan(None, attention_mask(real, attn_mask, dtype), reason, ~real[..., None])
    if bool(real.all()):
        return Plan(None, attention_mask(None, attn_mask, dtype), "there is no padding to skip")
    if real.device.type == "cpu" and attn_mask is None:
        return Plan(Places(real, by_length=True), None, "padding is skipped; sequences attend length by length")
    places = Places(real, by_length=False)
    return Plan(places, attention_mask(real, attn_mask, dtype), "padding is skipped by all but attention, which masks")


def attend(
    q: Tensor, k: Tensor, v: Tensor, heads: int, mask: Tensor | None, places: Places | None, dropout: float
) -> Tensor:
    """Multi-head attention of sequences to themselves.

    Args:
        q: queries (N, T, C), or packed (M, C).
        k: keys, likewise.
        v: values, likewise.
        heads: a divisor of C.
        mask: as `attention_mask` makes it.
        places: of packed rows.
        dropout: of the weights.

    Returns:
        The shape of `q`.
    """
    if places is None:
        return _attend(q, k, v, heads, mask, dropout)
    if places.groups is None:
        return places.pack(_attend(places.unpack(q), places.unpack(k), places.unpack(v), heads, mask, dropout))
    mixed, start = [], 0
    for count, length in places.groups:
        block = slice(start, start + count * length)
        query, key, value = (x[block].unflatten(0, (count, length)) for x in (q, k, v))
        mixed.append(_attend(query, key, value, heads, None, dropout).flatten(0, 1))
        start += count * length
    return torch.cat(mixed) if mixed else v[:0]


def _attend(q: Tensor, k: Tensor, v: Tensor, heads: int, mask: Tensor | None, dropout: float) -> Tensor:
    q, k, v = (x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout).transpose(1, 2).flatten(2)


def attention_mask(real: Tensor | None, attn_mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """What `scaled_dot_product_attention` takes, of which keys are real and a mask that is True where a key is hidden.

    Raises:
        TypeError: the mask is neither bool nor float.
    """
    keys = None if real is None else real[:, None, None, :]
    if attn_mask is None:
        return keys
    if attn_mask.dtype == torch.bool:
        visible = ~attn_mask
        return visible if keys is None else visible & keys
    if not attn_mask.is_floating_point():
        raise TypeError(f"attn_mask has dtype {attn_mask.dtype}, expected bool (True hides) or floats (added).")
    added = attn_mask.to(dtype)
    return added if keys is None else added.masked_fill(~keys, -torch.inf)


def is_traced() -> bool:
    """Whether a graph is being made."""
    return torch.compiler.is_compiling() or torch.compiler.is_exporting()
