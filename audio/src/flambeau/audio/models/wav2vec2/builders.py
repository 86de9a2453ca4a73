"""Builders of the published sizes of wav2vec 2.0, XLS-R, HuBERT and WavLM, with their weights.

Each takes upstream's arguments, and by name `weights`, `progress`, `device` and `dtype`. With weights, arguments left
at their defaults are those the weights were trained with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flambeau.audio.models._api import register_model
from flambeau.audio.models._checkpoints import without_outputs
from flambeau.audio.models.wav2vec2.architectures import arguments
from flambeau.audio.models.wav2vec2.network import Wav2Vec2Model, wav2vec2_model, wavlm_model
from flambeau.audio.weights.wav2vec2 import (
    HuBERT_Base_Weights,
    HuBERT_Large_Weights,
    HuBERT_XLarge_Weights,
    Wav2Vec2_Base_Weights,
    Wav2Vec2_Large_LV60K_Weights,
    Wav2Vec2_Large_Weights,
    Wav2Vec2_XLSR_1B_Weights,
    Wav2Vec2_XLSR_2B_Weights,
    Wav2Vec2_XLSR_300M_Weights,
    WavLM_Base_Weights,
    WavLM_Large_Weights,
)
from flambeau.core.weights import WeightsEnum, build_with_weights

__all__ = [
    "hubert_base",
    "hubert_large",
    "hubert_xlarge",
    "wav2vec2_base",
    "wav2vec2_large",
    "wav2vec2_large_lv60k",
    "wav2vec2_xlsr_1b",
    "wav2vec2_xlsr_2b",
    "wav2vec2_xlsr_300m",
    "wavlm_base",
    "wavlm_large",
]


def _build(
    builder: Callable[..., Wav2Vec2Model],
    weights: WeightsEnum | None,
    options: dict[str, Any],
    **loading: Any,
) -> Wav2Vec2Model:
    """Build a published size.

    Args:
        builder: the public builder; its name is that of the architecture, its defaults tell what the caller chose.
        weights: a member, or None.
        options: the public builder's arguments.
        loading: for `build_with_weights`.
    """
    if weights is not None:
        defaults = {name: parameter.default for name, parameter in inspect.signature(builder).parameters.items()}
        trained = weights.meta["arguments"]
        options = {name: trained[name] if value == defaults[name] else value for name, value in options.items()}
        loading["convert"] = without_outputs(weights.meta.get("remove_aux_axes", ()))
    factory = wavlm_model if builder.__name__.startswith("wavlm") else wav2vec2_model
    return build_with_weights(factory, weights, **loading, **arguments(builder.__name__, **options))


@register_model(task="speech-recognition", tags=("speech", "self-supervised"))
def wav2vec2_base(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.1,
    encoder_ff_interm_dropout: float = 0.1,
    encoder_dropout: float = 0.1,
    encoder_layer_drop: float = 0.1,
    aux_num_out: int | None = None,
    *,
    weights: Wav2Vec2_Base_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """wav2vec 2.0 base: 12 layers of 768 channels (Baevski et al. 2020, arXiv:2006.11477).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(wav2vec2_base, Wav2Vec2_Base_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-recognition", tags=("speech", "self-supervised"))
def wav2vec2_large(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.1,
    encoder_ff_interm_dropout: float = 0.1,
    encoder_dropout: float = 0.1,
    encoder_layer_drop: float = 0.1,
    aux_num_out: int | None = None,
    *,
    weights: Wav2Vec2_Large_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """wav2vec 2.0 large: 24 layers of 1,024 channels (Baevski et al. 2020, arXiv:2006.11477).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(wav2vec2_large, Wav2Vec2_Large_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-recognition", tags=("speech", "self-supervised"))
def wav2vec2_large_lv60k(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.1,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.1,
    aux_num_out: int | None = None,
    *,
    weights: Wav2Vec2_Large_LV60K_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """wav2vec 2.0 large with layer norms in the extractor (Baevski et al. 2020, arXiv:2006.11477).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(
        wav2vec2_large_lv60k, Wav2Vec2_Large_LV60K_Weights.verify(weights), options, progress=progress, **kwargs
    )


@register_model(task="speech-representation", tags=("speech", "self-supervised"))
def wav2vec2_xlsr_300m(
    encoder_projection_dropout: float = 0.0,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.0,
    aux_num_out: int | None = None,
    *,
    weights: Wav2Vec2_XLSR_300M_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """XLS-R with 300 million parameters (Babu et al. 2021, arXiv:2111.09296).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(wav2vec2_xlsr_300m, Wav2Vec2_XLSR_300M_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-representation", tags=("speech", "self-supervised"))
def wav2vec2_xlsr_1b(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.0,
    aux_num_out: int | None = None,
    *,
    weights: Wav2Vec2_XLSR_1B_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """XLS-R with 1 billion parameters (Babu et al. 2021, arXiv:2111.09296).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(wav2vec2_xlsr_1b, Wav2Vec2_XLSR_1B_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-representation", tags=("speech", "self-supervised"))
def wav2vec2_xlsr_2b(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.0,
    aux_num_out: int | None = None,
    *,
    weights: Wav2Vec2_XLSR_2B_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """XLS-R with 2 billion parameters (Babu et al. 2021, arXiv:2111.09296).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(wav2vec2_xlsr_2b, Wav2Vec2_XLSR_2B_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-representation", tags=("speech", "self-supervised"))
def hubert_base(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.1,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.1,
    encoder_layer_drop: float = 0.05,
    aux_num_out: int | None = None,
    *,
    weights: HuBERT_Base_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """HuBERT base: 12 layers of 768 channels (Hsu et al. 2021, arXiv:2106.07447).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(hubert_base, HuBERT_Base_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-recognition", tags=("speech", "self-supervised"))
def hubert_large(
    encoder_projection_dropout: float = 0.0,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.0,
    aux_num_out: int | None = None,
    *,
    weights: HuBERT_Large_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """HuBERT large: 24 layers of 1,024 channels (Hsu et al. 2021, arXiv:2106.07447).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(hubert_large, HuBERT_Large_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-recognition", tags=("speech", "self-supervised"))
def hubert_xlarge(
    encoder_projection_dropout: float = 0.0,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.0,
    aux_num_out: int | None = None,
    *,
    weights: HuBERT_XLarge_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """HuBERT extra large: 48 layers of 1,280 channels (Hsu et al. 2021, arXiv:2106.07447).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(hubert_xlarge, HuBERT_XLarge_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-representation", tags=("speech", "self-supervised"))
def wavlm_base(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.1,
    encoder_ff_interm_dropout: float = 0.1,
    encoder_dropout: float = 0.1,
    encoder_layer_drop: float = 0.1,
    aux_num_out: int | None = None,
    *,
    weights: WavLM_Base_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """WavLM base: 12 layers of 768 channels (Chen et al. 2021, arXiv:2110.13900).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(wavlm_base, WavLM_Base_Weights.verify(weights), options, progress=progress, **kwargs)


@register_model(task="speech-representation", tags=("speech", "self-supervised"))
def wavlm_large(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.1,
    encoder_ff_interm_dropout: float = 0.0,
    encoder_dropout: float = 0.1,
    encoder_layer_drop: float = 0.1,
    aux_num_out: int | None = None,
    *,
    weights: WavLM_Large_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Wav2Vec2Model:
    """WavLM large: 24 layers of 1,024 channels (Chen et al. 2021, arXiv:2110.13900).

    Args:
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_dropout: probability inside the feed-forward halves.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of a linear layer on top, None for none.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.
    """
    options = {
        "encoder_projection_dropout": encoder_projection_dropout,
        "encoder_attention_dropout": encoder_attention_dropout,
        "encoder_ff_interm_dropout": encoder_ff_interm_dropout,
        "encoder_dropout": encoder_dropout,
        "encoder_layer_drop": encoder_layer_drop,
        "aux_num_out": aux_num_out,
    }
    return _build(wavlm_large, WavLM_Large_Weights.verify(weights), options, progress=progress, **kwargs)
