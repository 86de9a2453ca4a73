"""Table-batched embeddings: native kernels against plain torch, and plain torch against torch's own gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.rec.ops import _tbe_native, _tbe_reference, tbe
from flambeau.rec.ops._tbe_types import OPTIMIZERS
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum

WIDTHS = st.sampled_from([1, 3, 4, 8, 17, 64, 100])
CASES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**31),
        "tables": st.lists(st.tuples(st.integers(1, 9), WIDTHS), min_size=1, max_size=3),
        "shared": st.booleans(),
        "batch": st.integers(0, 5),
        "longest": st.integers(0, 6),
        "dtype": st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
        "ids": st.sampled_from([torch.int32, torch.int64]),
        "pooling": st.sampled_from([tbe.SUM, tbe.MEAN, tbe.NONE]),
        "weighted": st.booleans(),
    }
)  # fmt: skip


class Drawn:
    """A lookup with random tables and bags."""

    def __init__(self, case: dict[str, Any]) -> None:
        torch.manual_seed(case["seed"])
        tables = case["tables"]
        if case["pooling"] == tbe.NONE:
            tables = [(rows, tables[0][1]) for rows, _ in tables]
        features = [*range(len(tables)), *([0] if case["shared"] else [])]
        sizes = [rows * dim for rows, dim in tables]
        widths = [tables[t][1] for t in features]
        columns = [0 if case["pooling"] == tbe.NONE else sum(widths[:f]) for f in range(len(features))]
        self.width = widths[0] if case["pooling"] == tbe.NONE else sum(widths)
        self.layout = torch.tensor(
            [
                [sum(sizes[:t]), tables[t][0], tables[t][1], sum(rows for rows, _ in tables[:t]), columns[f]]
                for f, t in enumerate(features)
            ]
        ).t().contiguous()  # fmt: skip
        self.flat = torch.randn(sum(sizes)).to(case["dtype"])
        batch = case["batch"]
        lengths = torch.randint(0, case["longest"] + 1, (len(features) * batch,))
        self.offsets = asynchronous_complete_cumsum(lengths)
        counts = lengths.view(len(features), -1).sum(1).tolist()
        ids = [torch.randint(0, tables[t][0], (n,)) for t, n in zip(features, counts, strict=True)]
        self.ids = torch.cat(ids).to(case["ids"])
        self.starts = torch.arange(len(features) + 1) * batch
        self.pooling = case["pooling"]
        pooled = self.pooling != tbe.NONE
        self.factors = torch.rand(len(self.ids)) if case["weighted"] and pooled else None
        self.shape = (batch, self.width) if pooled else (len(self.ids), self.width)
        self.rows = sum(rows for rows, _ in tables)

    def lookup(self, flat: torch.Tensor) -> tbe.Lookup:
        return tbe.Lookup(
            flat, self.layout, self.ids, self.offsets, self.starts, self.width, self.pooling, self.factors
        )  # fmt: skip

    def states(self, optimizer: str) -> tbe.OptimizerStates:
        by_element = {"exact_adagrad": 1, "adam": 2, "lamb": 2, "lars_sgd": 1}.get(optimizer, 1)
        by_element = 0 if optimizer.startswith(("exact_row", "row_wise")) else by_element
        arrays = [torch.rand(self.flat.numel() if by_element > at else self.rows) for at in range(2)]
        offsets = [self.layout[0 if by_element > at else 3].contiguous() for at in range(2)]
        return tbe.OptimizerStates(
            arrays[0], offsets[0], arrays[1], offsets[1], torch.zeros(self.rows), torch.zeros(self.rows),
            self.layout[3].contiguous(),
        )  # fmt: skip


@settings(max_examples=60)
@given(case=CASES)
def test_native_lookups_give_what_plain_torch_gives(case):
    drawn = Drawn(case)
    outputs = [torch.zeros(drawn.shape) for _ in range(2)]
    for serving, output in zip((_tbe_native, _tbe_reference), outputs, strict=True):
        serving.forward(drawn.lookup(drawn.flat), output)
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@settings(max_examples=25)
@given(case=CASES)
def test_native_updates_give_what_plain_torch_gives(optimizer, case):
    drawn = Drawn(case)
    gradient = torch.randn(drawn.shape)
    chosen = tbe.OptimizerSettings(
        optimizer, 0.1, 3, eps=1e-3, weight_decay=0.05, weight_decay_mode=1, counter_halflife=2, max_norm=3.0,
        ar_alpha=0.5, min_shrinkage=0.2,
    )  # fmt: skip
    results = []
    for serving in (_tbe_native, _tbe_reference):
        flat, states = drawn.flat.clone(), drawn.states(optimizer)
        torch.manual_seed(0)
        for array in (states.momentum1, states.momentum2):
            array.copy_(torch.rand(array.shape))
        serving.backward(drawn.lookup(flat), gradient, None, states, chosen)
        results.append((flat, states.momentum1, states.momentum2, states.prev_iter, states.row_counter))
    coarse = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}[case["dtype"]]
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected, rtol=coarse, atol=coarse)


@settings(max_examples=40)
@given(case=CASES)
def test_one_step_of_sgd_is_the_gradient_of_the_lookup(case):
    drawn = Drawn({**case, "dtype": torch.float32})
    gradient = torch.randn(drawn.shape)
    factors = None if drawn.factors is None else drawn.factors.clone().requires_grad_()
    tables = drawn.flat.clone().requires_grad_()
    parts = []
    for f, (start, rows, dim, _, _) in enumerate(drawn.layout.t().tolist()):
        table = tables[start : start + rows * dim].view(rows, dim)
        offsets = drawn.offsets[drawn.starts[f] : drawn.starts[f + 1] + 1]
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            chosen = table[drawn.ids[begin:end].long()]
            if factors is not None:
                chosen = chosen * factors[begin:end, None]
            if drawn.pooling == tbe.NONE:
                parts.append(chosen)
            else:
                parts.append(chosen.sum(0) / (max(end - begin, 1) if drawn.pooling == tbe.MEAN else 1))
    if not parts:
        return
    if drawn.pooling == tbe.NONE:
        expected = torch.cat(parts)
    else:
        bags = len(parts) // drawn.layout.shape[1]
        rows = [torch.cat([parts[f * bags + b] for f in range(drawn.layout.shape[1])]) for b in range(bags)]
        expected = torch.stack(rows)
    wanted = torch.autograd.grad(
        expected, [one for one in (tables, factors) if one is not None], gradient, allow_unused=True
    )

    flat = drawn.flat.clone().requires_grad_()
    lookup = drawn.lookup(flat)
    if factors is not None:
        lookup = replace(lookup, bag_weights=factors)
    result = tbe.lookup_and_train(
        lookup, drawn.shape, tbe.OptimizerStates(), tbe.OptimizerSettings("exact_sgd", 1.0, 1)
    )
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    result.backward(gradient)
    moved = torch.zeros_like(tables) if wanted[0] is None else wanted[0]
    torch.testing.assert_close(drawn.flat - flat.detach(), moved, rtol=1e-3, atol=1e-4)
    if factors is not None:
        torch.testing.assert_close(factors.grad, wanted[1], rtol=1e-3, atol=1e-4)


def simple(rows: int, ids: list[int], dtype: torch.dtype = torch.float32) -> tbe.Lookup:
    """One table of two columns and one bag."""
    table = torch.ones(2 * rows, dtype=dtype).requires_grad_()
    layout, starts = torch.tensor([[0], [rows], [2], [0], [0]]), torch.tensor([0, 1])
    return tbe.Lookup(table, layout, torch.tensor(ids), torch.tensor([0, len(ids)]), starts, 2, tbe.SUM)


@pytest.mark.parametrize("index", [3, 2**40, -1, -(2**50)])
def test_an_index_outside_of_its_table_is_an_error_that_says_where(index):
    with pytest.raises(RuntimeError, match=rf"indices has {index} at 1, for feature 0 whose table has 3 rows"):
        tbe.lookup_and_train(
            simple(3, [0, index]), (1, 2), tbe.OptimizerStates(), tbe.OptimizerSettings("exact_sgd", 1.0, 1)
        )


def test_many_duplicates_are_added_up_in_single_precision():
    lookup = simple(2, [1] * 100_000, torch.float16)
    result = tbe.lookup_and_train(lookup, (1, 2), tbe.OptimizerStates(), tbe.OptimizerSettings("exact_sgd", 1e-5, 1))
    assert result.tolist() == [[100_000.0, 100_000.0]]
    result.sum().backward()
    assert lookup.weights.tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_by_chance_keeps_the_mean(dtype):
    step = torch.finfo(dtype).eps / 4
    moved = []
    for seed in range(400):
        lookup = simple(1, [0], dtype)
        settings_ = tbe.OptimizerSettings("exact_sgd", step, 1, stochastic_rounding=True, seed=seed)
        tbe.lookup_and_train(lookup, (1, 2), tbe.OptimizerStates(), settings_).sum().backward()
        moved += (1 - lookup.weights.detach().float()).tolist()
    mean = sum(moved) / len(moved)
    assert set(moved) == {0.0, torch.finfo(dtype).eps / 2}
    assert abs(mean / step - 1) < 0.15


def test_the_result_does_not_depend_on_threads():
    rows, dim, bags, each = 300, 16, 4000, 20
    torch.manual_seed(0)
    table, gradient = torch.randn(rows * dim), torch.randn(bags, dim)
    ids = torch.randint(0, rows, (bags * each,)).pow(2) % rows  # some rows far more often than others
    chosen = tbe.OptimizerSettings("exact_row_wise_adagrad", 0.1, 1)

    def trained(threads: int) -> torch.Tensor:
        flat = table.clone()
        layout, starts = torch.tensor([[0], [rows], [dim], [0], [0]]), torch.tensor([0, bags])
        lookup = tbe.Lookup(flat, layout, ids, torch.arange(bags + 1) * each, starts, dim, tbe.SUM)
        torch.set_num_threads(threads)
        states = tbe.OptimizerStates(torch.zeros(rows), torch.zeros(1, dtype=torch.int64))
        _tbe_native.backward(lookup, gradient, None, states, chosen)
        return flat

    before = torch.get_num_threads()
    try:
        alone, two, three = map(trained, (1, 2, 3))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone, two)
    assert torch.equal(alone, three)
