"""`EnvBase`: what all environments are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Size

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._utils import seed_generator
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._base.rollouts import EnvRollouts
from flambeau.rl.envs._keys import NestedKey, as_list, as_tuple, with_last
from flambeau.rl.envs.utils import check_env_specs, make_composite_from_td

__all__ = ["EnvBase", "EnvMetaData", "make_tensordict"]


class EnvBase(EnvRollouts):
    """An environment: takes tensordicts with actions, and gives tensordicts with observations, rewards and ends.

    A subclass defines `_reset(tensordict)`, `_step(tensordict)` and `_set_seed(seed)`, and sets `observation_spec`,
    `action_spec`, and where they are not a float and one end, `reward_spec` and `done_spec`.

    Args:
        device: of everything it takes and gives; None where it moves nothing.
        batch_size: how many environments it is, by dimension; default: ().
        run_type_checks: check dtypes of what it gives in every step.
        allow_done_after_reset: an episode may be over right when it begins.
        spec_locked: specs cannot be changed in place, so that keys are looked up once.
        auto_reset: the environment begins new episodes by itself: what it gives for the last step of an episode are the
            first observations of the next. They come with the reset then; the last observations, which are not known,
            are NaN, -1, or 0 for dtypes without these.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.rl.data import Categorical, Unbounded
        >>> class Count(EnvBase):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.observation_spec = Composite(count=Unbounded((1,)))
        ...         self.action_spec = Categorical(2)
        ...     def _reset(self, tensordict, **kwargs):
        ...         return TensorDict({"count": torch.zeros(1)})
        ...     def _step(self, tensordict):
        ...         count = tensordict["count"] + 1
        ...         return TensorDict({"count": count, "reward": count, "done": count >= 3})
        >>> Count().rollout(10)["next", "count"].flatten()
        tensor([1., 2., 3.])
    """

    def __init__(
        self,
        *,
        device: Any = None,
        batch_size: tuple[int, ...] | Size | None = None,
        run_type_checks: bool = False,
        allow_done_after_reset: bool = False,
        spec_locked: bool = True,
        auto_reset: bool = False,
    ) -> None:
        super().__init__(device, batch_size, spec_locked, run_type_checks, allow_done_after_reset)
        self.__dict__["_auto_reset"] = auto_reset

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Environments are stepped and reset, not called.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{type(self).__name__} is no module to call; use step, reset or rollout. Vectorised environments take "
            "functions that make environments: lambda: env."
        )

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Set the environment's seed.

        Args:
            seed: any number; None leaves it to chance.
            static_seed: return the same seed.

        Returns:
            The seed for a next environment, which is another one.
        """
        self._set_seed(seed)
        return seed if seed is None or static_seed else seed_generator(seed)

    def set_state(self) -> None:
        """Refused by environments that keep their state to themselves.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"The state of {type(self).__name__} cannot be set.")

    def add_truncated_keys(self) -> Self:
        """Add "truncated" beside each "done" in the specs, and return the environment."""
        spec = self.full_done_spec.clone()
        for key in self.done_keys:
            if as_tuple(key)[-1] == "done" and with_last(key, "truncated") not in spec.keys(True, True):
                spec[with_last(key, "truncated")] = spec[key].clone()
        self.full_done_spec = spec
        return self

    @classmethod
    def register_gym(
        cls,
        id: str,
        *,
        entry_point: Callable[..., Any] | None = None,
        transform: Any = None,
        info_keys: list[NestedKey] | None = None,
        backend: Any = None,
        to_numpy: bool = False,
        reward_threshold: float | None = None,
        nondeterministic: bool = False,
        max_episode_steps: int | None = None,
        order_enforce: bool = True,
        autoreset: bool | None = None,
        disable_env_checker: bool = False,
        apply_api_compatibility: bool = False,
        **kwargs: Any,
    ) -> None:
        """Register the environment with gymnasium or gym, whose `make` then makes it.

        Observations come as dictionaries by key. Spaces are those of the specs: `Box` of bounded and unbounded ones,
        `Discrete` of one-hot vectors and categories, `MultiDiscrete` of several, `MultiBinary`, `Dict`.

        Args:
            id: the name; `gymnasium.make(id, to_numpy=..., info_keys=..., transform=...)` replaces what is given here.
            entry_point: makes the environment; default: the class.
            transform: of what the environment takes and gives.
            info_keys: observations that come as information instead.
            backend: "gymnasium" or "gym", or the module; default: as `set_gym_backend` says.
            to_numpy: give arrays, and numbers and booleans for rewards and ends, as gymnasium's own environments do;
                otherwise all are tensors.
            reward_threshold: as in the library.
            nondeterministic: as in the library.
            max_episode_steps: as in the library.
            order_enforce: as in the library.
            autoreset: as in old versions of the library.
            disable_env_checker: as in the library; tensors do not pass its checks, so that it is left out for them.
            apply_api_compatibility: as in old versions of the library.
            kwargs: arguments for the environment.

        Example:
            >>> import gymnasium
            >>> from flambeau.rl.envs import CartPoleEnv
            >>> CartPoleEnv.register_gym("TensorCartPole-v0", to_numpy=True, seed=0)
            >>> env = gymnasium.make("TensorCartPole-v0")
            >>> observation, info = env.reset()
            >>> env.step(1)[1:4]
            (1.0, False, False)
        """
        from flambeau.rl.envs._gym_export import registered
        from flambeau.rl.envs.libs._gym_backend import gym_backend, set_gym_backend

        registered(
            cls if entry_point is None else entry_point,
            id,
            gym_backend() if backend is None else set_gym_backend(backend).backend,
            {"transform": transform, "info_keys": info_keys, "to_numpy": to_numpy},
            {
                "reward_threshold": reward_threshold,
                "nondeterministic": nondeterministic,
                "max_episode_steps": max_episode_steps,
                "order_enforce": order_enforce,
                "autoreset": autoreset,
                "disable_env_checker": disable_env_checker or not to_numpy,
                "apply_api_compatibility": apply_api_compatibility,
            },
            kwargs,
        )

    @classmethod
    def make_parallel(cls, create_env_fn: Any, *, num_envs: int = 1, **parallel_kwargs: Any) -> EnvBase:
        """Several environments in processes of their own, see `ParallelEnv`.

        Args:
            create_env_fn: makes an environment, or a list of such functions.
            num_envs: their number.
            parallel_kwargs: further arguments of `ParallelEnv`.
        """
        from flambeau.rl.envs.batched_envs import ParallelEnv

        return ParallelEnv(num_envs, create_env_fn, **parallel_kwargs)  # type: ignore[no-any-return]

    def auto_specs_(
        self,
        policy: Callable[[TensorDictBase], TensorDictBase],
        *,
        tensordict: TensorDictBase | None = None,
        action_key: NestedKey | list[NestedKey] = "action",
        done_key: NestedKey | list[NestedKey] | None = None,
        observation_key: NestedKey | list[NestedKey] | None = None,
        reward_key: NestedKey | list[NestedKey] = "reward",
    ) -> Self:
        """Find out the specs from two steps, and set them; bounds are not known that way.

        Args:
            policy: writes actions.
            tensordict: what to reset with.
            action_key: keys of actions.
            done_key: keys of ends; default: those called "done", "terminated" or "truncated".
            observation_key: keys of observations; default: all that `reset` and `step` give besides.
            reward_key: keys of rewards.
        """
        given = set() if tensordict is None else {as_tuple(key) for key in tensordict.keys(True, True)}
        first = self._reset(None if tensordict is None else tensordict.copy())
        root = first if tensordict is None else tensordict.copy().update(first)
        root = policy(root)
        following = self._step(root.copy())
        actions, rewards = as_list(action_key), as_list(reward_key)
        ends = as_list(done_key) if done_key is not None else _ends_in(following)
        taken = {as_tuple(key) for key in (*actions, *rewards, *ends)}
        seen = {as_tuple(key) for key in following.keys(True, True)} | {as_tuple(key) for key in first.keys(True, True)}
        observations = as_list(observation_key) or [_key(parts) for parts in sorted(seen - taken)]
        state = [key for key in root.keys(True, True) if as_tuple(key) in given and key not in actions]
        self.set_spec_lock_(False)
        self.full_action_spec = make_composite_from_td(root.select(*actions), unsqueeze_null_shapes=False)
        self.full_done_spec = make_composite_from_td(_shaped(following.select(*ends)))
        self.full_reward_spec = make_composite_from_td(_shaped(following.select(*rewards)))
        both = first.copy().update(following)
        self.full_observation_spec = make_composite_from_td(
            both.select(*observations, strict=False), unsqueeze_null_shapes=False
        )
        self.full_state_spec = make_composite_from_td(root.select(*state), unsqueeze_null_shapes=False)
        self.set_spec_lock_(True)
        return self

    def append_transform(self, transform: Callable[[TensorDictBase], TensorDictBase]) -> Any:
        """The environment with a transform of what it takes and gives, a `TransformedEnv`.

        Args:
            transform: a `Transform`, or a function of tensordicts.
        """
        from flambeau.rl.envs.transforms import TransformedEnv

        return TransformedEnv(self, transform)

    def check_env_specs(self, *args: Any, **kwargs: Any) -> None:
        """Check that the environment gives what its specs say, see `check_env_specs`."""
        check_env_specs(self, *args, **kwargs)

    def to(self, device: Any) -> Self:  # type: ignore[override]
        """Move what the environment takes and gives, and its parameters and buffers, to a device."""
        device = torch.device(device)
        if device == self.device:
            return self
        state = self.__dict__
        state["_device"] = device
        for name, group in state["_specs_by_group"].items():
            locked = group.is_locked
            group.unlock_(recurse=True)
            moved = group.to(device)
            state["_specs_by_group"][name] = moved.lock_(recurse=True) if locked else moved
        self.empty_cache()
        return super().to(device)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment.

        Args:
            raise_if_closed: complain where it is closed already; kept for upstream's signature.
        """
        self.is_closed = True

    def __enter__(self) -> Self:
        """The environment, which is closed at the end of a `with` block."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _ends_in(data: Any) -> list[NestedKey]:
    return [key for key in data.keys(True, True) if as_tuple(key)[-1] in ("done", "terminated", "truncated")]


def _key(parts: tuple[str, ...]) -> NestedKey:
    return parts[0] if len(parts) == 1 else parts


def _shaped(data: Any) -> Any:
    """With a last dimension where there is none behind the batch."""
    return data.apply(lambda value: value.unsqueeze(-1) if value.ndim == data.ndim else value)


class EnvMetaData:
    """What there is to know of an environment without making it.

    Args:
        tensordict: what a step has, in zeros.
        specs: of the environment.
        batch_size: of the environment.
        env_str: the environment as text.
        device: of the environment.
        batch_locked: whether it takes one batch size only.
        device_map: key -> device of everything in the tensordict.
        supports_set_state: whether a reset can set the state.
    """

    def __init__(
        self,
        *,
        tensordict: TensorDictBase,
        specs: Composite,
        batch_size: Size,
        env_str: str,
        device: torch.device | None,
        batch_locked: bool,
        device_map: dict[Any, Any],
        supports_set_state: bool = False,
    ) -> None:
        self.device = device
        self.batch_size = batch_size
        self.env_str = env_str
        self.batch_locked = batch_locked
        self.device_map = device_map
        self.supports_set_state = supports_set_state
        self.has_dynamic_specs = any(-1 in spec.shape for spec in specs.values(True, True) if spec is not None)
        self._tensordict = tensordict.to("cpu").clear_device_().contiguous()
        self._specs = specs.to("cpu")

    @property
    def tensordict(self) -> Any:
        """What a step has, on the environment's device."""
        return self._tensordict if self.device is None else self._tensordict.to(self.device)

    @property
    def specs(self) -> Any:
        """The environment's specs, on its device."""
        return self._specs if self.device is None else self._specs.to(self.device)

    @staticmethod
    def metadata_from_env(env: Any) -> EnvMetaData:
        """Find out about an environment."""
        data = env.fake_tensordict().clone()
        for key, (end, *_) in zip(env.reset_keys, env.done_keys_groups, strict=True):
            data.set(key, torch.zeros_like(data.get(end), dtype=torch.bool))
        devices = {key: value.device for key, value in data.items(True, True)}
        return EnvMetaData(
            tensordict=data,
            specs=env.specs.to("cpu"),
            batch_size=env.batch_size,
            env_str=str(env),
            device=env.device,
            batch_locked=env.batch_locked,
            device_map=devices,
        )

    def _with(self, **changes: Any) -> EnvMetaData:
        facts = {
            "tensordict": self._tensordict,
            "specs": self._specs,
            "batch_size": self.batch_size,
            "env_str": self.env_str,
            "device": self.device,
            "batch_locked": self.batch_locked,
            "device_map": self.device_map,
            "supports_set_state": self.supports_set_state,
        }
        return EnvMetaData(**(facts | changes))

    def expand(self, *size: Any) -> EnvMetaData:
        """Of several such environments."""
        shape: Sequence[int] = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        data = self._tensordict.expand(*shape).clone()
        return self._with(tensordict=data, specs=self._specs.expand(*shape), batch_size=Size(shape))

    def clone(self) -> EnvMetaData:
        """A copy."""
        return self._with(tensordict=self._tensordict.clone(), specs=self._specs.clone())

    def to(self, device: Any) -> EnvMetaData:
        """Of such an environment on another device."""
        device = torch.device(device)
        return self._with(device=device, device_map=dict.fromkeys(self.device_map, device))

    def __getitem__(self, item: Any) -> EnvMetaData:
        batch_size = torch.zeros(()).expand(self.batch_size)[item].shape
        return self._with(tensordict=self._tensordict[item].clone(), specs=self._specs[item], batch_size=batch_size)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class _EnvWrapper(EnvBase):
    """An environment around one of another library.

    Args:
        args: passed on to the environment that is made, as `kwargs`.
        device: as in `EnvBase`.
        batch_size: as in `EnvBase`.
        allow_done_after_reset: as in `EnvBase`.
        spec_locked: as in `EnvBase`.
        kwargs: what the library's environment is made of.
    """

    git_url = ""
    available_envs: Any = {}
    libname = ""

    def __init__(
        self,
        *args: Any,
        device: Any = None,
        batch_size: Size | None = None,
        allow_done_after_reset: bool = False,
        spec_locked: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            device=device, batch_size=batch_size, allow_done_after_reset=allow_done_after_reset, spec_locked=spec_locked
        )
        if args:
            raise TypeError(f"{type(self).__name__} takes arguments by name; got {len(args)} without.")
        self.frame_skip = kwargs.pop("frame_skip", 1)
        self._constructor_kwargs = kwargs
        self._check_kwargs(kwargs)
        self._convert_actions_to_numpy = kwargs.pop("convert_actions_to_numpy", True)
        self.__dict__["_env"] = self._build_env(**kwargs)
        self._make_specs(self._env)
        self.is_closed = False
        self._init_env()

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        """Raise where an argument is missing or wrong."""

    def _build_env(self, **kwargs: Any) -> Any:
        """The library's environment."""
        raise NotImplementedError

    def _make_specs(self, env: Any) -> None:
        """Set the specs by those of the library's environment."""
        raise NotImplementedError

    def _init_env(self) -> int | None:
        """Do what has to be done before the first reset."""
        return None

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "_env" not in self.__dict__:
                raise
        return getattr(self.__dict__["_env"], name)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the library's environment as well."""
        if not self.is_closed:
            close = getattr(self._env, "close", None)
            if close is not None:
                close()
        self.is_closed = True


def make_tensordict(env: EnvBase, policy: Callable[[TensorDictBase], TensorDictBase] | None = None) -> TensorDictBase:
    """What a step of an environment has, in zeros.

    Args:
        env: the environment.
        policy: what it writes besides actions is there as well.
    """
    with torch.no_grad():
        data = env.reset()
        data = env.rand_action(data) if policy is None else policy(data)
        return env.step(data).zero_()
