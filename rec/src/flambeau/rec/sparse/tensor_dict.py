"""TensorDicts of features as a `KeyedJaggedTensor`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.sparse._keyed_jagged import KeyedJaggedTensor

__all__ = ["maybe_td_to_kjt"]


def maybe_td_to_kjt(features: Any, keys: list[str] | None = None) -> Any:
    """A TensorDict as sparse features; anything else as it is.

    Args:
        features: a TensorDict (`flambeau.data.TensorDict`, or tensordict's) whose entries are nested tensors with the
            jagged layout, or anything with `values`, `lengths` and `offsets` as methods.
        keys: the entries to take, in this order; all where not given.

    Returns:
        A KeyedJaggedTensor, or `features` where that is no TensorDict.

    Raises:
        SparseError: there are no entries, or one is neither a jagged nested tensor nor jagged data.
        KeyError: an entry that there is not.

    Example:
        >>> from flambeau.data import TensorDict
        >>> items = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=torch.jagged)
        >>> maybe_td_to_kjt(TensorDict({"item": items}, batch_size=[2]))["item"].lengths()
        tensor([2, 1])
    """
    if not _is_tensor_dict(features):
        return features
    names = list(features.keys()) if keys is None else list(keys)
    if not names:
        raise SparseError("there are no entries to make features of; name some in keys.")
    parts = [_jagged(name, features.get(name) if name in features.keys() else features[name]) for name in names]  # noqa: SIM118
    return KeyedJaggedTensor(
        names, torch.cat([values for values, _ in parts]), lengths=torch.cat([lengths for _, lengths in parts])
    )


def _is_tensor_dict(value: Any) -> bool:
    """Whether it is one, without importing a library for it: who has one has imported it."""
    return any(kind.__name__ == "TensorDictBase" for kind in type(value).__mro__)


def _jagged(name: str, entry: Any) -> tuple[Tensor, Tensor]:
    """Values and lengths of an entry."""
    if isinstance(entry, Tensor) and not (entry.is_nested and entry.layout == torch.jagged):
        raise SparseError(
            f"entry {name!r} is a tensor of the layout {entry.layout}, expected a nested one with the layout "
            "torch.jagged: make it by torch.nested.nested_tensor(rows, layout=torch.jagged)."
        )
    if isinstance(entry, Tensor) or hasattr(entry, "offsets"):
        return entry.values(), entry.offsets().diff()
    raise SparseError(f"entry {name!r} is a {type(entry).__name__}, expected a nested tensor or jagged data.")
