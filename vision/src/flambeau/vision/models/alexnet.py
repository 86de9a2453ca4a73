"""AlexNet: five convolutions and three linear layers, in the variant for one device.

References:
    Krizhevsky 2014, One weird trick for parallelizing convolutional neural networks, arXiv:1404.5997, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import build_classifier, handle_legacy_interface
from flambeau.vision.weights.alexnet import AlexNet_Weights

__all__ = ["AlexNet", "AlexNet_Weights", "alexnet"]


class AlexNet(nn.Module):
    """Convolutions, pooling to 6x6 whatever the size of the picture, and a perceptron with dropout.

    Args:
        num_classes: size of the output.
        dropout: probability to drop an input of the first two linear layers.

    Shape:
        (N, 3, H, W), floating point, H and W at least 63 -> (N, num_classes), logits.
    """

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, 3, H, W) to logits (N, num_classes)."""
        logits: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
        return logits


@register_model(task="image-classification", tags=("imagenet",), head="classifier.6", stem="features.0")
@handle_legacy_interface(weights=("pretrained", AlexNet_Weights.IMAGENET1K_V1))
def alexnet(*, weights: AlexNet_Weights | None = None, progress: bool = True, **kwargs: Any) -> AlexNet:
    """AlexNet (Krizhevsky 2014, arXiv:1404.5997).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: passed to `AlexNet`; `device` and `dtype` place the weights without a copy in between.
    """
    return build_classifier(AlexNet, AlexNet_Weights.verify(weights), progress=progress, **kwargs)
