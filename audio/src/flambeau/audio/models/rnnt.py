"""Recurrent neural network transducers (Graves 2012, arXiv:1211.3711), with an Emformer that transcribes streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.models._api import register_model
from flambeau.audio.models.emformer import Emformer
from flambeau.audio.weights.rnnt import Emformer_RNNT_Base_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["RNNT", "emformer_rnnt_base", "emformer_rnnt_model"]

_JOINER_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class _TimeReduction(nn.Module):
    """Join each `stride` frames to one; a rest that does not fill one is left out.

    Args:
        stride: frames to join.
    """

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, time, channels) and lengths -> (batch, time // stride, channels x stride) and lengths."""
        frames = input.shape[1] // self.stride
        joined = input[:, : frames * self.stride].reshape(len(input), frames, input.shape[2] * self.stride)
        return joined, lengths.div(self.stride, rounding_mode="trunc")


class _CustomLSTM(nn.Module):
    """An LSTM layer with optional layer norms of its gates and its cell.

    Args:
        input_dim: channels of the input.
        hidden_dim: channels of the output.
        layer_norm: whether there are layer norms.
        layer_norm_epsilon: their epsilon.
    """

    def __init__(
        self, input_dim: int, hidden_dim: int, layer_norm: bool = False, layer_norm_epsilon: float = 1e-5
    ) -> None:
        super().__init__()
        self.x2g = nn.Linear(input_dim, 4 * hidden_dim, bias=not layer_norm)
        self.p2g = nn.Linear(hidden_dim, 4 * hidden_dim, bias=False)
        self.c_norm: nn.Module = nn.Identity()
        self.g_norm: nn.Module = nn.Identity()
        if layer_norm:
            self.c_norm = nn.LayerNorm(hidden_dim, eps=layer_norm_epsilon)
            self.g_norm = nn.LayerNorm(4 * hidden_dim, eps=layer_norm_epsilon)
        self.hidden_dim = hidden_dim

    def forward(self, input: Tensor, state: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """Run.

        Args:
            input: (time, batch, input_dim).
            state: output and cell of the step before, (batch, hidden_dim) each; None for zeros.

        Returns:
            (time, batch, hidden_dim), and the state after the last step.
        """
        h, c = (input.new_zeros(input.shape[1], self.hidden_dim) for _ in range(2)) if state is None else state
        outputs = []
        for projected in self.x2g(input).unbind(0):
            i, f, g, o = self.g_norm(projected + self.p2g(h)).chunk(4, dim=1)
            c = self.c_norm(f.sigmoid() * c + i.sigmoid() * g.tanh())
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), [h, c]


class _Transcriber(nn.Module, ABC):
    """What encodes audio."""

    @abstractmethod
    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, time, input_dim) and (batch,) lengths -> (batch, frames, output_dim) and lengths."""

    @abstractmethod
    def infer(
        self, input: Tensor, lengths: Tensor, states: list[list[Tensor]] | None
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """One segment of a stream: as `forward`, with the states that the segment before left."""


class _EmformerEncoder(_Transcriber):
    """Linear layer, time reduction, Emformer, linear layer, layer norm. Lengths in frames of the input."""

    def __init__(
        self,
        *,
        input_dim: int,
        output_dim: int,
        segment_length: int,
        right_context_length: int,
        time_reduction_input_dim: int,
        time_reduction_stride: int,
        transformer_num_heads: int,
        transformer_ffn_dim: int,
        transformer_num_layers: int,
        transformer_left_context_length: int,
        transformer_dropout: float = 0.0,
        transformer_activation: str = "relu",
        transformer_max_memory_size: int = 0,
        transformer_weight_init_scale_strategy: str = "depthwise",
        transformer_tanh_on_mem: bool = False,
    ) -> None:
        super().__init__()
        self.input_linear = nn.Linear(input_dim, time_reduction_input_dim, bias=False)
        self.time_reduction = _TimeReduction(time_reduction_stride)
        channels = time_reduction_input_dim * time_reduction_stride
        self.transformer = Emformer(
            channels,
            transformer_num_heads,
            transformer_ffn_dim,
            transformer_num_layers,
            segment_length // time_reduction_stride,
            dropout=transformer_dropout,
            activation=transformer_activation,
            left_context_length=transformer_left_context_length,
            right_context_length=right_context_length // time_reduction_stride,
            max_memory_size=transformer_max_memory_size,
            weight_init_scale_strategy=transformer_weight_init_scale_strategy,
            tanh_on_mem=transformer_tanh_on_mem,
        )
        self.output_linear = nn.Linear(channels, output_dim)
        self.layer_norm = nn.LayerNorm(output_dim)

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `RNNT.transcribe`."""
        x, lengths = self.transformer(*self.time_reduction(self.input_linear(input), lengths))
        return self.layer_norm(self.output_linear(x)), lengths

    def infer(
        self, input: Tensor, lengths: Tensor, states: list[list[Tensor]] | None
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """See `RNNT.transcribe_streaming`."""
        x, lengths = self.time_reduction(self.input_linear(input), lengths)
        x, lengths, states = self.transformer.infer(x, lengths, states)
        return self.layer_norm(self.output_linear(x)), lengths, states


class _Predictor(nn.Module):
    """Embedding and LSTM layers over the symbols so far."""

    def __init__(
        self,
        num_symbols: int,
        output_dim: int,
        symbol_embedding_dim: int,
        num_lstm_layers: int,
        lstm_hidden_dim: int,
        lstm_layer_norm: bool = False,
        lstm_layer_norm_epsilon: float = 1e-5,
        lstm_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, symbol_embedding_dim)
        self.input_layer_norm = nn.LayerNorm(symbol_embedding_dim)
        widths = [symbol_embedding_dim] + [lstm_hidden_dim] * (num_lstm_layers - 1)
        self.lstm_layers = nn.ModuleList(
            _CustomLSTM(width, lstm_hidden_dim, lstm_layer_norm, lstm_layer_norm_epsilon) for width in widths
        )
        self.dropout = nn.Dropout(lstm_dropout)
        self.linear = nn.Linear(lstm_hidden_dim, output_dim)
        self.output_layer_norm = nn.LayerNorm(output_dim)
        self.lstm_dropout = lstm_dropout

    def forward(
        self, input: Tensor, lengths: Tensor, state: list[list[Tensor]] | None = None
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """See `RNNT.predict`."""
        x = self.input_layer_norm(self.embedding(input.permute(1, 0)))
        new_state = []
        for index, layer in enumerate(self.lstm_layers):
            x, layer_state = layer(x, None if state is None else state[index])
            x = self.dropout(x)
            new_state.append(layer_state)
        return self.output_layer_norm(self.linear(x)).permute(1, 0, 2), lengths, new_state


class _Joiner(nn.Module):
    """Add each frame's encoding to each symbol's, apply a non-linearity and a linear layer.

    Raises:
        ValueError: the activation is neither "relu" nor "tanh".
    """

    def __init__(self, input_dim: int, output_dim: int, activation: str = "relu") -> None:
        super().__init__()
        if activation not in _JOINER_ACTIVATIONS:
            raise ValueError(f"Unsupported activation {activation!r}, expected 'relu' or 'tanh'.")
        self.linear = nn.Linear(input_dim, output_dim)
        self.activation = _JOINER_ACTIVATIONS[activation]()

    def forward(
        self, source_encodings: Tensor, source_lengths: Tensor, target_encodings: Tensor, target_lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `RNNT.join`."""
        joint = source_encodings.unsqueeze(2) + target_encodings.unsqueeze(1)
        return self.linear(self.activation(joint)), source_lengths, target_lengths


class RNNT(nn.Module):
    """A transducer.

    Args:
        transcriber: encodes audio.
        predictor: encodes the symbols so far.
        joiner: joins both.
    """

    def __init__(self, transcriber: _Transcriber, predictor: _Predictor, joiner: _Joiner) -> None:
        super().__init__()
        self.transcriber = transcriber
        self.predictor = predictor
        self.joiner = joiner

    def forward(
        self,
        sources: Tensor,
        source_lengths: Tensor,
        targets: Tensor,
        target_lengths: Tensor,
        predictor_state: list[list[Tensor]] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, list[list[Tensor]]]:
        """What training needs: logits of every frame after every prefix of the targets.

        Args:
            sources: (batch, time, input_dim); for an Emformer with its right context behind.
            source_lengths: (batch,) valid frames of each source, right context not counted.
            targets: (batch, symbols) integers, a blank first.
            target_lengths: (batch,) valid symbols.
            predictor_state: what a call before left, None for none.

        Returns:
            Logits (batch, frames, symbols, num_symbols), valid frames, valid symbols, and the predictor's state.
        """
        source_encodings, source_lengths = self.transcriber(sources, source_lengths)
        target_encodings, target_lengths, predictor_state = self.predictor(targets, target_lengths, predictor_state)
        logits, source_lengths, target_lengths = self.joiner(
            source_encodings, source_lengths, target_encodings, target_lengths
        )
        return logits, source_lengths, target_lengths, predictor_state

    def transcribe(self, sources: Tensor, source_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode whole recordings.

        Args:
            sources: (batch, time, input_dim), right context behind.
            source_lengths: (batch,) valid frames of each, right context not counted.

        Returns:
            (batch, frames, encoding_dim), and (batch,) valid frames.
        """
        return self.transcriber(sources, source_lengths)  # type: ignore[no-any-return]

    def transcribe_streaming(
        self, sources: Tensor, source_lengths: Tensor, state: list[list[Tensor]] | None
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """Encode one segment of a stream.

        Args:
            sources: (batch, segment_length + right_context_length, input_dim).
            source_lengths: (batch,) valid frames of each, right context counted.
            state: what the segment before left, None for the first.

        Returns:
            (batch, frames, encoding_dim), (batch,) valid frames, and the state for the next segment.
        """
        return self.transcriber.infer(sources, source_lengths, state)

    def predict(
        self, targets: Tensor, target_lengths: Tensor, state: list[list[Tensor]] | None
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """Encode symbols.

        Args:
            targets: (batch, symbols) integers.
            target_lengths: (batch,) valid symbols.
            state: what a call before left, None for none.

        Returns:
            (batch, symbols, encoding_dim), `target_lengths`, and the state behind the last symbol.
        """
        return self.predictor(targets, target_lengths, state)  # type: ignore[no-any-return]

    def join(
        self, source_encodings: Tensor, source_lengths: Tensor, target_encodings: Tensor, target_lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (batch, frames, symbols, num_symbols) of encodings (batch, frames or symbols, encoding_dim)."""
        return self.joiner(source_encodings, source_lengths, target_encodings, target_lengths)  # type: ignore[no-any-return]


def emformer_rnnt_model(
    *,
    input_dim: int,
    encoding_dim: int,
    num_symbols: int,
    segment_length: int,
    right_context_length: int,
    time_reduction_input_dim: int,
    time_reduction_stride: int,
    transformer_num_heads: int,
    transformer_ffn_dim: int,
    transformer_num_layers: int,
    transformer_dropout: float,
    transformer_activation: str,
    transformer_left_context_length: int,
    transformer_max_memory_size: int,
    transformer_weight_init_scale_strategy: str,
    transformer_tanh_on_mem: bool,
    symbol_embedding_dim: int,
    num_lstm_layers: int,
    lstm_layer_norm: bool,
    lstm_layer_norm_epsilon: float,
    lstm_dropout: float,
) -> RNNT:
    """A transducer whose transcriber is an Emformer.

    Args:
        input_dim: channels of the features.
        encoding_dim: channels of the encodings that are joined.
        num_symbols: symbols, the blank (the last one) counted.
        segment_length: frames of a segment.
        right_context_length: frames behind a segment that it sees.
        time_reduction_input_dim: channels before frames are joined.
        time_reduction_stride: frames that are joined to one.
        transformer_num_heads: this and all that begin with `transformer_`: see `Emformer`.
        transformer_ffn_dim: see there.
        transformer_num_layers: see there.
        transformer_dropout: see there.
        transformer_activation: see there.
        transformer_left_context_length: see there; in joined frames.
        transformer_max_memory_size: see there.
        transformer_weight_init_scale_strategy: see there.
        transformer_tanh_on_mem: see there.
        symbol_embedding_dim: channels of symbols, and of the LSTM layers over them.
        num_lstm_layers: LSTM layers.
        lstm_layer_norm: whether they have layer norms.
        lstm_layer_norm_epsilon: epsilon of these.
        lstm_dropout: probability behind each.
    """
    encoder = _EmformerEncoder(
        input_dim=input_dim,
        output_dim=encoding_dim,
        segment_length=segment_length,
        right_context_length=right_context_length,
        time_reduction_input_dim=time_reduction_input_dim,
        time_reduction_stride=time_reduction_stride,
        transformer_num_heads=transformer_num_heads,
        transformer_ffn_dim=transformer_ffn_dim,
        transformer_num_layers=transformer_num_layers,
        transformer_dropout=transformer_dropout,
        transformer_activation=transformer_activation,
        transformer_left_context_length=transformer_left_context_length,
        transformer_max_memory_size=transformer_max_memory_size,
        transformer_weight_init_scale_strategy=transformer_weight_init_scale_strategy,
        transformer_tanh_on_mem=transformer_tanh_on_mem,
    )
    predictor = _Predictor(
        num_symbols,
        encoding_dim,
        symbol_embedding_dim=symbol_embedding_dim,
        num_lstm_layers=num_lstm_layers,
        lstm_hidden_dim=symbol_embedding_dim,
        lstm_layer_norm=lstm_layer_norm,
        lstm_layer_norm_epsilon=lstm_layer_norm_epsilon,
        lstm_dropout=lstm_dropout,
    )
    return RNNT(encoder, predictor, _Joiner(encoding_dim, num_symbols))


@register_model(task="speech-recognition", tags=("speech", "streaming"))
def emformer_rnnt_base(
    num_symbols: int | None = None,
    *,
    weights: Emformer_RNNT_Base_Weights | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> RNNT:
    """Emformer transducer of 20 layers for streams of 80 mel bands (arXiv:2010.10759, as trained upstream).

    Args:
        num_symbols: symbols, the blank (the last one) counted; None for as many as the weights have.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        kwargs: `device`, `dtype` and the like, for `flambeau.core.weights.build_with_weights`.

    Raises:
        TypeError: neither `num_symbols` nor `weights` is given.
    """
    member = Emformer_RNNT_Base_Weights.verify(weights)
    if num_symbols is None:
        if member is None:
            raise TypeError("emformer_rnnt_base() needs `num_symbols`, or `weights`, which have their number.")
        num_symbols = member.meta["num_symbols"]
    build: Callable[..., RNNT] = emformer_rnnt_model
    return build_with_weights(
        build,
        member,
        progress=progress,
        **kwargs,
        input_dim=80,
        encoding_dim=1024,
        num_symbols=num_symbols,
        segment_length=16,
        right_context_length=4,
        time_reduction_input_dim=128,
        time_reduction_stride=4,
        transformer_num_heads=8,
        transformer_ffn_dim=2048,
        transformer_num_layers=20,
        transformer_dropout=0.1,
        transformer_activation="gelu",
        transformer_left_context_length=30,
        transformer_max_memory_size=0,
        transformer_weight_init_scale_strategy="depthwise",
        transformer_tanh_on_mem=True,
        symbol_embedding_dim=512,
        num_lstm_layers=3,
        lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-3,
        lstm_dropout=0.3,
    )
