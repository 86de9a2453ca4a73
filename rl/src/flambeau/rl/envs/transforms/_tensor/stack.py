"""Several values as one, along a new dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flambeau.rl.data.tensor_specs import Composite, TensorSpec
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["Stack"]


class Stack(Transform):
    """Values of the same shape as one, along a new dimension; and one as several, on the way in.

    Args:
        in_keys: of the values.
        out_key: of their stack.
        in_key_inv: of a stack that comes from outside.
        out_keys_inv: of the values that it is taken apart into, which the environment reads.
        dim: the new dimension, negative.
        allow_positive_dim: it may be counted from the first one behind the batch.
        del_keys: the values themselves go.

    Raises:
        ValueError: `dim` is not negative, and need be; or only one of the keys of the inverse is given.
    """

    invertible = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_key: NestedKey,
        in_key_inv: NestedKey | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        dim: int = -1,
        allow_positive_dim: bool = False,
        *,
        del_keys: bool = True,
    ) -> None:
        if not allow_positive_dim and dim >= 0:
            raise ValueError(
                f"dim is counted from the last, so that batches may have any size; got {dim}. allow_positive_dim=True "
                "counts it from the first one behind the batch."
            )
        if (in_key_inv is None) != (out_keys_inv is None):
            raise ValueError("Stack takes apart what is at in_key_inv into out_keys_inv; give both, or neither.")
        super().__init__(
            in_keys, [out_key], [] if in_key_inv is None else [in_key_inv], [] if out_keys_inv is None else out_keys_inv
        )
        self.dim = dim
        self.del_keys = del_keys

    def _at(self) -> int:
        return self.dim + len(self.parent.batch_size) if self.dim >= 0 and self.parent is not None else self.dim

    def _call(self, next_tensordict: Any) -> Any:
        values = []
        for key in self.in_keys:
            value = next_tensordict.get(key, None)
            if value is None:
                if self.missing_tolerance:
                    return next_tensordict
                raise self._missing(key, next_tensordict)
            values.append(value)
        stacked = torch.stack(values, self._at())
        if self.del_keys:
            next_tensordict = next_tensordict.exclude(*self.in_keys)
        return next_tensordict.set(self.out_keys[0], stacked)

    def forward(self, tensordict: Any) -> Any:
        """Stack values.

        Args:
            tensordict: with all of `in_keys`.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        there = set(tensordict_reset.keys(True))
        return self._call(tensordict_reset) if all(key in there for key in self.in_keys) else tensordict_reset

    def _inv_call(self, tensordict: Any) -> Any:
        if not self.in_keys_inv:
            return tensordict
        value = tensordict.get(self.in_keys_inv[0], None)
        if value is None:
            if self.missing_tolerance:
                return tensordict
            raise self._missing(self.in_keys_inv[0], tensordict)
        values = value.unbind(self._at())
        if len(values) != len(self.out_keys_inv):
            raise ValueError(
                f"There are {len(values)} values in {self.in_keys_inv[0]!r} for the {len(self.out_keys_inv)} keys "
                f"{self.out_keys_inv}."
            )
        if self.del_keys:
            tensordict = tensordict.exclude(self.in_keys_inv[0])
        for key, each in zip(self.out_keys_inv, values, strict=True):
            tensordict.set(key, each)
        return tensordict

    # Specs

    def _stacked(self, spec: Any, in_keys: Any, out_key: Any) -> Any:
        if not isinstance(spec, Composite):
            return spec
        there = set(spec.keys(True))
        if not in_keys or not all(key in there for key in in_keys):
            return spec
        stacked = torch.stack([spec[key] for key in in_keys], self._at())
        if self.del_keys:
            for key in in_keys:
                del spec[key]
        spec[out_key] = stacked
        return spec

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """With the stack of observations.

        Args:
            observation_spec: a composite.
        """
        return self._stacked(observation_spec, self.in_keys, self.out_keys[0])  # type: ignore[no-any-return]

    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """With the stack of rewards.

        Args:
            reward_spec: a composite.
        """
        return self._stacked(reward_spec, self.in_keys, self.out_keys[0])  # type: ignore[no-any-return]

    def transform_done_spec(self, done_spec: TensorSpec) -> TensorSpec:
        """With the stack of ends.

        Args:
            done_spec: a composite.
        """
        return self._stacked(done_spec, self.in_keys, self.out_keys[0])  # type: ignore[no-any-return]

    def transform_input_spec(self, input_spec: Any) -> Any:
        """With the stack that is taken apart on the way in.

        Args:
            input_spec: a composite.
        """
        if self.in_keys_inv:
            for name in ("full_action_spec", "full_state_spec"):
                input_spec[name] = self._stacked(input_spec[name], self.out_keys_inv, self.in_keys_inv[0])
        return input_spec

    def __repr__(self) -> str:
        return f"{type(self).__name__}(in_keys={self.in_keys}, out_key={self.out_keys[0]}, dim={self.dim})"
