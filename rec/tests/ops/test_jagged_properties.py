"""What holds for jagged tensors of any shape: round trips, agreement with loops over rows, faults in words."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.ops.jagged_conversion import dense_to_jagged, jagged_2d_to_dense, jagged_to_padded_dense
from flambeau.rec.ops.jagged_elementwise import jagged_dense_elementwise_mul
from flambeau.rec.ops.jagged_matmul import batched_dense_vec_jagged_2d_mul, jagged_dense_bmm, jagged_jagged_bmm
from flambeau.rec.ops.jagged_segments import pack_segments
from flambeau.rec.ops.jagged_selection import jagged_index_select
from flambeau.rec.ops.jagged_slicing import jagged_slice
from flambeau.rec.ops.jagged_softmax import jagged_softmax
from flambeau.rec.ops.jagged_stacked import stacked_jagged_1d_to_dense
from flambeau.rec.ops.sll_attention import (
    sll_jagged_flash_attention_basic,
    sll_multi_head_jagged_flash_attention,
)
from flambeau.rec.ops.sll_softmax import sll_jagged2_softmax

LENGTHS = st.lists(st.integers(0, 7), max_size=6)
WHOLE = st.sampled_from([torch.int32, torch.int64])
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8])


def jagged(lengths, *inner, dtype=torch.float64):
    torch.manual_seed(sum(lengths) + len(lengths))
    values = torch.randn(sum(lengths), *inner, dtype=torch.float64) * 4
    return values.to(dtype), asynchronous_complete_cumsum(torch.tensor(lengths, dtype=torch.int64))


def rows(values, offsets):
    return [values[begin:end] for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


@settings(max_examples=80)
@given(lengths=LENGTHS, inner=st.lists(st.integers(0, 3), max_size=3), dtype=DTYPES, kind=WHOLE)
def test_items_come_back_from_a_dense_tensor_that_has_room_for_them(lengths, inner, dtype, kind):
    values, offsets = jagged(lengths, *inner, dtype=dtype)
    longest = max(lengths, default=0)
    dense = jagged_to_padded_dense(values, [offsets.to(kind)], [longest], 3.0)
    assert dense.shape == (len(lengths), longest, *inner) and dense.dtype == dtype
    assert torch.equal(dense_to_jagged(dense, [offsets.to(kind)])[0], values)
    for row, length, items in zip(dense, lengths, rows(values, offsets), strict=True):
        assert torch.equal(row[:length], items) and bool((row[length:] == 3).all())


@st.composite
def nested(draw):
    """Offsets of jagged dimensions inside of one another, from the outermost inwards."""
    found, count = [], draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 5))):
        lengths = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        found.append(asynchronous_complete_cumsum(torch.tensor(lengths, dtype=torch.int64)))
        count = sum(lengths)
    return found, count


@settings(max_examples=60)
@given(drawn=nested())
def test_items_come_back_from_up_to_five_dimensions(drawn):
    offsets, count = drawn
    values = torch.randn(count, 2)
    dense = jagged_to_padded_dense(values, offsets, [2] * len(offsets))
    assert torch.equal(dense_to_jagged(dense, offsets, count)[0], values)


def test_offsets_may_leave_items_out_on_both_sides():
    values, offsets = torch.arange(1.0, 7.0).view(6, 1), torch.tensor([1, 3, 4])
    assert jagged_2d_to_dense(values, offsets, 2).squeeze(-1).tolist() == [[2.0, 3.0], [4.0, 0.0]]
    dense = torch.ones(2, 2, 1)
    assert dense_to_jagged(dense, [offsets], 6)[0].flatten().tolist() == [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert jagged_dense_elementwise_mul(values, [offsets], dense)[0].flatten().tolist() == [
        0.0,
        2.0,
        3.0,
        4.0,
        0.0,
        0.0,
    ]
    assert jagged_softmax(values, offsets, 2)[0].flatten()[[0, 4, 5]].tolist() == [0.0, 0.0, 0.0]


@settings(max_examples=60)
@given(lengths=LENGTHS, m=st.integers(0, 21), n=st.integers(0, 37), longest=st.integers(0, 8))
def test_products_are_those_of_each_row(lengths, m, n, longest):
    x, offsets = jagged(lengths, m)
    y, matrices = torch.randn(len(x), n).double(), torch.randn(len(lengths), m, n).double()
    of_items = jagged_jagged_bmm(x, y, offsets, longest)
    of_matrices, _ = jagged_dense_bmm(x, offsets, matrices, longest)
    for b, (left, right, made) in enumerate(
        zip(rows(x, offsets), rows(y, offsets), rows(of_matrices, offsets), strict=True)
    ):
        torch.testing.assert_close(of_items[b], left[:longest].T @ right[:longest])
        torch.testing.assert_close(made[:longest], left[:longest] @ matrices[b])
        assert not made[longest:].any()


@settings(max_examples=40)
@given(lengths=LENGTHS, heads=st.integers(1, 3), width=st.integers(0, 20), longest=st.integers(0, 8))
def test_vectors_weigh_the_items_of_their_head(lengths, heads, width, longest):
    a, offsets = jagged(lengths, heads * width)
    v = torch.randn(len(lengths) * heads, longest).double()
    made = batched_dense_vec_jagged_2d_mul(v, a, offsets)
    for b, items in enumerate(rows(a, offsets)):
        for h in range(heads):
            some = items[:longest, h * width : (h + 1) * width]
            torch.testing.assert_close(made[b * heads + h], v[b * heads + h, : len(some)] @ some)


@settings(max_examples=60)
@given(lengths=LENGTHS, width=st.integers(0, 40), scale=st.sampled_from([0.1, 1.0, 300.0]), dtype=DTYPES)
def test_softmax_is_that_of_each_rows_items(lengths, width, scale, dtype):
    if not dtype.is_floating_point:
        dtype = torch.float32
    x, offsets = jagged(lengths, width, dtype=dtype)
    made = jagged_softmax(x * scale, offsets, 7)[0]
    for items, shares in zip(rows(x * scale, offsets), rows(made, offsets), strict=True):
        coarse = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-6)
        torch.testing.assert_close(shares, items.double().softmax(0).to(dtype), rtol=coarse, atol=coarse)


@pytest.mark.parametrize("transpose", [False, True])
def test_softmax_of_what_is_no_number_or_infinite_is_torchs(transpose):
    nan, inf = float("nan"), float("inf")
    for row in ([nan, 1.0], [inf, 1.0], [-inf, 1.0], [-inf, -inf], [1e38, -1e38]):
        x = torch.tensor(row)
        expected = x.softmax(0)
        made = jagged_softmax(x[:, None], torch.tensor([0, 2]), 2)[0].flatten()
        torch.testing.assert_close(made, expected, equal_nan=True)
        square = torch.stack([x, x], 1 if transpose else 0).flatten()
        made = sll_jagged2_softmax(square, torch.tensor([0, 2]), torch.tensor([0, 4]), 2, transpose).view(2, 2)
        torch.testing.assert_close(made[:, 0] if transpose else made[0], expected, equal_nan=True)


@settings(max_examples=40)
@given(lengths=LENGTHS, mask=st.booleans())
def test_attention_is_that_of_each_sequence_and_head(lengths, mask):
    q, offsets = jagged(lengths, 4)
    k, v = torch.randn(len(q), 4).double(), torch.randn(len(q), 3).double()
    made = sll_jagged_flash_attention_basic(q, k, v, offsets, 7, mask)
    for one, query, key, value in zip(*(rows(some, offsets) for some in (made, q, k, v)), strict=True):
        weights = (query @ key.T).softmax(1) / 7
        torch.testing.assert_close(one, (weights.triu() if mask else weights) @ value)
    heads = [torch.stack([some, some.flip(1), -some]) for some in (q, k, v)]
    together = sll_multi_head_jagged_flash_attention(*heads, offsets, 7)
    apart = [sll_jagged_flash_attention_basic(*(some[h] for some in heads), offsets, 7) for h in range(3)]
    torch.testing.assert_close(together, torch.stack(apart))


def test_attention_in_heads_leaves_items_of_no_sequence_alone():
    q = torch.randn(2, 5, 4)
    made = sll_multi_head_jagged_flash_attention(q, q, q, torch.tensor([1, 3]), 2)
    alone = sll_jagged_flash_attention_basic(q[1], q[1], q[1], torch.tensor([1, 3]), 2)
    torch.testing.assert_close(made[1, 1:3], alone[1:3])


def test_repeated_rows_add_up_their_gradients_in_single_precision():
    values = torch.zeros(1, 2, dtype=torch.float16, requires_grad=True)
    chosen, _ = jagged_index_select(values, torch.tensor([1]), torch.zeros(5000, dtype=torch.int64))
    chosen.backward(torch.full((5000, 2), 1.0, dtype=torch.float16))
    assert values.grad.tolist() == [[5000.0, 5000.0]]


def test_the_result_does_not_depend_on_threads():
    values, offsets = jagged([37] * 500, 24, dtype=torch.float32)
    lengths, order = offsets.diff(), torch.randint(0, 500, (900,))
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            x = values.clone().requires_grad_()
            made = [
                jagged_jagged_bmm(x, x, offsets, 37), jagged_softmax(x, offsets, 37)[0],
                jagged_to_padded_dense(x, [offsets], [40]), jagged_index_select(x, lengths, order)[0],
            ]  # fmt: skip
            sum(one.square().sum() for one in made).backward()
            results.append([*made, x.grad])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_a_feature_learns_by_its_own_lengths():
    values = torch.arange(5.0, requires_grad=True)
    made = stacked_jagged_1d_to_dense(values, torch.tensor([[2, 0], [1, 2]]), [0, 2, 5], [2, 2], 0)
    (made[0][0] * torch.tensor([3.0, 5.0])).sum().backward()
    assert values.grad.tolist() == [3.0, 5.0, 0.0, 0.0, 0.0]


class Smoothed(torch.nn.Module):
    """Items to dense rows, through a layer, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, values, offsets):
        dense = self.layer(jagged_to_padded_dense(values, [offsets], [6]))
        return jagged_softmax(dense_to_jagged(dense, [offsets], values.shape[0])[0], offsets, 6)[0]


def test_a_module_is_exported_for_any_number_of_rows_and_items():
    module, sizes = Smoothed(), {"items": torch.export.Dim("items", max=1000), "ends": torch.export.Dim("ends", min=3)}
    given_ = torch.randn(9, 4), torch.tensor([0, 2, 5, 9])
    program = torch.export.export(module, given_, dynamic_shapes=({0: sizes["items"]}, {0: sizes["ends"]})).module()
    for other in (given_, (torch.randn(5, 4), torch.tensor([0, 2, 2, 4, 5, 5, 5]))):
        torch.testing.assert_close(program(*other), module(*other))


X, OFFSETS = torch.randn(6, 3), torch.tensor([0, 2, 2, 5, 6])
FAULTS = {
    "decreasing offsets": (
        lambda: jagged_to_padded_dense(X, [torch.tensor([0, 3, 2, 6])], [2]), "offsets has 2 at 2, expected 3 to 6"
    ),
    "offsets beyond the values": (
        lambda: jagged_softmax(X, torch.tensor([0, 7]), 7), "x_offsets has 7 at 1, expected 0 to 6"
    ),
    "no offsets": (lambda: jagged_jagged_bmm(X, X, torch.tensor([], dtype=torch.int64), 2), "x_offsets is empty"),
    "floating offsets": (
        lambda: jagged_2d_to_dense(X, OFFSETS.float(), 2), "offsets has shape .* and dtype torch.float32"
    ),
    "a negative length": (lambda: jagged_2d_to_dense(X, OFFSETS, -1), "max_length is -1, expected 0 or more"),
    "rows that do not fit": (lambda: dense_to_jagged(torch.ones(3, 2, 3), [OFFSETS]), "has 5 entries, expected 4"),
    "operands of two dtypes": (
        lambda: jagged_jagged_bmm(X, X.double(), OFFSETS, 2), "operands are torch.float32 and torch.float64"
    ),
    "a row that there is not": (
        lambda: jagged_index_select(X, OFFSETS.diff(), torch.tensor([0, 4])), "index out of range"
    ),
    "too few items known": (
        lambda: jagged_index_select(X, OFFSETS.diff(), torch.tensor([2]), 2), "num_dense_output_rows is 2, expected 3"
    ),
    "a piece behind its row": (
        lambda: jagged_slice(X, OFFSETS.diff(), torch.tensor([0, 1, 0, 0]), 2), "start has 1 at 1, expected 0 to 0"
    ),
    "lengths beyond the items": (
        lambda: pack_segments(X, torch.tensor([5, 5]), 5), "offsets has 10 at 2, expected 5 to 6"
    ),
    "matrices that are not square": (
        lambda: sll_jagged2_softmax(torch.ones(5), torch.tensor([0, 2]), torch.tensor([0, 5]), 2, False),
        "5 numbers to row 0, expected 2 squared",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_is_refused_in_words(fault):
    call, words = FAULTS[fault]
    with pytest.raises((RuntimeError, IndexError), match=words):
        call()
