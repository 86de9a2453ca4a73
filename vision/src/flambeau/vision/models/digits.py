"""A tiny classifier of handwritten digits: small enough to ship with its weights inside the package.

Three convolutions and one linear layer on pictures of 8x8 pixels, 66,154 parameters; after LeCun et al. 1998,
Gradient-Based Learning Applied to Document Recognition (LeNet-5), with batch normalization (arXiv:1502.03167).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.core.weights import build_with_weights
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import _ovewrite_named_param
from flambeau.vision.weights.digits import DigitCNN_Weights

__all__ = ["DigitCNN", "DigitCNN_Weights", "digit_cnn"]


class DigitCNN(nn.Module):
    """Convolutions of 32, 64 and 64 channels with one pooling between them, dropout, a linear layer.

    Args:
        num_classes: size of the output.
        dropout: probability of dropping a feature before the linear layer, in training.

    Shape:
        (N, 1, 8, 8), floating point: ink from 0 (paper) to 1 -> (N, num_classes), logits.
    """

    def __init__(self, num_classes: int = 10, dropout: float = 0.3) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_convolution(1, 32), *_convolution(32, 64), nn.MaxPool2d(2), *_convolution(64, 64)
        )
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(64 * 4 * 4, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map pictures (N, 1, 8, 8) to logits (N, num_classes)."""
        logits: Tensor = self.classifier(self.dropout(torch.flatten(self.features(x), 1)))
        return logits


def _convolution(in_channels: int, out_channels: int) -> tuple[nn.Module, ...]:
    """3x3 convolution that keeps the size, normalization, rectification."""
    return (
        nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )


@register_model(task="image-classification", tags=("embedded", "digits"), head="classifier", stem="features.0")
def digit_cnn(*, weights: DigitCNN_Weights | None = None, progress: bool = True, **kwargs: Any) -> DigitCNN:
    """Classifier of handwritten digits.

    Args:
        weights: pretrained weights, which are part of the package, their name, or None for random initialization.
        progress: accepted as every builder does; there is nothing to download.
        **kwargs: passed to `DigitCNN`; `device` and `dtype` place the weights without a copy in between.
    """
    weights = DigitCNN_Weights.verify(weights)
    if weights is not None:
        _ovewrite_named_param(kwargs, "num_classes", len(weights.meta["categories"]))
    return build_with_weights(DigitCNN, weights, progress=progress, **kwargs)
