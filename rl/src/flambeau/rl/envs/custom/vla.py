"""An environment to try policies that see, read and act with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Size, Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, NonTensor, Unbounded
from flambeau.rl.envs._keys import RESET
from flambeau.rl.envs.common import EnvBase

__all__ = ["ToyVLAEnv"]

_BACKGROUND, _ACTION, _TARGET = (30, 30, 30), (220, 60, 60), (60, 200, 60)
_FARTHEST_TARGET = 0.5


class ToyVLAEnv(EnvBase):
    """A camera that shows noise, a state that shows the last action, and an instruction that is always the same.

    Without `success_steps` the reward is - |action|, and episodes do not end. With it there is a target action within
    [-0.5, 0.5], behind the last action in the state; the reward is - |action - target|, and an episode is terminated,
    with "success", when every part of the action has been within `success_tol` of the target for so many steps.

    ==========================  =======================  ===============================
    key                         shape                    what
    ==========================  =======================  ===============================
    action                      (action_dim,)            within [-1, 1]
    ("observation", "image")    image_shape              uint8
    ("observation", "state")    (state_dim,)             last action, target, zeros
    language_instruction        ()                       a text
    success                     (1,)                     with `success_steps`
    group_id                    (1,)                     with `group_repeats`, int64
    pixels                      (size, size, 3)          with `from_pixels`, uint8
    ==========================  =======================  ===============================

    Args:
        action_dim: size of actions.
        state_dim: size of states, at least that, or twice that with `success_steps`.
        image_shape: (channels, height, width).
        instruction: the text.
        from_pixels: a picture of the first two parts of the action, red, and of the target, green.
        render_size: its side.
        success_steps: see above.
        success_tol: see above.
        group_repeats: the same target in so many episodes, which have the same "group_id"; with `success_steps`, and
            for one environment.
        group_id_offset: number of the first group.
        batch_size: how many environments.
        device: of all tensors.
        seed: of images and targets.

    Raises:
        ValueError: `state_dim` is too small, or `group_repeats` cannot be had.

    Example:
        >>> env = ToyVLAEnv(action_dim=2, state_dim=4, success_steps=2, seed=0)
        >>> oracle = lambda td: td.set("action", td["observation", "state"][..., 2:4])
        >>> env.rollout(9, oracle)["next", "success"].flatten().tolist()
        [False, True]
    """

    rng: Generator

    def __init__(
        self, action_dim: int = 4, state_dim: int = 6, image_shape: Sequence[int] = (3, 16, 16),
        instruction: str = "push the T-shaped block onto the target", *, from_pixels: bool = False,
        render_size: int = 64, success_steps: int | None = None, success_tol: float = 0.25,
        group_repeats: int | None = None, group_id_offset: int = 0, batch_size: Sequence[int] | Size | None = None,
        device: Any = None, seed: int | None = None,
    ) -> None:  # fmt: skip
        size = Size([]) if batch_size is None else Size(batch_size)
        needed = action_dim * (1 if success_steps is None else 2)
        if state_dim < needed:
            raise ValueError(
                f"ToyVLAEnv: state_dim is {state_dim}, expected at least {needed} for what the state shows."
            )
        if group_repeats is not None and (success_steps is None or size or group_repeats < 1):
            raise ValueError(
                "ToyVLAEnv: group_repeats, at least 1, repeats targets: it needs success_steps, and no batch_size."
            )
        super().__init__(device=device, batch_size=size)
        self.action_dim, self.state_dim, self.image_shape = action_dim, state_dim, tuple(image_shape)
        self.instruction = instruction
        self.from_pixels, self.render_size = from_pixels, render_size
        self.success_steps, self.success_tol = success_steps, success_tol
        self.group_repeats, self.group_id_offset = group_repeats, group_id_offset
        self._target = torch.zeros(*size, action_dim, device=self.device)
        self._streak = torch.zeros(*size, 1, dtype=torch.int64, device=self.device)
        self._episodes = 0
        self._make_specs()
        self.set_seed(int(torch.empty((), dtype=torch.int64).random_()) if seed is None else seed)

    def _make_specs(self) -> None:
        size, device = self.batch_size, self.device
        seen = Composite(
            image=Unbounded((*size, *self.image_shape), dtype=torch.uint8, device=device),
            state=Unbounded((*size, self.state_dim), device=device),
            shape=size,
        )
        text = NonTensor(shape=size, example_data=self.instruction, device=device)
        spec = Composite(observation=seen, language_instruction=text, shape=size)
        if self.success_steps is not None:
            spec["success"] = Categorical(2, (*size, 1), dtype=torch.bool, device=device)
        if self.group_repeats is not None:
            spec["group_id"] = Unbounded((*size, 1), dtype=torch.int64, device=device)
        if self.from_pixels:
            spec["pixels"] = Unbounded((*size, self.render_size, self.render_size, 3), dtype=torch.uint8, device=device)
        self.observation_spec = spec
        self.action_spec = Bounded(-1.0, 1.0, (*size, self.action_dim), device=device)
        self.reward_spec = Unbounded((*size, 1), device=device)

    def _set_seed(self, seed: int | None) -> None:
        self.rng = Generator(device="cpu" if self.device is None else self.device)
        if seed is not None:
            self.rng.manual_seed(seed)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        size = self.batch_size
        mask = None if tensordict is None else tensordict.get(RESET, None)
        mask = torch.ones(*size, 1, dtype=torch.bool) if mask is None else mask.reshape(*size, 1)
        mask = mask.to(self._streak.device)
        if self.success_steps is not None:
            self._target = torch.where(mask, self._next_target(), self._target)
        self._streak = torch.where(mask, 0, self._streak)
        self._episodes += 1
        return self._observed(torch.zeros_like(self._target), torch.zeros_like(self._streak, dtype=torch.bool))

    def _next_target(self) -> Tensor:
        if self.group_repeats is not None and self._episodes % self.group_repeats:
            return self._target
        drawn = torch.rand(*self._target.shape, generator=self.rng, device=self.rng.device)
        return (2 * drawn - 1) * _FARTHEST_TARGET

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict["action"]
        away = action - self._target if self.success_steps is not None else action
        success = torch.zeros_like(self._streak, dtype=torch.bool)
        if self.success_steps is not None:
            near = away.abs().amax(-1, keepdim=True) <= self.success_tol
            self._streak = torch.where(near, self._streak + 1, 0)
            success = self._streak >= self.success_steps
        found = self._observed(action, success)
        found["reward"] = -away.norm(dim=-1, keepdim=True)
        found["done"], found["terminated"] = success.clone(), success
        return found

    def _observed(self, action: Tensor, success: Tensor) -> TensorDict:
        size, device = self.batch_size, self.device
        shape = (*size, *self.image_shape)
        image = torch.randint(0, 256, shape, generator=self.rng, device=self.rng.device, dtype=torch.uint8)
        shown = [action.float(), *([self._target] if self.success_steps is not None else [])]
        state = torch.cat(shown, -1)
        state = torch.nn.functional.pad(state, (0, self.state_dim - state.shape[-1]))
        found = TensorDict({"observation": TensorDict({"image": image, "state": state}, size)}, size, device=device)
        found.set_non_tensor("language_instruction", self.instruction)
        if self.success_steps is not None:
            found["success"] = success
        if self.group_repeats is not None:
            group = self.group_id_offset + (self._episodes - 1) // self.group_repeats
            found["group_id"] = torch.full((*size, 1), group, dtype=torch.int64)
        if self.from_pixels:
            found["pixels"] = self._picture(action)
        return found

    def _picture(self, action: Tensor) -> Tensor:
        side = self.render_size
        picture = torch.tensor(_BACKGROUND, dtype=torch.uint8, device=action.device)
        picture = picture.repeat(*self.batch_size, side, side, 1)
        marks = [(action, _ACTION), *([(self._target, _TARGET)] if self.success_steps is not None else [])]
        for place, colour in marks:
            covered = self._covered(place)
            picture[covered] = torch.tensor(colour, dtype=torch.uint8, device=action.device)
        return picture

    def _covered(self, place: Tensor) -> Tensor:
        """Which pixels a mark covers, (*batch, side, side); a place is of a column and a row."""
        side = self.render_size
        centre = ((place.clamp(-1, 1) + 1) / 2 * (side - 1)).round()
        column = centre[..., 0]
        row = centre[..., 1] if place.shape[-1] > 1 else torch.zeros_like(column)
        pixels = torch.arange(side, device=place.device)
        radius = max(2, side // 32)
        down = (pixels - row.unsqueeze(-1)).abs() <= radius
        across = (pixels - column.unsqueeze(-1)).abs() <= radius
        return down.unsqueeze(-1) & across.unsqueeze(-2)
