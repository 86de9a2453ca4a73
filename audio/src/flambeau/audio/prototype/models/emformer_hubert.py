"""HuBERT with an Emformer in place of its transformer, on log-mel features, for streams."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.audio.models._api import register_model
from flambeau.audio.models.emformer import Emformer
from flambeau.audio.models.rnnt import _TimeReduction
from flambeau.audio.models.wav2vec2.network import Wav2Vec2Model

__all__ = ["emformer_hubert_base", "emformer_hubert_model"]


def _whole(x: Tensor, right_context: int = 0) -> Tensor:
    """Lengths of a batch without padding."""
    return torch.full((len(x),), x.shape[1] - right_context, device=x.device)


class FeatureEncoder(nn.Module):
    """A linear layer, and frames joined.

    Args:
        input_dim: channels of the features.
        output_dim: channels of the linear layer.
        use_bias: whether it has a bias.
        stride: frames to join.
    """

    def __init__(self, input_dim: int, output_dim: int, use_bias: bool, stride: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_dim, output_dim, bias=use_bias)
        self.time_reduction = _TimeReduction(stride)

    def forward(self, input: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(batch, time, input_dim) and lengths -> (batch, time // stride, output_dim x stride) and lengths."""
        x, reduced = self.time_reduction(self.linear(input), _whole(input) if lengths is None else lengths)
        return x, None if lengths is None else reduced


class EmformerEncoder(nn.Module):
    """An Emformer, a linear layer and a layer norm."""

    def __init__(self, emformer: Emformer, output_linear: nn.Module, layer_norm: nn.Module) -> None:
        super().__init__()
        self.emformer = emformer
        self.output_linear = output_linear
        self.layer_norm = layer_norm

    def _lengths(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        return _whole(x, self.emformer.right_context_length) if lengths is None else lengths

    def forward(self, input: Tensor, lengths: Tensor | None) -> Tensor:
        """(batch, time + right context, channels) and lengths -> (batch, time, output_dim)."""
        x, _ = self.emformer(input, self._lengths(input, lengths))
        return self.layer_norm(self.output_linear(x))  # type: ignore[no-any-return]

    def extract_features(self, input: Tensor, lengths: Tensor | None, num_layers: int | None = None) -> list[Tensor]:
        """What each of the first `num_layers` layers of the Emformer gives, (batch, time, channels) each.

        Raises:
            ValueError: `num_layers` is not between 1 and the number of layers.
        """
        layers = self.emformer.emformer_layers
        if num_layers is not None and not 0 < num_layers <= len(layers):
            raise ValueError(f"`num_layers` is {num_layers}, expected a number between [1, {len(layers)}].")
        return self.emformer.layer_outputs(input, self._lengths(input, lengths), num_layers)


def emformer_hubert_model(
    extractor_input_dim: int,
    extractor_output_dim: int,
    extractor_use_bias: bool,
    extractor_stride: int,
    encoder_input_dim: int,
    encoder_output_dim: int,
    encoder_num_heads: int,
    encoder_ffn_dim: int,
    encoder_num_layers: int,
    encoder_segment_length: int,
    encoder_left_context_length: int,
    encoder_right_context_length: int,
    encoder_dropout: float,
    encoder_activation: str,
    encoder_max_memory_size: int,
    encoder_weight_init_scale_strategy: str | None,
    encoder_tanh_on_mem: bool,
    aux_num_out: int | None,
) -> Wav2Vec2Model:
    """HuBERT with an Emformer.

    Args:
        extractor_input_dim: channels of the features.
        extractor_output_dim: channels before frames are joined.
        extractor_use_bias: whether the linear layer before it has a bias.
        extractor_stride: frames to join.
        encoder_input_dim: channels of the Emformer, `extractor_output_dim` x `extractor_stride`.
        encoder_output_dim: channels of the output.
        encoder_num_heads: this and the others that begin with `encoder_`: see `Emformer`.
        encoder_ffn_dim: see there.
        encoder_num_layers: see there.
        encoder_segment_length: see there.
        encoder_left_context_length: see there.
        encoder_right_context_length: see there.
        encoder_dropout: see there.
        encoder_activation: see there.
        encoder_max_memory_size: see there.
        encoder_weight_init_scale_strategy: see there.
        encoder_tanh_on_mem: see there.
        aux_num_out: outputs of a linear layer on top, None for none.
    """
    emformer = Emformer(
        encoder_input_dim,
        encoder_num_heads,
        encoder_ffn_dim,
        encoder_num_layers,
        encoder_segment_length,
        dropout=encoder_dropout,
        activation=encoder_activation,
        left_context_length=encoder_left_context_length,
        right_context_length=encoder_right_context_length,
        max_memory_size=encoder_max_memory_size,
        weight_init_scale_strategy=encoder_weight_init_scale_strategy,
        tanh_on_mem=encoder_tanh_on_mem,
    )
    linear = nn.Linear(encoder_input_dim, encoder_output_dim)
    encoder = EmformerEncoder(emformer, linear, nn.LayerNorm(encoder_output_dim))
    extractor = FeatureEncoder(extractor_input_dim, extractor_output_dim, extractor_use_bias, extractor_stride)
    aux = None if aux_num_out is None else nn.Linear(encoder_output_dim, aux_num_out)
    return Wav2Vec2Model(extractor, encoder, aux)


@register_model(task="speech-representation", tags=("speech", "streaming", "prototype"))
def emformer_hubert_base(
    extractor_input_dim: int = 80,
    extractor_output_dim: int = 128,
    encoder_dropout: float = 0.1,
    aux_num_out: int | None = None,
) -> Wav2Vec2Model:
    """HuBERT with an Emformer of 20 layers (arXiv:2106.07447, arXiv:2010.10759).

    Args:
        extractor_input_dim: channels of the features.
        extractor_output_dim: channels before four frames are joined to one.
        encoder_dropout: probability throughout the Emformer.
        aux_num_out: outputs of a linear layer on top, None for none.
    """
    return emformer_hubert_model(
        extractor_input_dim=extractor_input_dim,
        extractor_output_dim=extractor_output_dim,
        extractor_use_bias=False,
        extractor_stride=4,
        encoder_input_dim=512,
        encoder_output_dim=1024,
        encoder_num_heads=8,
        encoder_ffn_dim=2048,
        encoder_num_layers=20,
        encoder_segment_length=4,
        encoder_left_context_length=30,
        encoder_right_context_length=1,
        encoder_dropout=encoder_dropout,
        encoder_activation="gelu",
        encoder_max_memory_size=0,
        encoder_weight_init_scale_strategy="depthwise",
        encoder_tanh_on_mem=True,
        aux_num_out=aux_num_out,
    )
