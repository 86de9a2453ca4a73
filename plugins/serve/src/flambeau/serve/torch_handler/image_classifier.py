"""The handler `image_classifier`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.serve.torch_handler.vision_handler import VisionHandler, to_tensor
from flambeau.serve.utils.util import map_class_to_label

__all__ = ["ImageClassifier"]

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet


class ImageClassifier(VisionHandler):
    """The five most probable classes of a picture, `{label: probability}`; `topk` is another number of them."""

    topk = 5

    def image_processing(self, image: Any) -> Tensor:
        """Shorter side 256, the middle 224 by 224, ImageNet's mean and deviation."""
        return normalized(center_crop(resized(image, 256), 224))

    def set_max_result_classes(self, topk: int) -> None:
        """How many classes to answer."""
        self.topk = topk

    def get_max_result_classes(self) -> int:
        """How many classes are answered."""
        return self.topk

    def postprocess(self, data: Any) -> list[Any]:
        """Labels and probabilities, most probable first."""
        probabilities, classes = torch.topk(torch.softmax(data, 1), min(self.topk, data.shape[1]), dim=1)
        return map_class_to_label(probabilities.tolist(), self.mapping, classes.tolist())


def resized(image: Any, shorter: int) -> Any:
    """A picture whose shorter side has so many pixels; bilinear."""
    from PIL import Image

    width, height = image.size
    if width <= height:
        size = shorter, int(shorter * height / width)
    else:
        size = int(shorter * width / height), shorter
    return image.resize(size, Image.Resampling.BILINEAR)


def center_crop(image: Any, side: int) -> Any:
    """The middle of a picture."""
    width, height = image.size
    left, top = round((width - side) / 2.0), round((height - side) / 2.0)
    return image.crop((left, top, left + side, top + side))


def normalized(image: Any) -> Tensor:
    """A picture as the models of ImageNet take it."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (_MEAN, _STD))
    return (to_tensor(image) - mean) / std
