"""Typical user code, which must type-check as it stands; it is never run."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import flambeau.core as fc
from flambeau.core.datasets import DatasetInfo
from flambeau.core.hub import fetch
from flambeau.core.native import KernelLibrary
from flambeau.core.registry import MODELS, Entry
from flambeau.core.tensors import TypedTensor, tensor_type
from flambeau.core.weights import Weights, WeightsEnum, build_with_weights, get_model, lazy, register_model


class Small_Weights(WeightsEnum):
    V1 = Weights("https://example.org/small-0123abcd.pth", lazy("torch.nn:Identity"), {"num_params": 3}, size=12)
    DEFAULT = V1


@register_model(task="image-classification", head="fc")
def small(*, weights: Small_Weights | None = None, progress: bool = True) -> nn.Linear:
    return build_with_weights(nn.Linear, Small_Weights.verify(weights), 2, 1, progress=progress)


@tensor_type(name="wave", fields={"rate": int})
class Wave(TypedTensor):
    rate: int


def names() -> list[str]:
    return fc.list_models(include="resnet*") + fc.list_weights(plugin="vision")


def model() -> nn.Module:
    return get_model("resnet50", weights="DEFAULT", num_classes=10).eval()


def checkpoint() -> Path:
    return fetch(
        "https://example.org/file-0123abcd.pth", sha256="0123abcd", size=10, mirrors=["https://mirror.example"]
    )


def entry() -> Entry:
    return MODELS.entry("vision/resnet50")


def wave(samples: Tensor) -> int:
    return Wave(samples, rate=16_000).rate


def information() -> DatasetInfo:
    return fc.get_dataset_info("vision/cifar10")


def kernels() -> str:
    return KernelLibrary("example", namespace="example").provider


def score(weights: Small_Weights, image: Tensor) -> float:
    return float(weights.load()(weights.transforms()(image)).max()) + float(torch.zeros(()))
