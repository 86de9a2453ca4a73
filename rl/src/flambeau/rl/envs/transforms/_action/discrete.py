"""Discrete actions, some of which may not be taken, or do not exist."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from flambeau.rl.data.tensor_specs import Categorical, MultiCategorical, MultiOneHot, OneHot
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["ActionMask", "DiscreteActionProjection"]


class ActionMask(Transform):
    """Random actions are drawn from those that the environment allows, by the mask that it gives.

    Args:
        action_key: of the action.
        mask_key: of the mask, True where an action may be taken.

    Raises:
        ValueError: the action is not discrete.

    Example:
        >>> env = TransformedEnv(base_env, ActionMask())  # doctest: +SKIP
        >>> env.rollout(100)  # doctest: +SKIP
    """

    ACCEPTED_SPECS = (OneHot, Categorical, MultiOneHot, MultiCategorical)
    SPEC_TYPE_ERROR = "A mask is for actions of one of {}; got {}."

    def __init__(self, action_key: NestedKey = "action", mask_key: NestedKey = "action_mask") -> None:
        if not isinstance(action_key, (tuple, str)):
            raise ValueError(f"action_key is one key; got {action_key!r}.")
        if not isinstance(mask_key, (tuple, str)):
            raise ValueError(f"mask_key is one key; got {mask_key!r}.")
        super().__init__([action_key, mask_key], [])

    @property
    def action_spec(self) -> Any:
        """The spec whose mask is set: that of the environment as its users see it.

        Raises:
            ValueError: the action is not discrete.
        """
        spec = self.container.full_action_spec[self.in_keys[0]]
        if not isinstance(spec, self.ACCEPTED_SPECS):
            names = [each.__name__ for each in self.ACCEPTED_SPECS]
            raise ValueError(self.SPEC_TYPE_ERROR.format(names, type(spec).__name__))
        return spec

    def _call(self, next_tensordict: Any) -> Any:
        if self.parent is None:
            raise self._homeless()
        mask = next_tensordict.get(self.in_keys[1], None)
        if mask is None:
            raise self._missing(self.in_keys[1], next_tensordict)
        spec = self.action_spec
        spec.update_mask(mask if spec.device is None else mask.to(spec.device))
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        spec = self.action_spec
        mask = tensordict_reset.get(self.in_keys[1], None)
        if mask is None:
            raise self._missing(self.in_keys[1], tensordict_reset)
        if spec.device is not None:
            mask = mask.to(spec.device)
        # Entries that go on keep the mask of their last step.
        reset = tensordict.get("_reset", None)
        old = getattr(spec, "mask", None)
        if reset is not None and old is not None and not reset.all():
            mask = torch.where(spread(reset, mask), mask, old.expand(mask.shape))
        spec.update_mask(mask)
        return tensordict_reset

    def _homeless(self) -> RuntimeError:
        return RuntimeError("ActionMask sets the mask of an environment's actions; append it to one.")

    def forward(self, tensordict: Any) -> Any:
        """Refused: there are no actions to draw.

        Raises:
            RuntimeError: always.
        """
        raise self._homeless()


class DiscreteActionProjection(Transform):
    """More discrete actions than an environment has; those that it has not become random ones.

    Environments that take numbers of actions are given such, the others one-hot vectors, as they are outside.

    Args:
        num_actions_effective: of the environment.
        max_actions: as seen from outside, at least as many.
        action_key: of the action.
        include_forward: one-hot actions that a buffer or environment gives get as many entries as outside.

    Raises:
        RuntimeError: there are fewer actions outside.
    """

    def __init__(
        self,
        num_actions_effective: int,
        max_actions: int,
        action_key: NestedKey = "action",
        include_forward: bool = True,
    ) -> None:
        if max_actions < num_actions_effective:
            raise RuntimeError(
                f"max_actions must be at least num_actions_effective; got {max_actions} and {num_actions_effective}."
            )
        keys = [action_key] if include_forward else []
        super().__init__(in_keys=keys, out_keys=list(keys), in_keys_inv=[action_key], out_keys_inv=[action_key])
        self.num_actions_effective = num_actions_effective
        self.max_actions = max_actions

    def _call(self, next_tensordict: Any) -> Any:
        # Environments give no actions.
        return next_tensordict

    def _apply_transform(self, action: Tensor) -> Tensor:
        return functional.pad(action, (0, self.max_actions - self.num_actions_effective))

    def _inv_apply_transform(self, action: Tensor) -> Tensor:
        numbers = self._takes_numbers()
        if not numbers and action.shape[-1:] != (self.max_actions,):
            raise RuntimeError(
                f"DiscreteActionProjection needs one-hot actions with {self.max_actions} entries; got shape "
                f"{tuple(action.shape)}."
            )
        choice = action if numbers else action.long().argmax(-1)
        lacking = choice >= self.num_actions_effective
        if lacking.any():
            drawn = torch.randint(self.num_actions_effective, (int(lacking.sum()),), device=choice.device)
            choice = choice.masked_scatter(lacking, drawn)
        if numbers:
            return choice
        return functional.one_hot(choice, self.num_actions_effective).to(action.dtype)

    def _takes_numbers(self) -> bool:
        """Whether the environment takes numbers of actions, rather than one-hot vectors."""
        parent = self.parent
        return parent is not None and isinstance(parent.full_action_spec[self.in_keys_inv[0]], Categorical)

    def transform_input_spec(self, input_spec: Any) -> Any:
        """As many actions as outside.

        Args:
            input_spec: a composite.
        """
        actions = input_spec["full_action_spec"]
        key = self.in_keys_inv[0]
        spec = actions[key]
        if isinstance(spec, Categorical):
            actions[key] = Categorical(self.max_actions, spec.shape, device=spec.device, dtype=spec.dtype)
        else:
            shape = (*spec.shape[:-1], self.max_actions)
            actions[key] = OneHot(self.max_actions, shape, device=spec.device, dtype=spec.dtype)
        input_spec["full_action_spec"] = actions
        return input_spec

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_actions_effective={self.num_actions_effective}, "
            f"max_actions={self.max_actions}, in_keys_inv={self.in_keys_inv})"
        )
