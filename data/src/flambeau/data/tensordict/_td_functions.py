"""Functions that make and combine tensordicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._nestedkey import NestedKey

__all__ = [
    "cat",
    "from_consolidated",
    "from_module",
    "from_modules",
    "from_pytree",
    "fromkeys",
    "lazy_stack",
    "load",
    "load_memmap",
    "maybe_dense_stack",
    "memmap",
    "save",
    "stack",
]


def stack(input: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    """`torch.stack` of tensordicts with the same keys and shapes.

    Raises:
        RuntimeError: keys or shapes differ; `lazy_stack` takes those.
    """
    return torch.stack(input, dim, out=out)  # type: ignore[arg-type]  # of tensordicts


def cat(input: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    """`torch.cat` of tensordicts with the same keys.

    Raises:
        KeyError: keys differ.
    """
    return torch.cat(input, dim, out=out)  # type: ignore[arg-type]  # of tensordicts


def lazy_stack(input: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
    """A stack that keeps the tensordicts as they are, of whatever keys and shapes; see `LazyStackedTensorDict`."""
    return classes.LazyStackedTensorDict.lazy_stack(input, dim, out=out)


def maybe_dense_stack(input: Sequence[Any], dim: int = 0, *, out: Any = None, **kwargs: Any) -> Any:
    """A dense stack where keys and shapes agree, else a lazy one."""
    return classes.LazyStackedTensorDict.maybe_dense_stack(input, dim, out=out, **kwargs)


def fromkeys(keys: list[NestedKey], value: Any = 0) -> Any:
    """A TensorDict without batch dimensions with the same value under every key."""
    return classes.TensorDict(dict.fromkeys(keys, value))


def from_module(module: Any, as_module: bool = False, lock: bool = True, use_state_dict: bool = False) -> Any:
    """The parameters and buffers of a module; see `TensorDict.from_module`."""
    return classes.TensorDict.from_module(module, as_module=as_module, lock=lock, use_state_dict=use_state_dict)


def from_modules(
    *modules: Any,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
    lazy_stack: bool = False,
    expand_identical: bool = False,
) -> Any:
    """The stacked parameters of several modules of one kind; see `TensorDict.from_modules`."""
    return classes.TensorDict.from_modules(
        *modules,
        as_module=as_module,
        lock=lock,
        use_state_dict=use_state_dict,
        lazy_stack=lazy_stack,
        expand_identical=expand_identical,
    )


def from_pytree(
    pytree: Any, *, batch_size: torch.Size | None = None, auto_batch_size: bool = False, batch_dims: int | None = None
) -> Any:
    """A TensorDict of a nested Python structure; see `TensorDict.from_pytree`."""
    return classes.TensorDict.from_pytree(
        pytree, batch_size=batch_size, auto_batch_size=auto_batch_size, batch_dims=batch_dims
    )


def save(
    data: Any,
    prefix: str | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    robust_key: bool | None = True,
) -> None:
    """Write a tensordict to a folder of memory-mapped files; see `TensorDict.memmap`."""
    return data.save(
        prefix,
        copy_existing,
        num_threads=num_threads,
        return_early=return_early,
        share_non_tensor=share_non_tensor,
        robust_key=robust_key,
    )


memmap = save


def load(
    prefix: str | Path,
    device: torch.device | None = None,
    non_blocking: bool = False,
    *,
    out: Any = None,
    robust_key: bool | None = True,
    allow_pickle: bool | None = None,
) -> Any:
    """Map what `save` wrote; see `TensorDict.load_memmap`."""
    options = {} if allow_pickle is None else {"allow_pickle": allow_pickle}
    return classes.TensorDict.load_memmap(prefix, device, non_blocking, out=out, robust_key=robust_key, **options)


load_memmap = load


def from_consolidated(filename: str | Path) -> Any:
    """Map a file that `consolidate` wrote; see `TensorDict.from_consolidated`."""
    return classes.TensorDict.from_consolidated(filename)
