"""Weights of policies: as tensordicts, and written into modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flambeau.data.tensordict import TensorDict, TensorDictBase


def weights_of(source: Any) -> TensorDictBase:
    """Weights as a tensordict, without gradients; empty where there are none.

    Args:
        source: a module, a tensordict of weights, or a state_dict.
    """
    if isinstance(source, TensorDictBase):
        return source.data
    if isinstance(source, nn.Module):
        return TensorDict.from_module(source).data
    if isinstance(source, dict):
        return TensorDict({tuple(key.split(".")): value.detach() for key, value in source.items()}, [])
    return TensorDict({}, [])


@torch.no_grad()
def load_weights(target: nn.Module, source: Any) -> None:
    """Write weights into a module, in place.

    Args:
        target: the module.
        source: a module, a tensordict of weights, or a state_dict.

    Raises:
        TypeError: the source is something else.
        RuntimeError: the module lacks some of the weights, or has them in other shapes.
    """
    if isinstance(source, nn.Module):
        target.load_state_dict(source.state_dict())
        return
    if isinstance(source, TensorDictBase):
        given = {".".join([key] if isinstance(key, str) else key): value for key, value in source.items(True, True)}
    elif isinstance(source, dict):
        given = source
    else:
        raise TypeError(f"Weights come as a module, a tensordict or a state_dict; got {type(source).__name__}.")
    own = dict(target.named_parameters(remove_duplicate=False)) | dict(target.named_buffers(remove_duplicate=False))
    unknown = [name for name in given if name not in own]
    if unknown:
        raise RuntimeError(f"The policy has no weights {unknown}; it has {list(own)}.")
    for name, value in given.items():
        if own[name].shape != value.shape:
            raise RuntimeError(f"The policy's {name} has shape {tuple(own[name].shape)}; got {tuple(value.shape)}.")
        own[name].data.copy_(value)
