"""What an environment takes and gives, as specs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from torch import Size, nn

from flambeau.rl.data.tensor_specs import Categorical, Composite, TensorSpec, Unbounded
from flambeau.rl.envs._keys import RESET, NestedKey, by_depth, with_last

_GROUPS = {
    "full_state_spec": "input_spec",
    "full_action_spec": "input_spec",
    "full_observation_spec": "output_spec",
    "full_done_spec": "output_spec",
    "full_reward_spec": "output_spec",
}


class EnvSpecs(nn.Module):
    """An environment's specs, and the keys in them."""

    auto_complete_done_specs = True
    _batch_locked = True

    def __init__(self, device: Any, batch_size: Any, spec_locked: bool) -> None:
        super().__init__()
        state = self.__dict__  # plain attributes: nn.Module looks through several dictionaries otherwise
        state["_device"] = None if device is None else torch.device(device)
        size = Size(() if batch_size is None else batch_size)
        state["_batch_size"] = size
        state["_spec_locked"] = spec_locked
        state["_key_cache"] = {}
        state["_specs_by_group"] = {
            group: Composite(
                {name: Composite(shape=size, device=self.device) for name in self._names(group)},
                shape=size,
                device=self.device,
            )
            for group in ("input_spec", "output_spec")
        }
        self.full_done_spec = Composite(shape=size)
        self.full_reward_spec = Composite(reward=Unbounded((*size, 1)), shape=size)
        if spec_locked:
            self.set_spec_lock_()

    @staticmethod
    def _names(group: str) -> Iterator[str]:
        return (name for name, where in _GROUPS.items() if where == group)

    # Facts

    @property
    def batch_size(self) -> Size:
        """How many environments this one is, by dimension."""
        size: Size = self.__dict__["_batch_size"]
        return size

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        size = Size(value)
        state = self.__dict__
        state["_batch_size"] = size
        for group in state.get("_specs_by_group", {}).values():
            locked = group.is_locked
            group.unlock_(recurse=True)
            group.shape = size
            if locked:
                group.lock_(recurse=True)
        self.empty_cache()

    @property
    def shape(self) -> Size:
        """The batch size."""
        return self.batch_size

    @property
    def batch_dims(self) -> int:
        """Number of dimensions of the batch."""
        return len(self.batch_size)

    @property
    def ndim(self) -> int:
        """Number of dimensions of the batch."""
        return len(self.batch_size)

    def ndimension(self) -> int:
        """Number of dimensions of the batch."""
        return self.ndim

    def numel(self) -> int:
        """How many environments this one is."""
        return self.batch_size.numel()

    @property
    def batch_locked(self) -> bool:
        """Whether tensordicts must have the env's batch size; otherwise any will do."""
        return self._batch_locked

    @batch_locked.setter
    def batch_locked(self, value: bool) -> None:
        raise RuntimeError("batch_locked is a property of an env's class, and cannot be set.")

    @property
    def device(self) -> Any:
        """The device of everything the env takes and gives; None where it moves nothing."""
        return self.__dict__.get("_device")

    @device.setter
    def device(self, value: Any) -> None:
        self.to(value)

    # Locks and caches

    @property
    def is_spec_locked(self) -> bool:
        """Whether specs can be changed in place; they can always be set anew."""
        return bool(self.__dict__["_spec_locked"])

    @is_spec_locked.setter
    def is_spec_locked(self, value: bool) -> None:
        self.set_spec_lock_(value)

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Lock the specs, so that keys found once can be kept; or unlock them, to change them in place.

        Args:
            mode: whether to lock.
        """
        for group in self.__dict__["_specs_by_group"].values():
            if mode:
                group.lock_(recurse=True)
            else:
                group.unlock_(recurse=True)
        self.__dict__["_spec_locked"] = mode
        self.empty_cache()
        return self

    def empty_cache(self) -> None:
        """Forget the keys found earlier."""
        self.__dict__["_key_cache"].clear()

    def _cached(self, name: str, make: Callable[[], Any]) -> Any:
        cache = self.__dict__["_key_cache"]
        if name not in cache:
            value = make()
            if not self.__dict__["_spec_locked"]:
                return value
            cache[name] = value
        return cache[name]

    # Groups

    @property
    def input_spec(self) -> Composite:
        """What the env takes: "full_state_spec" and "full_action_spec"."""
        return self.__dict__["_specs_by_group"]["input_spec"]  # type: ignore[no-any-return]

    @input_spec.setter
    def input_spec(self, value: Any) -> None:
        raise RuntimeError("input_spec cannot be set; set action_spec and state_spec.")

    @property
    def output_spec(self) -> Composite:
        """What the env gives: "full_observation_spec", "full_done_spec" and "full_reward_spec"."""
        return self.__dict__["_specs_by_group"]["output_spec"]  # type: ignore[no-any-return]

    @output_spec.setter
    def output_spec(self, value: Any) -> None:
        raise RuntimeError("output_spec cannot be set; set observation_spec, reward_spec and done_spec.")

    @property
    def specs(self) -> Composite:
        """Both, in a composite "output_spec", "input_spec"."""
        return Composite(output_spec=self.output_spec, input_spec=self.input_spec, shape=self.batch_size)

    def _full(self, name: str) -> Composite:
        return self.__dict__["_specs_by_group"][_GROUPS[name]]._specs[name]  # type: ignore[no-any-return]

    def _set_full(self, name: str, value: TensorSpec, leaf: str | None, given_as: str) -> None:
        """Set one of the composites, from a composite or from the spec of its one leaf."""
        size = self.batch_size
        if not isinstance(value, TensorSpec):
            raise TypeError(f"{given_as} must be a spec, not {type(value).__name__}.")
        if value.shape[: len(size)] != size:
            raise ValueError(
                f"The shape of {given_as}, {tuple(value.shape)}, must begin with the env's batch size {tuple(size)}; "
                f"{given_as}_unbatched takes specs without it."
            )
        if not isinstance(value, Composite):
            if leaf is None:
                raise TypeError(f"{given_as} must be a Composite with names; got {type(value).__name__}.")
            value = Composite({leaf: value}, shape=size)
        if self.device is not None:
            value = value.to(self.device)
        elif value.is_locked:
            value = value.clone()
        group = self.__dict__["_specs_by_group"][_GROUPS[name]]
        locked = group.is_locked
        if locked:
            group.unlock_(recurse=True)
        group[name] = value
        if locked:
            group.lock_(recurse=True)
        self.empty_cache()

    @property
    def full_observation_spec(self) -> Composite:
        """The specs of all observations, by key."""
        return self._full("full_observation_spec")

    @full_observation_spec.setter
    def full_observation_spec(self, value: Any) -> None:
        self._set_full("full_observation_spec", value, "observation", "observation_spec")

    @property
    def observation_spec(self) -> Composite:
        """The specs of all observations, by key."""
        return self.full_observation_spec

    @observation_spec.setter
    def observation_spec(self, value: Any) -> None:
        self.full_observation_spec = value

    @property
    def full_state_spec(self) -> Composite:
        """The specs of what the env reads besides actions, by key."""
        return self._full("full_state_spec")

    @full_state_spec.setter
    def full_state_spec(self, value: Any) -> None:
        self._set_full(
            "full_state_spec", Composite(shape=self.batch_size) if value is None else value, None, "state_spec"
        )

    @property
    def state_spec(self) -> Composite:
        """The specs of what the env reads besides actions, by key."""
        return self.full_state_spec

    @state_spec.setter
    def state_spec(self, value: Any) -> None:
        self.full_state_spec = value

    @property
    def full_action_spec(self) -> Composite:
        """The specs of all actions, by key."""
        return self._full("full_action_spec")

    @full_action_spec.setter
    def full_action_spec(self, value: Any) -> None:
        self._set_full("full_action_spec", value, "action", "action_spec")

    @property
    def action_spec(self) -> Any:
        """The spec of the action where there is one; a composite of all where there are several."""
        return self._one_or_all(self.full_action_spec, self.action_keys)

    @action_spec.setter
    def action_spec(self, value: Any) -> None:
        self.full_action_spec = value

    @property
    def full_reward_spec(self) -> Composite:
        """The specs of all rewards, by key."""
        return self._full("full_reward_spec")

    @full_reward_spec.setter
    def full_reward_spec(self, value: Any) -> None:
        for spec in value.values(True, True) if isinstance(value, Composite) else (value,):
            if isinstance(spec, TensorSpec) and not len(spec.shape) and not self.batch_size:
                raise RuntimeError(
                    "A reward cannot have the shape (): give it a last dimension of size 1, as in "
                    "Unbounded(shape=(*batch_size, 1))."
                )
        self._set_full("full_reward_spec", value, "reward", "reward_spec")

    @property
    def reward_spec(self) -> Any:
        """The spec of the reward where there is one; a composite of all where there are several."""
        return self._one_or_all(self.full_reward_spec, self.reward_keys)

    @reward_spec.setter
    def reward_spec(self, value: Any) -> None:
        self.full_reward_spec = value

    @property
    def full_done_spec(self) -> Composite:
        """The specs of all ends, by key."""
        return self._full("full_done_spec")

    @full_done_spec.setter
    def full_done_spec(self, value: Any) -> None:
        size = self.batch_size
        if not isinstance(value, Composite):
            value = Composite(done=value, shape=size)
        else:
            value = value.clone()
        if self.auto_complete_done_specs:
            _complete(value, root=True)
        self._set_full("full_done_spec", value, "done", "done_spec")

    @property
    def done_spec(self) -> Any:
        """The spec of the end where there is one key; a composite of all where there are several."""
        return self._one_or_all(self.full_done_spec, self.done_keys)

    @done_spec.setter
    def done_spec(self, value: Any) -> None:
        self.full_done_spec = value

    @staticmethod
    def _one_or_all(full: Composite, keys: list[NestedKey]) -> Any:
        return full[keys[0]] if len(keys) == 1 and isinstance(keys[0], str) else full

    # Keys

    def _keys_of(self, name: str) -> list[NestedKey]:
        found: list[NestedKey] = self._cached(name, lambda: sorted(self._full(name).keys(True, True), key=by_depth))
        return found

    def _single(self, name: str, keys: list[NestedKey]) -> NestedKey:
        if len(keys) > 1:
            raise KeyError(f"The env has several {name} keys, {keys}; use `{name}_keys`.")
        return keys[0]

    @property
    def observation_keys(self) -> list[NestedKey]:
        """Keys of observations, outer ones first."""
        return self._keys_of("full_observation_spec")

    @property
    def state_keys(self) -> list[NestedKey]:
        """Keys of what the env reads besides actions, outer ones first."""
        return self._keys_of("full_state_spec")

    @property
    def action_keys(self) -> list[NestedKey]:
        """Keys of actions, outer ones first."""
        return self._keys_of("full_action_spec")

    @property
    def action_key(self) -> NestedKey:
        """The key of the action.

        Raises:
            KeyError: there are several.
        """
        return self._single("action", self.action_keys)

    @property
    def reward_keys(self) -> list[NestedKey]:
        """Keys of rewards, outer ones first."""
        return self._keys_of("full_reward_spec")

    @property
    def reward_key(self) -> NestedKey:
        """The key of the reward.

        Raises:
            KeyError: there are several.
        """
        return self._single("reward", self.reward_keys)

    @property
    def done_keys(self) -> list[NestedKey]:
        """Keys of ends, outer ones first."""
        return self._keys_of("full_done_spec")

    @property
    def done_key(self) -> NestedKey:
        """The key of the end.

        Raises:
            KeyError: there are several.
        """
        return self._single("done", self.done_keys)

    @property
    def reset_keys(self) -> list[NestedKey]:
        """Keys of the masks that say what to reset, one beside each group of ends."""
        keys: list[NestedKey] = self._cached(
            "reset_keys", lambda: sorted(dict.fromkeys(with_last(key, RESET) for key in self.done_keys), key=by_depth)
        )
        return keys

    @property
    def done_keys_groups(self) -> list[list[NestedKey]]:
        """Keys of ends, those of one place together, in the order of `reset_keys`."""
        groups: list[list[NestedKey]] = self._cached(
            "done_keys_groups",
            lambda: [[key for key in self.done_keys if with_last(key, RESET) == reset] for reset in self.reset_keys],
        )
        return groups

    # Without the batch

    def _unbatched(self, spec: Any) -> Any:
        if not self.batch_size:
            return spec
        return spec[(0,) * self.ndim]

    def _batched(self, spec: Any) -> Any:
        size = self.batch_size
        if not size:
            return spec
        if isinstance(spec, Composite) and not spec.shape:
            return spec.expand(size)
        return spec.expand((*size, *spec.shape))

    @property
    def specs_unbatched(self) -> Composite:
        """`specs` without the dimensions of the batch."""
        return self._unbatched(self.specs)  # type: ignore[no-any-return]

    def _has_dynamic_specs(self) -> bool:
        """Whether a size in the specs is not fixed."""
        found: bool = self._cached(
            "dynamic",
            lambda: any(-1 in spec.shape for name in _GROUPS for spec in self._full(name).values(True, True) if spec),
        )
        return found


def _unbatched_property(name: str) -> property:
    def read(self: EnvSpecs) -> Any:
        return self._unbatched(getattr(self, name))

    def write(self: EnvSpecs, value: Any) -> None:
        setattr(self, name, self._batched(value))

    read.__doc__ = f"`{name}` without the dimensions of the batch."
    return property(read, write)


for _name in (
    "observation_spec", "state_spec", "action_spec", "reward_spec", "done_spec", *_GROUPS, "input_spec", "output_spec"
):  # fmt: skip
    setattr(EnvSpecs, f"{_name}_unbatched", _unbatched_property(_name))


def _complete(done_spec: Composite, root: bool = False) -> None:
    """Add "done" and "terminated" where only one of them, or "truncated" alone, is there."""
    for spec in list(done_spec.values()):
        if isinstance(spec, Composite):
            _complete(spec)
    names = [name for name in ("done", "terminated", "truncated") if name in done_spec]
    if not names and (not root or list(done_spec.keys(True, True))):
        return
    like = (
        done_spec[names[0]]
        if names
        else Categorical(2, (*done_spec.shape, 1), dtype=torch.bool, device=done_spec.device)
    )
    for name in ("done", "terminated"):
        if name not in done_spec:
            done_spec[name] = like.clone()
