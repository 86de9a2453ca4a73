"""Other batch sizes, and states that are computed from the steps before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size

from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["BatchSizeTransform", "BurnInTransform"]


class BatchSizeTransform(Transform):
    """Another batch size: that of an environment which is not locked to one, or the same entries in another shape.

    Args:
        batch_size: the new batch size, of an environment without one.
        reshape_fn: from tensordicts in the environment's shape to those in the new one; instead of `batch_size`.
        reset_func: called as reset_func(tensordict, tensordict_reset) to make what a reset gives have `batch_size`.
        env_kwarg: give `batch_size` to the environment's `_reset`.

    Raises:
        ValueError: neither or both of `batch_size` and `reshape_fn`, or `reset_func` besides `reshape_fn`.
    """

    def __init__(
        self,
        *,
        batch_size: Size | Sequence[int] | None = None,
        reshape_fn: Callable[[Any], Any] | None = None,
        reset_func: Callable[[Any, Any], Any] | None = None,
        env_kwarg: bool = False,
    ) -> None:
        super().__init__()
        if (batch_size is None) == (reshape_fn is None):
            raise ValueError("BatchSizeTransform needs either a batch_size, or a reshape_fn.")
        if reshape_fn is not None and (reset_func is not None or env_kwarg):
            raise ValueError("reset_func and env_kwarg are for a batch_size; reshape_fn does without them.")
        self.batch_size = None if batch_size is None else Size(batch_size)
        self.reshape_fn = reshape_fn
        self.reset_func = reset_func
        self.env_kwarg = env_kwarg

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        if self.reset_func is not None:
            tensordict_reset = self.reset_func(tensordict, tensordict_reset)
        if self.batch_size is not None:
            if tensordict_reset.batch_size != self.batch_size:
                tensordict_reset = tensordict_reset.expand(self.batch_size)
            return tensordict_reset
        return self.reshape_fn(tensordict_reset)  # type: ignore[misc]

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        parent = self.parent
        if tensordict is not None and self.reshape_fn is not None:
            return self._back(tensordict)
        if self.env_kwarg and parent is not None and tensordict is None:
            from flambeau.data.tensordict import TensorDict

            return TensorDict({}, self.batch_size or (), device=parent.device)
        return tensordict

    def _back(self, tensordict: Any) -> Any:
        """In the environment's shape."""
        return tensordict.reshape(self.parent.batch_size)

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict if self.reshape_fn is None else self.reshape_fn(next_tensordict)

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return self._call(next_tensordict)

    def forward(self, tensordict: Any) -> Any:
        """Data in the new shape.

        Args:
            tensordict: in the old one.
        """
        return self._call(tensordict)

    def _inv_call(self, tensordict: Any) -> Any:
        return self._back(tensordict) if self.reshape_fn is not None and self.parent is not None else tensordict

    # Specs

    def transform_env_batch_size(self, batch_size: Size) -> Size:
        """The new batch size.

        Args:
            batch_size: the old one.
        """
        if self.batch_size is not None:
            return self.batch_size
        return torch.Size(self._zeros(batch_size).shape)

    def _zeros(self, batch_size: Size) -> Any:
        from flambeau.data.tensordict import TensorDict

        return self.reshape_fn(TensorDict({}, batch_size))  # type: ignore[misc]

    def _in_shape(self, spec: Any) -> Any:
        if self.batch_size is not None:
            return spec if spec.shape == self.batch_size else spec.expand(self.batch_size)
        size = self._zeros(spec.shape).shape
        return spec if spec.shape == size else spec.reshape(size)

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs with the new batch size.

        Args:
            output_spec: a composite.
        """
        return self._in_shape(output_spec)  # type: ignore[no-any-return]

    def transform_input_spec(self, input_spec: Any) -> Any:
        """The specs with the new batch size.

        Args:
            input_spec: a composite.
        """
        return self._in_shape(input_spec)


class BurnInTransform(Transform):
    """Recurrent states of the later steps of sequences from a buffer, computed from the first ones.

    Args:
        modules: recurrent modules.
        burn_in: number of first steps, which are cut off.
        out_keys: of the states that are kept, at the root; default: those that the modules write below "next".

    Raises:
        RuntimeError: a sequence is not longer than that.

    References:
        S. Kapturowski et al., Recurrent Experience Replay in Distributed Reinforcement Learning, ICLR 2019.
    """

    def __init__(self, modules: Sequence[Any] | Any, burn_in: int, out_keys: Sequence[NestedKey] | None = None) -> None:
        modules = list(modules) if isinstance(modules, (list, tuple)) else [modules]
        for each in modules:
            if not hasattr(each, "out_keys"):
                raise ValueError(f"BurnInTransform takes modules of tensordicts; got {type(each).__name__}.")
        keys: list[NestedKey] = []
        for each in modules:
            keys += [key for key in each.out_keys if isinstance(key, tuple) and key[0] == "next"]
        super().__init__(in_keys=None, out_keys=keys if out_keys is None else out_keys)
        self.modules_ = modules
        self.burn_in = burn_in

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        raise RuntimeError("BurnInTransform is for sequences from a buffer, not for environments.")

    def forward(self, tensordict: Any) -> Any:
        """The later steps, with states.

        Args:
            tensordict: (..., time).
        """
        if self.burn_in == 0:
            return tensordict
        steps = tensordict.batch_size[-1]
        if steps <= self.burn_in:
            raise RuntimeError(f"A sequence of {steps} steps has none behind {self.burn_in} steps of burn-in.")
        first = tensordict[..., : self.burn_in].clone()
        rest = tensordict[..., self.burn_in :].copy()
        with torch.no_grad():
            for each in self.modules_:
                device = next((parameter.device for parameter in each.parameters()), None)
                first = each(first if device is None else first.to(device))
        last = first[..., -1]
        for key in self.out_keys:
            root = key[1:] if len(key) > 2 else key[1] if isinstance(key, tuple) and key[0] == "next" else key
            state = last.get(key)
            if tensordict.device is not None:
                state = state.to(tensordict.device)
            dim = len(tensordict.batch_size) - 1
            old = rest.get(root, None)
            filled = (
                torch.zeros(
                    *state.shape[:dim], steps - self.burn_in, *state.shape[dim:], dtype=state.dtype, device=state.device
                )
                if old is None
                else old.clone()
            )
            filled.select(dim, 0).copy_(state)
            rest.set(root, filled)
        return rest

    def __repr__(self) -> str:
        return f"{type(self).__name__}(burn_in={self.burn_in}, in_keys={self.in_keys}, out_keys={self.out_keys})"
