"""Actions between -1 and 1 for those of any bounds, and actions of one dimension for those of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Size, Tensor
from torch.nn.parameter import UninitializedBuffer

from flambeau.rl.data.tensor_specs import Bounded, TensorSpec, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite_inv
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["ActionScaling", "FlattenAction"]


class ActionScaling(Transform):
    """Normalised actions outside, those of the environment or data set inside.

    With `standard_normal` outside is `(action - loc) / scale`, else `(action - loc) / (2 scale) + 1 / 2`: bounded
    actions are between -1 and 1, or 0 and 1.

    Args:
        in_keys_inv: of the environment's actions; default: "action".
        out_keys_inv: where they stand outside; default: `in_keys_inv`.
        in_keys: of actions in data that are normalised; default: `in_keys_inv`.
        out_keys: of normalised ones; default: `in_keys`.
        loc: the centre of actions; default: that of the environment's bounds.
        scale: their spread; default: half the distance of the bounds.
        standard_normal: see above.

    Raises:
        ValueError: only one of `loc` and `scale` is given.
    """

    invertible = True
    _over_time = True

    def __init__(
        self,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        *,
        loc: Tensor | float | None = None,
        scale: Tensor | float | None = None,
        standard_normal: bool = True,
    ) -> None:
        in_keys_inv = ["action"] if in_keys_inv is None else in_keys_inv
        out_keys_inv = list(in_keys_inv) if out_keys_inv is None else out_keys_inv
        in_keys = list(in_keys_inv) if in_keys is None else in_keys
        super().__init__(in_keys, list(in_keys) if out_keys is None else out_keys, in_keys_inv, out_keys_inv)
        if (loc is None) != (scale is None):
            raise ValueError("ActionScaling needs both loc and scale, or neither: then the action's bounds give them.")
        self.standard_normal = standard_normal
        self.loc: Tensor
        self.scale: Tensor
        self.register_buffer("loc", UninitializedBuffer() if loc is None else torch.as_tensor(loc, dtype=_dtype(loc)))
        self.register_buffer(
            "scale", UninitializedBuffer() if scale is None else torch.as_tensor(scale, dtype=_dtype(scale))
        )

    @classmethod
    def from_stats(
        cls,
        *,
        mean: Tensor | None = None,
        std: Tensor | None = None,
        low: Tensor | None = None,
        high: Tensor | None = None,
        eps: float = 1e-6,
        **kwargs: Any,
    ) -> Self:
        """From means and standard deviations, or from bounds.

        Args:
            mean: of actions.
            std: of actions; together with `mean`.
            low: of actions.
            high: of actions; together with `low`.
            eps: the least scale.
            kwargs: as for the class.

        Raises:
            ValueError: neither or both of the two.
        """
        moments, bounds = mean is not None and std is not None, low is not None and high is not None
        if moments == bounds:
            raise ValueError("from_stats takes either mean and std, or low and high.")
        if moments:
            loc, scale = torch.as_tensor(mean), torch.as_tensor(std)
        else:
            low, high = torch.as_tensor(low), torch.as_tensor(high)
            loc, scale = (high + low) / 2, (high - low) / 2
        return cls(loc=loc, scale=scale.clamp_min(eps), **kwargs)

    @classmethod
    def from_metadata(cls, metadata: Any, **kwargs: Any) -> Self:
        """From the statistics of a data set of robots.

        Args:
            metadata: with `action_stats`, a mapping with "mean" and "std", or "low" and "high" ("min" and "max").
            kwargs: as for the class.

        Raises:
            ValueError: it has no such statistics.
        """
        found = getattr(metadata, "action_stats", None)
        if found is None:
            found = (getattr(metadata, "stats", None) or {}).get("action")
        if not found:
            raise ValueError("The metadata have no statistics of actions: neither action_stats nor stats['action'].")
        names = {"mean": "mean", "std": "std", "low": "low", "high": "high", "min": "low", "max": "high"}
        values = {names[key]: torch.as_tensor(value) for key, value in dict(found).items() if key in names}
        pairs = ("mean", "std") if {"mean", "std"} <= values.keys() else ("low", "high")
        return cls.from_stats(**{name: values.get(name) for name in pairs}, **kwargs)  # type: ignore[arg-type]

    @property
    def initialized(self) -> bool:
        """Whether centre and spread are known; those of bounds are when the environment's specs are asked for."""
        return not isinstance(self.loc, UninitializedBuffer)

    def _learn(self) -> None:
        """Take centre and spread from the environment's bounds."""
        parent = self.parent
        if parent is None:
            raise RuntimeError(
                "ActionScaling knows neither loc nor scale: give both, or append it to an environment with bounded "
                "actions."
            )
        spec = parent.full_action_spec[self.in_keys_inv[0]]
        self._learn_from(spec)

    def _learn_from(self, spec: Any) -> None:
        if not isinstance(spec, Bounded):
            raise ValueError(
                f"ActionScaling takes loc and scale from bounded actions, not from {type(spec).__name__}; give both."
            )
        low, high = spec.low, spec.high
        while low.ndim > 1 and self.parent is not None and self.parent.batch_size:
            low, high = low[0], high[0]
        self.register_buffer("loc", (high + low) / 2)
        self.register_buffer("scale", (high - low) / 2)

    def normalize(self, action: Tensor) -> Tensor:
        """From the environment's actions to normalised ones.

        Args:
            action: of the environment.
        """
        if not self.initialized:
            self._learn()
        self._check_size(action)
        out = (action - self.loc) / self.scale
        out = out if self.standard_normal else out / 2 + 0.5
        return out.to(action.dtype) if action.is_floating_point() else out

    def denormalize(self, action: Tensor) -> Tensor:
        """From normalised actions to the environment's.

        Args:
            action: normalised.
        """
        if not self.initialized:
            self._learn()
        self._check_size(action)
        centred = action if self.standard_normal else (action - 0.5) * 2
        out = centred * self.scale + self.loc
        return out.to(action.dtype) if action.is_floating_point() else out

    def _check_size(self, action: Tensor) -> None:
        size = self.loc.shape[-1:]
        if size and size != (1,) and action.shape[-1:] != size:
            raise ValueError(
                f"loc and scale are of actions of size {size[0]}; got actions of shape {tuple(action.shape)}."
            )

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return self.normalize(obs)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return self.denormalize(state)

    def _call(self, next_tensordict: Any) -> Any:
        # Environments give no actions.
        return next_tensordict

    @_apply_to_composite_inv
    def transform_action_spec(self, action_spec: TensorSpec) -> TensorSpec:
        """Actions within the normalised bounds.

        Args:
            action_spec: of an action, or a composite.
        """
        if not self.initialized:
            self._learn_from(action_spec)
        shape, device, dtype = action_spec.shape, action_spec.device, action_spec.dtype
        if not isinstance(action_spec, Bounded):
            return Unbounded(shape, device=device, dtype=dtype)
        low, high = self.normalize(action_spec.low), self.normalize(action_spec.high)
        return Bounded(low, high, shape, device=device, dtype=dtype)

    def __repr__(self) -> str:
        known = (each if not isinstance(each, UninitializedBuffer) else None for each in (self.loc, self.scale))
        loc, scale = (each.item() if each is not None and each.numel() == 1 else each for each in known)
        return (
            f"{type(self).__name__}(loc={loc}, scale={scale}, standard_normal={self.standard_normal}, "
            f"in_keys_inv={self.in_keys_inv})"
        )


def _dtype(value: Any) -> torch.dtype:
    return value.dtype if isinstance(value, Tensor) and value.is_floating_point() else torch.get_default_dtype()


class FlattenAction(Transform):
    """Actions of one dimension outside, those of several inside.

    Args:
        first_dim: the first of the dimensions that become one, negative.
        last_dim: the last of them, negative.
        in_keys_inv: of the environment's actions; default: "action".
        out_keys_inv: where they stand outside; default: `in_keys_inv`.
        in_keys: of actions in data that are flattened; default: `in_keys_inv`.
        out_keys: of flattened ones; default: `in_keys`.
        allow_positive_dim: dimensions may be counted from the first one behind the batch.
        action_shape: sizes of these dimensions inside; default: as in the environment.

    Raises:
        ValueError: a dimension is not negative, and need be.
    """

    invertible = True

    def __init__(
        self,
        first_dim: int = -2,
        last_dim: int = -1,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        allow_positive_dim: bool = False,
        *,
        action_shape: Sequence[int] | None = None,
    ) -> None:
        in_keys_inv = ["action"] if in_keys_inv is None else in_keys_inv
        out_keys_inv = list(in_keys_inv) if out_keys_inv is None else out_keys_inv
        in_keys = list(in_keys_inv) if in_keys is None else in_keys
        super().__init__(in_keys, list(in_keys) if out_keys is None else out_keys, in_keys_inv, out_keys_inv)
        if not allow_positive_dim and (first_dim >= 0 or last_dim >= 0):
            raise ValueError(
                f"Dimensions are counted from the last, so that batches may have any size; got {first_dim} and "
                f"{last_dim}. allow_positive_dim=True counts them from the first one behind the batch."
            )
        self._first_dim = first_dim
        self._last_dim = last_dim
        self.action_shape = None if action_shape is None else Size(action_shape)

    def _behind_batch(self, dim: int) -> int:
        return dim + len(self.parent.batch_size) if dim >= 0 and self.parent is not None else dim

    @property
    def first_dim(self) -> int:
        """The first of the dimensions that become one."""
        return self._behind_batch(self._first_dim)

    @property
    def last_dim(self) -> int:
        """The last of them."""
        return self._behind_batch(self._last_dim)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.flatten(self.first_dim, self.last_dim)

    def _call(self, next_tensordict: Any) -> Any:
        # Environments give no actions.
        return next_tensordict

    def _inv_call(self, tensordict: Any) -> Any:
        for in_key, out_key in self._pairs_inv():
            value = tensordict.get(out_key, None)
            if value is not None:
                tensordict.set(in_key, self._unflattened(value, in_key))
            elif not self.missing_tolerance:
                raise self._missing(out_key, tensordict)
        return tensordict

    def _unflattened(self, action: Tensor, key: NestedKey) -> Tensor:
        if self.action_shape is not None:
            sizes = self.action_shape
        elif self.parent is not None:
            shape = self.parent.full_action_spec[key].shape
            first, last = self.first_dim % len(shape), self.last_dim % len(shape)
            sizes = shape[first : last + 1]
        else:
            raise RuntimeError(
                "FlattenAction does not know the shape of actions: give action_shape, or append it to an environment."
            )
        # Behind the dimensions that became one stand as many as before.
        at = self.last_dim if self.last_dim < 0 else self.first_dim
        return action.unflatten(at, sizes)  # type: ignore[no-any-return]

    @_apply_to_composite_inv
    def transform_action_spec(self, action_spec: TensorSpec) -> TensorSpec:
        """Actions of one dimension.

        Args:
            action_spec: of an action, or a composite.
        """
        return action_spec.flatten(self.first_dim, self.last_dim)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(first_dim={self.first_dim}, last_dim={self.last_dim}, "
            f"in_keys_inv={self.in_keys_inv}, out_keys_inv={self.out_keys_inv})"
        )
