"""Indices of a sparse batch given to the shards that own their rows, each bag becoming one bag for every shard.

A shard, or bucket, owns rows in blocks: row i of a table belongs to shard i // block_size. Rows beyond the last block,
and all rows of a table with blocks of size 0, go to the shards in turn. The native kernel is in `native/bucketize.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops import _bucketize_native, _bucketize_reference
from flambeau.rec.ops._bucketize_types import Bucketed, Sharding
from flambeau.rec.ops._checks import require, require_indices
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS, shorten_on_cpu
from flambeau.rec.ops.index_select import index_select_dim0

__all__ = [
    "block_bucketize_sparse_features",
    "block_bucketize_sparse_features_2d_weights",
    "block_bucketize_sparse_features_inference",
    "bucketize_sparse_features",
    "populate_bucketized_permute",
]


def block_bucketize_sparse_features(
    lengths: Tensor,
    indices: Tensor,
    bucketize_pos: bool,
    sequence: bool,
    block_sizes: Tensor,
    my_size: int,
    weights: Tensor | None = None,
    batch_size_per_feature: Tensor | None = None,
    max_B: int = -1,
    block_bucketize_pos: Sequence[Tensor] | None = None,
    keep_orig_idx: bool = False,
    total_num_blocks: Tensor | None = None,
    keep_orig_idx_per_feature: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Give the indices of a batch to shards, by blocks of rows.

    An index i of a feature with blocks of b rows goes to shard i // b and is i % b there, where i < b * my_size; else
    to shard i % my_size as i // my_size. Negative indices are read as unsigned, as upstream does.

    Args:
        lengths: (T * B,) int32 or int64: items in each bag, feature-major.
        indices: (L,) int32 or int64.
        bucketize_pos: whether to give the place that each index had in its bag.
        sequence: whether to give where each index went.
        block_sizes: (T,) rows in a block of each feature's table; 0: all indices go to the shards in turn.
        my_size: S, the number of shards.
        weights: (L,), or None.
        batch_size_per_feature: (T,) bags of each feature, where they differ.
        max_B: the largest of these. A hint that is not needed here.
        block_bucketize_pos: T tensors (S + 1,): where each shard's rows begin, and where the last's end; instead of
            blocks of one size.
        keep_orig_idx: whether indices stay as they are.
        total_num_blocks: (T,) how many blocks all shards have together, a multiple of S, where that is not S.
        keep_orig_idx_per_feature: (T,) bool: which features' indices stay as they are, instead of `keep_orig_idx`.

    Returns:
        Lengths (S * T * B,), shard-major; indices (L,) and weights (L,) in that order; with `bucketize_pos` the places
        (L,), in that order as well; with `sequence` (L,): where each index of the input is in the result. Gradients
        flow to floating weights.

    Raises:
        RuntimeError: lengths that do not add up, other shapes or dtypes.

    Example:
        >>> lengths, indices = torch.tensor([2, 1]), torch.tensor([1, 7, 3])
        >>> block_bucketize_sparse_features(lengths, indices, False, True, torch.tensor([5]), 2)[::4]
        (tensor([1, 1, 1, 0]), tensor([0, 2, 1]))
        >>> block_bucketize_sparse_features(lengths, indices, False, True, torch.tensor([5]), 2)[1]
        tensor([1, 3, 2])
    """
    return OPS.block_bucketize_sparse_features(  # type: ignore[no-any-return]
        lengths, indices, bucketize_pos, sequence, block_sizes, my_size, weights, batch_size_per_feature, max_B,
        block_bucketize_pos, keep_orig_idx, total_num_blocks, keep_orig_idx_per_feature,
    )  # fmt: skip


def block_bucketize_sparse_features_inference(
    lengths: Tensor,
    indices: Tensor,
    bucketize_pos: bool,
    sequence: bool,
    block_sizes: Tensor,
    my_size: int,
    weights: Tensor | None = None,
    batch_size_per_feature: Tensor | None = None,
    max_B: int = -1,
    block_bucketize_pos: Sequence[Tensor] | None = None,
    return_bucket_mapping: bool = False,
    keep_orig_idx: bool = False,
    total_num_blocks: Tensor | None = None,
    keep_orig_idx_per_feature: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """`block_bucketize_sparse_features` that also gives, with `return_bucket_mapping`, the shard (L,) of each index."""
    return OPS.block_bucketize_sparse_features_inference(  # type: ignore[no-any-return]
        lengths, indices, bucketize_pos, sequence, block_sizes, my_size, weights, batch_size_per_feature, max_B,
        block_bucketize_pos, return_bucket_mapping, keep_orig_idx, total_num_blocks, keep_orig_idx_per_feature,
    )  # fmt: skip


def block_bucketize_sparse_features_2d_weights(
    lengths: Tensor,
    indices: Tensor,
    bucketize_pos: bool,
    sequence: bool,
    block_sizes: Tensor,
    my_size: int,
    weights: Tensor,
    weights_dim: int = 1,
    batch_size_per_feature: Tensor | None = None,
    max_B: int = -1,
    block_bucketize_pos: Sequence[Tensor] | None = None,
    keep_orig_idx: bool = False,
    total_num_blocks: Tensor | None = None,
    keep_orig_idx_per_feature: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """`block_bucketize_sparse_features` with weights (L, `weights_dim`): several to each index."""
    return OPS.block_bucketize_sparse_features_2d_weights(  # type: ignore[no-any-return]
        lengths, indices, bucketize_pos, sequence, block_sizes, my_size, weights, weights_dim, batch_size_per_feature,
        max_B, block_bucketize_pos, keep_orig_idx, total_num_blocks, keep_orig_idx_per_feature,
    )  # fmt: skip


def bucketize_sparse_features(
    lengths: Tensor, indices: Tensor, bucketize_pos: bool, my_size: int, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Give the indices of a batch to shards in turn: index i goes to shard i % my_size, as i // my_size.

    Args:
        lengths: (bags,) int32 or int64.
        indices: (L,) int32 or int64; negative ones are read as unsigned, as upstream does.
        bucketize_pos: whether to give the place that each index had in its bag.
        my_size: S, the number of shards.
        weights: (L,), or None.

    Returns:
        Lengths (S * bags,), shard-major; indices (L,) and weights (L,) in that order; with `bucketize_pos` the places.
        Gradients flow to floating weights.

    Raises:
        RuntimeError: lengths that do not add up, other shapes or dtypes.
    """
    return OPS.bucketize_sparse_features(lengths, indices, bucketize_pos, my_size, weights)  # type: ignore[no-any-return]


def populate_bucketized_permute(lengths: Tensor, bucketized_lengths: Tensor, bucket_mapping: Tensor) -> Tensor:
    """Where each item went when its bag was given to shards.

    Args:
        lengths: (bags,) int32 or int64, L in all: items in each bag before.
        bucketized_lengths: (S * bags,) of the same dtype: items in each bag afterwards, shard-major.
        bucket_mapping: (L,) int32 or int64: the shard of each item.

    Returns:
        (L,) of the dtype of `bucket_mapping`: its place among all items afterwards.

    Raises:
        RuntimeError: tensors that do not belong together, other shapes or dtypes.

    Example:
        >>> populate_bucketized_permute(torch.tensor([2, 1]), torch.tensor([1, 1, 1, 0]), torch.tensor([1, 0, 0]))
        tensor([2, 0, 1])
    """
    return OPS.populate_bucketized_permute(lengths, bucketized_lengths, bucket_mapping)  # type: ignore[no-any-return]


# --- one meaning for all -------------------------------------------------------------------------------------------


def _check(op: str, lengths: Tensor, indices: Tensor, shards: int, weights: Tensor | None) -> None:
    require_indices(op, "lengths", lengths)
    require_indices(op, "indices", indices)
    if shards <= 0:
        raise RuntimeError(f"{op}: my_size is {shards}, expected at least 1.")
    if weights is not None and (weights.dim() == 0 or weights.shape[0] != indices.shape[0]):
        raise RuntimeError(
            f"{op}: weights has shape {tuple(weights.shape)}, expected ({indices.shape[0]}, ...): one for each index."
        )


def _sharding(
    op: str,
    lengths: Tensor,
    block_sizes: Tensor,
    my_size: int,
    batch_sizes: Tensor | None,
    bounds: Sequence[Tensor] | None,
    keep: bool,
    total_num_blocks: Tensor | None,
    keep_per_feature: Tensor | None,
) -> Sharding:
    """What the arguments say about features and shards, as int64 tensors on the device of the batch."""
    require_indices(op, "block_sizes", block_sizes)
    features, bags = block_sizes.shape[0], lengths.shape[0]
    for name, tensor in (
        ("batch_size_per_feature", batch_sizes),
        ("total_num_blocks", total_num_blocks),
        ("keep_orig_idx_per_feature", keep_per_feature),
    ):
        if tensor is not None and (tensor.dim() != 1 or tensor.shape[0] != features):
            raise RuntimeError(
                f"{op}: {name} has shape {tuple(tensor.shape)}, expected ({features},): one for each of block_sizes."
            )
    first_bags = None
    if batch_sizes is None:
        if bags % features if features else bags:
            raise RuntimeError(f"{op}: lengths has {bags} bags, which {features} block_sizes do not divide.")
    else:
        first_bags = torch.cat([batch_sizes.new_zeros(1), batch_sizes.cumsum(0)]).long()
        require(
            int(first_bags[-1]) == bags,
            f"{op}: batch_size_per_feature says {int(first_bags[-1])} bags, lengths has {bags}.",
        )
    if bounds is not None:
        require(
            len(bounds) == features and all(one.dim() == 1 and one.shape[0] == my_size + 1 for one in bounds),
            f"{op}: block_bucketize_pos has shapes {[tuple(one.shape) for one in bounds]}, expected {features} of "
            f"({my_size + 1},): where each of {my_size} shards begins, and where the last ends.",
        )
    if keep_per_feature is None and keep:
        keep_per_feature = torch.ones(features, dtype=torch.uint8, device=lengths.device)
    return Sharding(
        my_size,
        first_bags,
        block_sizes.long().contiguous(),
        None if total_num_blocks is None else total_num_blocks.long().contiguous(),
        None if not bounds else torch.stack([one.long() for one in bounds]),
        None if keep_per_feature is None else keep_per_feature.to(torch.uint8).contiguous(),
    )


def _bucketize(
    op: str,
    native: bool,
    lengths: Tensor,
    indices: Tensor,
    weights: Tensor | None,
    sharding: Sharding,
    wanted: tuple[bool, bool, bool],
) -> Bucketed:
    serving = _bucketize_native if native else _bucketize_reference
    result: Bucketed | None = serving.bucketize(
        lengths.contiguous(), indices.contiguous(), None if weights is None else weights.contiguous(), sharding, *wanted
    )
    if result is None:
        raise RuntimeError(f"{op}: lengths has negative numbers, or does not add up to the {indices.shape[0]} indices.")
    return result


def _fake(
    lengths: Tensor, indices: Tensor, weights: Tensor | None, shards: int, wanted: tuple[bool, bool, bool]
) -> Bucketed:
    same = [indices.new_empty(indices.shape[0]) if one else None for one in wanted]
    moved = None if weights is None else weights.new_empty(weights.shape)
    return Bucketed(lengths.new_empty(lengths.shape[0] * shards), indices.new_empty(indices.shape[0]), moved, *same)


def _no_gradients(ctx: Any) -> list[Any]:
    """A None for each argument that was passed, and a list of them for a list of tensors."""
    wanted = ctx.needs_input_grad
    return [[None] * len(one) if isinstance(one, list) else None for one in wanted]


def _backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
    """Weights went where the indices went: ask again where that is."""
    back = _no_gradients(ctx)
    if grads[2] is not None:
        lengths, indices, blocks, sizes, totals, kept, *bounds = ctx.saved_tensors
        again = OPS.block_bucketize_sparse_features(
            lengths, indices, False, True, blocks, ctx.shards, None, sizes, -1, bounds if ctx.bounded else None,
            ctx.keep, totals, kept,
        )  # fmt: skip
        back[6] = index_select_dim0(grads[2], again[4])
    return tuple(back)


class _Request(NamedTuple):
    """The arguments of one of the operators, alike for all of them."""

    lengths: Tensor
    indices: Tensor
    wanted: tuple[bool, bool, bool]
    blocks: Tensor
    shards: int
    weights: Tensor | None
    batch_sizes: Tensor | None
    bounds: Sequence[Tensor] | None
    keep: bool
    total_num_blocks: Tensor | None
    keep_per_feature: Tensor | None


def _request(
    lengths: Tensor,
    indices: Tensor,
    bucketize_pos: bool,
    sequence: bool,
    block_sizes: Tensor,
    my_size: int,
    weights: Tensor | None = None,
    batch_size_per_feature: Tensor | None = None,
    max_B: int = -1,
    block_bucketize_pos: Sequence[Tensor] | None = None,
    keep_orig_idx: bool = False,
    total_num_blocks: Tensor | None = None,
    keep_orig_idx_per_feature: Tensor | None = None,
    *,
    mapping: bool = False,
) -> _Request:
    return _Request(
        lengths, indices, (bucketize_pos, sequence, mapping), block_sizes, my_size, weights, batch_size_per_feature,
        block_bucketize_pos, keep_orig_idx, total_num_blocks, keep_orig_idx_per_feature,
    )  # fmt: skip


def _request_2d(*args: Any) -> _Request:
    return _request(*args[:7], *args[8:])  # the width of the weights stands in their shape


def _request_inference(*args: Any) -> _Request:
    return _request(*args[:10], *args[11:], mapping=len(args) > 10 and bool(args[10]))


def _make(op: str, schema: str, request: Callable[..., _Request], given: Sequence[str]) -> None:
    def run(native: bool, *args: Any) -> tuple[Any, ...]:
        asked = request(*args)
        _check(op, asked.lengths, asked.indices, asked.shards, asked.weights)
        sharding = _sharding(
            op, asked.lengths, asked.blocks, asked.shards, asked.batch_sizes, asked.bounds, asked.keep,
            asked.total_num_blocks, asked.keep_per_feature,
        )  # fmt: skip
        result = _bucketize(op, native, asked.lengths, asked.indices, asked.weights, sharding, asked.wanted)
        return result[: len(given)]

    def kernel(*args: Any) -> tuple[Any, ...]:
        return run(True, *args)

    def fake(*args: Any) -> tuple[Any, ...]:
        asked = request(*args)
        _check(op, asked.lengths, asked.indices, asked.shards, asked.weights)
        result = _fake(asked.lengths, asked.indices, asked.weights, asked.shards, asked.wanted)
        return result[: len(given)]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        asked = request(*inputs)
        ctx.set_materialize_grads(False)
        ctx.shards, ctx.keep, ctx.bounded = asked.shards, asked.keep, asked.bounds is not None
        ctx.save_for_backward(
            asked.lengths, asked.indices, asked.blocks, asked.batch_sizes, asked.total_num_blocks,
            asked.keep_per_feature, *(asked.bounds or ()),
        )  # fmt: skip

    overload = register_op(
        schema,
        library=LIBRARY,
        symbol=kernel,
        fake=fake,
        python=lambda *args: run(False, *args),
        setup_context=setup_context,
        backward=_backward,
    )
    if LIBRARY.operators[op]["provider"] == "ctypes":
        shorten_on_cpu(overload, kernel)


_HEAD = "Tensor lengths, Tensor indices, bool bucketize_pos, bool sequence, Tensor block_sizes, SymInt my_size"
_BATCH = "Tensor? batch_size_per_feature=None, SymInt max_B=-1, Tensor[]? block_bucketize_pos=None"
_KEEP = "bool keep_orig_idx=False, Tensor? total_num_blocks=None, Tensor? keep_orig_idx_per_feature=None"
_GIVEN = ("lengths", "indices", "weights", "positions", "order")
_make(
    "block_bucketize_sparse_features",
    f"block_bucketize_sparse_features({_HEAD}, Tensor? weights=None, {_BATCH}, {_KEEP}) "
    "-> (Tensor, Tensor, Tensor?, Tensor?, Tensor?)",
    _request,
    _GIVEN,
)
_make(
    "block_bucketize_sparse_features_2d_weights",
    f"block_bucketize_sparse_features_2d_weights({_HEAD}, Tensor weights, SymInt weights_dim=1, {_BATCH}, {_KEEP}) "
    "-> (Tensor, Tensor, Tensor, Tensor?, Tensor?)",
    _request_2d,
    _GIVEN,
)
_make(
    "block_bucketize_sparse_features_inference",
    f"block_bucketize_sparse_features_inference({_HEAD}, Tensor? weights=None, {_BATCH}, bool "
    f"return_bucket_mapping=False, {_KEEP}) -> (Tensor, Tensor, Tensor?, Tensor?, Tensor?, Tensor?)",
    _request_inference,
    (*_GIVEN, "mapping"),
)

# --- in turn -------------------------------------------------------------------------------------------------------


def _turns(
    native: bool, lengths: Tensor, indices: Tensor, bucketize_pos: bool, my_size: int, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    op = "bucketize_sparse_features"
    _check(op, lengths, indices, my_size, weights)
    sharding = Sharding(my_size, None, lengths.new_zeros(1, dtype=torch.int64), None, None, None)
    found = _bucketize(op, native, lengths, indices, weights, sharding, (bucketize_pos, False, False))
    return found.lengths, found.indices, found.weights, found.positions


def _fake_turns(
    lengths: Tensor, indices: Tensor, bucketize_pos: bool, my_size: int, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    _check("bucketize_sparse_features", lengths, indices, my_size, weights)
    found = _fake(lengths, indices, weights, my_size, (bucketize_pos, False, False))
    return found.lengths, found.indices, found.weights, found.positions


def _setup_context_turns(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    lengths, indices, _, ctx.shards, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(lengths, indices)


def _backward_turns(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
    if grads[2] is None:
        return None, None, None, None, None
    lengths, indices = ctx.saved_tensors
    again = OPS.block_bucketize_sparse_features(lengths, indices, False, True, lengths.new_zeros(1), ctx.shards)
    return None, None, None, None, index_select_dim0(grads[2], again[4])


register_op(
    "bucketize_sparse_features(Tensor lengths, Tensor indices, bool bucketize_pos, SymInt my_size, "
    "Tensor? weights=None) -> (Tensor, Tensor, Tensor?, Tensor?)",
    library=LIBRARY,
    symbol=lambda *args: _turns(True, *args),
    fake=_fake_turns,
    python=lambda *args: _turns(False, *args),
    setup_context=_setup_context_turns,
    backward=_backward_turns,
)


def _check_populate(lengths: Tensor, bucketized_lengths: Tensor, bucket_mapping: Tensor) -> None:
    op = "populate_bucketized_permute"
    for name, tensor in (
        ("lengths", lengths),
        ("bucketized_lengths", bucketized_lengths),
        ("bucket_mapping", bucket_mapping),
    ):
        require_indices(op, name, tensor)
    bags, counted = lengths.shape[0], bucketized_lengths.shape[0]
    require(
        lengths.dtype == bucketized_lengths.dtype and (counted % bags == 0 if bags else counted == 0),
        f"{op}: lengths has {bags} entries of {lengths.dtype} and bucketized_lengths {counted} of "
        f"{bucketized_lengths.dtype}; expected the same dtype, and one entry for each bag and bucket.",
    )


def _fake_populate(lengths: Tensor, bucketized_lengths: Tensor, bucket_mapping: Tensor) -> Tensor:
    _check_populate(lengths, bucketized_lengths, bucket_mapping)
    return bucket_mapping.new_empty(bucket_mapping.shape[0])


def _populate(lengths: Tensor, bucketized_lengths: Tensor, bucket_mapping: Tensor) -> Tensor:
    _check_populate(lengths, bucketized_lengths, bucket_mapping)
    bags, total = len(lengths), len(bucket_mapping)
    shards = len(bucketized_lengths) // bags if bags else 0
    fits = bool((lengths >= 0).all()) and int(lengths.sum()) == total
    fits = fits and bool(((bucket_mapping >= 0) & (bucket_mapping < shards)).all())
    if fits:
        bag = torch.arange(bags, device=lengths.device).repeat_interleave(lengths.long())
        key = bucket_mapping.long() * bags + bag
        fits = torch.equal(torch.bincount(key, minlength=shards * bags), bucketized_lengths.long())
    require(
        fits,
        "populate_bucketized_permute: lengths, bucketized_lengths and bucket_mapping do not belong together: all "
        f"lengths are at least 0 and add up to the {total} items, whose buckets are those that there are.",
    )
    order = key.argsort(stable=True)
    return torch.empty_like(order).scatter_(0, order, torch.arange(total, device=order.device)).to(bucket_mapping.dtype)


register_op(
    "populate_bucketized_permute(Tensor lengths, Tensor bucketized_lengths, Tensor bucket_mapping) -> Tensor",
    library=LIBRARY,
    fake=_fake_populate,
    python=_populate,
)
