"""The published sizes of wav2vec 2.0, HuBERT and WavLM as arguments of their factories; facts, no torch."""

from __future__ import annotations

from typing import Any

__all__ = ["ARCHITECTURES", "arguments"]

# (channels, kernel, stride); the same in every published network.
_CONVOLUTIONS = [(512, 10, 5), *[(512, 3, 2)] * 4, *[(512, 2, 2)] * 2]


def _size(channels: int, layers: int, heads: int, inner: int) -> dict[str, int]:
    return {
        "encoder_embed_dim": channels,
        "encoder_num_layers": layers,
        "encoder_num_heads": heads,
        "encoder_ff_interm_features": inner,
    }


_BASE, _LARGE = _size(768, 12, 12, 3072), _size(1024, 24, 16, 4096)
_XLARGE, _HUGE = _size(1280, 48, 16, 5120), _size(1920, 48, 16, 7680)
_GROUP_NORM = {"extractor_mode": "group_norm", "extractor_conv_bias": False, "encoder_layer_norm_first": False}
_LAYER_NORM = {"extractor_mode": "layer_norm", "extractor_conv_bias": False, "encoder_layer_norm_first": True}
_LAYER_NORM_AND_BIAS = _LAYER_NORM | {"extractor_conv_bias": True}
_POSITIONS = {"encoder_num_buckets": 320, "encoder_max_distance": 800}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "wav2vec2_base": _GROUP_NORM | _BASE,
    "wav2vec2_large": _GROUP_NORM | _LARGE,
    "wav2vec2_large_lv60k": _LAYER_NORM_AND_BIAS | _LARGE,
    "wav2vec2_xlsr_300m": _LAYER_NORM_AND_BIAS | _LARGE,
    "wav2vec2_xlsr_1b": _LAYER_NORM_AND_BIAS | _XLARGE,
    "wav2vec2_xlsr_2b": _LAYER_NORM_AND_BIAS | _HUGE,
    "hubert_base": _GROUP_NORM | _BASE,
    "hubert_large": _LAYER_NORM | _LARGE,
    "hubert_xlarge": _LAYER_NORM | _XLARGE,
    "wavlm_base": _GROUP_NORM | _BASE | _POSITIONS,
    "wavlm_large": _LAYER_NORM | _LARGE | _POSITIONS,
}


def arguments(model: str, **more: Any) -> dict[str, Any]:
    """Everything that `wav2vec2_model` or `wavlm_model` needs to build a published network.

    Args:
        model: a name of `ARCHITECTURES`.
        more: dropouts and the number of outputs, which differ from one checkpoint to the next.
    """
    common = {
        "extractor_conv_layer_config": list(_CONVOLUTIONS),
        "encoder_pos_conv_kernel": 128,
        "encoder_pos_conv_groups": 16,
    }
    return ARCHITECTURES[model] | common | more
