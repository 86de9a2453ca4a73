"""Transforms of shapes: flattened, with one dimension more or less, with dimensions in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.specs import _apply_to_composite, _apply_to_composite_inv
from flambeau.rl.envs.transforms._base.transform import ObservationTransform, Transform, tolerating_missing
from flambeau.rl.envs.transforms._observation.spec_mapping import mapped

__all__ = ["FlattenObservation", "PermuteTransform", "SqueezeTransform", "UnsqueezeTransform"]

Keys = Sequence[NestedKey] | None


def _behind_batch(transform: Transform, dim: int) -> int:
    """A dimension counted from the first behind the batch, where the environment is known."""
    if dim >= 0:
        parent = transform.parent
        if parent is not None:
            return dim + len(parent.batch_size)
    return dim


def _checked(name: str, dim: int, positive: bool, error: type[Exception] = ValueError) -> int:
    if dim >= 0 and not positive:
        raise error(
            f"{name} is {dim}. Dimensions are counted from the end, so that they are the same for every batch; say "
            "allow_positive_dim=True to count from the first dimension behind the batch of the environment."
        )
    return dim


class FlattenObservation(ObservationTransform):
    """Adjacent dimensions of observations as one.

    Args:
        first_dim: the first of them.
        last_dim: the last of them.
        in_keys: of observations; default: "pixels".
        out_keys: where to write them; default: `in_keys`.
        allow_positive_dim: count dimensions that are not negative from the first behind the batch of the environment.
    """

    def __init__(
        self, first_dim: int, last_dim: int, in_keys: Keys = None, out_keys: Keys = None,
        allow_positive_dim: bool = False,
    ) -> None:  # fmt: skip
        in_keys = ["pixels"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        self._first_dim = _checked("first_dim", first_dim, allow_positive_dim)
        self._last_dim = _checked("last_dim", last_dim, allow_positive_dim)

    @property
    def first_dim(self) -> int:
        """The first of the dimensions."""
        return _behind_batch(self, self._first_dim)

    @property
    def last_dim(self) -> int:
        """The last of the dimensions."""
        return _behind_batch(self, self._last_dim)

    def _apply_transform(self, observation: Tensor) -> Tensor:
        return observation.flatten(self.first_dim, self.last_dim)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of flat observations.

        Args:
            observation_spec: a composite.
        """
        return mapped(observation_spec, self._apply_transform)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(first_dim={self.first_dim}, last_dim={self.last_dim})"


class UnsqueezeTransform(Transform):
    """Values with one more dimension of size 1; actions and state lose it on their way in.

    Args:
        dim: where it is inserted.
        allow_positive_dim: count from the first dimension behind the batch of the environment, if it is not negative.
        in_keys: of observations or rewards.
        out_keys: where to write them; default: `in_keys`.
        in_keys_inv: of actions and state that the environment reads.
        out_keys_inv: where they are read from; default: `in_keys_inv`.

    Raises:
        RuntimeError: `dim` is not negative, which is not allowed.
    """

    invertible = True

    def __init__(
        self, dim: int | None = None, *, allow_positive_dim: bool = False, in_keys: Keys = None, out_keys: Keys = None,
        in_keys_inv: Keys = None, out_keys_inv: Keys = None,
    ) -> None:  # fmt: skip
        in_keys = [] if in_keys is None else in_keys
        in_keys_inv = [] if in_keys_inv is None else in_keys_inv
        super().__init__(
            in_keys,
            in_keys if out_keys is None else out_keys,
            in_keys_inv,
            in_keys_inv if out_keys_inv is None else out_keys_inv,
        )
        if dim is None:
            raise TypeError(f"{type(self).__name__} needs `dim`.")
        self.allow_positive_dim = allow_positive_dim
        self._dim = _checked("dim", dim, allow_positive_dim, RuntimeError)

    @property
    def dim(self) -> int:
        """The dimension of size 1."""
        return _behind_batch(self, self._dim)

    @property
    def unsqueeze_dim(self) -> int:
        """The dimension of size 1."""
        return self.dim

    def _apply_transform(self, observation: Tensor) -> Tensor:
        return observation.unsqueeze(self.dim)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state.squeeze(self.dim)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)

    def _spec_outside(self, spec: Any) -> Any:
        return spec.unsqueeze(self.dim)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of observations with the dimension.

        Args:
            observation_spec: a composite.
        """
        return mapped(observation_spec, self._apply_transform)

    @_apply_to_composite
    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """The specs of rewards with the dimension.

        Args:
            reward_spec: a composite.
        """
        return mapped(reward_spec, self._apply_transform)

    @_apply_to_composite_inv
    def transform_action_spec(self, action_spec: Any) -> Any:
        """The specs of actions as they are outside, with the dimension.

        Args:
            action_spec: a composite.
        """
        return self._spec_outside(action_spec)

    @_apply_to_composite_inv
    def transform_state_spec(self, state_spec: Any) -> Any:
        """The specs of the state as it is outside, with the dimension.

        Args:
            state_spec: a composite.
        """
        return self._spec_outside(state_spec)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(dim={self.dim}, in_keys={self.in_keys}, out_keys={self.out_keys}, "
            f"in_keys_inv={self.in_keys_inv}, out_keys_inv={self.out_keys_inv})"
        )


class SqueezeTransform(UnsqueezeTransform):
    """Values without a dimension of size 1; actions and state get it on their way in.

    Args:
        dim: the dimension.
        args: none.
        in_keys: of observations or rewards.
        out_keys: where to write them; default: `in_keys`.
        in_keys_inv: of actions and state that the environment reads.
        out_keys_inv: where they are read from; default: `in_keys_inv`.
        kwargs: `allow_positive_dim`, see `UnsqueezeTransform`; `squeeze_dim`, a former name of `dim`.
    """

    def __init__(
        self, dim: int | None = None, *args: Any, in_keys: Keys = None, out_keys: Keys = None,
        in_keys_inv: Keys = None, out_keys_inv: Keys = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        dim = kwargs.pop("squeeze_dim", dim)
        super().__init__(
            dim, *args, in_keys=in_keys, out_keys=out_keys, in_keys_inv=in_keys_inv, out_keys_inv=out_keys_inv, **kwargs
        )

    @property
    def squeeze_dim(self) -> int:
        """The dimension of size 1."""
        return self.dim

    def _apply_transform(self, observation: Tensor) -> Tensor:
        return observation.squeeze(self.dim)

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return state.unsqueeze(self.dim)

    def _spec_outside(self, spec: Any) -> Any:
        return spec.squeeze(self.dim)


class PermuteTransform(Transform):
    """Values with their last dimensions in another order; actions and state in the old order again on their way in.

    Args:
        dims: the last dimensions in their new order, counted from the end: every number from -n to -1 once.
        in_keys: of observations.
        out_keys: where to write them; default: `in_keys`.
        in_keys_inv: of actions and state that the environment reads.
        out_keys_inv: where they are read from; default: `in_keys_inv`.

    Raises:
        ValueError: `dims` are not those numbers.

    Example:
        >>> import torch
        >>> PermuteTransform((-1, -2), in_keys=["x"])(torch.zeros(5, 2, 3)).shape
        torch.Size([5, 3, 2])
    """

    def __init__(
        self, dims: Sequence[int], in_keys: Keys = None, out_keys: Keys = None, in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
    ) -> None:  # fmt: skip
        in_keys = [] if in_keys is None else in_keys
        in_keys_inv = [] if in_keys_inv is None else in_keys_inv
        super().__init__(
            in_keys,
            in_keys if out_keys is None else out_keys,
            in_keys_inv,
            in_keys_inv if out_keys_inv is None else out_keys_inv,
        )
        self.dims = list(dims)
        if sorted(self.dims) != list(range(-len(self.dims), 0)):
            raise ValueError(
                f"PermuteTransform: dims are {tuple(self.dims)}, expected the numbers from {-len(self.dims)} to -1 in "
                "some order."
            )
        self.dims_inv = [self.dims.index(dim) - len(self.dims) for dim in range(-len(self.dims), 0)]

    def _permuted(self, value: Any, dims: list[int]) -> Any:
        kept = value.ndim - len(dims)
        return value.permute(*range(kept), *dims)

    def _apply_transform(self, observation: Tensor) -> Tensor:
        return self._permuted(observation, self.dims)  # type: ignore[no-any-return]

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return self._permuted(state, self.dims_inv)  # type: ignore[no-any-return]

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """The specs of observations with their dimensions in the new order.

        Args:
            observation_spec: a composite.
        """
        return mapped(observation_spec, self._apply_transform)

    @_apply_to_composite_inv
    def transform_action_spec(self, action_spec: Any) -> Any:
        """The specs of actions as they are outside, in the new order.

        Args:
            action_spec: a composite.
        """
        return mapped(action_spec, self._apply_transform)

    @_apply_to_composite_inv
    def transform_state_spec(self, state_spec: Any) -> Any:
        """The specs of the state as it is outside, in the new order.

        Args:
            state_spec: a composite.
        """
        return mapped(state_spec, self._apply_transform)
