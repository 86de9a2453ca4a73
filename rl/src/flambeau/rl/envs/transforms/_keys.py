"""Entries by other names, or left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.transforms._base.transform import Transform, key_list

__all__ = ["ExcludeTransform", "FlattenTensorDict", "RemoveEmptySpecs", "RenameTransform", "SelectTransform"]

_OUTPUTS = ("full_observation_spec", "full_reward_spec", "full_done_spec")
_INPUTS = ("full_action_spec", "full_state_spec")


class RenameTransform(Transform):
    """Entries by other names.

    Args:
        in_keys: of what an environment or buffer gives.
        out_keys: their names outside; as many.
        in_keys_inv: of what it takes.
        out_keys_inv: their names outside; as many; default: `in_keys_inv`.
        create_copy: keep them under both names.

    Raises:
        ValueError: there are not as many out keys as in keys.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> sorted(RenameTransform(["a"], ["b"])(TensorDict({"a": 1, "c": 2})).keys())
        ['b', 'c']
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        create_copy: bool = False,
    ) -> None:
        in_keys_inv = [] if in_keys_inv is None else in_keys_inv
        super().__init__(in_keys, out_keys, in_keys_inv, in_keys_inv if out_keys_inv is None else out_keys_inv)
        for inner, outer in ((self.in_keys, self.out_keys), (self.in_keys_inv, self.out_keys_inv)):
            if len(inner) != len(outer):
                raise ValueError(f"Each key needs one new name; got {outer} for {inner}.")
        self.create_copy = create_copy

    def _call(self, next_tensordict: Any) -> Any:
        return self._renamed(next_tensordict, self._pairs())

    def forward(self, tensordict: Any) -> Any:
        """Rename entries.

        Args:
            tensordict: changed in place.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        there = set(tensordict_reset.keys(True))
        return self._renamed(tensordict_reset, [pair for pair in self._pairs() if pair[0] in there])

    def _inv_call(self, tensordict: Any) -> Any:
        return self._renamed(tensordict, [(outer, inner) for inner, outer in self._pairs_inv()])

    def _renamed(self, tensordict: Any, pairs: Any) -> Any:
        pairs = list(pairs)
        values = []
        for old, _ in pairs:
            value = tensordict.get(old, None)
            if value is None and not self.missing_tolerance:
                raise self._missing(old, tensordict)
            values.append(value)
        # All are taken before any is written, so that names can be exchanged.
        if not self.create_copy:
            for (old, _), value in zip(pairs, values, strict=True):
                if value is not None:
                    tensordict.del_(old)
        for (_, new), value in zip(pairs, values, strict=True):
            if value is not None:
                tensordict.set(new, value)
        return tensordict

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs by their new names.

        Args:
            output_spec: a composite.
        """
        for name in _OUTPUTS:
            if name in output_spec.keys():  # noqa: SIM118  # no dictionary
                output_spec[name] = self._with_new_names(output_spec[name], self._pairs())
        return output_spec

    def transform_input_spec(self, input_spec: Any) -> Any:
        """The specs by their new names.

        Args:
            input_spec: a composite.
        """
        for name in _INPUTS:
            if name in input_spec.keys():  # noqa: SIM118  # no dictionary
                input_spec[name] = self._with_new_names(input_spec[name], self._pairs_inv())
        return input_spec

    def _with_new_names(self, spec: Any, pairs: Any) -> Any:
        there = set(spec.keys(True))
        pairs = [pair for pair in pairs if pair[0] in there]
        values = [spec[old].clone() for old, _ in pairs]
        if not self.create_copy:
            for old, _ in pairs:
                del spec[old]
        for (_, new), value in zip(pairs, values, strict=True):
            spec[new] = value
        return spec


class ExcludeTransform(Transform):
    """All but some entries.

    Args:
        excluded_keys: what is left out.
        inverse: leave it out on the way in, rather than on the way out.

    Raises:
        KeyError: the environment has no such entry.
    """

    def __init__(self, *excluded_keys: NestedKey, inverse: bool = False) -> None:
        super().__init__()
        self.excluded_keys = _checked(excluded_keys, type(self).__name__)
        self.inverse = inverse

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict if self.inverse else next_tensordict.exclude(*self.excluded_keys)

    def forward(self, tensordict: Any) -> Any:
        """Leave entries out.

        Args:
            tensordict: is not changed.
        """
        return self._call(tensordict)

    def _inv_call(self, tensordict: Any) -> Any:
        return tensordict.exclude(*self.excluded_keys) if self.inverse else tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of the others.

        Args:
            output_spec: a composite.
        """
        if self.inverse:
            return output_spec
        left = set(self.excluded_keys)
        for name in _OUTPUTS:
            group = output_spec[name]
            there = set(group.keys(True))
            for key in self.excluded_keys:
                if key in there:
                    del group[key]
                    left.discard(key)
            output_spec[name] = group
        if left:
            raise KeyError(
                f"ExcludeTransform is to leave out {sorted(left, key=str)}, which the environment does not give."
            )
        return output_spec


class SelectTransform(Transform):
    """Some entries, and no others.

    Args:
        selected_keys: what stays.
        keep_rewards: rewards stay, too.
        keep_dones: ends stay, too.
    """

    def __init__(self, *selected_keys: NestedKey, keep_rewards: bool = True, keep_dones: bool = True) -> None:
        super().__init__()
        self.selected_keys = _checked(selected_keys, type(self).__name__)
        self.keep_rewards = keep_rewards
        self.keep_dones = keep_dones

    def _kept(self) -> list[NestedKey]:
        cache = self.__dict__.get("_kept_keys")
        if cache is None:
            parent = self.parent
            rewards = ["reward"] if parent is None else parent.reward_keys
            ends = ["done"] if parent is None else parent.done_keys
            states = [] if parent is None else parent.state_keys
            cache = [
                *self.selected_keys,
                *(rewards if self.keep_rewards else []),
                *(ends if self.keep_dones else []),
                *states,
            ]
            if parent is not None:
                self.__dict__["_kept_keys"] = cache
        return cache

    def empty_cache(self) -> None:
        """Forget what was found out about the environment."""
        super().empty_cache()
        self.__dict__.pop("_kept_keys", None)

    def clone(self) -> Any:
        """The same transform, as part of nothing."""
        twin = super().clone()
        twin.__dict__.pop("_kept_keys", None)
        return twin

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict.select(*self._kept(), strict=False)

    def forward(self, tensordict: Any) -> Any:
        """Leave all other entries out.

        Args:
            tensordict: is not changed.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of those.

        Args:
            output_spec: a composite.
        """
        kept = {"full_reward_spec": self.keep_rewards, "full_done_spec": self.keep_dones}
        for name in _OUTPUTS:
            group = output_spec[name]
            if not kept.get(name):
                chosen = [as_tuple(key) for key in self.selected_keys]
                for key in list(group.keys(True, True)):
                    path = as_tuple(key)
                    if not any(path[: len(each)] == each for each in chosen):
                        del group[key]
                output_spec[name] = group
        return output_spec


def _checked(keys: Any, name: str) -> list[NestedKey]:
    try:
        checked = [key_list([key])[0] for key in keys]  # type: ignore[index]
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return checked


def _drop_empty(spec: Any) -> None:
    """Remove composites in a composite that have nothing in them."""
    for key, each in list(spec.items()):
        if isinstance(each, Composite):
            _drop_empty(each)
            if not list(each.keys()):
                del spec[key]


class RemoveEmptySpecs(Transform):
    """Without composites and tensordicts that have nothing in them."""

    @staticmethod
    def _has_empty(spec: Any) -> bool:
        return any(
            isinstance(each, Composite) and (not list(each.keys()) or RemoveEmptySpecs._has_empty(each))
            for each in spec.values()
        )

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs without empty ones.

        Args:
            output_spec: a composite.
        """
        for name in _OUTPUTS:
            _drop_empty(output_spec[name])
        return output_spec

    def transform_input_spec(self, input_spec: Any) -> Any:
        """The specs without empty ones.

        Args:
            input_spec: a composite.
        """
        for name in _INPUTS:
            _drop_empty(input_spec[name])
        return input_spec

    def _inv_call(self, tensordict: Any) -> Any:
        # What was left out has to be there again, empty, for environments that look for it.
        parent = self.parent
        if parent is not None:
            for spec in (parent.full_action_spec, parent.full_state_spec):
                for key, each in spec.items(True):
                    empty = isinstance(each, Composite) and not list(each.keys(True, True))
                    if empty and tensordict.get(key, None) is None:
                        tensordict.set(key, each.zero())
        return tensordict

    def _call(self, next_tensordict: Any) -> Any:
        _drop_empty_entries(next_tensordict)
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def forward(self, tensordict: Any) -> Any:
        """Remove empty entries.

        Args:
            tensordict: changed in place.
        """
        return self._call(tensordict)


def _drop_empty_entries(tensordict: Any) -> None:
    from flambeau.data.tensordict import TensorDictBase

    for key, value in list(tensordict.items()):
        if isinstance(value, TensorDictBase):
            _drop_empty_entries(value)
            if not list(value.keys()):
                tensordict.del_(key)


class FlattenTensorDict(Transform):
    """All batch dimensions of data as one, for data that go into a buffer, or come out of it.

    Args:
        inverse: on the way in; otherwise on the way out.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> FlattenTensorDict().inv(TensorDict({}, [2, 3])).batch_size
        torch.Size([6])
    """

    def __init__(self, inverse: bool = True) -> None:
        super().__init__()
        self.inverse = inverse

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: a `Compose` or a replay buffer.

        Raises:
            RuntimeError: an environment.
        """
        from flambeau.rl.envs.common import EnvBase

        owner = container.container if isinstance(container, Transform) else container
        if isinstance(owner, EnvBase):
            raise RuntimeError(
                "FlattenTensorDict is for data of replay buffers; BatchSizeTransform changes the batch size of "
                "environments."
            )
        super().set_container(container)

    def _flat(self, tensordict: Any) -> Any:
        return tensordict.reshape(-1)

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict if self.inverse else self._flat(next_tensordict)

    def forward(self, tensordict: Any) -> Any:
        """Data as they come out.

        Args:
            tensordict: is not changed.
        """
        return self._call(tensordict)

    def _inv_call(self, tensordict: Any) -> Any:
        return self._flat(tensordict) if self.inverse else tensordict

    def inv(self, tensordict: Any) -> Any:
        """Data as they go in.

        Args:
            tensordict: is not changed.
        """
        return self._inv_call(tensordict)
