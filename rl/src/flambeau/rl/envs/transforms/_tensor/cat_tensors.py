"""`CatTensors`: several values as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flambeau.rl.data.tensor_specs import Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["CatTensors"]


class CatTensors(Transform):
    """Several values concatenated to one.

    Args:
        in_keys: of the values; default: all observations of the environment.
        out_key: where to write them.
        dim: along which they are concatenated.
        del_keys: take the values out of the tensordict, but for one at `out_key`.
        unsqueeze_if_oor: give values a dimension more that have not as many as `dim` needs.
        sort: concatenate in the alphabetical order of keys.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> both = CatTensors(in_keys=["x", "a"], out_key="both")
        >>> both(TensorDict({"x": torch.ones(2), "a": torch.zeros(1)}))["both"]
        tensor([0., 1., 1.])
    """

    invertible = False

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_key: NestedKey = "observation_vector", dim: int = -1, *,
        del_keys: bool = True, unsqueeze_if_oor: bool = False, sort: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(in_keys=in_keys, out_keys=[out_key])
        self.dim, self.del_keys, self.unsqueeze_if_oor, self.sort = dim, del_keys, unsqueeze_if_oor, sort
        self._found = in_keys is not None
        if self._found and sort:
            self.in_keys = sorted(self.in_keys, key=_in_alphabet)

    @property
    def keys_to_exclude(self) -> list[NestedKey]:
        """The keys that are taken out."""
        return [key for key in self.in_keys if key != self.out_keys[0]]

    def _find_keys(self) -> None:
        """Take all observations of the environment."""
        parent = self.parent
        if parent is None:
            raise RuntimeError(
                "CatTensors: without `in_keys` it takes all observations of an environment; it has none."
            )
        keys = list(parent.observation_spec.keys(True, True))
        self.in_keys = sorted(keys, key=_in_alphabet) if self.sort else keys
        self._found = True

    def _call(self, next_tensordict: Any) -> Any:
        if not self._found:
            self._find_keys()
        values = [next_tensordict.get(key, None) for key in self.in_keys]
        if any(value is None for value in values):
            lacking = [key for key, value in zip(self.in_keys, values, strict=True) if value is None]
            raise KeyError(
                f"CatTensors: of its keys {self.in_keys} the tensordict lacks {lacking}; it has "
                f"{list(next_tensordict.keys(True, True))}."
            )
        if self.unsqueeze_if_oor:
            values = [self._with_dim(value) for value in values]
        together = torch.cat(values, self.dim)
        if self.del_keys:
            next_tensordict = next_tensordict.exclude(*self.keys_to_exclude, inplace=True)
        return next_tensordict.set(self.out_keys[0], together)

    def _with_dim(self, value: Any) -> Any:
        needed = self.dim + 1 if self.dim >= 0 else -self.dim
        return value if value.ndim >= needed else value.unsqueeze(self.dim)

    def forward(self, tensordict: Any) -> Any:
        """Concatenate values of any data.

        Args:
            tensordict: changed in place.

        Raises:
            KeyError: it lacks one of the values.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs with the concatenated value.

        Args:
            observation_spec: a composite.

        Raises:
            ValueError: it lacks one of the values.
        """
        if not self._found:
            self._find_keys()
        keys = self.in_keys
        known = list(observation_spec.keys(True, True)) if isinstance(observation_spec, Composite) else []
        if lacking := [key for key in keys if key not in known]:
            raise ValueError(f"CatTensors: of its keys {keys} the observations lack {lacking}; they are {known}.")
        specs = [observation_spec[key] for key in keys]
        if self.unsqueeze_if_oor:
            specs = [self._with_dim(spec) for spec in specs]
        shape = list(specs[0].shape)
        shape[self.dim] = sum(spec.shape[self.dim] for spec in specs)
        dtype = specs[0].dtype
        for spec in specs[1:]:
            dtype = torch.promote_types(dtype, spec.dtype)
        if self.del_keys:
            for key in self.keys_to_exclude:
                del observation_spec[key]
        observation_spec[self.out_keys[0]] = Unbounded(shape, dtype=dtype, device=specs[0].device)
        return observation_spec

    def __repr__(self) -> str:
        return f"{type(self).__name__}(in_keys={self.in_keys}, out_key={self.out_keys[0]})"


def _in_alphabet(key: NestedKey) -> str:
    return key if isinstance(key, str) else ".".join(key)
