"""wav2vec 2.0, HuBERT and WavLM as networks (arXiv:2006.11477, arXiv:2106.07447, arXiv:2110.13900).

One class serves the three: they differ in the attention of the encoder and in how they are trained.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.models._attention import padding_mask
from flambeau.audio.models.wav2vec2.components import (
    Encoder,
    _get_encoder,
    _get_feature_extractor,
    _get_wavlm_encoder,
)
from flambeau.audio.models.wav2vec2.extractor import DEFAULT_LAYERS, FeatureExtractor
from flambeau.audio.models.wav2vec2.pretraining import GradMultiply, LogitGenerator, MaskGenerator

__all__ = ["HuBERTPretrainModel", "Wav2Vec2Model", "hubert_pretrain_model", "wav2vec2_model", "wavlm_model"]

_Layers = list[tuple[int, int, int]] | None


class Wav2Vec2Model(nn.Module):
    """Extractor, encoder, and an optional linear layer on top.

    Args:
        feature_extractor: (batch, time) waveforms and lengths -> (batch, frames, channels) and lengths.
        encoder: (batch, frames, channels) and lengths -> (batch, frames, embed_dim).
        aux: the last layer, for example one output per label; None gives the encoder's features.
    """

    def __init__(self, feature_extractor: nn.Module, encoder: nn.Module, aux: nn.Module | None = None) -> None:
        super().__init__()
        self.feature_extractor = feature_extractor
        self.encoder = encoder
        self.aux = aux

    def extract_features(
        self, waveforms: Tensor, lengths: Tensor | None = None, num_layers: int | None = None
    ) -> tuple[list[Tensor], Tensor | None]:
        """What the layers of the transformer give.

        Args:
            waveforms: (batch, time), float.
            lengths: (batch,) valid samples of each item; None where all are of one length.
            num_layers: how many layers to compute; None computes all.

        Returns:
            One (batch, frames, embed_dim) per layer, and (batch,) valid frames, None without `lengths`.

        Raises:
            ValueError: `num_layers` is not between 1 and the number of layers, or the waveforms are not 2D.
        """
        x, lengths = self.feature_extractor(waveforms, lengths)
        return self.encoder.extract_features(x, lengths, num_layers), lengths  # type: ignore[operator]

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Compute logits, or features where there is no `aux`.

        Args:
            waveforms: (batch, time), float; most networks want zero mean and unit variance, see their weights.
            lengths: (batch,) valid samples of each item; None where all are of one length. With them padding does not
                change valid frames, except through the group norm of networks that have one.

        Returns:
            (batch, frames, labels or embed_dim), unnormalized, and (batch,) valid frames, None without `lengths`.

        Raises:
            ValueError: the waveforms are not 2D.
        """
        x, lengths = self.feature_extractor(waveforms, lengths)
        x = self.encoder(x, lengths)
        return (x if self.aux is None else self.aux(x)), lengths


class HuBERTPretrainModel(nn.Module):
    """A network with what masked prediction of cluster labels needs (arXiv:2106.07447, section II).

    Args:
        wav2vec2: the network to train.
        mask_generator: masks frames: (frames, padding) -> (frames, mask).
        logit_generator: (frames, labels, masked, unmasked) -> logits of both kinds.
        feature_grad_mult: scales the gradient that reaches the extractor; None or 1 leaves it.
    """

    def __init__(
        self,
        wav2vec2: Wav2Vec2Model,
        mask_generator: nn.Module,
        logit_generator: nn.Module,
        feature_grad_mult: float | None,
    ) -> None:
        super().__init__()
        if feature_grad_mult is not None and not 0.0 < feature_grad_mult <= 1.0:
            raise ValueError(f"The value of `feature_grad_mult` is {feature_grad_mult}, expected a number in (0, 1].")
        self.wav2vec2 = wav2vec2
        self.mask_generator = mask_generator
        self.logit_generator = logit_generator
        self.feature_grad_mult = feature_grad_mult

    def forward(
        self, waveforms: Tensor, labels: Tensor, audio_lengths: Tensor | None = None
    ) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Compute the logits of a batch.

        Args:
            waveforms: (batch, time), float.
            labels: (batch, frames) integer labels, one per frame; those behind the last frame are left out.
            audio_lengths: (batch,) valid samples of each item; None where all are of one length.

        Returns:
            Logits of the masked frames (frames, classes + 1) with the target in column 0, those of the other frames,
            and the feature penalty, the mean square of the extractor's output.

        Raises:
            ValueError: there are fewer labels than frames.
        """
        x, lengths = self.wav2vec2.feature_extractor(waveforms, audio_lengths)
        if self.feature_grad_mult is not None and self.feature_grad_mult < 1.0:
            x = GradMultiply.apply(x, self.feature_grad_mult)  # type: ignore[no-untyped-call]
        penalty = x.to(torch.promote_types(x.dtype, torch.float32)).pow(2).mean()
        padding = None if lengths is None else padding_mask(lengths, x.shape[1])
        encoder: Any = self.wav2vec2.encoder
        x, attention_mask = encoder._preprocess(x, lengths)
        x, mask = self.mask_generator(x, padding)
        x = encoder.transformer(x, attention_mask=attention_mask)
        if labels.shape[1] < x.shape[1]:
            raise ValueError(
                f"labels has {labels.shape[1]} columns for {x.shape[1]} frames; compute one label for each frame that "
                "the feature extractor gives."
            )
        valid = mask.new_ones(mask.shape) if padding is None else ~padding
        masked, others = self.logit_generator(x, labels[:, : x.shape[1]], mask & valid, ~mask & valid)
        return masked, others, penalty


def wav2vec2_model(
    extractor_mode: str,
    extractor_conv_layer_config: _Layers,
    extractor_conv_bias: bool,
    encoder_embed_dim: int,
    encoder_projection_dropout: float,
    encoder_pos_conv_kernel: int,
    encoder_pos_conv_groups: int,
    encoder_num_layers: int,
    encoder_num_heads: int,
    encoder_attention_dropout: float,
    encoder_ff_interm_features: int,
    encoder_ff_interm_dropout: float,
    encoder_dropout: float,
    encoder_layer_norm_first: bool,
    encoder_layer_drop: float,
    aux_num_out: int | None,
) -> Wav2Vec2Model:
    """A network of the wav2vec 2.0 or HuBERT kind.

    Args:
        extractor_mode: "group_norm", in the first convolution only, or "layer_norm", in every one.
        extractor_conv_layer_config: (channels, kernel, stride) per convolution; None for the paper's seven.
        extractor_conv_bias: whether the convolutions have a bias.
        encoder_embed_dim: channels of the transformer.
        encoder_projection_dropout: probability behind the projection of the extractor's features.
        encoder_pos_conv_kernel: taps of the positional convolution.
        encoder_pos_conv_groups: its groups.
        encoder_num_layers: layers of the transformer.
        encoder_num_heads: heads of each.
        encoder_attention_dropout: probability on attention weights.
        encoder_ff_interm_features: channels inside the feed-forward halves.
        encoder_ff_interm_dropout: probability inside them.
        encoder_dropout: probability behind attention and feed-forward.
        encoder_layer_norm_first: layer norms before each half of a layer instead of after it.
        encoder_layer_drop: probability that a layer is left out in training.
        aux_num_out: outputs of the linear layer on top; None for no such layer.

    Raises:
        ValueError: an unknown `extractor_mode`, or heads that do not divide the channels.
    """
    shapes = extractor_conv_layer_config or DEFAULT_LAYERS
    encoder = _get_encoder(
        in_features=shapes[-1][0],
        embed_dim=encoder_embed_dim,
        dropout_input=encoder_projection_dropout,
        pos_conv_kernel=encoder_pos_conv_kernel,
        pos_conv_groups=encoder_pos_conv_groups,
        num_layers=encoder_num_layers,
        num_heads=encoder_num_heads,
        attention_dropout=encoder_attention_dropout,
        ff_interm_features=encoder_ff_interm_features,
        ff_interm_dropout=encoder_ff_interm_dropout,
        dropout=encoder_dropout,
        layer_norm_first=encoder_layer_norm_first,
        layer_drop=encoder_layer_drop,
    )
    return _assembled(_extractor(extractor_mode, shapes, extractor_conv_bias), encoder, encoder_embed_dim, aux_num_out)


def wavlm_model(
    extractor_mode: str,
    extractor_conv_layer_config: _Layers,
    extractor_conv_bias: bool,
    encoder_embed_dim: int,
    encoder_projection_dropout: float,
    encoder_pos_conv_kernel: int,
    encoder_pos_conv_groups: int,
    encoder_num_layers: int,
    encoder_num_heads: int,
    encoder_num_buckets: int,
    encoder_max_distance: int,
    encoder_attention_dropout: float,
    encoder_ff_interm_features: int,
    encoder_ff_interm_dropout: float,
    encoder_dropout: float,
    encoder_layer_norm_first: bool,
    encoder_layer_drop: float,
    aux_num_out: int | None,
) -> Wav2Vec2Model:
    """A network of the WavLM kind: as `wav2vec2_model`, with a gated bias by relative position in its attention.

    Unlike upstream's, it takes batches with `lengths`.

    Args:
        extractor_mode: see `wav2vec2_model`, as all that is not named here.
        extractor_conv_layer_config: likewise.
        extractor_conv_bias: likewise.
        encoder_embed_dim: likewise.
        encoder_projection_dropout: likewise.
        encoder_pos_conv_kernel: likewise.
        encoder_pos_conv_groups: likewise.
        encoder_num_layers: likewise.
        encoder_num_heads: likewise.
        encoder_num_buckets: buckets of relative positions.
        encoder_max_distance: frames from which on all positions share a bucket.
        encoder_attention_dropout: likewise.
        encoder_ff_interm_features: likewise.
        encoder_ff_interm_dropout: likewise.
        encoder_dropout: likewise.
        encoder_layer_norm_first: likewise.
        encoder_layer_drop: likewise.
        aux_num_out: likewise.
    """
    shapes = extractor_conv_layer_config or DEFAULT_LAYERS
    encoder = _get_wavlm_encoder(
        in_features=shapes[-1][0],
        embed_dim=encoder_embed_dim,
        dropout_input=encoder_projection_dropout,
        pos_conv_kernel=encoder_pos_conv_kernel,
        pos_conv_groups=encoder_pos_conv_groups,
        num_layers=encoder_num_layers,
        num_heads=encoder_num_heads,
        num_buckets=encoder_num_buckets,
        max_distance=encoder_max_distance,
        attention_dropout=encoder_attention_dropout,
        ff_interm_features=encoder_ff_interm_features,
        ff_interm_dropout=encoder_ff_interm_dropout,
        dropout=encoder_dropout,
        layer_norm_first=encoder_layer_norm_first,
        layer_drop=encoder_layer_drop,
    )
    return _assembled(_extractor(extractor_mode, shapes, extractor_conv_bias), encoder, encoder_embed_dim, aux_num_out)


def hubert_pretrain_model(
    extractor_mode: str,
    extractor_conv_layer_config: _Layers,
    extractor_conv_bias: bool,
    encoder_embed_dim: int,
    encoder_projection_dropout: float,
    encoder_pos_conv_kernel: int,
    encoder_pos_conv_groups: int,
    encoder_num_layers: int,
    encoder_num_heads: int,
    encoder_attention_dropout: float,
    encoder_ff_interm_features: int,
    encoder_ff_interm_dropout: float,
    encoder_dropout: float,
    encoder_layer_norm_first: bool,
    encoder_layer_drop: float,
    mask_prob: float,
    mask_selection: str,
    mask_other: float,
    mask_length: int,
    no_mask_overlap: bool,
    mask_min_space: int,
    mask_channel_prob: float,
    mask_channel_selection: str,
    mask_channel_other: float,
    mask_channel_length: int,
    no_mask_channel_overlap: bool,
    mask_channel_min_space: int,
    skip_masked: bool,
    skip_nomask: bool,
    num_classes: int,
    final_dim: int,
    feature_grad_mult: float | None,
) -> HuBERTPretrainModel:
    """A network for HuBERT pretraining.

    Args:
        extractor_mode: this and all that begin with `extractor_` or `encoder_`: see `wav2vec2_model`.
        extractor_conv_layer_config: see there.
        extractor_conv_bias: see there.
        encoder_embed_dim: see there.
        encoder_projection_dropout: see there.
        encoder_pos_conv_kernel: see there.
        encoder_pos_conv_groups: see there.
        encoder_num_layers: see there.
        encoder_num_heads: see there.
        encoder_attention_dropout: see there.
        encoder_ff_interm_features: see there.
        encoder_ff_interm_dropout: see there.
        encoder_dropout: see there.
        encoder_layer_norm_first: see there.
        encoder_layer_drop: see there.
        mask_prob: fraction of frames to mask, overlaps not counted; this and the next eleven: see `MaskGenerator`.
        mask_selection: how long spans are.
        mask_other: parameter of `mask_selection`.
        mask_length: frames of a span.
        no_mask_overlap: whether spans may not overlap.
        mask_min_space: least distance of spans that do not overlap.
        mask_channel_prob: fraction of channels to mask.
        mask_channel_selection: as `mask_selection`.
        mask_channel_other: as `mask_other`.
        mask_channel_length: as `mask_length`.
        no_mask_channel_overlap: as `no_mask_overlap`.
        mask_channel_min_space: as `mask_min_space`.
        skip_masked: compute no logits of masked frames.
        skip_nomask: compute no logits of the other frames.
        num_classes: cluster labels.
        final_dim: channels of the label embeddings.
        feature_grad_mult: scales the gradient that reaches the extractor.
    """
    network = wav2vec2_model(
        extractor_mode=extractor_mode,
        extractor_conv_layer_config=extractor_conv_layer_config,
        extractor_conv_bias=extractor_conv_bias,
        encoder_embed_dim=encoder_embed_dim,
        encoder_projection_dropout=encoder_projection_dropout,
        encoder_pos_conv_kernel=encoder_pos_conv_kernel,
        encoder_pos_conv_groups=encoder_pos_conv_groups,
        encoder_num_layers=encoder_num_layers,
        encoder_num_heads=encoder_num_heads,
        encoder_attention_dropout=encoder_attention_dropout,
        encoder_ff_interm_features=encoder_ff_interm_features,
        encoder_ff_interm_dropout=encoder_ff_interm_dropout,
        encoder_dropout=encoder_dropout,
        encoder_layer_norm_first=encoder_layer_norm_first,
        encoder_layer_drop=encoder_layer_drop,
        aux_num_out=None,
    )
    mask_generator = MaskGenerator(
        encoder_embed_dim,
        mask_prob,
        mask_selection,
        mask_other,
        mask_length,
        no_mask_overlap,
        mask_min_space,
        mask_channel_prob,
        mask_channel_selection,
        mask_channel_other,
        mask_channel_length,
        no_mask_channel_overlap,
        mask_channel_min_space,
    )
    logit_generator = LogitGenerator(encoder_embed_dim, num_classes, final_dim, skip_masked, skip_nomask)
    return HuBERTPretrainModel(network, mask_generator, logit_generator, feature_grad_mult)


def _extractor(mode: str, shapes: list[tuple[int, int, int]], bias: bool) -> FeatureExtractor:
    return _get_feature_extractor(mode, shapes, bias)  # type: ignore[arg-type]


def _assembled(extractor: FeatureExtractor, encoder: Encoder, channels: int, outputs: int | None) -> Wav2Vec2Model:
    aux = None if outputs is None else nn.Linear(channels, outputs)
    return Wav2Vec2Model(extractor, encoder, aux)
