"""`KeyedTensor`: several features of an example side by side in one dense tensor."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.rec.ops.keyed import regroup
from flambeau.rec.sparse._construction import JaggedTensorMeta
from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.streamable import Pipelineable

__all__ = ["KeyedTensor", "permute_multi_embedding", "regroup_kts"]


class KeyedTensor(Pipelineable, metaclass=JaggedTensorMeta):
    """Features of given widths, joined along a dimension: what pooled embeddings are.

    Args:
        keys: K names.
        length_per_key: width of each.
        values: their tensors joined along `key_dim`.
        key_dim: the dimension that they are joined along.
        offset_per_key: where each begins, and where the last ends, where that is known.
        index_per_key: place of each key among `keys`, where it is known.

    Example:
        >>> pooled = KeyedTensor(["user", "item"], [1, 2], torch.arange(6.0).view(2, 3))
        >>> pooled["item"]
        tensor([[1., 2.],
                [4., 5.]])
    """

    def __init__(
        self,
        keys: list[str],
        length_per_key: list[int],
        values: Tensor,
        key_dim: int = 1,
        offset_per_key: list[int] | None = None,
        index_per_key: dict[str, int] | None = None,
    ) -> None:
        self._keys = keys
        self._length_per_key = length_per_key
        self._values = values
        self._key_dim = key_dim
        self._offset_per_key = offset_per_key
        self._index_per_key = index_per_key

    @staticmethod
    def from_tensor_list(keys: list[str], tensors: list[Tensor], key_dim: int = 1, cat_dim: int = 1) -> KeyedTensor:
        """Join tensors along `cat_dim`; their widths are those along `key_dim`."""
        widths = [tensor.shape[key_dim] for tensor in tensors]
        return KeyedTensor(keys, widths, torch.cat(tensors, dim=cat_dim), key_dim)

    def keys(self) -> list[str]:
        """The names, in order."""
        return self._keys

    def values(self) -> Tensor:
        """All features, joined along `key_dim()`."""
        return self._values

    def key_dim(self) -> int:
        """The dimension that features are joined along."""
        return self._key_dim

    def length_per_key(self) -> list[int]:
        """Width of each feature."""
        return self._length_per_key

    def offset_per_key(self) -> list[int]:
        """Where each feature begins, and where the last ends."""
        if self._offset_per_key is None:
            self._offset_per_key = [0, *accumulate(self._length_per_key)]
        return self._offset_per_key

    def _places(self) -> dict[str, int]:
        if self._index_per_key is None:
            self._index_per_key = {key: at for at, key in enumerate(self._keys)}
        return self._index_per_key

    def __getitem__(self, key: str) -> Tensor:
        at = self._places()[key]
        return self._values.narrow(self._key_dim, self.offset_per_key()[at], self._length_per_key[at])

    def to_dict(self) -> dict[str, Tensor]:
        """Each feature by its name, as views."""
        return {key: self[key] for key in self._keys}

    @staticmethod
    def regroup(keyed_tensors: list[KeyedTensor], groups: list[list[str]]) -> list[Tensor]:
        """Features of several, put together anew.

        Args:
            keyed_tensors: with keys that are unique among all of them.
            groups: the features that make each result, in order; one may stand in several groups.

        Returns:
            One tensor for each group, the features joined along the dimension of their keys.

        Raises:
            KeyError: a feature that none has.
        """
        if groups and _are_matrices(keyed_tensors):
            values, keys = [one._values for one in keyed_tensors], [one._keys for one in keyed_tensors]
            return regroup(values, keys, [one._length_per_key for one in keyed_tensors], groups)
        places = {key: one for one in keyed_tensors for key in one._keys}
        dim = keyed_tensors[0]._key_dim if keyed_tensors else 1
        return [torch.cat([places[key][key] for key in group], dim) for group in groups]

    @staticmethod
    def regroup_as_dict(
        keyed_tensors: list[KeyedTensor], groups: list[list[str]], keys: list[str]
    ) -> dict[str, Tensor]:
        """`regroup`, with a name for each group.

        Raises:
            SparseError: groups and names differ in number.
        """
        if len(groups) != len(keys):
            raise SparseError(f"{len(groups)} groups and {len(keys)} keys; give each group one key.")
        return dict(zip(keys, KeyedTensor.regroup(keyed_tensors, groups), strict=True))

    def device(self) -> torch.device:
        """Where the values are."""
        return self._values.device

    def to(self, device: torch.device, non_blocking: bool = False) -> KeyedTensor:
        """The same on another device."""
        return KeyedTensor(
            self._keys,
            self._length_per_key,
            self._values.to(device, non_blocking=non_blocking),
            self._key_dim,
            self._offset_per_key,
            self._index_per_key,
        )

    def size_in_bytes(self) -> int:
        """The memory of the values."""
        return self._values.numel() * self._values.element_size()

    @torch.jit.unused
    def record_stream(self, stream: torch.Stream) -> None:
        """Keep the memory of the values from being used again before `stream` is done with it."""
        self._values.record_stream(stream)

    def __str__(self) -> str:
        if not self._keys:
            return "KeyedTensor()\n"
        lines = [f'    "{key}": {self[key].tolist()}' for key in self._keys]
        return "KeyedTensor({\n" + ",\n".join(lines) + "\n})\n"

    def __repr__(self) -> str:
        widths = dict(zip(self._keys, self._length_per_key, strict=True))
        return f"KeyedTensor({widths}, {tuple(self._values.shape)} {self._values.dtype})"


def _are_matrices(keyed_tensors: list[KeyedTensor]) -> bool:
    """Whether one kernel can regroup them: matrices of one dtype and batch, features side by side, not traced by fx."""
    values = [one._values for one in keyed_tensors]
    if not values or not all(isinstance(one, Tensor) for one in values):
        return False
    first = values[0]
    return all(one._key_dim == 1 for one in keyed_tensors) and all(
        one.dim() == 2 and one.dtype == first.dtype and one.device == first.device and one.shape[0] == first.shape[0]
        for one in values
    )


def permute_multi_embedding(keyed_tensors: list[KeyedTensor], groups: list[list[str]]) -> list[Tensor]:
    """`KeyedTensor.regroup` under the name of the kernel that does it upstream."""
    return KeyedTensor.regroup(keyed_tensors, groups)


def regroup_kts(keyed_tensors: list[KeyedTensor], groups: list[list[str]]) -> list[Tensor]:
    """`KeyedTensor.regroup` under the name of another kernel that does it upstream."""
    return KeyedTensor.regroup(keyed_tensors, groups)


def _flatten(kt: KeyedTensor) -> tuple[list[Any], tuple[list[str], list[int]]]:
    return [kt._values], (kt._keys, kt._length_per_key)


def _flatten_with_keys(kt: KeyedTensor) -> tuple[list[tuple[Any, Any]], tuple[list[str], list[int]]]:
    values, context = _flatten(kt)
    return [(pytree.GetAttrKey("_values"), values[0])], context


def _unflatten(values: Any, context: tuple[list[str], list[int]]) -> KeyedTensor:
    return KeyedTensor(*context, values[0])


pytree.register_pytree_node(
    KeyedTensor,
    _flatten,
    _unflatten,
    serialized_type_name="flambeau.rec.KeyedTensor",
    flatten_with_keys_fn=_flatten_with_keys,
)
