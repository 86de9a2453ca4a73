"""Transforms of images, and the preprocessing that pretrained models expect.

Importing this package imports no torch; the names below load when they are first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.transforms import functional as functional
    from flambeau.vision.transforms import v2 as v2
    from flambeau.vision.transforms._interpolation import InterpolationMode as InterpolationMode

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"_interpolation": ("InterpolationMode",)},
    submodules=("_functional_pil", "_functional_tensor", "_presets", "functional", "v2"),
)
