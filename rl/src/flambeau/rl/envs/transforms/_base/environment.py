"""`TransformedEnv`: an environment with a transform of what it takes and gives."""

from __future__ import annotations

import textwrap
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import nn

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl._utils import auto_unwrap_transformed_env
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.transforms._base.compose import Compose
from flambeau.rl.envs.transforms._base.transform import Transform, as_transform

__all__ = ["AutoResetEnv", "TransformedEnv"]

STEP = "_step"
"""Key of the masks that say which entries of a batch take a step; the others stay where they are."""


class TransformedEnv(EnvBase):
    """An environment whose actions, states, observations, rewards and ends pass through a transform.

    Args:
        base_env: the environment; with transforms of its own, these and the new one become one composition.
        transform: a transform, or a function of tensordicts; default: none yet.
        cache_specs: keep the transformed specs once they are computed.
        auto_unwrap: whether an environment that has transforms becomes one with this one; default: as
            `set_auto_unwrap_transformed_env` says, which is yes.
        kwargs: `device` to move the environment to.

    Raises:
        AttributeError: the transform is part of another environment.
        ValueError: the transform is none.

    Example:
        >>> from flambeau.rl.envs import GymEnv
        >>> from flambeau.rl.envs.transforms import StepCounter
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter(max_steps=5))
        >>> env.rollout(3)["step_count"].flatten()
        tensor([0, 1, 2])
    """

    def __init__(
        self,
        base_env: EnvBase | None = None,
        transform: Transform | Callable[[Any], Any] | None = None,
        cache_specs: bool = True,
        *,
        auto_unwrap: bool | None = None,
        **kwargs: Any,
    ) -> None:
        base_env = kwargs.pop("env", None) if base_env is None else base_env
        if not isinstance(base_env, EnvBase):
            raise TypeError(f"TransformedEnv needs an environment; got {type(base_env).__name__}.")
        nn.Module.__init__(self)
        device = kwargs.pop("device", None)
        if kwargs:
            raise TypeError(f"TransformedEnv has no argument {next(iter(kwargs))!r}.")
        if device is not None:
            base_env = base_env.to(device)
        if isinstance(transform, type) and issubclass(transform, Transform):
            transform = transform()
        if auto_unwrap is None:
            auto_unwrap = auto_unwrap_transformed_env()
        made = Compose() if transform is None else as_transform(transform)
        if auto_unwrap and type(base_env) is TransformedEnv and type(self) is TransformedEnv:
            inner = base_env.transform.clone()
            added = [] if transform is None else [made]
            if type(made) is Compose:
                made.reset_parent()
                added = list(made)
            parts = [*(inner if type(inner) is Compose else [inner]), *added]
            for each in parts:
                each.reset_parent()
            made = Compose(*parts)
            base_env = base_env.base_env
        state = self.__dict__
        state["_key_cache"] = {}
        state["_spec_locked"] = base_env.is_spec_locked
        state["cache_specs"] = cache_specs
        state["_specs_by_group"] = _TransformedSpecs(self)
        state["_allow_done_after_reset"] = base_env._allow_done_after_reset
        state["_auto_reset"] = False
        state["_first_observations"] = None
        self._modules["base_env"] = base_env
        self._transform = made.eval()
        made.set_container(self)

    # The parts

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "transform":
            # A module would register it, without a look at the property.
            type(self).transform.fset(self, value)  # type: ignore[attr-defined]
        else:
            super().__setattr__(name, value)

    @property
    def base_env(self) -> Any:
        """The environment without the transform."""
        return self._modules["base_env"]

    @property
    def transform(self) -> Any:
        """The transform."""
        return self._modules["_transform"]

    @transform.setter
    def transform(self, transform: Any) -> None:
        old = self._modules.get("_transform")
        made = as_transform(transform)
        if old is not None and old is not made:
            old.reset_parent()  # type: ignore[operator]
        made.set_container(self)
        self._transform = made
        self.empty_cache()

    def append_transform(self, transform: Transform | Callable[[Any], Any]) -> Self:
        """Add a transform behind those that are there, and return the environment.

        Args:
            transform: or a function of tensordicts.
        """
        return self.insert_transform(len(self._composed()), transform)

    def insert_transform(self, index: int, transform: Transform | Callable[[Any], Any]) -> Self:
        """Add a transform at a position, and return the environment.

        Args:
            index: of the new transform; 0 is the nearest to the environment.
            transform: or a function of tensordicts.

        Raises:
            ValueError: there is no such position.
        """
        made = as_transform(transform)
        if self.device is not None:
            made = made.to(self.device)
        self._composed().insert(index, made)
        self.empty_cache()
        return self

    def _composed(self) -> Compose:
        """The transform as a composition that others can be added to."""
        old = self.transform
        if type(old) is not Compose:
            old.reset_parent()
            both = Compose(old)
            both.set_container(self)
            self._transform = both
        composed: Compose = self.transform
        return composed

    def _environment_below(self, transform: Transform, above: tuple[Transform, ...] = ()) -> TransformedEnv:
        clones = Compose(*(each.clone() for each in above))
        return TransformedEnv(self.base_env, clones, auto_unwrap=False)

    # Facts

    @property
    def batch_size(self) -> torch.Size:
        """How many environments this one is, by dimension."""
        size: torch.Size = self._known("batch_size", self.transform.transform_env_batch_size)
        return size

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        raise RuntimeError("The batch size of a TransformedEnv is its environment's; set that of `base_env`.")

    @property
    def device(self) -> Any:
        """The device of everything the environment takes and gives; None where it moves nothing."""
        return self._known("device", self.transform.transform_env_device)

    @device.setter
    def device(self, value: Any) -> None:
        self.to(value)

    def _known(self, name: str, change: Callable[[Any], Any]) -> Any:
        """What a transform makes of a fact of the environment, kept as long as the fact is the same."""
        fact = getattr(self._modules["base_env"], name)
        cache = self.__dict__["_key_cache"]
        kept = cache.get(name)
        if kept is None or kept[0] != fact:
            kept = cache[name] = (fact, change(fact))
        return kept[1]

    @property
    def batch_locked(self) -> bool:
        """Whether tensordicts must have the environment's batch size; otherwise any will do."""
        return bool(self.base_env.batch_locked)

    @batch_locked.setter
    def batch_locked(self, value: bool) -> None:
        raise RuntimeError("batch_locked is a property of an env's class, and cannot be set.")

    @property
    def _batch_locked(self) -> bool:  # type: ignore[override]
        return bool(self.base_env._batch_locked)

    @property
    def run_type_checks(self) -> bool:
        """Whether dtypes of what the environment gives are checked in every step."""
        return bool(self.base_env.run_type_checks)

    @run_type_checks.setter
    def run_type_checks(self, value: bool) -> None:
        self.base_env.run_type_checks = value

    @property
    def is_closed(self) -> bool:
        """Whether the environment is closed."""
        return bool(self.base_env.is_closed)

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        self.base_env.is_closed = value

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            base_env = self.__dict__.get("_modules", {}).get("base_env")
            if base_env is None or (name.startswith("__") and name.endswith("__")):
                raise
        try:
            return getattr(base_env, name)
        except AttributeError:
            raise AttributeError(
                f"Neither this TransformedEnv nor its {type(base_env).__name__} has an attribute {name!r}."
            ) from None

    # Specs

    def _transformed_group(self, group: str) -> Composite:
        """The specs of the environment, transformed."""
        specs = getattr(self.base_env, group).clone()
        specs.unlock_(recurse=True)
        transformed: Composite = getattr(self.transform, f"transform_{group}")(specs)
        size = self.batch_size
        if transformed.shape != size:
            transformed.shape = size
        if self.device is not None:
            transformed = transformed.to(self.device)
        return transformed.lock_(recurse=True) if self.__dict__["_spec_locked"] else transformed

    def _set_full(self, name: str, value: Any, leaf: str | None, given_as: str) -> None:
        groups = self.__dict__["_specs_by_group"]
        specs = {group: groups[group] for group in ("input_spec", "output_spec")}
        super()._set_full(name, value, leaf, given_as)
        # What was set counts, until something changes the transform.
        groups.update(specs)

    def empty_cache(self) -> None:
        """Forget the transformed specs, and the keys in them."""
        self.__dict__["_specs_by_group"].clear()
        super().empty_cache()
        transform = self._modules.get("_transform")
        if transform is not None:
            transform.empty_cache()  # type: ignore[operator]

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Lock the specs, so that keys found once can be kept; or unlock them, to change them in place.

        Args:
            mode: whether to lock.
        """
        self.base_env.set_spec_lock_(mode)
        self.__dict__["_spec_locked"] = mode
        for group in ("input_spec", "output_spec"):
            specs = self.__dict__["_specs_by_group"].get(group)
            if specs is not None:
                specs.lock_(recurse=True) if mode else specs.unlock_(recurse=True)
        self.__dict__["_key_cache"].clear()
        return self

    def add_truncated_keys(self) -> Self:
        """Add "truncated" beside each "done" in the specs, and return the environment."""
        self.base_env.add_truncated_keys()
        self.empty_cache()
        return self

    # Steps and resets

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        # A copy in any case: transforms may write into it, but the caller's stays as it is.
        inner = self.transform._inv_call(tensordict.copy())
        mask = inner.pop(STEP, None)
        if mask is None:
            following = self.base_env._followed(inner)
        elif mask.any():
            following = self.base_env._followed(inner)
            if not mask.all():
                following = _where(mask, following, self._skipped(inner))
        else:
            following = self._skipped(inner)
        given = inner.get("next", None)
        if given is not None:
            following.update(given.exclude(*following.keys(True, True)))
        return self.transform._step(inner, following)

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Take a step, and begin new episodes where it ended one.

        Args:
            tensordict: as in `step`.

        Returns:
            What `step` returned, as far as it is stored, and the root of the next step.
        """
        tensordict, following = super().step_and_maybe_reset(tensordict)
        return self._stored(tensordict), following

    def _stored(self, tensordict: Any) -> Any:
        return self.transform._stored(tensordict)

    def _skipped(self, tensordict: Any) -> Any:
        """What follows where no step is taken: the same observations, no reward, the same ends."""
        base_env = self.base_env
        following = tensordict.select(*base_env.observation_keys, *base_env.done_keys, strict=False)
        following.update(base_env.full_reward_spec.zero())
        for key, spec in (
            *base_env.full_observation_spec.items(True, True),
            *base_env.full_done_spec.items(True, True),
        ):
            if key not in following.keys(True, True):
                following.set(key, spec.zero())
        return following

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        transform, base_env = self.transform, self.base_env
        if tensordict is not None:
            tensordict = tensordict.select(*self.reset_keys, *self.state_keys, strict=False)
        inner = transform._reset_env_preprocess(tensordict)
        fresh = base_env._begun(inner, **kwargs)
        if tensordict is None:
            tensordict = fresh.empty()
        return transform._reset(tensordict, fresh)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Set the environment's seed.

        Args:
            seed: any number; None leaves it to chance.
            static_seed: return the same seed.

        Returns:
            The seed for a next environment, which is another one.
        """
        following: int | None = self.base_env.set_seed(seed, static_seed=static_seed)
        return following

    def _set_seed(self, seed: int | None) -> None:
        self.base_env._set_seed(seed)

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write random actions into a tensordict.

        Args:
            tensordict: default: a new one.
        """
        if type(self.base_env).rand_action not in (EnvBase.rand_action, TransformedEnv.rand_action):
            drawn: TensorDictBase = self.base_env.rand_action(tensordict)
            return drawn
        unsized = self._cached("unsized_actions", self._unsized_actions)
        if unsized:
            if tensordict is None:
                tensordict = TensorDict({}, self.batch_size, device=self.device)
            for key, spec in unsized.items():
                tensordict.set(key, spec.rand())
            return tensordict
        return super().rand_action(tensordict)

    def _unsized_actions(self) -> dict[Any, Any]:
        """The specs of actions with sizes that are not fixed as 1; nothing where all are fixed."""
        found: dict[Any, Any] = {}
        specs = dict(self.full_action_spec.items(True, True))
        if any(-1 in spec.shape for spec in specs.values()):
            for key, spec in specs.items():
                found[key] = spec.clone()
                found[key].shape = torch.Size([max(1, size) if size < 0 else size for size in spec.shape])
        return found

    def fake_tensordict(self) -> TensorDictBase:
        """A tensordict of zeros with all that a step has, by the specs."""
        zeros: TensorDictBase = self.transform.transform_fake_tensordict(super().fake_tensordict())
        return zeros

    # As a module

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move what the environment takes and gives, and the tensors of environment and transform."""
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        if device is not None and device != self.device:  # type: ignore[redundant-expr]
            self._modules["base_env"] = self.base_env.to(device)
            self.transform.to(device)
            self.empty_cache()
        elif device is None:
            self.transform.to(*args, **kwargs)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set the transform to training, or not; the environment is never trained.

        Args:
            mode: whether it is training.
        """
        self.transform.train(mode)
        return self

    def eval(self) -> Self:
        """Set the transform to evaluation."""
        return self.train(False)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The transform's state."""
        return self.transform.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: OrderedDict[str, Any], **kwargs: Any) -> Any:  # type: ignore[override]
        """Load the transform's state.

        Args:
            state_dict: as `state_dict` gave it.
            kwargs: as for a module.
        """
        return self.transform.load_state_dict(state_dict, **kwargs)

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Say whether data without one of the transform's keys pass untouched.

        Args:
            mode: whether they do.
        """
        self.transform.set_missing_tolerance(mode)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment, and let go of what the transform uses.

        Args:
            raise_if_closed: complain where it is closed already.
        """
        self.transform.close()
        self.base_env.close(raise_if_closed=raise_if_closed)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_key_cache"] = {}
        del state["_specs_by_group"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["_specs_by_group"] = _TransformedSpecs(self)
        self.transform.set_container(self)

    def __repr__(self) -> str:
        parts = textwrap.indent(f"env={self.base_env},\ntransform={self.transform})", "    ")
        return f"{type(self).__name__}(\n{parts}"


class AutoResetEnv(TransformedEnv):
    """An environment that begins new episodes by itself, with the transform that sorts out what it gives then."""

    def insert_transform(self, index: int, transform: Transform | Callable[[Any], Any]) -> Any:
        """Add a transform at a position behind the first, which stays the nearest to the environment.

        Args:
            index: of the new transform, > 0.
            transform: or a function of tensordicts.

        Raises:
            RuntimeError: at the first position.
        """
        if index == 0 or index == -len(self._composed()):
            raise RuntimeError(
                "The first transform of an AutoResetEnv sorts out its resets, and stays the first; insert others at 1 "
                "or behind."
            )
        return super().insert_transform(index, transform)


class _TransformedSpecs(dict[str, Composite]):
    """The transformed specs of an environment by group, computed when they are asked for."""

    def __init__(self, env: TransformedEnv) -> None:
        super().__init__()
        self.env = env

    def __missing__(self, group: str) -> Composite:
        specs = self.env._transformed_group(group)
        if self.env.__dict__["cache_specs"]:
            self[group] = specs
        return specs


def _where(mask: torch.Tensor, following: Any, skipped: Any) -> Any:
    """What followed where a mask is true, what was before elsewhere."""
    out = following.copy()
    for key, value in following.items(True, True):
        old = skipped.get(key, None)
        if isinstance(value, torch.Tensor) and old is not None:
            out.set(key, torch.where(spread(mask, value), value, old))
    return out
