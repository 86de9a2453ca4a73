"""`ExpandAs`: a value in the shape of another."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform, tolerating_missing

__all__ = ["ExpandAs"]


class ExpandAs(Transform):
    """A value expanded to the shape of another, such as the reward of all to each of them.

    Args:
        in_key: of the value; its dimensions are the first of the other's, but for sizes 1 at its end.
        ref_key: of the value whose shape it gets.
        out_key: where to write it; default: `in_key`.

    Example:
        >>> import torch
        >>> from flambeau.data.tensordict import TensorDict
        >>> expand = ExpandAs("reward", "action")
        >>> expand(TensorDict({"reward": torch.ones(2, 1), "action": torch.zeros(2, 5)}))["reward"].shape
        torch.Size([2, 5])
    """

    def __init__(self, in_key: NestedKey, ref_key: NestedKey, out_key: NestedKey | None = None) -> None:
        super().__init__(in_keys=[in_key], out_keys=[in_key if out_key is None else out_key])
        self.ref_key = ref_key

    def _call(self, next_tensordict: Any) -> Any:
        value, like = (next_tensordict.get(key, None) for key in (self.in_keys[0], self.ref_key))
        if value is None or like is None:
            if self._missing_tolerance:
                return next_tensordict
            raise self._missing(self.in_keys[0] if value is None else self.ref_key, next_tensordict)
        return next_tensordict.set(self.out_keys[0], self._expanded(value, like))

    def _expanded(self, value: Tensor, like: Tensor) -> Tensor:
        try:
            return spread(value, like)
        except RuntimeError:
            raise RuntimeError(
                f"ExpandAs: {self.in_keys[0]!r} of shape {tuple(value.shape)} cannot be expanded to the shape of "
                f"{self.ref_key!r}, {tuple(like.shape)}: its dimensions must be the first of those."
            ) from None

    def forward(self, tensordict: Any) -> Any:
        """Expand the value of any data.

        Args:
            tensordict: changed in place.

        Raises:
            KeyError: it lacks one of the two values.
            RuntimeError: their shapes do not fit.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of what the environment gives, with the expanded value beside the one it is made of.

        Args:
            output_spec: of observations, rewards and ends.

        Raises:
            KeyError: one of the two values is none of them.
        """
        groups = ("full_observation_spec", "full_reward_spec", "full_done_spec")
        found: dict[Any, tuple[str, Any]] = {}
        for group in groups:
            for key, spec in output_spec[group].items(True, True):
                found.setdefault(key, (group, spec))
        for key in (self.in_keys[0], self.ref_key):
            if key not in found:
                raise KeyError(f"ExpandAs: {key!r} is nothing that the environment gives, which is {list(found)}.")
        group, spec = found[self.in_keys[0]]
        shape = found[self.ref_key][1].shape
        while spec.ndim > 1 and spec.shape[-1] == 1 and spec.shape != shape[: spec.ndim]:
            spec = spec.squeeze(-1)
        if spec.ndim < len(shape):
            spec = spec.reshape((*spec.shape, *[1] * (len(shape) - spec.ndim)))
        # An end that something else is made of is no end: it is seen as an observation.
        target = groups[0] if group == groups[2] and self.out_keys != self.in_keys else group
        output_spec[target][self.out_keys[0]] = spec.expand(shape)
        return output_spec
