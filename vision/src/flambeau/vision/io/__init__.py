"""Reading and writing images as tensors."""

from __future__ import annotations

from flambeau.vision.io.image import *
from flambeau.vision.io.image import __all__ as __all__
