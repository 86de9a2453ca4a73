"""BERT: published states load strictly, texts have the same vectors in any company, limits are told."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.core.errors import CheckpointError
from flambeau.text.models import BertConf, BertModel, BertTransform, fast_path_report, pool
from flambeau.text.models.bert.huggingface import build_model_from_huggingface_ckpt

SMALL = {
    "vocab_size": 60, "embedding_dim": 16, "ffn_dimension": 32, "max_seq_len": 12,
    "num_attention_heads": 2, "num_encoder_layers": 2, "dropout": 0.0,
}  # fmt: skip


def model(pooling=None, normalize=False, **more) -> BertModel:
    torch.manual_seed(0)
    return BertModel(BertConf(**SMALL | more), pooling, normalize).eval()


def batch(lengths: list[int]) -> torch.Tensor:
    tokens = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.arange(length) % 40 + 3
    return tokens


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    pooling=st.sampled_from([None, "cls", "mean", "max", "pooler"]),
)
def test_a_text_has_the_same_vector_in_any_company(lengths, pooling):
    network, tokens = model(pooling, normalize=pooling is not None), batch(lengths)
    with torch.inference_mode():
        together = network(tokens)
        for row, length in enumerate(lengths):
            alone = network(tokens[row : row + 1, :length])[0]
            found = together[row] if pooling else together[row, :length]
            torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-5)
    if pooling:
        torch.testing.assert_close(together.norm(dim=1), torch.ones(len(lengths)))
    else:
        assert not together[tokens == 0].any()


def test_pooling_looks_at_real_tokens_alone():
    features = torch.tensor([[[1.0, -2.0], [3.0, -4.0], [torch.nan, 9.0]], [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    real = torch.tensor([[True, True, False], [False, False, False]])
    assert pool(features, real, "cls").tolist() == [[1.0, -2.0], [0.0, 0.0]]
    assert pool(features, real, "mean").tolist() == [[2.0, -3.0], [0.0, 0.0]]
    assert pool(features, real, "max").tolist() == [[3.0, -2.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="'sum'"):
        pool(features, real, "sum")


def test_segments_and_masks_change_what_they_should():
    network, tokens = model(), batch([6])
    assert torch.equal(network(tokens), network(tokens, torch.zeros_like(tokens)))
    assert not torch.allclose(network(tokens), network(tokens, torch.ones_like(tokens)))
    shown = torch.ones_like(tokens)
    shown[:, 4:] = 0
    torch.testing.assert_close(network(tokens, attention_mask=shown)[:, :4], network(tokens[:, :4]))


@pytest.mark.parametrize("form", ["plain", "wrapped", "oldest", "numbered"])
def test_states_of_every_published_form_load_strictly(form):
    source = model("mean")
    state = dict(source.state_dict())
    if form in ("wrapped", "oldest"):
        state = {f"bert.{key}": value for key, value in state.items()}
        state |= {"cls.predictions.bias": torch.zeros(60), "cls.seq_relationship.weight": torch.zeros(2, 16)}
    if form == "oldest":
        for old, new in (("gamma", "weight"), ("beta", "bias")):
            state = {key.replace(f"LayerNorm.{new}", f"LayerNorm.{old}"): value for key, value in state.items()}
    if form == "numbered":
        state["embeddings.position_ids"] = torch.arange(12)[None]
    loaded = BertModel(BertConf(**SMALL), "mean").eval()
    loaded.load_state_dict(state, strict=True)
    assert torch.equal(loaded(batch([5, 3])), source(batch([5, 3])))
    assert list(state) != []  # the caller's mapping is left alone
    inside = torch.nn.ModuleDict({"encoder": BertModel(BertConf(**SMALL))})
    inside.load_state_dict({f"encoder.{key}": value for key, value in state.items()}, strict=True)


def test_a_head_that_the_model_lacks_is_told():
    state = {f"bert.{key}": value for key, value in model().state_dict().items()} | {"classifier.weight": torch.ones(2)}
    with pytest.raises(RuntimeError, match=r"classifier\.weight"):
        model().load_state_dict(state, strict=True)


def test_bad_sizes_tokens_and_folders_are_refused(tmp_path):
    with pytest.raises(AssertionError, match="BertConf"):
        BertModel({})
    for pooling, normalize, sizes, message in (
        ("sum", False, {}, "'sum'"),
        (None, True, {}, "choose a pooling"),
        ("pooler", False, {"pooler": False}, "pooler=True"),
        (None, False, {"num_attention_heads": 3}, "3 heads"),
        (None, False, {"activation": "swish"}, "'swish'"),
    ):
        with pytest.raises(ValueError, match=message):
            model(pooling, normalize, **sizes)
    with pytest.raises(ValueError, match="13 tokens, at most 12"):
        model()(batch([13]))
    with pytest.raises(ValueError, match=r"\(N, T\)"):
        model()(batch([3])[0])
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        build_model_from_huggingface_ckpt(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(FileNotFoundError, match="no weights"):
        build_model_from_huggingface_ckpt(tmp_path)
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="'gpt2'"):
        build_model_from_huggingface_ckpt(tmp_path)
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(CheckpointError, match="not JSON"):
        build_model_from_huggingface_ckpt(tmp_path)


def test_texts_become_padded_ids_between_two_tokens(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n##s\n", encoding="utf-8")
    transform = BertTransform(vocabulary, max_seq_len=4)
    assert transform(["Hello worlds", "world", ""]).tolist() == [[2, 4, 5, 3], [2, 5, 3, 0], [2, 3, 0, 0]]
    assert transform("Hello").tolist() == [2, 4, 3]
    assert transform([]).shape == (0, 0)
    with pytest.raises(TypeError):
        transform(3)
    vocabulary.write_text("[PAD]\n[UNK]\nhello\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"no \[CLS\]"):
        BertTransform(vocabulary)
    with pytest.raises(ValueError, match="at least 2"):
        BertTransform(vocabulary, max_seq_len=1)


def test_a_report_tells_which_way_a_batch_goes():
    network = model("mean")
    skipped, full = fast_path_report(network, batch([5, 2])), fast_path_report(network, batch([5, 5]))
    assert (skipped.taken, skipped.real, skipped.tokens) == (True, 7, 10)
    assert str(skipped).startswith("fast path taken: padding is skipped")
    assert (full.taken, full.real) == (False, 10)
    assert "no padding" in str(full)
    with pytest.raises(TypeError, match="Linear"):
        fast_path_report(torch.nn.Linear(2, 2), batch([2]))


def test_a_sentence_encoder_exports_with_any_batch_and_length():
    network = model("mean", normalize=True)
    shapes = {"tokens": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}}
    exported = torch.export.export(network, (), {"tokens": batch([7, 3])}, dynamic_shapes=shapes).module()
    for lengths in ([7, 3], [5, 12, 2]):
        torch.testing.assert_close(exported(tokens=batch(lengths)), network(batch(lengths)), rtol=1e-4, atol=1e-5)


def test_a_sentence_encoder_compiles_as_one_graph():
    network = model("mean", normalize=True)
    compiled = torch.compile(network, fullgraph=True, dynamic=True, backend="eager")
    torch.testing.assert_close(compiled(batch([7, 3])), network(batch([7, 3])), rtol=1e-4, atol=1e-5)
