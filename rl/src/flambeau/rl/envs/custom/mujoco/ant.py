"""A creature on four legs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import ClassVar

from torch import Tensor

from flambeau.rl.envs.custom.mujoco._locomotion import LocomotionEnv

__all__ = ["AntEnv"]


class AntEnv(LocomotionEnv):
    """A sphere on four legs with hip and ankle each: 15 coordinates, 8 motors.

    Observations are (N, 27): 13 coordinates without the place in the plane, and 14 velocities; actions (N, 8) in
    [-1, 1]. The episode ends when the height of the torso is out of (`HEALTHY_Z_LOW`, `HEALTHY_Z_HIGH`) meters. The
    torso of a model without a free joint gets one.

    Args:
        kwargs: see `MujocoEnv`.

    Example:
        >>> AntEnv(seed=0).reset()["observation"].shape
        torch.Size([1, 27])

    References:
        J. Schulman, P. Moritz, S. Levine, M. Jordan, P. Abbeel, High-Dimensional Continuous Control Using Generalized
        Advantage Estimation, arXiv:1506.02438.
    """

    XML_PATH = "ant.xml"
    FRAME_SKIP: ClassVar[int] = 5
    RESET_NOISE_SCALE: ClassVar[float] = 0.1
    SKIP_QPOS: ClassVar[int] = 2
    HEALTHY_Z_LOW: ClassVar[float] = 0.2
    HEALTHY_Z_HIGH: ClassVar[float] = 1.0
    HEALTHY_REWARD: ClassVar[float] = 1.0
    CTRL_COST_WEIGHT: ClassVar[float] = 0.5
    _fastest: ClassVar[float | None] = None

    @classmethod
    def _patch_xml(cls, xml: str) -> str:
        root = ElementTree.fromstring(super()._patch_xml(xml))
        torso = root.find("worldbody/body[@name='torso']")
        free = torso is None or torso.find("freejoint") is not None or torso.find("joint[@type='free']") is not None
        if torso is not None and not free:
            torso.insert(0, ElementTree.Element("freejoint", {"name": "root"}))
        option = root.find("option")
        if option is None:
            option = ElementTree.SubElement(root, "option")
        option.set("timestep", option.get("timestep", "0.01"))
        return ElementTree.tostring(root, encoding="unicode")

    def _is_healthy(self, qpos: Tensor) -> Tensor:
        return (qpos[:, 2] > self.HEALTHY_Z_LOW) & (qpos[:, 2] < self.HEALTHY_Z_HIGH)
