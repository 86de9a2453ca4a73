"""Switches of the whole process."""

from __future__ import annotations

__all__ = ["PROPOGATE_DEVICE", "get_propogate_device", "set_propogate_device"]

PROPOGATE_DEVICE = False


def set_propogate_device(val: bool) -> None:
    """Say whether shardings are made on the device they are given, and not on that of their process."""
    global PROPOGATE_DEVICE
    PROPOGATE_DEVICE = val


def get_propogate_device() -> bool:
    """Whether shardings are made on the device they are given."""
    return PROPOGATE_DEVICE
