"""Functions that make environments, and what is known of these before they are made."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from flambeau.rl._comm.makers import Maker
from flambeau.rl.envs.common import EnvBase, EnvMetaData

__all__ = ["EnvCreator", "env_creator", "get_env_metadata"]


class EnvCreator:
    """A function that makes environments, which share their state, and whose specs are known.

    It makes one environment at once, to find out about it. Its state (`state_dict`), where it has one, is put into
    shared memory; all environments that are made, in other processes too, use that memory. So do, for example, the
    statistics of transforms.

    Args:
        create_env_fn: makes an environment.
        create_env_kwargs: arguments for it.
        share_memory: whether environments share their state; otherwise each begins with a copy of it.
        kwargs: further arguments for the function.

    Example:
        >>> from flambeau.rl.envs import GymEnv
        >>> creator = EnvCreator(GymEnv, env_name="CartPole-v1")
        >>> creator.meta_data.batch_size, creator().action_spec.shape
        (torch.Size([]), torch.Size([2]))
    """

    def __init__(
        self,
        create_env_fn: Callable[..., EnvBase],
        create_env_kwargs: dict[str, Any] | None = None,
        share_memory: bool = True,
        **kwargs: Any,
    ) -> None:
        self.create_env_fn = create_env_fn
        self.create_env_kwargs = {**kwargs, **(create_env_kwargs or {})}
        self.initialized = False
        self._meta_data: EnvMetaData | None = None
        self._share_memory = share_memory
        self._state: OrderedDict[str, Any] = OrderedDict()
        self.init_()

    def init_(self) -> EnvCreator:
        """Make one environment, to find out about it; this was done when the object was made."""
        env = self.create_env_fn(**self.create_env_kwargs)
        self._meta_data = _metadata(env)
        self._state = env.state_dict()  # type: ignore[assignment]
        if self._share_memory:
            self.share_memory(self._state)
        self.initialized = True
        if not env.is_closed:
            env.close()
        return self

    def share_memory(self, state_dict: OrderedDict[str, Any]) -> None:
        """Put the tensors of a state into shared memory.

        Args:
            state_dict: the state; states within it are shared, too.
        """
        for value in state_dict.values():
            if isinstance(value, torch.Tensor):
                if value.device.type == "cpu":
                    value.share_memory_()
            elif isinstance(value, dict):
                self.share_memory(OrderedDict(value))

    @property
    def meta_data(self) -> EnvMetaData:
        """What is known of the environments.

        Raises:
            RuntimeError: `init_` was not called.
        """
        if self._meta_data is None:
            raise RuntimeError("Nothing is known of the environment yet; call init_() first.")
        return self._meta_data

    def __call__(self, **kwargs: Any) -> EnvBase:
        """A new environment.

        Args:
            kwargs: arguments that replace those given before.
        """
        env = self.create_env_fn(**{**self.create_env_kwargs, **kwargs})
        if any(isinstance(value, torch.Tensor) for value in self._state.values()):
            env.load_state_dict(self._state, strict=False, assign=self._share_memory)
        return env

    def make_variant(self, **kwargs: Any) -> EnvCreator:
        """A creator of environments with other arguments; nothing is made to find out about them.

        Args:
            kwargs: arguments that replace those given before.
        """
        other = copy.copy(self)
        other.create_env_kwargs = {**self.create_env_kwargs, **kwargs}
        return other

    def state_dict(self) -> OrderedDict[str, Any]:
        """The state that the environments share."""
        return self._state

    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Write into the state that the environments share.

        Args:
            state_dict: as `state_dict` gives it.
        """
        for key, value in state_dict.items():
            own = self._state.get(key)
            if isinstance(own, torch.Tensor):
                own.copy_(value)
            else:
                self._state[key] = value

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"create_env_fn": Maker(self.create_env_fn)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.create_env_fn = state["create_env_fn"].function

    def __repr__(self) -> str:
        return f"EnvCreator({self.create_env_fn}, {self.create_env_kwargs})"


def env_creator(fun: Callable[..., EnvBase]) -> EnvCreator:
    """A creator of what a function makes; a decorator.

    Args:
        fun: makes an environment, and needs no arguments.
    """
    return EnvCreator(fun)


def get_env_metadata(
    env_or_creator: EnvBase | Callable[..., EnvBase],
    kwargs: dict[str, Any] | None = None,
    *,
    env_validator: Callable[[EnvBase], None] | None = None,
) -> EnvMetaData:
    """What there is to know of an environment.

    Args:
        env_or_creator: the environment, or what makes it: that is then made, and closed again.
        kwargs: arguments for what makes it.
        env_validator: called with the environment; it raises where it does not like it.

    Raises:
        TypeError: it is neither an environment nor a function.
    """
    if isinstance(env_or_creator, EnvBase):
        if env_validator is not None:
            env_validator(env_or_creator)
        return _metadata(env_or_creator)
    if isinstance(env_or_creator, EnvCreator) and not kwargs and env_validator is None:
        return env_or_creator.meta_data.clone()
    if not callable(env_or_creator):
        raise TypeError(
            f"An environment, or a function that makes one, is needed; got {type(env_or_creator).__name__}."
        )
    env = env_or_creator(**(kwargs or {}))
    try:
        if not isinstance(env, EnvBase):
            raise TypeError(f"What makes environments returned {type(env).__name__}, which is no EnvBase.")
        if env_validator is not None:
            env_validator(env)
        return _metadata(env)
    finally:
        if isinstance(env, EnvBase) and not env.is_closed:  # type: ignore[redundant-expr]
            env.close()


def _metadata(env: EnvBase) -> EnvMetaData:
    return EnvMetaData.metadata_from_env(env)
