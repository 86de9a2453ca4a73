"""Macro actions: several steps of an environment that are chosen at once, by what they lead to."""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Self

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorClass, TensorDictBase, is_tensor_collection
from flambeau.rl.data.tensor_specs import Categorical, Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._action.several import MultiAction
from flambeau.rl.envs.transforms._base.compose import Compose
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["MacroAction", "MacroPrimitive", "MacroPrimitiveTransform", "TargetMacroAction"]


class MacroPrimitive(enum.IntEnum):
    """What a macro action does: it holds the present action, or moves to another one."""

    WAIT = 0
    MOVE = 1


class MacroAction(TensorClass["nocast"]):  # type: ignore[misc, name-defined]
    """What a macro action does, and for how long.

    Attributes:
        mode: a `MacroPrimitive`, (*batch, 1), int64.
        steps: how many steps it takes, (*batch, 1), int64.
        settle_steps: how often the last action is repeated behind these, (*batch, 1), int64.
    """

    mode: Tensor
    steps: Tensor
    settle_steps: Tensor


class TargetMacroAction(MacroAction):
    """A macro action that leads to an action of the environment.

    Attributes:
        target: the action at its end, (*batch, size).
    """

    target: Tensor

    @classmethod
    def move(
        cls, target: Tensor, *, steps: int = 16, settle_steps: int = 0, mode: int = MacroPrimitive.MOVE
    ) -> TargetMacroAction:
        """Move to an action.

        Args:
            target: (*batch, size).
            steps: how many steps that takes.
            settle_steps: how often the target is repeated behind these.
            mode: a `MacroPrimitive`.
        """
        target = target.unsqueeze(0) if target.ndim < 2 else target
        return cls._made(target, mode, steps, settle_steps)

    @classmethod
    def wait(
        cls, *, action_dim: int, steps: int = 1, settle_steps: int = 0,
        batch_size: Size | tuple[int, ...] | None = None, dtype: torch.dtype | None = None, device: Any = None,
    ) -> TargetMacroAction:  # fmt: skip
        """Hold the present action.

        Args:
            action_dim: size of actions.
            steps: for how many steps.
            settle_steps: further ones.
            batch_size: default: (1,).
            dtype: of the target, which counts for nothing.
            device: of all tensors.
        """
        size = Size([1]) if batch_size is None else Size(batch_size)
        target = torch.zeros(*size, action_dim, dtype=dtype, device=device)
        return cls._made(target, MacroPrimitive.WAIT, steps, settle_steps)

    @classmethod
    def _made(cls, target: Tensor, mode: int, steps: int, settle_steps: int) -> TargetMacroAction:
        size = target.shape[:-1]

        def filled(value: int) -> Tensor:
            return torch.full((*size, 1), int(value), dtype=torch.int64, device=target.device)

        return cls(
            target=target, mode=filled(mode), steps=filled(steps), settle_steps=filled(settle_steps), batch_size=size
        )


class MacroPrimitiveTransform(Transform):
    """Macro actions as sequences of an environment's actions, each between the present action and a target.

    The k-th of n steps takes start + k/n (target - start); the target is repeated for `settle_steps` more. A policy
    writes a `TargetMacroAction`, a tensordict with its fields (of which "steps" and "settle_steps" may be left out), or
    a target alone. A subclass redefines `current_action`, where the present action is known, or `_resolve`, where
    targets are something else.

    Args:
        action_key: of the environment's action, and of the macro action outside.
        macro_steps: steps of a macro action that does not say itself, at least 1.
        settle_steps: repeated targets, likewise.
        action_dim: size of actions; default: as the environment's spec says.
        execute: return a composition with `MultiAction`, by which one step outside takes all of the environment's.
        multi_action_dim: for `MultiAction`.
        stack_rewards: for `MultiAction`.
        stack_observations: for `MultiAction`.

    Raises:
        ValueError: a number of steps is out of range.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> transform = MacroPrimitiveTransform(macro_steps=2)
        >>> transform.inv(TensorDict({"action": torch.ones(1, 3)}, [1]))["action"][0, :, 0]
        tensor([0.5000, 1.0000])
    """

    primitive_enum: ClassVar[type[enum.IntEnum]] = MacroPrimitive

    def __new__(
        cls, *args: Any, execute: bool = False, multi_action_dim: int = 1, stack_rewards: bool = True,
        stack_observations: bool = False, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """A transform, or a composition that executes what it makes."""
        if not execute:
            return super().__new__(cls)
        several = MultiAction(dim=multi_action_dim, stack_rewards=stack_rewards, stack_observations=stack_observations)
        return Compose(several, cls(*args, **kwargs))

    def __init__(
        self, *, action_key: NestedKey = "action", macro_steps: int = 16, settle_steps: int = 0,
        action_dim: int | None = None, execute: bool = False, multi_action_dim: int = 1, stack_rewards: bool = True,
        stack_observations: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if macro_steps < 1:
            raise ValueError(f"{type(self).__name__}: macro_steps is {macro_steps}, expected at least 1.")
        if settle_steps < 0:
            raise ValueError(f"{type(self).__name__}: settle_steps is {settle_steps}, expected at least 0.")
        self.action_key = action_key
        self.macro_steps = macro_steps
        self.settle_steps = settle_steps
        self.action_dim = action_dim

    # Macro actions

    def make_primitive(
        self, tensordict: Any, mode: int = MacroPrimitive.MOVE, *, target: Tensor | None = None,
        target_qpos: Tensor | None = None, steps: int | None = None, settle_steps: int | None = None,
    ) -> Any:  # fmt: skip
        """A copy of a tensordict with a macro action.

        Args:
            tensordict: is not changed.
            mode: a member of `primitive_enum`.
            target: (*batch, size).
            target_qpos: another name for it.
            steps: default: `macro_steps`.
            settle_steps: default: `settle_steps` of the transform.

        Raises:
            ValueError: there is no target.
        """
        target = target_qpos if target is None else target
        if target is None:
            raise ValueError(f"{type(self).__name__}.make_primitive needs a target, an action of the environment.")
        made = TargetMacroAction.move(
            target,
            steps=self.macro_steps if steps is None else steps,
            settle_steps=self.settle_steps if settle_steps is None else settle_steps,
            mode=mode,
        )
        return tensordict.copy().set(self.action_key, made)

    def action_sequence(
        self, tensordict: Any, mode: int | None = None, *, target: Tensor | None = None,
        target_qpos: Tensor | None = None, steps: int | None = None, settle_steps: int | None = None,
    ) -> Tensor:  # fmt: skip
        """The actions of a macro action.

        Args:
            tensordict: with the macro action, unless `mode` is given.
            mode: as for `make_primitive`, like what follows.
            target: (*batch, size).
            target_qpos: another name for it.
            steps: default: `macro_steps`.
            settle_steps: default: `settle_steps` of the transform.

        Returns:
            (*batch, steps + settle_steps, size).
        """
        if mode is not None or target is not None or target_qpos is not None:
            tensordict = self.make_primitive(
                tensordict,
                MacroPrimitive.MOVE if mode is None else mode,
                target=target,
                target_qpos=target_qpos,
                steps=steps,
                settle_steps=settle_steps,
            )
        action = tensordict.get(self.action_key, None)
        if action is None:
            raise RuntimeError(
                f"{type(self).__name__} reads a macro action at {self.action_key!r}; the keys are "
                f"{list(tensordict.keys(True, True))}."
            )
        return self._interpolate_sequence(*self._resolve(tensordict, action))

    @staticmethod
    def _interpolate_sequence(start: Tensor, target: Tensor, macro_steps: int, settle_steps: int) -> Tensor:
        part = torch.arange(1, macro_steps + 1, dtype=target.dtype, device=target.device).div(macro_steps).unsqueeze(-1)
        moving = start.unsqueeze(-2) + part * (target - start).unsqueeze(-2)
        settled = target.unsqueeze(-2).expand(*target.shape[:-1], settle_steps, target.shape[-1])
        return torch.cat([moving, settled], -2)

    def _resolve(self, tensordict: Any, action: Any) -> tuple[Tensor, Tensor, int, int]:
        """First and last action of a macro action, and for how many steps it moves and stays."""
        if isinstance(action, Tensor):
            start = self._start(tensordict, action)
            return start, action, self.macro_steps, self.settle_steps
        target = action.get("target", None) if is_tensor_collection(action) else None
        if target is None:
            raise RuntimeError(
                f"{type(self).__name__} takes a TargetMacroAction, or a tensordict or tensor of a target, at "
                f"{self.action_key!r}; got {action}."
            )
        start = self._start(tensordict, target)
        mode = action.get("mode", None)
        if mode is not None:
            target = torch.where(mode == MacroPrimitive.WAIT, start, target)
        return (
            start,
            target,
            self._number(action, "steps", self.macro_steps),
            self._number(action, "settle_steps", self.settle_steps),
        )

    def _start(self, tensordict: Any, target: Tensor) -> Tensor:
        found = self.current_action(tensordict, target.shape[:-1], target.device, target.dtype, target.shape[-1])
        return found.expand_as(target)

    def current_action(
        self, tensordict: TensorDictBase, batch_shape: Size, device: Any, dtype: torch.dtype, action_dim: int
    ) -> Tensor:
        """The action that a macro action begins with: zeros, unless a subclass knows the present one.

        Args:
            tensordict: what the environment is given.
            batch_shape: of the result.
            device: of the result.
            dtype: of the result.
            action_dim: last dimension of the result.
        """
        return torch.zeros(*batch_shape, action_dim, device=device, dtype=dtype)

    def _number(self, action: Any, key: str, default: int) -> int:
        value = action.get(key, None)
        if value is None:
            return default
        numbers = value.unique()
        if len(numbers) != 1:
            raise ValueError(
                f"{type(self).__name__}: the macro actions of a batch take the same number of steps; {key} are "
                f"{numbers.tolist()}."
            )
        return int(numbers)

    # In an environment

    def _inv_call(self, tensordict: Any) -> Any:
        return tensordict.set(self.action_key, self.action_sequence(tensordict))

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Data as they are: macro actions are made into actions on their way into an environment.

        Args:
            tensordict: not changed.
        """
        return tensordict

    def transform_input_spec(self, input_spec: Any) -> Any:
        """A mode and a target in the place of the action.

        Args:
            input_spec: a composite.
        """
        actions = input_spec["full_action_spec"]
        spec = actions[self.action_key]
        size = spec.shape[-1] if self.action_dim is None else self.action_dim
        batch = actions.shape
        del actions[self.action_key]
        actions[self.action_key] = self._macro_action_spec(batch, spec.device, spec.dtype, size)
        input_spec["full_action_spec"] = actions
        return input_spec

    def _macro_action_spec(self, batch_size: Size, device: Any, dtype: torch.dtype, action_dim: int) -> Composite:
        return Composite(
            mode=Categorical(len(self.primitive_enum), shape=(*batch_size, 1), device=device),
            target=Unbounded((*batch_size, action_dim), device=device, dtype=dtype),
            shape=batch_size,
        )

    def clone(self) -> Self:
        """The same transform, as part of nothing."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.reset_parent()
        return twin

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(macro_steps={self.macro_steps}, settle_steps={self.settle_steps}, "
            f"action_key={self.action_key!r})"
        )
