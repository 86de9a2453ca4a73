"""Computer vision for PyTorch: models with pretrained weights, transforms, operators, datasets, image and video input.

Importing this package imports neither torch nor Pillow; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision import datasets, io, models, ops, transforms, tv_tensors, utils, weights
    from flambeau.vision._backends import *

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_backends": (
            "disable_beta_transforms_warning",
            "get_image_backend",
            "get_video_backend",
            "set_image_backend",
            "set_video_backend",
        ),
    },
    submodules=("datasets", "io", "models", "ops", "transforms", "tv_tensors", "utils", "weights"),
)
