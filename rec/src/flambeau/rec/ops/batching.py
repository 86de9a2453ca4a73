"""Requests with several ads each, put from (request, feature, ad) into (feature, request, ad) order for one look-up.

The native kernels are in `native/batching.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS

__all__ = [
    "cat_reorder_batched_ad_indices",
    "reorder_batched_ad_indices",
    "reorder_batched_ad_lengths",
    "reorder_batched_sequence_embeddings",
]


def reorder_batched_ad_lengths(
    cat_ad_lengths: Tensor,
    batch_offsets: Tensor,
    num_ads_in_batch: int,
    broadcast_lengths: bool = False,
    max_batch_size: int = 0,
) -> Tensor:
    """Put lengths of R requests with A ads and T features into the order of features.

    Args:
        cat_ad_lengths: (T * A,) any dtype, request by request: of each feature, the lengths of its ads; with
            `broadcast_lengths` (T * R,): one for all of its ads.
        batch_offsets: (R + 1,) int32 or int64: where the ads of each request begin.
        num_ads_in_batch: A.
        broadcast_lengths: whether the ads of a request share its lengths.
        max_batch_size: ads to make room for in each feature; lengths of those that there are not are 0. 0: A.

    Returns:
        (T * A,): of each feature, the lengths of all ads; or (T * `max_batch_size`,).

    Raises:
        RuntimeError: numbers that do not fit, other shapes or dtypes.

    Example:
        >>> lengths = torch.tensor([1, 2, 3, 4, 5, 6])  # two ads, then one; of each, two features
        >>> reorder_batched_ad_lengths(lengths, torch.tensor([0, 2, 3]), 3)
        tensor([1, 2, 5, 3, 4, 6])
    """
    return OPS.reorder_batched_ad_lengths(  # type: ignore[no-any-return]
        cat_ad_lengths, batch_offsets, num_ads_in_batch, broadcast_lengths, max_batch_size
    )


def reorder_batched_ad_indices(
    cat_ad_offsets: Tensor,
    cat_ad_indices: Tensor,
    reordered_cat_ad_offsets: Tensor,
    batch_offsets: Tensor,
    num_ads_in_batch: int,
    broadcast_indices: bool = False,
    num_indices_after_broadcast: int = -1,
) -> Tensor:
    """Put the indices that belong to `reorder_batched_ad_lengths` into the order of features.

    Args:
        cat_ad_offsets: where the indices of each length begin, and where the last end.
        cat_ad_indices: (L,), any dtype.
        reordered_cat_ad_offsets: (T * A + 1,) the same for the lengths in their new order.
        batch_offsets: (R + 1,) where the ads of each request begin.
        num_ads_in_batch: A.
        broadcast_indices: whether the ads of a request share its indices, which are repeated then.
        num_indices_after_broadcast: how many there are then.

    Returns:
        (L,) or (`num_indices_after_broadcast`,). Gradients flow to floating items.

    Raises:
        RuntimeError: offsets that lead outside, numbers that do not fit, other shapes or dtypes.
    """
    return OPS.reorder_batched_ad_indices(  # type: ignore[no-any-return]
        cat_ad_offsets, cat_ad_indices, reordered_cat_ad_offsets, batch_offsets, num_ads_in_batch, broadcast_indices,
        num_indices_after_broadcast,
    )  # fmt: skip


def cat_reorder_batched_ad_indices(
    cat_ad_offsets: Tensor,
    cat_ad_indices: Sequence[Tensor],
    reordered_cat_ad_offsets: Tensor,
    batch_offsets: Tensor,
    num_ads_in_batch: int,
    broadcast_indices: bool,
    total_num_indices: int,
    pinned_memory: bool = False,
    max_batch_size: int = 0,
) -> Tensor:
    """`reorder_batched_ad_indices` of several tensors, which are joined.

    Args:
        cat_ad_offsets: as for `reorder_batched_ad_indices`, like those below that are not named here.
        cat_ad_indices: tensors (L_i,) of one dtype.
        reordered_cat_ad_offsets: alike.
        batch_offsets: alike.
        num_ads_in_batch: alike.
        broadcast_indices: alike.
        total_num_indices: indices of the result.
        pinned_memory: whether the result lies in memory that an accelerator copies from by itself.
        max_batch_size: not read.
    """
    return OPS.cat_reorder_batched_ad_indices(  # type: ignore[no-any-return]
        cat_ad_offsets, cat_ad_indices, reordered_cat_ad_offsets, batch_offsets, num_ads_in_batch, broadcast_indices,
        total_num_indices, pinned_memory, max_batch_size,
    )  # fmt: skip


def reorder_batched_sequence_embeddings(
    cat_sequence_embeddings_offsets: Tensor,
    cat_sequence_embeddings: Tensor,
    reordered_cat_sequence_embeddings_offsets: Tensor,
    batch_offsets: Tensor,
    num_items_in_batch: int,
) -> Tensor:
    """`reorder_batched_ad_indices` of embeddings (L, D)."""
    return OPS.reorder_batched_sequence_embeddings(  # type: ignore[no-any-return]
        cat_sequence_embeddings_offsets, cat_sequence_embeddings, reordered_cat_sequence_embeddings_offsets,
        batch_offsets, num_items_in_batch,
    )  # fmt: skip


# --- lengths -------------------------------------------------------------------------------------------------------


def _sources(batch_offsets: Tensor, features: int, ads: int, shared: bool) -> Tensor:
    """(T * A,): which entry of the input each entry of the result is, of offsets that are good."""
    entries = torch.arange(features * ads, device=batch_offsets.device)
    feature, ad = (entries // ads, entries % ads) if ads else (entries, entries)
    request = torch.searchsorted(batch_offsets, ad.to(batch_offsets.dtype), right=True) - 1
    if shared:
        return request * features + feature
    first, count = batch_offsets[:-1].long(), batch_offsets.diff().long()
    return features * first[request] + feature * count[request] + ad - first[request]


def _check_offsets(op: str, batch_offsets: Tensor, ads: int) -> None:
    good = len(batch_offsets) > 0 and int(batch_offsets[0]) == 0 and int(batch_offsets[-1]) == ads
    require(
        good and bool((batch_offsets.diff() >= 0).all()),
        f"{op}: batch_offsets does not go from 0 to {ads}, the number of ads, without decreasing.",
    )


def _fake_lengths(lengths: Tensor, offsets: Tensor, ads: int, shared: bool = False, most: int = 0) -> Tensor:
    require_indices("reorder_batched_ad_lengths", "batch_offsets", offsets)
    room = most if most > 0 else ads
    each = offsets.shape[0] - 1 if shared else ads
    return lengths.new_empty(lengths.shape[0] // each * room if shared or most > 0 else lengths.shape[0])


def _lengths(lengths: Tensor, offsets: Tensor, ads: int, shared: bool = False, most: int = 0) -> Tensor:
    op = "reorder_batched_ad_lengths"
    require(lengths.dim() == 1, f"{op}: cat_ad_lengths has shape {tuple(lengths.shape)}, expected (entries,).")
    require_indices(op, "batch_offsets", offsets)
    _check_offsets(op, offsets, ads)
    entries, each = len(lengths), len(offsets) - 1 if shared else ads
    require(
        entries % each == 0 if each else entries == 0,
        f"{op}: cat_ad_lengths has {entries} entries, which {each} {'requests' if shared else 'ads'} do not divide.",
    )
    require(
        most <= 0 or (not shared and most >= ads),
        f"{op}: max_batch_size is {most} for {ads} ads; expected at least as many, and no broadcast.",
    )
    features = entries // each if each else 0
    found = lengths[_sources(offsets, features, ads, shared)]
    if most > ads:
        return torch.nn.functional.pad(found.view(features, ads), (0, most - ads)).reshape(-1)
    return found


# --- items ---------------------------------------------------------------------------------------------------------


def _item_sources(
    op: str, before: Tensor, count: int, after: Tensor, offsets: Tensor, ads: int, shared: bool, room: int
) -> Tensor:
    """Which item of the input each item of the result is."""
    for name, tensor in (("offsets", before), ("reordered offsets", after), ("batch_offsets", offsets)):
        require_indices(op, name, tensor)
    _check_offsets(op, offsets, ads)
    slots, requests = len(after) - 1, len(offsets) - 1
    features = slots // ads if ads > 0 else 0
    require(
        slots == features * ads and len(before) == (requests if shared else ads) * features + 1,
        f"{op}: offsets has {len(before)} entries and the reordered ones {slots + 1}, for {requests} requests with "
        f"{ads} ads; expected one more than there are features of {'requests' if shared else 'ads'}, and of ads.",
    )
    require(not shared or room >= 0, f"{op}: with broadcast_indices, num_indices_after_broadcast is needed.")
    room = room if shared else count
    entries = _sources(offsets, features, ads, shared)
    begins, widths = before[:-1].long()[entries], before.diff().long()[entries]
    targets = after[:-1].long()
    require(
        (begins >= 0) & (widths >= 0) & (begins + widths <= count) & (targets >= 0) & (targets + widths <= room),
        f"{op}: offsets lead beyond the {count} items that there are, or the {room} that there is room for.",
    )
    ends = widths.cumsum(0)
    inside = torch.arange(int(ends[-1]) if len(ends) else 0, device=before.device)
    inside -= (ends - widths).repeat_interleave(widths)
    sources = before.new_zeros(room, dtype=torch.int64)
    return sources.index_put_((targets.repeat_interleave(widths) + inside,), begins.repeat_interleave(widths) + inside)


def _make(op: str, schema: str, *, shareable: bool) -> None:
    def fake(before: Tensor, items: Tensor, after: Tensor, offsets: Tensor, ads: int, *rest: Any) -> Tensor:
        shared, room = _rest(rest)
        return items.new_empty((room if shared else items.shape[0], *items.shape[1:]))

    def reference(before: Tensor, items: Tensor, after: Tensor, offsets: Tensor, ads: int, *rest: Any) -> Tensor:
        shared, room = _rest(rest)
        return items[_item_sources(op, before, len(items), after, offsets, ads, shared, room)]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        before, items, after, offsets, *rest = inputs
        ctx.rest, ctx.count = rest, items.shape[0]
        ctx.save_for_backward(before, after, offsets)

    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        # Where each item came from, asked of the items' numbers.
        before, after, offsets = ctx.saved_tensors
        numbers = torch.arange(ctx.count, device=grad.device)
        sources = getattr(torch.ops.flambeau_rec, op)(before, numbers, after, offsets, *ctx.rest)
        back = OPS.index_add_rows(grad, sources, ctx.count)
        return None, back, None, None, None, *([None] * 2 if shareable else [])

    register_op(schema, library=LIBRARY, fake=fake, python=reference, setup_context=setup_context, backward=backward)


def _rest(rest: tuple[Any, ...]) -> tuple[bool, int]:
    """Whether ads share, and how many items there are then; both may be left out."""
    return bool(rest and rest[0]), rest[1] if len(rest) > 1 else -1


def _joined(
    cat_ad_offsets: Tensor,
    cat_ad_indices: Sequence[Tensor],
    reordered_cat_ad_offsets: Tensor,
    batch_offsets: Tensor,
    num_ads_in_batch: int,
    broadcast_indices: bool,
    total_num_indices: int,
    pinned_memory: bool = False,
    max_batch_size: int = 0,
) -> Tensor:
    op = "cat_reorder_batched_ad_indices"
    require(len(cat_ad_indices) > 0, f"{op}: cat_ad_indices is empty, expected at least one tensor.")
    result = reorder_batched_ad_indices(
        cat_ad_offsets, torch.cat(list(cat_ad_indices)), reordered_cat_ad_offsets, batch_offsets, num_ads_in_batch,
        broadcast_indices, total_num_indices,
    )  # fmt: skip
    return result.pin_memory() if pinned_memory else result


register_op(
    "reorder_batched_ad_lengths(Tensor cat_ad_lengths, Tensor batch_offsets, SymInt num_ads_in_batch, bool "
    "broadcast_lengths=False, SymInt max_batch_size=0) -> Tensor",
    library=LIBRARY,
    fake=_fake_lengths,
    python=_lengths,
)
_make(
    "reorder_batched_ad_indices",
    "reorder_batched_ad_indices(Tensor cat_ad_offsets, Tensor cat_ad_indices, Tensor reordered_cat_ad_offsets, Tensor "
    "batch_offsets, SymInt num_ads_in_batch, bool broadcast_indices=False, SymInt num_indices_after_broadcast=-1) "
    "-> Tensor",
    shareable=True,
)
_make(
    "reorder_batched_sequence_embeddings",
    "reorder_batched_sequence_embeddings(Tensor cat_sequence_embeddings_offsets, Tensor cat_sequence_embeddings, "
    "Tensor reordered_cat_sequence_embeddings_offsets, Tensor batch_offsets, SymInt num_items_in_batch) -> Tensor",
    shareable=False,
)
register_composite(
    "cat_reorder_batched_ad_indices(Tensor cat_ad_offsets, Tensor[] cat_ad_indices, Tensor reordered_cat_ad_offsets, "
    "Tensor batch_offsets, SymInt num_ads_in_batch, bool broadcast_indices, SymInt total_num_indices, bool "
    "pinned_memory=False, SymInt max_batch_size=0) -> Tensor",
    _joined,
)
