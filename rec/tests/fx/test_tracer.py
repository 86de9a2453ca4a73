"""Models with sparse features become graphs that do the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.errors import OptionError
from flambeau.rec.fx.tracer import Tracer, is_fx_tracing, symbolic_trace
from flambeau.rec.fx.utils import assert_fx_safe, fx_marker, is_marker_node
from flambeau.rec.models.dlrm import DLRM


def dlrm():
    torch.manual_seed(0)
    table = EmbeddingBagConfig(num_embeddings=9, embedding_dim=4, name="t", feature_names=["a"])
    return DLRM(EmbeddingBagCollection([table]), 3, [4], [4, 1])


def test_a_traced_dlrm_predicts_the_same_and_keeps_its_tables_whole():
    model = dlrm()
    traced = symbolic_trace(model, leaf_modules=["EmbeddingBagCollection"])
    called = [str(node.target) for node in traced.graph.nodes if node.op == "call_module"]
    assert "sparse_arch.embedding_bag_collection" in called
    ids = KeyedJaggedTensor(["a"], torch.tensor([1, 5, 8]), lengths=torch.tensor([2, 1]))
    torch.testing.assert_close(traced(torch.ones(2, 3), ids), model(torch.ones(2, 3), ids))


def test_classes_are_left_whole_by_their_names():
    assert Tracer(["Sequential"]).is_leaf_module(nn.Sequential(), "x")
    assert not Tracer(["x"]).is_leaf_module(dlrm(), "x")
    assert Tracer().is_leaf_module(nn.Linear(1, 1), "x")


class Marked(nn.Module):
    def forward(self, x):
        fx_marker("here", x)
        assert_fx_safe(x.size(0) == 2, "two rows")
        return x + 1 if is_fx_tracing() else x


def test_marks_stand_in_graphs_and_assertions_do_not():
    traced = symbolic_trace(Marked())
    marks = [node for node in traced.graph.nodes if is_marker_node(node, "here")]
    assert len(marks) == 1
    assert not is_marker_node(marks[0], "there")
    assert traced(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert not is_fx_tracing()
    assert Marked()(torch.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(AssertionError, match="two rows"):
        Marked()(torch.ones(3))


def test_functions_are_refused():
    with pytest.raises(OptionError, match="expected a module"):
        symbolic_trace(lambda x: x)
