"""Gym's small control problems in plain tensor code: any number of them at once, on any device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Generator, Size, Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, OneHot, Unbounded
from flambeau.rl.envs._keys import RESET
from flambeau.rl.envs.common import EnvBase

__all__ = ["AcrobotEnv", "CartPoleEnv", "MountainCarContinuousEnv", "MountainCarEnv"]

Columns = Any  # a tuple of tensors, one a feature; their number is the problem's


class _ClassicControl(EnvBase):
    """A control problem whose state comes with every tensordict; the environment keeps nothing but its generator.

    Args:
        batch_size: how many problems at once; with () tensordicts may have any batch size, that of the one given to
            `reset`.
        device: of all tensors.
        dtype: of states and observations: float32, or float64, in which gymnasium computes most of them.
        seed: of the states that episodes begin in; default: a random one.
        max_steps: episodes are truncated after so many steps; None for never. Default: as gymnasium registers it.
        categorical_action_encoding: discrete actions are numbers, not one-hot vectors.
    """

    dtype: torch.dtype
    max_steps: int | None
    rng: Generator
    _moves: Any
    _limit: int
    _actions: int | None
    _low: tuple[float, ...]
    _high: tuple[float, ...]
    _first_low: tuple[float, ...]
    _first_high: tuple[float, ...]

    def __init__(
        self,
        batch_size: Sequence[int] | Size = (),
        *,
        device: Any = None,
        dtype: torch.dtype = torch.float32,
        seed: int | None = None,
        max_steps: int | None = -1,
        categorical_action_encoding: bool = False,
    ) -> None:
        super().__init__(device=device, batch_size=Size(batch_size))
        state = self.__dict__
        state["_batch_locked"] = bool(self.batch_size)
        state["dtype"] = dtype
        state["max_steps"] = self._limit if max_steps == -1 else max_steps
        state["_categorical"] = categorical_action_encoding
        state["_moves"] = self._move
        size = self.batch_size
        self.observation_spec = self._made_observation_spec().expand(size) if size else self._made_observation_spec()
        self.state_spec = Composite(
            {name: self.observation_spec[name].clone() for name in self._state_names()}, shape=size
        )
        action = self._made_action_spec()
        self.action_spec = action.expand((*size, *action.shape))
        self.reward_spec = Unbounded((*size, 1), device=device)
        end = Categorical(2, (*size, 1), dtype=torch.bool, device=device)
        names = ("done", "terminated") if self.max_steps is None else ("done", "terminated", "truncated")
        self.done_spec = Composite({name: end.clone() for name in names}, shape=size)
        self.set_seed(int(torch.empty((), dtype=torch.int64).random_()) if seed is None else seed)

    # What the problems define

    @staticmethod
    def _move(state: Columns, action: Tensor) -> tuple[Columns, Tensor, Tensor]:
        """The next state, the reward, and whether the episode ends; of the shape of the batch."""
        raise NotImplementedError

    @staticmethod
    def _seen(state: Columns) -> Columns:
        """The observation of a state."""
        return state

    # Specs

    @property
    def _state_key(self) -> str:
        return "observation" if type(self)._seen is _ClassicControl._seen else "state"

    def _state_names(self) -> list[str]:
        return [self._state_key] if self.max_steps is None else [self._state_key, "step_count"]

    def _made_observation_spec(self) -> Composite:
        spec = Composite(observation=self._box(self._low, self._high), device=self.device)
        if self._state_key == "state":
            spec["state"] = Unbounded((len(self._first_low),), dtype=self.dtype, device=self.device)
        if self.max_steps is not None:
            spec["step_count"] = Unbounded((1,), dtype=torch.int64, device=self.device)
        return spec

    def _box(self, low: tuple[float, ...], high: tuple[float, ...]) -> Any:
        if any(math.isinf(limit) for limit in high):
            return Unbounded((len(high),), dtype=self.dtype, device=self.device)
        least, most = (torch.tensor(limit, dtype=self.dtype, device=self.device) for limit in (low, high))
        return Bounded(least, most, (len(high),), dtype=self.dtype, device=self.device)

    def _made_action_spec(self) -> Any:
        if self._actions is None:
            return Bounded(-1.0, 1.0, (1,), dtype=torch.float32, device=self.device)
        return (Categorical if self.__dict__["_categorical"] else OneHot)(
            self._actions, dtype=torch.int64, device=self.device
        )

    # Steps

    def compile(self, *, warmup: int | None = None, **kwargs: Any) -> Self:  # type: ignore[override]
        """Compile what moves the states; steps do the rest as before.

        Args:
            warmup: number of steps before that; default: none.
            kwargs: as for `torch.compile`.

        Returns:
            The environment.
        """
        from flambeau.rl._utils import compile_with_warmup

        self.__dict__["_moves"] = (
            torch.compile(self._move, **kwargs)
            if not warmup
            else compile_with_warmup(self._move, warmup=warmup, **kwargs)
        )
        return self

    def eager(self) -> Self:
        """Undo `compile`, and return the environment."""
        self.__dict__["_moves"] = self._move
        return self

    def _set_seed(self, seed: int | None) -> None:
        generator = Generator(device="cpu" if self.device is None else self.device)
        if seed is not None:
            generator.manual_seed(seed)
        self.__dict__["rng"] = generator

    def _first(self, size: Size) -> Tensor:
        """States that episodes begin in, feature by feature in memory, which is what steps read fast."""
        low, high = self._first_low, self._first_high
        drawn = torch.rand(
            (len(low), *size), generator=self.rng, dtype=self.dtype, device=self.device if self.device else "cpu"
        )
        for column, least, most in zip(drawn, low, high, strict=True):
            column.mul_(most - least).add_(least)
        return drawn.movedim(0, -1)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        size = self.batch_size if tensordict is None else tensordict.batch_size
        mask = None if tensordict is None else tensordict.get(RESET, None)
        state = None
        if mask is not None and tensordict is not None and size and mask.device.type == "cpu":
            # Most entries go on: numbers are drawn for the others alone.
            state = tensordict.get(self._state_key, None)
        if state is None or mask is None:
            state = self._first(size)
        else:
            state = _like_columns(state)
            rows = mask.reshape(size).nonzero(as_tuple=True)
            state[rows] = self._first(Size([len(rows[0])]))
        return self._gives(state, state.unbind(-1), None, size)

    def _gives(self, state: Tensor, columns: Columns, count: Tensor | None, size: Size) -> Any:
        entries: dict[str, Any] = {}
        if self._state_key == "state":
            entries["observation"] = _joined(self._seen(columns))
            entries["state"] = state
        else:
            entries["observation"] = state
        if self.max_steps is not None:
            entries["step_count"] = (
                torch.zeros((*size, 1), dtype=torch.int64, device=state.device) if count is None else count
            )
        return TensorDict._new_unsafe(entries, size, self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict.get("action")
        if self._actions is None:
            action = action.squeeze(-1)
        elif not self.__dict__["_categorical"]:
            action = action.argmax(-1) if self._actions > 2 or action.dtype is torch.bool else action.select(-1, 1)
        columns, reward, terminated = self._moves(tensordict.get(self._state_key).unbind(-1), action)
        size = tensordict.batch_size
        terminated = terminated.unsqueeze(-1)
        count = truncated = None
        if self.max_steps is not None:
            count = tensordict.get("step_count") + 1
            truncated = count >= self.max_steps
        following = self._gives(_joined(columns), columns, count, size)
        entries = following._tensordict
        entries["reward"] = reward.unsqueeze(-1).to(torch.float32)
        entries["done"] = terminated.clone() if truncated is None else terminated | truncated
        entries["terminated"] = terminated
        if truncated is not None:
            entries["truncated"] = truncated
        return following


def _joined(columns: Columns) -> Tensor:
    """Features in the last dimension, each of them contiguous in memory."""
    return torch.stack(columns).movedim(0, -1)


def _like_columns(state: Tensor) -> Tensor:
    """A copy whose features are contiguous in memory."""
    return state.movedim(-1, 0).contiguous().clone().movedim(0, -1)


class CartPoleEnv(_ClassicControl):
    """A pole on a cart that is pushed to the left or to the right, to keep the pole up: gymnasium's CartPole-v1.

    ============  =======  =======================================================================
    key           shape    what
    ============  =======  =======================================================================
    observation   (4,)     position m, velocity m/s, angle rad, angular velocity rad/s: the state
    step_count    (1,)     int64, steps of this episode
    action        (2,)     one-hot: push to the left, to the right, with 10 N
    reward        (1,)     1 in every step
    terminated    (1,)     the cart is beyond +-2.4 m, or the pole beyond +-12 degrees
    truncated     (1,)     500 steps were taken
    ============  =======  =======================================================================

    Args:
        batch_size: how many problems at once; with () tensordicts may have any batch size, that of the one given to
            `reset`.
        device: of all tensors.
        dtype: of states: float32, or float64, in which gymnasium computes.
        seed: of the states that episodes begin in; default: a random one.
        max_steps: episodes are truncated after so many steps; None for never.
        categorical_action_encoding: actions are numbers, not one-hot vectors.

    Example:
        >>> env = CartPoleEnv([4096], seed=0)
        >>> env.rollout(3, break_when_any_done=False)["next", "observation"].shape
        torch.Size([4096, 3, 4])

    References:
        A. Barto, R. Sutton, C. Anderson, Neuronlike adaptive elements that can solve difficult learning control
        problems, 1983. R. Florian, Correct equations for the dynamics of the cart-pole system, 2007, eq. 23 and 24.
    """

    _limit, _actions = 500, 2
    _low, _high = (-math.inf,) * 4, (math.inf,) * 4
    _first_low, _first_high = (-0.05,) * 4, (0.05,) * 4

    @staticmethod
    def _move(state: Columns, action: Tensor) -> tuple[Columns, Tensor, Tensor]:
        x, velocity, angle, spin = state
        gravity, cart, pole, half, tau = 9.8, 1.0, 0.1, 0.5, 0.02
        mass, moment = pole + cart, pole * half
        force = action.to(x.dtype) * 20.0 - 10.0
        cosine, sine = angle.cos(), angle.sin()
        push = (force + moment * spin.square() * sine) / mass
        turn = (gravity * sine - cosine * push) / (half * (4.0 / 3.0 - pole * cosine.square() / mass))
        pull = push - moment * turn * cosine / mass
        x, velocity = x + tau * velocity, velocity + tau * pull
        angle, spin = angle + tau * spin, spin + tau * turn
        terminated = (x.abs() > 2.4) | (angle.abs() > 12 * 2 * math.pi / 360)
        return (x, velocity, angle, spin), torch.ones_like(x, dtype=torch.float32), terminated


def _climb(position: Tensor, velocity: Tensor, push: Tensor) -> tuple[Tensor, Tensor]:
    """A step of the car in the valley, whose left wall stops it."""
    velocity = (velocity + (push - 0.0025 * (3 * position).cos())).clamp(-0.07, 0.07)
    position = (position + velocity).clamp(-1.2, 0.6)
    stopped = (position <= -1.2) & (velocity < 0)
    return position, velocity.masked_fill(stopped, 0.0)


class MountainCarEnv(_ClassicControl):
    """A car in a valley, too weak to climb out without swinging: gymnasium's MountainCar-v0.

    ============  =======  ==========================================================
    key           shape    what
    ============  =======  ==========================================================
    observation   (2,)     position in [-1.2, 0.6], velocity in [-0.07, 0.07]: the state
    step_count    (1,)     int64, steps of this episode
    action        (3,)     one-hot: accelerate to the left, not, to the right
    reward        (1,)     -1 in every step
    terminated    (1,)     the position is 0.5 or beyond, and the car does not roll back
    truncated     (1,)     200 steps were taken
    ============  =======  ==========================================================

    Args:
        batch_size: how many problems at once; with () tensordicts may have any batch size, that of the one given to
            `reset`.
        device: of all tensors.
        dtype: of states: float32, or float64, in which gymnasium computes.
        seed: of the states that episodes begin in; default: a random one.
        max_steps: episodes are truncated after so many steps; None for never.
        categorical_action_encoding: actions are numbers, not one-hot vectors.

    Example:
        >>> MountainCarEnv([2], seed=0).rollout(200)["next", "truncated"][:, -1].flatten()
        tensor([True, True])

    References:
        A. Moore, Efficient memory-based learning for robot control, 1990.
    """

    _limit, _actions = 200, 3
    _low, _high = (-1.2, -0.07), (0.6, 0.07)
    _first_low, _first_high = (-0.6, 0.0), (-0.4, 0.0)

    @staticmethod
    def _move(state: Columns, action: Tensor) -> tuple[Columns, Tensor, Tensor]:
        position, velocity = _climb(state[0], state[1], (action.to(state[0].dtype) - 1.0) * 0.001)
        terminated = (position >= 0.5) & (velocity >= 0)
        return (position, velocity), torch.full_like(position, -1.0, dtype=torch.float32), terminated


class MountainCarContinuousEnv(_ClassicControl):
    """A car in a valley that accelerates as much as it is told: gymnasium's MountainCarContinuous-v0.

    ============  =======  ==========================================================
    key           shape    what
    ============  =======  ==========================================================
    observation   (2,)     position in [-1.2, 0.6], velocity in [-0.07, 0.07]: the state
    step_count    (1,)     int64, steps of this episode
    action        (1,)     acceleration in [-1, 1]; what is beyond counts as the limit
    reward        (1,)     -0.1 action^2, and 100 at the end
    terminated    (1,)     the position is 0.45 or beyond, and the car does not roll back
    truncated     (1,)     999 steps were taken
    ============  =======  ==========================================================

    Args:
        batch_size: how many problems at once; with () tensordicts may have any batch size, that of the one given to
            `reset`.
        device: of all tensors.
        dtype: of states: float32, in which gymnasium computes, or float64.
        seed: of the states that episodes begin in; default: a random one.
        max_steps: episodes are truncated after so many steps; None for never.
        categorical_action_encoding: has no effect.

    Example:
        >>> MountainCarContinuousEnv(seed=0).rollout(10)["next", "reward"].shape
        torch.Size([10, 1])

    References:
        A. Moore, Efficient memory-based learning for robot control, 1990.
    """

    _limit, _actions = 999, None
    _low, _high = (-1.2, -0.07), (0.6, 0.07)
    _first_low, _first_high = (-0.6, 0.0), (-0.4, 0.0)

    @staticmethod
    def _move(state: Columns, action: Tensor) -> tuple[Columns, Tensor, Tensor]:
        action = action.to(state[0].dtype)
        position, velocity = _climb(state[0], state[1], action.clamp(-1.0, 1.0) * 0.0015)
        terminated = (position >= 0.45) & (velocity >= 0)
        return (position, velocity), terminated * 100.0 - action.square() * 0.1, terminated


def _accelerations(state: Columns, torque: Tensor) -> Columns:
    """Derivatives of angles and angular velocities of two links of mass 1 kg, length 1 m, and moment 1 kg m^2."""
    one, two, spin_one, spin_two = state
    gravity = 9.8
    cosine, sine = two.cos(), two.sin()
    first = 3.5 + cosine
    second = 1.25 + 0.5 * cosine
    pull_two = 0.5 * gravity * (one + two - math.pi / 2).cos()
    pull_one = (
        -0.5 * spin_two.square() * sine
        - spin_two * spin_one * sine
        + 1.5 * gravity * (one - math.pi / 2).cos()
        + pull_two
    )
    turn_two = (torque + second / first * pull_one - 0.5 * spin_one.square() * sine - pull_two) / (
        1.25 - second.square() / first
    )
    return spin_one, spin_two, -(second * turn_two + pull_one) / first, turn_two


class AcrobotEnv(_ClassicControl):
    """Two links that hang down, with a motor between them, to be swung up: gymnasium's Acrobot-v1.

    ============  =======  =======================================================================
    key           shape    what
    ============  =======  =======================================================================
    observation   (6,)     cosine and sine of the first angle, of the second, both velocities
    state         (4,)     angle of the first link from hanging down, of the second from the first, rad in
                           [-pi, pi]; angular velocities, rad/s, within +-4 pi and +-9 pi
    step_count    (1,)     int64, steps of this episode
    action        (3,)     one-hot: torque of -1, 0, 1 N m
    reward        (1,)     -1 in every step, 0 at the end
    terminated    (1,)     the tip is more than one link above the bar
    truncated     (1,)     500 steps were taken
    ============  =======  =======================================================================

    A step of 0.2 s is one of the Runge-Kutta method of fourth order.

    Args:
        batch_size: how many problems at once; with () tensordicts may have any batch size, that of the one given to
            `reset`.
        device: of all tensors.
        dtype: of states: float32, or float64, in which gymnasium computes.
        seed: of the states that episodes begin in; default: a random one.
        max_steps: episodes are truncated after so many steps; None for never.
        categorical_action_encoding: actions are numbers, not one-hot vectors.

    Example:
        >>> AcrobotEnv([8], seed=0).rollout(5)["next", "observation"].shape
        torch.Size([8, 5, 6])

    References:
        R. Sutton, Generalization in reinforcement learning: successful examples using sparse coarse coding, 1996;
        equations of motion as in R. Sutton, A. Barto, Reinforcement learning, 1998, section 11.3.
    """

    _limit, _actions = 500, 3
    _low = (-1.0, -1.0, -1.0, -1.0, -4 * math.pi, -9 * math.pi)
    _high = (1.0, 1.0, 1.0, 1.0, 4 * math.pi, 9 * math.pi)
    _first_low, _first_high = (-0.1,) * 4, (0.1,) * 4

    @staticmethod
    def _seen(state: Columns) -> Columns:
        one, two, spin_one, spin_two = state
        return one.cos(), one.sin(), two.cos(), two.sin(), spin_one, spin_two

    @staticmethod
    def _move(state: Columns, action: Tensor) -> tuple[Columns, Tensor, Tensor]:
        torque = action.to(state[0].dtype) - 1.0
        step = 0.2

        def after(slopes: Columns, share: float) -> Columns:
            return tuple(value + share * slope for value, slope in zip(state, slopes, strict=True))

        first = _accelerations(state, torque)
        second = _accelerations(after(first, step / 2), torque)
        third = _accelerations(after(second, step / 2), torque)
        fourth = _accelerations(after(third, step), torque)
        moved = [
            value + step / 6.0 * (a + 2 * b + 2 * c + d)
            for value, a, b, c, d in zip(state, first, second, third, fourth, strict=True)
        ]
        one, two = (_wrapped(angle) for angle in moved[:2])
        spin_one = moved[2].clamp(-4 * math.pi, 4 * math.pi)
        spin_two = moved[3].clamp(-9 * math.pi, 9 * math.pi)
        terminated = -one.cos() - (two + one).cos() > 1.0
        return (one, two, spin_one, spin_two), terminated.to(torch.float32) - 1.0, terminated


def _wrapped(angle: Tensor) -> Tensor:
    """Angles in [-pi, pi]; those that are there already stay as they are to the last bit."""
    turns = ((angle.abs() - math.pi) / (2 * math.pi)).ceil().clamp(min=0.0)
    return angle - angle.sign() * turns * (2 * math.pi)
