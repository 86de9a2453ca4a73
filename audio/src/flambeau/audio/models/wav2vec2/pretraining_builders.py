"""Builders of the published sizes of HuBERT for pretraining (Hsu et al. 2021, arXiv:2106.07447)."""

from __future__ import annotations

from typing import Any

from flambeau.audio.models._api import register_model
from flambeau.audio.models.wav2vec2.architectures import arguments
from flambeau.audio.models.wav2vec2.network import HuBERTPretrainModel, hubert_pretrain_model

__all__ = ["hubert_pretrain_base", "hubert_pretrain_large", "hubert_pretrain_xlarge"]

# The paper's masks: spans of ten frames, of which eight in ten frames would be covered if none overlapped.
_MASKS: dict[str, Any] = {
    "mask_selection": "static",
    "mask_other": 0.0,
    "mask_length": 10,
    "no_mask_overlap": False,
    "mask_min_space": 1,
    "mask_channel_selection": "static",
    "mask_channel_other": 0.0,
    "no_mask_channel_overlap": False,
    "mask_channel_min_space": 1,
    "skip_masked": False,
    "skip_nomask": False,
}


def _build(size: str, options: dict[str, Any], final_dim: int, num_classes: int) -> HuBERTPretrainModel:
    settings = arguments(size, **options) | _MASKS
    return hubert_pretrain_model(**settings, final_dim=final_dim, num_classes=num_classes)


@register_model(task="speech-pretraining", tags=("speech", "self-supervised"))
def hubert_pretrain_base(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.1,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.1,
    encoder_layer_drop: float = 0.05,
    mask_prob: float = 0.8,
    mask_channel_prob: float = 0.0,
    mask_channel_length: int = 10,
    feature_grad_mult: float | None = 0.1,
    num_classes: int = 100,
) -> HuBERTPretrainModel:
    """HuBERT base for pretraining (Hsu et al. 2021, arXiv:2106.07447).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        mask_prob: fraction of frames to mask, overlaps not counted.
        mask_channel_prob: fraction of channels to mask.
        mask_channel_length: channels of a span.
        feature_grad_mult: scales the gradient that reaches the extractor; None leaves it.
        num_classes: cluster labels.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "mask_prob": mask_prob,
        "mask_channel_prob": mask_channel_prob,
        "mask_channel_length": mask_channel_length,
        "feature_grad_mult": feature_grad_mult,
    }
    return _build("hubert_base", options, final_dim=256, num_classes=num_classes)


@register_model(task="speech-pretraining", tags=("speech", "self-supervised"))
def hubert_pretrain_large(
    encoder_projection_dropout: float = 0.0,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.0,
    mask_prob: float = 0.8,
    mask_channel_prob: float = 0.0,
    mask_channel_length: int = 10,
    feature_grad_mult: float | None = None,
) -> HuBERTPretrainModel:
    """HuBERT large for pretraining (Hsu et al. 2021, arXiv:2106.07447).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        mask_prob: fraction of frames to mask, overlaps not counted.
        mask_channel_prob: fraction of channels to mask.
        mask_channel_length: channels of a span.
        feature_grad_mult: scales the gradient that reaches the extractor; None leaves it.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "mask_prob": mask_prob,
        "mask_channel_prob": mask_channel_prob,
        "mask_channel_length": mask_channel_length,
        "feature_grad_mult": feature_grad_mult,
    }
    return _build("hubert_large", options, final_dim=768, num_classes=500)


@register_model(task="speech-pretraining", tags=("speech", "self-supervised"))
def hubert_pretrain_xlarge(
    encoder_projection_dropout: float = 0.0,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.0,
    mask_prob: float = 0.8,
    mask_channel_prob: float = 0.0,
    mask_channel_length: int = 10,
    feature_grad_mult: float | None = None,
) -> HuBERTPretrainModel:
    """HuBERT extra large for pretraining (Hsu et al. 2021, arXiv:2106.07447).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        mask_prob: fraction of frames to mask, overlaps not counted.
        mask_channel_prob: fraction of channels to mask.
        mask_channel_length: channels of a span.
        feature_grad_mult: scales the gradient that reaches the extractor; None leaves it.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "mask_prob": mask_prob,
        "mask_channel_prob": mask_channel_prob,
        "mask_channel_length": mask_channel_length,
        "feature_grad_mult": feature_grad_mult,
    }
    return _build("hubert_xlarge", options, final_dim=1024, num_classes=500)
