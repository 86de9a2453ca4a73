"""Macro actions of human figures."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from flambeau.rl.envs.transforms._primitive import TargetMacroAction

__all__ = ["HumanoidMacroAction"]


class HumanoidMacroAction(TargetMacroAction):
    """Controls to reach, and in how many steps; the fields are those of `TargetMacroAction`."""

    @classmethod
    def reach_control(cls, target: Tensor, *, steps: int = 16, settle_steps: int = 0) -> HumanoidMacroAction:
        """Reach controls.

        Args:
            target: (*batch, size).
            steps: how many steps that takes.
            settle_steps: how often the target is repeated behind these.

        Example:
            >>> import torch
            >>> HumanoidMacroAction.reach_control(torch.zeros(2, 21)).target.shape
            torch.Size([2, 21])
        """
        return cast(HumanoidMacroAction, cls.move(target, steps=steps, settle_steps=settle_steps))
