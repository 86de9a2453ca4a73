"""Exploration as modules behind a policy: they change actions while `exploration_type()` is RANDOM, or not set."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict.nn.common import TensorDictModuleBase
from flambeau.data.tensordict.nn.probabilistic import InteractionType, interaction_type
from flambeau.data.tensordict.utils import expand_as_right
from flambeau.rl.data.tensor_specs import Composite, TensorSpec

__all__ = [
    "AdditiveGaussianModule",
    "AdditiveGaussianWrapper",
    "EGreedyModule",
    "EGreedyWrapper",
    "OrnsteinUhlenbeckProcessModule",
    "OrnsteinUhlenbeckProcessWrapper",
    "RandomPolicy",
    "set_exploration_modules_spec_from_env",
]


def _explores() -> bool:
    return interaction_type() in (InteractionType.RANDOM, None)


class _Annealed(TensorDictModuleBase):
    """An amount of exploration that falls linearly, in buffers `<name>_init`, `<name>_end` and `<name>`."""

    _amount: str
    action_key: Any

    def _anneal(self, first: float, last: float, steps: int, device: Any) -> None:
        name = type(self).__name__
        if last > first:
            raise RuntimeError(
                f"{name}: {self._amount} cannot grow while it is annealed, but {self._amount}_init={first} and "
                f"{self._amount}_end={last}."
            )
        if steps <= 0:
            raise ValueError(f"{name}: annealing_num_steps is {steps}, expected a positive number.")
        self.annealing_num_steps = steps
        self.register_buffer(f"{self._amount}_init", torch.tensor(first, device=device))
        self.register_buffer(f"{self._amount}_end", torch.tensor(last, device=device))

    def _start(self, first: float, device: Any) -> None:
        self.register_buffer(self._amount, torch.tensor(first, dtype=torch.float32, device=device))

    def step(self, frames: int = 1) -> None:
        """Let the amount fall, down to its last value.

        Args:
            frames: how many steps of the environment there were.
        """
        amount, name = getattr(self, self._amount), self._amount
        first, last = getattr(self, f"{name}_init"), getattr(self, f"{name}_end")
        amount.copy_(torch.maximum(last, amount - (first - last) / self.annealing_num_steps * frames))

    def _composite(self, spec: Any) -> Composite | None:
        if spec is None:
            return None
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"{type(self).__name__}: spec is a {type(spec).__name__}, expected a TensorSpec.")
        if isinstance(spec, Composite):
            return spec
        found = Composite()
        found[self.action_key] = spec
        return found

    @property
    def spec(self) -> Composite | None:
        """The spec of the action, as a composite."""
        return self.__dict__["_spec"]  # type: ignore[no-any-return]

    @spec.setter
    def spec(self, spec: Any) -> None:
        self.__dict__["_spec"] = self._composite(spec)

    def _action_spec(self) -> Any:
        spec = self.spec
        if spec is None:
            raise RuntimeError(
                f"{type(self).__name__}: spec has not been set; give it to the constructor, or set the property `spec`."
            )
        if self.action_key not in spec.keys(True):
            raise KeyError(
                f"{type(self).__name__}: the spec has the keys {list(spec.keys(True, True))}, which lack the action "
                f"{self.action_key!r}."
            )
        return spec[self.action_key]

    def _action(self, tensordict: Any) -> Tensor:
        action = tensordict.get(self.action_key, None)
        if action is None:
            raise KeyError(
                f"{type(self).__name__}: there is no action {self.action_key!r}; the tensordict has "
                f"{list(tensordict.keys(True, True))[:10]}."
            )
        return action  # type: ignore[no-any-return]


class EGreedyModule(_Annealed):
    """Take a random action with probability epsilon, each element of the batch by itself.

    Args:
        spec: of the action, or a `Composite` that has it.
        eps_init, eps_end: epsilon at first and at last.
        annealing_num_steps: how many steps lie between them; call `step` in the training loop.
        action_key: of the action.
        action_mask_key: of a mask of the actions that may be drawn.
        device: of the buffers.

    Raises:
        RuntimeError: epsilon is to grow.
        KeyError: from `forward`, an entry is absent.
    """

    _amount = "eps"
    eps: Tensor

    def __init__(
        self,
        spec: Any,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        *,
        action_key: Any = "action",
        action_mask_key: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.action_key, self.action_mask_key = action_key, action_mask_key
        self.in_keys = [action_key] if action_mask_key is None else [action_key, action_mask_key]
        self.out_keys = [action_key]
        self._anneal(eps_init, eps_end, annealing_num_steps, device)
        self._start(eps_init, device)
        self.__dict__["_spec"] = self._composite(spec)

    def forward(self, tensordict: Any) -> Any:
        """Put random actions in the place of some."""
        if not _explores():
            return tensordict
        spec, action = self._action_spec(), self._action(tensordict)
        chosen = torch.rand(tensordict.shape, device=action.device) < self.eps
        drawn = self._drawn(spec, tensordict, action)
        if drawn.shape != action.shape and drawn.numel() == action.numel():
            drawn = drawn.reshape(action.shape)
        mixed = torch.where(expand_as_right(chosen, action), drawn.to(action.device, action.dtype), action)
        return tensordict.set(self.action_key, mixed)

    def _drawn(self, spec: Any, tensordict: Any, action: Tensor) -> Tensor:
        batch = tensordict.shape
        # A spec may know of the batch already.
        fits = len(spec.shape) >= len(batch) and tuple(spec.shape[: len(batch)]) == tuple(batch) and len(batch)
        if self.action_mask_key is not None:
            mask = tensordict.get(self.action_mask_key, None)
            if mask is None:
                raise KeyError(
                    f"EGreedyModule: there is no action mask {self.action_mask_key!r}; the tensordict has "
                    f"{list(tensordict.keys(True, True))[:10]}."
                )
            spec = spec.clone() if fits else spec.expand(*batch, *spec.shape)
            spec.update_mask(mask)
            fits = True
        drawn: Tensor = spec.rand() if fits else spec.rand(batch)
        return drawn


class AdditiveGaussianModule(_Annealed):
    """Add normal noise to actions, and project them into their spec.

    Args:
        spec: of the action, or a `Composite` that has it; may be set later.
        sigma_init, sigma_end: the noise's scale at first and at last.
        annealing_num_steps: how many steps lie between them; call `step` in the training loop.
        mean, std: of the noise before it is scaled.
        action_key: of the action.
        safe: kept as an attribute; actions are projected in any case.
        device: of the buffers.

    Raises:
        RuntimeError: sigma is to grow; or, from `forward`, there is no spec.
    """

    _amount = "sigma"
    sigma: Tensor
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        spec: Any = None,
        sigma_init: float = 1.0,
        sigma_end: float = 0.1,
        annealing_num_steps: int = 1000,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        action_key: Any = "action",
        safe: bool = False,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.action_key, self.safe = action_key, safe
        self.in_keys, self.out_keys = [action_key], [action_key]
        self._anneal(sigma_init, sigma_end, annealing_num_steps, device)
        self.register_buffer("mean", torch.tensor(mean, device=device))
        self.register_buffer("std", torch.tensor(std, device=device))
        self._start(sigma_init, device)
        self.__dict__["_spec"] = self._composite(spec)

    def forward(self, tensordict: Any) -> Any:
        """Add noise."""
        if not _explores():
            return tensordict
        spec, action = self._action_spec(), self._action(tensordict)
        noise = self.mean + self.std * torch.randn(action.shape, dtype=action.dtype, device=action.device)
        return tensordict.set(self.action_key, spec.project(action + (noise * self.sigma).to(action.dtype)))


class _OrnsteinUhlenbeckProcess(nn.Module):
    """The process itself; its state lies in the tensordict.

    The buffer without elements has upstream's name, and tells the device.
    """

    def __init__(
        self, theta: float, mu: float, sigma: float, dt: float, x0: Any, sigma_min: float | None,
        n_steps_annealing: int, device: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.theta, self.mu, self.sigma, self.dt = theta, mu, sigma, dt
        self.x0 = 0.0 if x0 is None else torch.as_tensor(x0)
        self.sigma_min = sigma if sigma_min is None else sigma_min
        self.slope = 0.0 if sigma_min is None else -(sigma - sigma_min) / n_steps_annealing
        self.noise_key, self.steps_key = "_ou_prev_noise", "_ou_steps"
        self.register_buffer("_empty_tensor_device", torch.empty(0, device=device))

    def current_sigma(self, n_steps: Tensor) -> Tensor:
        """The noise's scale after some steps."""
        return (self.slope * n_steps + self.sigma).clamp_min(self.sigma_min)

    def moved(self, noise: Tensor, steps: Tensor) -> Tensor:
        """The process one step on, counted from x0."""
        x0 = self.x0.to(noise.device, noise.dtype) if isinstance(self.x0, Tensor) else self.x0
        sigma = expand_as_right(self.current_sigma(steps), noise)
        drift = self.theta * (self.mu - (noise + x0)) * self.dt
        moved: Tensor = noise + drift + sigma * math.sqrt(self.dt) * torch.randn_like(noise)
        return moved


class OrnsteinUhlenbeckProcessModule(_Annealed):
    """Add noise to actions that drifts from step to step (Lillicrap et al. 2016, arXiv:1509.02971).

    x_t = x_{t-1} + theta (mu - x_{t-1}) dt + sigma_t sqrt(dt) W, with standard normal W. Its state is kept in the
    tensordict, as `_ou_prev_noise` and `_ou_steps`, and starts anew where `is_init` says that a trajectory begins.

    Args:
        spec: of the action, or a `Composite` that has it.
        eps_init, eps_end: what the noise is multiplied with, at first and at last.
        annealing_num_steps: how many steps lie between them; call `step` in the training loop.
        theta, mu, sigma, dt: of the process.
        x0: where it starts; 0 unless given.
        sigma_min: what sigma falls to, within `n_steps_annealing` steps of a trajectory; it stays unless given.
        n_steps_annealing: see `sigma_min`.
        action_key: of the action.
        is_init_key: of the marks of first steps.
        safe: kept as an attribute; actions are projected in any case.
        device: of the buffers.

    Raises:
        RuntimeError: there is no spec, or eps is to grow.
    """

    _amount = "eps"
    eps: Tensor

    def __init__(
        self,
        spec: Any,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        theta: float = 0.15,
        mu: float = 0.0,
        sigma: float = 0.2,
        dt: float = 0.01,
        x0: Any = None,
        sigma_min: float | None = None,
        n_steps_annealing: int = 1000,
        *,
        action_key: Any = "action",
        is_init_key: Any = "is_init",
        safe: bool = True,
        device: Any = None,
    ) -> None:
        if spec is None:
            raise RuntimeError("OrnsteinUhlenbeckProcessModule: spec is None, expected the action's.")
        super().__init__()
        self.action_key, self.is_init_key, self.safe = action_key, is_init_key, safe
        self.ou = _OrnsteinUhlenbeckProcess(theta, mu, sigma, dt, x0, sigma_min, n_steps_annealing, device)
        if not isinstance(action_key, str):  # the state lies beside the action
            self.ou.noise_key = (*action_key[:-1], self.ou.noise_key)  # type: ignore[assignment]
            self.ou.steps_key = (*action_key[:-1], self.ou.steps_key)  # type: ignore[assignment]
        self._anneal(eps_init, eps_end, annealing_num_steps, device)
        self._start(eps_init, device)
        self.in_keys, self.out_keys = [action_key], [action_key, self.ou.noise_key, self.ou.steps_key]
        self.__dict__["_spec"] = self._composite(spec)

    def forward(self, tensordict: Any) -> Any:
        """Move the process on, and add it."""
        if not _explores():
            return tensordict
        spec, action = self._action_spec(), self._action(tensordict)
        inside = tensordict if isinstance(self.action_key, str) else tensordict.get(self.action_key[:-1])
        noise, steps = tensordict.get(self.ou.noise_key, None), tensordict.get(self.ou.steps_key, None)
        noise = torch.zeros_like(action) if noise is None else noise
        steps = torch.zeros(inside.shape, dtype=torch.int64, device=action.device) if steps is None else steps
        begins = tensordict.get(self.is_init_key, None)
        if begins is not None:
            begins = begins.reshape(*tensordict.shape, -1).any(-1) if begins.ndim > tensordict.ndim else begins
            noise = torch.where(expand_as_right(begins, noise), 0.0, noise)
            steps = torch.where(expand_as_right(begins, steps), 0, steps)
        noise = self.ou.moved(noise, steps)
        x0 = self.ou.x0.to(noise) if isinstance(self.ou.x0, Tensor) else self.ou.x0
        noisy = spec.project(action + self.eps * (noise + x0))
        return tensordict.set(self.action_key, noisy).set(self.ou.noise_key, noise).set(self.ou.steps_key, steps + 1)


class RandomPolicy:
    """A policy that draws actions from their spec.

    Args:
        action_spec: of the action, or a `Composite` of several; may be set later.
        action_key: where a single action goes.

    Raises:
        RuntimeError: from the call, there is no spec.
    """

    def __init__(self, action_spec: Any = None, action_key: Any = "action") -> None:
        self.action_spec, self.action_key = action_spec, action_key

    def set_action_spec_from_env(self, env: Any) -> None:
        """Take the spec of an environment's actions, if there is none yet."""
        if self.action_spec is None:
            self.action_spec = env.full_action_spec

    def __call__(self, td: Any) -> Any:
        """Write a random action, or several."""
        if self.action_spec is None:
            raise RuntimeError(
                "RandomPolicy: action_spec is not set; give it to the constructor, or call "
                "set_action_spec_from_env(env)."
            )
        drawn = self.action_spec.rand()
        return td.update(drawn) if isinstance(self.action_spec, Composite) else td.set(self.action_key, drawn)


def set_exploration_modules_spec_from_env(policy: nn.Module, env: Any) -> None:
    """Give the exploration modules of a policy that have no spec that of an environment's actions.

    Args:
        policy: any module.
        env: has `full_action_spec_unbatched`, or `full_action_spec`.
    """
    spec = getattr(env, "full_action_spec_unbatched", None)
    spec = env.full_action_spec if spec is None else spec
    for module in policy.modules():
        if isinstance(module, _Annealed) and module.spec is None:
            module.spec = spec


class _Removed:
    """Wrappers around policies, which modules behind them have replaced.

    Raises:
        RuntimeError: always.
    """

    _successor = ""

    def __init__(self, policy: Any = None, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} was removed upstream; put {self._successor} behind the policy: "
            f"TensorDictSequential(policy, {self._successor}(spec))."
        )


class EGreedyWrapper(_Removed):
    """Removed: see `EGreedyModule`."""

    _successor = "EGreedyModule"


class AdditiveGaussianWrapper(_Removed):
    """Removed: see `AdditiveGaussianModule`."""

    _successor = "AdditiveGaussianModule"


class OrnsteinUhlenbeckProcessWrapper(_Removed):
    """Removed: see `OrnsteinUhlenbeckProcessModule`."""

    _successor = "OrnsteinUhlenbeckProcessModule"
