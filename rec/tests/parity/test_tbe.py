"""Table-batched embeddings train as the reference's: outputs, tables and states after three steps, on every tier."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from flambeau.core.testing.fill import integers, matches, tensor
from flambeau.core.testing.golden import golden_values
from flambeau.rec.ops import _tbe_native, _tbe_reference, tbe
from flambeau.rec.ops._tbe_types import OPTIMIZERS
from flambeau.rec.ops.cumsum import asynchronous_complete_cumsum

FEATURES = (0, 1, 1, 2)
BATCH = 5
TRAINED = golden_values("rec_tbe", __file__)["cases"]
BY_FORMULA = golden_values("rec_tbe_formula", __file__)["cases"]
POOLING = {"SUM": tbe.SUM, "MEAN": tbe.MEAN, "NONE": tbe.NONE}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}
BY_ELEMENT = {"exact_adagrad": 1, "adam": 2, "lamb": 2, "lars_sgd": 1}
COUNTERS = {"L2": 1, "DECOUPLE": 2, "ADAGRADW": 3}
ELSEWHERE = {
    "dense_SUM": "has no optimizer",
    "dense_MEAN": "has no optimizer",
    "dense_NONE": "has no optimizer",
    "ema_in_place_row_wise_adagrad": "is row-wise Adagrad, and a copy that its module makes",
    "rowwise_adagrad_max_norm": "the reference ignores max_norm on the CPU; see the formulas",
}


ONLY_SHARED = {"rowwise_adagrad_l2", "rowwise_adagrad_decouple"}
"""The reference on the CPU decays tables that several features share, and no others; on accelerators it decays all."""
MEANS_OF_WEIGHTED = {"sgd_MEAN_True", "rowwise_adagrad_MEAN_True", "vbe_rowwise_adagrad_w_mean"}
"""The reference on the CPU does not divide gradients of weighted means by the length of the bag, as it did the rows."""


@pytest.fixture(params=["native", "reference"])
def tier(request, monkeypatch):
    serving = {"native": _tbe_native, "reference": _tbe_reference}[request.param]
    monkeypatch.setattr(tbe, "kernels", lambda tensor: serving)
    return request.param


class Tables:
    """The tables of the recorded runs, and what an optimizer remembers of them."""

    def __init__(self, specs: list[list[int]], dtype: torch.dtype, pooling: int = tbe.SUM) -> None:
        self.specs = specs
        self.flat = torch.cat([tensor(f"table{t}", (r, d)).reshape(-1) for t, (r, d) in enumerate(specs)]).to(dtype)
        self.flat.requires_grad_()
        sizes, rows = [r * d for r, d in specs], [r for r, d in specs]
        starts = [sum(sizes[:t]) for t in range(len(specs))]
        bases = [sum(rows[:t]) for t in range(len(specs))]
        widths = [specs[t][1] for t in FEATURES]
        columns = [sum(widths[:f]) if pooling != tbe.NONE else 0 for f in range(len(FEATURES))]
        facts = [[starts[t], rows[t], specs[t][1], bases[t], columns[f]] for f, t in enumerate(FEATURES)]
        self.layout = torch.tensor(facts).t().contiguous()
        self.width = widths[0] if pooling == tbe.NONE else sum(widths)
        elements, numbers = self.layout[0].contiguous(), self.layout[3].contiguous()
        self.by_row = lambda: torch.zeros(sum(rows))
        self.by_element = lambda: torch.zeros(sum(sizes))
        self.offsets = {True: elements, False: numbers}

    def states(self, optimizer: str) -> tbe.OptimizerStates:
        wide = BY_ELEMENT.get(optimizer, 1 if optimizer.startswith("partial") else 0)
        make = {True: self.by_element, False: self.by_row}
        return tbe.OptimizerStates(
            make[wide >= 1](), self.offsets[wide >= 1], make[wide >= 2](), self.offsets[wide >= 2],
            self.by_row(), self.by_row(), self.offsets[False],
        )  # fmt: skip

    def split(self) -> list[torch.Tensor]:
        parts = self.flat.detach().split([r * d for r, d in self.specs])
        return [part.view(r, d) for part, (r, d) in zip(parts, self.specs, strict=True)]


def batch(step: int, tables: Tables, vbe: list[list[int]] | None, weighted: bool, pooling: int) -> Any:
    sizes = [sum(ranks) for ranks in vbe] if vbe else [BATCH] * len(FEATURES)
    starts = asynchronous_complete_cumsum(torch.tensor(sizes))
    lengths = integers(f"len{step}", (sum(sizes),), 5)
    counts = [int(part.sum()) for part in lengths.split(sizes)]
    ids = [integers(f"idx{step}_{f}", (n,), tables.specs[FEATURES[f]][0]) for f, n in enumerate(counts)]
    weights = tensor(f"psw{step}", (int(lengths.sum()),)).requires_grad_() if weighted else None
    outputs, shape = None, (BATCH, tables.width)
    if pooling == tbe.NONE:
        shape = (int(lengths.sum()), tables.width)
    if vbe:
        # Rank after rank, and feature after feature, the bags of each.
        places: list[list[int]] = [[] for _ in vbe]
        at = 0
        for rank in range(len(vbe[0])):
            for f, ranks in enumerate(vbe):
                dim = tables.specs[FEATURES[f]][1]
                places[f] += [at + dim * b for b in range(ranks[rank])]
                at += dim * ranks[rank]
        outputs, shape = torch.tensor([one for part in places for one in part]), (at,)
    lookup = tbe.Lookup(
        tables.flat, tables.layout, torch.cat(ids), asynchronous_complete_cumsum(lengths), starts, tables.width,
        pooling, weights, outputs,
    )  # fmt: skip
    return lookup, shape


@pytest.mark.parametrize(
    "case", [pytest.param(one, id=one["name"]) for one in TRAINED if one["name"] not in ELSEWHERE and "steps" in one]
)
def test_three_steps_give_the_recorded_outputs_and_tables(case, tier):
    pooling, options = POOLING[case["pooling"]], dict(case["kwargs"])
    tables = Tables(case["specs"], DTYPES[case["weights_precision"]], pooling)
    optimizer = case["optimizer"]
    limit = options.pop("max_gradient", None) if options.pop("gradient_clipping", False) else None
    if counter := options.pop("counter_based_regularization", None):
        optimizer = "row_wise_adagrad_with_counter"
        kind = re.search(r"CounterWeightDecayMode\.(\w+)", counter)[1]
        options |= {"weight_decay_mode": COUNTERS[kind], "counter_halflife": 2, "adjustment_iter": 1}
    states = tables.states(optimizer)
    rtol, atol = (2e-3, 2e-3) if "16" in case["weights_precision"] + case["output_dtype"] else (1e-5, 1e-6)
    for step, stored in enumerate(case["steps"]):
        lookup, shape = batch(step, tables, case["vbe"], case["weighted"], pooling)
        settings = tbe.OptimizerSettings(optimizer, 0.05, step + 1, **options)
        output = tbe.lookup_and_train(lookup, shape, states, settings, max_gradient=limit)
        output = output.to(DTYPES[case["output_dtype"]])
        if case["name"] not in ONLY_SHARED | MEANS_OF_WEIGHTED or step == 0:
            assert (fault := matches(output, stored["output"], rtol=rtol, atol=atol)) is None, fault
        (output * tensor(f"gout{step}", tuple(output.shape)).to(output.dtype)).sum().backward()
        if "grad_per_sample_weights" in stored and case["name"] not in MEANS_OF_WEIGHTED:
            assert matches(lookup.bag_weights.grad, stored["grad_per_sample_weights"], rtol=rtol, atol=atol) is None
    for table, (mine, stored) in enumerate(zip(tables.split(), case["tables_after"], strict=True)):
        shared = FEATURES.count(table) > 1
        if case["name"] not in MEANS_OF_WEIGHTED and (case["name"] not in ONLY_SHARED or shared):
            assert (fault := matches(mine, stored, rtol=rtol, atol=atol)) is None, fault


@pytest.mark.parametrize(
    "case", [pytest.param(one, id=f"{one['optimizer']}-{at}") for at, one in enumerate(BY_FORMULA)]
)
def test_optimizers_follow_their_formulas(case, tier):
    tables = Tables([[11, 8], [7, 4], [13, 12]], torch.float32)
    names = {"rowwise_adagrad": "exact_row_wise_adagrad"}
    optimizer = names.get(case["optimizer"], case["optimizer"])
    assert optimizer in OPTIMIZERS
    states = tables.states(optimizer)
    options = {name: case[name] for name in ("weight_decay", "momentum", "eta", "max_norm") if name in case}
    if optimizer.startswith("exact_row") and options.get("weight_decay"):
        options["weight_decay_mode"] = case.get("weight_decay_mode", 1)
    for step in range(3):
        lookup, shape = batch(step, tables, None, False, tbe.SUM)
        settings = tbe.OptimizerSettings(optimizer, 0.05, step + 1, **options)
        output = tbe.lookup_and_train(lookup, shape, states, settings)
        (output * tensor(f"gout{step}", tuple(output.shape))).sum().backward()
    for mine, stored in zip(tables.split(), case["tables_after"], strict=True):
        assert (fault := matches(mine, stored, rtol=1e-4, atol=1e-5)) is None, fault
