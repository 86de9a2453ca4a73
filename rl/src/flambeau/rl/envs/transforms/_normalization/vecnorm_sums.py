"""`VecNorm`: values normalized by running sums."""

from __future__ import annotations

import multiprocessing.context
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Self

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.replay_buffers._process_lock import ProcessLock
from flambeau.rl.envs._keys import NestedKey, as_tuple, with_last
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms._normalization.observation_norm import denormalized, normalizing
from flambeau.rl.envs.transforms._observation.spec_mapping import unbounded
from flambeau.rl.envs.transforms.vecnorm import VecNormV2

__all__ = ["VecNorm"]

_PARTS = ("sum", "ssq", "count")


class VecNorm(Transform):
    """Observations and rewards normalized by mean and standard deviation of those seen so far, in all environments.

    Sums of values, of their squares, and their number, each times the decay before anything is added to it, give

        loc = sum / count    scale = sqrt(max(ssq / count - loc^2, eps))

    Entries of a batch are values of the same distribution. Processes that get this transform from the one that began
    them share the sums, once there are any.

    Args:
        in_keys: of observations and rewards; default: "observation" and "reward".
        out_keys: where to write them; default: `in_keys`.
        shared_td: a tensordict with the sums, such as `build_td_for_shared_vecnorm` gives, which is updated.
        lock: held while sums are updated that are shared; default: a lock of its own, once they are shared.
        decay: in (0, 1].
        eps: the least variance.
        shapes: of the values, to begin with sums before there are any; default: as the first values say.
        new_api: make a `VecNormV2`.

    Raises:
        ValueError: keys or shapes differ in number, or `decay` or `eps` is out of its range.
        KeyError: `shared_td` lacks one of the sums.
        RuntimeError: `shared_td` is not in shared memory.
    """

    SEP = "-<.>-"

    def __new__(cls, *args: Any, new_api: bool | None = None, **kwargs: Any) -> Any:
        """A `VecNormV2` with `new_api`."""
        if new_api and cls is VecNorm:
            names = ("in_keys", "out_keys", "shared_td", "lock", "decay", "eps", "shapes")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            given.pop("shapes", None)
            values = given.pop("in_keys", None)
            values = ["observation", "reward"] if values is None else values
            return VecNormV2(values, given.pop("out_keys", None), shared_data=given.pop("shared_td", None), **given)
        return super().__new__(cls)

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        shared_td: Any = None, lock: Any = None, decay: float = 0.9999, eps: float = 1e-4,
        shapes: list[Size] | None = None, new_api: bool | None = None,
    ) -> None:  # fmt: skip
        in_keys = ["observation", "reward"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        for name, value in (("out_keys", self.out_keys), ("shapes", shapes)):
            if value is not None and len(value) != len(self.in_keys):
                raise ValueError(f"VecNorm has {len(self.in_keys)} in_keys and {len(value)} {name}.")
        if not 0 < decay <= 1:
            raise ValueError(f"VecNorm: decay is {decay}, expected more than 0 and at most 1.")
        if eps <= 0:
            raise ValueError(f"VecNorm: eps is {eps}, expected a positive number.")
        self.decay, self.eps, self.shapes = decay, eps, shapes
        self.lock = lock
        self.frozen = False
        self._td: Any = shared_td
        if shared_td is not None:
            if not (shared_td.is_shared() or shared_td.is_memmap()):
                raise RuntimeError(
                    "VecNorm: shared_td is in memory of this process alone; share it by `share_memory_()` or "
                    "`memmap_()`, or let VecNorm.build_td_for_shared_vecnorm make it."
                )
            for key in self.in_keys:
                for part in _PARTS:
                    if shared_td.get(_at(key, part), None) is None:
                        raise KeyError(
                            f"VecNorm: shared_td lacks {_at(key, part)!r}; VecNorm.build_td_for_shared_vecnorm "
                            "makes one with all sums."
                        )

    # Data

    def _call(self, next_tensordict: Any) -> Any:
        with nullcontext() if self.lock is None or self.frozen else self.lock:
            for in_key, out_key in self._pairs():
                value = next_tensordict.get(in_key, None)
                # Resets give no rewards, and batches have some of the values below "next".
                if value is not None:
                    next_tensordict.set(out_key, self._normalized(in_key, value, next_tensordict.ndim))
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Normalize any data, whose values count unless the transform is frozen.

        Args:
            tensordict: changed in place; those of the keys that it lacks are left out.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def _normalized(self, key: NestedKey, value: Tensor, batch: int) -> Tensor:
        sums = self._sums(key, value, batch)
        if not self.frozen:
            self._update(sums, value)
        loc, scale = self._statistics(*sums)
        return (value - loc) / scale

    def _sums(self, key: NestedKey, value: Tensor, batch: int) -> tuple[Tensor, ...]:
        known: dict[Any, tuple[Tensor, ...]] = self.__dict__.setdefault("_by_key", {})
        found = known.get(key)
        if found is None:
            if self._td is None:
                self._td = TensorDict({}, [])
            if self._td.get(_at(key, "sum"), None) is None:
                shape = value.shape[batch:] if self.shapes is None else self.shapes[self.in_keys.index(key)]
                dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
                for part in _PARTS:
                    size = (1,) if part == "count" else shape
                    self._td.set(_at(key, part), torch.zeros(size, dtype=dtype, device=value.device))
            found = known[key] = tuple(self._td.get(_at(key, part)) for part in _PARTS)
        return found

    def _update(self, sums: tuple[Tensor, ...], value: Tensor) -> None:
        """Let a value, or a batch of them, count."""
        total, squares, count = sums
        value = value.detach().to(total.dtype)
        batch = value.ndim - total.ndim
        square, number = value.square(), 1
        if batch > 0:
            number = value.shape[:batch].numel()
            dims = tuple(range(batch))
            value, square = value.sum(dims), square.sum(dims)
        total.mul_(self.decay).add_(value)
        squares.mul_(self.decay).add_(square)
        count.mul_(self.decay).add_(number)

    def _statistics(self, total: Tensor, squares: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation."""
        loc = total / count
        return loc, (squares / count - loc.square()).clamp_min(self.eps).sqrt()

    # Statistics

    def _known(self, at: int) -> Any:
        if self._td is None:
            raise RuntimeError("VecNorm has no mean and deviation yet: it has seen no data.")
        out = TensorDict({}, [])
        for key in self.in_keys:
            parts = [self._td.get(_at(key, part), None) for part in _PARTS]
            if parts[0] is not None:
                out.set(key, self._statistics(*parts)[at])
        return out

    @property
    def loc(self) -> Any:
        """The means, as a tensordict.

        Raises:
            RuntimeError: there are none yet.
        """
        return self._known(0)

    @property
    def scale(self) -> Any:
        """The standard deviations, as a tensordict.

        Raises:
            RuntimeError: there are none yet.
        """
        return self._known(1)

    @property
    def standard_normal(self) -> bool:
        """True: means are subtracted, and deviations divided by."""
        return True

    def freeze(self) -> Self:
        """Normalize by the sums as they are, from now on.

        Raises:
            RuntimeError: there are none yet.
        """
        if self._td is None:
            raise RuntimeError("VecNorm has seen no data; there is nothing to freeze.")
        self.frozen = True
        return self

    def unfreeze(self) -> Self:
        """Let values count again."""
        self.frozen = False
        return self

    def frozen_copy(self) -> Self:
        """A transform by the same sums, for evaluation: it follows them while they are updated, and adds nothing.

        Raises:
            RuntimeError: there are none yet.
        """
        if self._td is None:
            raise RuntimeError("VecNorm has seen no data; there is nothing to freeze.")
        return self.clone().freeze()

    def denorm(self, tensordict: Any) -> Any:
        """Values as they were, from normalized ones.

        Args:
            tensordict: with values at `out_keys`; is changed: values are written to `in_keys`.
        """
        return denormalized(self, tensordict)

    def to_observation_norm(self) -> Any:
        """An `ObservationNorm` by the sums as they are; a `Compose` where there are several keys."""
        return normalizing(self._pairs(), self.loc, self.scale)

    @staticmethod
    def build_td_for_shared_vecnorm(env: Any, keys: Sequence[NestedKey] | None = None, memmap: bool = False) -> Any:
        """Sums in memory that processes share, to give to several transforms.

        Args:
            env: whose observations and rewards are normalized.
            keys: of the values; default: all observations and rewards of floating-point dtype.
            memmap: in files.

        Returns:
            A locked tensordict with "<key>_sum", "<key>_ssq" and "<key>_count" for every key.

        Raises:
            KeyError: the environment gives no such value.
        """
        specs: dict[NestedKey, Any] = {}
        for group in (env.full_observation_spec, env.full_reward_spec):
            specs |= dict(group.items(True, True))
        if keys is None:
            keys = [key for key, spec in specs.items() if spec.dtype.is_floating_point]
        sums = TensorDict({}, [])
        for key in keys:
            if key not in specs:
                raise KeyError(f"The environment gives nothing at {key!r}; it gives {list(specs)}.")
            spec = specs[key]
            shape = spec.shape[len(env.batch_size) :]
            dtype = spec.dtype if spec.dtype.is_floating_point else torch.get_default_dtype()
            for part in _PARTS:
                sums.set(_at(key, part), torch.zeros((1,) if part == "count" else shape, dtype=dtype))
        return sums.memmap_() if memmap else sums.share_memory_()

    # Specs

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of normalized observations.

        Args:
            observation_spec: a composite.
        """
        return unbounded(observation_spec)

    @_apply_to_composite
    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """The specs of normalized rewards.

        Args:
            reward_spec: a composite.
        """
        return unbounded(reward_spec)

    # State

    def get_extra_state(self) -> Any:
        """The sums by name; None where there are none yet."""
        if self._td is None:
            return None
        return dict(self._td.flatten_keys(self.SEP).items())

    def set_extra_state(self, state: Any) -> None:
        """Go on from sums by name.

        Args:
            state: as `get_extra_state` gave it.
        """
        if not state:
            return
        sums = TensorDict(dict(state), []).unflatten_keys(self.SEP)
        if self._td is not None and set(sums.keys(True, True)) <= set(self._td.keys(True, True)):
            # In the memory that is there: others may share it.
            self._td.update_(sums)
            return
        self._replace(sums.clone())

    def _replace(self, sums: Any) -> None:
        self._td = sums
        self.__dict__["_by_key"] = {}

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self._td is not None:
            self._replace(self._td.apply(fn))
        return self

    def share_memory(self) -> Self:
        """Move the sums to memory that other processes can share, with a lock for their updates."""
        if self.lock is None:
            self.lock = ProcessLock()
        return super().share_memory()

    def __getstate__(self) -> dict[str, Any]:
        if multiprocessing.context.get_spawning_popen() is not None:
            self.share_memory()
        return super().__getstate__() | {"_by_key": {}}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(decay={self.decay:4.4f},eps={self.eps:4.4f}, in_keys={self.in_keys}, "
            f"out_keys={self.out_keys})"
        )


def _at(key: NestedKey, part: str) -> NestedKey:
    return with_last(key, f"{as_tuple(key)[-1]}_{part}")
