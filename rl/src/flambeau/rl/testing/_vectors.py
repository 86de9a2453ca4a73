"""Environments with vectors and images, of which a seed tells everything."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, OneHot, TensorSpec, Unbounded
from flambeau.rl.envs.common import EnvBase

__all__ = [
    "ContinuousActionConvMockEnv",
    "ContinuousActionConvMockEnvNumpy",
    "ContinuousActionVecMockEnv",
    "DiscreteActionConvMockEnv",
    "DiscreteActionConvMockEnvNumpy",
    "DiscreteActionVecMockEnv",
    "make_spec",
]


def make_spec(spec_str: str) -> TensorSpec:
    """A spec of one number by its name: "one_hot", "categorical", "mult_one_hot", "real", "bounded" and others.

    Args:
        spec_str: the name.

    Raises:
        KeyError: it is another one.
    """
    from flambeau.rl.data.tensor_specs import Binary, MultiCategorical, MultiOneHot

    specs: dict[str, Any] = {
        "discrete": lambda: Categorical(7),
        "categorical": lambda: Categorical(7),
        "one_hot": lambda: OneHot(7),
        "mult_discrete": lambda: MultiCategorical([7, 7]),
        "mult_one_hot": lambda: MultiOneHot([7, 7]),
        "real": lambda: Unbounded(1),
        "unbounded": lambda: Unbounded(1),
        "bounded": lambda: Bounded(-torch.ones(()), torch.ones(()), ()),
        "binary": lambda: Binary(7, (7,)),
        "composite": lambda: Composite(x=Unbounded(1)),
    }
    if spec_str not in specs:
        raise KeyError(f"make_spec: no spec {spec_str!r}; there are {', '.join(specs)}.")
    return specs[spec_str]()  # type: ignore[no-any-return]


class _SeededEnv(EnvBase):
    """An environment that moves a vector, which is seen as it is or as an image.

    Args:
        seed: of the vector that episodes begin with.
        state_size: of the vector.
        categorical_action_encoding: of discrete actions: numbers, else one-hot vectors.
        device: default: the CPU.
        batch_size: of the environment.
    """

    maxstep = 100
    out_key = "observation"

    def __init__(
        self, *, seed: int = 100, state_size: int = 7, categorical_action_encoding: bool = False, device: Any = "cpu",
        batch_size: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(device=device, batch_size=batch_size)
        self.size = state_size
        self.categorical_action_encoding = categorical_action_encoding
        shape = Size([*self.batch_size, *self._seen_shape()])
        seen = Unbounded(shape, device=self.device)
        names = {self.out_key: seen, f"{self.out_key}_orig": seen.clone()}
        self.observation_spec = Composite(names, shape=self.batch_size, device=self.device)
        self.state_spec = Composite({f"{self.out_key}_orig": seen.clone()}, shape=self.batch_size, device=self.device)
        self.action_spec = self._actions()
        self.reward_spec = Unbounded((*self.batch_size, 1), device=self.device)
        self.counter = 0
        self.set_seed(seed)

    def _actions(self) -> TensorSpec:
        raise NotImplementedError

    def _first(self) -> Tensor:
        raise NotImplementedError

    def _seen_shape(self) -> tuple[int, ...]:
        return (self.size,)

    def _seen(self, vector: Tensor) -> Tensor:
        return vector

    def _vector(self, seen: Tensor) -> Tensor:
        return seen

    def _set_seed(self, seed: int | None) -> None:
        self.seed = 0 if seed is None else seed
        # Every episode begins one higher than the one before it.
        self.start = self.seed % 17
        self.generator = torch.Generator().manual_seed(self.seed)

    def _observed(self, vector: Tensor) -> dict[str, Tensor]:
        seen = self._seen(vector)
        return {self.out_key: seen, f"{self.out_key}_orig": seen.clone()}

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        self.counter = 0
        self.start += 1
        return TensorDict(self._observed(self._first().to(self.device)), self.batch_size, device=self.device)

    def _pushed(self, action: Tensor) -> Tensor:
        if self.categorical_action_encoding:
            action = action.unsqueeze(-1).expand(*self.batch_size, self.size)
        return action.to(torch.float32)

    def _over(self, vector: Tensor) -> Tensor:
        raise NotImplementedError

    def _step(self, tensordict: Any) -> Any:
        self.counter += 1
        vector = self._vector(tensordict.get(f"{self.out_key}_orig"))
        vector = vector + self._pushed(tensordict.get("action")) / self.maxstep
        done = self._over(vector).unsqueeze(-1)
        following = {**self._observed(vector), "reward": done.to(torch.float32), "done": done}
        return TensorDict(following, self.batch_size, device=self.device)


class DiscreteActionVecMockEnv(_SeededEnv):
    """A vector, of which an action moves one entry by 1/100, or all by its number; it ends when all moved by 1.

    Args:
        seed: the vector's entries begin one above its remainder by 17, and another one higher in each episode.
        state_size: of the vector.
        categorical_action_encoding: actions are numbers, else one-hot vectors.
        device: default: the CPU.
        batch_size: of the environment.
    """

    def _actions(self) -> TensorSpec:
        if self.categorical_action_encoding:
            return Categorical(self.size, shape=self.batch_size, device=self.device)
        return OneHot(self.size, shape=(*self.batch_size, self.size), device=self.device)

    def _first(self) -> Tensor:
        return torch.full((*self.batch_size, self.size), float(self.start))

    def _over(self, vector: Tensor) -> Tensor:
        return (vector >= self.start + 1 - 1e-4).all(-1)


class ContinuousActionVecMockEnv(_SeededEnv):
    """A vector that an action moves by a hundredth of itself; it ends when all of its entries are 10 or more.

    Args:
        seed: of the random vectors that episodes begin with.
        state_size: of the vector.
        categorical_action_encoding: has no effect.
        device: default: the CPU.
        batch_size: of the environment.
    """

    def _actions(self) -> TensorSpec:
        return Bounded(-1, 1, (*self.batch_size, self.size), device=self.device)

    def _first(self) -> Tensor:
        return torch.randn(*self.batch_size, self.size, generator=self.generator)

    def _pushed(self, action: Tensor) -> Tensor:
        return action

    def _over(self, vector: Tensor) -> Tensor:
        return (vector >= 10).all(-1)


class _Images(_SeededEnv):
    """The vector is seen on the diagonal of an image (1, size, size).

    Args:
        pixel_shape: of images; default: (1, 7, 7).
        kwargs: as for environments with vectors.
    """

    out_key = "pixels"

    def __init__(self, *, pixel_shape: Any = None, **kwargs: Any) -> None:
        self.__dict__["pixel_shape"] = (1, 7, 7) if pixel_shape is None else tuple(pixel_shape)
        super().__init__(state_size=self.pixel_shape[-1], **kwargs)  # type: ignore[arg-type, index]

    def _seen_shape(self) -> tuple[int, ...]:
        return (1, self.size, self.size)

    def _seen(self, vector: Tensor) -> Tensor:
        return torch.diag_embed(vector).unsqueeze(-3)

    def _vector(self, seen: Tensor) -> Tensor:
        return seen.squeeze(-3).diagonal(0, -1, -2)


class _ChannelsLast(_Images):
    def _seen_shape(self) -> tuple[int, ...]:
        return (self.size, self.size, 3)

    def _seen(self, vector: Tensor) -> Tensor:
        return torch.diag_embed(vector).unsqueeze(-1).expand(*vector.shape, self.size, 3).clone()

    def _vector(self, seen: Tensor) -> Tensor:
        return seen[..., 0].diagonal(0, -1, -2)


class DiscreteActionConvMockEnv(_Images, DiscreteActionVecMockEnv):
    """`DiscreteActionVecMockEnv` with an image (1, 7, 7) at "pixels", on whose diagonal the vector is."""


class ContinuousActionConvMockEnv(_Images, ContinuousActionVecMockEnv):
    """`ContinuousActionVecMockEnv` with an image (1, 7, 7) at "pixels", on whose diagonal the vector is."""


class DiscreteActionConvMockEnvNumpy(_ChannelsLast, DiscreteActionConvMockEnv):
    """`DiscreteActionConvMockEnv` with images (7, 7, 3)."""


class ContinuousActionConvMockEnvNumpy(_ChannelsLast, ContinuousActionConvMockEnv):
    """`ContinuousActionConvMockEnv` with images (7, 7, 3)."""
