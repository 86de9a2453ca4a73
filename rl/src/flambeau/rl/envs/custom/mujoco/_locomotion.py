"""What creatures that are to move forward have in common."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.envs.custom.mujoco.base import MujocoEnv

__all__ = ["LocomotionEnv"]


class LocomotionEnv(MujocoEnv):
    """The reward is the mean speed forward, and a bonus for standing, less what the action costs; who falls is done."""

    HEALTHY_REWARD: ClassVar[float] = 1.0
    CTRL_COST_WEIGHT: ClassVar[float] = 1e-3
    # Velocities of observations are clipped to it; None for not at all.
    _fastest: ClassVar[float | None] = 10.0

    def _make_obs(self, state: TensorDictBase) -> Tensor:
        qvel = state["qvel"] if self._fastest is None else state["qvel"].clamp(-self._fastest, self._fastest)
        return torch.cat([state["qpos"][:, self.SKIP_QPOS :], qvel], -1).to(self.dtype)

    def _is_healthy(self, qpos: Tensor) -> Tensor:
        """Whether it stands, (N,), bool."""
        raise NotImplementedError(f"{type(self).__name__} defines no `_is_healthy`.")

    def _compute_reward(self, state: TensorDictBase, action: Tensor, next_state: TensorDictBase) -> Tensor:
        qpos = next_state["qpos"]
        speed = (qpos[:, 0] - state["qpos"][:, 0]) / (self._backend.timestep * self.frame_skip)
        bonus = self.HEALTHY_REWARD * self._is_healthy(qpos).to(speed.dtype)
        return (speed + bonus - self.CTRL_COST_WEIGHT * action.square().sum(-1)).unsqueeze(-1)  # type: ignore[no-any-return]

    def _compute_done(self, state: TensorDictBase, next_state: TensorDictBase) -> Tensor:
        return ~self._is_healthy(next_state["qpos"]).unsqueeze(-1)
