"""Typical user code, which must type-check as it stands; it is never run."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor
from torch.utils.data import DataLoader

from flambeau.vision.datasets import CIFAR10, ImageFolder
from flambeau.vision.io import ImageReadMode, decode_image
from flambeau.vision.models import ResNet, ResNet50_Weights, get_model, list_models, resnet50
from flambeau.vision.ops import nms
from flambeau.vision.tv_tensors import Image


def classify(path: Path) -> str:
    weights = ResNet50_Weights.IMAGENET1K_V2
    model: ResNet = resnet50(weights=weights).eval()
    image: Tensor = decode_image(path, mode=ImageReadMode.RGB)
    scores: Tensor = model(weights.transforms()(image).unsqueeze(0))
    return str(weights.meta["categories"][int(scores.argmax())])


def by_name() -> Tensor:
    names: list[str] = list_models(include="resnet*")
    return get_model(names[0], weights=None, num_classes=10)(Image([[[0.0]]]))  # type: ignore[no-any-return]


def keep(boxes: Tensor, scores: Tensor) -> Tensor:
    return nms(boxes, scores, iou_threshold=0.5)


def batches(root: Path) -> tuple[DataLoader[tuple[object, int]], int]:
    return DataLoader(CIFAR10(root, train=False), batch_size=2), len(ImageFolder(root))
