"""What environments need for the modules of a policy, such as recurrent states."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from flambeau.rl.modules._transforms import transform

__all__ = ["get_env_transforms_from_module", "get_primers_from_module"]


def get_primers_from_module(module: nn.Module, warn: bool = True, strict: bool = True) -> Any:
    """The primers of all modules below that have `make_tensordict_primer`.

    Args:
        module: a policy.
        warn: warn where there are none.
        strict: let errors of `make_tensordict_primer` through; else warn of them, and leave their modules out.

    Returns:
        A `TensorDictPrimer`, a `Compose` of several, or None.
    """
    found, failed = [], []
    for each in module.modules():
        if not hasattr(each, "make_tensordict_primer"):
            continue
        try:
            found.append(each.make_tensordict_primer())  # type: ignore[operator]
        except (RuntimeError, ValueError, KeyError) as error:
            if strict:
                raise
            failed.append(f"{type(each).__name__} ({error})")
    if failed:
        warnings.warn(f"get_primers_from_module: no primers of {'; '.join(failed)}", UserWarning, stacklevel=2)
    if not found:
        if warn:
            warnings.warn("get_primers_from_module: no module has a primer.", UserWarning, stacklevel=2)
        return None
    if len(found) == 1:
        return found[0]
    return transform("Compose", *found)


def get_env_transforms_from_module(module: nn.Module, init_key: str = "is_init") -> Any:
    """The transforms that an environment needs for a policy: marks of first steps, and primers.

    Args:
        module: a policy.
        init_key: of the marks.

    Returns:
        An `InitTracker`, or a `Compose` of one and primers.
    """
    tracker, primers = transform("InitTracker", init_key=init_key), get_primers_from_module(module, warn=False)
    return tracker if primers is None else transform("Compose", tracker, primers)
