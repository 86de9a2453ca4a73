"""`ObservationNorm`: observations shifted and scaled by constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.compose import Compose
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite, _apply_to_composite_inv
from flambeau.rl.envs.transforms._base.transform import ObservationTransform
from flambeau.rl.envs.transforms._observation.spec_mapping import mapped

__all__ = ["ObservationNorm"]

Keys = Sequence[NestedKey] | None


class ObservationNorm(ObservationTransform):
    """Observations shifted and scaled: `x * scale + loc`, or `(x - loc) / scale` with `standard_normal`.

    Actions and state pass through the inverse on their way in.

    Args:
        loc: the shift; default: as `init_stats` finds it.
        scale: the factor, or divisor, which is `eps` at least; default: as `init_stats` finds it.
        in_keys: of observations.
        out_keys: where to write them; default: `in_keys`.
        in_keys_inv: of actions and state that the environment reads.
        out_keys_inv: where they are read from; default: `in_keys_inv`.
        standard_normal: `loc` and `scale` are mean and standard deviation, and are taken away.
        eps: default: 1e-6.

    Raises:
        RuntimeError: there are no `in_keys`.
        ValueError: only one of `loc` and `scale` is given, or `eps` is not positive.

    Example:
        >>> norm = ObservationNorm(loc=10.0, scale=2.0, in_keys=["x"], standard_normal=True)
        >>> norm(torch.tensor([10.0, 14.0]))
        tensor([0., 2.])
    """

    loc: Tensor | None
    scale: Tensor | None
    standard_normal: Tensor

    def __init__(
        self, loc: float | Tensor | None = None, scale: float | Tensor | None = None, in_keys: Keys = None,
        out_keys: Keys = None, in_keys_inv: Keys = None, out_keys_inv: Keys = None, standard_normal: bool = False,
        eps: float | None = None,
    ) -> None:  # fmt: skip
        if in_keys is None:
            raise RuntimeError("ObservationNorm needs `in_keys`, the keys of what it normalizes.")
        in_keys_inv = [] if in_keys_inv is None else in_keys_inv
        super().__init__(
            in_keys,
            in_keys if out_keys is None else out_keys,
            in_keys_inv,
            in_keys_inv if out_keys_inv is None else out_keys_inv,
        )
        if (loc is None) != (scale is None):
            raise ValueError("ObservationNorm takes both `loc` and `scale`, or neither of them and init_stats later.")
        self.eps = 1e-6 if eps is None else eps
        if self.eps <= 0:
            raise ValueError(f"ObservationNorm: eps is {eps}, expected a positive number.")
        self.register_buffer("standard_normal", torch.tensor(standard_normal))
        self.__dict__["_standard"] = standard_normal
        self.register_buffer("loc", None if loc is None else _number(loc))
        self.register_buffer("scale", None if scale is None else _number(scale).clamp_min(self.eps))

    @property
    def initialized(self) -> bool:
        """Whether `loc` and `scale` are known."""
        return self.loc is not None

    def init_stats(
        self, num_iter: int, reduce_dim: int | Sequence[int] = 0, cat_dim: int | None = None,
        key: NestedKey | None = None, keep_dims: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        """Set `loc` and `scale` by mean and standard deviation of what random actions let one see.

        Args:
            num_iter: number of steps to take at least, in rollouts that are as long.
            reduce_dim: dimensions that statistics are taken over, of the observations of all rollouts.
            cat_dim: one of them, along which rollouts are concatenated; default: `reduce_dim`, where it is a number.
            key: of the observation; default: the one there is.
            keep_dims: those of the dimensions that stay, with size 1.

        Raises:
            RuntimeError: there are such numbers already, no environment, several keys, or a statistic is not finite.
            ValueError: `cat_dim` is missing, or none of `reduce_dim`.
        """
        dims = (reduce_dim,) if isinstance(reduce_dim, int) else tuple(reduce_dim)
        if cat_dim is None:
            if not isinstance(reduce_dim, int):
                raise ValueError("init_stats needs `cat_dim`, one of the dimensions in `reduce_dim`.")
            cat_dim = reduce_dim
        if self.initialized:
            raise RuntimeError(f"ObservationNorm has loc {self.loc} and scale {self.scale} already.")
        if len(self.in_keys) > 1 and key is None:
            raise RuntimeError(f"init_stats needs `key`, one of {self.in_keys}.")
        key = self.in_keys[0] if key is None else key
        values = self._seen(key, num_iter, cat_dim)
        reduced = {dim % values.ndim for dim in dims}
        kept = {dim % values.ndim for dim in keep_dims or ()}
        for name, each in (("cat_dim", {cat_dim % values.ndim}), ("keep_dims", kept)):
            if not each <= reduced:
                raise ValueError(f"init_stats: {name} is none of the dimensions in reduce_dim, {dims}.")
        loc, scale = _statistics(values, reduced, kept)
        if not self._standard:
            scale = 1 / scale.clamp_min(self.eps)
            loc = -loc * scale
        for name, value in (("loc", loc), ("scale", scale)):
            if not value.isfinite().all():
                raise RuntimeError(
                    f"init_stats: the {name} of {key!r} is not finite in {int((~value.isfinite()).sum())} entries; "
                    "with more steps there may be something to take statistics of."
                )
            setattr(self, name, value)

    def _seen(self, key: NestedKey, num_iter: int, cat_dim: int) -> Tensor:
        parent = self.parent
        if parent is None:
            raise RuntimeError("init_stats takes steps in the environment, and the transform is part of none yet.")
        if key not in parent.observation_keys:
            raise RuntimeError(f"init_stats: {key!r} is none of the observations {parent.observation_keys}.")
        if num_iter < 1:
            raise ValueError(f"init_stats: num_iter is {num_iter}, expected at least 1.")
        parts: list[Tensor] = []
        steps = 0
        while steps < num_iter:
            rollout = parent.rollout(max_steps=num_iter)
            steps += rollout.numel()
            parts.append(rollout.get(key))
        return torch.cat(parts, cat_dim)

    # Data

    def _numbers(self) -> tuple[Tensor, Tensor]:
        loc, scale = self.loc, self.scale
        if loc is None or scale is None:
            raise RuntimeError("ObservationNorm has neither loc nor scale; give them, or let init_stats find them.")
        return loc, scale

    def _apply_transform(self, obs: Tensor) -> Tensor:
        loc, scale = self._numbers()
        return (obs - loc) / scale if self._standard else obs * scale + loc

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        loc, scale = self._numbers()
        return state * scale + loc if self._standard else (state - loc) / scale

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of normalized observations.

        Args:
            observation_spec: a composite.
        """
        return mapped(observation_spec, self._apply_transform)

    @_apply_to_composite_inv
    def transform_action_spec(self, action_spec: Any) -> Any:
        """The specs of actions as they are outside.

        Args:
            action_spec: a composite.
        """
        return mapped(action_spec, self._apply_transform)

    @_apply_to_composite_inv
    def transform_state_spec(self, state_spec: Any) -> Any:
        """The specs of the state as it is outside.

        Args:
            state_spec: a composite.
        """
        return mapped(state_spec, self._apply_transform)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        # Of a checkpoint that has them, numbers of any shape are taken.
        for name in ("loc", "scale"):
            value = state_dict.get(prefix + name)
            if value is not None and self._buffers[name] is None:
                self._buffers[name] = torch.empty_like(value, device=self.standard_normal.device)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self.__dict__["_standard"] = bool(self.standard_normal)

    def __repr__(self) -> str:
        numbers = ""
        if self.loc is not None and self.scale is not None and self.loc.numel() == self.scale.numel() == 1:
            numbers = f"loc={float(self.loc):4.4f}, scale={float(self.scale):4.4f}, "
        return f"{type(self).__name__}({numbers}keys={self.in_keys})"


def _number(value: float | Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.get_default_dtype())


def _statistics(values: Tensor, reduced: set[int], kept: set[int]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over some dimensions, of which those that are not kept vanish."""
    dims = tuple(reduced)
    loc, scale = values.mean(dims, keepdim=True), values.std(dims, keepdim=True)
    for dim in sorted(reduced - kept, reverse=True):
        loc, scale = loc.squeeze(dim), scale.squeeze(dim)
    return loc, scale


def normalizing(pairs: Iterable[tuple[NestedKey, NestedKey]], loc: Any, scale: Any) -> Any:
    """Transforms that normalize by means and deviations from tensordicts; one alone, or a composition.

    Args:
        pairs: of in keys and out keys.
        loc: means at in keys.
        scale: deviations at in keys.
    """
    made = [
        ObservationNorm(
            loc=loc.get(in_key).clone(), scale=scale.get(in_key).clone(), in_keys=[in_key], out_keys=[out_key],
            standard_normal=True,
        )
        for in_key, out_key in pairs
    ]  # fmt: skip
    return made[0] if len(made) == 1 else Compose(*made)


def denormalized(transform: Any, tensordict: Any) -> Any:
    """Values at in keys from normalized ones at out keys.

    Args:
        transform: has `loc` and `scale`.
        tensordict: changed in place; keys that it lacks are left out.
    """
    loc, scale = transform.loc, transform.scale
    for in_key, out_key in transform._pairs():
        value = tensordict.get(out_key, None)
        if value is not None:
            tensordict.set(in_key, value * scale.get(in_key) + loc.get(in_key))
    return tensordict
