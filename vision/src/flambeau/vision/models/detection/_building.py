"""How builders put detectors together from weights, a backbone and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from flambeau.core.weights import WeightsEnum, build_with_weights
from flambeau.vision.models._utils import _ovewrite_named_param
from flambeau.vision.models.detection._utils import overwrite_eps
from flambeau.vision.ops.misc import FrozenBatchNorm2d

__all__ = ["build_detector", "normalization"]

M = TypeVar("M", bound=nn.Module)


def normalization(is_trained: bool) -> Callable[..., nn.Module]:
    """Frozen normalization where there are statistics to freeze: batches are too small to learn them."""
    return FrozenBatchNorm2d if is_trained else nn.BatchNorm2d


def build_detector(
    network: Callable[..., M],
    weights: WeightsEnum | None,
    weights_backbone: WeightsEnum | None,
    *,
    progress: bool,
    num_classes: int | None,
    old_epsilon: bool = False,
    **kwargs: Any,
) -> M:
    """Build a detector; weights of the whole model make those of its backbone unnecessary.

    Args:
        network: makes the module when called as `network(weights_backbone, is_trained=..., num_classes=...,
            progress=..., ...)`.
        weights: a member, or None for new parameters.
        weights_backbone: a member for the backbone alone, or None.
        progress: show downloads.
        num_classes: background included; None takes that of the weights, or the 91 of COCO.
        old_epsilon: the weights are from before frozen normalization had an epsilon.
        kwargs: for `network` and `build_with_weights`.

    Raises:
        ValueError: an argument is given, and is not what the weights have.
    """
    if weights is not None:
        weights_backbone = None
        options = {"num_classes": num_classes}
        _ovewrite_named_param(options, "num_classes", len(weights.meta["categories"]))
        num_classes = options["num_classes"]
    is_trained = weights is not None or weights_backbone is not None

    def build(**options: Any) -> M:
        return network(weights_backbone, is_trained=is_trained, progress=progress, **options)

    model = build_with_weights(
        build, weights, progress=progress, num_classes=91 if num_classes is None else num_classes, **kwargs
    )
    if old_epsilon:
        overwrite_eps(model, 0.0)
    return model
