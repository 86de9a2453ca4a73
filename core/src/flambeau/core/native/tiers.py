"""Which tiers may serve in this process: what the user chose, and which torch is there."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Tier = Literal["dispatcher", "ctypes", "python"]

logger = logging.getLogger("flambeau.native")

# libtorch's C interface is used as is within these versions; beyond, only when FLAMBEAU_NATIVE=dispatcher asks for it.
TESTED_TORCH = ((2, 8), (2, 13))

_CHOICES: dict[str, tuple[Tier, ...]] = {
    "auto": ("dispatcher", "ctypes", "python"),
    "dispatcher": ("dispatcher", "ctypes", "python"),
    "ctypes": ("ctypes", "python"),
    "off": ("python",),
}


def choice() -> str:
    """`FLAMBEAU_NATIVE`, or `auto` where it is not set or not understood: a typing error must not break an import."""
    value = os.environ.get("FLAMBEAU_NATIVE", "").strip().lower() or "auto"
    if value not in _CHOICES:
        logger.warning("FLAMBEAU_NATIVE is %r, expected one of %s; 'auto' is used.", value, ", ".join(_CHOICES))
        return "auto"
    return value


def wanted() -> tuple[Tier, ...]:
    """The tiers to try, best first."""
    return _CHOICES[choice()]


def torch_version(text: str) -> tuple[int, int]:
    """Major and minor number of a version such as `2.13.0+cpu` or `2.9.0a0+git1234`."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def dispatcher_objection(version: str) -> str:
    """Why the dispatcher tier stays unused with this torch; empty when it may be used."""
    oldest, newest = TESTED_TORCH
    if choice() == "dispatcher" or oldest <= torch_version(version) <= newest:
        return ""
    return (
        f"torch {version} is outside {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}, the versions whose C "
        "interface is tested; FLAMBEAU_NATIVE=dispatcher uses it all the same"
    )


def libtorch_path() -> Path:
    """The shared library that holds torch's CPU operators and its C interface."""
    import torch

    name = {"win32": "torch_cpu.dll", "darwin": "libtorch_cpu.dylib"}.get(sys.platform, "libtorch_cpu.so")
    return Path(torch.__file__).parent / "lib" / name
