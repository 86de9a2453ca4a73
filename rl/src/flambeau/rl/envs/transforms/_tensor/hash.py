"""Hashes of values, which stand for them where only numbers can."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._tensor.unary import UnaryTransform

__all__ = ["Hash"]


class Hash(UnaryTransform):
    """The hash of each value; and the value of each hash that was made, on the way in.

    Args:
        in_keys: of what is hashed: tensors, strings or other objects.
        out_keys: of the hashes.
        in_keys_inv: of values that the environment reads.
        out_keys_inv: of their hashes, which are given from outside; default: `in_keys_inv`.
        hash_fn: from a value, and a seed where there is one, to a number or tensor; default: the 32 bytes of SHA-256.
        seed: of the hashes.
        use_raw_nontensor: as for `UnaryTransform`.
        repertoire: hash -> value for all that is known from the start; default: empty, and kept only where values are
            to be found again.

    Raises:
        ValueError: there are in keys of the inverse, and no out keys, or the other way round.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        hash_fn: Callable[..., Any] | None = None,
        seed: Any | None = None,
        use_raw_nontensor: bool = False,
        repertoire: dict[Any, Any] | None = None,
    ) -> None:
        keeps = bool(in_keys_inv)
        super().__init__(
            in_keys,
            out_keys,
            in_keys_inv,
            out_keys_inv,
            fn=self.call_hash_fn,
            inv_fn=self.get_input_from_hash,
            use_raw_nontensor=use_raw_nontensor,
        )
        self._hash_fn = self.reproducible_hash if hash_fn is None else hash_fn
        self._seed = seed
        self._repertoire = {} if repertoire is None and keeps else repertoire

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The hashes that are known, with their values.

        Args:
            args: as for a module.
            destination: as for a module.
            prefix: as for a module.
            keep_vars: as for a module.
        """
        state = super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        state[f"{prefix}_repertoire"] = self._repertoire
        return state

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if f"{prefix}_repertoire" in state_dict:
            self._repertoire = state_dict.pop(f"{prefix}_repertoire")
        super()._load_from_state_dict(state_dict, prefix, *args)

    @classmethod
    def hash_to_repertoire_key(cls, hash_tensor: Any) -> Any:
        """A hash as a key of a dictionary.

        Args:
            hash_tensor: a tensor, or whatever the function of hashes returns.
        """
        if isinstance(hash_tensor, Tensor):
            return cls.hash_to_repertoire_key(hash_tensor.tolist())
        if isinstance(hash_tensor, list):
            return tuple(cls.hash_to_repertoire_key(each) for each in hash_tensor)
        return hash_tensor

    def get_input_from_hash(self, hash_tensor: Any) -> Any:
        """The value that has a hash.

        Args:
            hash_tensor: a hash that was made by this transform, or is in its repertoire.

        Raises:
            RuntimeError: no values are kept.
            KeyError: the hash is not known.
        """
        if self._repertoire is None:
            raise RuntimeError("Hash keeps values only where it has in_keys_inv, or a repertoire; give one of them.")
        key = self.hash_to_repertoire_key(hash_tensor)
        if key not in self._repertoire:
            raise KeyError(f"No value is known that has the hash {hash_tensor}.")
        return self._repertoire[key]

    def call_hash_fn(self, value: Any) -> Any:
        """The hash of a value, which is remembered where values are to be found again.

        Args:
            value: what to hash.
        """
        made = self._hash_fn(value) if self._seed is None else self._hash_fn(value, self._seed)
        if self._repertoire is not None:
            self._repertoire[self.hash_to_repertoire_key(made)] = value
        return made

    @classmethod
    def reproducible_hash(cls, string: Any, seed: Any = None) -> Tensor:
        """The SHA-256 of a text, the same in every process.

        Args:
            string: a text, or an object that has one.
            seed: is put before.

        Returns:
            (32,), uint8.
        """
        text = str(getattr(string, "data", string) if type(string).__name__ == "NonTensorData" else string)
        if seed is not None:
            text = f"{seed}{text}"
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        return torch.tensor(list(digest), dtype=torch.uint8)
