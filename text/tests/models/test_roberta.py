"""RoBERTa: padding is skipped and changes nothing, limits are told, graphs hold any batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from flambeau.text.models import RobertaClassificationHead, RobertaEncoder, RobertaEncoderConf, RobertaModel
from flambeau.text.models.roberta import PositionalEmbedding, TransformerEncoder, TransformerEncoderLayer

SMALL = {
    "vocab_size": 50, "embedding_dim": 16, "ffn_dimension": 32, "padding_idx": 1, "max_seq_len": 20,
    "num_attention_heads": 2, "num_encoder_layers": 2, "dropout": 0.0,
}  # fmt: skip


def model(**more) -> RobertaModel:
    torch.manual_seed(0)
    return RobertaModel(RobertaEncoderConf(**SMALL | more), RobertaClassificationHead(3, 16, dropout=0.0)).eval()


def batch(lengths: list[int]) -> torch.Tensor:
    tokens = torch.full((len(lengths), max(lengths)), 1)
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.arange(length) % 40 + 3
    return tokens


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5), before=st.booleans())
def test_a_text_has_the_same_features_in_any_company(lengths, before):
    encoder = model(normalize_before=before).encoder
    tokens = batch(lengths)
    with torch.inference_mode():
        together = encoder(tokens)
        for row, length in enumerate(lengths):
            torch.testing.assert_close(together[row, :length], encoder(tokens[row : row + 1, :length])[0])
    assert not together[tokens == 1].any()


def test_gradients_are_those_of_texts_one_by_one():
    whole, single = model().train(), model().train()
    tokens, labels = batch([7, 3, 5]), torch.tensor([0, 1, 2])
    nn.functional.cross_entropy(whole(tokens), labels).backward()
    for row, length in enumerate((7, 3, 5)):
        (nn.functional.cross_entropy(single(tokens[row : row + 1, :length]), labels[row : row + 1]) / 3).backward()
    for (name, ours), theirs in zip(whole.named_parameters(), single.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6, msg=name)
    assert not whole.encoder.transformer.token_embedding.weight.grad[1].any()


def test_positions_begin_behind_the_padding_index():
    table = PositionalEmbedding(10, 4, pad_index=1)
    assert table.positions(torch.tensor([[5, 6, 1, 7, 1]])).tolist() == [[2, 3, 1, 4, 1]]
    assert table.max_length == 8


def test_a_text_that_is_too_long_is_told():
    tokens = batch([18])
    model()(tokens)
    with pytest.raises(ValueError, match=r"19 tokens, at most 18 fit: truncate"):
        model()(batch([19]))
    wide = torch.cat([tokens, torch.ones(1, 9, dtype=torch.long)], 1)  # padding may go beyond the table
    assert model()(wide).shape == (1, 3)
    with pytest.raises(ValueError, match=r"expected \(N, T\)"):
        model()(tokens[0])


@pytest.mark.parametrize("form", ["bool", "float"])
def test_a_mask_hides_keys_from_queries(form):
    encoder = model().encoder.transformer
    tokens = batch([6, 4])
    causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
    mask = causal if form == "bool" else torch.zeros(6, 6).masked_fill(causal, -torch.inf)
    masked = encoder(tokens, mask)
    changed = tokens.clone()
    changed[:, 3] = 30
    torch.testing.assert_close(encoder(changed, mask)[:3], masked[:3])
    assert not torch.allclose(encoder(changed)[:3], encoder(tokens)[:3])
    with pytest.raises(TypeError, match="int64"):
        encoder(tokens, torch.zeros(6, 6, dtype=torch.int64))


def test_a_layer_by_itself_has_sequences_first_and_older_names():
    layer = TransformerEncoderLayer(16, 2, 32).eval()
    x, padding = torch.randn(5, 3, 16), torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    out = layer(x, padding)
    torch.testing.assert_close(layer(x[:3, 1:2], padding[1:2, :3])[:, 0], out[:3, 1])
    new = layer.state_dict()
    old = {
        "attention.input_projection.weight": new["better_transformer.self_attn.in_proj_weight"],
        "attention.input_projection.bias": new["better_transformer.self_attn.in_proj_bias"],
        "attention.output_projection.weight": new["better_transformer.self_attn.out_proj.weight"],
        "attention.output_projection.bias": new["better_transformer.self_attn.out_proj.bias"],
        "residual_mlp.mlp.0.weight": new["better_transformer.linear1.weight"],
        "residual_mlp.mlp.0.bias": new["better_transformer.linear1.bias"],
        "residual_mlp.mlp.3.weight": new["better_transformer.linear2.weight"],
        "residual_mlp.mlp.3.bias": new["better_transformer.linear2.bias"],
        "attention_layer_norm.weight": new["better_transformer.norm1.weight"],
        "attention_layer_norm.bias": new["better_transformer.norm1.bias"],
        "final_layer_norm.weight": new["better_transformer.norm2.weight"],
        "final_layer_norm.bias": new["better_transformer.norm2.bias"],
    }
    other = TransformerEncoderLayer(16, 2, 32).eval()
    other.load_state_dict(old, strict=True)
    torch.testing.assert_close(other(x, padding), out)


def test_parts_are_frozen_and_configured():
    frozen = RobertaModel(RobertaEncoderConf(**SMALL), RobertaClassificationHead(3, 16), freeze_encoder=True)
    assert {name.split(".")[0] for name, value in frozen.named_parameters() if value.requires_grad} == {"head"}
    assert RobertaEncoder.from_config(RobertaEncoderConf(**SMALL)).transformer.padding_idx == 1
    with pytest.raises(AssertionError, match="RobertaEncoderConf"):
        RobertaModel({"vocab_size": 3})
    with pytest.raises(ValueError, match="num_heads"):
        TransformerEncoder(10, 15, 1, 10, 1, num_attention_heads=2)


def test_a_model_exports_with_any_batch_and_length():
    network, tokens = model(), batch([7, 3])
    shapes = {"tokens": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}}
    exported = torch.export.export(network, (), {"tokens": tokens}, dynamic_shapes=shapes).module()
    for lengths in ([7, 3], [5, 12, 2]):
        torch.testing.assert_close(exported(tokens=batch(lengths)), network(batch(lengths)))


def test_a_model_compiles_as_one_graph():
    network = model()
    compiled = torch.compile(network, fullgraph=True, dynamic=True, backend="eager")
    torch.testing.assert_close(compiled(batch([7, 3])), network(batch([7, 3])))


def test_half_precision_and_autocast_work():
    tokens = batch([7, 3])
    assert model().to(torch.bfloat16)(tokens).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(model()(tokens)).all()
