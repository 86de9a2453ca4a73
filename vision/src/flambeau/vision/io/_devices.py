"""What is told when something for a device is decoded elsewhere."""

from __future__ import annotations

import warnings

import torch

_noticed: set[str] = set()


def notice_cpu_decoding(device: torch.device, what: str) -> None:
    """Warn, once in a process for each kind of device and of input, that the CPU decodes.

    Args:
        device: where the result was wanted.
        what: is decoded, as a subject: "Images".
    """
    key = f"{what}:{device.type}"
    if key not in _noticed:
        _noticed.add(key)
        warnings.warn(
            f"{what} for {device} are decoded by the CPU and copied: no decoder of that device is at hand.",
            stacklevel=4,
        )
