"""Acting with a decision transformer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict.nn.common import TensorDictModuleWrapper, dispatch

_NAMES = ("observation", "action", "return_to_go", "out_action")


class DecisionTransformerInferenceWrapper(TensorDictModuleWrapper):
    """A decision transformer that gives the action of the last step, from the last few steps.

    Args:
        policy: reads observations, actions and returns to go (*batch, T, ...), and writes actions, or parameters of
            their distribution.
        inference_context: how many last steps are seen; those before are 0.
        spec: kept as an attribute.
        device: kept as an attribute.

    Raises:
        ValueError: from `forward`, entries have different numbers of dimensions.
    """

    def __init__(self, policy: Any, *, inference_context: int = 5, spec: Any = None, device: Any = None) -> None:
        super().__init__(policy)
        self.observation_key: Any = "observation"
        self.action_key: Any = "action"
        self.out_action_key: Any = "action"
        self.return_to_go_key: Any = "return_to_go"
        self.inference_context, self._spec, self.device = inference_context, spec, device

    @property
    def in_keys(self) -> list[Any]:
        """Of observation, action and return to go."""
        return [self.observation_key, self.action_key, self.return_to_go_key]

    @in_keys.setter
    def in_keys(self, keys: Any) -> None:
        if keys is not None:
            self.__dict__["_wrapped_in_keys"] = list(keys)

    @property  # type: ignore[misc]
    def out_keys(self) -> list[Any]:
        """What the policy writes, then what is read."""
        keys = [self.out_action_key, self.observation_key, self.return_to_go_key]
        return list(
            dict.fromkeys([*sorted(self.td_module.out_keys, key=lambda key: key != self.out_action_key), *keys])
        )

    def set_tensor_keys(self, **kwargs: Any) -> None:
        """Set keys.

        Args:
            **kwargs: `observation`, `action`, `return_to_go`, `out_action`.

        Raises:
            TypeError: another name.
        """
        if unknown := kwargs.keys() - set(_NAMES):
            raise TypeError(f"set_tensor_keys: got {sorted(unknown)}, expected some of {', '.join(_NAMES)}.")
        for name, key in kwargs.items():
            setattr(self, f"{name}_key", key)

    def check_keys(self) -> None:
        """Raise KeyError unless the policy reads and writes the keys that are set."""
        if absent := [key for key in self.in_keys if key not in self.td_module.in_keys]:
            raise KeyError(f"the policy reads {self.td_module.in_keys}, which lack {absent}; see set_tensor_keys.")
        if self.out_action_key not in self.td_module.out_keys:
            raise KeyError(
                f"the policy writes {self.td_module.out_keys}, which lack {self.out_action_key!r}; see set_tensor_keys."
            )

    def step(self, frames: int = 1) -> None:
        """Nothing: there is no exploration to anneal."""

    def mask_context(self, tensordict: Any) -> Any:
        """A copy with 0 in all steps but the last few; actions are one step on, and the last one is 0, to be found."""
        result = tensordict.copy()
        for key in self.in_keys:
            value: Tensor = result.get(key).clone()
            if key == self.action_key:
                value = torch.cat([value[..., 1:, :], torch.zeros_like(value[..., :1, :])], -2)
            value[..., : -self.inference_context, :] = 0
            result.set(key, value)
        return result

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any) -> Any:
        """The last action, in a tensordict of its own without the dimension of time."""
        values = {key: tensordict.get(key, None) for key in self.in_keys}
        if absent := [key for key, value in values.items() if value is None]:
            raise KeyError(
                f"DecisionTransformerInferenceWrapper: there are no {absent}; the tensordict has "
                f"{list(tensordict.keys(True, True))[:10]}. See set_tensor_keys."
            )
        if len({value.ndim for value in values.values()}) > 1:
            shapes = {str(key): tuple(value.shape) for key, value in values.items()}
            raise ValueError(f"DecisionTransformerInferenceWrapper: dimensions differ: {shapes}.")
        out = self.td_module(self.mask_context(tensordict))
        if tensordict.ndim == values[self.observation_key].ndim - 1:  # time is a dimension of the batch
            out = out.copy()
            out.batch_size = torch.Size(out.batch_size[:-1])
        out = out.select(*(key for key in out.keys(True, True) if key in self.out_keys))
        out.set(self.observation_key, values[self.observation_key])
        for key in (self.out_action_key, self.return_to_go_key):
            if (value := out.get(key, None)) is not None:
                out.set(key, value[..., -1, :])
        return out
