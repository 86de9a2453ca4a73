"""Turning a quantizable model into int8."""

from __future__ import annotations

from typing import Any

from torch import nn

from flambeau.vision.models.quantization import _eager

__all__ = ["quantize_model"]


def quantize_model(model: nn.Module, backend: str) -> None:
    """Turn a quantizable model in float into one in int8, in place.

    Ranges of activations are measured on one synthetic picture, which is enough to run the model, not to use it: load a
    checkpoint into it, or calibrate with pictures of your own by `torch.ao.quantization.prepare` and `convert`.

    Upstream: leaves torch's engine at `backend`; here it is as it was before.

    Args:
        model: a model of this package, in float and not fused; in eval mode afterwards.
        backend: "fbgemm", "x86", "onednn" or "qnnpack"; weights have a scale per channel, with "qnnpack" one scale.

    Raises:
        RuntimeError: this torch was built without the engine.
    """
    _eager.int8(model, backend, calibrate=True)


def _fuse_modules(
    model: nn.Module, modules_to_fuse: list[str] | list[list[str]], is_qat: bool | None, **kwargs: Any
) -> nn.Module:
    """Merge convolutions with what follows; see `_eager.fuse`."""
    return _eager.fuse(model, modules_to_fuse, is_qat, **kwargs)


def _replace_relu(module: nn.Module) -> None:
    """Turn ReLU and ReLU6 into ReLU that is not in place: that is what convolutions merge with.

    int8 has a range of its own, so the bound of ReLU6 is not missed.
    """
    for name, child in module.named_children():
        if type(child) in (nn.ReLU, nn.ReLU6):
            setattr(module, name, nn.ReLU(inplace=False))
        else:
            _replace_relu(child)
