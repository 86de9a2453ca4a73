"""The networks that the recipe trains, with what depends on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from flambeau.audio.models.rnnt import RNNT, emformer_rnnt_base, emformer_rnnt_model
from flambeau.audio.prototype.models.rnnt import conformer_rnnt_base, conformer_rnnt_model


@dataclass(frozen=True)
class Design:
    """A network and its settings.

    Attributes:
        build: number of symbols, the blank counted -> the network.
        pieces: SentencePiece tokens, without the blank.
        kind: SentencePiece's algorithm.
        fixed: whether there have to be as many pieces; else a small corpus may give fewer.
        right_padding: frames of zeros behind a batch, which the last segment sees as its right context.
        learning_rate: of Adam, once it is warm.
        warmup: steps in which the learning rate rises from 0.
        epochs: times that each utterance is heard.
        batch_frames: most frames of a batch, padding counted.
    """

    build: Callable[[int], RNNT]
    pieces: int
    kind: Literal["bpe", "unigram"]
    fixed: bool = True
    right_padding: int = 4
    learning_rate: float = 5e-4
    warmup: int = 10_000
    epochs: int = 120
    batch_frames: int = 20_000


def _conformer(symbols: int) -> RNNT:
    model = conformer_rnnt_base()
    if symbols != model.joiner.linear.out_features:
        expected = model.joiner.linear.out_features
        raise ValueError(
            f"There are {symbols} symbols, but conformer_rnnt_base has {expected}; is the folder of another run?"
        )
    return model


_TINY_PREDICTOR: dict[str, Any] = {
    "symbol_embedding_dim": 32,
    "num_lstm_layers": 1,
    "lstm_layer_norm": True,
    "lstm_layer_norm_epsilon": 1e-3,
    "lstm_dropout": 0.0,
}


def _tiny_emformer(symbols: int) -> RNNT:
    return emformer_rnnt_model(
        input_dim=80,
        encoding_dim=64,
        num_symbols=symbols,
        segment_length=16,
        right_context_length=4,
        time_reduction_input_dim=16,
        time_reduction_stride=4,
        transformer_num_heads=4,
        transformer_ffn_dim=128,
        transformer_num_layers=2,
        transformer_dropout=0.0,
        transformer_activation="gelu",
        transformer_left_context_length=30,
        transformer_max_memory_size=0,
        transformer_weight_init_scale_strategy="depthwise",
        transformer_tanh_on_mem=True,
        **_TINY_PREDICTOR,
    )


def _tiny_conformer(symbols: int) -> RNNT:
    return conformer_rnnt_model(
        input_dim=80,
        encoding_dim=64,
        time_reduction_stride=4,
        conformer_input_dim=32,
        conformer_ffn_dim=64,
        conformer_num_layers=2,
        conformer_num_heads=4,
        conformer_depthwise_conv_kernel_size=15,
        conformer_dropout=0.0,
        num_symbols=symbols,
        lstm_hidden_dim=32,
        joiner_activation="tanh",
        **_TINY_PREDICTOR,
    )


_tiny = partial(
    Design,
    pieces=40,
    kind="unigram",
    fixed=False,
    learning_rate=2e-3,
    warmup=20,
    epochs=80,
    batch_frames=1600,
)

DESIGNS = {
    "emformer": Design(emformer_rnnt_base, pieces=4096, kind="bpe"),
    "conformer": Design(_conformer, pieces=1023, kind="unigram", right_padding=0),
    "emformer-tiny": _tiny(_tiny_emformer),
    "conformer-tiny": _tiny(_tiny_conformer, right_padding=0),
}
