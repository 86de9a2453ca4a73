"""Checkpoints that transformers itself saved give its outputs here: by name through a mirror, and from folders."""

from __future__ import annotations

import hashlib

import pytest
import torch

from flambeau.core.testing.server import FileServer
from flambeau.core.weights import get_model
from flambeau.text.models import Bert_Base_Uncased_Weights, MiniLM_L6_Weights, RobertaBundle, T5Bundle
from flambeau.text.models.bert.huggingface import build_model_from_huggingface_ckpt
from flambeau.text.prototype.generate import GenerationUtils

peer = pytest.importorskip("transformers", reason="needs transformers; `nox -s parity -- peers` has it")

TOKENS = torch.tensor([[101, 2054, 2003, 2023, 102, 0, 0], [101, 7592, 102, 0, 0, 0, 0], [101, 5, 6, 7, 8, 9, 102]])


def randomized(model):
    """Biases and normalizations too: initial ones are all alike and would hide a wrong name."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() == 1:
                value.add_(torch.randn(value.shape, generator=generator) * 0.1)
    return model.eval()


def minilm():
    """The architecture of all-MiniLM-L6-v2."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12}
    return randomized(peer.BertModel(peer.BertConfig(**sizes)))


def bert():
    """BERT base with the heads of pretraining, as its published file has them."""
    torch.manual_seed(0)
    return randomized(peer.BertForPreTraining(peer.BertConfig()))


def embeddings(model) -> torch.Tensor:
    """Normalized means of the real tokens' features, as published sentence encoders define them."""
    mask = TOKENS.ne(0)
    features = model(input_ids=TOKENS, attention_mask=mask.long()).last_hidden_state
    mean = (features * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, p=2, dim=1)


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Serve a peer's model in place of a member's file; its digest and size are made known, as its owner would."""
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    started: list[FileServer] = []

    def serve(member, model):
        model.save_pretrained(tmp_path / "saved")
        data = (tmp_path / "saved" / "model.safetensors").read_bytes()
        path = member.url.removeprefix("https://huggingface.co/")
        server = FileServer({path: data})
        server.__enter__()
        started.append(server)
        monkeypatch.setenv("FLAMBEAU_MIRRORS", f"https://huggingface.co/={server.url('')}")
        monkeypatch.setitem(vars(member.value), "sha256", hashlib.sha256(data).hexdigest())
        monkeypatch.setitem(vars(member.value), "size", len(data))
        return tmp_path / "saved"

    yield serve
    for server in started:
        server.__exit__(None, None, None)


def test_a_sentence_encoder_loads_by_name_and_embeds_alike(mirror):
    original = minilm()
    folder = mirror(MiniLM_L6_Weights.SENTENCE_PAIRS, original)
    model = get_model("minilm_l6", weights="SENTENCE_PAIRS").eval()
    with torch.inference_mode():
        expected = embeddings(original)
        torch.testing.assert_close(model(TOKENS), expected, rtol=1e-4, atol=1e-5)
        assert len(model.state_dict()) == len(original.state_dict())
        from_folder = build_model_from_huggingface_ckpt(folder, "mean", normalize=True).eval()
        assert torch.equal(from_folder(TOKENS), model(TOKENS))
    # What is saved here loads there.
    assert not any(minilm().load_state_dict(model.state_dict(), strict=True))


def test_a_pickled_checkpoint_loads_too(tmp_path):
    original = minilm()
    original.config.save_pretrained(tmp_path)
    torch.save(original.state_dict(), tmp_path / "pytorch_model.bin")
    model = build_model_from_huggingface_ckpt(tmp_path, "mean", normalize=True).eval()
    by_path = get_model("minilm_l6", weights=str(tmp_path / "pytorch_model.bin")).eval()
    with torch.inference_mode():
        torch.testing.assert_close(model(TOKENS), embeddings(original), rtol=1e-4, atol=1e-5)
        assert torch.equal(by_path(TOKENS), model(TOKENS))


def test_bert_with_the_heads_of_pretraining_loads_by_name(mirror):
    original = bert()
    mirror(Bert_Base_Uncased_Weights.BOOKS_WIKIPEDIA, original)
    model = get_model("bert_base_uncased", weights="DEFAULT").eval()
    segments = (torch.arange(7) > 2).long().expand(3, 7)
    real = TOKENS.ne(0)
    with torch.inference_mode():
        theirs = original.bert(input_ids=TOKENS, attention_mask=real.long(), token_type_ids=segments)
        torch.testing.assert_close(model(TOKENS, segments)[real], theirs.last_hidden_state[real], rtol=1e-4, atol=1e-4)
        model.pooling = "pooler"
        torch.testing.assert_close(model(TOKENS, segments), theirs.pooler_output, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_folder_of_roberta_gives_the_same_features(tmp_path, wrapped):
    torch.manual_seed(0)
    config = peer.XLMRobertaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=40, type_vocab_size=1, pad_token_id=1,
    )  # fmt: skip
    model = randomized((peer.XLMRobertaForSequenceClassification if wrapped else peer.XLMRobertaModel)(config))
    model.save_pretrained(tmp_path)
    ours = RobertaBundle.build_model_from_huggingface_ckpt(tmp_path).eval()
    tokens = torch.tensor([[0, 5, 6, 2], [0, 7, 2, 1]])
    real = tokens.ne(1)
    with torch.inference_mode():
        inner = model.roberta if wrapped else model
        theirs = inner(input_ids=tokens, attention_mask=real.long()).last_hidden_state
        torch.testing.assert_close(ours(tokens)[real], theirs[real], rtol=1e-4, atol=1e-5)


def t5(**more):
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    config = peer.T5Config(**sizes, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **more)
    return randomized(peer.T5ForConditionalGeneration(config))


@pytest.mark.parametrize("options", [{"feed_forward_proj": "relu"}, {"feed_forward_proj": "gated-gelu"}])
def test_a_folder_of_t5_gives_the_same_states_and_texts(tmp_path, options):
    original = t5(**options)
    original.save_pretrained(tmp_path)
    ours = T5Bundle.build_model_from_huggingface_ckpt(tmp_path).eval()
    tokens, begun = torch.tensor([[5, 6, 7, 1], [9, 1, 0, 0]]), torch.tensor([[0, 4, 8], [0, 5, 3]])
    mask = tokens.ne(0).long()
    with torch.inference_mode():
        theirs = original(input_ids=tokens, attention_mask=mask, decoder_input_ids=begun, output_hidden_states=True)
        states = ours(tokens, begun)
        real = tokens.ne(0)
        torch.testing.assert_close(
            states["encoder_output"][real], theirs.encoder_last_hidden_state[real], rtol=1e-4, atol=1e-5
        )
        torch.testing.assert_close(
            states["decoder_hidden_states"][-1], theirs.decoder_hidden_states[-1], rtol=1e-4, atol=1e-4
        )
        expected = original.generate(tokens, attention_mask=mask, max_length=12, do_sample=False, num_beams=1)
    for utils in (GenerationUtils(ours), GenerationUtils(original, is_huggingface_model=True)):
        found = utils.generate(tokens, max_length=12)
        assert found.tolist() == expected.tolist()


def test_beams_of_both_find_the_same_texts(tmp_path):
    original = t5()
    original.save_pretrained(tmp_path)
    ours = T5Bundle.build_model_from_huggingface_ckpt(tmp_path).eval()
    tokens = torch.randint(2, 60, (6, 5), generator=torch.Generator().manual_seed(0))
    expected = original.generate(tokens, max_length=9, do_sample=False, num_beams=4, early_stopping=True)
    found = GenerationUtils(ours).generate(tokens, max_length=9, num_beams=4, early_stopping=True)
    assert found.tolist() == expected.tolist()


def test_a_decoder_of_transformers_continues_texts():
    torch.manual_seed(0)
    config = peer.GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0)
    model = randomized(peer.GPT2LMHeadModel(config))
    begun = torch.tensor([[3, 4], [5, 6]])
    expected = model.generate(
        begun, attention_mask=torch.ones_like(begun), max_length=9, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    utils = GenerationUtils(model, is_encoder_decoder=False, is_huggingface_model=True)
    assert utils.generate(begun, max_length=9, eos_idx=None).tolist() == expected.tolist()
