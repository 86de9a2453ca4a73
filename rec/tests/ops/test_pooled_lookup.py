"""Pooled look-ups: the native kernel beside plain torch and torch's own bags; gradients; what is refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.rec.ops import packed_lookup as packed_module
from flambeau.rec.ops import pooled_lookup as module
from flambeau.rec.ops.packed_lookup import packed_lookup
from flambeau.rec.ops.pooled_lookup import pooled_lookup

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def batch(lengths, rows, weighted=False, whole=torch.int64):
    torch.manual_seed(0)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64).cumsum(0)])
    count = int(offsets[-1])
    weights = torch.rand(count) if weighted else None
    return torch.randint(0, rows, (count,)).to(whole), offsets.to(whole), weights


def call(tables, bags, reads, starts, sizes, means, flat=False):
    return pooled_lookup(tables, *bags, reads, starts, sizes, means, [f"f{at}" for at in range(len(reads))], flat)


@st.composite
def lookups(draw):
    features = draw(st.integers(1, 4))
    examples = draw(st.integers(0, 5))
    lengths = draw(st.lists(st.integers(0, 4), min_size=features * examples, max_size=features * examples))
    dims = draw(st.lists(st.sampled_from([1, 3, 4, 8, 37, 64, 130]), min_size=1, max_size=3))
    reads = draw(st.lists(st.integers(0, len(dims) - 1), min_size=1, max_size=5))
    places = [draw(st.integers(0, features - 1)) for _ in reads]
    means = [draw(st.integers(0, 1)) for _ in reads]
    weighted = draw(st.booleans())
    return lengths, dims, reads, [place * examples for place in places], [examples] * len(reads), means, weighted


@given(lookups(), st.sampled_from([torch.int32, torch.int64]), st.booleans())
def test_kernels_and_plain_torch_agree(lookup, whole, flat):
    lengths, dims, reads, starts, sizes, means, weighted = lookup
    tables = [torch.randn(6, dim) for dim in dims]
    bags = batch(lengths, 6, weighted, whole)
    names = [f"f{at}" for at in range(len(reads))]
    found = call(tables, bags, reads, starts, sizes, means, flat)
    torch.testing.assert_close(found, module._reference(tables, *bags, reads, starts, sizes, means, names, flat))
    gradient = torch.randn(found.shape)
    options = (*bags, reads, starts, sizes, means, flat)
    ops = torch.ops.flambeau_rec
    rows = [6] * len(dims)
    for mine, plain in zip(
        ops.pooled_lookup_tables_backward(gradient, rows, dims, *options),
        module._reference_tables_backward(gradient, rows, dims, *options),
        strict=True,
    ):
        torch.testing.assert_close(mine, plain)
    if weighted:
        mine = ops.pooled_lookup_weights_backward(gradient, tables, *options)
        torch.testing.assert_close(mine, module._reference_weights_backward(gradient, tables, *options))


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_feature_is_pooled_as_by_torchs_bags(mode, dtype):
    table = torch.randn(9, 20).to(dtype)
    ids, offsets, _ = batch([2, 0, 3, 1], 9)
    found = call([table], (ids, offsets, None), [0], [0], [4], [int(mode == "mean")])
    expected = torch.nn.functional.embedding_bag(ids, table.double(), offsets, mode=mode, include_last_offset=True)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_finite_differences():
    tables = [torch.randn(5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    ids, offsets, weights = batch([2, 0, 3, 1], 5, weighted=True)
    weights = weights.double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda one, other, factors: call(
            [one, other], (ids, offsets, factors), [0, 1, 0], [0, 2, 2], [2] * 3, [0, 1, 1]
        ),
        (*tables, weights),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_tables_of_16_bits_have_gradients_of_their_own_type(dtype):
    table = torch.randn(5, 4).to(dtype).requires_grad_()
    call([table], batch([2, 1], 5), [0], [0], [2], [0]).sum().backward()
    assert table.grad.dtype == dtype


def test_the_result_does_not_depend_on_threads():
    tables, bags = [torch.randn(50, 32, requires_grad=True)], batch([3] * 400, 50)
    results, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            tables[0].grad = None
            found = call(tables, bags, [0, 0], [0, 200], [200, 200], [0, 1])
            found.square().sum().backward()
            results.append((found.detach(), tables[0].grad))
    finally:
        torch.set_num_threads(threads)
    for found, gradient in results[1:]:
        assert torch.equal(found, results[0][0])
        assert torch.equal(gradient, results[0][1])


@pytest.mark.parametrize("flat", [False, True])
def test_the_operator_keeps_its_contract(flat):
    tables = [torch.randn(6, 4, requires_grad=True), torch.randn(6, 8, requires_grad=True)]
    bags = batch([2, 0, 3, 1], 6, weighted=True)
    args = (tables, *bags, [1, 0], [0, 2], [2, 2], [0, 1], ["a", "b"], flat)
    torch.library.opcheck(torch.ops.flambeau_rec.pooled_lookup, args)
    gradient = torch.randn(call(tables, bags, [1, 0], [0, 2], [2, 2], [0, 1], flat).shape)
    options = (*bags, [1, 0], [0, 2], [2, 2], [0, 1], flat)
    torch.library.opcheck(torch.ops.flambeau_rec.pooled_lookup_tables_backward, (gradient, [6, 6], [4, 8], *options))
    plain = [table.detach() for table in tables]
    torch.library.opcheck(torch.ops.flambeau_rec.pooled_lookup_weights_backward, (gradient, plain, *options))


@pytest.mark.parametrize("whole", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    ("ids", "offsets", "message"),
    [
        ([1, 9], [0, 1, 2], "feature 'f0' has the id 9, expected 0 to 4"),
        ([1, -1], [0, 1, 2], "feature 'f0' has the id -1"),
        ([1, 2], [0, 1, 3], "offsets that do not rise from 0 to 2"),
        ([1, 2], [0, 2, 1], "offsets that do not rise"),
        ([1, 2], [0, 2], "offsets has 2 entries, expected 3 at least"),
    ],
)
def test_what_does_not_fit_is_refused(ids, offsets, message, whole):
    with pytest.raises(RuntimeError, match=message):
        call(
            [torch.ones(5, 2)], (torch.tensor(ids).to(whole), torch.tensor(offsets).to(whole), None), [0], [0], [2], [0]
        )


def test_ids_that_are_no_whole_numbers_are_refused():
    with pytest.raises(RuntimeError, match=r"indices has dtype torch.float32, expected int32 or int64"):
        call([torch.ones(5, 2)], (torch.ones(2), torch.tensor([0, 1, 2]), None), [0], [0], [2], [0])


# ----- tables in one tensor -------------------------------------------------------------------------------------------


@given(lookups(), st.sampled_from([torch.int32, torch.int64]), st.booleans(), st.sampled_from(DTYPES))
def test_packed_tables_give_what_separate_ones_do(lookup, whole, flat, dtype):
    lengths, dims, reads, starts, sizes, means, weighted = lookup
    tables = [torch.randn(6, dim).to(dtype).requires_grad_() for dim in dims]
    packed = torch.cat([table.detach().flatten() for table in tables]).requires_grad_()
    ids, offsets, weights = batch(lengths, 6, weighted, whole)
    factors = [None, None] if weights is None else [weights.clone().requires_grad_() for _ in range(2)]
    options = (reads, starts, sizes, means)
    separate = call(tables, (ids, offsets, factors[0]), *options, flat)
    names = [f"f{at}" for at in range(len(reads))]
    found = packed_lookup(packed, [6] * len(dims), dims, ids, offsets, factors[1], *options, names, flat)
    assert torch.equal(found, separate)
    gradient = torch.randn(found.shape, dtype=found.dtype)
    for result in (found, separate):
        result.backward(gradient)
    unread = [table.grad if table.grad is not None else torch.zeros_like(table) for table in tables]
    assert torch.equal(packed.grad, torch.cat([one.flatten() for one in unread]))
    assert weights is None or torch.equal(factors[0].grad, factors[1].grad)


def test_the_gradient_of_packed_tables_is_that_of_plain_torch():
    bags = (*batch([2, 0, 3, 1], 6, weighted=True), [1, 0], [0, 2], [2, 2], [0, 1], False)
    given_ = (torch.randn(2, 12), [6, 6], [4, 8], *bags)
    found = torch.ops.flambeau_rec.packed_lookup_backward(*given_)
    torch.testing.assert_close(found, packed_module._reference_backward(*given_))


@pytest.mark.parametrize("flat", [False, True])
def test_the_packed_operator_keeps_its_contract(flat):
    bags, options = batch([2, 0, 3, 1], 6, weighted=True), ([1, 0], [0, 2], [2, 2], [0, 1])
    packed, shapes = torch.randn(72, requires_grad=True), ([6, 6], [4, 8])
    found = packed_lookup(packed, *shapes, *bags, *options, ["a", "b"], flat)
    torch.library.opcheck(torch.ops.flambeau_rec.packed_lookup, (packed, *shapes, *bags, *options, ["a", "b"], flat))
    backward = torch.ops.flambeau_rec.packed_lookup_backward
    torch.library.opcheck(backward, (torch.randn(found.shape), *shapes, *bags, *options, flat))


def test_an_id_outside_of_a_packed_table_is_refused_by_the_name_of_its_feature():
    bags = (torch.tensor([0, 6]), torch.tensor([0, 1, 2]), None)
    with pytest.raises(RuntimeError, match="feature 'clicks' has the id 6, expected 0 to 5"):
        packed_lookup(torch.zeros(24), [6], [4], *bags, [0], [0], [2], [0], ["clicks"])
