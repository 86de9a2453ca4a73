"""Whether there is an NVIDIA GPU."""

from __future__ import annotations

__all__ = ["has_cuda_devices"]


def has_cuda_devices() -> bool:
    """Whether torch sees at least one CUDA device; asking starts no CUDA context."""
    import torch

    return torch.cuda.is_available() and torch.cuda.device_count() > 0
