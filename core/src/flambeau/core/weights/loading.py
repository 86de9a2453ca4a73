"""Putting a checkpoint's tensors into a module: assigned, not copied, and the module is as it would have been.

`torch.nn.Module.load_state_dict(assign=True)` alone changes more than values: tied parameters come apart, the
checkpoint's dtype replaces the module's, optimizers keep the old parameters. `load_into` repairs all that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from flambeau.core.errors import CheckpointError
from flambeau.core.weights import mismatch, missing_tensors
from flambeau.core.weights.assignment import Slots
from flambeau.core.weights.checkpoints import read_checkpoint
from flambeau.core.weights.construction import real_parameters
from flambeau.core.weights.sources import locate

if TYPE_CHECKING:
    from flambeau.core.weights.sources import Source

Convert = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class LoadReport(NamedTuple):
    """What did not fit; all empty after a strict load.

    Attributes:
        missing_keys: the module's parameters and buffers without a value in the checkpoint.
        unexpected_keys: the checkpoint's names that the module does not have.
        misshaped_keys: names whose shapes differ.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]
    misshaped_keys: list[str]


def load_state_dict(
    source: Source,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    mmap: bool = True,
    progress: bool = True,
    check_hash: bool = True,
    trust: bool = False,
) -> Mapping[str, Any]:
    """Read a checkpoint: fetched and verified if it is not local, memory-mapped where its format allows.

    Args:
        source: a path, a URL, a weights member, the name of registered weights, or `"hf:owner/name[@revision]"`.
        device: where the tensors go.
        dtype: cast floating tensors; None keeps the file's.
        mmap: map the file, so that bytes are read at their first use and shared between processes; False reads it now.
        progress: show a download on a terminal.
        check_hash: verify the digest that is known or part of the file's name.
        trust: unpickle a local file without restriction; code in it runs.

    Returns:
        The mapping in the file, usually names to tensors. Writing to a tensor does not change the file.

    Raises:
        UnsafeCheckpointError: the file wants something built or called that nobody allowed; the message names it.
        CheckpointError: the file is damaged, of an unknown format, or holds no mapping.
        MissingCheckpointError: there is no such file.
        DownloadError: it could not be fetched, or not verified.
        ValueError: `trust` for anything but a local path.
    """
    found = locate(source, progress=progress, check_hash=check_hash, trust=trust)
    return read_checkpoint(
        found.path,
        format=found.format,
        device=device,
        dtype=dtype,
        mmap=mmap,
        safe_globals=found.safe_globals,
        trust=found.trust,
    )


def load_into(
    module: nn.Module,
    source: Source | Mapping[str, Any],
    *,
    strict: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    convert: Convert | None = None,
    assign: bool = False,
    **load_options: Any,
) -> LoadReport:
    """Load a checkpoint into a module that has values already, or was built under `empty_parameters`.

    The module keeps its parameter objects (optimizers stay valid) where they were real, its ties, dtypes, strides,
    `requires_grad`, and, without `device`, its devices. What is read from a file is assigned and not copied where that
    suffices, so that its bytes come from the mapped file when they are first used.

    Args:
        module: changed in place.
        source: what `load_state_dict` takes, or a mapping of names to tensors.
        strict: every name and shape must fit. Otherwise names that do not are left out; parameters that are still empty
            then get the values of their module's `reset_parameters`.
        device: move the module there; None leaves it where it is.
        dtype: cast the module's floating parameters and buffers; None keeps its own dtypes, whatever the file has.
        convert: makes the module's names and tensors of what the file holds, for example `lambda file: file["model"]`.
        assign: let the module take over the tensors of a mapping, so that both share memory; by default it copies them.
        load_options: `mmap`, `progress`, `check_hash`, `trust`, as for `load_state_dict`.

    Returns:
        The names that did not fit.

    Raises:
        CheckpointError: names or shapes do not fit; one message lists them all. Or a parameter without a value has a
            module without `reset_parameters`.
        UnsafeCheckpointError, MissingCheckpointError, DownloadError, ValueError: as `load_state_dict`.
    """
    if not isinstance(source, Mapping):
        state = load_state_dict(source, **load_options)
    elif load_options:
        raise TypeError(f"load_into() got a mapping, which is read already, and {sorted(load_options)} for reading it.")
    else:
        state = source
    state = convert(state) if convert else state
    if isinstance(source, Mapping) and not assign:
        state = _mapped(state, {name: _copy(value) for name, value in state.items()})
    report = assign_state(module, state, strict=strict, dtype=dtype)
    if not strict:
        missing_tensors.initialise(module)
    if empty := [*missing_tensors.empty_names(module), *missing_tensors.stray_tensors(module)]:
        raise CheckpointError(
            f"{type(module).__name__}: {', '.join(empty)} stayed without values: the checkpoint does not bring them, "
            "and the module was built empty; use build_with_weights, or build it outside empty_parameters."
        )
    if device is not None or dtype is not None:
        module.to(device=device, dtype=dtype)
    return report


def assign_state(
    module: nn.Module, state: Mapping[str, Any], *, strict: bool, dtype: torch.dtype | None = None
) -> LoadReport:
    """Assign a state dict and keep everything but the values; what has no value in it is left as it was.

    Raises:
        CheckpointError: names or shapes do not fit.
    """
    slots = Slots(module)
    misshaped = mismatch.misshaped(module, state)
    fitting = state
    if misshaped and not strict:
        fitting = _mapped(state, {name: value for name, value in state.items() if name not in misshaped})
    with real_parameters():
        try:
            keys = module.load_state_dict(fitting, strict=False, assign=True)
        except (RuntimeError, KeyError) as error:  # layers that load in their own way look up what may not be there
            raise mismatch.error(module, state, str(error)) from error
        slots.restore(dtype)
    missing = [name for name in keys.missing_keys if name not in misshaped and not slots.is_loaded(name)]
    unexpected = list(keys.unexpected_keys)
    if strict and (missing or unexpected):
        raise mismatch.error(module, state, missing=missing, unexpected=unexpected)
    missing_tensors.recompute(module)
    return LoadReport(missing, unexpected, sorted(misshaped))


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _mapped(state: Mapping[str, Any], tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state dict of `tensors` with the versions of modules that `state` has: loading old files goes by them."""
    made = OrderedDict(tensors)
    if versions := getattr(state, "_metadata", None):
        made._metadata = versions  # type: ignore[attr-defined]
    return made
