"""Other forms of the same tensordict: dense, lazy, padded, described."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.keys import key_path
from flambeau.data.tensordict._layout.non_tensor import resized
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class FormMethods(CollectionMethods):
    """densify, to_lazystack, to_padded_tensor, as_tensor, attrs."""

    def as_tensor(self) -> Self:
        """With memory-mapped tensors as plain ones that share their memory."""
        leaves = [leaf.as_tensor() if hasattr(leaf, "as_tensor") else leaf for leaf in self._leaves()]
        result = self._rebuild(iter(leaves))
        return result._propagate_lock() if self.is_locked else result

    def densify(self, layout: torch.layout = torch.strided) -> Self:
        """With lazy stacks, here and below, made dense; entries of different shapes become nested tensors.

        Where there is no lazy stack, `self`.

        Args:
            layout: of these nested tensors.
        """
        items = list(self._items())  # some collections make a new object at each access
        data = {key: value.densify(layout=layout) if _is_tree(value) else value for key, value in items}
        if all(data[key] is value for key, value in items):
            return self
        return self._result(data, self.batch_size, self.device, self._names_or_none())

    def to_lazystack(self, dim: int = 0) -> Any:
        """A lazy stack of the elements along a batch dimension, which are views."""
        where = self._dim(dim)
        return classes.LazyStackedTensorDict(*self.unbind(where), stack_dim=where)

    def to_padded_tensor(self, padding: float = 0.0, mask_key: Any = None) -> Self:
        """With nested tensors filled up to common shapes.

        Args:
            padding: to fill with.
            mask_key: put a bool entry there that is True where an element is no filling; the ragged dimension
                must be one of the batch.

        Raises:
            RuntimeError: `mask_key`, and the ragged dimension is none of the batch.
        """
        data: dict[str, Any] = {}
        mask = None
        size = self.batch_size
        for key, value in self._items():
            if _is_tree(value):
                data[key] = value.to_padded_tensor(padding)
            elif isinstance(value, Tensor) and value.is_nested:
                data[key] = torch.nested.to_padded_tensor(value, padding)
                mask = _mask(value, data[key]) if mask is None else mask
            else:
                data[key] = value
        if len(size) > 1 and mask is not None:
            size = torch.Size((*size[:1], mask.shape[1], *size[2:]))
        elif mask_key is not None:
            raise RuntimeError("mask_key: the ragged dimension is none of the batch, so no mask of the batch exists.")
        result = self._result(data, size, self.device, self._names_or_none())
        if mask_key is not None:
            result._set_path(key_path(mask_key), mask)
        return result

    def attrs(self, *, fields: Sequence[str] = ("device", "dtype", "shape"), num_threads: int | None = None) -> Any:
        """A tensordict that describes each tensor by a `TensorAttrs`, without batch dimensions.

        Args:
            fields: which of "device", "dtype" and "shape".
            num_threads: taken for compatibility; describing needs none.

        Raises:
            ValueError: an unknown field.
        """
        unknown = set(fields) - {"device", "dtype", "shape"}
        if unknown:
            raise ValueError(f'attrs: no fields {sorted(unknown)}; there are "device", "dtype" and "shape".')
        data: dict[str, Any] = {}
        for key, value in self._items():
            if _is_tree(value):
                data[key] = value.attrs(fields=fields)
            elif isinstance(value, TensorCollection):
                data[key] = resized(value, torch.Size(()))
            else:
                data[key] = classes.TensorAttrs(
                    **{f"tgt_{field}": classes.NonTensorData(getattr(value, field)) for field in fields}
                )
        return self._result(data, torch.Size(()))

    def clear_refs_for_compile_(self) -> Self:
        """Drop what a compiled function need not return: caches, and what `with` would undo."""
        self._cache = None
        self._last_op = None
        for value in self._collections():
            if not value._is_non_tensor:
                value.clear_refs_for_compile_()
        return self


def _is_tree(value: Any) -> bool:
    return isinstance(value, TensorCollection) and not value._is_non_tensor


def _mask(ragged: Tensor, padded: Tensor) -> Tensor:
    lengths = torch.tensor([len(part) for part in ragged.unbind(0)], device=padded.device)
    return torch.arange(padded.shape[1], device=padded.device) < lengths.unsqueeze(-1)
