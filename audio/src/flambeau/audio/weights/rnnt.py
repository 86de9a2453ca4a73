"""Weights of streaming transducers. Members carry upstream's names of the bundles they make up."""

from __future__ import annotations

from flambeau.audio.weights._records import RECIPES, published
from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["Emformer_RNNT_Base_Weights"]

_ASSETS = "https://download.pytorch.org/torchaudio/pipeline-assets/"


def _transducer(corpus: str, pieces: int, docs: str, wer: dict[str, float]) -> Weights:
    """A network whose symbols are SentencePiece tokens of `corpus`, and a blank behind them."""
    statistics = f"{_ASSETS}global_stats_rnnt_{corpus}.json"
    return published(
        f"emformer_rnnt_base_{corpus}.pt",
        lazy("flambeau.audio.pipelines.rnnt_features:Features", global_stats=statistics, right_padding=4),
        sample_rate=16000,
        docs=docs,
        recipe=RECIPES + "asr/emformer_rnnt",
        metrics={part: {"WER": value} for part, value in wer.items()},
        num_symbols=pieces + 1,
        blank=pieces,
        global_stats=statistics,
        sentencepiece=f"{_ASSETS}spm_bpe_{pieces}_{corpus}.model",
    )


class Emformer_RNNT_Base_Weights(WeightsEnum):
    """Weights of `models.emformer_rnnt_base`."""

    EMFORMER_RNNT_BASE_LIBRISPEECH = _transducer(
        "librispeech",
        4096,
        "Trained on the 960 hours of LibriSpeech; recognises streams with 160 ms segments.",
        {
            "LibriSpeech dev-clean": 4.15,
            "LibriSpeech dev-other": 11.10,
            "LibriSpeech test-clean": 4.56,
            "LibriSpeech test-other": 10.66,
        },
    )
    EMFORMER_RNNT_BASE_MUSTC = _transducer(
        "mustc", 500, "Trained on the English speech of MuST-C release 2.0; recognises streams.", {}
    )
    EMFORMER_RNNT_BASE_TEDLIUM3 = _transducer(
        "tedlium3",
        500,
        "Trained on TED-LIUM release 3; recognises streams.",
        {"TED-LIUM 3 dev": 10.8, "TED-LIUM 3 test": 9.8},
    )
    DEFAULT = EMFORMER_RNNT_BASE_LIBRISPEECH
