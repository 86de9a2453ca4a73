"""Specs: which tensors an environment, a policy or a buffer takes and gives.

A spec of one tensor knows its shape, dtype, device and values; a `Composite` holds such specs by name, and is the spec
of a TensorDict.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from flambeau.rl.data._specs.base import TensorSpec
from flambeau.rl.data._specs.boxes import (
    BinaryBox,
    Box,
    BoxList,
    CategoricalBox,
    ContinuousBox,
    DiscreteBox,
    invertible_dict,
)
from flambeau.rl.data._specs.composite import NO_DEFAULT_RL, Composite, T
from flambeau.rl.data._specs.discrete import Binary, Categorical, OneHot
from flambeau.rl.data._specs.intervals import (
    Bounded,
    BoundedContinuous,
    BoundedDiscrete,
    Unbounded,
    UnboundedContinuous,
    UnboundedDiscrete,
)
from flambeau.rl.data._specs.multiple import MultiCategorical, MultiOneHot
from flambeau.rl.data._specs.stacked import Stacked, StackedComposite
from flambeau.rl.data._specs.stacked import _LazyStackedMixin as _LazyStackedMixin
from flambeau.rl.data._specs.untensored import Choice, NonTensor

DEVICE_TYPING = torch.device | str | int

__all__ = [
    "DEVICE_TYPING",
    "NO_DEFAULT_RL",
    "Binary",
    "BinaryBox",
    "Bounded",
    "BoundedContinuous",
    "BoundedDiscrete",
    "Box",
    "BoxList",
    "Categorical",
    "CategoricalBox",
    "Choice",
    "Composite",
    "ContinuousBox",
    "DiscreteBox",
    "MultiCategorical",
    "MultiOneHot",
    "NonTensor",
    "OneHot",
    "Stacked",
    "StackedComposite",
    "T",
    "TensorSpec",
    "Unbounded",
    "UnboundedContinuous",
    "UnboundedDiscrete",
    "invertible_dict",
]

_FORMER = {
    "BinaryDiscreteTensorSpec": "Binary",
    "BoundedTensorSpec": "Bounded",
    "CompositeSpec": "Composite",
    "DiscreteTensorSpec": "Categorical",
    "LazyStackedCompositeSpec": "StackedComposite",
    "LazyStackedTensorSpec": "Stacked",
    "MultiDiscreteTensorSpec": "MultiCategorical",
    "MultiOneHotDiscreteTensorSpec": "MultiOneHot",
    "NonTensorSpec": "NonTensor",
    "OneHotDiscreteTensorSpec": "OneHot",
    "UnboundedContinuousTensorSpec": "UnboundedContinuous",
    "UnboundedDiscreteTensorSpec": "UnboundedDiscrete",
}


def __getattr__(name: str) -> Any:
    """Classes by the names that they had in older releases."""
    if name in _FORMER:
        warnings.warn(f"{name} is called {_FORMER[name]} now.", DeprecationWarning, stacklevel=2)
        return globals()[_FORMER[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
