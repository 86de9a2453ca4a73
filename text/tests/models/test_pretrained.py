"""Weights by name and by bundle, from a mirror on loopback: what is loaded, kept, warned of and refused."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
import torch

from flambeau.core.errors import CheckpointError, DownloadError
from flambeau.core.testing.server import FileServer
from flambeau.text import models
from flambeau.text.models import RobertaBundle, RobertaClassificationHead, RobertaEncoderConf, T5Bundle, T5Conf
from flambeau.text.models.t5.bundler import GenerationUtilsForT5

ROBERTA = RobertaEncoderConf(50, 16, 32, 1, 20, 2, 2)
T5 = T5Conf(
    linear_head=True, embedding_dim=16, qkv_dim=4, num_attention_heads=2, num_encoder_layers=1, num_decoder_layers=1,
    ffn_dimension=24, vocab_size=40,
)  # fmt: skip


def saved(state) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A server in place of the published ones; its files are added by the tests."""
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))

    def start(files):
        server = FileServer(files)
        server.__enter__()
        started.append(server)
        monkeypatch.setenv("FLAMBEAU_MIRRORS", f"https://download.pytorch.org/models/text/={server.url('')}")
        return server

    started: list[FileServer] = []
    yield start
    for server in started:
        server.__exit__(None, None, None)


def test_a_bundle_fetches_its_encoder_and_keeps_the_callers_head(served):
    source = RobertaBundle(ROBERTA).get_model(load_weights=False)
    server = served({"roberta.base.encoder.pt": saved(source.state_dict())})
    bundle = replace(models.ROBERTA_BASE_ENCODER, _encoder_conf=ROBERTA)
    head = RobertaClassificationHead(3, 16)
    before = head.dense.weight.detach().clone()
    model = bundle.get_model(head=head, freeze_encoder=True)
    assert model.head is head
    assert torch.equal(head.dense.weight, before)
    tokens = torch.tensor([[0, 7, 2], [0, 2, 1]])
    assert torch.equal(model.encoder.eval()(tokens), source.eval()(tokens))
    assert {name.split(".")[0] for name, value in model.named_parameters() if value.requires_grad} == {"head"}
    bundle.get_model()
    assert len(server.requests("roberta.base.encoder.pt")) == 1


def test_a_head_takes_the_checkpoints_values_if_they_are_all_there():
    source = RobertaBundle.build_model(ROBERTA, head=RobertaClassificationHead(3, 16))
    state = dict(source.state_dict())

    def build(checkpoint, **options):
        head = RobertaClassificationHead(3, 16)
        return head.out_proj.weight.detach().clone(), RobertaBundle.build_model(
            ROBERTA, head=head, checkpoint=checkpoint, strict=True, **options
        )

    _, loaded = build(state)
    assert torch.equal(loaded.head.out_proj.weight, source.head.out_proj.weight)
    own, kept = build(state, override_checkpoint_head=True)
    assert torch.equal(kept.head.out_proj.weight, own)
    own, kept = build({name: value for name, value in state.items() if name != "head.out_proj.bias"})
    assert torch.equal(kept.head.out_proj.weight, own)
    with torch.no_grad():  # a state is copied: the model and the mapping share nothing
        loaded.head.dense.weight.zero_()
    assert state["head.dense.weight"].any()


def test_what_a_loose_load_leaves_out_is_named(tmp_path):
    source = RobertaBundle.build_model(ROBERTA)
    state = {name: value for name, value in source.state_dict().items() if "layers.1.self_attn" not in name}
    state["encoder.transformer.surplus"] = torch.zeros(1)
    with pytest.warns(UserWarning, match=r"lacks .*layers\.1\.self_attn\.in_proj_weight.*in vain .*surplus"):
        model = RobertaBundle.build_model(ROBERTA, checkpoint=state)
    assert all(value.isfinite().all() for value in model.parameters())
    with pytest.raises(CheckpointError, match="surplus"):
        RobertaBundle.build_model(ROBERTA, checkpoint=state, strict=True)
    torch.save(source.state_dict(), tmp_path / "whole.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RobertaBundle.build_model(ROBERTA, checkpoint=str(tmp_path / "whole.pt"))
    with pytest.raises(FileNotFoundError, match="absent"):
        RobertaBundle.build_model(ROBERTA, checkpoint=str(tmp_path / "absent.pt"))
    with pytest.raises(TypeError, match="speed"):
        RobertaBundle.build_model(ROBERTA, checkpoint="https://example.invalid/x.pt", dl_kwargs={"speed": 3})


def test_a_t5_bundle_loads_strictly_and_generates(served, tmp_path):
    source = T5Bundle(T5).get_model(load_weights=False).eval()
    state = dict(source.state_dict())
    served({"t5.small.generation.v2.pt": saved(state), "t5.base.generation.v2.pt": saved({"a": torch.ones(1)})})
    bundle = replace(models.T5_SMALL_GENERATION, _config=T5)
    folder = tmp_path / "chosen"
    writer = bundle.get_model(with_generation_utils=True, dl_kwargs={"model_dir": str(folder), "progress": False})
    assert isinstance(writer, GenerationUtilsForT5)
    assert (folder / "t5.small.generation.v2.pt").is_file()
    tokens = torch.tensor([[5, 6, 1]])
    expected = GenerationUtilsForT5(source).generate(tokens, max_length=5)
    assert torch.equal(writer.eval().generate(tokens, max_length=5), expected)
    # The embedding has two names in a state and stays one parameter.
    assert writer.model.encoder.token_embeddings.weight is writer.model.token_embeddings.weight
    with pytest.raises(CheckpointError):
        replace(models.T5_BASE_GENERATION, _config=T5).get_model()
    with pytest.raises(DownloadError):
        replace(models.T5_3B_GENERATION, _config=T5).get_model()


def test_weights_by_name_decide_what_kind_of_t5_is_built(served):
    sizes = {"embedding_dim": 16, "qkv_dim": 4, "num_attention_heads": 2, "num_encoder_layers": 1, "ffn_dimension": 24}
    sizes |= {"num_decoder_layers": 1, "vocab_size": 40}
    encoder = models.t5_small(kind="encoder", **sizes)
    served({"t5.small.encoder.v2.pt": saved(encoder.state_dict())})
    loaded = models.get_model("t5_small", weights="ENCODER", **sizes)
    assert loaded.decoder is None
    assert loaded.lm_head is None
    assert torch.equal(loaded.token_embeddings.weight, encoder.token_embeddings.weight)
    with pytest.raises(ValueError, match="of kind 'encoder'"):
        models.t5_small(weights="ENCODER", kind="model", **sizes)
    assert models.t5_small(**sizes).lm_head is not None


def test_a_head_goes_on_a_model_by_name():
    head = RobertaClassificationHead(3, 16)
    sizes = {"vocab_size": 50, "embedding_dim": 16, "ffn_dimension": 32, "num_attention_heads": 2}
    model = models.get_model("xlmr_base", head=head, freeze_encoder=True, num_encoder_layers=1, **sizes)
    assert model(torch.tensor([[0, 5, 2]])).shape == (1, 3)
    assert not model.encoder.transformer.token_embedding.weight.requires_grad


def test_facts_about_weights_need_no_torch_and_modules_import_alone():
    for code in (
        "import sys, flambeau.text.weights as w; w.T5_Small_Weights.DEFAULT.url; assert 'torch' not in sys.modules",
        "import flambeau.text.prototype.generate",
        "import flambeau.text.models.t5.bundler",
        "import flambeau.text.models.roberta.bundler",
    ):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
