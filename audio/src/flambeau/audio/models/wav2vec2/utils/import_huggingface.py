"""Models of the library `transformers` turned into ours, without importing that library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.models.wav2vec2.network import Wav2Vec2Model, wav2vec2_model, wavlm_model
from flambeau.audio.models.wav2vec2.utils._parameter_transfer import filled, renamed
from flambeau.core.weights import empty_parameters

__all__ = ["import_huggingface_model"]

_BACKBONES = ("Wav2Vec2Model", "HubertModel", "WavLMModel")
_WITH_HEAD = {"Wav2Vec2ForCTC": "wav2vec2", "HubertForCTC": "hubert", "WavLMForCTC": "wavlm"}

_TAPS = r"encoder\.pos_conv_embed\.conv\."
_OURS = "encoder.transformer.pos_conv_embed.conv."
_LAYER = r"encoder\.layers\.(\d+)\."
_RULES: list[tuple[str, str | None]] = [
    (r"masked_spec_embed", None),
    (r"lm_head\.(weight|bias)", r"aux.\1"),
    (r"feature_extractor\.(conv_layers\..*)", r"feature_extractor.\1"),
    (r"feature_projection\.(.*)", r"encoder.feature_projection.\1"),
    (_TAPS + r"weight_g", _OURS + "parametrizations.weight.original0"),
    (_TAPS + r"weight_v", _OURS + "parametrizations.weight.original1"),
    (_TAPS + r"(parametrizations\.weight\.original[01]|bias)", _OURS + r"\1"),
    (r"encoder\.layer_norm\.(.*)", r"encoder.transformer.layer_norm.\1"),
    (_LAYER + r"(attention|layer_norm|feed_forward|final_layer_norm)\.(.*)", r"encoder.transformer.layers.\1.\2.\3"),
]


def import_huggingface_model(original: nn.Module) -> Wav2Vec2Model:
    """Build our network from one of `transformers`.

    Args:
        original: a `Wav2Vec2Model`, `HubertModel` or `WavLMModel`, or a `...ForCTC` with one of them; it is left as it
            is.

    Returns:
        The network in eval mode, with copies of the parameters. Where the original takes no attention mask, pass it no
        `lengths` either to get the same numbers.

    Raises:
        ValueError: `original` is of another class.
        CheckpointError: it has parameters that our network has no place for, such as adapters.
    """
    name = type(original).__name__
    if name not in _BACKBONES and name not in _WITH_HEAD:
        expected = ", ".join((*_BACKBONES, *_WITH_HEAD))
        raise ValueError(f"`original` is a {name}, expected one of {expected} of the library transformers.")
    prefix = _WITH_HEAD.get(name)
    state = original.state_dict()
    if prefix is not None:
        state = {key.removeprefix(f"{prefix}."): value for key, value in state.items()}
    config: Any = original.config
    if not getattr(config, "feat_proj_layer_norm", True):
        raise ValueError("`original` has no layer norm before its feature projection, as our network always has.")
    wavlm = name.startswith("WavLM")
    arguments = _arguments(config, None if prefix is None else len(state["lm_head.weight"]))
    with empty_parameters():
        if wavlm:
            positions = {"encoder_num_buckets": config.num_buckets, "encoder_max_distance": config.max_bucket_distance}
            network = wavlm_model(**arguments, **positions)
        else:
            network = wav2vec2_model(**arguments)
    if wavlm:
        state = _with_joint_projections(state)
    filled(network, renamed(state, _RULES))
    return network


def _arguments(config: Any, outputs: int | None) -> dict[str, Any]:
    layers = list(zip(config.conv_dim, config.conv_kernel, config.conv_stride, strict=True))
    return {
        "extractor_mode": f"{config.feat_extract_norm}_norm",
        "extractor_conv_layer_config": layers,
        "extractor_conv_bias": config.conv_bias,
        "encoder_embed_dim": config.hidden_size,
        "encoder_projection_dropout": config.feat_proj_dropout,
        "encoder_pos_conv_kernel": config.num_conv_pos_embeddings,
        "encoder_pos_conv_groups": config.num_conv_pos_embedding_groups,
        "encoder_num_layers": config.num_hidden_layers,
        "encoder_num_heads": config.num_attention_heads,
        "encoder_attention_dropout": config.attention_dropout,
        "encoder_ff_interm_features": config.intermediate_size,
        "encoder_ff_interm_dropout": config.activation_dropout,
        "encoder_dropout": config.hidden_dropout,
        "encoder_layer_norm_first": config.do_stable_layer_norm,
        "encoder_layer_drop": config.layerdrop,
        "aux_num_out": outputs,
    }


def _with_joint_projections(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """WavLM's separate projections of query, key and value as the joint ones of `torch.nn.MultiheadAttention`."""
    joint: dict[str, Tensor] = {}
    for name, value in state.items():
        layer, found, kind = name.partition(".attention.q_proj.")
        if found:
            parts = [state[f"{layer}.attention.{role}_proj.{kind}"] for role in "qkv"]
            joint[f"{layer}.attention.attention.in_proj_{kind}"] = torch.cat(parts)
        elif ".attention.k_proj." not in name and ".attention.v_proj." not in name:
            joint[name.replace(".attention.out_proj.", ".attention.attention.out_proj.")] = value
    return joint
