"""Values that an environment knows nothing of, but a policy needs from the first step on: recurrent states, noise."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Size

from flambeau.data.tensordict import TensorDict, TensorDictBase, is_tensor_collection
from flambeau.rl.data.tensor_specs import Composite, TensorSpec, Unbounded
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms._reset_keys import outer_reset_keys

__all__ = ["TensorDictPrimer", "gSDENoise"]


class TensorDictPrimer(Transform):
    """First values of further entries, such as recurrent states: set at resets, and kept unless a policy changes them.

    Args:
        primers: key -> spec, or a composite.
        random: draw first values from the specs; default: `default_value`.
        default_value: a number, or a function that makes the value; one for all keys, or key -> such. A function is
            called without arguments, or with `reset=mask` where it takes that.
        reset_key: of the mask that says where values are set anew; default: the environment's.
        expand_specs: True if the specs lack the environment's batch size, False if they have it; default: they lack
            it, unless the composite has it as its shape.
        single_default_value: `default_value` is one function, called with `reset=mask`, that gives all entries in a
            tensordict or dictionary.
        call_before_env_reset: set the values in what the environment is reset with, too.
        kwargs: key -> spec, instead of `primers`.

    Raises:
        ValueError: no specs, or what is none; or `random` and values at once; or values for other keys.

    Example:
        >>> from flambeau.rl.data import Unbounded
        >>> from flambeau.rl.envs import PendulumEnv
        >>> from flambeau.rl.envs.transforms import TransformedEnv
        >>> TransformedEnv(PendulumEnv(), TensorDictPrimer(hidden=Unbounded(4), default_value=1.0)).reset()["hidden"]
        tensor([1., 1., 1., 1.])
    """

    def __init__(
        self,
        primers: dict[NestedKey, TensorSpec] | Composite | None = None,
        random: bool | None = None,
        default_value: float | Callable[..., Any] | dict[Any, Any] | None = None,
        reset_key: NestedKey | None = None,
        expand_specs: bool | None = None,
        single_default_value: bool = False,
        call_before_env_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        device = kwargs.pop("device", None)
        if primers is not None:
            if kwargs:
                raise RuntimeError(
                    f"Give specs either by `primers` or by keyword, not both; got {sorted(kwargs)} besides `primers`."
                )
            kwargs = primers  # type: ignore[assignment]
        if not isinstance(kwargs, Composite):
            if not isinstance(kwargs, dict):
                raise ValueError(f"primers are specs by key, or a Composite; got {type(kwargs).__name__}.")
            for key, spec in kwargs.items():
                if not isinstance(spec, TensorSpec):
                    raise ValueError(f"The primer {key!r} is no spec, but has type {type(spec).__name__}.")
            kwargs = Composite(kwargs)  # type: ignore[assignment]
        if random and default_value is not None:
            raise ValueError("random=True draws the first values from the specs; leave default_value out.")
        super().__init__()
        self.device_of_primers = device
        given: Any = kwargs
        self.primers: Any = given if device is None else given.to(device)
        self.random = random
        self.expand_specs = expand_specs
        self.call_before_env_reset = call_before_env_reset
        self.single_default_value = single_default_value and callable(default_value)
        self.default_value = self._values(default_value)
        self.__dict__["_reset_key"] = reset_key

    def _values(self, default_value: Any) -> Any:
        if self.single_default_value:
            return default_value
        keys = list(self.primers.keys(True, True))
        if isinstance(default_value, dict) or is_tensor_collection(default_value):
            given = dict(
                TensorDict(default_value).items(True, True) if _nested(default_value) else default_value.items()
            )
            if set(given) != set(keys):
                raise ValueError(f"default_value has the keys {sorted(given, key=str)}; the primers have {keys}.")
            return given
        return dict.fromkeys(keys, 0.0 if default_value is None else default_value)

    @property
    def reset_key(self) -> NestedKey:
        """Key of the mask that says where values are set anew.

        Raises:
            RuntimeError: the environment has several; one must be chosen.
        """
        key: NestedKey | None = self.__dict__["_reset_key"]
        if key is None:
            known = ["_reset"] if self.parent is None else outer_reset_keys(self.parent)
            if len(known) > 1:
                raise RuntimeError(f"The environment has several reset keys, {known}; choose one by reset_key=.")
            return known[0]
        return key

    @reset_key.setter
    def reset_key(self, value: NestedKey | None) -> None:
        self.__dict__["_reset_key"] = value

    @property
    def device(self) -> Any:
        """The device of the values: the environment's, unless another was chosen."""
        if self.device_of_primers is None and self.parent is not None:
            return self.parent.device
        return self.device_of_primers

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Make the values on another device."""
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        if device is not None:
            self.device_of_primers = device
            self.primers = self.primers.to(device)
        return super().to(*args, **kwargs)

    # Specs

    def _expanded(self, shape: Size) -> Any:
        """The specs with a batch size."""
        specs = self.primers
        fits = specs.shape[: len(shape)] == shape
        if self.expand_specs is False:
            if specs.shape != shape:
                specs = specs.clone()
                specs.shape = shape
        elif not fits:
            if self.expand_specs is None and self._may_have(shape):
                raise RuntimeError(
                    f"The primers have the batch size {tuple(specs.shape)}, the environment {tuple(shape)}, and the "
                    "shapes of their specs begin with it. Give expand_specs=False if that is the batch, or True if it "
                    "is to be put before."
                )
            specs = specs.expand((*shape, *specs.shape))
        return specs.to(self.device) if self.device is not None else specs

    def _may_have(self, shape: Size) -> bool:
        return all(spec.shape[: len(shape)] == shape for spec in self.primers.values(True, True))

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """The values are observations.

        Args:
            observation_spec: a composite.

        Raises:
            ValueError: it is no composite.
            RuntimeError: the specs may have the environment's batch size, or not.
        """
        if not isinstance(observation_spec, Composite):
            raise ValueError(f"Primers need a composite of observations; got {type(observation_spec).__name__}.")
        observation_spec.update(self._expanded(observation_spec.shape).clone())
        return observation_spec

    def transform_input_spec(self, input_spec: TensorSpec) -> TensorSpec:
        """The values are part of the state.

        Args:
            input_spec: a composite.
        """
        state: Any = input_spec["full_state_spec"]
        state.update(self._expanded(state.shape).clone())
        input_spec["full_state_spec"] = state  # type: ignore[index]
        return input_spec

    # Values

    def _batch(self, batch_size: Size) -> Size:
        """The batch size of an environment that is not locked to one."""
        parent = self.parent
        return batch_size if parent is not None and not parent.batch_locked and not parent.batch_size else Size(())

    def _specs_for(self, batch_size: Size) -> Any:
        parent = self.parent
        if parent is None:
            if self.expand_specs:
                return self._expanded(batch_size)
            for key, spec in self.primers.items(True, True):
                if spec.shape[: len(batch_size)] != batch_size:
                    raise RuntimeError(
                        f"The spec of the primer {key!r} has shape {tuple(spec.shape)}, which does not begin with the "
                        f"tensordict's batch size {tuple(batch_size)}; expand_specs=True puts it before."
                    )
            return self.primers
        return self._expanded(parent.batch_size)

    def _first_values(self, batch_size: Size, mask: Any) -> dict[NestedKey, Any]:
        """A value for each key."""
        if self.single_default_value:
            made = self.default_value(reset=mask)
            made = made if is_tensor_collection(made) else TensorDict(made, [])
            return {key: made.get(key) for key in self.primers.keys(True, True)}
        extra = self._batch(batch_size)
        values: dict[NestedKey, Any] = {}
        for key, spec in self._specs_for(batch_size).items(True, True):
            if self.random:
                values[key] = spec.rand(extra)
                continue
            default = self.default_value[key]
            if callable(default):
                value = default(reset=mask) if _takes_reset(default) else default()
                shape = Size((*extra, *spec.shape))
                values[key] = value.expand(shape) if isinstance(value, torch.Tensor) and value.shape != shape else value
            else:
                values[key] = torch.full_like(spec.zero(extra), default) if default else spec.zero(extra)
        return values

    def forward(self, tensordict: TensorDictBase) -> Any:
        """Write first values into a tensordict, where it has none.

        Args:
            tensordict: changed in place.
        """
        if self.single_default_value and callable(self.default_value):
            tensordict.update(TensorDict(self._first_values(tensordict.batch_size, None)))
            return tensordict
        for key, value in self._first_values(tensordict.batch_size, None).items():
            tensordict.set(key, value)
        return tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        for key in self.primers.keys(True, True):
            if next_tensordict.get(key, None) is None:
                value = tensordict.get(key, None)
                if value is not None:
                    next_tensordict.set(key, value)
        return next_tensordict

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        if not self.call_before_env_reset:
            return tensordict
        if tensordict is None:
            parent = self.parent
            tensordict = TensorDict({}, parent.batch_size, device=parent.device)
        return self._primed(tensordict, tensordict.copy())

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        if self.call_before_env_reset:
            for key in self.primers.keys(True, True):
                if tensordict_reset.get(key, None) is None and tensordict.get(key, None) is not None:
                    tensordict_reset.set(key, tensordict.get(key))
        return self._primed(tensordict, tensordict_reset)

    def _primed(self, tensordict: Any, into: Any) -> Any:
        mask = tensordict.get(self.reset_key, None)
        if mask is not None and not mask.any():
            for key in self.primers.keys(True, True):
                if tensordict.get(key, None) is not None:
                    into.set(key, tensordict.get(key))
            return into
        for key, value in self._first_values(into.batch_size, mask).items():
            if into.get(key, None) is not None and (mask is None or self.call_before_env_reset):
                # What the environment gives counts more than what was to stand for it.
                continue
            old = None if mask is None or mask.all() else tensordict.get(key, None)
            if old is not None:
                value = torch.where(spread(mask, old), value, old)  # the value is the same, in part
            into.set(key, value)
        return into

    def __repr__(self) -> str:
        values = self.default_value
        if isinstance(values, dict):
            values = {key: value if isinstance(value, float) else "Callable" for key, value in values.items()}
        return f"{type(self).__name__}(primers={self.primers}, default_value={values}, random={self.random})"


def _nested(values: Any) -> bool:
    return any(isinstance(value, dict) or is_tensor_collection(value) for value in values.values())


def _takes_reset(function: Callable[..., Any]) -> bool:
    try:
        return "reset" in inspect.signature(function).parameters
    except ValueError:  # of built-in functions
        return False


class gSDENoise(TensorDictPrimer):  # upstream's name
    """The noise of state-dependent exploration, drawn anew at resets, at the key "_eps_gSDE".

    Args:
        state_dim: size of the features that the noise is multiplied with.
        action_dim: size of actions.
        shape: the environment's batch size, which is put before; default: ().
        kwargs: as for `TensorDictPrimer`.

    References:
        A. Raffin, J. Kober, F. Stulp, Smooth Exploration for Robotic Reinforcement Learning, arXiv:2005.05719.
    """

    def __init__(
        self, state_dim: int | None = None, action_dim: int | None = None, shape: Any = None, **kwargs: Any
    ) -> None:
        # Without sizes the modules that use the noise draw it in theirs.
        drawn = state_dim is not None and action_dim is not None
        size = Size(() if shape is None else shape)
        feature = (action_dim, state_dim) if drawn else (1,)
        primers = Composite({"_eps_gSDE": Unbounded(shape=(*size, *feature))}, shape=size)
        super().__init__(primers=primers, **({"random": drawn} | kwargs))
        self.state_dim = state_dim
        self.action_dim = action_dim
