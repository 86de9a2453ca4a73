"""T5: texts to ids and back, folders of another library, graphs."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from flambeau.core.errors import CheckpointError
from flambeau.text.models import T5Bundle, T5Conf, T5Model, T5Transform
from flambeau.text.models.t5.layers import TokenScores

SIZES = {
    "embedding_dim": 16, "qkv_dim": 4, "num_attention_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2,
    "ffn_dimension": 24, "vocab_size": 40,
}  # fmt: skip
CONFIG = {
    "model_type": "t5", "d_model": 16, "d_kv": 4, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 2, "d_ff": 24,
    "vocab_size": 40, "feed_forward_proj": "gated-gelu", "architectures": ["T5ForConditionalGeneration"],
}  # fmt: skip


def foreign(model: T5Model) -> dict:
    """A state under the other library's names."""
    parts = {
        "self_attn.": "layer.0.SelfAttention.", "cross_attn.": "layer.1.EncDecAttention.",
        "q_proj_weight": "q.weight", "k_proj_weight": "k.weight", "v_proj_weight": "v.weight", "out_proj.": "o.",
        "norm1.": "layer.0.layer_norm.", "norm3.": "layer.1.layer_norm.", "layers.": "block.",
    }  # fmt: skip
    found = {}
    for name, value in model.state_dict().items():
        last = "layer.2." if name.startswith("decoder") else "layer.1."
        own = {
            "linear1_0.": f"{last}DenseReluDense.wi_0.", "linear1_1.": f"{last}DenseReluDense.wi_1.",
            "linear2.": f"{last}DenseReluDense.wo.", "norm2.": f"{last}layer_norm.",
        }  # fmt: skip
        if name == "encoder.token_embeddings.weight":
            continue
        name = name.replace("token_embeddings", "shared")
        name = name.replace("coder.norm.", "coder.final_layer_norm.")
        for ours, theirs in (parts | own).items():
            name = name.replace(ours, theirs)
        found[name] = value.clone()
    return found


@pytest.fixture
def source() -> T5Model:
    torch.manual_seed(0)
    return T5Model(T5Conf(linear_head=True, feed_forward_proj="gated-gelu", **SIZES)).eval()


@pytest.mark.parametrize("form", ["safetensors", "bin", "shards"])
def test_a_folder_of_another_library_loads_strictly(source, tmp_path, form):
    state = foreign(source)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    if form == "safetensors":
        torch_file = pytest.importorskip("safetensors.torch")
        torch_file.save_file(state, tmp_path / "model.safetensors")
    elif form == "bin":
        torch.save(state, tmp_path / "pytorch_model.bin")
    else:
        files = {name: f"part-{place % 2}.bin" for place, name in enumerate(state)}
        for file in set(files.values()):
            torch.save({name: state[name] for name in state if files[name] == file}, tmp_path / file)
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    model = T5Bundle.build_model_from_huggingface_ckpt(tmp_path).eval()
    tokens, begun = torch.tensor([[5, 6, 1], [7, 1, 0]]), torch.tensor([[0, 4], [0, 5]])
    torch.testing.assert_close(model(tokens, begun)["decoder_output"], source(tokens, begun)["decoder_output"])
    encoder = T5Bundle.build_model_from_huggingface_ckpt(tmp_path, encoder_only=True, freeze_model=True).eval()
    assert encoder.decoder is None
    assert not any(value.requires_grad for value in encoder.parameters())
    torch.testing.assert_close(encoder(tokens)["encoder_output"], source(tokens)["encoder_output"])


def test_a_folders_shared_head_surplus_and_faults_are_told(source, tmp_path):
    state = {name: value for name, value in foreign(source).items() if name != "lm_head.weight"}
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    torch.save(state, tmp_path / "pytorch_model.bin")
    model = T5Bundle.build_model_from_huggingface_ckpt(tmp_path)
    assert torch.equal(model.lm_head.weight, model.token_embeddings.weight)
    assert model.lm_head.weight is not model.token_embeddings.weight
    torch.save(state | {"surplus": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="surplus"):
        T5Bundle.build_model_from_huggingface_ckpt(tmp_path)
    T5Bundle.build_model_from_huggingface_ckpt(tmp_path, strict=False)
    (tmp_path / "config.json").write_text(json.dumps({key: value for key, value in CONFIG.items() if key != "d_kv"}))
    with pytest.raises(CheckpointError, match="'d_kv'"):
        T5Bundle.build_model_from_huggingface_ckpt(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    (tmp_path / "pytorch_model.bin.index.json").write_text('{"weight_map": {"a": "../a.bin"}}')
    with pytest.raises(CheckpointError, match="beside it"):
        T5Bundle.build_model_from_huggingface_ckpt(tmp_path)


def test_texts_become_ended_padded_ids_and_come_back(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    text = tmp_path / "text.txt"
    text.write_text("hello world\nattention is all you need\nworlds of words\n" * 30, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "m"), vocab_size=40, minloglevel=2, hard_vocab_limit=False
    )
    transform = T5Transform(str(tmp_path / "m.model"), max_seq_len=6, eos_idx=1, padding_idx=0)
    ids = transform(["hello world", "attention is all you need"])
    plain = transform.encode(["hello world", "attention is all you need"])
    assert ids.dtype == torch.int64
    for row, whole in zip(ids.tolist(), plain, strict=True):
        expected = [*whole[:5], 1]
        assert row == expected + [0] * (ids.shape[1] - len(expected))
    assert transform("hello world").tolist() == [*plain[0][:5], 1]
    assert transform.decode(plain) == ["hello world", "attention is all you need"]
    assert transform.decode(plain[0]) == "hello world"
    for wrong in (3, ["1"], [1.0], "text"):
        with pytest.raises(TypeError):
            transform.decode(wrong)
    with pytest.raises(ValueError, match="at least 1"):
        T5Transform(str(tmp_path / "m.model"), max_seq_len=0, eos_idx=1, padding_idx=0)
    with pytest.raises(FileNotFoundError, match=r"absent\.model"):
        T5Transform("absent.model", 5, 1, 0)


@pytest.mark.parametrize("shape", [(1,), (3,), (8,), (9,), (2, 4), (1, 1), (3, 1, 2), (0, 1), ()], ids=str)
def test_scores_of_few_tokens_are_those_of_many(shape):
    head = TokenScores(6, 11)
    x = torch.randn(*shape, 6, requires_grad=True)
    scores = head(x)
    torch.testing.assert_close(scores, nn.functional.linear(x, head.weight))
    given = torch.randn_like(scores)
    ours = torch.autograd.grad(scores, (x, head.weight), given)
    theirs = torch.autograd.grad(nn.functional.linear(x, head.weight), (x, head.weight), given)
    torch.testing.assert_close(ours, theirs)
    assert head.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_a_decoder_whose_states_equal_the_memory_still_attends_to_both():
    """Upstream tells self-attention by comparing values, and takes this for one."""
    torch.manual_seed(0)
    conf = T5Conf(**{**SIZES, "num_decoder_layers": 1})
    layer = T5Model(conf).eval().decoder.layers[0]
    memory = torch.randn(2, 3, 16)
    # With the first attention's output taken away, the second one's query is a normalization of the memory itself.
    nn.init.zeros_(layer.self_attn.out_proj.weight)
    found = layer(memory, None, memory=memory)[0]
    keys, values = layer.cross_attn.project(memory)
    crossed = memory + layer.cross_attn(layer.norm3(memory), keys, values, None)[0]
    torch.testing.assert_close(found, crossed + layer._feed_forward(layer.norm2(crossed)))


class Encoder(nn.Module):
    """A T5's encoder, for graphs of one output."""

    def __init__(self, model: T5Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(tokens)["encoder_output"]


class Step(nn.Module):
    """The next token's scores and the longer cache, from one token and a cache."""

    def __init__(self, model: T5Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, token, memory, past):
        outputs = self.model(
            decoder_tokens=token, encoder_outputs={"encoder_output": memory}, past_key_values=past,
            return_past_key_values=True,
        )  # fmt: skip
        return outputs["decoder_output"], outputs["past_key_values"]


def test_the_encoder_exports_with_any_batch_and_length(source):
    shapes = {"tokens": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}}
    tokens = torch.tensor([[5, 6, 1], [7, 1, 0]])
    exported = torch.export.export(Encoder(source), (), {"tokens": tokens}, dynamic_shapes=shapes).module()
    for batch in (tokens, torch.tensor([[5, 6, 7, 8, 1], [7, 1, 0, 0, 0], [9, 9, 9, 1, 0]])):
        torch.testing.assert_close(exported(tokens=batch), source(batch)["encoder_output"])


def test_a_decoders_step_exports_with_its_cache(source):
    tokens = torch.tensor([[5, 6, 1], [7, 8, 1]])
    source.requires_grad_(False)
    whole = source(tokens, torch.tensor([[0, 4, 9], [0, 5, 3]]), return_past_key_values=True)
    past = [tuple(part[:, :, :2] if place < 2 else part for place, part in enumerate(layer))
            for layer in whole["past_key_values"]]  # fmt: skip
    last, memory = torch.tensor([[9], [3]]), whole["encoder_output"]
    auto = torch.export.Dim.AUTO
    step = Step(source)
    exported = torch.export.export(
        step, (last, memory, past), dynamic_shapes=({0: auto}, {0: auto, 1: auto}, [({0: auto, 2: auto},) * 4] * 2)
    ).module()
    scores, longer = exported(last, memory, past)
    torch.testing.assert_close(scores, whole["decoder_output"][:, 2:])
    scores, _ = exported(last, memory, longer)
    torch.testing.assert_close(scores, step(last, memory, longer)[0])


def test_the_encoder_and_the_decoder_take_upstreams_arguments(source):
    tokens, begun = torch.tensor([[5, 6, 7, 1], [9, 1, 0, 0]]), torch.tensor([[0, 4, 8], [0, 5, 3]])
    whole = source.eval()(tokens, begun)
    padding = tokens.eq(0)
    encoded = source.get_encoder()(src=tokens, src_key_padding_mask=padding)
    assert torch.equal(encoded["encoder_output"], whole["encoder_output"])
    embedded = source.get_encoder()(embedded_src=source.token_embeddings(tokens), src_key_padding_mask=padding)
    assert torch.equal(embedded["encoder_output"], whole["encoder_output"])
    with pytest.raises(AssertionError, match="embedded_src"):
        source.get_encoder()()
    decoded = source.get_decoder()(
        source.token_embeddings(begun), memory=encoded["encoder_output"], memory_key_padding_mask=padding,
        return_past_key_values=True,
    )  # fmt: skip
    torch.testing.assert_close(decoded["decoder_hidden_states"][-1], whole["decoder_hidden_states"][-1])
    assert len(decoded["past_key_values"]) == len(source.decoder.layers)


def test_a_model_is_made_frozen_and_in_a_dtype():
    conf = T5Conf(embedding_dim=8, qkv_dim=2, num_attention_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    model = T5Model(conf, freeze=True, dtype=torch.float64)
    assert model.dtype == torch.float64
    assert {(p.dtype, p.requires_grad) for p in model.parameters()} == {(torch.float64, False)}
