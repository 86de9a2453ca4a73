"""What the conformance kit needs to know to check this plugin; see `flambeau.core.testing`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from flambeau.core.testing import Sample
from torch import Tensor

from flambeau_plugin_example.ops import reference, rotate
from flambeau_plugin_example.tensor_types import Points


def example_inputs(model_name: str, batch: int) -> tuple[Tensor, ...]:
    """Inputs of a model for a batch of this size."""
    return (_points(batch),)


def recorded_state(model_name: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a model's parameters and buffers, which published weights rely on."""
    return {
        "features.0.weight": (32, 2),
        "features.0.bias": (32,),
        "features.2.weight": (32, 32),
        "features.2.bias": (32,),
        "classifier.weight": (2, 32),
        "classifier.bias": (2,),
    }


def raw_input(model_name: str) -> list[float]:
    """What the weights' transforms take."""
    return [0.5, -0.25]


def tensor_samples(type_name: str) -> list[Tensor]:
    """Instances of a tensor type."""
    return [Points(_points(3) * 10 + 10, canvas_size=(20, 30)), Points(_points(6).reshape(2, 3, 2), canvas_size=(1, 1))]


def op_samples() -> Iterator[Sample]:
    """Samples of the operators."""
    yield Sample(
        "rotate",
        rotate,
        (_points(5), 0.75),
        reference=reference,
        rejects=("float16", "int64"),
        batched=(0,),
        differentiable=(0,),
        empty=(torch.empty(0, 2), 0.75),
        operator="flambeau_example::rotate",
    )


def _points(count: int) -> Tensor:
    return torch.rand(count, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
