"""Calls of the operators for sequence learning, added to `JAGGED_CASES`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from jagged_cases import JAGGED_CASES, LONGEST, ROWS, cases, ends, layouts, squares
from operator_cases import FLOATS, IDS, VALUES, Arguments, floats, ids, ints

__all__ = ["JAGGED_CASES"]

# Sequences without items are beyond some of the peer's.
FILLED = {"ragged": [2, 1, 3, 1], "even": [2, 2], "one": [3]}


@cases("sll_jagged_dense_bmm")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        x, y = floats("x", (sum(lengths), 3), learned=True), floats("y", (len(lengths), 3, 2), learned=True)
        yield f"{kind}/{longest}", (x, y, ends(lengths, dtype), longest, False)
    yield "without", (floats("x", (6, 3)), floats("y", (4, 3, 2)), ends([2, 0, 3, 1]), 3, True, False)


@cases("sll_jagged_jagged_bmm")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        x, y = floats("x", (sum(lengths), 3), learned=True), floats("y", (sum(lengths), 2), learned=True)
        yield f"{kind}/{longest}", (x, y, ends(lengths, dtype), longest, False)
    yield "without", (floats("x", (6, 3)), floats("y", (6, 2)), ends([2, 0, 3, 1]), 3, True, False)


@cases("sll_jagged_softmax")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        yield f"{kind}/{longest}", (floats("x", (sum(lengths), 3), learned=True), ends(lengths, dtype), longest)
    yield "without", (floats("x", (6, 3)), ends([2, 0, 3, 1]), 3, False)


@cases("sll_jagged2_softmax")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), transpose in product(layouts(), (False, True)):
        x = floats("x", (sum(n * n for n in lengths),), learned=True)
        yield f"{kind}/{transpose}", (x, ends(lengths, dtype), squares(lengths, dtype), 3, transpose)
    for (kind, dtype), transpose in product(FLOATS.items(), (False, True)):
        x = floats("x", (400 + 900,), dtype, learned=True)
        yield f"dtype/{kind}/{transpose}", (x, ends([20, 30]), squares([20, 30]), 30, transpose)
    yield "short", (floats("x", (14,), learned=True), ends([2, 0, 3, 1]), squares([2, 0, 3, 1]), 2, False)


@cases("sll_jagged2_to_padded_dense")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), padding in product(layouts(), (0.0, -1.5)):
        x = floats("x", (sum(n * n for n in lengths),), learned=True)
        yield f"{kind}/{padding}", (x, squares(lengths, dtype), 4, padding)
    for kind, dtype in (FLOATS | IDS).items():
        yield f"dtype/{kind}", (floats("x", (14,), dtype, learned=True), squares([2, 0, 3, 1]), 3, 2.0)
    yield "cut", (floats("x", (14,), learned=True), squares([2, 0, 3, 1]), 2, 0.0)


@cases("sll_jagged_dense_elementwise_add")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), LONGEST):
        x, y = floats("x", (sum(lengths), 3), learned=True), floats("y", (len(lengths), longest, 3), learned=True)
        yield f"{kind}/{longest}", (x, ends(lengths, dtype), y, longest)
    yield "without", (floats("x", (6, 3)), ends([2, 0, 3, 1]), floats("y", (4, 3, 3)), 3, False)


@cases("sll_jagged_dense_elementwise_mul_jagged_out")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, lengths, dtype in layouts():
        x = floats("x", (sum(n * n for n in lengths),), learned=True)
        given = ints(lengths, dtype), squares(lengths, dtype), 3
        yield f"{kind}/dense", (x, floats("y", (3, 3)), *given)
        yield f"{kind}/mask", (x, torch.ones(3, 3, dtype=torch.bool).tril(), *given)
        yield f"{kind}/wider", (x, floats("y", (4, 4)), *given)
    yield "too-small", (floats("x", (14,)), floats("y", (2, 2)), ints([2, 0, 3, 1]), squares([2, 0, 3, 1]), 2)


@cases("sll_dense_jagged_cat_jagged_out")
def _() -> Iterator[tuple[str, Arguments]]:
    for kind, lengths, dtype in layouts():
        yield kind, (ids("a", len(lengths), 90), ids("b", sum(lengths), 90), ends(lengths, dtype), 3)
    for kind, dtype in VALUES.items():
        yield f"dtype/{kind}", (floats("a", (4,), dtype), floats("b", (6,), dtype), ends([2, 0, 3, 1]), 3)


@cases("sll_jagged_self_substraction_jagged_out")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths), (name, dtype) in product(FILLED.items(), IDS.items()):
        given = ids("a", sum(lengths), 90), ends(lengths, dtype), squares([n - 1 for n in lengths], dtype), 3
        yield f"{kind}/{name}", given
    for kind, dtype in (FLOATS | IDS).items():
        yield f"dtype/{kind}", (floats("a", (7,), dtype), ends([2, 1, 3, 1]), squares([1, 0, 2, 0]), 3)


@cases("sll_jagged_jagged_bmm_jagged_out")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), (2, 3)):
        x, y = (floats(name, (sum(lengths), 5), learned=True) for name in "xy")
        one = ints(lengths, dtype), ends(lengths, dtype)
        both = ints([n * n for n in lengths], dtype), squares(lengths, dtype)
        yield f"{kind}/{longest}", (x, y, *one, *one, *both, longest, False)


@cases("sll_array_jagged_bmm_jagged_out")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths, dtype), longest in product(layouts(), (2, 3)):
        x = floats("x", (sum(n * n for n in lengths),), learned=True)
        one = ints(lengths, dtype), ends(lengths, dtype)
        both = ints([n * n for n in lengths], dtype), squares(lengths, dtype)
        yield f"{kind}/{longest}", (x, floats("y", (sum(lengths), 5), learned=True), *both, *one, *one, longest, False)


@cases("sll_jagged_flash_attention_basic")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths), (name, dtype), mask in product(ROWS.items(), IDS.items(), (False, True)):
        qkv = [floats(part, (sum(lengths), 4), learned=True) for part in "qkv"]
        yield f"{kind}/{name}/{mask}", (*qkv, ends(lengths, dtype), 3, mask)


@cases("sll_jagged_dense_flash_attention")
def _() -> Iterator[tuple[str, Arguments]]:
    for (kind, lengths), (name, dtype) in product(ROWS.items(), IDS.items()):
        q, v = (floats(part, (sum(lengths), 4), learned=True) for part in "qv")
        k = floats("k", (len(lengths), 4, 5), learned=True)
        yield f"{kind}/{name}", (q, k, v, floats("b", (len(lengths), 3, 5), learned=True), ends(lengths, dtype), 3)
