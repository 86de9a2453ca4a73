"""Any function of single values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.tensor_specs import NonTensor, TensorSpec, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs._spec_making import make_composite_from_td
from flambeau.rl.envs.transforms._base.transform import Transform, tolerating_missing

__all__ = ["UnaryTransform"]

_NON_TENSORS = ("NonTensorData", "NonTensorStack", "MetaData")


class UnaryTransform(Transform):
    """A function of the value at each of some keys.

    Args:
        in_keys: of what the function takes.
        out_keys: of what it returns.
        in_keys_inv: of what the environment reads.
        out_keys_inv: of what `inv_fn` makes it from; default: `in_keys_inv`.
        fn: the function.
        inv_fn: of what goes in; default: it stays as it is.
        use_raw_nontensor: values that are no tensors are passed as they are, lists of them for batches; else wrapped.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> transform = UnaryTransform(["x"], ["length"], fn=lambda x: x.norm(dim=-1))
        >>> transform(TensorDict({"x": torch.tensor([3.0, 4.0])}))["length"]
        tensor(5.)
    """

    enable_inv_on_reset = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        fn: Callable[[Any], Any],
        inv_fn: Callable[[Any], Any] | None = None,
        use_raw_nontensor: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, in_keys_inv if out_keys_inv is None else out_keys_inv)
        self._fn = fn
        self._inv_fn = inv_fn
        self._use_raw_nontensor = use_raw_nontensor

    def _raw(self, value: Any) -> Any:
        if self._use_raw_nontensor and type(value).__name__ in _NON_TENSORS:
            return value.tolist()
        return value

    def _apply_transform(self, value: Any) -> Any:
        return self._fn(self._raw(value))

    def _inv_apply_transform(self, state: Any) -> Any:
        return state if self._inv_fn is None else self._inv_fn(self._raw(state))

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        with tolerating_missing(self):
            return self._call(tensordict_reset)

    # Specs: the function says by itself what it makes of zeros.

    def _spec_of(self, value: Any, batch: torch.Size) -> TensorSpec:
        if isinstance(value, torch.Tensor):
            return Unbounded(value.shape, dtype=value.dtype, device=value.device)
        if is_tensor_collection(value) and type(value).__name__ not in _NON_TENSORS:
            return make_composite_from_td(value, unsqueeze_null_shapes=False)
        data = value.data if type(value).__name__ == "NonTensorData" else value
        return NonTensor(shape=batch, example_data=data)

    def _with_results(self, spec: Any, test_spec: Any, in_keys: Any, out_keys: Any, function: Any) -> Any:
        there = set(spec.keys(True))
        for in_key, out_key in zip(in_keys, out_keys, strict=True):
            if in_key in there:
                zeros = test_spec.zero().get(in_key)
                spec[out_key] = self._spec_of(function(zeros), spec.shape)
        return spec

    def transform_observation_spec(self, observation_spec: Any, test_output_spec: Any = None) -> TensorSpec:
        """With what the function makes of observations.

        Args:
            observation_spec: a composite.
            test_output_spec: whose zeros the function is tried with; default: the same.
        """
        return self._output(observation_spec, test_output_spec)  # type: ignore[no-any-return]

    def transform_reward_spec(self, reward_spec: Any, test_output_spec: Any = None) -> TensorSpec:
        """With what the function makes of rewards.

        Args:
            reward_spec: a composite.
            test_output_spec: whose zeros the function is tried with; default: the same.
        """
        return self._output(reward_spec, test_output_spec)  # type: ignore[no-any-return]

    def transform_done_spec(self, done_spec: Any, test_output_spec: Any = None) -> TensorSpec:
        """With what the function makes of ends.

        Args:
            done_spec: a composite.
            test_output_spec: whose zeros the function is tried with; default: the same.
        """
        return self._output(done_spec, test_output_spec)  # type: ignore[no-any-return]

    def _output(self, spec: Any, test_spec: Any) -> Any:
        test_spec = spec.clone() if test_spec is None else test_spec
        return self._with_results(spec, test_spec, self.in_keys, self.out_keys, self._apply_transform)

    def transform_action_spec(self, action_spec: Any, test_input_spec: Any = None) -> TensorSpec:
        """With what the inverse makes of actions.

        Args:
            action_spec: a composite.
            test_input_spec: whose zeros the inverse is tried with; default: the same.
        """
        return self._input(action_spec, test_input_spec)  # type: ignore[no-any-return]

    def transform_state_spec(self, state_spec: Any, test_input_spec: Any = None) -> TensorSpec:
        """With what the inverse makes of the state.

        Args:
            state_spec: a composite.
            test_input_spec: whose zeros the inverse is tried with; default: the same.
        """
        return self._input(state_spec, test_input_spec)  # type: ignore[no-any-return]

    def _input(self, spec: Any, test_spec: Any) -> Any:
        test_spec = spec.clone() if test_spec is None else test_spec
        return self._with_results(spec, test_spec, self.in_keys_inv, self.out_keys_inv, self._inv_apply_transform)
