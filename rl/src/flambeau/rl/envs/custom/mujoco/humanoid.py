"""A human figure."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from flambeau.rl.envs.custom.mujoco._locomotion import LocomotionEnv

__all__ = ["HumanoidEnv"]


class HumanoidEnv(LocomotionEnv):
    """A human figure with 21 motors: 28 coordinates, 27 velocities.

    Observations are (N, 53): 26 coordinates without the place in the plane, and 27 velocities within [-10, 10]; actions
    (N, 21) in [-1, 1]. The episode ends when the height of the torso is out of (`HEALTHY_Z_LOW`, `HEALTHY_Z_HIGH`)
    meters.

    Args:
        kwargs: see `MujocoEnv`.

    Example:
        >>> HumanoidEnv(seed=0).reset()["observation"].shape
        torch.Size([1, 53])

    References:
        Y. Tassa, T. Erez, E. Todorov, Synthesis and Stabilization of Complex Behaviors through Online Trajectory
        Optimization, IROS 2012.
    """

    XML_PATH = "humanoid.xml"
    FRAME_SKIP: ClassVar[int] = 5
    SKIP_QPOS: ClassVar[int] = 2
    HEALTHY_Z_LOW: ClassVar[float] = 1.0
    HEALTHY_Z_HIGH: ClassVar[float] = 2.0
    HEALTHY_REWARD: ClassVar[float] = 5.0
    CTRL_COST_WEIGHT: ClassVar[float] = 0.1

    def _is_healthy(self, qpos: Tensor) -> Tensor:
        return (qpos[:, 2] > self.HEALTHY_Z_LOW) & (qpos[:, 2] < self.HEALTHY_Z_HIGH)

    def make_control_transform(
        self, *, execute: bool = True, multi_action_dim: int = 1, stack_rewards: bool = True,
        stack_observations: bool = False, macro_steps: int = 16, settle_steps: int = 0,
    ) -> Any:  # fmt: skip
        """A transform that makes controls to reach, `HumanoidMacroAction`, into sequences of actions.

        Args:
            execute: take all of a sequence in one step of the environment.
            multi_action_dim: as for `MacroPrimitiveTransform`, like what follows.
            stack_rewards: of the steps.
            stack_observations: of the steps.
            macro_steps: of a sequence.
            settle_steps: with the last action, behind these.
        """
        from flambeau.rl.envs.transforms._primitive import MacroPrimitiveTransform

        return MacroPrimitiveTransform(
            macro_steps=macro_steps, settle_steps=settle_steps, action_dim=self._backend.nu, execute=execute,
            multi_action_dim=multi_action_dim, stack_rewards=stack_rewards, stack_observations=stack_observations,
        )  # fmt: skip
