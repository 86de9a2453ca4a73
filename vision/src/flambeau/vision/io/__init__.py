"""Reading and writing images and videos as tensors."""

from __future__ import annotations

from flambeau.vision.io import image, video
from flambeau.vision.io.image import *
from flambeau.vision.io.video import *

__all__ = sorted([*image.__all__, *video.__all__])
