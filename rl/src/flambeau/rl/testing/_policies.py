"""Policies for the environments that count."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict.nn import TensorDictModuleBase
from flambeau.rl.data.tensor_specs import TensorSpec
from flambeau.rl.envs._keys import NestedKey

__all__ = [
    "ActionObsMergeLinear",
    "CountingEnvCountModule",
    "CountingEnvCountPolicy",
    "DiscreteActionConvPolicy",
    "DiscreteActionVecPolicy",
    "MultiKeyCountingEnvPolicy",
]


class CountingEnvCountModule(nn.Module):
    """Gives the action that counts on, whatever it gets.

    Args:
        action_spec: of the action.
    """

    def __init__(self, action_spec: TensorSpec) -> None:
        super().__init__()
        self.action_spec = action_spec

    def forward(self, t: Tensor) -> Tensor:
        """The action.

        Args:
            t: has no effect.
        """
        return self.action_spec.zero() + 1  # type: ignore[no-any-return]


class CountingEnvCountPolicy(TensorDictModuleBase):  # type: ignore[misc]
    """Writes the action that counts on.

    Args:
        action_spec: of the action.
        action_key: of the action.
    """

    def __init__(self, action_spec: TensorSpec, action_key: NestedKey = "action") -> None:
        super().__init__()
        self.action_spec = action_spec
        self.action_key = action_key
        self.in_keys: list[NestedKey] = []
        self.out_keys = [action_key]

    def forward(self, td: Any) -> Any:
        """Write the action.

        Args:
            td: changed in place.
        """
        return td.set(self.action_key, self.action_spec.zero() + 1)


class MultiKeyCountingEnvPolicy(TensorDictModuleBase):  # type: ignore[misc]
    """Writes actions of `MultiKeyCountingEnv` that count on, or random ones.

    Args:
        full_action_spec: of its actions.
        count: the actions count on; else they do not.
        deterministic: False: the actions are random, whatever `count` says.
    """

    def __init__(self, full_action_spec: Any, count: bool = True, deterministic: bool = False) -> None:
        super().__init__()
        self.full_action_spec = full_action_spec
        self.count = count
        self.deterministic = deterministic
        self.in_keys: list[NestedKey] = []
        self.out_keys: list[NestedKey] = list(full_action_spec.keys(True, True))

    def forward(self, td: Any) -> Any:
        """Write the actions.

        Args:
            td: changed in place.
        """
        if not self.deterministic:
            return td.update(self.full_action_spec.rand())
        action = self.full_action_spec.zero()
        if self.count:
            action["nested_1", "action"] = torch.ones_like(action["nested_1", "action"])
            action["nested_2", "azione"] = torch.ones_like(action["nested_2", "azione"])
            action["action"][..., 1] = True
        return td.update(action)


class DiscreteActionVecPolicy(TensorDictModuleBase):  # type: ignore[misc]
    """Chooses the first entry of a vector that is not the greatest, so that all grow evenly, as one-hot vectors."""

    in_keys: list[NestedKey] = ["observation"]
    out_keys: list[NestedKey] = ["action"]

    def _vector(self, tensordict: Any) -> Tensor:
        return tensordict.get("observation")  # type: ignore[no-any-return]

    def forward(self, tensordict: Any) -> Any:
        """Write the action.

        Args:
            tensordict: with the vector; changed in place.
        """
        vector = self._vector(tensordict)
        smaller = vector < vector.amax(-1, keepdim=True)
        return tensordict.set("action", nn.functional.one_hot(smaller.long().argmax(-1), vector.shape[-1]))


class DiscreteActionConvPolicy(DiscreteActionVecPolicy):
    """`DiscreteActionVecPolicy` for a vector on the diagonal of an image (1, size, size)."""

    in_keys: list[NestedKey] = ["pixels"]

    def _vector(self, tensordict: Any) -> Tensor:
        return tensordict.get("pixels").squeeze(-3).diagonal(0, -1, -2)  # type: ignore[no-any-return]


class ActionObsMergeLinear(nn.Module):
    """A linear layer of an observation and an action, one behind the other.

    Args:
        in_size: of both together.
        out_size: of the result.
    """

    def __init__(self, in_size: int, out_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_size, out_size)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """From (..., a) and (..., b) to (..., `out_size`).

        Args:
            observation: (..., a).
            action: (..., b), a + b = `in_size`.
        """
        return self.linear(torch.cat([observation, action], -1))  # type: ignore[no-any-return]
