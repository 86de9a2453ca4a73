"""Jagged batches of several features: upstream has these operators on GPUs only, so that no peer can be asked."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum
from flambeau.rec.ops.jagged_keyed import (
    _make_unique,
    jagged_acc_weights_and_counts,
    jagged_hash_size_cumsum,
    jagged_unique_indices,
    keyed_jagged_index_select_dim1,
)
from flambeau.rec.ops.jagged_selection import jagged_index_select

OPS = torch.ops.flambeau_rec
WHOLE = st.sampled_from([torch.int32, torch.int64])


@st.composite
def batches(draw):
    """Features, examples, and lengths (features * examples,)."""
    features, examples = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    lengths = draw(st.lists(st.integers(0, 4), min_size=features * examples, max_size=features * examples))
    return features, examples, torch.tensor(lengths, dtype=draw(WHOLE))


@settings(max_examples=60)
@given(
    batch=batches(), seed=st.integers(0, 2**31), weighted=st.booleans(), known=st.booleans(), width=st.integers(0, 3)
)
def test_examples_are_chosen_of_every_feature_alike(batch, seed, weighted, known, width):
    features, examples, lengths = batch
    torch.manual_seed(seed)
    total = int(lengths.sum())
    values = torch.randn(total, *([width] if width else []), requires_grad=True)
    weights = torch.randn(total) if weighted else None
    indices = torch.randint(0, examples, (torch.randint(0, 6, ()).item(),)).to(lengths.dtype)
    offsets = asynchronous_complete_cumsum(lengths)

    expected, expected_lengths, expected_weights = [], [], []
    for feature in range(features):
        bags = slice(feature * examples, (feature + 1) * examples)
        some = slice(int(offsets[bags.start]), int(offsets[bags.stop]))
        chosen = jagged_index_select(values[some], lengths[bags], indices)
        expected.append(chosen[0])
        expected_lengths.append(chosen[1])
        if weighted:
            expected_weights.append(jagged_index_select(weights[some], lengths[bags], indices)[0])
    count = sum(len(one) for one in expected) if known else None

    made = keyed_jagged_index_select_dim1(values, lengths, offsets, indices, examples, weights, count)
    assert torch.equal(made[0], torch.cat(expected))
    assert torch.equal(made[1], torch.cat(expected_lengths))
    assert len(made) == 2 + weighted
    if weighted:
        assert torch.equal(made[2], torch.cat(expected_weights))
    flow = torch.randn(made[0].shape)
    mine, other = (
        torch.autograd.grad(one, values, flow, retain_graph=True)[0] for one in (made[0], torch.cat(expected))
    )
    torch.testing.assert_close(mine, other)


def test_the_parts_of_the_selection_make_up_its_gradient():
    values, lengths = torch.randn(6, requires_grad=True), torch.tensor([2, 1, 0, 3])
    offsets, indices = asynchronous_complete_cumsum(lengths), torch.tensor([1, 1, 0])
    made = keyed_jagged_index_select_dim1(values, lengths, offsets, indices, 2)[0]
    flow = torch.randn(made.shape)
    made.backward(flow)
    parts = OPS.keyed_jagged_index_select_dim1_forward(values.detach(), lengths, offsets, indices, 2, None, None)
    assert torch.equal(parts[0], made)
    assert torch.equal(
        OPS.keyed_jagged_index_select_dim1_backward(flow, indices, parts[-2], offsets, parts[-1]), values.grad
    )


@pytest.mark.parametrize("index", [2, -1])
def test_an_example_beyond_the_batch_is_not_one_of_the_next_feature(index):
    with pytest.raises(RuntimeError, match=rf"indices has {index} at 1, expected 0 to 1: the batch has 2 examples"):
        keyed_jagged_index_select_dim1(
            torch.arange(4), torch.ones(4).int(), torch.arange(5), torch.tensor([0, index]), 2
        )


@st.composite
def tables(draw):
    """Arguments of `jagged_unique_indices`: some tables, each with one feature or more."""
    features = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    examples, rows = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    count = sum(features) * examples
    lengths = torch.tensor(draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)))
    torch.manual_seed(draw(st.integers(0, 2**31)))
    indices = torch.randint(0, rows, (int(lengths.sum()),))
    sizes = torch.tensor([size for table in features for size in (*[0] * (table - 1), rows)])
    groups = [0]
    for table in features:
        groups += [groups[-1]] * (table - 1) + [groups[-1] + table]
    kind = draw(WHOLE)
    offsets = asynchronous_complete_cumsum(lengths)
    given = asynchronous_complete_cumsum(sizes), torch.tensor(groups), offsets, indices
    return features, examples, tuple(one.to(kind) for one in given)


@settings(max_examples=80)
@given(drawn=tables())
def test_distinct_indices_are_found_table_by_table(drawn):
    features, examples, arguments = drawn
    offsets, indices = arguments[2:]
    lengths, ends, unique, inverse = jagged_unique_indices(*arguments)
    assert torch.equal(ends, asynchronous_complete_cumsum(lengths)) and len(lengths) == sum(features) * examples
    assert torch.equal(unique[inverse], indices)
    first = 0
    for table in features:
        bags = slice(first * examples, (first + table) * examples)
        given_, made = (at[bags.start] for at in (offsets, ends)), slice(int(ends[bags.start]), int(ends[bags.stop]))
        some = indices[next(given_) : offsets[bags.stop]]
        assert torch.equal(unique[made], some.unique())  # rising, and each once
        shares = lengths[bags]
        assert shares.max() - shares.min() <= 1 and torch.equal(shares, shares.sort(descending=True).values)
        first += table
    for one, other in zip((lengths, ends, unique, inverse), _make_unique(*arguments), strict=True):
        assert one.dtype == other.dtype and torch.equal(one, other)


@settings(max_examples=40)
@given(drawn=tables())
def test_sizes_of_tables_can_be_found_from_the_indices(drawn):
    features, examples, (_, _, offsets, indices) = drawn
    sums, groups = jagged_hash_size_cumsum(offsets, indices, examples)
    count = sum(features)
    assert torch.equal(groups, torch.arange(count + 1, dtype=indices.dtype))
    for feature, size in enumerate(sums.diff().tolist()):
        some = indices[offsets[feature * examples] : offsets[(feature + 1) * examples]]
        assert size == (int(some.max()) + 1 if len(some) else 0)
    unique, inverse = jagged_unique_indices(sums, groups, offsets, indices)[2:]
    assert torch.equal(unique[inverse], indices)


def test_many_indices_are_sorted_on_several_threads_as_on_one():
    torch.manual_seed(0)
    indices, offsets = torch.randint(0, 5000, (200_000,)), torch.arange(0, 200_001, 100)
    arguments = torch.tensor([0, 5000, 10_000]), torch.tensor([0, 1, 2]), offsets, indices
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(jagged_unique_indices(*arguments))
    finally:
        torch.set_num_threads(before)
    for one, other, expected in zip(*results, _make_unique(*arguments), strict=True):
        assert torch.equal(one, other) and torch.equal(one, expected)


def test_negative_indices_are_refused():
    given_ = torch.tensor([0, 5]), torch.tensor([0, 1]), torch.tensor([0, 2]), torch.tensor([3, -1])
    with pytest.raises(RuntimeError, match="indices has -1 at 1, expected 0 or more"):
        jagged_unique_indices(*given_)


def test_weights_are_added_up_by_what_was_made_unique_and_learn_from_it():
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    made = jagged_acc_weights_and_counts(weights, torch.tensor([0, 1, 0]), 2)
    assert made.tolist() == [[4.0, 2.0], [2.0, 1.0]]
    made.backward(torch.tensor([[10.0, 5.0], [20.0, 5.0]]))
    assert weights.grad.tolist() == [10.0, 20.0, 10.0]
    with pytest.raises(RuntimeError, match="expected 0 to 1"):
        jagged_acc_weights_and_counts(weights, torch.tensor([0, 2, 0]), 2)


CALLS = {
    "keyed_jagged_index_select_dim1": (
        torch.randn(6), torch.tensor([2, 1, 0, 3]), torch.tensor([0, 2, 3, 3, 6]), torch.tensor([1, 1]), 2,
        torch.randn(6),
    ),
    "jagged_unique_indices": (
        torch.tensor([0, 5, 9]), torch.tensor([0, 1, 2]), torch.tensor([0, 2, 3, 3, 6]),
        torch.tensor([3, 1, 3, 2, 2, 0]),
    ),
    "jagged_hash_size_cumsum": (torch.tensor([0, 2, 3, 3, 6]), torch.tensor([3, 1, 3, 2, 2, 0]), 2),
    "jagged_acc_weights_and_counts": (torch.randn(3), torch.tensor([0, 1, 0]), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_torch_approves_of_the_registration_and_compiles_it_in_one_graph(name):
    operation = getattr(OPS, name)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.library.opcheck(operation.default, CALLS[name])
        torch._dynamo.reset()
        compiled = torch.compile(lambda *given_: operation(*given_), fullgraph=True, backend="aot_eager", dynamic=True)
        ours, expected = compiled(*CALLS[name]), operation(*CALLS[name])
    listed = (ours, expected) if isinstance(ours, (list, tuple)) else ([ours], [expected])
    for one, other in zip(*listed, strict=True):
        assert torch.equal(one, other)
