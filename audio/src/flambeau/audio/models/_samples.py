"""Small inputs of every registered model, for the conformance kit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.core.testing.results import NotApplicable

__all__ = ["as_batch", "example_inputs", "expected_failures", "model_config", "raw_input"]

_DROPOUT = "its prenet drops values at inference too, as the paper wants, so that no two runs are equal"
_MASKED = "its masks are random, and its output has one row per masked frame"
_UNREAD = "published checkpoints have a norm in the innermost layer of the waveform's branch, which nothing reads"
_REPEATING = ("batch-sizes", "eval-deterministic", "moves-dtype-and-device", "compiles", "exports")
expected_failures = {
    # All but the digit recogniser, whose file is our own.
    "weights-metadata:audio/[!d]*": "upstream publishes no checksums of these files, and no sizes",
    **{f"{check}:audio/tacotron2": _DROPOUT for check in _REPEATING},
    **{f"{check}:audio/hubert_pretrain_*": _MASKED for check in _REPEATING},
    **{f"gradients-reach-parameters:audio/hdemucs_{size}": _UNREAD for size in ("medium", "high")},
}
_SOURCES = ["drums", "bass", "other", "vocals"]


def model_config(model_name: str) -> dict[str, Any]:
    """Arguments that builders cannot do without."""
    if model_name == "emformer_rnnt_base":
        return {"num_symbols": 33}
    return {"sources": _SOURCES} if model_name.startswith("hdemucs") else {}


def example_inputs(model_name: str, batch: int) -> tuple[Tensor, ...]:
    """A batch of short recordings, or of what else a model takes; the same each time."""

    def random(*shape: int) -> Tensor:
        return 0.1 * torch.randn(batch, *shape, generator=torch.Generator().manual_seed(len(shape)))

    def tokens(count: int) -> Tensor:
        return torch.arange(count).expand(batch, -1) % 7

    def full(length: int) -> Tensor:
        return torch.full((batch,), length)

    match model_name:
        case "emformer_rnnt_base":
            return random(36, 80), full(32), tokens(3).int(), full(3)
        case "digit_recognizer":
            return random(36, 40), full(32), tokens(3).int(), full(3)
        case "conformer_rnnt_base":
            return random(32, 80), full(32), tokens(3).int(), full(3)
        case "conformer_wav2vec2_base":
            return (random(16, 64),)
        case "emformer_hubert_base":
            return (random(36, 80),)
        case "conv_tasnet_base":
            return (random(1, 800),)
        case "tacotron2":
            return tokens(5), full(5), random(80, 4), full(4)
        case "wavernn":
            return random(1, 2 * 275), random(1, 80, 6)
        case "squim_subjective_base":
            return random(1600), random(1000)
        case "vggish":
            return (random(1, 96, 64),)
    if model_name.startswith("hdemucs"):
        return (random(2, 16384),)
    if model_name.startswith("hifigan"):
        return (random(80, 6),)
    if model_name.startswith("hubert_pretrain"):
        return random(8000), tokens(24)
    return (random(1600),)


def raw_input(model_name: str) -> tuple[Any, ...]:
    """What the transforms of a model's weights take."""
    noise = 0.1 * torch.randn(2, 17000, generator=torch.Generator().manual_seed(0))
    if model_name in ("emformer_rnnt_base", "tacotron2"):
        raise NotApplicable("its transforms fetch statistics or a dictionary.")
    if model_name == "wavernn":
        return (noise[:1, :480].reshape(80, 6),)
    if model_name.startswith("hifigan"):
        return (noise[:1, :8192],)
    if model_name in ("vggish", "digit_recognizer"):
        return (noise[0],)
    if model_name.startswith("hdemucs"):
        return (noise, 44100)
    return (noise[:, :3200], 8000 if model_name == "conv_tasnet_base" else 16000)


def as_batch(model_name: str, transformed: Tensor) -> tuple[Tensor, ...]:
    """What transforms gave, as inputs of the model."""
    if model_name == "wavernn":
        return torch.zeros(1, 1, 2 * 275), transformed[None, None]
    if model_name == "vggish" or model_name.startswith("hifigan"):
        return (transformed,)
    if model_name == "squim_subjective_base":
        return transformed[None], transformed[None]
    if model_name == "digit_recognizer":
        return transformed[None], torch.tensor([len(transformed) - 4]), torch.tensor([[10, 3]]), torch.tensor([2])
    return (transformed[None],)
