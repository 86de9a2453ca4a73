"""Moving samples into page-locked memory, from where they are copied to an accelerator without waiting."""

from __future__ import annotations

from typing import Any


def pin_memory_fn(data: Any, device: Any = None) -> Any:
    """A sample with every tensor in it pinned; containers of any kind keep theirs.

    Args:
        data: a tensor, something with `pin_memory()`, or a container of them.
        device: kept for upstream's signature; torch pins for the current accelerator.
    """
    from torch.utils.data._utils.pin_memory import pin_memory

    return pin_memory(data)
