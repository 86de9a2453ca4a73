"""Transducers with a Conformer, and with biasing towards words of a list."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flambeau.audio.models._api import register_model
from flambeau.audio.models.conformer import Conformer
from flambeau.audio.models.rnnt import RNNT, _Joiner, _Predictor, _TimeReduction, _Transcriber
from flambeau.audio.prototype.models.rnnt_biasing import RNNTBiasing, TrieNode, _JoinerBiasing

__all__ = [
    "RNNTBiasing",
    "TrieNode",
    "conformer_rnnt_base",
    "conformer_rnnt_biasing",
    "conformer_rnnt_biasing_base",
    "conformer_rnnt_model",
]


class _ConformerEncoder(_Transcriber):
    """Time reduction, linear layer, Conformer, linear layer, layer norm."""

    def __init__(
        self,
        *,
        input_dim: int,
        output_dim: int,
        time_reduction_stride: int,
        conformer_input_dim: int,
        conformer_ffn_dim: int,
        conformer_num_layers: int,
        conformer_num_heads: int,
        conformer_depthwise_conv_kernel_size: int,
        conformer_dropout: float,
    ) -> None:
        super().__init__()
        self.time_reduction = _TimeReduction(time_reduction_stride)
        self.input_linear = nn.Linear(input_dim * time_reduction_stride, conformer_input_dim)
        self.conformer = Conformer(
            conformer_input_dim,
            conformer_num_heads,
            conformer_ffn_dim,
            conformer_num_layers,
            conformer_depthwise_conv_kernel_size,
            dropout=conformer_dropout,
            use_group_norm=True,
            convolution_first=True,
        )
        self.output_linear = nn.Linear(conformer_input_dim, output_dim)
        self.layer_norm = nn.LayerNorm(output_dim)

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `RNNT.transcribe`."""
        x, lengths = self.time_reduction(input, lengths)
        x, lengths = self.conformer(self.input_linear(x), lengths)
        return self.layer_norm(self.output_linear(x)), lengths

    def infer(
        self, input: Tensor, lengths: Tensor, states: list[list[Tensor]] | None
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """Not possible: each frame sees the whole recording.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "A Conformer hears all before it answers, so it has no stream; use `transcribe`, or a model with Emformer."
        )


def _encoder_and_predictor(
    *,
    input_dim: int,
    encoding_dim: int,
    time_reduction_stride: int,
    conformer_input_dim: int,
    conformer_ffn_dim: int,
    conformer_num_layers: int,
    conformer_num_heads: int,
    conformer_depthwise_conv_kernel_size: int,
    conformer_dropout: float,
    num_symbols: int,
    symbol_embedding_dim: int,
    num_lstm_layers: int,
    lstm_hidden_dim: int,
    lstm_layer_norm: bool,
    lstm_layer_norm_epsilon: float,
    lstm_dropout: float,
) -> tuple[_ConformerEncoder, _Predictor]:
    encoder = _ConformerEncoder(
        input_dim=input_dim,
        output_dim=encoding_dim,
        time_reduction_stride=time_reduction_stride,
        conformer_input_dim=conformer_input_dim,
        conformer_ffn_dim=conformer_ffn_dim,
        conformer_num_layers=conformer_num_layers,
        conformer_num_heads=conformer_num_heads,
        conformer_depthwise_conv_kernel_size=conformer_depthwise_conv_kernel_size,
        conformer_dropout=conformer_dropout,
    )
    predictor = _Predictor(
        num_symbols,
        encoding_dim,
        symbol_embedding_dim=symbol_embedding_dim,
        num_lstm_layers=num_lstm_layers,
        lstm_hidden_dim=lstm_hidden_dim,
        lstm_layer_norm=lstm_layer_norm,
        lstm_layer_norm_epsilon=lstm_layer_norm_epsilon,
        lstm_dropout=lstm_dropout,
    )
    return encoder, predictor


def conformer_rnnt_model(
    *,
    input_dim: int,
    encoding_dim: int,
    time_reduction_stride: int,
    conformer_input_dim: int,
    conformer_ffn_dim: int,
    conformer_num_layers: int,
    conformer_num_heads: int,
    conformer_depthwise_conv_kernel_size: int,
    conformer_dropout: float,
    num_symbols: int,
    symbol_embedding_dim: int,
    num_lstm_layers: int,
    lstm_hidden_dim: int,
    lstm_layer_norm: bool,
    lstm_layer_norm_epsilon: float,
    lstm_dropout: float,
    joiner_activation: str,
) -> RNNT:
    """A transducer whose transcriber is a Conformer.

    Args:
        input_dim: channels of the features.
        encoding_dim: channels of the encodings that are joined.
        time_reduction_stride: frames that are joined to one.
        conformer_input_dim: channels of the Conformer; this and the five behind it: see `models.Conformer`.
        conformer_ffn_dim: see there.
        conformer_num_layers: see there.
        conformer_num_heads: see there.
        conformer_depthwise_conv_kernel_size: see there.
        conformer_dropout: see there.
        num_symbols: symbols, the blank counted.
        symbol_embedding_dim: channels of symbols.
        num_lstm_layers: LSTM layers over them.
        lstm_hidden_dim: channels of these.
        lstm_layer_norm: whether they have layer norms.
        lstm_layer_norm_epsilon: epsilon of these.
        lstm_dropout: probability behind each.
        joiner_activation: "relu" or "tanh".
    """
    encoder, predictor = _encoder_and_predictor(
        input_dim=input_dim,
        encoding_dim=encoding_dim,
        time_reduction_stride=time_reduction_stride,
        conformer_input_dim=conformer_input_dim,
        conformer_ffn_dim=conformer_ffn_dim,
        conformer_num_layers=conformer_num_layers,
        conformer_num_heads=conformer_num_heads,
        conformer_depthwise_conv_kernel_size=conformer_depthwise_conv_kernel_size,
        conformer_dropout=conformer_dropout,
        num_symbols=num_symbols,
        symbol_embedding_dim=symbol_embedding_dim,
        num_lstm_layers=num_lstm_layers,
        lstm_hidden_dim=lstm_hidden_dim,
        lstm_layer_norm=lstm_layer_norm,
        lstm_layer_norm_epsilon=lstm_layer_norm_epsilon,
        lstm_dropout=lstm_dropout,
    )
    return RNNT(encoder, predictor, _Joiner(encoding_dim, num_symbols, activation=joiner_activation))


_SHARED: dict[str, Any] = {
    "input_dim": 80,
    "time_reduction_stride": 4,
    "conformer_num_layers": 16,
    "conformer_num_heads": 4,
    "conformer_depthwise_conv_kernel_size": 31,
    "conformer_dropout": 0.1,
    "symbol_embedding_dim": 256,
    "lstm_layer_norm": True,
    "lstm_layer_norm_epsilon": 1e-5,
    "lstm_dropout": 0.3,
    "joiner_activation": "tanh",
}


@register_model(task="speech-recognition", tags=("speech", "prototype"))
def conformer_rnnt_base() -> RNNT:
    """The Conformer transducer of upstream's LibriSpeech recipe: 30 million parameters (arXiv:2005.08100)."""
    return conformer_rnnt_model(
        **_SHARED,
        encoding_dim=1024,
        conformer_input_dim=256,
        conformer_ffn_dim=1024,
        num_symbols=1024,
        num_lstm_layers=2,
        lstm_hidden_dim=512,
    )


def conformer_rnnt_biasing(
    *,
    input_dim: int,
    encoding_dim: int,
    time_reduction_stride: int,
    conformer_input_dim: int,
    conformer_ffn_dim: int,
    conformer_num_layers: int,
    conformer_num_heads: int,
    conformer_depthwise_conv_kernel_size: int,
    conformer_dropout: float,
    num_symbols: int,
    symbol_embedding_dim: int,
    num_lstm_layers: int,
    lstm_hidden_dim: int,
    lstm_layer_norm: bool,
    lstm_layer_norm_epsilon: float,
    lstm_dropout: float,
    joiner_activation: str,
    attndim: int,
    biasing: bool,
    charlist: list[str],
    deepbiasing: bool,
    tcpsche: int,
    DBaverage: bool,
) -> RNNTBiasing:
    """A Conformer transducer that can be biased towards words of a list (see `RNNTBiasing`).

    Args:
        input_dim: this and the others up to `joiner_activation`: see `conformer_rnnt_model`.
        encoding_dim: see there.
        time_reduction_stride: see there.
        conformer_input_dim: see there.
        conformer_ffn_dim: see there.
        conformer_num_layers: see there.
        conformer_num_heads: see there.
        conformer_depthwise_conv_kernel_size: see there.
        conformer_dropout: see there.
        num_symbols: see there.
        symbol_embedding_dim: see there.
        num_lstm_layers: see there.
        lstm_hidden_dim: see there.
        lstm_layer_norm: see there.
        lstm_layer_norm_epsilon: see there.
        lstm_dropout: see there.
        joiner_activation: see there.
        attndim: channels of the pointer's attention.
        biasing: whether there is any biasing.
        charlist: the symbols' texts, "<blank>" among them.
        deepbiasing: whether the joiner sees what the pointer points at.
        tcpsche: epoch from which on the pointer is trained.
        DBaverage: deep biasing by the mean of the possible symbols, without a pointer.
    """
    encoder, predictor = _encoder_and_predictor(
        input_dim=input_dim,
        encoding_dim=encoding_dim,
        time_reduction_stride=time_reduction_stride,
        conformer_input_dim=conformer_input_dim,
        conformer_ffn_dim=conformer_ffn_dim,
        conformer_num_layers=conformer_num_layers,
        conformer_num_heads=conformer_num_heads,
        conformer_depthwise_conv_kernel_size=conformer_depthwise_conv_kernel_size,
        conformer_dropout=conformer_dropout,
        num_symbols=num_symbols,
        symbol_embedding_dim=symbol_embedding_dim,
        num_lstm_layers=num_lstm_layers,
        lstm_hidden_dim=lstm_hidden_dim,
        lstm_layer_norm=lstm_layer_norm,
        lstm_layer_norm_epsilon=lstm_layer_norm_epsilon,
        lstm_dropout=lstm_dropout,
    )
    joiner = _JoinerBiasing(encoding_dim, num_symbols, joiner_activation, biasing, deepbiasing, attndim)
    return RNNTBiasing(
        encoder,
        predictor,
        joiner,
        attndim,
        biasing,
        deepbiasing,
        symbol_embedding_dim,
        encoding_dim,
        charlist,
        encoding_dim,
        conformer_dropout,
        tcpsche,
        DBaverage,
    )


def conformer_rnnt_biasing_base(charlist: list[str] | None = None, biasing: bool = True) -> RNNTBiasing:
    """The Conformer transducer with biasing of upstream's LibriSpeech recipe (arXiv:2109.00627).

    Args:
        charlist: the 601 symbols' texts, "<blank>" among them.
        biasing: whether there is any biasing.

    Raises:
        ValueError: `charlist` has no "<blank>".
    """
    return conformer_rnnt_biasing(
        **_SHARED,
        encoding_dim=576,
        conformer_input_dim=144,
        conformer_ffn_dim=576,
        num_symbols=601,
        num_lstm_layers=1,
        lstm_hidden_dim=320,
        attndim=256,
        biasing=biasing,
        charlist=charlist or [],
        deepbiasing=True,
        tcpsche=30,
        DBaverage=False,
    )
