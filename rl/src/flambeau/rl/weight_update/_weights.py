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


def state_of(source: Any) -> dict[str, torch.Tensor]:
    """Weights by dotted names, without gradients; empty where there are none.

    Args:
        source: a module, a tensordict of weights, or a state_dict.
    """
    if isinstance(source, nn.Module):
        return {name: value.detach() for name, value in source.state_dict().items()}
    if isinstance(source, TensorDictBase):
        return {
            key if isinstance(key, str) else ".".join(key): value.detach() for key, value in source.items(True, True)
        }
    return {name: value.detach() for name, value in source.items()} if isinstance(source, dict) else {}


@torch.no_grad()
def load_weights(target: nn.Module, source: Any, inplace: bool = True) -> None:
    """Write weights into a module.

    Args:
        target: the module.
        source: a module, a tensordict of weights, or a state_dict.
        inplace: into its memory; else it takes over the memory of the source.

    Raises:
        TypeError: the source is something else.
        RuntimeError: the module lacks some of the weights, or has them in other shapes.
    """
    if not isinstance(source, (nn.Module, TensorDictBase, dict)):
        raise TypeError(f"Weights come as a module, a tensordict or a state_dict; got {type(source).__name__}.")
    given = state_of(weights_of(source) if isinstance(source, nn.Module) else source)
    own = dict(target.named_parameters(remove_duplicate=False)) | dict(target.named_buffers(remove_duplicate=False))
    unknown = [name for name in given if name not in own]
    if unknown:
        raise RuntimeError(f"The policy has no weights {unknown}; it has {list(own)}.")
    for name, value in given.items():
        if own[name].shape != value.shape:
            raise RuntimeError(f"The policy's {name} has shape {tuple(own[name].shape)}; got {tuple(value.shape)}.")
    for name, value in given.items():
        if inplace:
            own[name].data.copy_(value)
        else:
            own[name].data = value
