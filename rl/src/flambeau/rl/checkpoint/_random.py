"""`GlobalRNGState`: the state of the process's random number generators."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

__all__ = ["GlobalRNGState"]


class GlobalRNGState:
    """The generators of Python, NumPy, torch, and of accelerators that were used, as a component of a checkpoint.

    Example:
        >>> state = GlobalRNGState().state_dict()
        >>> first = torch.rand(2)
        >>> GlobalRNGState().load_state_dict(state)
        >>> bool((torch.rand(2) == first).all())
        True
    """

    def state_dict(self) -> dict[str, Any]:
        """The generators' states: "python", "numpy", "torch_cpu", and one for each kind of accelerator."""
        state: dict[str, Any] = {
            "python": random.getstate(),
            "torch_cpu": torch.get_rng_state(),
            "numpy": np.random.get_state(),
        }
        for name in ("cuda", "xpu", "mps"):
            module = getattr(torch, name, None)
            if module is not None and torch.get_device_module(name).is_available() and _used(module):
                state[name] = (
                    module.get_rng_state_all() if hasattr(module, "get_rng_state_all") else module.get_rng_state()
                )
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Set the generators; those of accelerators that are not here are left out.

        Args:
            state_dict: what `state_dict` gave.
        """
        if "python" in state_dict:
            version, numbers, gauss = state_dict["python"]
            random.setstate((version, tuple(numbers), gauss))
        if "numpy" in state_dict:
            np.random.set_state(state_dict["numpy"])
        if "torch_cpu" in state_dict:
            torch.set_rng_state(state_dict["torch_cpu"].cpu())
        for name in ("cuda", "xpu", "mps"):
            if name not in state_dict or not torch.get_device_module(name).is_available():
                continue
            module, states = getattr(torch, name), state_dict[name]
            if isinstance(states, (list, tuple)):
                module.set_rng_state_all([each.cpu() for each in states])
            else:
                module.set_rng_state(states.cpu())


def _used(module: Any) -> bool:
    """Whether an accelerator was begun with; asking for its state would begin it."""
    initialized = getattr(module, "is_initialized", None)
    return True if initialized is None else bool(initialized())
