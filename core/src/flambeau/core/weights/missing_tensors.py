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
from flambeau.core.weights.construction import real_like, real_parameters


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
                    setattr(owner, hook._tensor_name, hook.apply_mask(owner))


def empty_names(module: nn.Module) -> list[str]:
    """Names of parameters and persistent buffers that are still without values."""
    return [dot + name for dot, _, names in _owners_of_empty(module) for name in names]


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

    Values that were loaded into the same modules are kept, and tied parameters stay tied.

    Returns:
        The names of what was initialised.

    Raises:
        CheckpointError: a module with an empty parameter has no `reset_parameters`.
    """
    owners = {dot: (owner, names) for dot, owner, names in _owners_of_empty(module)}
    helpless = [dot + n for dot, (owner, names) in owners.items() if not _can_reset(owner) for n in names]
    if helpless:
        raise CheckpointError(
            f"{type(module).__name__}: no values for {', '.join(sorted(helpless))}, and their modules have no "
            "reset_parameters(); load a checkpoint that has them, or build the module outside `empty_parameters`."
        )
    made: dict[nn.Parameter, nn.Parameter] = {}  # empty parameter -> what it became; parameters hash by identity
    for owner, names in owners.values():
        _reset(owner, names, made)
    return [dot + name for dot, (_, names) in owners.items() for name in names]


def _owners_of_empty(module: nn.Module) -> Iterator[tuple[str, nn.Module, list[str]]]:
    for prefix, owner in module.named_modules():
        hidden = owner._non_persistent_buffers_set
        tensors = (*owner._parameters.items(), *owner._buffers.items())
        if names := [name for name, tensor in tensors if _is_empty(tensor) and name not in hidden]:
            yield f"{prefix}." if prefix else "", owner, names


def _can_reset(owner: nn.Module) -> bool:
    return callable(getattr(owner, "reset_parameters", None))


def _reset(owner: nn.Module, empty: list[str], made: dict[nn.Parameter, nn.Parameter]) -> None:
    """Give a module's empty tensors new values, and leave its other tensors as they are."""
    with real_parameters(), torch.no_grad():
        for name in list(empty):
            if (before := owner._parameters.get(name)) is None:
                owner._buffers[name] = torch.empty_like(owner._buffers[name], device="cpu")  # type: ignore[arg-type]
                continue
            if before in made:
                empty = [other for other in empty if other != name]
            else:
                made[before] = real_like(before)
            setattr(owner, name, made[before])
        tensors = (*owner._parameters.items(), *owner._buffers.items())
        kept = {name: tensor.clone() for name, tensor in tensors if tensor is not None and name not in empty}
        owner.reset_parameters()  # type: ignore[operator]  # `initialise` has seen that it is callable
        for name, value in kept.items():
            getattr(owner, name).copy_(value)


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
