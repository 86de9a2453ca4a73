"""A small network that tells on which of two intertwined spirals a point lies."""

from __future__ import annotations

from typing import Any

from flambeau.core import build_with_weights, register_model
from torch import Tensor, nn

from flambeau_plugin_example.weights import SpiralNet_Weights

__all__ = ["SpiralNet", "SpiralNet_Weights", "spiral_net"]


class SpiralNet(nn.Module):
    """Two hidden layers with tanh, after Lang and Witbrock 1988, Learning to Tell Two Spirals Apart.

    Args:
        num_classes: size of the output.
        width: size of the hidden layers.

    Shape:
        (..., 2), floating point, coordinates in [-1, 1] -> (..., num_classes), logits.
    """

    def __init__(self, num_classes: int = 2, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.classifier = nn.Linear(width, num_classes)

    def forward(self, points: Tensor) -> Tensor:
        """Map points (..., 2) to logits (..., num_classes)."""
        logits: Tensor = self.classifier(self.features(points))
        return logits


@register_model(task="point-classification", tags=("embedded",), head="classifier")
def spiral_net(*, weights: SpiralNet_Weights | None = None, progress: bool = True, **kwargs: Any) -> SpiralNet:
    """Build a `SpiralNet`.

    Args:
        weights: pretrained weights or their name; None for random ones.
        progress: show a download, if there is one.
        **kwargs: passed to `SpiralNet`.
    """
    weights = SpiralNet_Weights.verify(weights)
    if weights is not None:
        kwargs.setdefault("num_classes", len(weights.meta["categories"]))
    return build_with_weights(SpiralNet, weights, progress=progress, **kwargs)
