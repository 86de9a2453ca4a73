"""Weights of wav2vec 2.0, XLS-R, HuBERT and WavLM. Members carry upstream's names of the bundles they make up."""

from __future__ import annotations

from typing import Any

from flambeau.audio.weights._records import published
from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = [
    "HuBERT_Base_Weights",
    "HuBERT_Large_Weights",
    "HuBERT_XLarge_Weights",
    "Wav2Vec2_Base_Weights",
    "Wav2Vec2_Large_LV60K_Weights",
    "Wav2Vec2_Large_Weights",
    "Wav2Vec2_XLSR_1B_Weights",
    "Wav2Vec2_XLSR_2B_Weights",
    "Wav2Vec2_XLSR_300M_Weights",
    "WavLM_Base_Weights",
    "WavLM_Large_Weights",
]

_FAIRSEQ = "https://github.com/facebookresearch/fairseq/tree/main/examples/"
_WAVLM = "https://github.com/microsoft/unilm/tree/master/wavlm"

# The blank, the mark between words, and letters by frequency.
_LETTERS = tuple("-|ETAONIHSRDLUMWCFGYPBVK'XJQZ")
# Outputs for the end of a sentence, for padding and for unknown symbols, which fairseq reserves and never trains.
_RESERVED = (1, 2, 3)


def _dropouts(projection: float, attention: float, inner: float, outer: float, layer: float) -> dict[str, float]:
    return {
        "encoder_projection_dropout": projection,
        "encoder_attention_dropout": attention,
        "encoder_ff_interm_dropout": inner,
        "encoder_dropout": outer,
        "encoder_layer_drop": layer,
    }


_NONE = _dropouts(0.0, 0.0, 0.0, 0.0, 0.0)
_PROJECTED = _dropouts(0.1, 0.0, 0.0, 0.0, 0.0)
_BASE = _dropouts(0.1, 0.1, 0.0, 0.1, 0.05)
_LARGE = _dropouts(0.1, 0.1, 0.0, 0.0, 0.2)
_LARGE_LV60K = _dropouts(0.1, 0.1, 0.0, 0.0, 0.0)
_FINE_TUNED = _dropouts(0.0, 0.0, 0.1, 0.0, 0.1)


def _speech(
    file: str,
    dropouts: dict[str, float],
    docs: str,
    *,
    recipe: str,
    license: str = "MIT",
    labels: str | tuple[str, ...] | None = None,
    reserved: tuple[int, ...] = _RESERVED,
    normalize: bool = False,
    wer: tuple[float, ...] | None = None,
) -> Weights:
    """A network of speech at 16 kHz.

    Args:
        file: see `published`.
        dropouts: what it was trained with.
        docs: see `published`.
        recipe: see `published`.
        license: see `published`.
        labels: what the outputs stand for, the blank first; None for networks that give features.
        reserved: outputs of the file that stand for nothing.
        normalize: whether waveforms must have zero mean and unit variance.
        wer: the weight of the language model and the score of a word it was decoded with, then percent of LibriSpeech
            dev-clean, dev-other, test-clean, test-other (beam 1500, 4-gram model).
    """
    more: dict[str, Any] = {}
    if labels is not None:
        more = {"labels": tuple(labels), "remove_aux_axes": reserved}
    metrics = None
    if wer is not None:
        parts = ("dev-clean", "dev-other", "test-clean", "test-other")
        metrics = {f"LibriSpeech {part}": {"WER": value} for part, value in zip(parts, wer[2:], strict=True)}
        more["decoding"] = {"lm": "librispeech-4-gram", "beam_size": 1500, "lm_weight": wer[0], "word_score": wer[1]}
    return published(
        file,
        lazy("flambeau.audio.transforms._presets:Speech", sample_rate=16000, normalize=normalize),
        sample_rate=16000,
        docs=docs,
        recipe=recipe,
        license=license,
        metrics=metrics,
        arguments=dropouts | {"aux_num_out": None if labels is None else len(labels)},
        normalize_waveform=normalize,
        **more,
    )


class Wav2Vec2_Base_Weights(WeightsEnum):
    """Weights of `models.wav2vec2_base`."""

    VOXPOPULI_ASR_BASE_10K_DE = _speech(
        "wav2vec2_voxpopuli_base_10k_asr_de.pt",
        _FINE_TUNED,
        "Pretrained on 10,000 hours of VoxPopuli in 23 languages, fine-tuned on its transcribed German.",
        recipe="https://github.com/facebookresearch/voxpopuli",
        license="CC-BY-NC-4.0",
        labels="-|enirstadhulgcmobwfkzpvüäöjßyxq",
        reserved=(*_RESERVED, 35),
    )
    VOXPOPULI_ASR_BASE_10K_EN = _speech(
        "wav2vec2_voxpopuli_base_10k_asr_en.pt",
        _FINE_TUNED,
        "Pretrained on 10,000 hours of VoxPopuli in 23 languages, fine-tuned on its transcribed English.",
        recipe="https://github.com/facebookresearch/voxpopuli",
        license="CC-BY-NC-4.0",
        labels="-|etoiansrhldcumpfgwybvkxjqz",
        reserved=(*_RESERVED, 31),
    )
    VOXPOPULI_ASR_BASE_10K_ES = _speech(
        "wav2vec2_voxpopuli_base_10k_asr_es.pt",
        _FINE_TUNED,
        "Pretrained on 10,000 hours of VoxPopuli in 23 languages, fine-tuned on its transcribed Spanish.",
        recipe="https://github.com/facebookresearch/voxpopuli",
        license="CC-BY-NC-4.0",
        labels="-|eaosnrildctupmbqygvhófíájzñéxúkwü",
        reserved=(*_RESERVED, 35),
    )
    VOXPOPULI_ASR_BASE_10K_FR = _speech(
        "wav2vec2_voxpopuli_base_10k_asr_fr.pt",
        _FINE_TUNED,
        "Pretrained on 10,000 hours of VoxPopuli in 23 languages, fine-tuned on its transcribed French.",
        recipe="https://github.com/facebookresearch/voxpopuli",
        license="CC-BY-NC-4.0",
        labels="-|esnitraouldcpmévqfgbhxàjèyêzôkçœûùîâwïëüæ",
    )
    VOXPOPULI_ASR_BASE_10K_IT = _speech(
        "wav2vec2_voxpopuli_base_10k_asr_it.pt",
        _FINE_TUNED,
        "Pretrained on 10,000 hours of VoxPopuli in 23 languages, fine-tuned on its transcribed Italian.",
        recipe="https://github.com/facebookresearch/voxpopuli",
        license="CC-BY-NC-4.0",
        labels="-|eiaontrlscdupmgvhzfbqàèùéòìkyxwjóíï",
    )
    WAV2VEC2_ASR_BASE_100H = _speech(
        "wav2vec2_fairseq_base_ls960_asr_ls100.pth",
        _BASE,
        "Pretrained on LibriSpeech, fine-tuned on 100 hours of transcribed LibriSpeech.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
        wer=(2.15, -0.52, 3.08, 7.89, 3.42, 8.07),
    )
    WAV2VEC2_ASR_BASE_10M = _speech(
        "wav2vec2_fairseq_base_ls960_asr_ll10m.pth",
        _BASE,
        "Pretrained on LibriSpeech, fine-tuned on 10 minutes of transcribed Libri-Light.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
        wer=(3.23, -0.26, 9.41, 15.95, 9.35, 15.91),
    )
    WAV2VEC2_ASR_BASE_960H = _speech(
        "wav2vec2_fairseq_base_ls960_asr_ls960.pth",
        _BASE,
        "Pretrained on LibriSpeech, fine-tuned on 960 hours of transcribed LibriSpeech.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
        wer=(1.74, 0.52, 2.56, 6.26, 2.61, 6.15),
    )
    WAV2VEC2_BASE = _speech(
        "wav2vec2_fairseq_base_ls960.pth",
        _BASE,
        "Pretrained on the 960 hours of LibriSpeech without transcripts; gives features.",
        recipe=_FAIRSEQ + "wav2vec",
    )
    DEFAULT = WAV2VEC2_ASR_BASE_960H


class Wav2Vec2_Large_Weights(WeightsEnum):
    """Weights of `models.wav2vec2_large`."""

    WAV2VEC2_ASR_LARGE_100H = _speech(
        "wav2vec2_fairseq_large_ls960_asr_ls100.pth",
        _LARGE,
        "Pretrained on LibriSpeech, fine-tuned on 100 hours of transcribed LibriSpeech.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
    )
    WAV2VEC2_ASR_LARGE_10M = _speech(
        "wav2vec2_fairseq_large_ls960_asr_ll10m.pth",
        _LARGE,
        "Pretrained on LibriSpeech, fine-tuned on 10 minutes of transcribed Libri-Light.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
    )
    WAV2VEC2_ASR_LARGE_960H = _speech(
        "wav2vec2_fairseq_large_ls960_asr_ls960.pth",
        _LARGE,
        "Pretrained on LibriSpeech, fine-tuned on 960 hours of transcribed LibriSpeech.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
        wer=(1.74, 0.52, 2.14, 4.62, 2.34, 4.98),
    )
    WAV2VEC2_LARGE = _speech(
        "wav2vec2_fairseq_large_ls960.pth",
        _LARGE,
        "Pretrained on the 960 hours of LibriSpeech without transcripts; gives features.",
        recipe=_FAIRSEQ + "wav2vec",
    )
    DEFAULT = WAV2VEC2_ASR_LARGE_960H


class Wav2Vec2_Large_LV60K_Weights(WeightsEnum):
    """Weights of `models.wav2vec2_large_lv60k`."""

    WAV2VEC2_ASR_LARGE_LV60K_100H = _speech(
        "wav2vec2_fairseq_large_lv60k_asr_ls100.pth",
        _LARGE_LV60K,
        "Pretrained on Libri-Light, fine-tuned on 100 hours of transcribed LibriSpeech.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
        normalize=True,
        wer=(2.15, -0.52, 2.19, 4.55, 2.32, 4.64),
    )
    WAV2VEC2_ASR_LARGE_LV60K_10M = _speech(
        "wav2vec2_fairseq_large_lv60k_asr_ll10m.pth",
        _LARGE_LV60K,
        "Pretrained on Libri-Light, fine-tuned on 10 minutes of transcribed Libri-Light.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
        normalize=True,
        wer=(3.86, -1.18, 6.77, 10.03, 6.87, 10.51),
    )
    WAV2VEC2_ASR_LARGE_LV60K_960H = _speech(
        "wav2vec2_fairseq_large_lv60k_asr_ls960.pth",
        _LARGE_LV60K,
        "Pretrained on Libri-Light, fine-tuned on 960 hours of transcribed LibriSpeech.",
        recipe=_FAIRSEQ + "wav2vec",
        labels=_LETTERS,
        normalize=True,
        wer=(1.57, -0.64, 1.78, 3.51, 2.03, 3.68),
    )
    WAV2VEC2_LARGE_LV60K = _speech(
        "wav2vec2_fairseq_large_lv60k.pth",
        _LARGE_LV60K,
        "Pretrained on the 60,000 hours of Libri-Light; gives features.",
        recipe=_FAIRSEQ + "wav2vec",
        normalize=True,
    )
    DEFAULT = WAV2VEC2_ASR_LARGE_LV60K_960H


class Wav2Vec2_XLSR_300M_Weights(WeightsEnum):
    """Weights of `models.wav2vec2_xlsr_300m`."""

    MMS_FA = _speech(
        "https://dl.fbaipublicfiles.com/mms/torchaudio/ctc_alignment_mling_uroman/model.pt",
        _FINE_TUNED,
        "Forced alignment of romanized text in over 1,100 languages (arXiv:2305.13516).",
        recipe=_FAIRSEQ + "mms",
        license="CC-BY-NC-4.0",
        labels="-aienoutsrmkldghybpwcvjzf'qx",
        normalize=True,
    )
    WAV2VEC2_XLSR53 = _speech(
        "wav2vec2_fairseq_large_xlsr53.pth",
        _NONE,
        "Pretrained on 56,000 hours of 53 languages (arXiv:2006.13979); gives features.",
        recipe=_FAIRSEQ + "wav2vec/xlsr",
        normalize=True,
    )
    WAV2VEC2_XLSR_300M = _speech(
        "wav2vec2_xlsr_300m.pth",
        _NONE,
        "Pretrained on 436,000 hours of 128 languages; gives features.",
        recipe=_FAIRSEQ + "wav2vec/xlsr",
        normalize=True,
    )
    DEFAULT = WAV2VEC2_XLSR_300M


class Wav2Vec2_XLSR_1B_Weights(WeightsEnum):
    """Weights of `models.wav2vec2_xlsr_1b`."""

    WAV2VEC2_XLSR_1B = _speech(
        "wav2vec2_xlsr_1b.pth",
        _PROJECTED,
        "Pretrained on 436,000 hours of 128 languages; gives features.",
        recipe=_FAIRSEQ + "wav2vec/xlsr",
        normalize=True,
    )
    DEFAULT = WAV2VEC2_XLSR_1B


class Wav2Vec2_XLSR_2B_Weights(WeightsEnum):
    """Weights of `models.wav2vec2_xlsr_2b`."""

    WAV2VEC2_XLSR_2B = _speech(
        "wav2vec2_xlsr_2b.pth",
        _PROJECTED,
        "Pretrained on 436,000 hours of 128 languages; gives features.",
        recipe=_FAIRSEQ + "wav2vec/xlsr",
        normalize=True,
    )
    DEFAULT = WAV2VEC2_XLSR_2B


class HuBERT_Base_Weights(WeightsEnum):
    """Weights of `models.hubert_base`."""

    HUBERT_BASE = _speech(
        "hubert_fairseq_base_ls960.pth",
        _BASE,
        "Pretrained on the 960 hours of LibriSpeech; gives features.",
        recipe=_FAIRSEQ + "hubert",
    )
    DEFAULT = HUBERT_BASE


class HuBERT_Large_Weights(WeightsEnum):
    """Weights of `models.hubert_large`."""

    HUBERT_ASR_LARGE = _speech(
        "hubert_fairseq_large_ll60k_asr_ls960.pth",
        _FINE_TUNED,
        "Pretrained on Libri-Light, fine-tuned on the 960 hours of LibriSpeech.",
        recipe=_FAIRSEQ + "hubert",
        labels=_LETTERS,
        normalize=True,
        wer=(1.57, -0.64, 1.77, 3.32, 2.03, 3.68),
    )
    HUBERT_LARGE = _speech(
        "hubert_fairseq_large_ll60k.pth",
        _NONE,
        "Pretrained on the 60,000 hours of Libri-Light; gives features.",
        recipe=_FAIRSEQ + "hubert",
        normalize=True,
    )
    DEFAULT = HUBERT_ASR_LARGE


class HuBERT_XLarge_Weights(WeightsEnum):
    """Weights of `models.hubert_xlarge`."""

    HUBERT_ASR_XLARGE = _speech(
        "hubert_fairseq_xlarge_ll60k_asr_ls960.pth",
        _FINE_TUNED,
        "Pretrained on Libri-Light, fine-tuned on the 960 hours of LibriSpeech.",
        recipe=_FAIRSEQ + "hubert",
        labels=_LETTERS,
        normalize=True,
        wer=(1.57, -0.64, 1.73, 2.72, 1.9, 3.16),
    )
    HUBERT_XLARGE = _speech(
        "hubert_fairseq_xlarge_ll60k.pth",
        _NONE,
        "Pretrained on the 60,000 hours of Libri-Light; gives features.",
        recipe=_FAIRSEQ + "hubert",
        normalize=True,
    )
    DEFAULT = HUBERT_ASR_XLARGE


class WavLM_Base_Weights(WeightsEnum):
    """Weights of `models.wavlm_base`."""

    WAVLM_BASE = _speech(
        "wavlm_base.pth",
        _BASE,
        "Pretrained on the 960 hours of LibriSpeech; gives features.",
        recipe=_WAVLM,
    )
    WAVLM_BASE_PLUS = _speech(
        "wavlm_base_plus.pth",
        _BASE,
        "Pretrained on 94,000 hours of Libri-Light, GigaSpeech and VoxPopuli; gives features.",
        recipe=_WAVLM,
    )
    DEFAULT = WAVLM_BASE_PLUS


class WavLM_Large_Weights(WeightsEnum):
    """Weights of `models.wavlm_large`."""

    WAVLM_LARGE = _speech(
        "wavlm_large.pth",
        _BASE,
        "Pretrained on 94,000 hours of Libri-Light, GigaSpeech and VoxPopuli; gives features.",
        recipe=_WAVLM,
        normalize=True,
    )
    DEFAULT = WAVLM_LARGE
