"""Attention made of parts beside what the reference computed: `golden/transforms.json`."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values
from flambeau.text.nn import InProjContainer, MultiheadAttentionContainer, ScaledDotProduct
from flambeau.text.nn.modules.multiheadattention import generate_square_subsequent_mask

E, H, L, S, B = 12, 4, 5, 7, 3


@pytest.fixture(scope="module")
def golden():
    return golden_values("transforms", __file__)["nn"]


@pytest.fixture(scope="module")
def rows(golden):
    return {row["call"]: row["out"] for row in golden["rows"]}


@pytest.fixture(scope="module")
def inputs():
    return fill.tensor("q", (L, B, E)), fill.tensor("k", (S, B, E)), fill.tensor("v", (S, B, E))


def build(**options) -> MultiheadAttentionContainer:
    projections = InProjContainer(nn.Linear(E, E), nn.Linear(E, E), nn.Linear(E, E))
    return fill.fill_(MultiheadAttentionContainer(H, projections, ScaledDotProduct(), nn.Linear(E, E), **options))


def mask():
    hidden = torch.zeros(B * H, L, S, dtype=torch.bool)
    hidden[:, :, -2:] = True
    return hidden


def test_outputs_and_weights_are_the_references(golden, rows, inputs):
    attention = build()
    assert list(attention.state_dict()) == golden["state_dict"]
    bias = {name: fill.tensor(name, (1, B * H, E // H)) for name in ("bias_k", "bias_v")}
    calls = {
        "MHA(q,k,v)": {},
        "MHA(q,k,v, attn_mask): last two sources masked": {"attn_mask": mask()},
        "MHA(q,k,v, attn_mask, bias_k, bias_v)": {"attn_mask": mask(), **bias},
    }
    for name, options in calls.items():
        for found, expected in zip(attention(*inputs, **options), rows[name], strict=True):
            assert fill.matches(found, expected) is None, name


def test_batches_may_come_first_for_either_part(rows, inputs):
    swapped = [x.transpose(0, 1) for x in inputs]
    attention = build(batch_first=True)
    for layer in (attention.attention_layer, ScaledDotProduct(batch_first=True)):
        attention.attention_layer = layer
        for found, expected in zip(attention(*swapped), rows["batch_first=True on transposed inputs"], strict=True):
            assert fill.matches(found, expected) is None


def test_what_the_reference_refuses_is_refused(rows, inputs):
    attention, (query, key, value) = build(), inputs
    calls = {
        "query (4,L,B,E) broadcasts over key and value (S,B,E)?": lambda: attention(
            query.expand(4, L, B, E), key, value
        ),
        "attn_mask of 2 dimensions": lambda: attention(query, key, value, attn_mask=mask()[0]),
        "float attn_mask": lambda: attention(query, key, value, attn_mask=mask().float()),
    }
    for name, call in calls.items():
        assert rows[name] == {"raises": "RuntimeError"}
        with pytest.raises(RuntimeError, match="expected"):
            call()
    with pytest.raises(RuntimeError, match="both or neither"):
        attention(query, key, value, bias_k=torch.zeros(1, B * H, E // H))
    with pytest.raises(AssertionError, match="multiple of the 4 heads"):
        MultiheadAttentionContainer(
            H, InProjContainer(*(nn.Linear(E, 6) for _ in range(3))), ScaledDotProduct(), nn.Linear(E, E)
        )(query, key, value)


def test_the_triangular_mask_is_the_references(rows):
    assert [generate_square_subsequent_mask(1, 3).tolist()[0]] == rows["generate_square_subsequent_mask(1,3)"]


def test_one_query_attends_for_a_whole_batch_of_keys():
    query, key, value = (torch.randn(length, batch, 3) for length, batch in ((4, 1), (5, 6), (5, 6)))
    output, weights = ScaledDotProduct()(query, key, value)
    repeated, _ = ScaledDotProduct()(query.expand(4, 6, 3), key, value)
    torch.testing.assert_close(output, repeated)
    assert weights.shape == (6, 4, 5)
