"""gymnasium's pendulum in plain tensor code."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Bounded
from flambeau.rl.envs.custom.classic_control import Columns, _ClassicControl

__all__ = ["GymPendulumEnv"]


class GymPendulumEnv(_ClassicControl):
    """A pendulum that begins anywhere and is to be swung up, and kept up: gymnasium's Pendulum-v1.

    ============  =======  =======================================================================
    key           shape    what
    ============  =======  =======================================================================
    observation   (3,)     cosine and sine of the angle from upright, angular velocity in [-8, 8] rad/s
    state         (2,)     the angle, rad, and the angular velocity
    step_count    (1,)     int64, steps of this episode
    action        (1,)     torque in [-2, 2] N m; what is beyond counts as the limit
    reward        (1,)     -(angle^2 + 0.1 velocity^2 + 0.001 torque^2) before the step, the angle in [-pi, pi]
    terminated    (1,)     never
    truncated     (1,)     200 steps were taken
    ============  =======  =======================================================================

    `PendulumEnv` is the same pendulum with torchrl's keys, and without an end. Arguments are those of `CartPoleEnv`.

    Example:
        >>> GymPendulumEnv([2], seed=0).rollout(3)["observation"].shape
        torch.Size([2, 3, 3])

    References:
        G. Brockman et al., OpenAI Gym, arXiv:1606.01540 (Pendulum).
    """

    _limit = 200
    _actions = None
    _low = (-1.0, -1.0, -8.0)
    _high = (1.0, 1.0, 8.0)
    _first_low = (-math.pi, -1.0)
    _first_high = (math.pi, 1.0)

    def _made_action_spec(self) -> Any:
        return Bounded(-2.0, 2.0, (1,), dtype=torch.float32, device=self.device)

    @staticmethod
    def _seen(state: Columns) -> Columns:
        angle, velocity = state
        return angle.cos(), angle.sin(), velocity

    @staticmethod
    def _move(state: Columns, action: Tensor) -> tuple[Columns, Tensor, Tensor]:
        angle, velocity = state
        torque = action.to(angle.dtype).clamp(-2.0, 2.0)
        bent = (angle + math.pi) % (2 * math.pi) - math.pi
        cost = bent.square() + 0.1 * velocity.square() + 0.001 * torque.square()
        velocity = (velocity + (15.0 * angle.sin() + 3.0 * torque) * 0.05).clamp(-8.0, 8.0)
        angle = angle + velocity * 0.05
        return (angle, velocity), -cost, torch.zeros_like(angle, dtype=torch.bool)
