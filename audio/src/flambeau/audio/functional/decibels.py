"""Amplitudes and powers to decibels, and back."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["DB_to_amplitude", "amplitude_to_DB"]


def amplitude_to_DB(
    x: Tensor, multiplier: float, amin: float, db_multiplier: float, top_db: float | None = None
) -> Tensor:
    """Express amplitudes or powers in decibels.

    ::

        multiplier * (log10(max(x, amin)) - db_multiplier)

    Args:
        x: (freq, time), (channel, freq, time) or (..., batch, channel, freq, time), real.
        multiplier: 10 for powers, 20 for amplitudes.
        amin: what smaller values are raised to, > 0.
        db_multiplier: log10 of the value that is to become 0 dB.
        top_db: raise what lies more than so many dB below the largest value of its example, that is of the last
            three dimensions; None for no limit.

    Returns:
        Like `x`, in dB.
    """
    decibels = multiplier * torch.log10(torch.clamp(x, min=amin)) - multiplier * db_multiplier
    if top_db is None or decibels.numel() == 0:
        return decibels
    example = tuple(range(-min(x.dim(), 3), 0))
    return torch.maximum(decibels, decibels.amax(example, keepdim=True) - top_db)


def DB_to_amplitude(x: Tensor, ref: float, power: float) -> Tensor:
    """Undo decibels: `ref * (10 ** (0.1 * x)) ** power`.

    Args:
        x: any shape, in dB.
        ref: what 0 dB becomes.
        power: 1 for powers, 0.5 for amplitudes.

    Returns:
        Like `x`.
    """
    return ref * torch.pow(torch.pow(10.0, 0.1 * x), power)
