"""`Transform`: what changes the data that go into an environment or a replay buffer, or come out of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, Self

from torch import Size, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.data.tensor_specs import Composite, TensorSpec
from flambeau.rl.envs._keys import NestedKey, as_key, as_tuple

__all__ = ["ObservationTransform", "Transform"]


class Transform(nn.Module):
    """A change of the data that an environment or a replay buffer takes and gives.

    A subclass defines as much as it needs:

    ==============================  ====================================================================================
    `_apply_transform(value)`       from the value at each of `in_keys` to the one at `out_keys`
    `_inv_apply_transform(value)`   from an action or state at each of `out_keys_inv`, which the policy writes, to the
                                    one at `in_keys_inv`, which the environment reads
    `_call(next_tensordict)`        what an environment gave, if several values belong together
    `_inv_call(tensordict)`         what an environment takes, likewise
    `_step(tensordict, next)`       what a step gave, if what was before it matters
    `_reset(tensordict, fresh)`     what a reset gave; `tensordict` has masks of what was reset, and state
    `forward(tensordict)`           a batch of a replay buffer, or whatever data: default: as `_apply_transform`
    `transform_*_spec(spec)`        what all this means for the specs
    ==============================  ====================================================================================

    Args:
        in_keys: keys that are read, and transformed.
        out_keys: where the results are written; as many.
        in_keys_inv: keys that the environment reads, or a buffer stores.
        out_keys_inv: keys that are seen from outside instead; as many; default: `in_keys_inv`.

    Example:
        >>> class Doubled(Transform):
        ...     def _apply_transform(self, value):
        ...         return 2 * value
        >>> from flambeau.data.tensordict import TensorDict
        >>> Doubled(in_keys=["x"], out_keys=["y"])(TensorDict({"x": torch.ones(2)}))["y"]
        tensor([2., 2.])
    """

    invertible = False
    enable_inv_on_reset = False
    _over_time = False
    """Whether many steps at once are transformed as each by itself is."""

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__()
        state = self.__dict__
        state["_missing_tolerance"] = False
        state["_container"] = None
        state["_parent"] = None
        self.in_keys = in_keys
        self.out_keys = out_keys
        self.in_keys_inv = in_keys_inv
        self.out_keys_inv = out_keys_inv

    # Keys

    @property
    def in_keys(self) -> Any:
        """Keys that are read, and transformed."""
        return self._keys_at("_in_keys")

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        self.__dict__["_in_keys"] = key_list(value)

    @property
    def out_keys(self) -> Any:
        """Keys that the results are written to."""
        return self._keys_at("_out_keys")

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        self.__dict__["_out_keys"] = key_list(value)

    @property
    def in_keys_inv(self) -> Any:
        """Keys that the environment reads, or a buffer stores."""
        return self._keys_at("_in_keys_inv")

    @in_keys_inv.setter
    def in_keys_inv(self, value: Any) -> None:
        self.__dict__["_in_keys_inv"] = key_list(value)

    @property
    def out_keys_inv(self) -> Any:
        """Keys that are seen from outside in the place of `in_keys_inv`."""
        return self._keys_at("_out_keys_inv")

    @out_keys_inv.setter
    def out_keys_inv(self, value: Any) -> None:
        self.__dict__["_out_keys_inv"] = key_list(value)

    def _keys_at(self, name: str) -> list[NestedKey]:
        keys = self.__dict__.get(name)
        return [] if keys is None else keys

    # What changes data

    def _apply_transform(self, obs: Any) -> Any:
        """From a value at one of `in_keys` to that at its out key."""
        raise NotImplementedError(
            f"{type(self).__name__} defines no `_apply_transform`; it, or `_call` and `forward`, says what happens to "
            f"{self.in_keys}."
        )

    def _inv_apply_transform(self, state: Any) -> Any:
        """From a value at one of `out_keys_inv` to that at its in key."""
        if self.invertible:
            raise NotImplementedError(f"{type(self).__name__} is invertible, but defines no `_inv_apply_transform`.")
        return state

    def _call(self, next_tensordict: TensorDictBase) -> Any:
        """Transform what an environment gave."""
        for in_key, out_key in self._pairs():
            value = next_tensordict.get(in_key, None)
            if value is not None:
                next_tensordict.set(out_key, self._apply_transform(value))
            elif not self._missing_tolerance:
                raise self._missing(in_key, next_tensordict)
        return next_tensordict

    @dispatch(source="in_keys", dest="out_keys", auto_batch_size=False)  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any = None) -> Any:
        """Transform data: a batch of a replay buffer, what a module gave, or tensors in the order of `in_keys`.

        Args:
            tensordict: changed in place.

        Raises:
            KeyError: it lacks one of `in_keys`.
        """
        for in_key, out_key in self._pairs():
            value = tensordict.get(in_key, None)
            if value is not None:
                tensordict.set(out_key, self._apply_transform(value))
            elif not self._missing_tolerance:
                raise self._missing(in_key, tensordict)
        return tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        """Transform what followed `tensordict`."""
        return self._call(next_tensordict)

    def _stored(self, tensordict: Any) -> Any:
        """Take out of a step what is not stored, once its next root is made."""
        return tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        """Transform what a reset of `tensordict` gave."""
        return tensordict_reset

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        """Transform what an environment is reset with; None where it is reset with nothing."""
        if self.enable_inv_on_reset and tensordict is not None:
            with tolerating_missing(self):
                tensordict = self.inv(tensordict)
        return tensordict

    def _inv_call(self, tensordict: Any) -> Any:
        """Transform what an environment takes, or what is stored."""
        if not self.in_keys_inv:
            return tensordict
        for in_key, out_key in self._pairs_inv():
            value = tensordict.get(out_key, None)
            if value is not None:
                tensordict.set(in_key, self._inv_apply_transform(value))
            elif not self._missing_tolerance:
                raise self._missing(out_key, tensordict)
        return tensordict

    @dispatch(source="out_keys_inv", dest="in_keys_inv", auto_batch_size=False)  # type: ignore[untyped-decorator]
    def inv(self, tensordict: Any = None) -> Any:
        """Transform data that go into an environment or buffer, or tensors in the order of `out_keys_inv`.

        Args:
            tensordict: is not changed.

        Raises:
            KeyError: it lacks one of `out_keys_inv`.
        """
        return self._inv_call(tensordict.copy())

    def _pairs(self) -> Any:
        return zip(self.in_keys, self.out_keys, strict=True)

    def _pairs_inv(self) -> Any:
        return zip(self.in_keys_inv, self.out_keys_inv, strict=True)

    def _missing(self, key: NestedKey, tensordict: Any) -> KeyError:
        return KeyError(
            f"{type(self).__name__} reads {key!r}, which the tensordict has not; its keys are "
            f"{list(tensordict.keys(True, True))}."
        )

    def init(self, tensordict: Any) -> None:
        """Find out what a transform must know of its first data.

        Args:
            tensordict: the first data.
        """

    # What this means for specs

    def transform_env_device(self, device: Any) -> Any:
        """The device of an environment with this transform.

        Args:
            device: without it.
        """
        return device

    def transform_env_batch_size(self, batch_size: Size) -> Size:
        """The batch size of an environment with this transform.

        Args:
            batch_size: without it.
        """
        return batch_size

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of what an environment with this transform gives.

        Args:
            output_spec: without it; a composite of "full_observation_spec", "full_reward_spec" and "full_done_spec".
        """
        for name in ("observation", "reward", "done"):
            key = f"full_{name}_spec"
            if key in output_spec.keys():  # noqa: SIM118  # no dictionary
                output_spec[key] = getattr(self, f"transform_{name}_spec")(output_spec[key])
        return output_spec

    def transform_input_spec(self, input_spec: TensorSpec) -> TensorSpec:
        """The specs of what an environment with this transform takes.

        Args:
            input_spec: without it; a composite of "full_action_spec" and "full_state_spec".
        """
        for name in ("action", "state"):
            key = f"full_{name}_spec"
            if key in input_spec.keys():  # type: ignore[attr-defined]  # noqa: SIM118
                input_spec[key] = getattr(self, f"transform_{name}_spec")(input_spec[key])  # type: ignore[index]
        return input_spec

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """The specs of observations, from those without the transform.

        Args:
            observation_spec: a composite.
        """
        return observation_spec

    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        """The specs of rewards, from those without the transform.

        Args:
            reward_spec: a composite.
        """
        return reward_spec

    def transform_done_spec(self, done_spec: TensorSpec) -> TensorSpec:
        """The specs of ends, from those without the transform.

        Args:
            done_spec: a composite.
        """
        return done_spec

    def transform_action_spec(self, action_spec: TensorSpec) -> TensorSpec:
        """The specs of actions, from those without the transform.

        Args:
            action_spec: a composite.
        """
        return action_spec

    def transform_state_spec(self, state_spec: TensorSpec) -> TensorSpec:
        """The specs of what an environment reads besides, from those without the transform.

        Args:
            state_spec: a composite.
        """
        return state_spec

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """Add to the zeros that stand for a step of an environment what specs do not tell.

        Args:
            fake_tensordict: the zeros.
        """
        return fake_tensordict

    # Where it is used

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: a `Compose`, a `TransformedEnv` or a replay buffer.

        Raises:
            AttributeError: it is part of something already.
        """
        if self._owner() is not None and self._owner() is not container:
            raise AttributeError(
                f"{type(self).__name__} is part of a {type(self._owner()).__name__} already; `clone()` gives one that "
                "is not, and `reset_parent()` takes it out."
            )
        state = self.__dict__
        state["_container"] = weakref.ref(container)
        state["_parent"] = None

    def _owner(self) -> Any:
        """What it is part of: a `Compose`, an environment, a buffer, or nothing."""
        reference = self.__dict__["_container"]
        return None if reference is None else reference()

    def reset_parent(self) -> None:
        """Take the transform out of what it is part of."""
        self.__dict__["_container"] = None
        self.__dict__["_parent"] = None

    @property
    def container(self) -> Any:
        """The environment, or buffer, whose transform this is, or is part of; None if there is none."""
        owner = self._owner()
        return owner.container if isinstance(owner, Transform) else owner

    @property
    def parent(self) -> Any:
        """The environment as this transform sees it: with the transforms before it, but not itself and what follows."""
        parent = self.__dict__["_parent"]
        if parent is None:
            owner = self._owner()
            if owner is None or not hasattr(owner, "_environment_below"):
                return None
            parent = owner._environment_below(self)
            self.__dict__["_parent"] = parent
        return parent

    def _transforms_before(self) -> list[Transform]:
        """The transforms that come before this one, which is part of an environment."""
        found: list[Transform] = []
        each, owner = self, self._owner()
        while isinstance(owner, Transform):
            inner: Any = owner
            before = []
            for other in inner.transforms:
                if other is each:
                    break
                before.append(other)
            found = [*before, *found]
            each, owner = owner, owner._owner()
        return found

    @property
    def collector(self) -> Any:
        """The collector that uses the environment; None if there is none."""
        return getattr(self.container, "_collector", None)

    def clone(self) -> Self:
        """The same transform, with the same tensors, as part of nothing."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__["_container"] = None
        twin.__dict__["_parent"] = None
        return twin

    def empty_cache(self) -> None:
        """Forget what was found out about the environment."""
        self.__dict__["_parent"] = None

    def close(self) -> None:
        """Let go of what the transform uses."""

    def dump(self, **kwargs: Any) -> None:
        """Write out what the transform has recorded, for those that record.

        Args:
            kwargs: for the transform.
        """

    # How it is used

    @property
    def missing_tolerance(self) -> bool:
        """Whether data without one of the keys pass untouched."""
        return bool(self._missing_tolerance)

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Say whether data without one of the keys pass untouched.

        Args:
            mode: whether they do.
        """
        self.__dict__["_missing_tolerance"] = mode

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move its tensors, and forget what was found out about the environment."""
        self.empty_cache()
        return super().to(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_container": None, "_parent": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keys={self.in_keys})"


class ObservationTransform(Transform):
    """A transform of observations: of those after resets, too."""

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)


class _CallableTransform(Transform):
    """A function of tensordicts as a transform.

    Args:
        func: takes and returns a tensordict.
    """

    def __init__(self, func: Callable[[Any], Any]) -> None:
        super().__init__()
        self.func = func

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.func(*args, **kwargs)

    def _call(self, next_tensordict: Any) -> Any:
        return self.func(next_tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)


def as_transform(value: Any) -> Transform:
    """A transform from one, or from a function of tensordicts.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, Transform):
        return value
    if callable(value):
        return _CallableTransform(value)
    raise ValueError(
        f"A transform, or a function of tensordicts, is needed; got {type(value).__name__}. Several transforms make "
        "one by Compose(*transforms)."
    )


def key_list(value: Any) -> list[NestedKey] | None:
    """Keys as a list of strings and of tuples of two parts and more."""
    if value is None:
        return None
    if isinstance(value, str) or (isinstance(value, tuple) and all(isinstance(part, str) for part in value)):
        value = [value]
    return [_plain(key) for key in value]


def _plain(key: Any) -> Any:
    if isinstance(key, str):
        return key
    if isinstance(key, tuple):
        return as_key(tuple(part for each in key for part in as_tuple(_plain(each))))
    raise ValueError(f"Keys are strings and tuples of strings; got {key!r}.")


@contextmanager
def tolerating_missing(transform: Transform) -> Any:
    """Data without one of the keys pass untouched in a `with` block."""
    before = transform.missing_tolerance
    transform.set_missing_tolerance(True)
    try:
        yield
    finally:
        transform.set_missing_tolerance(before)
