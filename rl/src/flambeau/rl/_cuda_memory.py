"""How much memory of a GPU is taken, and by which part of a program."""

from __future__ import annotations

import logging
from contextlib import ContextDecorator

import torch

Device = torch.device | int | str | None


def _has_memory(device: Device) -> bool:
    if not torch.cuda.is_available():
        return False
    return device is None or isinstance(device, int) or torch.device(device).type == "cuda"


def cuda_memory_stats(device: Device = None) -> dict[str, float]:
    """What is allocated and reserved, now and at most so far, in gigabytes (1e9 bytes); zeros for other devices.

    Args:
        device: the GPU; None for the current one.
    """
    names = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
    there = _has_memory(device)
    return {
        f"{name.replace('memory_', '')}_gb": getattr(torch.cuda, name)(device) / 1e9 if there else 0.0 for name in names
    }


def reset_cuda_peak_stats(device: Device = None) -> None:
    """Measure what is taken at most anew; nothing for other devices.

    Args:
        device: the GPU; None for the current one.
    """
    if _has_memory(device):
        torch.cuda.reset_peak_memory_stats(device)


def safe_is_current_stream_capturing() -> bool:
    """Whether a CUDA graph is being captured; false where there is no GPU."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


class cuda_memory_profile(ContextDecorator):  # upstream's name
    """Measures how much memory of a GPU a block or a function takes; zeros for other devices.

    Args:
        label: what to call it.
        device: the GPU; None for the current one.
        log: log it at the end.
        reset_peaks: measure what is taken at most from here on, not from the program's start.

    Example:
        >>> with cuda_memory_profile("a block", log=False) as profile:
        ...     pass
        >>> sorted(profile.stats)
        ['allocated_gb', 'max_allocated_gb', 'max_reserved_gb', 'reserved_gb']
    """

    def __init__(self, label: str, *, device: Device = None, log: bool = True, reset_peaks: bool = True) -> None:
        self.label, self.device, self.log, self.reset_peaks = label, device, log, reset_peaks
        self.stats: dict[str, float] = {}

    def clone(self) -> cuda_memory_profile:
        """One for another block."""
        return type(self)(self.label, device=self.device, log=self.log, reset_peaks=self.reset_peaks)

    def _recreate_cm(self) -> cuda_memory_profile:
        return self.clone()

    def __enter__(self) -> cuda_memory_profile:
        if self.reset_peaks:
            reset_cuda_peak_stats(self.device)
        self._before = cuda_memory_stats(self.device)
        return self

    def __exit__(self, *exception: object) -> None:
        self.stats = cuda_memory_stats(self.device)
        if self.log:
            more = self.stats["allocated_gb"] - self._before["allocated_gb"]
            logging.getLogger("flambeau.rl").info(
                "%s took %+.3f GB, and %.3f GB at most.", self.label, more, self.stats["max_allocated_gb"]
            )
