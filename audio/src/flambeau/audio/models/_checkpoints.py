"""How published checkpoints are made to fit the networks: what `convert` of `build_with_weights` is given here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

__all__ = ["without_outputs"]


def without_outputs(axes: Sequence[int], layer: str = "aux") -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Drop outputs of the last layer that were never trained, such as a dictionary's padding and unknown symbols.

    Args:
        axes: which outputs to drop; none leaves the file's tensors as they are, mapped and uncopied.
        layer: the layer whose `weight` and `bias` have them.
    """

    def convert(state: Mapping[str, Any]) -> Mapping[str, Any]:
        names = [name for name in (f"{layer}.weight", f"{layer}.bias") if name in state]
        if not axes or not names:
            return state
        changed = OrderedDict(state)
        for name in names:
            value = state[name]
            kept = [index for index in range(len(value)) if index not in axes]
            changed[name] = value[torch.tensor(kept)]
        if versions := getattr(state, "_metadata", None):
            changed._metadata = versions  # type: ignore[attr-defined]
        return changed

    return convert
