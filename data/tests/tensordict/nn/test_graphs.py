"""Modules of tensordicts as graphs of torch.fx."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule, TensorDictSequential, WrapModule
from flambeau.data.tensordict.prototype import symbolic_trace


def test_a_traced_sequence_gives_the_same_without_tensordicts_between():
    module = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 4), ["a"], [("n", "h")]),
        TensorDictModule(lambda x: (x + 1, x - 1), [("n", "h")], ["p", "_"]),
        TensorDictModule(torch.sub, {"input": "p", "other": "a2"}, ["r"]),
        TensorDictModule(nn.Linear(4, 2), ["r"], ["shown"], method="forward"),
    )
    traced = symbolic_trace(module)
    data = TensorDict({"a": torch.ones(5, 3), "a2": torch.ones(5, 4)}, [5])
    expected, got = module(data.copy()), traced(data.copy())
    assert (traced.in_keys, traced.out_keys) == (module.in_keys, module.out_keys)
    for key in module.out_keys:
        assert torch.equal(got[key], expected[key])
    assert torch.equal(traced(data["a"], a2=data["a2"])[-1], expected["shown"])
    assert not any("TensorDict" in str(node.target) for node in traced.graph.nodes)


def test_what_no_graph_can_know_is_refused():
    with pytest.raises(TypeError, match="WrapModule"):
        symbolic_trace(TensorDictSequential(WrapModule(lambda data: data)))


def test_a_graph_writes_where_it_is_told():
    traced = symbolic_trace(TensorDictModule(nn.Linear(3, 4), ["a"], ["b"]))
    data, out = TensorDict(a=torch.ones(5, 3)), TensorDict()
    assert traced(data, tensordict_out=out) is out and list(out.keys()) == ["b"] and list(data.keys()) == ["a"]
    assert traced(data) is data and torch.equal(data["b"], out["b"])
    assert "module_0" in traced.code
