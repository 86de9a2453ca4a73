"""`VecNormV2`: values normalized by running means and deviations."""

from __future__ import annotations

import multiprocessing.context
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.replay_buffers._process_lock import ProcessLock
from flambeau.rl.data.tensor_specs import Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey, as_key, as_tuple
from flambeau.rl.envs.transforms._base.transform import Transform, tolerating_missing
from flambeau.rl.envs.transforms._normalization.observation_norm import denormalized, normalizing
from flambeau.rl.envs.transforms._observation.spec_mapping import unbounded

__all__ = ["VecNormV2"]

_PARTS = ("loc", "var", "count")


class VecNormV2(Transform):
    """Observations and rewards normalized by running estimates of their means and standard deviations.

    With decay d < 1 the estimates after t values x are exponential averages a_t(x) = d a_{t-1}(x) + (1 - d) x,
    corrected for their beginning at 0:

        loc = a_t(x) / (1 - d^t)    scale = sqrt((a_t(x^2) - a_t(x)^2) / (1 - d^t))

    and with d = 1 they are mean and standard deviation of all values.

    Processes that get this transform from the one that began them share the estimates, once there are any.

    Args:
        in_keys: of observations and rewards.
        out_keys: where to write them; default: `in_keys`.
        lock: held while shared estimates are updated; default: a lock of its own, once they are shared.
        stateful: keep the estimates here; otherwise they are part of the data, as "_vecnorm_loc", "_vecnorm_var" and
            "_vecnorm_count".
        decay: d, in (0, 1].
        eps: the least scale.
        shared_data: a tensordict with estimates below "loc", "var" and "count", which is updated.
        reduce_batch_dims: take the entries of a batch as values of the same distribution, with one estimate for all.

    Raises:
        RuntimeError: `reduce_batch_dims` or `shared_data` without `stateful`.
        ValueError: `in_keys` and `out_keys` differ in number, or `decay` or `eps` is out of its range.
    """

    SEP = ".-|-."

    initialized: Tensor

    def __init__(
        self, in_keys: Sequence[NestedKey], out_keys: Sequence[NestedKey] | None = None, *, lock: Any = None,
        stateful: bool = True, decay: float = 0.9999, eps: float = 1e-4, shared_data: Any = None,
        reduce_batch_dims: bool = False,
    ) -> None:  # fmt: skip
        self.__dict__["stateful"] = stateful
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        if len(self._values) != len(self.out_keys):
            raise ValueError(f"VecNormV2 has {len(self._values)} in_keys and {len(self.out_keys)} out_keys.")
        if not 0 < decay <= 1:
            raise ValueError(f"VecNormV2: decay is {decay}, expected more than 0 and at most 1.")
        if eps <= 0:
            raise ValueError(f"VecNormV2: eps is {eps}, expected a positive number.")
        if not stateful and (reduce_batch_dims or shared_data is not None):
            raise RuntimeError(
                "VecNormV2 with stateful=False keeps estimates in the data, entry by entry: it has none to share or to "
                "take over a batch. Leave out shared_data and reduce_batch_dims."
            )
        self.decay, self.eps, self.reduce_batch_dims = decay, eps, reduce_batch_dims
        self.lock = lock
        self.frozen = False
        self._loc: Any = None
        self._var: Any = None
        self._count: Any = None
        if stateful:
            self.register_buffer("initialized", torch.tensor(False))
        if shared_data is not None:
            self._take(*(shared_data.get(part) for part in _PARTS))

    @property
    def in_keys(self) -> Any:
        """Keys that are read: of the values, and of estimates that are part of the data."""
        if self.stateful:
            return self._values
        return [*self._values, *(f"{self.prefix}_{part}" for part in ("count", "loc", "var"))]

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        Transform.in_keys.fset(self, value)  # type: ignore[attr-defined]

    @property
    def _values(self) -> list[NestedKey]:
        return self._keys_at("_in_keys")

    @property
    def prefix(self) -> str:
        """What keys of estimates begin with, where they are part of the data."""
        return "_vecnorm"

    def _pairs(self) -> Any:
        return zip(self._values, self.out_keys, strict=True)

    # Data

    def _call(self, next_tensordict: Any) -> Any:
        return self._step(None, next_tensordict)

    def forward(self, tensordict: Any) -> Any:
        """Normalize any data, whose values count for the estimates unless these are frozen.

        Args:
            tensordict: changed in place.

        Raises:
            KeyError: it lacks one of the values.
        """
        return self._step(tensordict, tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._step(tensordict, tensordict_reset)

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        with self._held():
            for in_key, out_key in self._pairs():
                value = next_tensordict.get(in_key, None)
                if value is None:
                    # Resets give no rewards; anything else is missed at once.
                    if not self._missing_tolerance or not self._is_reward(in_key):
                        raise self._missing(in_key, next_tensordict)
                    continue
                if self.stateful:
                    normalized = self._normalized(in_key, value, next_tensordict.batch_size)
                else:
                    normalized = self._with_its_estimates(in_key, value, tensordict, next_tensordict)
                next_tensordict.set(out_key, normalized)
        return next_tensordict

    def _is_reward(self, key: NestedKey) -> bool:
        parent = self.parent
        return parent is None or key in parent.reward_keys

    def _held(self) -> Any:
        return nullcontext() if self.lock is None or self.frozen else self.lock

    def _normalized(self, key: NestedKey, value: Tensor, batch_size: torch.Size) -> Tensor:
        batch = len(batch_size) if self.reduce_batch_dims else 0
        estimates = self._estimates(key, value, batch, batch_size)
        if not self.frozen:
            self._update(estimates, value, batch)
        loc, scale = self._corrected(*estimates)
        return (value - loc) / scale

    def _estimates(self, key: NestedKey, value: Tensor, batch: int, batch_size: torch.Size) -> tuple[Tensor, ...]:
        """The estimates of a value, which are 0 before the first."""
        known: dict[Any, tuple[Tensor, ...]] = self.__dict__.setdefault("_by_key", {})
        found = known.get(key)
        if found is None:
            if self._loc is None:
                size = batch_size[batch:]
                self._take(TensorDict({}, size), TensorDict({}, size), TensorDict({}, []))
            if self._loc.get(key, None) is None:
                dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
                zeros = torch.zeros(value.shape[batch:], dtype=dtype, device=value.device)
                self._loc.set(key, zeros)
                self._var.set(key, zeros.clone())
                self._count.set(key, torch.zeros((), dtype=torch.int64, device=value.device))
            found = known[key] = tuple(each.get(key) for each in (self._loc, self._var, self._count))
        return found

    def _update(self, estimates: tuple[Tensor, ...], value: Tensor, batch: int) -> None:
        """Let a value, or a batch of them, count."""
        loc, var, count = estimates
        value = value.detach().to(loc.dtype)
        square = value.square()
        number = 1
        if batch:
            number = value.shape[:batch].numel()
            dims = tuple(range(batch))
            value, square = value.mean(dims), square.mean(dims)
        count += number
        weight = 1 - self.decay**number if self.decay < 1 else number / int(count)
        loc.lerp_(value, weight)
        var.lerp_(square, weight)

    def _corrected(self, loc: Tensor, var: Tensor, count: Tensor | int) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation, without the zeros that averages begin with."""
        variance = var - loc.square()
        if self.decay < 1:
            # In double precision: 1 - d^t cancels most digits while t is small.
            if isinstance(count, Tensor) and count.ndim:
                seen: Any = (1 - self.decay ** count.double()).to(loc.dtype)
            else:
                seen = 1 - self.decay ** int(count)
            loc, variance = loc / seen, variance / seen
        return loc, variance.clamp_min(self.eps**2).sqrt()

    def _with_its_estimates(self, key: NestedKey, value: Tensor, before: Any, after: Any) -> Tensor:
        """Normalize a value by estimates that are part of the data, and write them where they stand after it."""
        keys = [as_key((f"{self.prefix}_{part}", *as_tuple(key))) for part in _PARTS]
        old = [None if before is None else before.get(each, None) for each in keys]
        if any(each is None for each in old):
            zeros = torch.zeros_like(value, dtype=value.dtype if value.is_floating_point() else None)
            loc, var, count = zeros, zeros, torch.zeros_like(value, dtype=torch.int64)
        else:
            loc, var, count = old  # type: ignore[assignment]
        if not self.frozen:
            count = count + 1
            weight = 1 - self.decay if self.decay < 1 else 1 / count.to(value.dtype)
            loc, var = torch.lerp(loc, value, weight), torch.lerp(var, value.square(), weight)
        for name, part in zip(_PARTS, (loc, var, count), strict=True):
            place = f"{self.prefix}_{name}"
            parts = after.get(place, None)
            if parts is None:
                # Batch sizes below it are those of the values.
                parts = after.select(*self._values, strict=False).empty(recurse=True)
            after.set(place, parts.set(key, part))
        mean, scale = self._corrected(loc, var, count)
        return (value - mean) / scale

    # Estimates

    def _take(self, loc: Any, var: Any, count: Any) -> None:
        """Go on from given estimates, in their memory."""
        self._loc, self._var, self._count = loc, var, count
        self.__dict__["_by_key"] = {}
        self.initialized.fill_(True)

    def _known(self, name: str) -> Any:
        if not self.stateful:
            raise RuntimeError(f"VecNormV2 with stateful=False has no {name}: estimates are part of the data.")
        if self._loc is None:
            raise RuntimeError(f"VecNormV2 has no {name} yet: it has seen no data.")
        out = self._loc.empty()
        for key, loc in self._loc.items(True, True):
            out.set(key, self._corrected(loc, self._var.get(key), self._count.get(key))[0 if name == "loc" else 1])
        return out

    @property
    def loc(self) -> Any:
        """The means, as a tensordict.

        Raises:
            RuntimeError: estimates are part of the data, or there are none.
        """
        return self._known("loc")

    @property
    def scale(self) -> Any:
        """The standard deviations, as a tensordict.

        Raises:
            RuntimeError: estimates are part of the data, or there are none.
        """
        return self._known("scale")

    @property
    def standard_normal(self) -> bool:
        """True: means are subtracted, and deviations divided by."""
        return True

    def freeze(self) -> Self:
        """Normalize by the estimates as they are, from now on."""
        self.frozen = True
        return self

    def unfreeze(self) -> Self:
        """Let values count again."""
        self.frozen = False
        return self

    def frozen_copy(self) -> Self:
        """A copy with the estimates as they are, which stay so.

        Raises:
            RuntimeError: estimates are part of the data, or there are none.
        """
        if not self.stateful:
            raise RuntimeError("VecNormV2 with stateful=False keeps no estimates that a copy could have.")
        if self._loc is None:
            raise RuntimeError("VecNormV2 has seen no data; there is nothing to freeze.")
        return self.clone().freeze()

    def clone(self) -> Self:
        """A copy with estimates of its own, as part of nothing."""
        twin: Any = super().clone()
        twin.__dict__["_buffers"] = {name: value.clone() for name, value in self._buffers.items() if value is not None}
        twin.__dict__["_by_key"] = {}
        for part in _PARTS:
            value = getattr(self, f"_{part}")
            setattr(twin, f"_{part}", None if value is None else value.clone())
        return twin  # type: ignore[no-any-return]

    def denorm(self, tensordict: Any) -> Any:
        """Values as they were, from normalized ones.

        Args:
            tensordict: with values at `out_keys`; is changed: values are written to `in_keys`.
        """
        return denormalized(self, tensordict)

    def to_observation_norm(self) -> Any:
        """An `ObservationNorm` by the estimates as they are; a `Compose` where there are several keys."""
        return normalizing(self._pairs(), self.loc, self.scale)

    # Specs

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of normalized values, and of estimates that are part of the data.

        Args:
            output_spec: of observations, rewards and ends.
        """
        observations = output_spec["full_observation_spec"]
        output_spec["full_reward_spec"] = self.transform_reward_spec(output_spec["full_reward_spec"], observations)
        output_spec["full_observation_spec"] = self.transform_observation_spec(observations)
        return output_spec

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of normalized observations.

        Args:
            observation_spec: a composite.
        """
        return self._with_estimates(observation_spec, observation_spec)

    def transform_reward_spec(self, reward_spec: Any, observation_spec: Any = None) -> Any:
        """The specs of normalized rewards.

        Args:
            reward_spec: a composite.
            observation_spec: gets the specs of estimates.
        """
        return self._with_estimates(reward_spec, observation_spec)

    def _with_estimates(self, specs: Any, observation_spec: Any) -> Any:
        known = set(specs.keys(True, True))
        for in_key, out_key in self._pairs():
            if in_key not in known:
                continue
            spec = specs[in_key]
            specs[out_key] = unbounded(spec)
            if self.stateful or observation_spec is None:
                continue
            for part in _PARTS:
                kind = torch.int64 if part == "count" else specs[out_key].dtype
                key = as_key((f"{self.prefix}_{part}", *as_tuple(in_key)))
                observation_spec[key] = Unbounded(spec.shape, dtype=kind, device=spec.device)
        return specs

    # State

    def get_extra_state(self) -> dict[str, Any]:
        """The estimates by name."""
        if not self.stateful or self._loc is None:
            return {}
        parts = TensorDict({part: getattr(self, f"_{part}") for part in _PARTS}, [])
        return dict(parts.flatten_keys(self.SEP).items())

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on from estimates by name.

        Args:
            state: as `get_extra_state` gave it.
        """
        if not state:
            return
        parts = TensorDict(dict(state), []).unflatten_keys(self.SEP)
        if self._loc is not None and all(
            each.get(key, None) is not None for part in _PARTS for each in (getattr(self, f"_{part}"),)
            for key in parts.get(part).keys(True, True)
        ):  # fmt: skip
            # In the memory that is there: others may share it.
            for part in _PARTS:
                getattr(self, f"_{part}").update_(parts.get(part))
            return
        self._take(*(parts.get(part).clone() for part in _PARTS))

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self._loc is not None:
            self._take(*(getattr(self, f"_{part}").apply(fn) for part in _PARTS))
        return self

    def share_memory(self) -> Self:
        """Move the estimates to memory that other processes can share, with a lock for their updates."""
        if self.lock is None:
            self.lock = ProcessLock()
        return super().share_memory()

    def __getstate__(self) -> dict[str, Any]:
        if multiprocessing.context.get_spawning_popen() is not None:
            self.share_memory()
        return super().__getstate__() | {"_by_key": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keys={self.in_keys})"
