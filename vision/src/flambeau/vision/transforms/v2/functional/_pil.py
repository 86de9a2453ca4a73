"""Telling PIL images apart without importing Pillow."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from PIL import Image


def is_pil(value: object) -> TypeGuard[Image.Image]:
    """Whether `value` is a PIL image; where Pillow has not been imported, nothing is."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)
