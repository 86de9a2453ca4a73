"""Telling how a checkpoint differs from a module, in one message with a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from flambeau.core.errors import CheckpointError

_MOST_NAMES = 20


def misshaped(module: nn.Module, state: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Names that both have with different shapes: name -> (the checkpoint's, the module's)."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, own in _own_tensors(module):
        value = state.get(name)
        if not isinstance(value, Tensor) or is_lazy(own) or is_lazy(value):
            continue
        if value.shape != own.shape and not (own.ndim == 0 and value.shape == (1,)):  # torch before 0.4 had no scalars
            found[name] = (tuple(value.shape), tuple(own.shape))
    return found


def error(
    module: nn.Module,
    state: Mapping[str, Any],
    reason: str = "",
    *,
    missing: Iterable[str] | None = None,
    unexpected: Iterable[str] | None = None,
) -> CheckpointError:
    """The exception that lists every name that does not fit, and says what to do."""
    # Not parameters and buffers alone: quantized layers, for example, save packed values.
    own = {name for name, _ in _own_tensors(module)} | set(module.state_dict())
    missing = sorted(own - state.keys() if missing is None else missing)
    unexpected = sorted(map(str, state.keys() - own if unexpected is None else unexpected))
    shapes = misshaped(module, state)
    parts = [
        *_listed("missing in the checkpoint", missing),
        *_listed("not in the module", unexpected),
        *_listed("of another shape", [f"{name} (checkpoint {a}, module {b})" for name, (a, b) in shapes.items()]),
    ]
    if not parts:
        return CheckpointError(f"{type(module).__name__}: the checkpoint could not be loaded: {reason}")
    remedy = _remedy(state, own, unexpected, shapes)
    return CheckpointError(f"{type(module).__name__} does not fit the checkpoint: {'; '.join(parts)}. {remedy}")


def _own_tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    tensors: list[tuple[str, Tensor]] = list(module.named_parameters(remove_duplicate=False))
    for prefix, owner in module.named_modules(remove_duplicate=False):
        dot = f"{prefix}." if prefix else ""
        hidden = owner._non_persistent_buffers_set
        tensors += [(dot + k, v) for k, v in owner._buffers.items() if v is not None and k not in hidden]
    return tensors


def _listed(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return [f"{len(names)} {what}: {shown}{more}"]


def _remedy(
    state: Mapping[str, Any], own: set[str], unexpected: list[str], shapes: Mapping[str, tuple[Any, Any]]
) -> str:
    nested = [str(key) for key, value in state.items() if isinstance(value, Mapping) and value]
    if nested:
        return f"The tensors are one level deeper: pass convert=lambda file: file[{nested[0]!r}]."
    prefix = _common_prefix(unexpected, own)
    if prefix:
        return f"The checkpoint's names begin with {prefix!r}: remove that from them, or load into the inner module."
    heads = [(a, b) for a, b in shapes.values() if a[1:] == b[1:] and a and b]
    if shapes and len(heads) == len(shapes):
        theirs, ours = min(heads, key=lambda pair: len(pair[0]))
        return (
            f"Only first dimensions differ, probably by the number of classes: build with num_classes={theirs[0]}, use "
            f"get_model(name, weights=..., num_classes={ours[0]}) to replace the head, or strict=False to leave it out."
        )
    return "Build the module as the checkpoint's was built, or pass strict=False to load what fits."


def _common_prefix(unexpected: list[str], own: set[str]) -> str:
    """A first component, such as DataParallel's `module.`, that makes the checkpoint's names the module's."""
    if not unexpected:
        return ""
    first, dot, _ = unexpected[0].partition(".")
    names = {name.removeprefix(first + dot) for name in unexpected}
    return first + dot if dot and names and names <= own else ""
