"""Items in page-locked memory, which copies to an accelerator without waiting."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from flambeau.data.nodes.base_node import BaseNode, T
from flambeau.data.nodes.prefetch import OneThread, _same


class PinMemory(OneThread[T]):
    """Items with their tensors copied to page-locked memory, by one thread.

    Where there is no accelerator the items pass unchanged, with a warning.

    Args:
        source: node of tensors, or of structures that hold tensors or objects with a `pin_memory` method.
        pin_memory_device: the accelerator's name; "" is the present one.
        snapshot_frequency: read this many items between two snapshots of the source, > 0.
    """

    def __init__(self, source: BaseNode[T], pin_memory_device: str = "", snapshot_frequency: int = 1) -> None:
        here = torch.accelerator.is_available()
        super().__init__(source, _Pin(pin_memory_device) if here else _same, 1, snapshot_frequency)
        self.pin_memory_device = pin_memory_device
        if not here:
            warnings.warn(
                "PinMemory: there is no accelerator here, so items stay in ordinary memory.", UserWarning, stacklevel=2
            )


class _Pin:
    """Pins one item. No method of the node: a thread that held the node would keep it alive."""

    def __init__(self, device: str) -> None:
        self._device = device or None
        self._index = torch.accelerator.current_device_index()

    def __call__(self, item: Any) -> Any:
        if torch.accelerator.current_device_index() != self._index:  # a thread starts on the first device
            torch.accelerator.set_device_index(self._index)
        return pin_memory(item, self._device)
