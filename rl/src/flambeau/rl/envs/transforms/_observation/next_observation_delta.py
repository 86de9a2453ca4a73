"""`NextObservationDelta`: what changed in place of the next observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.rl.envs._keys import NestedKey, as_key, as_tuple
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["NextObservationDelta"]

_DELTA = "delta"


class NextObservationDelta(Transform):
    """Stores what changed from an observation to the next, at a lower precision, in place of the next one.

    What rollouts and collectors store of an environment has differences at ("next", "delta", key), and nothing at
    ("next", key). On batches of a replay buffer it makes ("next", key) again, as the sum of both.

    Args:
        in_keys: of observations; default: all of the environment, but for those of `excluded_dtypes`.
        delta_dtype: of differences, a floating-point dtype.
        restore_dtype: of restored observations; "root": as those they are the sum of.
        drop_delta: leave differences out of batches.
        excluded_dtypes: see `in_keys`.

    Raises:
        ValueError: a dtype is not floating-point.
    """

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, *, delta_dtype: torch.dtype = torch.float16,
        restore_dtype: torch.dtype | Literal["root"] = "root", drop_delta: bool = True,
        excluded_dtypes: tuple[torch.dtype, ...] = (
            torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
        ),
    ) -> None:  # fmt: skip
        super().__init__(in_keys, in_keys)
        if not delta_dtype.is_floating_point:
            raise ValueError(f"NextObservationDelta: delta_dtype is {delta_dtype}, expected a floating-point dtype.")
        if restore_dtype != "root" and not getattr(restore_dtype, "is_floating_point", False):
            raise ValueError(
                f"NextObservationDelta: restore_dtype is {restore_dtype!r}, expected a floating-point dtype or 'root'."
            )
        self.delta_dtype, self.restore_dtype, self.drop_delta = delta_dtype, restore_dtype, drop_delta
        self.excluded_dtypes = tuple(excluded_dtypes)

    @property
    def in_keys(self) -> Any:
        """Keys of observations."""
        if self.__dict__["_in_keys"] is None:
            parent = self.parent
            if parent is None:
                return []
            specs = parent.full_observation_spec.items(True, True)
            self.__dict__["_in_keys"] = [key for key, spec in specs if spec.dtype not in self.excluded_dtypes]
        return self.__dict__["_in_keys"]

    @in_keys.setter
    def in_keys(self, value: Any) -> None:
        Transform.in_keys.fset(self, value)  # type: ignore[attr-defined]

    @property
    def out_keys(self) -> Any:
        """The same keys."""
        return self.in_keys

    @out_keys.setter
    def out_keys(self, value: Any) -> None:
        Transform.out_keys.fset(self, value)  # type: ignore[attr-defined]

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict

    def _inv_call(self, tensordict: Any) -> Any:
        return tensordict

    def _stored(self, tensordict: Any) -> Any:
        following = tensordict.get("next")
        for key in self.in_keys:
            old, new = tensordict.get(key, None), following.get(key, None)
            if old is not None and new is not None:
                following = following.exclude(key)
                following.set(_delta(key), self._difference(old, new))
        return tensordict.set("next", following)

    def _difference(self, old: Tensor, new: Tensor) -> Tensor:
        if new.is_floating_point():
            return (new - old).to(self.delta_dtype)
        return new.to(self.delta_dtype) - old.to(self.delta_dtype)

    def forward(self, tensordict: Any) -> Any:
        """Make next observations of differences.

        Args:
            tensordict: with observations, and differences below ("next", "delta"); changed in place.
        """
        following = tensordict.get("next", None)
        deltas = None if following is None else following.get(_DELTA, None)
        if deltas is None:
            return tensordict
        for key in self.in_keys or list(deltas.keys(True, True)):
            delta, old = deltas.get(key, None), tensordict.get(key, None)
            if delta is None or old is None:
                continue
            dtype = old.dtype if self.restore_dtype == "root" else self.restore_dtype
            following.set(key, (old + delta).to(dtype))
        if self.drop_delta:
            following.pop(_DELTA)
        return tensordict

    def transform_fake_tensordict(self, fake_tensordict: Any) -> Any:
        """The zeros of a stored step: with differences in place of next observations.

        Args:
            fake_tensordict: the zeros without the transform.
        """
        return self._stored(fake_tensordict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(in_keys={self.in_keys}, delta_dtype={self.delta_dtype})"


def _delta(key: NestedKey) -> NestedKey:
    return as_key((_DELTA, *as_tuple(key)))
