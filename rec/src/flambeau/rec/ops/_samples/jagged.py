"""Samples of operators on jagged tensors, and of those for sequence learning."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from flambeau.core.testing import Sample
from flambeau.rec.ops._samples._inputs import WHOLE, ends, floats, ints, operator

__all__ = ["jagged_samples"]

_LENGTHS = [2, 0, 3, 1]
_OFFSETS, _SQUARES = ends(_LENGTHS), ends([length**2 for length in _LENGTHS])


def jagged_samples() -> Iterator[Sample]:
    """Each operator once."""
    yield from _conversions()
    yield from _arithmetic()
    yield from _choices()
    yield from _of_features()
    yield from _of_sequences()


def _conversions() -> Iterator[Sample]:
    values, dense, numbers = floats("values", 6, 3), floats("dense", 4, 3, 3), floats("values", 6)
    for name in ("jagged_to_padded_dense", "jagged_to_padded_dense_forward"):
        yield operator(name, values, [_OFFSETS], [4], 0.5, differentiable=(0,))
    yield operator("jagged_to_padded_dense_backward", dense, [_OFFSETS], 6)
    for name in ("dense_to_jagged", "dense_to_jagged_forward"):
        yield operator(name, dense, [_OFFSETS], 6, differentiable=(0,))
    yield operator("jagged_1d_to_dense", numbers, _OFFSETS, 4, 0, differentiable=(0,))
    yield operator("jagged_2d_to_dense", values, _OFFSETS, 4, differentiable=(0,))
    lengths, starts, longest = ints([[2, 0, 3], [1, 1, 1]]), [0, 5, 8], [3, 2]
    yield operator("stacked_jagged_1d_to_dense", floats("values", 8), lengths, starts, longest, 0)
    for ending in ("", "_forward"):
        yield operator(f"stacked_jagged_2d_to_dense{ending}", floats("values", 8, 3), lengths, starts, longest, 0)
    gradients = [floats("first", 3, 3, 3), floats("second", 3, 2, 3)]
    offsets = [ends([2, 0, 3]), ends([1, 1, 1])]
    yield operator("stacked_jagged_2d_to_dense_backward", 3, 3, 8, gradients, offsets, starts)
    for name in ("pack_segments", "pack_segments_v2"):
        yield operator(name, values, ints(_LENGTHS), 3, differentiable=(0,))
    yield operator("pack_segments_backward", dense, ints(_LENGTHS), 6, 3)


def _arithmetic() -> Iterator[Sample]:
    x, y, z = floats("x", 6, 3), floats("y", 4, 3, 3), floats("z", 4, 3, 3)
    both = partial(operator, differentiable=(0, 2))
    for name in ("add", "add_jagged_output", "mul"):
        yield both(f"jagged_dense_elementwise_{name}", x, [_OFFSETS], y)
    yield operator("jagged_dense_elementwise_mul_forward", x, [_OFFSETS], y)
    yield operator("jagged_dense_elementwise_mul_backward", floats("gradient", 6, 3), [_OFFSETS], y, x)
    three = "jagged_dense_dense_elementwise_add_jagged_output"
    yield operator(three, x, [_OFFSETS], y, z, differentiable=(0, 2, 3))
    yield operator(f"{three}_forward", x, [_OFFSETS], y, z)
    vectors, matrix = floats("vectors", 8, 3), floats("matrix", 6, 10)
    product = "batched_dense_vec_jagged_2d_mul"
    yield operator(product, vectors, matrix, _OFFSETS, differentiable=(0, 1))
    yield operator(f"{product}_forward", vectors, matrix, _OFFSETS)
    yield operator(f"{product}_backward", floats("gradient", 8, 5), vectors, matrix, _OFFSETS)
    yield operator("jagged_jagged_bmm", x, floats("y", 6, 2), _OFFSETS, 3, differentiable=(0, 1))
    yield operator("jagged_jagged_bmm_forward", x, floats("y", 6, 2), _OFFSETS, 3)
    right = floats("right", 4, 3, 2)
    yield operator("jagged_dense_bmm", x, _OFFSETS, right, 3, differentiable=(0, 2))
    yield operator("jagged_dense_bmm_forward", x, _OFFSETS, right, 3)
    yield operator("jagged_softmax", x, _OFFSETS, 3, differentiable=(0,))
    yield operator("jagged_softmax_forward", x, _OFFSETS, 3)
    yield operator("jagged_softmax_backward", x, floats("output", 6, 3), _OFFSETS, 3)


def _choices() -> Iterator[Sample]:
    values, lengths, numbers = floats("values", 6, 3), ints(_LENGTHS), floats("values", 6)
    yield operator("jagged_index_select", values, lengths, ints([2, 0, 2]), 8, differentiable=(0,))
    chosen = ints([2, 0]), ints([2, 2, 5, 6]), ints([3, 5]), 5
    for ending in ("", "_v2"):
        yield operator(f"jagged_index_select_2d_forward{ending}", values, *chosen)
    added = floats("values", 8, 3), ints([2, 0, 2]), ints([3, 5, 8]), ints([2, 2, 5, 6])
    yield operator("jagged_index_add_2d_forward", *added, 8, 6)
    yield operator("jagged_index_add_2d_forward_v2", *added, 6, 8)
    yield operator("jagged_slice", numbers, lengths, ints([0, 0, 1, 0]), 2, differentiable=(0,))
    cut = ints([0, 0, 1, 0]), ints([2, 0, 2, 1]), ints([0, 0, 0, 0])
    yield operator("jagged_slice_forward", numbers, lengths, *cut, 5, 2, False)
    yield operator("jagged_1d_to_truncated_values", numbers, lengths, 2)
    mask = torch.tensor([True, False, True, True, False, True])
    yield operator("masked_select_jagged_1d", numbers, lengths, mask)


def _of_features() -> Iterator[Sample]:
    values, lengths, offsets, chosen = floats("values", 6), ints([2, 1, 0, 3]), ends([2, 1, 0, 3]), ints([1, 1, 0])
    select = "keyed_jagged_index_select_dim1"
    yield operator(select, values, lengths, offsets, chosen, 2, None, 10, differentiable=(0,))
    yield operator(f"{select}_forward", values, lengths, offsets, chosen, 2, None, 10)
    made = torch.ops.flambeau_rec.keyed_jagged_index_select_dim1_forward(values, lengths, offsets, chosen, 2, None, 10)
    yield operator(f"{select}_backward", floats("gradient", *made[0].shape), chosen, made[-2], offsets, made[-1])
    ids = ints([3, 1, 3, 2, 2, 0])
    yield operator("jagged_unique_indices", ints([0, 5, 9]), ints([0, 1, 2]), offsets, ids, dtypes=WHOLE)
    yield operator("jagged_hash_size_cumsum", offsets, ids, 2, dtypes=WHOLE)
    # Sums are of single precision, as FBGEMM's.
    weights, places = floats("weights", 3), ints([0, 1, 0])
    yield operator("jagged_acc_weights_and_counts", weights, places, 2, dtypes=("float32",))


def _of_sequences() -> Iterator[Sample]:
    x, y, dense = floats("x", 6, 3), floats("y", 6, 3), floats("dense", 4, 3, 2)
    squares, lengths = floats("squares", 14), ints(_LENGTHS)
    yield operator("sll_jagged_dense_bmm", x, dense, _OFFSETS, 3, False, differentiable=(0, 1))
    yield operator("sll_jagged_jagged_bmm", x, y, _OFFSETS, 3, False, differentiable=(0, 1))
    yield operator("sll_jagged_softmax", x, _OFFSETS, 3, differentiable=(0,))
    yield operator("sll_jagged2_softmax", squares, _OFFSETS, _SQUARES, 3, False, differentiable=(0,))
    yield operator("sll_jagged2_to_padded_dense", squares, _SQUARES, 3, 0.5, differentiable=(0,))
    padded = floats("padded", 4, 3, 3)
    yield operator("sll_jagged_dense_elementwise_add", x, _OFFSETS, padded, 3, differentiable=(0, 2))
    mask = floats("mask", 3, 3)
    yield operator("sll_jagged_dense_elementwise_mul_jagged_out", squares, mask, lengths, _SQUARES, 3)
    ahead, ids = ints([7, 8, 9, 1]), ints([3, 1, 4, 1, 5, 9])
    yield operator("sll_dense_jagged_cat_jagged_out", ahead, ids, _OFFSETS, 3, dtypes=WHOLE)
    further = ends([2, 1, 3, 1]), ends([1, 0, 4, 0]), 3
    yield operator("sll_jagged_self_substraction_jagged_out", floats("times", 7), *further)
    one, both = (lengths, _OFFSETS), (lengths**2, _SQUARES)
    name = "sll_jagged_jagged_bmm_jagged_out"
    yield operator(name, x, y, *one, *one, *both, 3, False, differentiable=(0, 1))
    yield operator("sll_array_jagged_bmm_jagged_out", squares, y, *both, *one, *one, 3, False, differentiable=(0, 1))
    learned = partial(operator, differentiable=(0, 1, 2))
    q, k, v = (floats(part, 6, 4) for part in "qkv")
    yield learned("sll_jagged_flash_attention_basic", q, k, v, _OFFSETS, 3)
    q, k, v = (floats(part, 2, 6, 4) for part in "qkv")
    yield learned("sll_multi_head_jagged_flash_attention", q, k, v, _OFFSETS, 3)
    targets = floats("q", 6, 4), floats("k", 4, 4, 5), floats("v", 6, 4), floats("bias", 4, 3, 5)
    yield learned("sll_jagged_dense_flash_attention", *targets, _OFFSETS, 3)
