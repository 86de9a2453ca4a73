"""A Flambeau plugin: a model of two spirals, their dataset, points as a tensor type, and a rotation of points.

Names are imported when they are first used; importing this package loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau_plugin_example.datasets import Spirals as Spirals
    from flambeau_plugin_example.models import SpiralNet as SpiralNet
    from flambeau_plugin_example.models import spiral_net as spiral_net
    from flambeau_plugin_example.ops import rotate as rotate
    from flambeau_plugin_example.tensor_types import Points as Points
    from flambeau_plugin_example.weights import SpiralNet_Weights as SpiralNet_Weights

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "datasets": ("Spirals",),
        "models": ("SpiralNet", "spiral_net"),
        "ops": ("rotate",),
        "tensor_types": ("Points",),
        "weights": ("SpiralNet_Weights",),
    },
)
