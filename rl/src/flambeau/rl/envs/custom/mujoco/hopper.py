"""A leg that hops."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from flambeau.rl.envs.custom.mujoco._locomotion import LocomotionEnv

__all__ = ["HopperEnv"]


class HopperEnv(LocomotionEnv):
    """A torso on a leg with hip, knee and ankle, in a plane: 6 coordinates, 3 motors.

    Observations are (N, 11): height, angle of the torso and 3 joints, and 6 velocities within [-10, 10]; actions (N, 3)
    in [-1, 1]. The episode ends when the torso is below `HEALTHY_Z_MIN` meters or leans over by `HEALTHY_ANGLE_MAX`
    radians.

    Args:
        kwargs: see `MujocoEnv`.

    Example:
        >>> HopperEnv(seed=0).reset()["observation"].shape
        torch.Size([1, 11])

    References:
        T. Erez, Y. Tassa, E. Todorov, Infinite-Horizon Model Predictive Control for Periodic Tasks with Contacts,
        RSS 2011.
    """

    XML_PATH = "hopper.xml"
    FRAME_SKIP: ClassVar[int] = 5
    SKIP_QPOS: ClassVar[int] = 1
    HEALTHY_Z_MIN: ClassVar[float] = 0.7
    HEALTHY_ANGLE_MAX: ClassVar[float] = 0.2
    HEALTHY_REWARD: ClassVar[float] = 1.0
    CTRL_COST_WEIGHT: ClassVar[float] = 1e-3

    def _is_healthy(self, qpos: Tensor) -> Tensor:
        return (qpos[:, 1] > self.HEALTHY_Z_MIN) & (qpos[:, 2].abs() < self.HEALTHY_ANGLE_MAX)
