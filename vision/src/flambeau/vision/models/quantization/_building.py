"""What the builders of this package share: which weights are meant, and the way to a float or an int8 model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from flambeau.core.weights import WeightsEnum
from flambeau.vision.models._utils import build_classifier
from flambeau.vision.models.quantization import _eager
from flambeau.vision.models.quantization.utils import _replace_relu

M = TypeVar("M", bound=nn.Module)


def meant(
    integers: type[WeightsEnum], floats: type[WeightsEnum], weights: Any, quantize: bool
) -> tuple[WeightsEnum | None, bool]:
    """The weights that a builder's arguments mean, and whether they make an int8 model.

    Args:
        integers: the enum of int8 weights; a member of it means an int8 model, whatever `quantize` is.
        floats: the enum of float weights, which names mean where `quantize` is False.
        weights: the builder's argument.
        quantize: the builder's argument.

    Raises:
        TypeError: a float member together with `quantize`, or what is no member at all.
    """
    quantize = quantize or isinstance(weights, integers)
    return (integers if quantize else floats).verify(weights), quantize


def meant_before(integers: WeightsEnum, floats: WeightsEnum) -> tuple[str, Callable[[dict[str, Any]], WeightsEnum]]:
    """What `pretrained=True` meant: one member for `quantize=True`, another one otherwise."""
    return "pretrained", lambda arguments: integers if arguments.get("quantize") else floats


def build_quantizable(
    network: Callable[..., M],
    weights: WeightsEnum | None,
    *args: Any,
    quantize: bool,
    backend: str,
    trained: bool = False,
    **kwargs: Any,
) -> M:
    """Build a float model ready for quantization, or an int8 one.

    Args:
        network: makes the float model when called as `network(*args, **kwargs)`.
        weights: a member for the kind of model that is built, or None for new parameters.
        args: for `network`.
        quantize: build the int8 model.
        backend: the engine where there are no weights, which would tell it.
        trained: the int8 checkpoint holds a model that simulates int8, as training left it, not yet int8.
        kwargs: for `network` and `build_classifier`.

    Raises:
        RuntimeError: this torch was built without the engine.
        ValueError: `device` or `dtype` is given for an int8 model and is not the CPU or float32.
    """

    def quantizable(*args: Any, **kwargs: Any) -> M:
        model = network(*args, **kwargs)
        _replace_relu(model)
        return model

    if not quantize:
        return build_classifier(quantizable, weights, *args, **kwargs)
    _require_cpu(kwargs.pop("device", None), kwargs.pop("dtype", None))
    backend = backend if weights is None else weights.meta["backend"]

    def prepared(*args: Any, **kwargs: Any) -> M:
        model = quantizable(*args, **kwargs)
        if trained:
            _eager.trainable_int8(model, backend)
        else:
            _eager.int8(model, backend, calibrate=weights is None)
        return model

    with _eager.engine(backend):  # loading packs weights for it
        # Scales are computed from values, so that there is no use in a model without.
        model = build_classifier(prepared, weights, *args, instant=False, **kwargs)
        if trained:
            _eager.calibrated_int8(model, backend)
    return model


def _require_cpu(device: torch.device | str | None, dtype: torch.dtype | None) -> None:
    if device is not None and torch.device(device).type != "cpu":
        raise ValueError(f"device is {str(device)!r}, but int8 models run on the CPU alone; use quantize=False.")
    if dtype not in (None, torch.float32):
        raise ValueError(
            f"dtype is {dtype}, but int8 models take and give float32; leave it out or use quantize=False."
        )
