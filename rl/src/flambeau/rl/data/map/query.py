"""Places in a map, by hashes of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import TensorDictModuleBase
from flambeau.rl.data.map.hash import SipHash

__all__ = ["HashToInt", "QueryModule"]

K = TypeVar("K")
V = TypeVar("V")


class HashToInt(nn.Module):
    """Numbers from 0 on for hashes, in the order in which they appear first."""

    def __init__(self) -> None:
        super().__init__()
        self._index: dict[int, int] = {}

    def __call__(self, key: Tensor, extend: bool = False) -> Tensor:
        """Numbers, int64 and of the shape of `key`; how many there are, for a hash that has none.

        Args:
            key: hashes, int64.
            extend: whether new hashes get numbers.
        """
        found = []
        for each in key.reshape(-1).tolist():
            if extend and each not in self._index:
                self._index[each] = len(self._index)
            found.append(self._index.get(each, len(self._index)))
        return torch.tensor(found, dtype=torch.int64, device=key.device).reshape(key.shape)

    def __len__(self) -> int:
        return len(self._index)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}keys"] = torch.tensor(list(self._index), dtype=torch.int64)
        destination[f"{prefix}values"] = torch.tensor(list(self._index.values()), dtype=torch.int64)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        keys, values = state_dict[f"{prefix}keys"], state_dict[f"{prefix}values"]
        self._index = dict(zip(keys.tolist(), values.tolist(), strict=True))


class QueryModule(TensorDictModuleBase):  # type: ignore[misc]
    """Writes for each row of a tensordict where in a map it is.

    Args:
        in_keys: the entries that make up a row's key.
        index_key: where the places are written, int64.
        hash_key: where the hashes are written.
        hash_module: hashes of one entry's rows, or one such function for each entry; `SipHash` by default.
        hash_to_int: places of hashes; `HashToInt` by default.
        aggregator: one hash of several entries' hashes (rows, entries); `SipHash` by default.
        clone: whether results are written to a shallow copy.
    """

    def __init__(
        self,
        in_keys: Sequence[Any],
        index_key: Any = "_index",
        hash_key: Any = "_hash",
        *,
        hash_module: Callable[[Any], Any] | Sequence[Callable[[Any], Any]] | None = None,
        hash_to_int: Callable[..., Any] | None = None,
        aggregator: Callable[[Any], Any] | None = None,
        clone: bool = False,
    ) -> None:
        super().__init__()
        if not in_keys:
            raise ValueError("QueryModule: in_keys is empty; give the entries that make up a row's key.")
        given = hash_module if isinstance(hash_module, Sequence) else [hash_module or SipHash()] * len(in_keys)
        if len(given) != len(in_keys):
            raise ValueError(f"QueryModule: {len(given)} hash modules for {len(in_keys)} in_keys; give one for each.")
        self.in_keys = list(in_keys)
        self.index_key, self.hash_key = index_key, hash_key
        self.out_keys = [index_key, hash_key]
        self.hash_modules = list(given)
        self.hash_to_int = HashToInt() if hash_to_int is None else hash_to_int
        self.aggregator = SipHash() if aggregator is None else aggregator
        self.clone = clone

    def forward(
        self, tensordict: TensorDictBase, *, extend: bool = True, write_hash: bool = True, clone: bool | None = None
    ) -> TensorDictBase:
        """The tensordict with places, and hashes, of its rows.

        Args:
            tensordict: [*batch].
            extend: whether new keys get places.
            write_hash: whether hashes are written.
            clone: see the constructor.
        """
        shape = tensordict.batch_size
        hashes = []
        for key, module in zip(self.in_keys, self.hash_modules, strict=True):
            value = tensordict.get(key)
            hashes.append(module(value.reshape(shape.numel(), *value.shape[len(shape) :])))
        combined = hashes[0] if len(hashes) == 1 else self.aggregator(torch.stack(hashes, -1))
        combined = combined.reshape(shape)
        places = self.hash_to_int(combined, extend=extend)
        found = tensordict.copy() if (self.clone if clone is None else clone) else tensordict
        found.set(self.index_key, places)
        if write_hash:
            found.set(self.hash_key, combined)
        return found
