"""How long steps, resets and the policy take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from flambeau.rl.data.tensor_specs import Composite, TensorSpec, Unbounded
from flambeau.rl.envs._ends import spread
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["Timer"]


class Timer(Transform):
    """Seconds that the last step, the policy before it, and the last reset took.

    Args:
        out_keys: of the times of a step, the policy and a reset; default: `time_key` with "_step", "_policy", "_reset".
        time_key: what default keys begin with.

    Raises:
        TypeError: not three keys, or one is none.
    """

    def __init__(self, out_keys: Sequence[NestedKey] | None = None, time_key: str = "time") -> None:
        if out_keys is None:
            out_keys = [f"{time_key}_step", f"{time_key}_policy", f"{time_key}_reset"]
        elif len(out_keys) != 3:
            raise TypeError(f"Timer writes three times, of a step, the policy and a reset; got the keys {out_keys}.")
        super().__init__([], out_keys)
        self.time_key = time_key
        self._begun: float | None = None
        self._ended: float | None = None

    def _inv_call(self, tensordict: Any) -> Any:
        self._begun = time.perf_counter()
        return tensordict

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        self._begun = time.perf_counter()
        return tensordict

    def _full(self, tensordict: Any, seconds: float) -> torch.Tensor:
        return torch.full(tensordict.batch_size, seconds, dtype=torch.float32, device=tensordict.device)

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        now = time.perf_counter()
        begun = now if self._begun is None else self._begun
        step, policy, reset = self.out_keys
        thought = 0.0 if self._ended is None else begun - self._ended
        next_tensordict.set(step, self._full(next_tensordict, now - begun))
        next_tensordict.set(policy, self._full(next_tensordict, thought))
        next_tensordict.set(reset, self._full(next_tensordict, 0.0))
        self._ended = time.perf_counter()
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        now = time.perf_counter()
        begun = now if self._begun is None else self._begun
        step, policy, reset = self.out_keys
        mask = tensordict.get("_reset", None)
        for key, seconds in ((reset, now - begun), (step, 0.0), (policy, 0.0)):
            value = self._full(tensordict_reset, seconds)
            old = None if mask is None else tensordict.get(key, None)
            if old is not None:
                value = torch.where(spread(mask.reshape(old.shape), old), value, old)
            tensordict_reset.set(key, value)
        self._ended = time.perf_counter()
        return tensordict_reset

    def forward(self, tensordict: Any) -> Any:
        """Refused: nothing takes time.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Timer works in environments only, whose steps and resets it times.")

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """The times are observations.

        Args:
            observation_spec: a composite.

        Raises:
            ValueError: a key is there already.
        """
        spec: Any = observation_spec
        if not isinstance(spec, Composite):
            raise ValueError(f"Timer needs a composite of observations; got {type(spec).__name__}.")
        there = set(spec.keys(True))
        for key in self.out_keys:
            if key in there:
                raise ValueError(f"The environment has an observation {key!r} already; choose other out_keys.")
            spec[key] = Unbounded(spec.shape, dtype=torch.float32, device=spec.device)
        return spec
