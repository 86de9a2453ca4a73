"""Two legs that walk, in a plane."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from flambeau.rl.envs.custom.mujoco._locomotion import LocomotionEnv

__all__ = ["Walker2dEnv"]


class Walker2dEnv(LocomotionEnv):
    """A torso on two legs with hip, knee and ankle, in a plane: 9 coordinates, 6 motors.

    Observations are (N, 17): height, angle of the torso and 6 joints, and 9 velocities within [-10, 10]; actions (N, 6)
    in [-1, 1]. The episode ends when the height of the torso is out of (`HEALTHY_Z_LOW`, `HEALTHY_Z_HIGH`) meters or
    it leans over by `HEALTHY_ANGLE_MAX` radians.

    Args:
        kwargs: see `MujocoEnv`.

    Example:
        >>> Walker2dEnv(seed=0).reset()["observation"].shape
        torch.Size([1, 17])

    References:
        T. Erez, Y. Tassa, E. Todorov, Infinite-Horizon Model Predictive Control for Periodic Tasks with Contacts,
        RSS 2011.
    """

    XML_PATH = "walker2d.xml"
    FRAME_SKIP: ClassVar[int] = 5
    SKIP_QPOS: ClassVar[int] = 1
    HEALTHY_Z_LOW: ClassVar[float] = 0.8
    HEALTHY_Z_HIGH: ClassVar[float] = 2.0
    HEALTHY_ANGLE_MAX: ClassVar[float] = 1.0
    HEALTHY_REWARD: ClassVar[float] = 1.0
    CTRL_COST_WEIGHT: ClassVar[float] = 1e-3

    def _is_healthy(self, qpos: Tensor) -> Tensor:
        height = qpos[:, 1]
        upright = qpos[:, 2].abs() < self.HEALTHY_ANGLE_MAX
        return (height > self.HEALTHY_Z_LOW) & (height < self.HEALTHY_Z_HIGH) & upright
