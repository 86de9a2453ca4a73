"""Predictors: what `flambeau predict` does with recordings."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import PredictError
from flambeau.core.predict import Prediction, PredictOptions

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from flambeau.core.weights import WeightsEnum

__all__ = ["transcribe"]

_BEAM = 10


def transcribe(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Write down what a recording says; see `flambeau.core.predict.Predictor`.

    Args:
        source: path of a recording.
        model: a transducer, or a network that gives (N, frames, labels).
        weights: its preprocessing, and in `meta` the `tokens` of a small transducer, the `sentencepiece` model of a
            large one, or the `labels` of a network.
        device: where the model is.
        dtype: of the waveform.
        options: not used; there is one answer.

    Returns:
        Rows of `seconds`, when the word was heard, and `text`: one a word for `tokens`, else one for the recording.
        The picture shows the recording, its spectrogram, and the words at their times; it needs Pillow.

    Raises:
        PredictError: the file is no recording, or the weights recognise nothing.
    """
    from flambeau.audio import load

    try:
        waveform, rate = load(source)
    except (OSError, RuntimeError, ValueError) as error:
        raise PredictError(f"{source} cannot be read as a recording: {error}") from error
    meta = weights.meta
    if "tokens" in meta:
        rows = list(_by_stream(model, weights, waveform, rate))
    elif "labels" in meta or "sentencepiece" in meta:
        mono = _at_rate(waveform.mean(0), rate, meta["sample_rate"]).to(device=device, dtype=dtype)
        text = (_by_frames if "labels" in meta else _by_search)(model, weights, mono)
        rows = [{"seconds": 0.0, "text": text}]
    else:
        raise PredictError(f"{weights!r} gives no text; weights whose record has labels or tokens recognise speech.")
    heard = " ".join(row["text"] for row in rows)
    return Prediction(
        rows,
        ("seconds", "text"),
        f"{heard!r}, heard in {source} by {weights!r}",
        draw=functools.partial(_draw, waveform.mean(0), rate, rows),
    )


def _draw(waveform: Tensor, rate: int, rows: list[dict[str, Any]], path: Path) -> None:
    from flambeau.audio._answer_picture import draw_recording

    draw_recording(waveform, rate, [(row["seconds"], row["text"]) for row in rows], path)


def _at_rate(waveform: Tensor, rate: int, wanted: int) -> Tensor:
    from flambeau.audio.functional import resample

    return waveform if rate == wanted else resample(waveform, rate, wanted)


def _by_stream(model: Any, weights: WeightsEnum, waveform: Tensor, rate: int) -> Iterator[dict[str, Any]]:
    """As if it were heard live, so that each word has the time at which it was understood."""
    from flambeau.audio.recognition import Recognizer

    features: Any = weights.transforms()
    recognizer = Recognizer(model, features, weights.meta["tokens"])
    mono = _at_rate(waveform.mean(0), rate, features.sample_rate)
    step = recognizer.segment * features.hop_length
    times: list[float] = []
    before: list[str] = []
    with recognizer.stream() as stream:
        for number, chunk in enumerate(mono.split(step), 1):
            words = stream.accept(chunk)
            same = next((i for i, (a, b) in enumerate(zip(words, before, strict=False)) if a != b), len(before))
            times = times[: min(same, len(words))] + [number * step / features.sample_rate] * (len(words) - same)
            before = words
        words = stream.finish()
    times += [len(mono) / features.sample_rate] * (len(words) - len(times))
    for second, word in zip(times, words, strict=False):
        yield {"seconds": round(min(second, len(mono) / features.sample_rate), 2), "text": word}


def _by_frames(model: Any, weights: WeightsEnum, waveform: Tensor) -> str:
    """The likeliest label of each frame, repetitions and blanks left out."""
    labels = weights.meta["labels"]
    emission, _ = model(weights.transforms()(waveform[None]))
    best = emission[0].argmax(-1).unique_consecutive().tolist()
    return "".join(labels[index] for index in best if index != 0).replace("|", " ").strip()


def _by_search(model: Any, weights: WeightsEnum, waveform: Tensor) -> str:
    from flambeau.audio.models import RNNTBeamSearch
    from flambeau.audio.pipelines._files import asset
    from flambeau.audio.pipelines.rnnt_pipeline import _SentencePieceTokenProcessor

    features, length = weights.transforms()(waveform)
    best = RNNTBeamSearch(model, weights.meta["blank"])(features, length, _BEAM)[0]
    return _SentencePieceTokenProcessor(asset(weights.meta["sentencepiece"]))(best[0])
