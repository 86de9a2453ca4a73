"""Models of the library `fairseq` turned into ours, without importing that library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from flambeau.audio.models.wav2vec2.network import Wav2Vec2Model, wav2vec2_model
from flambeau.audio.models.wav2vec2.utils._parameter_transfer import filled, renamed
from flambeau.core.weights import empty_parameters

__all__ = ["import_fairseq_model"]

_EXTRACTOR = r"feature_extractor\.conv_layers\.(\d+)\."
_LAYER = r"encoder\.layers\.(\d+)\."
_OURS = r"encoder.transformer.layers.\1."
_RULES: list[tuple[str, str | None]] = [
    # What serves pretraining alone: masks, quantizer, label embeddings.
    (r"mask_emb|label_embs_concat|(quantizer|project_q|final_proj|target_glu|project_inp)\..*", None),
    (r"(?:proj|aux)\.(weight|bias)", r"aux.\1"),
    (_EXTRACTOR + r"0\.(weight|bias)", r"feature_extractor.conv_layers.\1.conv.\2"),
    (_EXTRACTOR + r"2\.(?:1\.)?(weight|bias)", r"feature_extractor.conv_layers.\1.layer_norm.\2"),
    (r"layer_norm\.(weight|bias)", r"encoder.feature_projection.layer_norm.\1"),
    (r"post_extract_proj\.(weight|bias)", r"encoder.feature_projection.projection.\1"),
    (r"encoder\.pos_conv\.0\.weight_g", "encoder.transformer.pos_conv_embed.conv.parametrizations.weight.original0"),
    (r"encoder\.pos_conv\.0\.weight_v", "encoder.transformer.pos_conv_embed.conv.parametrizations.weight.original1"),
    (r"encoder\.pos_conv\.0\.(.*)", r"encoder.transformer.pos_conv_embed.conv.\1"),
    (r"encoder\.layer_norm\.(weight|bias)", r"encoder.transformer.layer_norm.\1"),
    (_LAYER + r"self_attn\.([kvq]_proj|out_proj)\.(.*)", _OURS + r"attention.\2.\3"),
    (_LAYER + r"self_attn_layer_norm\.(.*)", _OURS + r"layer_norm.\2"),
    (_LAYER + r"fc1\.(.*)", _OURS + r"feed_forward.intermediate_dense.\2"),
    (_LAYER + r"fc2\.(.*)", _OURS + r"feed_forward.output_dense.\2"),
    (_LAYER + r"final_layer_norm\.(.*)", _OURS + r"final_layer_norm.\2"),
]


def import_fairseq_model(original: nn.Module) -> Wav2Vec2Model:
    """Build our network from one of `fairseq`.

    Args:
        original: a pretrained `Wav2Vec2Model` or `HubertModel`, or a fine-tuned `Wav2VecEncoder` or `HubertEncoder`
            (the `w2v_encoder` of a `Wav2VecCtc` or `HubertCtc`); it is left as it is.

    Returns:
        The network in eval mode, with copies of the parameters.

    Raises:
        ValueError: `original` is of another class.
        CheckpointError: it has parameters that our network has no place for.
    """
    name = type(original).__name__
    state: Mapping[str, Tensor] = original.state_dict()
    outer: Any = original
    if name in ("Wav2VecEncoder", "HubertEncoder"):
        state = {key.removeprefix("w2v_model."): value for key, value in state.items()}
        inner = outer.w2v_model
    elif name in ("Wav2Vec2Model", "HubertModel"):
        inner = outer
    else:
        raise ValueError(
            f"`original` is a {name}, expected a Wav2Vec2Model, HubertModel, Wav2VecEncoder or HubertEncoder "
            "of the library fairseq."
        )
    outputs = len(state["proj.weight"]) if "proj.weight" in state and inner is not outer else None
    with empty_parameters():
        network = wav2vec2_model(**_arguments(inner), aux_num_out=outputs)
    filled(network, renamed(state, _RULES))
    return network


def _arguments(original: Any) -> dict[str, Any]:
    """What a network was built with, as its modules tell."""
    encoder, first = original.encoder, original.encoder.layers[0]
    positions = encoder.pos_conv[0]
    norms = [
        index for index, block in enumerate(original.feature_extractor.conv_layers) if len(list(block[2].parameters()))
    ]
    convolutions = [block[0] for block in original.feature_extractor.conv_layers]
    return {
        "extractor_mode": "group_norm" if norms == [0] else "layer_norm",
        "extractor_conv_layer_config": [(c.out_channels, c.kernel_size[0], c.stride[0]) for c in convolutions],
        "extractor_conv_bias": convolutions[0].bias is not None,
        "encoder_embed_dim": original.post_extract_proj.out_features,
        "encoder_projection_dropout": original.dropout_input.p,
        "encoder_pos_conv_kernel": positions.kernel_size[0],
        "encoder_pos_conv_groups": positions.groups,
        "encoder_num_layers": len(encoder.layers),
        "encoder_num_heads": first.self_attn.num_heads,
        "encoder_attention_dropout": first.self_attn.dropout_module.p,
        "encoder_ff_interm_features": first.fc1.out_features,
        "encoder_ff_interm_dropout": first.dropout2.p,
        "encoder_dropout": first.dropout3.p,
        "encoder_layer_norm_first": first.layer_norm_first,
        "encoder_layer_drop": encoder.layerdrop,
    }
