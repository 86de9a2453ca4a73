"""Inputs of the operators behind `functional`, and of what calls them, for the conformance kit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from flambeau.audio import functional as F
from flambeau.core.testing import Sample


def op_samples() -> Iterator[Sample]:
    """Functions with the inputs that users give, then each operator by itself."""
    wave, stereo = _noise(40), _noise(2, 40)
    a, b = torch.tensor([1.0, -0.5, 0.25]), torch.tensor([0.6, 0.3, -0.2])
    smooth = partial(Sample, batched=(0,), differentiable=(0,))
    yield Sample(
        "lfilter", F.lfilter, (wave, a, b), {"clamp": False}, batched=(0,), differentiable=(0, 1, 2),
        empty=(wave[:0], a, b),
    )  # fmt: skip
    yield smooth("phaser", F.phaser, (wave, 2000), empty=(wave[:0], 2000))
    yield smooth("flanger", F.flanger, (stereo, 2000), empty=(stereo[:, :0], 2000))
    yield Sample("detect_pitch_frequency", F.detect_pitch_frequency, (_noise(6000), 16000), batched=(0,))
    logits, targets, *lengths = _transducer()
    yield Sample("rnnt_loss", F.rnnt_loss, (logits, targets, *lengths), {"blank": 0}, differentiable=(0,))
    yield Sample("forced_align", F.forced_align, (logits.flatten(1, 2).log_softmax(-1), targets))
    yield from _operators()


def _operators() -> Iterator[Sample]:
    rows, wide = _noise(2, 30), _noise(1, 2, 30).double()
    coefficients = torch.tensor([[1.0, -0.5], [1.0, 0.3]], dtype=torch.float64)
    yield _operator("lfilter", wide, coefficients, coefficients, dtypes=("float64",))
    steps = torch.tensor([1, 4, 2])
    delays = torch.tensor([[0.5, 1.0, 2.25], [3.0, 0.0, 1.5]], dtype=torch.float64)
    for direction in ("", "_backward"):
        yield _operator(f"modulated_echo{direction}", rows, steps, 0.5)
        yield _operator(f"modulated_tap{direction}", wide, delays, 0.5, True, dtypes=("float64",))
    yield _operator("nccf", _noise(2, 400), 100, 37, rtol=1e-4, atol=1e-5)
    given, options = _transducer(), (0, True, -1.0)
    costs, normalisers, alphas = torch.ops.flambeau_audio.rnnt_loss(*given, *options)
    yield _operator("rnnt_loss", *given, *options)
    yield _operator("rnnt_loss_backward", torch.ones(2), *given, normalisers, alphas, costs, *options)
    log_probs, targets = given[0].flatten(1, 2).log_softmax(-1), given[1]
    sizes = torch.tensor([12, 12]), torch.tensor([2, 2])
    yield _operator("forced_align", log_probs, targets, *sizes, 0, 2**20)


def _operator(name: str, *args: Any, **promises: Any) -> Sample:
    call = getattr(torch.ops.flambeau_audio, name)
    return Sample(f"{name}, the operator", call, args, operator=f"flambeau_audio::{name}", **promises)


def _transducer() -> tuple[Tensor, ...]:
    """Logits, targets and lengths of two items."""
    targets = torch.tensor([[1, 2], [4, 1]], dtype=torch.int32)
    lengths = torch.tensor([4, 3], dtype=torch.int32), torch.tensor([2, 1], dtype=torch.int32)
    return (5 * _noise(2, 4, 3, 5), targets, *lengths)


def _noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 0.2
