"""A pendulum to be swung up, for any batch size."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Size, Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Bounded, Composite, Unbounded
from flambeau.rl.envs.common import EnvBase

__all__ = ["PendulumEnv"]


class PendulumEnv(EnvBase):
    """A pendulum that begins anywhere and is to be swung up and kept up, by a torque at its joint.

    The environment keeps no state: angle, velocity and parameters come with every tensordict, of any batch size. A step
    of `dt` seconds is one of the semi-implicit Euler method:

        velocity += (3 g / (2 l) sin(angle) + 3 / (m l^2) torque) dt,    angle += velocity dt,

    the velocity within +-max_speed, the torque within +-max_torque. The reward is
    -(angle^2 + 0.1 velocity^2 + 0.001 torque^2) of the state before the step; the episode has no end.

    ===========  =======  ==================================================
    key          shape    what
    ===========  =======  ==================================================
    th           ()       angle from upright, radians, in [-pi, pi]
    thdot        ()       angular velocity, radians per second
    params       ()       max_speed 8, max_torque 2, dt 0.05 s, g 10, m 1, l 1
    action       (1,)     torque
    ===========  =======  ==================================================

    Args:
        td_params: parameters, as `gen_params` makes them.
        seed: of the states that episodes begin in; default: a random one.
        device: of all tensors.

    Example:
        >>> env = PendulumEnv(seed=0)
        >>> env.rollout(3)["next", "reward"].shape
        torch.Size([3, 1])
        >>> env.rollout(3, auto_reset=False, tensordict=env.reset(env.gen_params(batch_size=[10]))).batch_size
        torch.Size([10, 3])

    References:
        G. Brockman et al., OpenAI Gym, arXiv:1606.01540 (Pendulum).
    """

    DEFAULT_X = math.pi
    DEFAULT_Y = 1.0

    _batch_locked = False
    rng: Generator | None = None

    def __init__(self, td_params: TensorDictBase | None = None, seed: int | None = None, device: Any = None) -> None:
        if td_params is None:
            td_params = self.gen_params(device=device)
        super().__init__(device=device)
        self._make_spec(td_params)
        self.set_seed(int(torch.empty((), dtype=torch.int64).random_()) if seed is None else seed)

    def _make_spec(self, td_params: TensorDictBase) -> None:
        params = td_params["params"]
        speed = float(params["max_speed"])
        self.observation_spec = Composite(
            th=Bounded(-math.pi, math.pi, (), dtype=torch.float32),
            thdot=Bounded(-speed, speed, (), dtype=torch.float32),
            params=self.make_composite_from_td(params),
        )
        self.state_spec = self.observation_spec.clone()
        torque = float(params["max_torque"])
        self.action_spec = Bounded(-torque, torque, (1,), dtype=torch.float32)
        self.reward_spec = Unbounded((*td_params.shape, 1))

    @staticmethod
    def make_composite_from_td(td: TensorDictBase) -> Composite:
        """A composite of unbounded specs like what is in a tensordict."""
        return Composite(
            {
                key: PendulumEnv.make_composite_from_td(value)
                if isinstance(value, TensorDictBase)
                else Unbounded(value.shape, dtype=value.dtype, device=value.device)
                for key, value in td.items()
            },
            shape=td.shape,
        )

    @staticmethod
    def gen_params(g: float = 10.0, batch_size: Any = None, device: Any = None) -> TensorDictBase:
        """A tensordict with the parameters, below "params".

        Args:
            g: gravitational acceleration, m / s^2.
            batch_size: default: ().
            device: of the tensors.
        """
        params = {"max_speed": 8.0, "max_torque": 2.0, "dt": 0.05, "g": g, "m": 1.0, "l": 1.0}
        data = TensorDict({"params": TensorDict(params, [])}, [], device=device)
        return data.expand(Size(batch_size)).contiguous() if batch_size else data

    @staticmethod
    def angle_normalize(x: Tensor) -> Tensor:
        """Angles in [-pi, pi)."""
        return (x + torch.pi) % (2 * torch.pi) - torch.pi

    def _set_seed(self, seed: int | None) -> None:
        self.rng = Generator(device="cpu")
        if seed is not None:
            self.rng.manual_seed(seed)

    def _uniform(self, shape: Size, limit: float) -> Tensor:
        drawn = torch.rand(shape, generator=self.rng) * (2 * limit) - limit
        return drawn if self.device is None else drawn.to(self.device)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if tensordict is None or tensordict.is_empty():
            tensordict = self.gen_params(batch_size=self.batch_size, device=self.device)
        params = tensordict.get("params", None)
        if params is None:
            params = self.gen_params(batch_size=tensordict.batch_size, device=self.device)["params"]
        angle = self._uniform(tensordict.shape, self.DEFAULT_X)
        velocity = self._uniform(tensordict.shape, self.DEFAULT_Y)
        return TensorDict({"th": angle, "thdot": velocity, "params": params}, tensordict.shape, device=self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        angle, velocity, params = tensordict["th"], tensordict["thdot"], tensordict["params"]
        torque = tensordict["action"]
        if torque.ndim > angle.ndim:
            torque = torque.squeeze(-1)
        torque = torch.minimum(torch.maximum(torque, -params["max_torque"]), params["max_torque"])
        cost = self.angle_normalize(angle) ** 2 + 0.1 * velocity**2 + 0.001 * torque**2
        pull = 3 * params["g"] / (2 * params["l"]) * angle.sin()
        push = 3.0 / (params["m"] * params["l"] ** 2) * torque
        velocity = velocity + (pull + push) * params["dt"]
        velocity = torch.minimum(torch.maximum(velocity, -params["max_speed"]), params["max_speed"])
        angle = self.angle_normalize(angle + velocity * params["dt"])
        reward = -cost.unsqueeze(-1)
        following = {"th": angle, "thdot": velocity, "params": params, "reward": reward}
        following["done"] = torch.zeros_like(reward, dtype=torch.bool)
        return TensorDict(following, tensordict.shape, device=self.device)
