"""Jagged batches of several features: examples chosen of all of them, and indices made unique table by table.

The native kernels are `native/jagged_selection.cpp` and `native/jagged_keyed.cpp`. Upstream has these for GPUs only.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.rec.ops._composite import register_composite
from flambeau.rec.ops._jagged_layout import FLOATING, check_offsets, check_whole
from flambeau.rec.ops._library import LIBRARY
from flambeau.rec.ops._short_calls import OPS
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum

__all__ = [
    "jagged_acc_weights_and_counts",
    "jagged_hash_size_cumsum",
    "jagged_unique_indices",
    "keyed_jagged_index_select_dim1",
]


def keyed_jagged_index_select_dim1(
    values: Tensor,
    lengths: Tensor,
    offsets: Tensor,
    indices: Tensor,
    batch_size: int,
    weights: Tensor | None = None,
    selected_lengths_sum: int | None = None,
) -> list[Tensor]:
    """Choose examples of a batch, the same ones of every feature.

    Args:
        values: (L, ...), any dtype: the items of all features, feature after feature, example after example.
        lengths: (features * batch_size,) int32 or int64.
        offsets: (features * batch_size + 1,) int32 or int64: running sums of `lengths`.
        indices: (chosen,) int32 or int64: the examples wanted, in order; any may be left out or repeated.
        batch_size: examples.
        weights: (L, ...), or None.
        selected_lengths_sum: how many items are chosen, where it is known, which spares waiting for an accelerator.

    Returns:
        Items (L', ...), lengths (features * chosen,), and weights (L', ...) where they were given. Gradients of
        examples that are repeated add up.

    Raises:
        RuntimeError: an example that there is not, or shapes and lengths that do not fit.

    Example:
        >>> lengths, offsets = torch.tensor([1, 2, 0, 1]), torch.tensor([0, 1, 3, 3, 4])
        >>> keyed_jagged_index_select_dim1(torch.tensor([5, 6, 7, 8]), lengths, offsets, torch.tensor([1]), 2)
        [tensor([6, 7, 8]), tensor([2, 1])]
    """
    return OPS.keyed_jagged_index_select_dim1(  # type: ignore[no-any-return]
        values, lengths, offsets, indices, batch_size, weights, selected_lengths_sum
    )


def jagged_unique_indices(
    hash_size_cumsum: Tensor, hash_size_offsets: Tensor, offsets: Tensor, indices: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Make indices unique within their tables, as for an exchange that sends each row once.

    Args:
        hash_size_cumsum: (features + 1,) int32 or int64: where the rows of each feature's table begin among those of
            all
            tables. Features of one table follow one another, and begin at the same row.
        hash_size_offsets: (features + 1,) int32 or int64: groups of features that share a table; group g is features
            hash_size_offsets[g] to hash_size_offsets[g + 1], and may be empty.
        offsets: (features * batch + 1,) int32 or int64: where each bag begins and the last ends.
        indices: (L,) int32 or int64, 0 or more.

    Returns:
        Lengths (features * batch,) and offsets (features * batch + 1,) of bags that hold each table's distinct indices,
        spread over the bags of its features as evenly as can be, the first ones longer; the distinct indices (L',),
        table after table and rising in each; and for each index its place among them, (L,) int64.

    Raises:
        RuntimeError: negative indices, or shapes and offsets that do not fit.

    Example:
        >>> cumsum, groups, offsets = torch.tensor([0, 10]), torch.tensor([0, 1]), torch.tensor([0, 2, 4])
        >>> jagged_unique_indices(cumsum, groups, offsets, torch.tensor([7, 3, 7, 7]))
        (tensor([1, 1]), tensor([0, 1, 2]), tensor([3, 7]), tensor([1, 0, 1, 1]))
    """
    return OPS.jagged_unique_indices(hash_size_cumsum, hash_size_offsets, offsets, indices)  # type: ignore[no-any-return]


def jagged_hash_size_cumsum(offsets: Tensor, indices: Tensor, batch_size: int) -> tuple[Tensor, Tensor]:
    """The first two arguments of `jagged_unique_indices` where sizes of tables are not known: as large as need be.

    Args:
        offsets: (features * batch_size + 1,) int32 or int64.
        indices: (L,) int32 or int64.
        batch_size: bags of each feature, at least 1.

    Returns:
        (features + 1,) running sums of each feature's largest index and 1, and (features + 1,) numbers from 0 on: every
        feature is a group of its own. Both of the dtype of `indices`.

    Raises:
        RuntimeError: a number of bags that is no multiple of the batch size, or offsets that do not fit.
    """
    return OPS.jagged_hash_size_cumsum(offsets, indices, batch_size)  # type: ignore[no-any-return]


def jagged_acc_weights_and_counts(weights: Tensor, reverse_indices: Tensor, num_unique_indices: int) -> Tensor:
    """For each distinct index the sum of its weights, and how often it occurs.

    Args:
        weights: (L,), floating.
        reverse_indices: (L,) int32 or int64: the place of each index among the distinct ones.
        num_unique_indices: distinct ones.

    Returns:
        (num_unique_indices, 2), float32.

    Raises:
        RuntimeError: shapes or dtypes that do not fit, or a place that there is not.
    """
    return OPS.jagged_acc_weights_and_counts(weights, reverse_indices, num_unique_indices)  # type: ignore[no-any-return]


# --- examples of all features ---------------------------------------------------------------------

_KEYED = "keyed_jagged_index_select_dim1"


def _select(
    values: Tensor, lengths: Tensor, offsets: Tensor, indices: Tensor, batch_size: int,
    weights: Tensor | None = None, selected_lengths_sum: int | None = None,
) -> tuple[list[Tensor], Tensor]:  # fmt: skip
    """Items, lengths and weights chosen, and where the chosen bags end."""
    for what, tensor in (("lengths", lengths), ("offsets", offsets), ("indices", indices)):
        check_whole(_KEYED, what, tensor)
    bags = lengths.shape[0]
    if offsets.shape[0] != bags + 1 or (bags % batch_size if batch_size > 0 else bags):
        raise RuntimeError(
            f"{_KEYED}: {bags} lengths and {offsets.shape[0]} offsets for a batch of {batch_size}, expected a "
            "multiple of it, and one offset more."
        )
    features = bags // batch_size if batch_size > 0 else 0
    _check_examples(indices, batch_size)
    bag = torch.arange(features, device=indices.device)[:, None] * batch_size + indices
    bag = bag.reshape(-1)
    chosen = lengths.index_select(0, bag)
    ends = chosen.cumsum(0)
    select = torch.ops.flambeau_rec.jagged_index_select_2d_forward_v2
    made = [select(values, bag, offsets[1:], ends, selected_lengths_sum), chosen]
    if weights is not None:
        made.append(select(weights, bag, offsets[1:], ends, selected_lengths_sum))
    return made, ends


def _check_examples(indices: Tensor, batch_size: int) -> None:
    """Examples beyond the batch would be those of the next feature. Only where that costs no waiting."""
    if indices.device.type != "cpu" or not indices.shape[0] or type(indices) is not Tensor:
        return
    wrong = (indices < 0) | (indices >= batch_size)
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        raise RuntimeError(
            f"{_KEYED}: indices has {int(indices[at])} at {at}, expected 0 to {batch_size - 1}: the batch has "
            f"{batch_size} examples."
        )


def _forward(
    values: Tensor, lengths: Tensor, offsets: Tensor, indices: Tensor, batch_size: int,
    weights: Tensor | None, selected_lengths_sum: int | None,
) -> list[Tensor]:  # fmt: skip
    """What the backward pass needs comes last: ends of the chosen bags, and sizes that are known without them."""
    made, ends = _select(values, lengths, offsets, indices, batch_size, weights, selected_lengths_sum)
    sizes = [values.shape[0], batch_size, lengths.shape[0], made[0].shape[0]]
    return [*made, ends, torch.tensor(sizes, dtype=torch.int64)]


def _backward(grad: Tensor, indices: Tensor, grad_offsets: Tensor, output_offsets: Tensor, saved: Tensor) -> Tensor:
    items, batch_size, bags, given = saved.tolist()
    features = bags // batch_size if batch_size else 0
    bag = torch.arange(features, device=indices.device)[:, None] * batch_size + indices
    add = torch.ops.flambeau_rec.jagged_index_add_2d_forward_v2
    return add(grad, bag.reshape(-1), grad_offsets, output_offsets[1:], items, given)  # type: ignore[no-any-return]


_GIVEN = "Tensor values, Tensor lengths, Tensor offsets, Tensor indices, SymInt batch_size"
register_composite(
    f"{_KEYED}({_GIVEN}, Tensor? weights=None, SymInt? selected_lengths_sum=None) -> Tensor[]",
    lambda *given: _select(*given)[0],
)
register_composite(
    f"{_KEYED}_forward({_GIVEN}, Tensor? weights, SymInt? selected_lengths_sum) -> Tensor[]", _forward
)  # fmt: skip
register_composite(
    f"{_KEYED}_backward(Tensor grad, Tensor indices, Tensor grad_offsets, Tensor output_offsets, Tensor saved_tensor) "
    "-> Tensor",
    _backward,
)

# --- indices made unique --------------------------------------------------------------------------

_UNIQUE = "jagged_unique_indices"


def _features(op: str, offsets: Tensor, batch_size: int) -> int:
    bags = offsets.shape[0] - 1
    if batch_size < 1 or bags % batch_size:
        raise RuntimeError(f"{op}: offsets has {bags} bags, expected a multiple of the batch of {batch_size}.")
    return bags // batch_size


def _check_unique(sums: Tensor, groups: Tensor, offsets: Tensor, indices: Tensor) -> tuple[int, int]:
    """Features, and bags of each; the same sentences as native/jagged_keyed.cpp."""
    for what, tensor in (
        ("hash_size_cumsum", sums), ("hash_size_offsets", groups), ("offsets", offsets), ("indices", indices)
    ):  # fmt: skip
        check_whole(_UNIQUE, what, tensor)
    features, bags = sums.shape[0] - 1, offsets.shape[0] - 1
    if groups.shape[0] != features + 1 or (bags % features if features > 0 else bags):
        raise RuntimeError(
            f"{_UNIQUE}: hash_size_offsets has {groups.shape[0]} entries for {features} features and {bags} bags, "
            f"expected {features + 1}, and a multiple of the features."
        )
    return features, bags // features if features > 0 else 0


def _fake_unique(sums: Tensor, groups: Tensor, offsets: Tensor, indices: Tensor) -> tuple[Tensor, ...]:
    _check_unique(sums, groups, offsets, indices)
    distinct = torch.library.get_ctx().new_dynamic_size()
    return (
        offsets.new_empty(offsets.shape[0] - 1), offsets.new_empty(offsets.shape[0]), indices.new_empty(distinct),
        indices.new_empty(indices.shape[0], dtype=torch.int64),
    )  # fmt: skip


def _make_unique(sums: Tensor, groups: Tensor, offsets: Tensor, indices: Tensor) -> tuple[Tensor, ...]:
    features, batch = _check_unique(sums, groups, offsets, indices)
    check_offsets(_UNIQUE, "offsets", offsets, indices.shape[0])
    if len(indices) and bool((indices < 0).any()):
        at = int((indices < 0).nonzero()[0])
        raise RuntimeError(f"{_UNIQUE}: indices has {int(indices[at])} at {at}, expected 0 or more.")
    firsts = offsets[:: max(batch, 1)].long() if features else offsets.long()
    rows = indices.long() + sums[:-1].long().repeat_interleave(firsts.diff(), output_size=len(indices))
    every, places = torch.unique(rows, return_inverse=True)
    unique = indices.new_zeros(len(every)).scatter(0, places, indices)
    lengths = offsets.new_zeros(features * batch)
    bounds = groups.tolist()
    for begin, end in pairwise(bounds):
        some, bags = places[firsts[begin] : firsts[end]], (end - begin) * batch
        if len(some) and bags:
            count = int(some.max() - some.min()) + 1
            lengths[begin * batch : end * batch] = count // bags + (torch.arange(bags) < count % bags).to(lengths)
    return lengths, asynchronous_complete_cumsum(lengths), unique, places


register_op(
    "jagged_unique_indices(Tensor hash_size_cumsum, Tensor hash_size_offsets, Tensor offsets, Tensor indices) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_unique,
    python=_make_unique,
)


def _fake_sizes(offsets: Tensor, indices: Tensor, batch_size: int) -> tuple[Tensor, Tensor]:
    features = _features("jagged_hash_size_cumsum", offsets, batch_size)
    return indices.new_empty(features + 1), indices.new_empty(features + 1)


def _sizes(offsets: Tensor, indices: Tensor, batch_size: int) -> tuple[Tensor, Tensor]:
    op = "jagged_hash_size_cumsum"
    check_whole(op, "offsets", offsets)
    check_whole(op, "indices", indices)
    features = _features(op, offsets, batch_size)
    check_offsets(op, "offsets", offsets, indices.shape[0])
    counts = offsets[::batch_size].long().diff()
    feature = torch.arange(features, device=indices.device).repeat_interleave(counts, output_size=indices.shape[0])
    sizes = indices.new_zeros(features).scatter_reduce(0, feature, indices + 1, "amax")
    return asynchronous_complete_cumsum(sizes), torch.arange(
        features + 1, dtype=indices.dtype, device=indices.device
    )  # fmt: skip


register_op(
    "jagged_hash_size_cumsum(Tensor offsets, Tensor indices, int batch_size) -> (Tensor, Tensor)",
    library=LIBRARY,
    fake=_fake_sizes,
    python=_sizes,
)


def _check_weights(weights: Tensor, places: Tensor) -> None:
    op = "jagged_acc_weights_and_counts"
    if weights.dim() != 1 or weights.dtype not in FLOATING:
        raise RuntimeError(
            f"{op}: weights has shape {tuple(weights.shape)} and dtype {weights.dtype}, expected (items,) of a "
            "floating dtype."
        )
    check_whole(op, "reverse_indices", places)
    if places.shape != weights.shape:
        raise RuntimeError(
            f"{op}: reverse_indices has {places.shape[0]} entries, expected {weights.shape[0]}: one for each weight."
        )


def _fake_counts(weights: Tensor, places: Tensor, count: int) -> Tensor:
    _check_weights(weights, places)
    return weights.new_empty((count, 2), dtype=torch.float32)


def _counts(weights: Tensor, places: Tensor, count: int) -> Tensor:
    _check_weights(weights, places)
    if places.device.type == "cpu" and bool(((places < 0) | (places >= count)).any()):
        raise RuntimeError(
            f"jagged_acc_weights_and_counts: reverse_indices has {int(places.min())} to {int(places.max())}, expected "
            f"0 to {count - 1}."
        )
    pairs = torch.stack([weights.float(), torch.ones_like(weights, dtype=torch.float32)], 1)
    return pairs.new_zeros(count, 2).index_add(0, places, pairs)


def _keep_places(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.dtype = inputs[0].dtype


def _weights_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (places,) = ctx.saved_tensors
    return grad[:, 0].index_select(0, places).to(ctx.dtype), None, None


register_op(
    "jagged_acc_weights_and_counts(Tensor weights, Tensor reverse_indices, int num_unique_indices) -> Tensor",
    library=LIBRARY,
    fake=_fake_counts,
    python=_counts,
    setup_context=_keep_places,
    backward=_weights_gradient,
)
