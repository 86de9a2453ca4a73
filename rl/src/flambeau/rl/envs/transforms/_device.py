"""Casts of dtypes and devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform, key_list, tolerating_missing

__all__ = ["DTypeCastTransform", "DeviceCastTransform", "DoubleToFloat"]


class DTypeCastTransform(Transform):
    """From one dtype to another on the way out, and back on the way in.

    Args:
        dtype_in: of the environment, or of what a buffer stores.
        dtype_out: of what is seen from outside.
        in_keys: of what is cast; default: all observations and rewards of dtype `dtype_in`; outside environments
            everything of this dtype.
        out_keys: default: `in_keys`.
        in_keys_inv: of actions and states that are cast back; default: all of dtype `dtype_in`; none where `in_keys`
            are given.
        out_keys_inv: default: `in_keys_inv`.
    """

    invertible = True
    _over_time = True

    def __init__(
        self,
        dtype_in: torch.dtype,
        dtype_out: torch.dtype,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        self.dtype_in = dtype_in
        self.dtype_out = dtype_out
        if in_keys is not None and in_keys_inv is None:
            in_keys_inv = []
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)

    # Keys

    def _found(self, groups: tuple[str, ...], given: str) -> list[NestedKey] | None:
        """Keys of the environment's specs of `dtype_in`; None outside environments."""
        cache = self.__dict__.setdefault("_found_keys", {})
        if given not in cache:
            parent = self.parent
            if parent is None:
                return None
            cache[given] = [
                key
                for group in groups
                for key, spec in getattr(parent, group).items(True, True)
                if spec is not None and spec.dtype == self.dtype_in
            ]
        found: list[NestedKey] = cache[given]
        return found

    def empty_cache(self) -> None:
        """Forget what was found out about the environment."""
        super().empty_cache()
        self.__dict__.pop("_found_keys", None)

    def reset_parent(self) -> None:
        """Take the transform out of what it is part of."""
        super().reset_parent()
        self.__dict__.pop("_found_keys", None)

    def clone(self) -> Any:
        """The same transform, as part of nothing."""
        twin = super().clone()
        twin.__dict__.pop("_found_keys", None)
        return twin

    @property
    def in_keys(self) -> Any:
        """Keys of what is cast; None for everything of the dtype."""
        keys = self.__dict__.get("_in_keys")
        return self._found(("full_observation_spec", "full_reward_spec"), "in") if keys is None else keys

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        self.__dict__["_in_keys"] = key_list(value)

    @property
    def out_keys(self) -> Any:
        """Keys of the cast values."""
        keys = self.__dict__.get("_out_keys")
        return self.in_keys if keys is None else keys

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        self.__dict__["_out_keys"] = key_list(value)

    @property
    def in_keys_inv(self) -> Any:
        """Keys of what is cast back; None for everything of the dtype."""
        keys = self.__dict__.get("_in_keys_inv")
        if keys is not None:
            return keys
        return self._found(("full_action_spec", "full_state_spec"), "inv")

    @in_keys_inv.setter
    def in_keys_inv(self, value: Any) -> None:
        self.__dict__["_in_keys_inv"] = key_list(value)

    @property
    def out_keys_inv(self) -> Any:
        """Keys where what is cast back stands outside."""
        keys = self.__dict__.get("_out_keys_inv")
        return self.in_keys_inv if keys is None else keys

    @out_keys_inv.setter
    def out_keys_inv(self, value: Any) -> None:
        self.__dict__["_out_keys_inv"] = key_list(value)

    # Data

    def _apply_transform(self, obs: Any) -> Any:
        return obs.to(self.dtype_out)

    def _inv_apply_transform(self, state: Any) -> Any:
        return state.to(self.dtype_in)

    @dispatch(source="in_keys", dest="out_keys")  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any = None) -> Any:
        """Cast data.

        Args:
            tensordict: changed in place.
        """
        if self.in_keys is not None:
            return self._call(tensordict)
        return self._cast_all(tensordict, self.dtype_in, self.dtype_out)

    def _inv_call(self, tensordict: Any) -> Any:
        if self.in_keys_inv is not None:
            return super()._inv_call(tensordict)
        return self._cast_all(tensordict, self.dtype_out, self.dtype_in)

    @staticmethod
    def _cast_all(tensordict: TensorDictBase, source: torch.dtype, target: torch.dtype) -> TensorDictBase:
        for key, value in list(tensordict.items(True, True)):
            if isinstance(value, torch.Tensor) and value.dtype == source:
                tensordict.set(key, value.to(target))
        return tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)

    # Specs

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The same specs with the other dtype.

        Args:
            output_spec: a composite.
        """
        for name in ("full_observation_spec", "full_reward_spec"):
            group = output_spec[name]
            known = set(group.keys(True, True))
            for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
                if in_key in known:
                    group[out_key] = group[in_key].to(self.dtype_out)
            output_spec[name] = group
        return output_spec

    def transform_input_spec(self, input_spec: Any) -> Any:
        """The same specs with the other dtype.

        Args:
            input_spec: a composite.
        """
        for name in ("full_action_spec", "full_state_spec"):
            group = input_spec[name]
            known = set(group.keys(True, True))
            for in_key, out_key in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
                if in_key in known:
                    spec = group[in_key]
                    if out_key != in_key:
                        del group[in_key]
                    group[out_key] = spec.to(self.dtype_out)
            input_spec[name] = group
        return input_spec

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The same specs with the other dtype.

        Args:
            observation_spec: a composite, or of one observation.
        """
        if not isinstance(observation_spec, Composite):
            return observation_spec.to(self.dtype_out) if observation_spec.dtype == self.dtype_in else observation_spec
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            if in_key in observation_spec.keys(True, True):
                observation_spec[out_key] = observation_spec[in_key].to(self.dtype_out)
        return observation_spec

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(in_keys={self.in_keys}, out_keys={self.out_keys}, "
            f"in_keys_inv={self.in_keys_inv}, out_keys_inv={self.out_keys_inv})"
        )


class DoubleToFloat(DTypeCastTransform):
    """From float64 to float32 on the way out, and back on the way in.

    Args:
        in_keys: as for `DTypeCastTransform`.
        out_keys: as for `DTypeCastTransform`.
        in_keys_inv: as for `DTypeCastTransform`.
        out_keys_inv: as for `DTypeCastTransform`.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> DoubleToFloat()(TensorDict({"x": torch.zeros(2, dtype=torch.float64)}))["x"].dtype
        torch.float32
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(torch.float64, torch.float32, in_keys, out_keys, in_keys_inv, out_keys_inv)


class DeviceCastTransform(Transform):
    """From one device to another on the way out, and back on the way in.

    Args:
        device: of what is seen from outside.
        orig_device: of the environment, or of what a buffer stores; default: the environment's.
        in_keys: of what is moved; default: everything, and the device is the environment's as seen from outside.
        out_keys: default: `in_keys`.
        in_keys_inv: of what is moved back; default: everything.
        out_keys_inv: default: `in_keys_inv`.

    Raises:
        ValueError: keys of one way only.
    """

    invertible = True
    _over_time = True

    def __init__(
        self,
        device: Any,
        orig_device: Any = None,
        *,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.orig_device = None if orig_device is None else torch.device(orig_device)
        keyed = in_keys is not None or in_keys_inv is not None or out_keys is not None or out_keys_inv is not None
        in_keys = [] if in_keys is None else in_keys
        in_keys_inv = [] if in_keys_inv is None else in_keys_inv
        super().__init__(
            in_keys,
            list(in_keys) if out_keys is None else out_keys,
            in_keys_inv,
            list(in_keys_inv) if out_keys_inv is None else out_keys_inv,
        )
        self._keyed = keyed
        self._map_env_device = not keyed

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: a `Compose`, a `TransformedEnv` or a replay buffer.
        """
        super().set_container(container)
        if self.orig_device is None:
            parent = self.parent
            if parent is not None and parent.device is not None:
                self.orig_device = parent.device

    def _apply_transform(self, obs: Any) -> Any:
        return obs.to(self.device, non_blocking=True)

    def _inv_apply_transform(self, state: Any) -> Any:
        return state if self.orig_device is None else state.to(self.orig_device, non_blocking=True)

    def _call(self, next_tensordict: Any) -> Any:
        if self._keyed:
            # Its entries may be on several devices now.
            next_tensordict.clear_device_()
            with tolerating_missing(self):
                return super()._call(next_tensordict)
        return next_tensordict.to(self.device, non_blocking=True)

    @dispatch(source="in_keys", dest="out_keys")  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any = None) -> Any:
        """Move data.

        Args:
            tensordict: moved as a whole, or changed in place where there are `in_keys`.
        """
        return self._call(tensordict)

    def _inv_call(self, tensordict: Any) -> Any:
        if self._keyed:
            return super()._inv_call(tensordict)
        if self.orig_device is None:
            return tensordict if self.parent is None else tensordict.clear_device_()
        return tensordict.to(self.orig_device, non_blocking=True)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        if tensordict is None:
            return None
        with tolerating_missing(self):
            return self._inv_call(tensordict.copy())

    def transform_env_device(self, device: Any) -> Any:
        """The device outside.

        Args:
            device: inside; None of what is moved by keys, whose environment has several.
        """
        return self.device if self._map_env_device else None

    def _moved(self, spec: Any, in_keys: Any, out_keys: Any, inverse: bool = False) -> Any:
        if not self._keyed:
            return spec.to(self.device)
        spec = spec.clone().clear_device_()
        known = set(spec.keys(True, True))
        for in_key, out_key in zip(in_keys, out_keys, strict=True):
            if in_key in known:
                each = spec[in_key]
                if inverse and in_key != out_key:
                    del spec[in_key]
                spec[out_key] = each.to(self.device)
        return spec

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The same specs on the other device.

        Args:
            observation_spec: a composite.
        """
        return self._moved(observation_spec, self.in_keys, self.out_keys)

    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """The same specs on the other device.

        Args:
            reward_spec: a composite.
        """
        return self._moved(reward_spec, self.in_keys, self.out_keys)

    def transform_done_spec(self, done_spec: Any) -> Any:
        """The same specs on the other device.

        Args:
            done_spec: a composite.
        """
        return self._moved(done_spec, self.in_keys, self.out_keys)

    def transform_action_spec(self, action_spec: Any) -> Any:
        """The same specs on the other device.

        Args:
            action_spec: a composite.
        """
        return self._moved(action_spec, self.in_keys_inv, self.out_keys_inv, inverse=True)

    def transform_state_spec(self, state_spec: Any) -> Any:
        """The same specs on the other device.

        Args:
            state_spec: a composite.
        """
        return self._moved(state_spec, self.in_keys_inv, self.out_keys_inv, inverse=True)

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The same specs on the other device.

        Args:
            output_spec: a composite.
        """
        return super().transform_output_spec(self._without_device(output_spec))

    def transform_input_spec(self, input_spec: Any) -> Any:
        """The same specs on the other device.

        Args:
            input_spec: a composite.
        """
        return super().transform_input_spec(self._without_device(input_spec))

    def _without_device(self, group: Any) -> Any:
        return group.clear_device_() if self._keyed else group.to(self.device)

    def __repr__(self) -> str:
        parts = f"{type(self).__name__}(device={self.device}, orig_device={self.orig_device}"
        if self._keyed:
            parts += (
                f", in_keys={self.in_keys}, out_keys={self.out_keys}, in_keys_inv={self.in_keys_inv}, "
                f"out_keys_inv={self.out_keys_inv}"
            )
        return parts + ")"
