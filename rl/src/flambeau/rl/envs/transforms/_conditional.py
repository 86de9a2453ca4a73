"""Steps that are taken, or not, or by another policy, as a function says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["ConditionalPolicySwitch", "ConditionalSkip"]


class ConditionalSkip(Transform):
    """No step where a function says so: everything stays as it is, and there is no reward.

    Args:
        cond: from a tensordict to a bool, or a mask of the batch: True where no step is taken.
    """

    def __init__(self, cond: Callable[[Any], bool | torch.Tensor]) -> None:
        super().__init__()
        self.cond = cond

    def _inv_call(self, tensordict: Any) -> Any:
        skip = torch.as_tensor(self.cond(tensordict), dtype=torch.bool, device=tensordict.device)
        if skip.shape != tensordict.batch_size:
            if skip.numel() == 1:
                skip = skip.reshape(()).expand(tensordict.batch_size)
            else:
                skip = skip.reshape(tensordict.batch_size)
        step = tensordict.get("_step", None)
        return tensordict.set("_step", ~skip if step is None else step & ~skip)

    def forward(self, tensordict: Any) -> Any:
        """Refused: there are no steps to skip.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("ConditionalSkip works in environments only, whose steps it skips.")


class ConditionalPolicySwitch(Transform):
    """Steps of another policy where a function says so, such as those of an opponent: nobody else sees them.

    Args:
        policy: writes actions into a tensordict.
        condition: from the root of a step to a bool, or a mask of the batch: True where `policy` is to act.
    """

    def __init__(self, policy: Callable[[Any], Any], condition: Callable[[Any], bool]) -> None:
        super().__init__([], [])
        self.__dict__["policy"] = policy
        self.condition = condition

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        parent = self.parent
        ends = [keys[0] for keys in parent._outer_ends()]
        if any(bool(next_tensordict.get(key).all()) for key in ends):
            return next_tensordict
        root = parent.step_mdp(tensordict.exclude("next").set("next", next_tensordict))
        switch = self._where(root, ends)
        if not switch.any():
            return next_tensordict
        if switch.all():
            return self._followed(root)
        if not parent.batch_locked:
            out = next_tensordict.clone()
            out[switch] = self._followed(root[switch])
            return out
        root.set("_step", switch)
        return self._followed(root)

    def _where(self, root: Any, ends: list[Any]) -> torch.Tensor:
        """The entries of the batch in which the other policy acts."""
        switch = torch.as_tensor(self.condition(root), dtype=torch.bool)
        size = root.batch_size
        switch = switch.reshape(()).expand(size) if switch.numel() == 1 else switch.reshape(size)
        for key in ends:
            done = root.get(key)
            if done.numel() >= switch.numel():
                switch = switch & ~done.reshape(*size, -1).any(-1)
        return switch

    def _followed(self, root: Any) -> Any:
        step = self.parent.step(self.policy(root.copy()))  # type: ignore[operator]
        return step.get("next")

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        parent = self.parent
        root = tensordict_reset
        ends = [keys[0] for keys in parent._outer_ends()]
        switch = self._where(root, ends)
        mask = tensordict.get("_reset", None)
        if mask is not None:
            switch = switch & mask.reshape(*root.batch_size, -1).any(-1)
        if not switch.any():
            return tensordict_reset
        if not switch.all():
            root = root.copy().set("_step", switch)
        following = self._followed(root)
        return parent.step_mdp(root.exclude("_step").set("next", following)).exclude(*parent.action_keys)

    def forward(self, tensordict: Any) -> Any:
        """Refused: there are no steps to take.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("ConditionalPolicySwitch works in environments only, whose steps it takes.")
