"""wav2vec 2.0, HuBERT and WavLM: padding, masks, weights, and what compiles."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from flambeau.audio import models
from flambeau.audio.models.wav2vec2.components import ConvolutionalPositionalEmbedding
from flambeau.audio.models.wav2vec2.pretraining import MaskGenerator, _compute_logits, _compute_mask_indices
from flambeau.core.weights import build_with_weights

TINY = {
    "extractor_mode": "layer_norm",
    "extractor_conv_layer_config": [(16, 10, 5), (16, 3, 2)],
    "extractor_conv_bias": False,
    "encoder_embed_dim": 24,
    "encoder_projection_dropout": 0.0,
    "encoder_pos_conv_kernel": 8,
    "encoder_pos_conv_groups": 4,
    "encoder_num_layers": 2,
    "encoder_num_heads": 4,
    "encoder_attention_dropout": 0.0,
    "encoder_ff_interm_features": 32,
    "encoder_ff_interm_dropout": 0.0,
    "encoder_dropout": 0.0,
    "encoder_layer_norm_first": False,
    "encoder_layer_drop": 0.0,
    "aux_num_out": 5,
}
MASKS = {
    "mask_prob": 0.5,
    "mask_selection": "static",
    "mask_other": 0.0,
    "mask_length": 4,
    "no_mask_overlap": False,
    "mask_min_space": 1,
    "mask_channel_prob": 0.0,
    "mask_channel_selection": "static",
    "mask_channel_other": 0.0,
    "mask_channel_length": 2,
    "no_mask_channel_overlap": False,
    "mask_channel_min_space": 1,
}


def make(kind: str, **changes: object) -> nn.Module:
    torch.manual_seed(0)
    if kind == "wavlm":
        return models.wavlm_model(**TINY | changes, encoder_num_buckets=8, encoder_max_distance=16).eval()
    return models.wav2vec2_model(**TINY | changes).eval()


@pytest.mark.parametrize("kind", ["wav2vec2", "wavlm"])
def test_padding_changes_nothing_in_the_valid_frames(kind):
    model, waveform = make(kind), torch.randn(2, 400)
    alone, _ = model(waveform[1:, :300])
    padded, lengths = model(waveform, torch.tensor([400, 300]))
    assert int(lengths[1]) == alone.shape[1]
    torch.testing.assert_close(padded[1:, : alone.shape[1]], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["wav2vec2", "wavlm"])
def test_features_of_all_layers_end_in_what_the_encoder_gives(kind):
    model = make(kind, aux_num_out=None, encoder_layer_norm_first=True)
    waveform = torch.randn(1, 400)
    layers, _ = model.extract_features(waveform)
    final = model.encoder.transformer.layer_norm(layers[-1])
    assert len(layers) == 2
    torch.testing.assert_close(final, model(waveform)[0])


def test_asking_for_more_layers_than_there_are_is_an_error():
    with pytest.raises(ValueError, match=r"`num_layers` is 3, expected a number between \[1, 2\]"):
        make("wav2vec2").extract_features(torch.randn(1, 400), num_layers=3)


def test_waveforms_with_a_channel_dimension_are_refused():
    with pytest.raises(ValueError, match=r"shape \(1, 1, 400\), expected 2D"):
        make("wav2vec2")(torch.randn(1, 1, 400))


def test_layer_drop_of_one_leaves_out_every_layer_in_training_only():
    model = make("wav2vec2", encoder_layer_drop=1.0)
    called = []
    for layer in model.encoder.transformer.layers:
        layer.register_forward_hook(lambda *_: called.append(1))
    model.train()(torch.randn(1, 400))
    assert not called
    model.eval()(torch.randn(1, 400))
    assert len(called) == 2


@pytest.mark.parametrize("kind", ["wav2vec2", "wavlm"])
@pytest.mark.parametrize("training", [False, True])
def test_compiles_as_one_graph(kind, training):
    torch.compiler.reset()
    model = make(kind, encoder_layer_drop=0.5 if training else 0.0).train(training)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    waveform, lengths = torch.randn(2, 400), torch.tensor([400, 300])
    output, frames = compiled(waveform, lengths)
    assert frames.tolist() == [39, 29]
    if not training:
        torch.testing.assert_close(output, model(waveform, lengths)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["wav2vec2", "wavlm"])
def test_exports(kind):
    model, inputs = make(kind), (torch.randn(2, 400), torch.tensor([400, 300]))
    with torch.no_grad():
        exported = torch.export.export(model, inputs, strict=False).module()(*inputs)
        torch.testing.assert_close(exported[0], model(*inputs)[0], rtol=1e-4, atol=1e-5)


def test_checkpoints_with_the_older_names_of_weight_norm_load_strictly_and_instantly(tmp_path):
    model = make("wav2vec2")
    state = model.state_dict()
    prefix = "encoder.transformer.pos_conv_embed.conv."
    for old, new in (("weight_g", "original0"), ("weight_v", "original1")):
        state[prefix + old] = state.pop(f"{prefix}parametrizations.weight.{new}")
    torch.save(state, tmp_path / "old.pth")
    loaded = build_with_weights(models.wav2vec2_model, tmp_path / "old.pth", **TINY).eval()
    waveform = torch.randn(1, 400)
    torch.testing.assert_close(loaded(waveform)[0], model(waveform)[0])


def test_every_named_size_builds_without_memory():
    for name in ("wav2vec2_xlsr_2b", "hubert_xlarge", "wavlm_large", "hubert_pretrain_xlarge"):
        with torch.device("meta"):
            model = getattr(models, name)()
        assert all(parameter.is_meta for parameter in model.parameters())


def test_weights_decide_the_arguments_that_the_caller_leaves_alone(tmp_path):
    from flambeau.core.weights.pretrained import architecture_only

    with architecture_only():
        model = models.wav2vec2_base(0.4, weights="WAV2VEC2_ASR_BASE_960H")
    assert model.aux.out_features == 29
    assert model.encoder.feature_projection.dropout.p == 0.4
    assert model.encoder.transformer.layer_drop == 0.05


def pretraining(**changes: object) -> nn.Module:
    settings = {**TINY, **MASKS, "skip_masked": False, "skip_nomask": False, "num_classes": 6, "final_dim": 8}
    settings |= {"feature_grad_mult": 0.1, **changes}
    settings.pop("aux_num_out")
    torch.manual_seed(0)
    return models.hubert_pretrain_model(**settings)


def test_pretraining_gives_logits_of_every_valid_frame_once():
    model = pretraining()
    masked, others, penalty = model(torch.randn(2, 400), torch.randint(6, (2, 39)), torch.tensor([400, 300]))
    assert len(masked) + len(others) == 39 + 29
    assert masked.shape[1] == 7
    assert penalty > 0


def test_pretraining_takes_labels_beyond_the_last_frame_but_not_too_few():
    model = pretraining()
    model(torch.randn(1, 400), torch.randint(6, (1, 41)))
    with pytest.raises(ValueError, match="38 columns for 39 frames"):
        model(torch.randn(1, 400), torch.randint(6, (1, 38)))


def test_skipped_logits_are_none():
    masked, others, _ = pretraining(skip_nomask=True)(torch.randn(1, 400), torch.randint(6, (1, 39)))
    assert others is None
    assert masked is not None


def test_gradient_that_reaches_the_extractor_is_scaled():
    grads = []
    for scale in (1.0, 0.1):
        model = pretraining(feature_grad_mult=scale)
        torch.manual_seed(1)
        masked, _, _ = model(torch.randn(1, 400), torch.zeros(1, 39, dtype=torch.long))
        masked[:, 0].sum().backward()
        grads.append(model.wav2vec2.feature_extractor.conv_layers[0].conv.weight.grad)
    torch.testing.assert_close(grads[1], grads[0] * 0.1)


def test_target_of_each_frame_is_in_column_zero_and_nowhere_else():
    logits = _compute_logits(torch.randn(5, 8), torch.tensor([0, 1, 2, 3, 3]), torch.randn(4, 8))
    assert torch.isinf(logits).nonzero().tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 4]]
    assert logits[:, 0].abs().max() <= 10.0


@pytest.mark.parametrize("selection", ["static", "uniform", "normal", "poisson"])
@pytest.mark.parametrize("no_overlap", [False, True])
def test_masks_spare_padding_and_are_equally_many_in_each_item(selection, no_overlap):
    torch.manual_seed(3)
    padding = torch.zeros(3, 60, dtype=torch.bool)
    padding[2, 40:] = True
    mask = _compute_mask_indices((3, 60), padding, 0.4, 5, selection, 1.0, 2, no_overlap, 1)
    counts = mask.sum(1).tolist()
    assert len(set(counts)) == 1
    assert counts[0] > 0
    assert not (mask & padding).any()


def test_spans_without_overlap_keep_their_distance():
    torch.manual_seed(0)
    mask = _compute_mask_indices((1, 100), None, 0.3, 5, "static", 0.0, 2, True, 3)
    gaps = mask[0].nonzero().flatten().diff()
    assert set(gaps[gaps > 1].tolist()) <= set(range(4, 100))


def test_masked_channels_are_zero():
    torch.manual_seed(0)
    generator = MaskGenerator(8, **MASKS | {"mask_prob": 0.0, "mask_channel_prob": 0.5})
    x, mask = generator(torch.ones(2, 10, 8), None)
    assert mask is None
    assert (x == 0).all(dim=1).any()


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["copy", "pickle"]
)
def test_copies_answer_alike_and_know_what_is_frozen(copied):
    embedding = ConvolutionalPositionalEmbedding(16, 8, 2).eval()
    embedding.conv.bias.requires_grad_(False)
    other = copied(embedding)
    assert list(other.state_dict()) == list(embedding.state_dict())
    assert {name: p.requires_grad for name, p in other.named_parameters()} == {
        name: p.requires_grad for name, p in embedding.named_parameters()
    }
    assert not other.conv.training
    x = torch.randn(2, 11, 16)
    assert torch.equal(other(x), embedding(x))
    with torch.no_grad():
        other.conv.bias.add_(1)
    assert not torch.equal(other(x), embedding(x))
