"""torch's quantization of modules ("eager mode"), behind one door: all that this package uses of it is here.

torch marks this mode as deprecated in favour of torchao. The published int8 checkpoints hold the modules that this mode
makes, and torchao reads none of them. Where a torch lacks it, importing this module says what to do instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

try:
    from torch.ao import quantization
    from torch.ao.nn.quantized import FloatFunctional
except ImportError as error:
    raise ImportError(
        f"torch {torch.__version__} has no torch.ao.quantization, which the models of "
        "flambeau.vision.models.quantization are made with. Install a torch that has it (2.13 does), or quantize the "
        "float model of flambeau.vision.models with torchao: torchao.quantization.pt2e, prepare_pt2e and convert_pt2e."
    ) from error

__all__ = ["DeQuantStub", "FloatFunctional", "QuantStub", "calibrated_int8", "engine", "fuse", "int8", "trainable_int8"]

QuantStub = quantization.QuantStub
DeQuantStub = quantization.DeQuantStub
ao: Any = quantization  # its functions have no annotations

# What torch says about every use of this mode, and what does not matter here: values of observers that saw nothing are
# replaced by a checkpoint's.
_EXPECTED_WARNINGS = (
    r"torch\.ao\.quantization is deprecated",
    r"must run observer before calling calculate_qparams",
    r"torch\.quantize_per_tensor, torch\.quantize_per_channel and other quantized tensor creation",
)


@contextmanager
def engine(backend: str) -> Iterator[None]:
    """Pack weights for an engine of torch inside this context; the process's own engine is left as it was.

    Args:
        backend: "fbgemm" or "x86" for x86 processors, "qnnpack" for ARM and, slower, others; "onednn".

    Raises:
        RuntimeError: this torch was built without the engine.
    """
    supported = torch.backends.quantized.supported_engines
    if backend not in supported:
        raise RuntimeError(
            f"This torch computes on integers with {', '.join(supported)}, not with {backend!r}. Use weights for one "
            "of these, or build the float model with quantize=False."
        )
    before = torch.backends.quantized.engine
    with warnings.catch_warnings():
        for message in _EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        try:
            torch.backends.quantized.engine = backend
            yield
        finally:
            torch.backends.quantized.engine = before


def fuse(model: nn.Module, modules: Any, is_qat: bool | None, **options: Any) -> nn.Module:
    """Merge convolutions with the normalization and activation behind them.

    Args:
        model: holds the modules.
        modules: names in their order, or a list of such lists.
        is_qat: for training with simulated quantization; None: where the model is in train mode.
        options: for torch's function, for example `inplace`.
    """
    training = model.training if is_qat is None else is_qat
    merge = ao.fuse_modules_qat if training else ao.fuse_modules
    merged: nn.Module = merge(model, modules, **options)
    return merged


def int8(model: Any, backend: str, *, calibrate: bool) -> None:
    """Turn a quantizable model in float into one in int8, in place, in eval mode; see `engine` for `backend`.

    Args:
        model: has `fuse_model`.
        backend: the engine that will run it.
        calibrate: measure ranges of activations on a synthetic picture; False leaves them at 1, for a checkpoint to
            bring.
    """
    with engine(backend):
        model.eval()
        per_tensor = backend == "qnnpack"
        weight = ao.default_weight_observer if per_tensor else ao.default_per_channel_weight_observer
        model.qconfig = ao.QConfig(activation=ao.default_observer, weight=weight)
        model.fuse_model()
        ao.prepare(model, inplace=True)
        if calibrate:
            with torch.no_grad():
                model(torch.linspace(0, 1, 3 * 299 * 299).reshape(1, 3, 299, 299))
        ao.convert(model, inplace=True)


def trainable_int8(model: Any, backend: str) -> None:
    """Make a quantizable model simulate int8 while it trains, in place, in train mode."""
    with engine(backend):
        model.train()
        model.fuse_model(is_qat=True)
        model.qconfig = ao.get_default_qat_qconfig(backend)
        ao.prepare_qat(model, inplace=True)


def calibrated_int8(model: Any, backend: str) -> None:
    """Turn a model that was prepared, and has seen data or loaded a checkpoint, into int8, in place, in eval mode."""
    with engine(backend):
        ao.convert(model, inplace=True)
        model.eval()
