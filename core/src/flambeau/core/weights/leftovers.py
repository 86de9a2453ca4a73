"""Tensors that a checkpoint does not bring: computed from parameters, missing in the file, or left on meta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from flambeau.core.errors import CheckpointError
from flambeau.core.weights.construction import real_parameters


def recompute(module: nn.Module) -> None:
    """Give the plain attributes that forward hooks compute from parameters their values.

    The old-style weight norm, spectral norm and pruning keep `weight` as a plain tensor, which would stay empty until
    the first forward and break `deepcopy` before it.
    """
    for owner in module.modules():
        if isinstance(owner, nn.RNNBase):
            owner.flatten_parameters()  # accelerators want these weights in one piece; elsewhere it does nothing
        for hook in owner._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm):
                with torch.no_grad():
                    setattr(owner, hook.name, hook.compute_weight(owner))
            elif isinstance(hook, SpectralNorm):
                # Not `hook(...)`: in training mode that runs a power iteration and changes the loaded buffers.
                setattr(owner, hook.name, getattr(owner, f"{hook.name}_orig").data)
            elif isinstance(hook, BasePruningMethod):
                with torch.no_grad():
                    setattr(owner, hook._tensor_name, hook.apply_mask(owner))  # type: ignore[no-untyped-call]


def empty_names(module: nn.Module) -> list[str]:
    """Names of parameters and persistent buffers that are still without values."""
    return [name for name, tensor in module.state_dict(keep_vars=True).items() if _is_empty(tensor)]


def stray_tensors(module: nn.Module) -> list[str]:
    """Names of empty tensors that no checkpoint brings: non-persistent buffers and plain attributes."""
    found: list[str] = []
    for prefix, owner in module.named_modules():
        dot = f"{prefix}." if prefix else ""
        hidden = owner._non_persistent_buffers_set
        found += [dot + name for name in hidden if _is_empty(owner._buffers.get(name))]
        for name, value in vars(owner).items():
            if name not in ("_parameters", "_buffers", "_modules") and any(map(_is_empty, _tensors(value))):
                found.append(dot + name)
    return sorted(found)


def initialise(module: nn.Module) -> list[str]:
    """Make parameters and persistent buffers that are still empty real, by `reset_parameters` of their modules.

    Values that were loaded into the same modules are kept.

    Returns:
        The names of what was initialised.

    Raises:
        CheckpointError: a module with an empty parameter has no `reset_parameters`.
    """
    names: list[str] = []
    helpless: list[str] = []
    for prefix, owner in module.named_modules():
        dot = f"{prefix}." if prefix else ""
        tensors = [*owner._parameters.items(), *owner._buffers.items()]
        empty = [name for name, tensor in tensors if _is_empty(tensor)]
        if not empty:
            continue
        if not callable(getattr(owner, "reset_parameters", None)):
            helpless += [dot + name for name in empty]
            continue
        _reset(owner, empty)
        names += [dot + name for name in empty]
    if helpless:
        raise CheckpointError(
            f"{type(module).__name__}: no values for {', '.join(sorted(helpless))}, and their modules have no "
            "reset_parameters(); load a checkpoint that has them, or build the module outside `empty_parameters`."
        )
    return names


def _reset(owner: nn.Module, empty: list[str]) -> None:
    loaded = {name: tensor for name, tensor in _own(owner) if tensor is not None and name not in empty}
    copies = {name: tensor.detach().clone() for name, tensor in loaded.items()}
    with real_parameters(), torch.no_grad():
        for name in empty:
            before = owner._parameters.get(name)
            if before is None:
                owner._buffers[name] = torch.empty_like(owner._buffers[name], device="cpu")  # type: ignore[arg-type]
                continue
            fresh = nn.Parameter(torch.empty_like(before, device="cpu"), requires_grad=before.requires_grad)
            setattr(owner, name, fresh)
        owner.reset_parameters()  # type: ignore[operator]  # `initialise` has seen that it is callable
        for name, copy in copies.items():
            loaded[name].copy_(copy)


def _own(owner: nn.Module) -> Iterator[tuple[str, Tensor | None]]:
    yield from owner._parameters.items()
    yield from owner._buffers.items()


def _is_empty(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_meta


def _tensors(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """Tensors in a value and in the plain containers it is made of."""
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _tensors(item, depth - 1)
