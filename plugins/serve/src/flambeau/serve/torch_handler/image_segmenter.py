"""The handler `image_segmenter`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.serve.torch_handler.image_classifier import center_crop, normalized, resized
from flambeau.serve.torch_handler.vision_handler import VisionHandler

__all__ = ["ImageSegmenter"]


class ImageSegmenter(VisionHandler):
    """For each pixel its class and the class's probability: (height, width, 2) as nested lists."""

    def image_processing(self, image: Any) -> Tensor:
        """Shorter side 256, the middle 224 by 224, ImageNet's mean and deviation."""
        return normalized(center_crop(resized(image, 256), 224))

    def postprocess(self, data: Any) -> list[Any]:
        """Classes and probabilities of the model's output `out` (N, classes, H, W)."""
        probabilities, classes = torch.softmax(data["out"], 1).max(1)
        return list(torch.stack([classes.type(data["out"].dtype), probabilities], 3).tolist())
