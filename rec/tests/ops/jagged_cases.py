"""Calls of the operators on jagged tensors, for every test that wants some; see `operator_cases`.

`JAGGED_CASES` has names "operator/what/..." -> arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import torch
from operator_cases import FLOATS, I32, I64, IDS, VALUES, Arguments, floats, ids, ints, mapped
from torch import Tensor

JAGGED_CASES: dict[str, Arguments] = {}
DIFFERENTIABLE_PARTS = ("dense_to_jagged_forward", "jagged_to_padded_dense_forward")
Generator = Callable[[], Iterator[tuple[str, Arguments]]]


def cases(*operators: str) -> Callable[[Generator], None]:
    """Take the calls that a generator gives, for each of the operators."""

    def take(generate: Generator) -> None:
        for operator, (name, arguments) in product(operators, generate()):
            full = f"{operator}/{name}"
            assert full not in JAGGED_CASES, f"there are two cases {full}"
            # Of parts that upstream calls from its own gradients, none has a gradient of its own.
            part = operator.endswith(("_forward", "_backward")) and operator not in DIFFERENTIABLE_PARTS
            JAGGED_CASES[full] = mapped(Tensor.detach, arguments) if part else arguments

    return take


# Lengths of rows. The longest has three items: dense tensors have two, three or four.
ROWS: dict[str, list[int]] = {
    "ragged": [2, 0, 3, 1], "even": [2, 2], "no-items": [0, 0, 0], "no-rows": [], "one": [3], "empty-ends": [0, 2, 0]
}  # fmt: skip
LONGEST = (2, 3, 4)
# Three jagged dimensions inside of one another, from the outermost inwards.
NESTED = [[2, 0, 1], [1, 2, 0], [2, 0, 3]]


def ends(lengths: list[int], dtype: torch.dtype = I64) -> torch.Tensor:
    """Offsets of rows."""
    return ints([sum(lengths[:at]) for at in range(len(lengths) + 1)], dtype)


def squares(lengths: list[int], dtype: torch.dtype = I64) -> torch.Tensor:
    """Offsets of a square matrix for each row."""
    return ends([length * length for length in lengths], dtype)


def layouts() -> Iterator[tuple[str, list[int], torch.dtype]]:
    """Every layout of rows with offsets of every dtype."""
    for (kind, lengths), (name, dtype) in product(ROWS.items(), IDS.items()):
        yield f"{kind}/{name}", lengths, dtype


# --- jagged to dense and back ----------------------------------------------------------------------------------------


@cases("jagged_to_padded_dense", "jagged_to_padded_dense_forward")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        values = floats("v", (sum(lengths), 3), learned=True)
        yield f"{kind}/{longest}", (values, [ends(lengths, dtype)], [longest], 0.0)
    for (kind, dtype), padding in product(VALUES.items(), (0.0, -1.5, 7.0)):
        yield (
            f"vectors/{kind}/{padding}",
            (floats("v", (6, 3), dtype, learned=True), [ends([2, 0, 3, 1])], [4], padding),
        )
        yield f"numbers/{kind}/{padding}", (floats("v", (6,), dtype, learned=True), [ends([2, 0, 3, 1])], [2], padding)
    for depth, (name, dtype) in product((2, 3), IDS.items()):
        offsets = [ends(one, dtype) for one in NESTED[:depth]]
        items = sum(NESTED[depth - 1])
        for longest in (2, 3):
            given = offsets, [longest] * depth, 0.5
            yield f"nested/{depth}/{name}/{longest}", (floats("v", (items, 2), learned=True), *given)
            yield f"nested-numbers/{depth}/{name}/{longest}", (floats("v", (items,), learned=True), *given)
    fifth = [ends([1, 1]), ends([2, 0]), ends([1, 2]), ends([1, 0, 1]), ends([2, 1])]
    yield "nested/5", (floats("v", (3, 2), learned=True), fifth, [1, 2, 2, 1, 2], 0.0)
    for padding in (float("inf"), float("-inf")):
        yield f"infinite/{padding}", (floats("v", (6, 2), learned=True), [ends([2, 0, 3, 1])], [4], padding)
    yield "no-length", (floats("v", (6, 2)), [ends([2, 0, 3, 1])], [0], 0.0)
    yield "no-width", (floats("v", (6, 0)), [ends([2, 0, 3, 1])], [2], 0.0)
    yield "too-few-lengths", (floats("v", (6, 2)), [ends([2, 0, 3, 1])], [2, 2], 0.0)
    yield "items-left", (floats("v", (8, 2)), [ends([2, 0, 3, 1])], [3], 0.0)


@cases("jagged_to_padded_dense_backward")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), (2, 4)):
        yield f"{kind}/{longest}", (floats("g", (len(lengths), longest, 3)), [ends(lengths, dtype)], sum(lengths))


@cases("dense_to_jagged", "dense_to_jagged_forward")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest, known in product(layouts(), LONGEST, (False, True)):
        dense = floats("d", (len(lengths), longest, 3), learned=True)
        yield (
            f"{kind}/{longest}/{'known' if known else 'unknown'}",
            (dense, [ends(lengths, dtype)], *([sum(lengths)] if known else [])),
        )
    for kind, dtype in VALUES.items():
        yield f"dtype/{kind}", (floats("d", (4, 3, 2), dtype, learned=True), [ends([2, 0, 3, 1])])
    for depth, longest in product((2, 3), (2, 3)):
        dense = floats("d", (3, *[longest] * depth, 2), learned=True)
        yield f"nested/{depth}/{longest}", (dense, [ends(one) for one in NESTED[:depth]])
    yield "wrong-rows", (floats("d", (3, 3, 2)), [ends([2, 0, 3, 1])])


@cases("jagged_1d_to_dense")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), (2, 4)):
        yield f"{kind}/{longest}", (floats("v", (sum(lengths),), learned=True), ends(lengths, dtype), longest, 0)
    for (kind, dtype), padding in product(VALUES.items(), (0, -1)):
        yield f"dtype/{kind}/{padding}", (floats("v", (6,), dtype, learned=True), ends([2, 0, 3, 1]), 4, padding)
    yield "large-padding", (ids("v", 6, 90), ends([2, 0, 3, 1]), 4, 2**62 + 1)
    yield "vectors", (floats("v", (6, 2)), ends([2, 0, 3, 1]), 4, 0)


@cases("jagged_2d_to_dense")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), (2, 4)):
        yield f"{kind}/{longest}", (floats("v", (sum(lengths), 3), learned=True), ends(lengths, dtype), longest)
    for kind, dtype in VALUES.items():
        yield f"dtype/{kind}", (floats("v", (6, 3), dtype, learned=True), ends([2, 0, 3, 1]), 4)
    yield "numbers", (floats("v", (6,)), ends([2, 0, 3, 1]), 4)


@cases("stacked_jagged_1d_to_dense")
def _() -> Iterator[tuple[str, Arguments]]:
    lengths = [[2, 0, 3], [1, 1, 1]]
    for (name, dtype), (kind, values), padding in product(IDS.items(), VALUES.items(), (0, -1)):
        given = floats("v", (8,), values, learned=True), ints(lengths, dtype), [0, 5, 8], [3, 2], padding
        yield f"two/{name}/{kind}/{padding}", given
    yield "cut", (ids("v", 8, 90), ints(lengths), [0, 5, 8], [1, 4], 9)
    yield "no-items", (ids("v", 0, 90), ints([[0, 0], [0, 0]]), [0, 0, 0], [2, 2], 9)


@cases("stacked_jagged_2d_to_dense")
def _() -> Iterator[tuple[str, Arguments]]:
    lengths = [[2, 0, 3], [1, 1, 1]]
    for (name, dtype), (kind, values), padding in product(IDS.items(), FLOATS.items(), (0, 2)):
        given = floats("v", (8, 3), values, learned=True), ints(lengths, dtype), [0, 5, 8], [3, 2], padding
        yield f"two/{name}/{kind}/{padding}", given
    yield "cut", (floats("v", (8, 3), learned=True), ints(lengths), [0, 5, 8], [1, 4])
    yield "no-items", (floats("v", (0, 3), learned=True), ints([[0, 0], [0, 0]]), [0, 0, 0], [2, 2])


# --- elementwise -----------------------------------------------------------------------------------------------------


@cases(
    "jagged_dense_elementwise_add", "jagged_dense_elementwise_add_jagged_output", "jagged_dense_elementwise_mul",
    "jagged_dense_elementwise_mul_forward",
)  # fmt: skip
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        x, y = floats("x", (sum(lengths), 3), learned=True), floats("y", (len(lengths), longest, 3), learned=True)
        yield f"{kind}/{longest}", (x, [ends(lengths, dtype)], y)
    for kind, dtype in (FLOATS | IDS).items():
        x, y = floats("x", (6, 2), dtype, learned=True), floats("y", (4, 3, 2), dtype, learned=True)
        yield f"dtype/{kind}", (x, [ends([2, 0, 3, 1])], y)
    for depth, longest in product((2, 3), (2, 3)):
        x, y = floats("x", (sum(NESTED[depth - 1]), 2)), floats("y", (3, *[longest] * depth, 2), learned=True)
        yield f"nested/{depth}/{longest}", (x.requires_grad_(), [ends(one) for one in NESTED[:depth]], y)
    yield "mixed-dtypes", (floats("x", (6, 2)), [ends([2, 0, 3, 1])], floats("y", (4, 3, 2), torch.float64))
    yield "wrong-width", (floats("x", (6, 2)), [ends([2, 0, 3, 1])], floats("y", (4, 3, 3)))


@cases(
    "jagged_dense_dense_elementwise_add_jagged_output", "jagged_dense_dense_elementwise_add_jagged_output_forward"
)  # fmt: skip
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        y = [floats(name, (len(lengths), longest, 3), learned=True) for name in ("y", "z")]
        yield f"{kind}/{longest}", (floats("x", (sum(lengths), 3), learned=True), [ends(lengths, dtype)], *y)
    for kind, dtype in FLOATS.items():
        y = [floats(name, (4, 3, 2), dtype, learned=True) for name in ("y", "z")]
        yield f"dtype/{kind}", (floats("x", (6, 2), dtype, learned=True), [ends([2, 0, 3, 1])], *y)
    y = [floats(name, (3, 2, 3, 2), learned=True) for name in ("y", "z")]
    yield "nested", (floats("x", (3, 2), learned=True), [ends(one) for one in NESTED[:2]], *y)


@cases("jagged_dense_elementwise_mul_backward")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, lengths, dtype in layouts():
        x, y = floats("x", (sum(lengths), 3)), floats("y", (len(lengths), 3, 3))
        yield kind, (floats("g", (sum(lengths), 3)), [ends(lengths, dtype)], y, x)


# --- products --------------------------------------------------------------------------------------------------------


@cases("batched_dense_vec_jagged_2d_mul", "batched_dense_vec_jagged_2d_mul_forward")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest, heads in product(layouts(), (2, 4), (1, 2)):
        v, a = floats("v", (len(lengths) * heads, longest), learned=True), floats("a", (sum(lengths), heads * 3))
        yield f"{kind}/{longest}/{heads}", (v, a.requires_grad_(), ends(lengths, dtype))
    for kind, dtype in FLOATS.items():
        v, a = floats("v", (8, 3), dtype, learned=True), floats("a", (6, 10), dtype, learned=True)
        yield f"dtype/{kind}", (v, a, ends([2, 0, 3, 1]))
    wide = floats("v", (2, 40), learned=True), floats("a", (60, 37), learned=True), ends([40, 20])
    yield "wide", wide


@cases("batched_dense_vec_jagged_2d_mul_backward")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, lengths, dtype in layouts():
        v, a = floats("v", (len(lengths) * 2, 3)), floats("a", (sum(lengths), 8))
        yield kind, (floats("g", (len(lengths) * 2, 4)), v, a, ends(lengths, dtype))


@cases("jagged_jagged_bmm")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        x, y = floats("x", (sum(lengths), 3), learned=True), floats("y", (sum(lengths), 2), learned=True)
        yield f"{kind}/{longest}", (x, y, ends(lengths, dtype), longest)
    for kind, dtype in FLOATS.items():
        x, y = floats("x", (6, 5), dtype, learned=True), floats("y", (6, 21), dtype, learned=True)
        yield f"dtype/{kind}", (x, y, ends([2, 0, 3, 1]), 3)
    yield "wide", (floats("x", (90, 37), learned=True), floats("y", (90, 45), learned=True), ends([50, 40]), 50)


@cases("jagged_dense_bmm")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        x, y = floats("x", (sum(lengths), 3), learned=True), floats("y", (len(lengths), 3, 2), learned=True)
        yield f"{kind}/{longest}", (x, ends(lengths, dtype), y, longest)
    for kind, dtype in FLOATS.items():
        x, y = floats("x", (6, 5), dtype, learned=True), floats("y", (4, 5, 21), dtype, learned=True)
        yield f"dtype/{kind}", (x, ends([2, 0, 3, 1]), y, 3)
    yield "wide", (floats("x", (90, 37), learned=True), ends([50, 40]), floats("y", (2, 37, 45), learned=True), 50)


@cases("jagged_softmax")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        yield f"{kind}/{longest}", (floats("x", (sum(lengths), 3), learned=True), ends(lengths, dtype), longest)
    for kind, dtype in FLOATS.items():
        yield f"dtype/{kind}", (floats("x", (6, 40), dtype, learned=True), ends([2, 0, 3, 1]), 3)
    great = floats("x", (6, 3)) * 300
    yield "great", (great.requires_grad_(), ends([2, 0, 3, 1]), 3)
    yield "long", (floats("x", (90, 3), learned=True), ends([50, 40]), 50)


@cases("jagged_softmax_backward")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, lengths, dtype in layouts():
        yield kind, (floats("g", (sum(lengths), 3)), floats("o", (sum(lengths), 3)), ends(lengths, dtype), 3)


# --- selection -------------------------------------------------------------------------------------------------------

CHOSEN = {"some": [2, 0], "repeated": [2, 0, 2, 2], "empty-rows": [1, 1], "none": [], "all": [0, 1, 2, 3]}


@cases("jagged_index_select")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, order), (a, one), (b, other) in product(CHOSEN.items(), IDS.items(), IDS.items()):
        given = floats("v", (6, 3), learned=True), ints([2, 0, 3, 1], one), ints(order, other)
        yield f"{kind}/{a}/{b}", given
        yield f"{kind}/{a}/{b}/known", (*given, sum([2, 0, 3, 1][at] for at in order))
    for kind, dtype in VALUES.items():
        yield f"dtype/{kind}", (floats("v", (6, 3), dtype, learned=True), ints([2, 0, 3, 1]), ints([2, 0, 2]))
    yield "stray", (floats("v", (6, 3)), ints([2, 0, 3, 1]), ints([2, 4]))
    yield "no-items", (floats("v", (0, 3), learned=True), ints([0, 0]), ints([1, 0]))


@cases("jagged_index_select_2d_forward")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, dtype in IDS.items():
        yield kind, (floats("v", (6, 3)), ints([2, 0], dtype), ints([2, 2, 5, 6], dtype), ints([3, 5], dtype), 5)


@cases("jagged_index_add_2d_forward")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, dtype in IDS.items():
        ends_, order = ints([3, 5, 8], dtype), ints([2, 0, 2], dtype)
        yield kind, (floats("v", (8, 3)), order, ends_, ints([2, 2, 5, 6], dtype), 8, 6)
    for kind, dtype in (FLOATS | IDS).items():
        given = ints([2, 0, 2]), ints([3, 5, 8]), ints([2, 2, 5, 6]), 8, 6
        yield f"dtype/{kind}", (floats("v", (8, 3), dtype), *given)


@cases("jagged_index_add_2d_forward_v2")
def _() -> Iterator[tuple[str, Arguments]]:
    yield "some", (floats("v", (8, 3)), ints([2, 0, 2]), ints([3, 5, 8]), ints([2, 2, 5, 6]), 6, 8)


@cases("jagged_slice")
def _() -> Iterator[tuple[str, Arguments]]:
    for (a, one), (b, other), most in product(IDS.items(), IDS.items(), (0, 1, 2, 9)):
        given = ints([2, 0, 3, 1], one), ints([0, 0, 1, 0], other), most
        yield f"{a}/{b}/{most}", (floats("v", (6,), learned=True), *given)
    for kind, dtype in FLOATS.items():
        yield f"dtype/{kind}", (floats("v", (6,), dtype, learned=True), ints([2, 0, 3, 1]), ints([1, 0, 2, 0]), 2)
    yield "at-the-end", (floats("v", (6,), learned=True), ints([2, 0, 3, 1]), ints([2, 0, 3, 1]), 2)
    yield "behind", (floats("v", (6,)), ints([2, 0, 3, 1]), ints([3, 0, 0, 0]), 2)
    yield "before", (floats("v", (6,)), ints([2, 0, 3, 1]), ints([-1, 0, 0, 0]), 2)
    yield "no-rows", (floats("v", (0,), learned=True), ints([]), ints([]), 2)


@cases("jagged_slice_forward")
def _() -> Iterator[tuple[str, Arguments]]:
    lengths, start, cut, zero = ints([2, 0, 3, 1]), ints([0, 0, 1, 0]), ints([2, 0, 2, 1]), ints([0, 0, 0, 0])
    yield "cut", (floats("v", (6,)), lengths, start, cut, zero, 5, 2, False)
    yield "put-back", (floats("v", (5,)), cut, zero, lengths, start, 6, 2, True)


@cases("jagged_1d_to_truncated_values")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), most in product(layouts(), (0, 1, 2, 9)):
        yield f"{kind}/{most}", (ids("v", sum(lengths), 90), ints(lengths, dtype), most)
    for kind, dtype in VALUES.items():
        yield f"dtype/{kind}", (floats("v", (6,), dtype), ints([2, 0, 3, 1]), 2)


@cases("masked_select_jagged_1d")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, lengths, dtype in layouts():
        for pattern in ("some", "all", "none"):
            mask = floats("m", (sum(lengths),)) > {"some": 0.0, "all": -2.0, "none": 2.0}[pattern]
            yield f"{kind}/{pattern}", (ids("v", sum(lengths), 90), ints(lengths, dtype), mask)
    for kind, dtype in VALUES.items():
        given = ints([2, 0, 3, 1]), torch.tensor([True, False, True, True, False, True])
        yield f"dtype/{kind}", (floats("v", (6,), dtype), *given)
        yield f"checked/{kind}", (floats("v", (6,), dtype), *given, True)
    yield "short-mask", (ids("v", 6, 90), ints([2, 0, 3, 1]), torch.ones(5, dtype=torch.bool))


@cases("pack_segments")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        yield f"{kind}/{longest}", (floats("v", (sum(lengths), 3), learned=True), ints(lengths, dtype), longest)
    for kind, dtype in VALUES.items():
        yield f"dtype/{kind}", (floats("v", (6,), dtype, learned=True), ints([2, 0, 3, 1]), 3)
    yield "matrices", (floats("v", (6, 2, 3), learned=True), ints([2, 0, 3, 1]), 3)
    yield "no-length", (floats("v", (6,)), ints([2, 0, 3, 1]), 0)
    yield "items-left", (floats("v", (8, 2), learned=True), ints([2, 0, 3, 1]), 3)


@cases("pack_segments_v2")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), infinite, mask in product(layouts(), (False, True), (False, True)):
        given = floats("v", (sum(lengths), 3), learned=True), ints(lengths, dtype), 3, infinite, mask
        yield f"{kind}/{infinite}/{mask}", given
    for (kind, dtype), infinite in product(VALUES.items(), (False, True)):
        yield f"dtype/{kind}/{infinite}", (floats("v", (6,), dtype), ints([2, 0, 3, 1]), 3, infinite)


@cases("pack_segments_backward")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, dtype in IDS.items():
        yield f"some/{kind}", (floats("g", (4, 3, 2)), ints([2, 0, 3, 1], dtype), 6, 3)
        yield f"cut/{kind}", (floats("g", (4, 2, 2)), ints([2, 0, 3, 1], dtype), 6, 2)


@cases("jagged_acc_weights_and_counts")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, dtype in FLOATS.items():
        yield f"some/{kind}", (floats("w", (6,), dtype), ints([0, 2, 0, 3, 3, 0]), 4)
    yield "none", (floats("w", (0,)), ints([]), 0)
    yield "int32", (floats("w", (3,)), ints([0, 1, 0], I32), 2)
