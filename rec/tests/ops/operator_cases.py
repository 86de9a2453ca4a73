"""Calls of operators, for every test that wants some: tiers, tracing, and the comparison with the peer.

`CASES` has names "operator/what/..." -> arguments. Tensors that require gradients are to be asked for them. Whoever
makes a call copies the arguments first (`copied`): some operators change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from flambeau.core.testing import fill

Arguments = tuple[Any, ...]
CASES: dict[str, Arguments] = {}

I32, I64 = torch.int32, torch.int64
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
IDS = {"int32": I32, "int64": I64}
FLOATS = {"float32": F32, "float64": F64, "float16": F16, "bfloat16": BF16}
VALUES = {**FLOATS, "int32": I32, "int64": I64, "uint8": torch.uint8, "bool": torch.bool}


def cases(*operators: str) -> Callable[[Callable[[], Iterator[tuple[str, Arguments]]]], None]:
    """Take the calls that a generator gives as (name, arguments), for each of the operators."""

    def take(generate: Callable[[], Iterator[tuple[str, Arguments]]]) -> None:
        for operator in operators:
            for name, arguments in generate():
                full = f"{operator}/{name}"
                assert full not in CASES, f"there are two cases {full}"
                CASES[full] = arguments

    return take


def mapped(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The same with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    return type(value)(mapped(change, one) for one in value) if isinstance(value, (list, tuple)) else value


def leaves(values: Any) -> Iterator[Tensor]:
    """Every tensor, in order."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from leaves(value)
        elif isinstance(value, Tensor):
            yield value


def copied(arguments: Any) -> Any:
    """Arguments of the caller's own."""
    return mapped(lambda one: one.detach().clone().requires_grad_(one.requires_grad), arguments)


def detached(arguments: Any) -> Any:
    """Arguments of the caller's own, without gradients."""
    return mapped(lambda one: one.detach().clone(), arguments)


def spread(arguments: Any) -> Any:
    """The same values with gaps between them."""

    def apart(one: Tensor) -> Tensor:
        gaps = torch.stack([one.detach(), one.detach()], -1)[..., 0] if one.dim() else one.detach()
        return gaps.requires_grad_(one.requires_grad)

    return mapped(apart, arguments)


def floats(name: str, shape: tuple[int, ...], dtype: torch.dtype = F32, *, learned: bool = False) -> Tensor:
    """Numbers in [-1, 1), always the same for a name; integers below 8 and booleans for other dtypes."""
    made = fill.tensor(name, shape)
    made = made.to(dtype) if dtype.is_floating_point else (made * 4 + 4).to(dtype)
    return made.requires_grad_(learned and dtype.is_floating_point)


def ids(name: str, count: int, high: int, dtype: torch.dtype = I64) -> Tensor:
    """Integers in [0, high), always the same for a name."""
    return fill.integers(name, (count,), max(high, 1)).to(dtype)


def ints(values: list[Any], dtype: torch.dtype = I64) -> Tensor:
    """A tensor of integers."""
    return torch.tensor(values, dtype=dtype)


# --- ranges ----------------------------------------------------------------------------------------------------------

LENGTHS = {"ragged": [2, 0, 3, 1], "even": [2, 2, 2], "empty-bags": [0, 0, 0], "one": [5], "none": []}


@cases("offsets_range")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths), (name, dtype) in product(LENGTHS.items(), IDS.items()):
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        yield f"{kind}/{name}", (ints(starts, dtype), sum(lengths))
    yield "long/int64", (ints([0, 3, 3, 1000]), 5000)
    yield "matrix", (ints([[0, 2], [2, 5]]), 7)
    yield "float", (torch.tensor([0.0, 2.0]), 7)


@cases("lengths_range", "repeat_arange")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths), (name, dtype) in product(LENGTHS.items(), IDS.items()):
        yield f"{kind}/{name}", (ints(lengths, dtype),)
    yield "matrix", (ints([[2, 1], [0, 3]]),)


@cases("lengths_range")
def _() -> Iterator[tuple[str, Arguments]]:
    for name, dtype in IDS.items():
        yield f"shape/{name}", (ints([2, 0, 3], dtype), [5])
        yield f"two-dim-shape/{name}", (ints([2, 0, 4], dtype), [3, 2])


@cases("invert_permute")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, values), (name, dtype) in product({"some": [3, 0, 2, 1], "none": [], "one": [0]}.items(), IDS.items()):
        yield f"{kind}/{name}", (ints(values, dtype),)


@cases("expand_into_jagged_permute")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, one), (b, other) in product(IDS.items(), IDS.items()):
        yield f"some/{a}/{b}", (ints([1, 2, 0], one), ints([0, 2, 2, 5], other), ints([0, 0, 3, 5], other), 5)
        yield f"none/{a}/{b}", (ints([], one), ints([0], other), ints([0], other), 0)
    yield "mixed-offsets", (ints([1, 2, 0]), ints([0, 2, 2, 5]), ints([0, 0, 3, 5], I32), 5)


@cases("segment_sum_csr")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, dtype), (b, id_dtype) in product(VALUES.items(), IDS.items()):
        yield f"some/{a}/{b}", (2, ints([0, 2, 3, 3, 5], id_dtype), floats("s", (10,), dtype))
    yield "no-segments", (2, ints([0]), floats("s", (0,)))
    yield "no-batch", (0, ints([0, 2, 3]), floats("s", (0,)))
    yield "long", (7, ints([0, 100, 150, 1000]), floats("s", (7000,)))


@cases("get_source_mask")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, one), (b, other) in product(IDS.items(), IDS.items()):
        yield f"some/{a}/{b}", (ints([2, 0, 1], one), ints([1, 2, 1], other), 7)
    yield "none", (ints([]), ints([]), 0)
    yield "empty-rows", (ints([0, 0]), ints([0, 0]), 0)


# --- permutations ----------------------------------------------------------------------------------------------------

BATCH = [[1, 2, 0], [2, 0, 1], [0, 1, 3]]


@cases("permute_2D_sparse_data", "permute_sparse_data", "permute_sparse_features")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, order), (a, length_dtype), (b, dtype) in product(
        {"all": [2, 0, 1], "some": [2, 0], "repeated": [1, 1, 0, 2], "none": []}.items(), IDS.items(), VALUES.items()
    ):
        yield f"{kind}/{a}/{b}", (ints(order, I32), ints(BATCH, length_dtype), floats("v", (10,), dtype))
    for a, dtype in FLOATS.items():
        weights = floats("w", (10,), dtype, learned=True)
        yield f"weighted/{a}", (ints([2, 0, 1], I32), ints(BATCH), ids("v", 10, 90), weights)
        yield (
            f"weighted-floats/{a}",
            (ints([1, 1], I32), ints(BATCH), floats("v", (10,), F32, learned=True), weights),
        )
    yield "long-permute", (ints([2, 0, 1]), ints(BATCH), ids("v", 10, 90))
    yield "no-items", (ints([1, 0], I32), ints([[0, 0], [0, 0]]), ids("v", 0, 90), floats("w", (0,)))
    yield "no-batch", (ints([1, 0], I32), torch.zeros(2, 0, dtype=I64), ids("v", 0, 90))


@cases("permute_1D_sparse_data")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, order), (a, length_dtype), (b, dtype) in product(
        {"all": [3, 0, 1, 2], "some": [2, 0], "repeated": [1, 2, 2, 0]}.items(), IDS.items(), VALUES.items()
    ):
        yield f"{kind}/{a}/{b}", (ints(order, I32), ints([2, 0, 3, 1], length_dtype), floats("v", (6,), dtype))
    for a, dtype in FLOATS.items():
        yield (
            f"weighted/{a}",
            (ints([3, 0, 0, 2], I32), ints([2, 0, 3, 1]), ids("v", 6, 90), floats("w", (6,), dtype)),
        )


@cases("permute_2D_sparse_data_input1D")
def _() -> Iterator[tuple[str, Arguments]]:
    flat = [one for row in BATCH for one in row]
    for (kind, order), (a, dtype) in product({"all": [2, 0, 1], "some": [1], "repeated": [0, 0]}.items(), IDS.items()):
        yield f"{kind}/{a}", (ints(order, I32), ints(flat, dtype), ids("v", 10, 90), 3)
        yield f"{kind}/weighted/{a}", (
            ints(order, I32), ints(flat, dtype), floats("v", (10,), learned=True), 3, floats("w", (10,), learned=True)
        )  # fmt: skip


@cases("permute_sequence_embeddings")
def _() -> Iterator[tuple[str, Arguments]]:
    yield "rows", (ints([1, 0], I32), ints([[1, 2], [0, 1]]), floats("e", (4, 3)))


@cases("permute_2D_sparse_preallocated_out")
def _() -> Iterator[tuple[str, Arguments]]:
    given = ints([2, 0, 1], I32), ints(BATCH), ids("v", 10, 90)
    yield "new", given
    yield "given", (*given, None, 10, torch.zeros(3, 3, dtype=I64), torch.zeros(10, dtype=I64))
    yield "given-weighted", (
        *given, floats("w", (10,)), 10, torch.zeros(3, 3, dtype=I64), torch.zeros(10, dtype=I64), torch.zeros(10)
    )  # fmt: skip


# --- buckets ---------------------------------------------------------------------------------------------------------

BAGS = [0, 2, 1, 3, 2, 3, 3, 1]
BLOCKS = [5, 15, 10, 20]


@cases("bucketize_sparse_features")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, one), (b, other), places, shards in product(IDS.items(), IDS.items(), (False, True), (1, 2, 3)):
        given = ints(BAGS, one), ids("b", 15, 40, other), places, shards
        yield f"{a}/{b}/{places}/{shards}", given
        yield f"weighted/{a}/{b}/{places}/{shards}", (*given, floats("w", (15,)))
    yield "no-bags", (ints([]), ints([]), True, 2)
    yield "no-items", (ints([0, 0]), ints([]), True, 2)
    yield "negative", (ints([2, 1]), ints([-1, -7, 3]), False, 3)
    yield "negative/int32", (ints([2, 1], I32), ints([-1, -7, 3], I32), False, 3)


@cases("block_bucketize_sparse_features", "block_bucketize_sparse_features_inference")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, one), (b, other), places, sequence in product(IDS.items(), IDS.items(), (False, True), (False, True)):
        given = ints(BAGS, one), ids("b", 15, 40, other), places, sequence, ints(BLOCKS, other), 2
        yield f"{a}/{b}/{places}/{sequence}", given
        yield f"weighted/{a}/{b}/{places}/{sequence}", (*given, floats("w", (15,)))
    for shards in (1, 3, 5):
        yield f"shards/{shards}", (ints(BAGS), ids("b", 15, 90), True, True, ints(BLOCKS), shards)
    yield "in-turn", (ints(BAGS), ids("b", 15, 90), True, True, ints([0, 15, 0, 20]), 3)
    yield "negative", (ints([2, 1]), ints([-1, -7, 3]), False, True, ints([5]), 3)
    yield "negative/int32", (ints([2, 1], I32), ints([-1, -7, 3], I32), False, True, ints([5], I32), 3)
    yield "large", (ints([3]), ints([2**40, 2**33 + 5, 2**62]), False, True, ints([2**32]), 3)
    yield "no-bags", (ints([]), ints([]), True, True, ints([5, 3]), 2)
    yield "no-items", (ints([0, 0]), ints([]), True, True, ints([5, 3]), 2)
    varied = ints([2, 1, 0, 2, 3, 1, 1]), ids("b", 10, 40), False, True, ints([5, 15, 10]), 2
    for name, dtype in IDS.items():
        yield f"batches/{name}", (*varied, None, ints([2, 3, 2], dtype), 3)
        yield f"batches/weighted/{name}", (*varied, floats("w", (10,)), ints([2, 3, 2], dtype), 3)
    even = ints(BAGS), ids("b", 15, 40), True, True
    bounds = [ints([0, 4, 40]), ints([0, 20, 40]), ints([0, 30, 40]), ints([0, 10, 40])]
    yield "bounds", (*even, ints([1, 1, 1, 1]), 2, None, None, -1, bounds)
    low = [ints([3, 4, 30]), ints([0, 20, 25]), ints([0, 30, 40]), ints([0, 10, 40])]
    yield "bounds-beyond", (*even, ints([1, 1, 1, 1]), 2, None, None, -1, low)


@cases("block_bucketize_sparse_features")
def _() -> Iterator[tuple[str, Arguments]]:
    even = ints(BAGS), ids("b", 15, 90), True, True
    nothing = None, None, -1, None
    yield "kept", (*even, ints(BLOCKS), 3, *nothing, True)
    yield "totals", (*even, ints(BLOCKS), 2, *nothing, False, ints([4, 4, 2, 2]))
    yield "totals-in-turn", (*even, ints([0, 15, 0, 20]), 2, *nothing, False, ints([4, 4, 6, 2]))
    yield "kept-by-feature", (*even, ints(BLOCKS), 3, *nothing, False, None, torch.tensor([True, False, True, False]))
    yield "kept-by-feature-instead", (
        *even, ints(BLOCKS), 3, *nothing, True, None, torch.tensor([True, False, True, False])
    )  # fmt: skip
    yield "wrong-lengths", (ints([1, 1]), ids("b", 5, 9), False, False, ints([5]), 2)


@cases("block_bucketize_sparse_features_inference")
def _() -> Iterator[tuple[str, Arguments]]:
    even = ints(BAGS), ids("b", 15, 90), True, True
    for shards in (2, 3):
        yield f"mapping/{shards}", (*even, ints(BLOCKS), shards, None, None, -1, None, True)
    yield "mapping-kept", (*even, ints(BLOCKS), 3, floats("w", (15,)), None, -1, None, True, True)


@cases("block_bucketize_sparse_features_2d_weights")
def _() -> Iterator[tuple[str, Arguments]]:
    for (name, dtype), places in product(IDS.items(), (False, True)):
        even = ints(BAGS, dtype), ids("b", 15, 90, dtype), places, True, ints(BLOCKS, dtype), 3
        yield f"{name}/{places}", (*even, floats("w", (15, 4)), 4)
    yield "kept", (*even, floats("w", (15, 4)), 4, None, -1, None, True)


@cases("populate_bucketized_permute")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, one), (b, other) in product(IDS.items(), IDS.items()):
        yield (
            f"some/{a}/{b}",
            (ints([0, 2, 1, 3], one), ints([0, 1, 1, 1, 0, 1, 0, 2], one), ints([0, 1, 0, 1, 0, 1], other)),
        )
    yield "none", (ints([0, 0]), ints([0, 0, 0, 0]), ints([]))


# --- bounds ----------------------------------------------------------------------------------------------------------


@cases("bounds_check_indices")
def _() -> Iterator[tuple[str, Arguments]]:
    kinds = {
        "good": ([0, 4, 4, 3, 2, 1, -1], [0, 2, 3, 5, 7]),
        "stray": ([0, 7, 4, -3, 2, 1, 3], [0, 2, 3, 5, 7]),
        "decreasing": ([0, 1, 4, 2, 2, 1, 1], [0, 2, 9, 5, 7]),
        "negative-offset": ([0, 1, 4, 2, 2, 1, 1], [-2, 2, 3, 5, 7]),
        "beyond": ([0, 1, 4, 2, 2, 1, 1], [0, 2, 3, 5, 9]),
        "short": ([0, 1, 4, 2, 2, 1, 1], [0, 2, 3, 5, 6]),
        "late": ([0, 1, 4, 2, 2, 1, 1], [1, 2, 3, 5, 7]),
        "empty": ([], [0, 0, 0, 0, 0]),
    }
    for (kind, (indices, offsets)), (name, dtype), mode in product(kinds.items(), IDS.items(), range(4)):
        yield (
            f"{kind}/{name}/{mode}",
            (ints([5, 3]), ints(indices, dtype), ints(offsets, dtype), mode, torch.zeros(1, dtype=I64)),
        )
    good = ints([5, 3]), ints([0, 9, 4, 3]), ints([0, 1, 2, 4])
    for mode in range(3):
        yield (
            f"batches/{mode}",
            (*good, mode, torch.zeros(1, dtype=I64), floats("w", (4,)), ints([0, 2, 3], I32), 2),
        )
    yield "weighted", (*good[:2], ints([0, 1, 2, 3, 4]), 2, torch.zeros(1, dtype=I64), floats("w", (4,)))
    yield "too-few-weights", (*good[:2], ints([0, 1, 2, 3, 4]), 2, torch.zeros(1, dtype=I64), floats("w", (3,)))
    yield "mixed", (*good[:2], ints([0, 1, 2, 3, 4], I32), 2, torch.zeros(1, dtype=I64))
    yield "indivisible", (ints([5, 3]), ints([0]), ints([0, 1, 1, 1]), 2, torch.zeros(1, dtype=I64))


# --- rows ------------------------------------------------------------------------------------------------------------


@cases("index_select_dim0")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, dtype), (b, id_dtype) in product(VALUES.items(), IDS.items()):
        yield f"{a}/{b}", (floats("x", (7, 4), dtype, learned=True), ints([6, 0, 0, 3, 2], id_dtype))
    for width in (1, 2, 3, 8, 16, 17, 33, 64, 128, 200):
        yield f"wide/{width}", (floats("x", (9, width), learned=True), ids("i", 20, 9))
    yield "vector", (floats("x", (9,), learned=True), ids("i", 20, 9))
    yield "cube", (floats("x", (5, 2, 3), learned=True), ints([4, 1, 1]))
    yield "no-indices", (floats("x", (5, 3), learned=True), ints([]))
    yield "no-columns", (floats("x", (5, 0)), ints([0, 4]))
    yield "hints", (floats("x", (5, 3)), ints([2, 3]), 2, 2, True)
    yield "stray", (floats("x", (5, 3)), ints([5]))
    yield "negative", (floats("x", (5, 3)), ints([-1]))
    yield "matrix", (floats("x", (5, 3)), ints([[0, 1]]))
    yield "transposed", (floats("x", (3, 5)).t(), ints([4, 0]))


@cases("group_index_select_dim0")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, dtype), (b, id_dtype) in product(FLOATS.items(), IDS.items()):
        tables = [floats("x", (7, 4), dtype, learned=True), floats("y", (5, 4), dtype, learned=True)]
        yield f"{a}/{b}", (tables, [ints([6, 0, 0], id_dtype), ints([1, 1, 4], id_dtype)])
    yield "widths", ([floats("x", (7, 4)), floats("y", (5, 2))], [ints([6, 0]), ints([1, 1])])
    yield "counts", ([floats("x", (7, 4)), floats("y", (5, 4))], [ints([6, 0]), ints([1, 1, 2])])
    yield "cubes", ([floats("x", (7, 2, 2)), floats("y", (5, 2, 2))], [ints([6, 0]), ints([1, 2])])
    yield "one", ([floats("x", (7, 4))], [ints([6, 0])])
    yield "stray", ([floats("x", (7, 4))], [ints([7])])
    yield "no-indices", ([floats("x", (7, 4))], [ints([])])


@cases("batch_index_select_dim0")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, dtype), (b, id_dtype), permuted in product(FLOATS.items(), IDS.items(), (False, True)):
        flat = floats("x", (43,), dtype, learned=True)
        yield f"{a}/{b}/{permuted}", (flat, ints([6, 0, 0, 4, 4, 1], id_dtype), [3, 3], [7, 5], [4, 3], permuted)
    yield "counts", (floats("x", (43,), learned=True), ints([6, 4, 4, 1]), [1, 3], [7, 5], [4, 3])
    yield "counts-permuted", (floats("x", (43,)), ints([6, 4, 4, 1]), [1, 3], [7, 5], [4, 3], True)
    yield "one", (floats("x", (28,), learned=True), ints([6, 4]), [2], [7], [4])
    yield "no-indices", (floats("x", (28,)), ints([]), [0], [7], [4])
    yield "short", (floats("x", (27,)), ints([6, 4]), [2], [7], [4])
    yield "stray", (floats("x", (28,)), ints([7, 4]), [2], [7], [4])
    yield "default", (floats("x", (43,), learned=True), ints([6, 0, 0, 4, 4, 1]), [3, 3], [7, 5], [4, 3])


@cases("batch_index_select_dim0_tensor")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, dtype), permuted in product(FLOATS.items(), (False, True)):
        flat = floats("x", (43,), dtype, learned=True)
        yield (
            f"{a}/{permuted}",
            (flat, ints([6, 0, 0, 4, 4, 1]), ints([3, 3]), ints([7, 5]), ints([4, 3]), permuted),
        )


# --- columns ---------------------------------------------------------------------------------------------------------

POOLED = {"": (False, False), "_split": (False, False), "_auto_grad": (False, True), "_auto_grad_split": (False, True)}


@cases(
    "permute_pooled_embs",
    "permute_pooled_embs_split",
    "permute_pooled_embs_auto_grad",
    "permute_pooled_embs_auto_grad_split",
)
def _() -> Iterator[tuple[str, Arguments]]:
    lists = ints([0, 4, 10, 12]), ints([2, 0, 1]), ints([0, 2, 6, 12]), ints([1, 2, 0])
    for name, dtype in FLOATS.items():
        yield f"some/{name}", (floats("x", (3, 12), dtype), *lists)
    yield "no-rows", (floats("x", (0, 12)), *lists)
    yield "vector", (floats("x", (12,)), *lists)
    yield "too-few", (floats("x", (3, 12)), ints([0, 4, 12]), *lists[1:])


@cases("permute_pooled_embs_auto_grad", "permute_pooled_embs_auto_grad_split")
def _() -> Iterator[tuple[str, Arguments]]:
    lists = ints([0, 4, 10, 12]), ints([2, 0, 1]), ints([0, 2, 6, 12]), ints([1, 2, 0])
    for name, dtype in FLOATS.items():
        yield f"learned/{name}", (floats("x", (3, 12), dtype, learned=True), *lists)


@cases(
    "permute_duplicate_pooled_embs",
    "permute_duplicate_pooled_embs_split",
    "permute_duplicate_pooled_embs_auto_grad",
    "permute_duplicate_pooled_embs_auto_grad_split",
)
def _() -> Iterator[tuple[str, Arguments]]:
    lists = ints([0, 4, 10, 12]), ints([2, 0, 2, 1]), ints([0, 2, 6, 8, 14]), ints([1, 3, 0])
    for name, dtype in FLOATS.items():
        yield f"some/{name}", (floats("x", (3, 12), dtype), *lists)
    fewer = ints([0, 4, 10, 12]), ints([2, 0]), ints([0, 2, 6]), ints([1, 0])
    yield "fewer", (floats("x", (3, 12)), *fewer)


KEYS, WIDTHS = [["f1", "f2"], ["f3", "f4", "f5"]], [[3, 4], [5, 1, 3]]
GROUPS = {
    "all": [["f1", "f2", "f3", "f4", "f5"]],
    "one-each": [["f5"], ["f4"], ["f3"], ["f2"], ["f1"]],
    "repeated": [["f1", "f3"], ["f2"], ["f4", "f1", "f5"]],
    "thrice": [["f1", "f3", "f1"], ["f1", "f3"]],
    "some": [["f2"]],
}


@cases("kt_regroup_arguments")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, groups in GROUPS.items():
        yield kind, (floats("x", (1,)), KEYS, WIDTHS, groups)
    yield "unknown", (floats("x", (1,)), KEYS, WIDTHS, [["f9"]])


@cases("regroup_keyed_tensor")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, groups), (name, dtype) in product(GROUPS.items(), FLOATS.items()):
        tables = [floats("x", (3, 7), dtype, learned=True), floats("y", (3, 9), dtype, learned=True)]
        yield f"{kind}/{name}", (tables, KEYS, WIDTHS, groups)
    tables = [floats("x", (3, 7)), floats("y", (3, 9))]
    yield "unknown", (tables, KEYS, WIDTHS, [["f9"]])
    yield "no-rows", ([floats("x", (0, 7)), floats("y", (0, 9))], KEYS, WIDTHS, GROUPS["repeated"])


def permutes(groups: list[list[str]]) -> tuple[Any, ...]:
    """What `kt_regroup_arguments` gives, by upstream's rules as far as they are read."""
    at = {"f1": (0, 0, 3), "f2": (0, 3, 4), "f3": (1, 0, 5), "f4": (1, 5, 1), "f5": (1, 6, 3)}
    rows = []
    for to, group in enumerate(groups):
        column = 0
        for key in group:
            rows.append([at[key][0], to, at[key][1], column, at[key][2], 0])
            column += at[key][2]
    met: dict[tuple[int, int], int] = {}
    for number, row in enumerate(rows):
        place = row[0], row[2]
        if place in met:
            earlier = rows[met[place]]
            earlier[5] = number if earlier[5] == 0 else -number
            row[5] = -len(rows)
        met[place] = number
    widths = [sum(at[key][2] for key in group) for group in groups]
    return ints(rows, I32), ints([7, 9], I32), ints(widths, I32), widths


@cases("permute_multi_embedding", "permute_multi_embedding_function")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, groups), (name, dtype) in product(GROUPS.items(), FLOATS.items()):
        tables = [floats("x", (3, 7), dtype, learned=True), floats("y", (3, 9), dtype, learned=True)]
        yield f"{kind}/{name}", (tables, *permutes(groups))
    yield "no-rows", ([floats("x", (0, 7)), floats("y", (0, 9))], *permutes(GROUPS["some"]))


# --- requests --------------------------------------------------------------------------------------------------------

ADS = ints([0, 2, 4], I32)
UNEVEN = ints([0, 1, 4], I32)


@cases("reorder_batched_ad_lengths")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, dtype), (b, offsets) in product(VALUES.items(), {"even": ADS, "uneven": UNEVEN}.items()):
        yield f"{a}/{b}", (floats("l", (8,), dtype), offsets, 4)
    for name, dtype in IDS.items():
        yield f"broadcast/{name}", (ints([2, 1, 0, 3], dtype), UNEVEN, 4, True)
        yield f"padded/{name}", (ints([2, 1, 0, 3, 1, 1, 2, 0], dtype), ADS, 4, False, 6)
    yield "long-offsets", (ints([2, 1, 0, 3, 1, 1, 2, 0]), ints([0, 2, 4]), 4)
    yield "broadcast-padded", (ints([2, 1, 0, 3]), UNEVEN, 4, True, 6)
    yield "none", (ints([]), ints([0], I32), 0)


@cases("reorder_batched_ad_indices")
def _() -> Iterator[tuple[str, Arguments]]:
    before, after = [0, 2, 3, 3, 6, 7, 8, 10, 10], [0, 2, 3, 4, 5, 5, 8, 10, 10]
    for (a, dtype), (b, id_dtype) in product(VALUES.items(), IDS.items()):
        items = floats("i", (10,), dtype)
        yield f"{a}/{b}", (ints(before, id_dtype), items, ints(after, id_dtype), ADS, 4)
    shared = ints([0, 2, 3, 3, 6]), ids("i", 6, 90), ints([0, 2, 2, 2, 2, 3, 6, 9, 12]), UNEVEN, 4, True
    yield "broadcast", (*shared, 12)
    yield "broadcast-unknown", shared
    yield "learned", (ints(before), floats("i", (10,), learned=True), ints(after), ADS, 4)


@cases("cat_reorder_batched_ad_indices")
def _() -> Iterator[tuple[str, Arguments]]:
    before, after = ints([0, 2, 3, 3, 6, 7, 8, 10, 10]), ints([0, 2, 3, 4, 5, 5, 8, 10, 10])
    for name, dtype in IDS.items():
        yield (
            f"two/{name}",
            (before, [ids("a", 6, 90, dtype), ids("b", 4, 90, dtype)], after, ADS, 4, False, 10),
        )
    yield "broadcast", (
        ints([0, 2, 3, 3, 6]), [ids("a", 3, 90), ids("b", 3, 90)], ints([0, 2, 2, 2, 2, 3, 6, 9, 12]), UNEVEN, 4, True,
        12
    )  # fmt: skip


@cases("reorder_batched_sequence_embeddings")
def _() -> Iterator[tuple[str, Arguments]]:
    before, after = ints([0, 2, 3, 3, 6, 7, 8, 10, 10]), ints([0, 2, 3, 4, 5, 5, 8, 10, 10])
    for name, dtype in FLOATS.items():
        yield name, (before, floats("e", (10, 3), dtype), after, ints([0, 2, 4]), 4)
    yield "learned", (before, floats("e", (10, 3), learned=True), after, ints([0, 2, 4]), 4)


# --- joined inputs ---------------------------------------------------------------------------------------------------

NO_WEIGHTS = torch.empty(0)


def joined(*, last: tuple[bool, bool], weighted: tuple[bool, bool]) -> tuple[Any, ...]:
    offsets = [ints([0, 1, 4][: 2 + last[0]], I32), ints([0, 2, 3][: 2 + last[1]])]
    weights = [floats("w0", (4,)) if weighted[0] else NO_WEIGHTS, floats("w1", (3,)) if weighted[1] else NO_WEIGHTS]
    return [ids("i", 4, 9, I32), ids("j", 3, 9)], offsets, weights, torch.tensor(last)


BOTH = list(product((False, True), (False, True)))


@cases("tbe_input_combine")
def _() -> Iterator[tuple[str, Arguments]]:
    for last, weighted in product(BOTH, BOTH):
        yield f"{last}/{weighted}", joined(last=last, weighted=weighted)
    yield "empty-bags", ([ids("i", 0, 9)], [ints([0, 0, 0])], [NO_WEIGHTS], torch.tensor([True]))


@cases("padding_fused_tbe_input_combine")
def _() -> Iterator[tuple[str, Arguments]]:
    for last, weighted, batch in product(BOTH, BOTH, (2, 4)):
        yield f"{last}/{weighted}/{batch}", (*joined(last=last, weighted=weighted), batch)


@cases("tbe_input_combine_with_length")
def _() -> Iterator[tuple[str, Arguments]]:
    for weighted in BOTH:
        indices, _, weights, _ = joined(last=(True, True), weighted=weighted)
        yield f"{weighted}", (indices, [ints([1, 3], I32), ints([2, 1])], weights)


@cases("padding_fused_tbe_input_combine_with_length")
def _() -> Iterator[tuple[str, Arguments]]:
    for weighted, batch in product(BOTH, (2, 5)):
        indices, _, weights, _ = joined(last=(True, True), weighted=weighted)
        yield f"{weighted}/{batch}", (indices, [ints([1, 3], I32), ints([2, 1])], weights, batch)


# --- pruned tables ---------------------------------------------------------------------------------------------------


@cases("pruned_array_lookup")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, one), (b, other) in product(IDS.items(), IDS.items()):
        yield f"{a}/{b}", (
            ints([0, 3, 2, 1, 1], one), ints([0, 2, 3, 4, 5], one), ints([0, -1, 1, -1], other), ints([0, 4, 4])
        )  # fmt: skip
    yield "none-pruned", (ints([0, 3]), ints([0, 1, 2]), ints([]), ints([0, 0, 0]))


def hash_table() -> Tensor:
    table = torch.full((12, 2), -1, dtype=I32)
    for slot, pair in {2: (100, 2), 3: (9, 1), 5: (5, 0)}.items():
        table[slot] = ints(list(pair), I32)
    return table


@cases("pruned_hashmap_lookup")
def _() -> Iterator[tuple[str, Arguments]]:
    yield "some", (ints([5, 9, 100, 7], I32), ints([0, 2, 4], I32), hash_table(), ints([0, 8]))
    yield "two-tables", (ints([5, 9, 100, 7], I32), ints([0, 2, 4], I32), hash_table(), ints([0, 8, 8]))
    yield "long", (ints([5, 9, 100, 7]), ints([0, 2, 4]), hash_table().long(), ints([0, 8]))


@cases("pruned_hashmap_insert")
def _() -> Iterator[tuple[str, Arguments]]:
    free = torch.full((12, 2), -1, dtype=I32)
    yield "some", (ints([5, 9, 100], I32), ints([0, 1, 2], I32), ints([0, 3], I32), free, ints([0, 12]))
    yield "pruned", (ints([5, 9, 100], I32), ints([0, -1, 1], I32), ints([0, 3], I32), free, ints([0, 12]))
    yield "two-tables", (ints([5, 9, 5, 8], I32), ints([0, 1, 0, 1], I32), ints([0, 2, 4], I32), free, ints([0, 6, 12]))
    long = ints([5, 9, 100]), ints([0, 1, 2]), ints([0, 3])
    yield "long", (*long, free.long(), ints([0, 12]))
    yield "crowded", (ids("i", 11, 10**6, I32), ints(list(range(11)), I32), ints([0, 11], I32), free, ints([0, 12]))


@cases("embedding_bag_rowwise_prune")
def _() -> Iterator[tuple[str, Arguments]]:
    indicator = torch.tensor([0.1, -0.5, 0.3, 0.31, 0.9, 0.0])
    for (a, dtype), (b, id_dtype) in product(FLOATS.items(), IDS.items()):
        yield f"{a}/{b}", (floats("w", (6, 4), dtype), indicator, 0.35, id_dtype)
    for rows in (0, 1, 2, 3, 6, 7):
        yield f"least/{rows}", (floats("w", (6, 4)), indicator, 0.35, I32, True, rows)
    for ratio in (0.0, 0.2, 0.25, 0.26, 0.4, 0.5, 1.0, None):
        yield f"ratio/{ratio}", (floats("w", (6, 4)), indicator, 0.35, I32, True, 0, ratio)
    yield "signed", (floats("w", (6, 4)), indicator, 0.3, I32, False)
    yield "all-left-out", (floats("w", (6, 4)), indicator, 5.0, I32)
    yield "narrow", (floats("w", (6, 1)), indicator, 0.35, I32)
    yield "bytes", (floats("w", (6, 8), torch.uint8), indicator, 0.35, I32)


# --- hashes ----------------------------------------------------------------------------------------------------------


@cases("murmur_hash3")
def _() -> Iterator[tuple[str, Arguments]]:
    for value, y, seed in product((3, 10, -1, 123456789), (0, 5), (0, 7)):
        yield f"{value}/{y}/{seed}", (ints([value]), y, seed)
    yield "several", (ints([1, 2, 3]), 0, 0)
    yield "int32", (ints([1], I32), 0, 0)


@cases("zero_collision_hash")
def _() -> Iterator[tuple[str, Arguments]]:
    table = torch.full((8, 1), -1, dtype=I64)
    table[5], table[6] = 1, 3
    for name, dtype in IDS.items():
        for probes in (1, 2, 8):
            yield f"known/{name}/{probes}", (ints([1, 3, 2, 77]), table.to(dtype), probes, True, -1, True)
    read = table, 2, True, -1, True
    yield "local", (ints([1, 3, 2]), *read, ints([4, 4, 8]), ints([4, 0, 0]))
    yield "no-fallback", (ints([1, 3, 2]), *read, None, None, None, False, True)
    put = torch.full((8, 1), -1, dtype=I64), 8, True
    yield "put-in", (ints([1, 2, 3, 1]), *put)
    yield "full", (ints(list(range(10))), *put)
    ages = torch.full((8, 1), -1, dtype=I32)
    given = -1, False, None, None, ages, False, False, False
    seen = ints(list(range(100, 110)), I32)
    yield "evicting", (ints(list(range(10))), *put, *given, seen, 105)
    yield "oldest", (ints(list(range(10))), *put, *given, seen, -1, 1)
    reserved = ints([1, 2, 3, 1]), *put, -1, False, None, None, None, False, False, False, None, -1, 0
    yield "reserved", (*reserved, 50, 2, ints([0, 60, 10, 70], I32))


@cases("create_zch_buffer")
def _() -> Iterator[tuple[str, Arguments]]:
    for evict, long in product((False, True), (False, True)):
        yield f"{evict}/{long}", (4, evict, None, long)


# --- calibration -----------------------------------------------------------------------------------------------------

COUNTS = floats("n", (20,), F64) * 20 + 25
HITS = floats("p", (20,), F64) * 5 + 5


@cases("histogram_binning_calibration")
def _() -> Iterator[tuple[str, Arguments]]:
    for name, dtype in FLOATS.items():
        yield name, (floats("l", (9,), dtype) * 3, COUNTS[:5], HITS[:5], 0.4, 0.0, 1.0, 10, 0.9995)
    yield "extreme", (torch.tensor([-30.0, 0.0, 30.0]), COUNTS[:5], HITS[:5], 0.4, 0.0, 1.0, 10, 0.9995)
    yield "unused", (floats("l", (9,)), COUNTS[:5], HITS[:5], 0.4, 0.0, 1.0, 1000, 0.9995)
    yield "narrow", (floats("l", (9,)), COUNTS[:5], HITS[:5], 0.4, 0.1, 0.9, 10, 0.5)
    yield "none", (floats("l", (0,)), COUNTS[:5], HITS[:5], 0.4, 0.0, 1.0, 10, 0.9995)


@cases("histogram_binning_calibration_by_feature")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, dtype), (b, id_dtype) in product(FLOATS.items(), IDS.items()):
        segments = ints([0, 1, 2, 5, 2], id_dtype), ints([1, 2, 0, 1, 1], id_dtype), 3
        yield f"{a}/{b}", (floats("l", (5,), dtype), *segments, COUNTS, HITS, 5, 0.4, 0.0, 1.0, 10, 0.9995)


@cases("generic_histogram_binning_calibration_by_feature")
def _() -> Iterator[tuple[str, Arguments]]:
    bounds = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=F64)
    for (a, dtype), (b, id_dtype) in product(FLOATS.items(), IDS.items()):
        segments = ints([0, 1, 2, 5, 2], id_dtype), ints([1, 2, 0, 1, 1], id_dtype), 3
        yield f"{a}/{b}", (floats("l", (5,), dtype), *segments, COUNTS, HITS, bounds, 0.4, 10, 0.9995)


# --- dense -----------------------------------------------------------------------------------------------------------


@cases("permute102_baddbmm_permute102")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, dtype), learned in product(FLOATS.items(), (False, True)):
        yield f"{a}/{learned}", (
            floats("b", (3, 5), dtype, learned=learned), floats("A", (2, 3, 4), dtype, learned=learned),
            floats("B", (3, 4, 5), dtype, learned=learned),
        )  # fmt: skip


@cases("batched_unary_embeddings")
def _() -> Iterator[tuple[str, Arguments]]:
    bags = [0, 2, 3, 3, 4, 5, 6]
    for (a, dtype), (b, id_dtype) in product(FLOATS.items(), IDS.items()):
        yield f"{a}/{b}", (
            floats("w", (2, 9), dtype), ints([0, 4, 9], id_dtype), ints(bags, id_dtype),
            ints([1, 3, 0, 2, 4, 4], id_dtype),
        )  # fmt: skip
    yield "column", (floats("w", (2, 9, 1)), ints([0, 4, 9]), ints(bags), ints([1, 3, 0, 2, 4, 4]))
    yield "learned", (floats("w", (2, 9), learned=True), ints([0, 4, 9]), ints(bags), ints([1, 3, 0, 2, 4, 4]))
    yield "stray", (floats("w", (2, 9)), ints([0, 4, 9]), ints(bags), ints([1, 3, 0, 2, 4, 40]))


@cases("bottom_k_per_row")
def _() -> Iterator[tuple[str, Arguments]]:
    rows = ints([[5, 3, 1, 4], [2, 2, 8, 1]])
    for unique, offsets in product((False, True), ([0, 2, 4], [0, 1, 3], [0, 0, 2], [0, 2])):
        yield f"{unique}/{offsets}", (rows, ints(offsets), unique)
    yield "too-many", (rows, ints([0, 4, 8]), True)
    yield "cube", (ints(list(range(24))).view(2, 3, 4), ints([0, 2]), False)


# --- several devices -------------------------------------------------------------------------------------------------

CPU = torch.device("cpu")


@cases("merge_pooled_embeddings")
def _() -> Iterator[tuple[str, Arguments]]:
    for name, dtype in FLOATS.items():
        yield name, ([floats("x", (3, 4), dtype), floats("y", (3, 2), dtype)], 3, CPU)
    yield "rows", ([floats("x", (3, 4)), floats("y", (2, 4))], 4, CPU, 0)
    yield "learned", ([floats("x", (3, 4), learned=True), floats("y", (3, 2), learned=True)], 3, CPU)


@cases("sum_reduce_to_one")
def _() -> Iterator[tuple[str, Arguments]]:
    for name, dtype in FLOATS.items():
        yield name, ([floats("x", (3, 4), dtype), floats("y", (3, 4), dtype)], CPU)
    yield "one", ([floats("x", (3, 4))], CPU)


@cases("all_to_one_device")
def _() -> Iterator[tuple[str, Arguments]]:
    for name, dtype in FLOATS.items():
        yield name, ([floats("x", (3, 4), dtype), floats("y", (3, 4), dtype)], CPU)


@cases("recat_embedding_grad_output_mixed_D")
def _() -> Iterator[tuple[str, Arguments]]:
    for name, dtype in FLOATS.items():
        yield name, (floats("x", (4, 9), dtype), [4, 5])


@cases("recat_embedding_grad_output_mixed_D_batch")
def _() -> Iterator[tuple[str, Arguments]]:
    yield "some", (floats("x", (4, 9)), ints([4, 5]), ints([0, 4]))


@cases("recat_embedding_grad_output")
def _() -> Iterator[tuple[str, Arguments]]:
    yield "some", (floats("x", (2, 3, 4)), [1, 2])


# --- caches ----------------------------------------------------------------------------------------------------------


@cases("get_unique_indices")
def _() -> Iterator[tuple[str, Arguments]]:
    for (name, dtype), count in product(IDS.items(), (False, True)):
        yield f"{name}/{count}", (ints([7, 3, 7, 25, 3], dtype), 26, count)
    yield "none", (ints([]), 26, True)


@cases("get_unique_indices_with_inverse")
def _() -> Iterator[tuple[str, Arguments]]:
    for (name, dtype), count, inverse in product(IDS.items(), (False, True), (False, True)):
        yield f"{name}/{count}/{inverse}", (ints([7, 3, 7, 25, 3], dtype), 26, count, inverse)


@cases("linearize_cache_indices")
def _() -> Iterator[tuple[str, Arguments]]:
    for name, dtype in IDS.items():
        given = ints([3, 4, 1, -1, 2], dtype), ints([0, 2, 3, 4, 5], dtype)
        yield f"all/{name}", (ints([0, 10, 25]), *given)
        yield f"some/{name}", (ints([0, -1, 10]), *given)
    yield "batches", (ints([0, 10, 25]), ints([3, 4, 1]), ints([0, 1, 2, 3]), ints([0, 1, 3], I32), 2)


@cases("linearize_cache_indices_from_row_idx")
def _() -> Iterator[tuple[str, Arguments]]:
    yield "some", (ints([0, -1, 25]), ints([0, 1, 0]), ints([3, 4, -1]))


# --- nearest vectors -------------------------------------------------------------------------------------------------


def inverted_file(parts: int, k: int, *, sizes: tuple[int, ...] = (5, 0, 9, 300), probes: int = 3) -> Arguments:
    """Two queries that look at some of the lists."""
    total = sum(sizes)
    offsets = ints([sum(sizes[:at]) for at in range(len(sizes) + 1)])
    lists = ints([[(query + at) % len(sizes) for at in range(probes)] for query in range(2)])
    codes = ids(f"codes{parts}", total * parts, 256).view(total, parts).to(torch.uint8)
    tables = floats(f"tables{parts}", (2, parts, 256)), floats("coarse", (2, probes))
    return *tables, lists, offsets, codes, floats("norms", (total,)), k


@cases("ivfpq_scan")
def _() -> Iterator[tuple[str, Arguments]]:
    for parts, k in product((1, 3, 8, 16, 32), (1, 7, 400)):
        yield f"{parts}/{k}", inverted_file(parts, k)
    empty = inverted_file(4, 2, sizes=(0, 0))
    yield "nothing", (*empty[:2], ints([[0, 1, 0]] * 2), *empty[3:])
    yield "no-probes", inverted_file(4, 2, probes=0)
    good = inverted_file(8, 3)
    yield "stray-list", (*good[:2], good[2] + 4, *good[3:])
    yield "falling-offsets", (*good[:3], good[3].flip(0), *good[4:])
    yield "few-norms", (*good[:5], good[5][:-1], 3)
    yield "wide-codes", (*good[:4], good[4].int(), *good[5:])
    yield "none-kept", (*good[:6], 0)
