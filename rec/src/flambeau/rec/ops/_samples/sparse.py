"""Samples of operators on sparse batches: ranges, permutations, shards, requests, chosen rows, pooled columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from flambeau.core.testing import Sample
from flambeau.rec.ops._samples._inputs import FLOATS, I32, WHOLE, ends, floats, ints, operator

__all__ = ["sparse_samples"]

_whole = partial(operator, dtypes=WHOLE)


def sparse_samples() -> Iterator[Sample]:
    """Each operator once."""
    yield from _ranges()
    yield from _permutations()
    yield from _shards()
    yield from _requests()
    yield from _rows()
    yield from _columns()
    yield from _numbers()


def _ranges() -> Iterator[Sample]:
    lengths = ints([2, 0, 3, 1])
    for kind in ("complete", "exclusive", "inclusive"):
        yield _whole(f"asynchronous_{kind}_cumsum", lengths)
    yield _whole("asynchronous_batched_complete_cumsum", ints([[2, 0, 3], [1, 1, 4]]))
    yield _whole("offsets_range", ints([0, 2, 2, 5]), 6)
    yield _whole("lengths_range", lengths, [6])
    yield _whole("lengths_range_out", ints([0] * 6), lengths, [6])
    yield _whole("repeat_arange", lengths)
    yield _whole("invert_permute", ints([3, 0, 2, 1]))
    yield _whole("expand_into_jagged_permute", ints([1, 2, 0]), ints([0, 2, 2, 5]), ints([0, 0, 3, 5]), 5)
    yield _whole("get_source_mask", ints([2, 0, 1]), ints([1, 2, 1]), 7)
    yield operator("segment_sum_csr", 2, ints([0, 2, 3, 3, 5]), floats("sums", 10))


def _permutations() -> Iterator[Sample]:
    order, lengths, values, weights = (
        ints([2, 0, 1], I32),
        ints([[1, 2, 0], [2, 0, 1], [0, 1, 3]]),
        ints([*range(10)]),
        floats("weights", 10),
    )
    for name in ("permute_2D_sparse_data", "permute_sparse_data", "permute_sparse_features"):
        yield operator(name, order, lengths, values, weights)
    yield operator("permute_2D_sparse_preallocated_out", order, lengths, values, weights)
    yield operator("permute_2D_sparse_data_input1D", order, lengths.flatten(), values, 3, weights)
    yield operator("permute_1D_sparse_data", ints([3, 0, 0, 2], I32), ints([2, 0, 3, 1]), values[:6], weights[:6])
    yield operator("permute_sequence_embeddings", ints([1, 0], I32), ints([[1, 2], [0, 1]]), floats("items", 4, 3))


def _shards() -> Iterator[Sample]:
    lengths, ids, blocks = (
        ints([0, 2, 1, 3, 2, 3, 3, 1]),
        ints([7 * at % 23 for at in range(15)]),
        ints([5, 15, 10, 20]),
    )
    weights = floats("weights", 15)
    asked = lengths, ids, True, True, blocks, 2
    yield operator("bucketize_sparse_features", lengths, ids, True, 3, weights)
    for ending in ("", "_inference"):
        yield operator(f"block_bucketize_sparse_features{ending}", *asked, weights)
    yield operator("block_bucketize_sparse_features_2d_weights", *asked, floats("weights", 15, 4), 4)
    counted = ints([0, 1, 1, 1, 0, 1, 0, 2])
    yield _whole("populate_bucketized_permute", ints([0, 2, 1, 3]), counted, ints([0, 1, 0, 1, 0, 1]))
    rows, warnings = ints([5, 3]), ints([0])
    yield operator("bounds_check_indices", rows, ints([0, 7, 4, -3]), ints([0, 1, 2, 3, 4]), 2, warnings, dtypes=())


def _requests() -> Iterator[Sample]:
    places, before, after = ints([0, 2, 4], I32), ends([2, 1, 0, 3, 1, 1, 2, 0]), ends([2, 1, 1, 1, 0, 3, 2, 0])
    items = floats("items", 10)
    yield operator("reorder_batched_ad_lengths", floats("lengths", 8), places, 4)
    yield operator("reorder_batched_ad_indices", before, items, after, places, 4)
    halves = [items[:6].clone(), items[6:].clone()]
    yield operator("cat_reorder_batched_ad_indices", before, halves, after, places, 4, False, 10)
    yield operator("reorder_batched_sequence_embeddings", before, floats("items", 10, 3), after, places.long(), 4)
    ids, weights = [ints([3, 1, 4, 1], I32), ints([5, 2, 6])], [floats("first", 4), torch.empty(0)]
    # Weights are float32 there, whatever they were.
    single = partial(operator, dtypes=("float32",))
    offsets, lengths, last = (
        [ints([0, 1, 4], I32), ints([0, 2])],
        [ints([1, 3], I32), ints([2, 1])],
        torch.tensor([True, False]),
    )
    yield single("tbe_input_combine", ids, offsets, weights, last)
    yield single("padding_fused_tbe_input_combine", ids, offsets, weights, last, 4)
    yield single("tbe_input_combine_with_length", ids, lengths, weights)
    yield single("padding_fused_tbe_input_combine_with_length", ids, lengths, weights, 4)


def _rows() -> Iterator[Sample]:
    chosen = ints([6, 0, 0, 3, 2])
    yield operator("index_select_dim0", floats("rows", 7, 4), chosen, differentiable=(0,))
    yield operator("index_add_rows", floats("gradient", 5, 4), chosen, 7)
    tables = [floats("first", 7, 4), floats("second", 5, 2)]
    yield operator("group_index_select_dim0", tables, [ints([6, 0, 0]), ints([1, 1, 4])])
    flat, gradient, ids = floats("tables", 43), floats("gradient", 21), ints([6, 0, 0, 4, 4, 1])
    sizes = [3, 3], [7, 5], [4, 3]
    told = tuple(map(ints, sizes))
    yield operator("batch_index_select_dim0", flat, ids, *sizes, differentiable=(0,))
    yield operator("batch_index_select_dim0_tensor", flat, ids, *told, differentiable=(0,))
    yield operator("batch_index_add_rows", gradient, ids, *sizes, False)
    yield operator("batch_index_add_rows_tensor", gradient, ids, *told, False, 43)


def _columns() -> Iterator[Sample]:
    pooled = floats("pooled", 3, 12)
    lists = ints([0, 4, 10, 12]), ints([2, 0, 1]), ints([0, 2, 6, 12]), ints([1, 2, 0])
    twice = ints([0, 4, 10, 12]), ints([2, 0, 2, 1]), ints([0, 2, 6, 8, 14]), ints([1, 3, 0])
    for ending in ("", "_split", "_auto_grad", "_auto_grad_split"):
        learned = (0,) if "auto_grad" in ending else ()
        yield operator(f"permute_pooled_embs{ending}", pooled, *lists, differentiable=learned)
        yield operator(f"permute_duplicate_pooled_embs{ending}", pooled, *twice)
    yield operator("permute_pooled_embs_back", pooled, *lists[:2], 12, differentiable=(0,))
    tables = [floats("first", 3, 7), floats("second", 3, 9)]
    keys, widths = [["a", "b"], ["c", "d", "e"]], [[3, 4], [5, 1, 3]]
    groups = [["a", "c"], ["b"], ["d", "a", "e"]]
    yield operator("kt_regroup_arguments", tables[0], keys, widths, groups)
    yield operator("regroup_keyed_tensor", tables, keys, widths, groups)
    permutes = torch.ops.flambeau_rec.kt_regroup_arguments(tables[0], keys, widths, groups)
    yield operator("permute_multi_embedding", tables, *permutes)
    yield operator("permute_multi_embedding_function", tables, *permutes)
    cpu = torch.device("cpu")
    matrices, alike = [floats("first", 3, 4), floats("second", 3, 2)], [floats("first", 3, 4), floats("second", 3, 4)]
    yield operator("merge_pooled_embeddings", matrices, 3, cpu)
    yield operator("sum_reduce_to_one", alike, cpu)
    yield operator("all_to_one_device", alike, cpu)
    yield operator("recat_embedding_grad_output", floats("gradient", 2, 3, 4), [1, 2])
    yield operator("recat_embedding_grad_output_mixed_D", floats("gradient", 4, 9), [4, 5])
    yield operator("recat_embedding_grad_output_mixed_D_batch", floats("gradient", 4, 9), ints([4, 5]), ints([0, 4]))


def _numbers() -> Iterator[Sample]:
    """Calibration, products, hashes and what else takes numbers."""
    logits = floats("logits", 5)
    counts, hits = floats("counts", 20).double() * 20 + 25, floats("hits", 20).double() * 5 + 5
    segments = ints([0, 1, 2, 5, 2]), ints([1, 2, 0, 1, 1]), 3
    # Counts are float64, whatever the logits are.
    single = partial(operator, dtypes=())
    yield single("histogram_binning_calibration", logits, counts[:5], hits[:5], 0.4, 0.0, 1.0, 10, 0.9995)
    edges = 5, 0.4, 0.0, 1.0, 10, 0.9995
    yield single("histogram_binning_calibration_by_feature", logits, *segments, counts, hits, *edges)
    bounds = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64)
    name = "generic_histogram_binning_calibration_by_feature"
    yield single(name, logits, *segments, counts, hits, bounds, 0.4, 10, 0.9995)
    factors = floats("bias", 3, 5), floats("left", 2, 3, 4), floats("right", 3, 4, 5)
    yield operator("permute102_baddbmm_permute102", *factors, differentiable=(0, 1, 2))
    weight, ids = floats("weight", 2, 9), ints([1, 3, 0, 2, 4, 4])
    bags = ints([0, 2, 3, 3, 4, 5, 6])
    yield operator("batched_unary_embeddings", weight, ints([0, 4, 9]), bags, ids, differentiable=(0,))
    yield _whole("bottom_k_per_row", ints([[5, 3, 1, 4], [2, 2, 8, 1]]), ints([0, 2, 4]), True, dtypes=("int64",))
    yield _whole("murmur_hash3", ints([1, 2, 3]), 5, 7, dtypes=("int64",))
    lists, codes = ints([[0, 2], [1, 0]]), (torch.arange(14 * 4) * 37 % 256).to(torch.uint8).view(14, 4)
    scanned = floats("products", 2, 4, 256), floats("coarse", 2, 2), lists, ints([0, 5, 5, 14]), codes
    yield operator("ivfpq_scan", *scanned, floats("norms", 14), 3, dtypes=FLOATS[:1])
