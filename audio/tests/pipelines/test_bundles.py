"""Bundles: what upstream recorded of them, and what they build from files that lie where upstream keeps them."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
import torch

from flambeau.audio import models, pipelines
from flambeau.audio.pipelines.wav2vec2 import Wav2Vec2ASRBundle, Wav2Vec2Bundle, Wav2Vec2FABundle
from flambeau.audio.pipelines.wav2vec2_wrapper import standardized
from flambeau.audio.prototype import pipelines as prototype
from flambeau.core.errors import CheckpointError
from flambeau.core.testing.golden import upstream_facts

TINY = {
    "extractor_mode": "layer_norm",
    "extractor_conv_layer_config": [(8, 10, 5), (8, 3, 2)],
    "extractor_conv_bias": False,
    "encoder_embed_dim": 12,
    "encoder_projection_dropout": 0.0,
    "encoder_pos_conv_kernel": 4,
    "encoder_pos_conv_groups": 2,
    "encoder_num_layers": 1,
    "encoder_num_heads": 2,
    "encoder_attention_dropout": 0.0,
    "encoder_ff_interm_features": 16,
    "encoder_ff_interm_dropout": 0.0,
    "encoder_dropout": 0.0,
    "encoder_layer_norm_first": True,
    "encoder_layer_drop": 0.0,
}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Torch's hub folder, empty."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "torchaudio" / "models").mkdir(parents=True)
    return tmp_path


def network(outputs):
    torch.manual_seed(0)
    return models.wav2vec2_model(**TINY, aux_num_out=outputs).eval()


def test_every_recorded_bundle_has_the_recorded_facts():
    record = upstream_facts("pipelines", __file__)["bundles"]
    for name, facts in record.items():
        bundle = getattr(prototype if "module" in facts else pipelines, name)
        assert type(bundle).__name__ == facts["bundle"] or "Tacotron2" in facts["bundle"]
        assert getattr(bundle, "sample_rate", facts["sample_rate"]) == facts["sample_rate"]
        if "params" in facts:
            expected = {**facts["params"]}
            expected["extractor_conv_layer_config"] = [tuple(x) for x in expected["extractor_conv_layer_config"]]
            assert bundle._params == expected, name
            assert (bundle._model_type, bundle._normalize_waveform) == (facts["model"], facts["normalize_waveform"])
        if "labels" in facts:
            assert list(bundle.get_labels()) == facts["labels"]
            assert list(bundle._remove_aux_axis) == facts["remove_aux_axes"]
    assert len(record) == 44


def test_facts_of_bundles_load_no_torch():
    code = (
        "from flambeau.audio.pipelines import *; import sys\n"
        "print(MMS_FA.get_labels()[-1], EMFORMER_RNNT_BASE_LIBRISPEECH.segment_length, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["*", "16", "False"], done.stderr


def test_untrained_outputs_are_dropped_and_waveforms_normalized(hub):
    original = network(7)
    torch.save(original.state_dict(), hub / "checkpoints" / "tiny.pth")
    bundle = Wav2Vec2ASRBundle("tiny.pth", {**TINY, "aux_num_out": 4}, 16000, True, "Wav2Vec2", ("|", "a", "b"))
    model, waveform = bundle.get_model(), 5 + 3 * torch.randn(1, 400)
    expected = original(torch.nn.functional.layer_norm(waveform, (400,)))[0][..., [0, 4, 5, 6]]
    torch.testing.assert_close(model(waveform)[0], expected)
    assert bundle.get_labels(blank="_") == ("_", "|", "a", "b")
    assert len(model.extract_features(waveform)[0]) == 1


def test_file_of_another_network_is_refused(hub):
    torch.save(network(7).state_dict(), hub / "checkpoints" / "tiny.pth")
    bundle = Wav2Vec2Bundle("tiny.pth", {**TINY, "aux_num_out": None}, 16000, False, "Wav2Vec2")
    with pytest.raises(CheckpointError, match=r"aux\.weight"):
        bundle.get_model()


def test_options_of_fetching_are_torch_hubs(hub, tmp_path):
    torch.save(network(None).state_dict(), tmp_path / "mine.pth")
    bundle = Wav2Vec2Bundle("tiny.pth", {**TINY, "aux_num_out": None}, 16000, False, "Wav2Vec2")
    options = {"model_dir": tmp_path, "file_name": "mine.pth", "map_location": "cpu", "progress": False}
    assert isinstance(bundle.get_model(dl_kwargs=options), models.Wav2Vec2Model)
    with pytest.raises(TypeError, match="dl_kwargs holds mirror"):
        bundle.get_model(dl_kwargs={"mirror": "x"})


def test_normalization_is_per_item_and_over_its_valid_samples():
    waveforms = torch.randn(2, 50) * torch.tensor([[3.0], [0.1]]) + 2
    whole = standardized(waveforms, None)
    cut = standardized(waveforms, torch.tensor([50, 30]))
    torch.testing.assert_close(cut[0], whole[0])
    torch.testing.assert_close(cut[1, :30], torch.nn.functional.layer_norm(waveforms[1, :30], (30,)))
    assert (cut[1, 30:] == 0).all()


def aligning_bundle(hub):
    torch.save(network(7).state_dict(), hub / "checkpoints" / "tiny.pth")
    labels = ("a", "b", "c")
    return Wav2Vec2FABundle("tiny.pth", {**TINY, "aux_num_out": 4}, 16000, True, "Wav2Vec2", labels)


def test_star_is_certain_in_every_frame_of_every_item(hub):
    bundle = aligning_bundle(hub)
    emission, lengths = bundle.get_model()(torch.randn(3, 400), torch.tensor([400, 300, 200]))
    assert emission.shape[::2] == (3, 5)
    assert (emission[..., 4] == 0).all()
    torch.testing.assert_close(emission[..., :4].exp().sum(-1), torch.ones(emission.shape[:2]))
    assert bundle.get_model(with_star=False)(torch.randn(1, 400))[0].shape[-1] == 4
    assert lengths.shape == (3,)


def test_words_become_labels_and_spans(hub):
    bundle = aligning_bundle(hub)
    tokens = bundle.get_tokenizer()(["ab", "c"])
    assert tokens == [[1, 2], [3]]
    path = torch.tensor([0, 1, 1, 2, 0, 3])
    emission = torch.full((6, 4), -10.0).scatter(1, path[:, None], -0.1)
    spans = bundle.get_aligner()(emission, tokens)
    assert [[(span.token, span.start, span.end) for span in word] for word in spans] == [
        [(1, 1, 3), (2, 3, 4)],
        [(3, 5, 6)],
    ]


def test_characters_without_a_label_are_named(hub):
    with pytest.raises(ValueError, match="the transcript has 'Z', 'ä', which no label stands for"):
        aligning_bundle(hub).get_tokenizer()(["äb", "Z"])


def test_emissions_of_a_batch_are_refused_by_the_aligner(hub):
    with pytest.raises(ValueError, match=r"expected \(frames, labels\)"):
        aligning_bundle(hub).get_aligner()(torch.zeros(1, 6, 4), [[1]])


def test_source_separation_builds_from_the_assets_folder(hub):
    original = models.ConvTasNet(2, 8, 16, 3, 8, 16, 2, 1)
    torch.save(original.state_dict(), hub / "torchaudio" / "models" / "tiny.pt")
    factory = partial(models.ConvTasNet, 2, 8, 16, 3, 8, 16, 2, 1)
    model = pipelines.SourceSeparationBundle("models/tiny.pt", factory, 8000).get_model()
    mixture = torch.randn(1, 1, 90)
    torch.testing.assert_close(model(mixture), original(mixture))
    assert not model.training
