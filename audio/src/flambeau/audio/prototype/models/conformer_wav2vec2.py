"""wav2vec 2.0 with a Conformer on log-mel features (Srivastava et al. 2021, arXiv:2110.07313)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.models._api import register_model
from flambeau.audio.models._attention import padding_mask
from flambeau.audio.models.conformer import ConformerLayer
from flambeau.audio.models.rnnt import _TimeReduction
from flambeau.audio.models.wav2vec2.components import FeatureProjection
from flambeau.audio.models.wav2vec2.network import Wav2Vec2Model
from flambeau.audio.models.wav2vec2.pretraining import MaskGenerator

__all__ = [
    "ConformerWav2Vec2PretrainModel",
    "conformer_wav2vec2_base",
    "conformer_wav2vec2_model",
    "conformer_wav2vec2_pretrain_base",
    "conformer_wav2vec2_pretrain_large",
    "conformer_wav2vec2_pretrain_model",
]


class FeatureEncoder(nn.Module):
    """Frames joined, and a linear layer.

    Args:
        input_dim: channels of the features.
        output_dim: channels of the output.
        stride: frames to join.
    """

    def __init__(self, input_dim: int, output_dim: int, stride: int) -> None:
        super().__init__()
        self.time_reduction_layer = _TimeReduction(stride)
        self.linear_layer = nn.Linear(input_dim * stride, output_dim)

    def forward(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(batch, time, input_dim) and lengths -> (batch, time // stride, output_dim) and lengths."""
        whole = torch.full((len(x),), x.shape[1], device=x.device) if lengths is None else lengths
        joined, reduced = self.time_reduction_layer(x, whole)
        return self.linear_layer(joined), None if lengths is None else reduced


class ConformerEncoder(nn.Module):
    """A feature projection and Conformer layers."""

    def __init__(self, feature_projection: nn.Module, conformer: nn.ModuleList) -> None:
        super().__init__()
        self.feature_projection = feature_projection
        self.conformer = conformer

    def forward(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(batch, frames, channels) and lengths -> (batch, frames, embed_dim)."""
        return self.extract_features(features, lengths)[-1]

    def extract_features(
        self, features: Tensor, lengths: Tensor | None = None, num_layers: int | None = None
    ) -> list[Tensor]:
        """What each of the first `num_layers` layers gives, (batch, frames, embed_dim) each.

        Raises:
            ValueError: `num_layers` is not between 1 and the number of layers.
        """
        if num_layers is not None and not 0 < num_layers <= len(self.conformer):
            raise ValueError(f"`num_layers` is {num_layers}, expected a number between [1, {len(self.conformer)}].")
        mask = None if lengths is None else padding_mask(lengths, features.shape[1])
        return self.layer_outputs(self.feature_projection(features), mask, num_layers)

    def layer_outputs(self, x: Tensor, mask: Tensor | None, num_layers: int | None = None) -> list[Tensor]:
        """The same for projected features, with (batch, frames) bool, True where a frame is padding."""
        outputs, x = [], x.transpose(0, 1)
        for layer in list(self.conformer)[:num_layers]:
            x = layer(x, mask)
            outputs.append(x.transpose(0, 1))
        return outputs


class NegativeSampler(nn.Module):
    """Frames that are not the right one, drawn at random.

    Args:
        preprocessor: applied to all frames first.
        num_negatives: frames of the same item.
        cross_sample_negatives: frames of any item.
    """

    def __init__(self, preprocessor: nn.Module, num_negatives: int, cross_sample_negatives: int) -> None:
        super().__init__()
        self.preprocessor = preprocessor
        self.num_negatives, self.cross_sample_negatives = num_negatives, cross_sample_negatives

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draw.

        Args:
            input: (batch, frames, channels); at least two frames.

        Returns:
            The preprocessed frames (batch, frames, dim), the negatives (negatives, batch, frames, dim), and which
            frames of the batch these are, (batch, negatives x frames).
        """
        x = self.preprocessor(input)
        batch, frames, dim = x.shape
        chosen = []
        items = torch.arange(batch)[:, None]
        for count, size, offset in (
            (self.num_negatives, frames, items * frames),
            (self.cross_sample_negatives, batch * frames, torch.zeros_like(items)),
        ):
            own = torch.arange(frames).repeat_interleave(count)
            if count and size > frames:
                own = own + items * frames
            drawn = torch.randint(max(size - 1, 1), (batch, count * frames))
            chosen.append(drawn + (drawn >= own) + offset)  # any but the frame itself
        indices = torch.cat(chosen, dim=1).to(x.device)
        total = self.num_negatives + self.cross_sample_negatives
        negatives = x.flatten(0, 1)[indices.flatten()].reshape(batch, frames, total, dim).permute(2, 0, 1, 3)
        return x, negatives, indices


class ConformerWav2Vec2PretrainModel(nn.Module):
    """A network with masks and negatives for contrastive pretraining.

    Args:
        wav2vec2: the network, with a Conformer as encoder.
        mask_generator: (frames, padding) -> (masked frames, mask).
        negative_sampler: frames -> frames, negatives and their indices.
    """

    def __init__(self, wav2vec2: Wav2Vec2Model, mask_generator: nn.Module, negative_sampler: nn.Module) -> None:
        super().__init__()
        self.wav2vec2 = wav2vec2
        self.mask_generator = mask_generator
        self.negative_sampler = negative_sampler

    def forward(
        self, features: Tensor, audio_lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor, Tensor]:
        """Compute.

        Args:
            features: (batch, time, channels).
            audio_lengths: (batch,) valid frames, or None.

        Returns:
            What the network makes of the masked frames (batch, frames, embed_dim), (batch,) valid frames, the mask
            (batch, frames), targets of masked frames (batch, masked, embed_dim), negatives (negatives, batch, masked,
            embed_dim), and their indices.
        """
        x, lengths = self.wav2vec2.feature_extractor(features, audio_lengths)
        padding = None if lengths is None else padding_mask(lengths, x.shape[1])
        encoder: Any = self.wav2vec2.encoder
        x = encoder.feature_projection.dropout(encoder.feature_projection.layer_norm(x))
        masked, mask = self.mask_generator(x, padding)
        targets, negatives, indices = self.negative_sampler(x[mask].reshape(len(x), -1, x.shape[-1]))
        output = encoder.layer_outputs(encoder.feature_projection.projection(masked), padding)[-1]
        return output, lengths, mask, targets, negatives, indices


def conformer_wav2vec2_model(
    extractor_input_dim: int,
    extractor_output_dim: int,
    extractor_stride: int,
    encoder_embed_dim: int,
    encoder_projection_dropout: float,
    encoder_num_layers: int,
    encoder_num_heads: int,
    encoder_ff_interm_features: int,
    encoder_depthwise_conv_kernel_size: int | list[int],
    encoder_dropout: float,
    encoder_convolution_first: bool,
    encoder_use_group_norm: bool,
) -> Wav2Vec2Model:
    """A network with a Conformer.

    Args:
        extractor_input_dim: channels of the features.
        extractor_output_dim: channels behind the layer that joins frames.
        extractor_stride: frames to join.
        encoder_embed_dim: channels of the Conformer.
        encoder_projection_dropout: probability behind the feature projection.
        encoder_num_layers: layers.
        encoder_num_heads: heads of each.
        encoder_ff_interm_features: channels inside the feed-forward halves.
        encoder_depthwise_conv_kernel_size: taps of the convolutions, one number or one per layer.
        encoder_dropout: probability throughout the Conformer.
        encoder_convolution_first: convolution before attention.
        encoder_use_group_norm: group norm in place of batch norm in the convolutions.

    Raises:
        ValueError: as many numbers of taps as layers are expected.
    """
    taps = encoder_depthwise_conv_kernel_size
    taps = [taps] * encoder_num_layers if isinstance(taps, int) else taps
    if len(taps) != encoder_num_layers:
        raise ValueError(f"encoder_depthwise_conv_kernel_size has {len(taps)} numbers, expected {encoder_num_layers}.")
    layers = [
        ConformerLayer(
            encoder_embed_dim,
            encoder_ff_interm_features,
            encoder_num_heads,
            kernel_size,
            dropout=encoder_dropout,
            use_group_norm=encoder_use_group_norm,
            convolution_first=encoder_convolution_first,
        )
        for kernel_size in taps
    ]
    projection = FeatureProjection(extractor_output_dim, encoder_embed_dim, encoder_projection_dropout)
    extractor = FeatureEncoder(extractor_input_dim, extractor_output_dim, extractor_stride)
    return Wav2Vec2Model(extractor, ConformerEncoder(projection, nn.ModuleList(layers)))


_SETTINGS: dict[str, Any] = {
    "extractor_stride": 4,
    "encoder_num_layers": 12,
    "encoder_ff_interm_features": 1024,
    "encoder_depthwise_conv_kernel_size": [31] + [15] * 11,
    "encoder_dropout": 0.1,
    "encoder_convolution_first": True,
    "encoder_use_group_norm": True,
}
_BASE: dict[str, Any] = _SETTINGS | {"encoder_embed_dim": 256, "encoder_num_heads": 8}
_LARGE: dict[str, Any] = _SETTINGS | {"encoder_embed_dim": 768, "encoder_num_heads": 12}
_MASKS: dict[str, Any] = {
    "mask_selection": "static",
    "mask_other": 0.0,
    "no_mask_overlap": False,
    "mask_min_space": 0,
    "mask_channel_prob": 0.0,
    "mask_channel_selection": "static",
    "mask_channel_other": 0.0,
    "mask_channel_length": 10,
    "no_mask_channel_overlap": False,
    "mask_channel_min_space": 1,
}


@register_model(task="audio-representation", tags=("self-supervised", "prototype"))
def conformer_wav2vec2_base(
    extractor_input_dim: int = 64, extractor_output_dim: int = 256, encoder_projection_dropout: float = 0.0
) -> Wav2Vec2Model:
    """The small network of the paper (arXiv:2110.07313).

    Args:
        extractor_input_dim: channels of the features.
        extractor_output_dim: channels behind the layer that joins frames.
        encoder_projection_dropout: probability behind the feature projection.
    """
    return conformer_wav2vec2_model(
        extractor_input_dim=extractor_input_dim,
        extractor_output_dim=extractor_output_dim,
        encoder_projection_dropout=encoder_projection_dropout,
        **_BASE,
    )


def conformer_wav2vec2_pretrain_model(
    extractor_input_dim: int,
    extractor_output_dim: int,
    extractor_stride: int,
    encoder_embed_dim: int,
    encoder_projection_dropout: float,
    encoder_num_layers: int,
    encoder_num_heads: int,
    encoder_ff_interm_features: int,
    encoder_depthwise_conv_kernel_size: int,
    encoder_dropout: float,
    encoder_convolution_first: bool,
    encoder_use_group_norm: bool,
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
    num_negatives: int,
    cross_sample_negatives: int,
) -> ConformerWav2Vec2PretrainModel:
    """A network with a Conformer for pretraining.

    Args:
        extractor_input_dim: this and the eleven behind it: see `conformer_wav2vec2_model`.
        extractor_output_dim: see there.
        extractor_stride: see there.
        encoder_embed_dim: see there.
        encoder_projection_dropout: see there.
        encoder_num_layers: see there.
        encoder_num_heads: see there.
        encoder_ff_interm_features: see there.
        encoder_depthwise_conv_kernel_size: see there.
        encoder_dropout: see there.
        encoder_convolution_first: see there.
        encoder_use_group_norm: see there.
        mask_prob: this and the eleven behind it: see `models.wav2vec2.components.MaskGenerator`.
        mask_selection: see there.
        mask_other: see there.
        mask_length: see there.
        no_mask_overlap: see there.
        mask_min_space: see there.
        mask_channel_prob: see there.
        mask_channel_selection: see there.
        mask_channel_other: see there.
        mask_channel_length: see there.
        no_mask_channel_overlap: see there.
        mask_channel_min_space: see there.
        num_negatives: negatives of the same item.
        cross_sample_negatives: negatives of any item.
    """
    network = conformer_wav2vec2_model(
        extractor_input_dim,
        extractor_output_dim,
        extractor_stride,
        encoder_embed_dim,
        encoder_projection_dropout,
        encoder_num_layers,
        encoder_num_heads,
        encoder_ff_interm_features,
        encoder_depthwise_conv_kernel_size,
        encoder_dropout,
        encoder_convolution_first,
        encoder_use_group_norm,
    )
    mask_generator = MaskGenerator(
        extractor_output_dim,
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
    preprocessor = nn.Linear(extractor_output_dim, encoder_embed_dim)
    sampler = NegativeSampler(preprocessor, num_negatives, cross_sample_negatives)
    return ConformerWav2Vec2PretrainModel(network, mask_generator, sampler)


def conformer_wav2vec2_pretrain_base(
    extractor_input_dim: int = 64,
    extractor_output_dim: int = 256,
    encoder_projection_dropout: float = 0.0,
    mask_prob: float = 0.3,
    mask_length: int = 3,
    num_negatives: int = 100,
    cross_sample_negatives: int = 0,
) -> ConformerWav2Vec2PretrainModel:
    """The small network of the paper for pretraining (arXiv:2110.07313).

    Args:
        extractor_input_dim: channels of the features.
        extractor_output_dim: channels behind the layer that joins frames.
        encoder_projection_dropout: probability behind the feature projection.
        mask_prob: fraction of frames to mask, overlaps not counted.
        mask_length: frames of a span.
        num_negatives: negatives of the same item.
        cross_sample_negatives: negatives of any item.
    """
    return conformer_wav2vec2_pretrain_model(
        extractor_input_dim=extractor_input_dim,
        extractor_output_dim=extractor_output_dim,
        encoder_projection_dropout=encoder_projection_dropout,
        mask_prob=mask_prob,
        mask_length=mask_length,
        num_negatives=num_negatives,
        cross_sample_negatives=cross_sample_negatives,
        **_BASE,
        **_MASKS,
    )


def conformer_wav2vec2_pretrain_large(
    extractor_input_dim: int = 64,
    extractor_output_dim: int = 256,
    encoder_projection_dropout: float = 0.0,
    mask_prob: float = 0.3,
    mask_length: int = 3,
    num_negatives: int = 100,
    cross_sample_negatives: int = 0,
) -> ConformerWav2Vec2PretrainModel:
    """The large network of the paper for pretraining (arXiv:2110.07313).

    Args:
        extractor_input_dim: channels of the features.
        extractor_output_dim: channels behind the layer that joins frames.
        encoder_projection_dropout: probability behind the feature projection.
        mask_prob: fraction of frames to mask, overlaps not counted.
        mask_length: frames of a span.
        num_negatives: negatives of the same item.
        cross_sample_negatives: negatives of any item.
    """
    return conformer_wav2vec2_pretrain_model(
        extractor_input_dim=extractor_input_dim,
        extractor_output_dim=extractor_output_dim,
        encoder_projection_dropout=encoder_projection_dropout,
        mask_prob=mask_prob,
        mask_length=mask_length,
        num_negatives=num_negatives,
        cross_sample_negatives=cross_sample_negatives,
        **_LARGE,
        **_MASKS,
    )
