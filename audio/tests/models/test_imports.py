"""Networks of other libraries: stand-ins with their names of classes, settings and parameters."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from flambeau.audio import models
from flambeau.audio.models.wav2vec2.utils import import_fairseq_model, import_huggingface_model
from flambeau.core.errors import CheckpointError

SIZES = {
    "extractor_conv_layer_config": [(8, 10, 5), (8, 3, 2)],
    "extractor_conv_bias": False,
    "encoder_embed_dim": 12,
    "encoder_projection_dropout": 0.1,
    "encoder_pos_conv_kernel": 4,
    "encoder_pos_conv_groups": 2,
    "encoder_num_layers": 2,
    "encoder_num_heads": 2,
    "encoder_attention_dropout": 0.2,
    "encoder_ff_interm_features": 16,
    "encoder_ff_interm_dropout": 0.3,
    "encoder_dropout": 0.4,
    "encoder_layer_norm_first": True,
    "encoder_layer_drop": 0.05,
}
CONFIG = SimpleNamespace(
    conv_dim=[8, 8],
    conv_kernel=[10, 3],
    conv_stride=[5, 2],
    conv_bias=False,
    feat_extract_norm="group",
    hidden_size=12,
    feat_proj_dropout=0.1,
    num_conv_pos_embeddings=4,
    num_conv_pos_embedding_groups=2,
    num_hidden_layers=2,
    num_attention_heads=2,
    attention_dropout=0.2,
    intermediate_size=16,
    activation_dropout=0.3,
    hidden_dropout=0.4,
    do_stable_layer_norm=True,
    layerdrop=0.05,
    num_buckets=8,
    max_bucket_distance=16,
)


def stand_in(name, state, **attributes):
    """A module of a class of this name whose state is `state`."""
    kind = type(name, (nn.Module,), {"state_dict": lambda self: state})
    module = kind()
    for key, value in attributes.items():
        setattr(module, key, value)
    return module


def theirs(state, prefix):
    """Our names -> those of transformers."""
    changes = (
        ("encoder.feature_projection", "feature_projection"),
        ("encoder.transformer.", "encoder."),
        ("conv.parametrizations.weight.original0", "conv.weight_g"),
        ("conv.parametrizations.weight.original1", "conv.weight_v"),
        ("attention.attention.", "attention."),
    )
    renamed = {}
    for name, value in state.items():
        new = name
        for ours, other in changes:
            new = new.replace(ours, other)
        renamed[new.replace("aux.", "lm_head.") if new.startswith("aux.") else prefix + new] = value
    return renamed


@pytest.mark.parametrize(("name", "prefix"), [("Wav2Vec2Model", ""), ("HubertForCTC", "hubert.")])
def test_huggingface_network_becomes_ours(name, prefix):
    outputs = 5 if prefix else None
    network = models.wav2vec2_model(extractor_mode="group_norm", aux_num_out=outputs, **SIZES).eval()
    state = theirs(network.state_dict(), prefix) | {f"{prefix}masked_spec_embed": torch.zeros(12)}
    imported = import_huggingface_model(stand_in(name, state, config=CONFIG))
    waveform = torch.randn(1, 300)
    torch.testing.assert_close(imported(waveform)[0], network(waveform)[0])
    assert imported.encoder.transformer.layer_drop == 0.05
    assert not imported.training


def test_huggingface_wavlm_gets_joint_projections():
    network = models.wavlm_model(
        extractor_mode="group_norm", aux_num_out=None, encoder_num_buckets=8, encoder_max_distance=16, **SIZES
    ).eval()
    state = {}
    for name, value in theirs(network.state_dict(), "").items():
        if ".attention.in_proj_" in name:
            layer, kind = name.split(".attention.in_proj_")
            for role, part in zip("qkv", value.chunk(3), strict=True):
                state[f"{layer}.attention.{role}_proj.{kind}"] = part
        else:
            state[name] = value
    imported = import_huggingface_model(stand_in("WavLMModel", state, config=CONFIG))
    waveform = torch.randn(1, 300)
    torch.testing.assert_close(imported(waveform)[0], network(waveform)[0])


def test_other_classes_are_refused():
    with pytest.raises(ValueError, match="`original` is a Linear, expected one of Wav2Vec2Model"):
        import_huggingface_model(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="`original` is a Linear, expected a Wav2Vec2Model"):
        import_fairseq_model(nn.Linear(2, 2))


def test_parameters_without_a_place_are_named():
    network = models.wav2vec2_model(extractor_mode="group_norm", aux_num_out=None, **SIZES)
    state = theirs(network.state_dict(), "") | {"adapter.layers.0.conv.weight": torch.zeros(1)}
    with pytest.raises(CheckpointError, match=r"no place is known for 'adapter\.layers\.0\.conv\.weight'"):
        import_huggingface_model(stand_in("Wav2Vec2Model", state, config=CONFIG))


def fairseq_modules():
    """As much of fairseq's network as tells how it was built."""
    attention = SimpleNamespace(num_heads=2, dropout_module=SimpleNamespace(p=0.2))
    layer = SimpleNamespace(
        self_attn=attention,
        fc1=nn.Linear(12, 16),
        dropout2=nn.Dropout(0.3),
        dropout3=nn.Dropout(0.4),
        layer_norm_first=True,
    )
    blocks = [
        [nn.Conv1d(1, 8, 10, 5, bias=False), nn.Dropout(), nn.GroupNorm(8, 8)],
        [nn.Conv1d(8, 8, 3, 2, bias=False), nn.Dropout(), nn.GELU()],
    ]
    positions = nn.Conv1d(12, 12, 4, groups=2)
    return {
        "feature_extractor": SimpleNamespace(conv_layers=blocks),
        "encoder": SimpleNamespace(layers=[layer, layer], pos_conv=[positions], layerdrop=0.05),
        "post_extract_proj": nn.Linear(8, 12),
        "dropout_input": nn.Dropout(0.1),
    }


@pytest.mark.parametrize("tuned", [False, True])
def test_fairseq_network_becomes_ours(tuned):
    network = models.wav2vec2_model(extractor_mode="group_norm", aux_num_out=5 if tuned else None, **SIZES).eval()
    changes = (
        (".conv.parametrizations.weight.original0", ".0.weight_g"),
        (".conv.parametrizations.weight.original1", ".0.weight_v"),
        ("pos_conv_embed.conv.bias", "pos_conv.0.bias"),
        ("pos_conv_embed", "pos_conv"),
        ("encoder.feature_projection.layer_norm", "layer_norm"),
        ("encoder.feature_projection.projection", "post_extract_proj"),
        ("encoder.transformer.", "encoder."),
        (".attention.", ".self_attn."),
        ("feed_forward.intermediate_dense", "fc1"),
        ("feed_forward.output_dense", "fc2"),
    )
    state = {"mask_emb": torch.zeros(12)}
    for name, value in network.state_dict().items():
        new = name
        for ours, other in changes:
            new = new.replace(ours, other)
        if new.startswith("encoder.layers") and ".layer_norm." in new:
            new = new.replace(".layer_norm.", ".self_attn_layer_norm.")
        if new.startswith("feature_extractor"):
            new = new.replace(".conv.", ".0.").replace(".layer_norm.", ".2.")
        state[new.replace("aux.", "proj.") if tuned and new.startswith("aux.") else new] = value
    if tuned:
        state = {key if key.startswith("proj.") else f"w2v_model.{key}": value for key, value in state.items()}
        original = stand_in("Wav2VecEncoder", state, w2v_model=SimpleNamespace(**fairseq_modules()))
    else:
        original = stand_in("HubertModel", state)
        original.__dict__.update(fairseq_modules())
    imported = import_fairseq_model(original)
    waveform = torch.randn(1, 300)
    torch.testing.assert_close(imported(waveform)[0], network(waveform)[0])
