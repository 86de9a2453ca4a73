"""Chains of effects by their names in SoX.

What `functional` has is computed here, on any machine; what else SoX knows goes through the program `sox` by pipes, in
as few runs as the chain allows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.audio.sox_effects import _program
from flambeau.audio.sox_effects._arguments import NotOursError, SoxEffectError
from flambeau.audio.sox_effects._native_effects import HALF_OWN, OWN
from flambeau.core.errors import close_names

__all__ = [
    "apply_effects_file",
    "apply_effects_tensor",
    "effect_names",
    "init_sox_effects",
    "shutdown_sox_effects",
]


def init_sox_effects() -> None:
    """Do nothing: there is no state to prepare. Upstream: had to be called before effects."""


def shutdown_sox_effects() -> None:
    """Do nothing: there is no state to give back. Upstream: effects failed afterwards."""


def effect_names() -> list[str]:
    """Names of the effects that work here, sorted; more of them where the program `sox` is installed.

    Example:
        >>> "lowpass" in effect_names()
        True
    """
    there = _program.known_effects()
    return sorted({*(OWN if there else OWN.keys() - HALF_OWN), *there})


# How many steps an integer dtype has above 0, and where its 0 is.
_SCALES = {torch.uint8: (2**7, 2**7), torch.int16: (2**15, 0), torch.int32: (2**31, 0)}


def apply_effects_tensor(
    tensor: Tensor, sample_rate: int, effects: list[list[str]], channels_first: bool = True
) -> tuple[Tensor, int]:
    """Apply a chain of effects. Samples are kept in float64 between effects, and cut to [-1, 1] where SoX cuts them.

    Args:
        tensor: (channel, time), or (time, channel) unless `channels_first`; float32 or float64 in [-1, 1], int32, int16
            or uint8. On the CPU.
        sample_rate: Hz.
        effects: name and arguments of each, for example [["lowpass", "800"], ["speed", "1.1"], ["rate", "16000"]].
        channels_first: layout of `tensor` and of the result.

    Returns:
        The sound, in the dtype of `tensor`, and its rate in whole Hz. Upstream: `speed` and `pitch` change the rate
        with the pitch; let `rate` follow. What `stat` and `stats` have to say goes to the log, as SoX's warnings do.

    Raises:
        RuntimeError: an effect that does not exist or that needs a program which is not there, arguments it does not
            take, or a tensor of another kind. Upstream's class; the message is that of `sox` where it has one.

    Example:
        >>> apply_effects_tensor(torch.tensor([[0.1, 0.2, 0.3]]), 8000, [["reverse"], ["vol", "2"]])
        (tensor([[0.6000, 0.4000, 0.2000]]), 8000)
    """
    if tensor.ndim != 2 or not tensor.is_cpu:
        raise SoxEffectError(
            f"tensor has shape {tuple(tensor.shape)} on {tensor.device}, expected (channel, time) on the CPU."
        )
    scale, zero = _scale(tensor.dtype)
    waveform = (tensor.detach() if channels_first else tensor.detach().t()).to(torch.float64)
    waveform, rate = _apply((waveform - zero) / scale, float(sample_rate), [list(effect) for effect in effects])
    if tensor.dtype in _SCALES:
        limits = torch.iinfo(tensor.dtype)
        waveform = (waveform * scale + zero).round().clamp(limits.min, limits.max)
    waveform = waveform.to(tensor.dtype)
    # Upstream: a rate's fraction is cut off; what floating point lacks to the next whole number is none.
    return (waveform if channels_first else waveform.t()).contiguous(), int(rate + 1e-6)


def _scale(dtype: torch.dtype) -> tuple[int, int]:
    if dtype in (torch.float32, torch.float64):
        return 1, 0
    if dtype not in _SCALES:
        raise SoxEffectError(f"tensor has dtype {dtype}, expected float32, float64, int32, int16 or uint8; convert it.")
    return _SCALES[dtype]


def apply_effects_file(
    path: str,
    effects: list[list[str]],
    normalize: bool = True,
    channels_first: bool = True,
    format: str | None = None,
) -> tuple[Tensor, int]:
    """Load a file and apply a chain of effects to it.

    Args:
        path: of a file that `flambeau.audio.load` can read; a file object too.
        effects: see `apply_effects_tensor`.
        normalize: whether the result is float32 in [-1, 1]; else it has the dtype of the file, where it is WAV.
        channels_first: whether the result is (channel, time), else (time, channel).
        format: of the file, where its name does not tell.

    Returns:
        The sound and its rate.

    Raises:
        RuntimeError: as `apply_effects_tensor`, and as `load`.
    """
    from flambeau.audio import load

    waveform, rate = load(path, normalize=normalize, channels_first=True, format=format)
    result, rate = apply_effects_tensor(waveform, rate, effects)
    return (result if channels_first else result.t().contiguous()), rate


def _apply(waveform: Tensor, rate: float, effects: list[list[str]]) -> tuple[Tensor, float]:
    """One effect after the other; those for the program are gathered until one of ours comes."""
    waiting: list[list[str]] = []
    for effect in effects:
        _refuse_unknown(effect)
        name, *arguments = effect
        if waiting and name in OWN:
            waveform, rate = _program.run(waveform, rate, waiting)
            waiting = []
        if name not in OWN:
            waiting.append(effect)
            continue
        try:
            waveform, rate = OWN[name](arguments, waveform, rate)
        except NotOursError:
            waiting.append(effect)
        except ValueError as error:
            raise SoxEffectError(f"{' '.join(effect)}: {error}") from error
    return _program.run(waveform, rate, waiting) if waiting else (waveform, rate)


def _refuse_unknown(effect: list[str]) -> None:
    if not effect or not all(isinstance(word, str) for word in effect):
        raise SoxEffectError(
            f"an effect is {effect!r}, expected a list of its name and its arguments, all of them strings."
        )
    known = effect_names()
    if effect[0] in known:
        return
    near = close_names(effect[0], known)
    hint = f" Close names: {', '.join(near)}." if near else ""
    without = "" if _program.program() else " More effects are there where the program `sox` is installed."
    raise SoxEffectError(f"Unsupported effect: {effect[0]}.{hint}{without}")
