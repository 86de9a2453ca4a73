"""Transforms that leave values as they are: they look whether these are finite, or pin their memory."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms.utils import check_finite

__all__ = ["FiniteTensorDictCheck", "PinMemoryTransform"]


class FiniteTensorDictCheck(Transform):
    """Raises where a value is NaN or infinite.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> FiniteTensorDictCheck()(TensorDict({"x": torch.tensor([0.0, float("nan")])}))
        Traceback (most recent call last):
        ...
        ValueError: Of 2 values 1 are not finite; 1 of them are NaN.
    """

    def __init__(self) -> None:
        super().__init__(in_keys=[])

    def _call(self, next_tensordict: Any) -> Any:
        next_tensordict.apply(check_finite, filter_empty=True)
        return next_tensordict

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def forward(self, tensordict: Any) -> Any:
        """Look at data.

        Args:
            tensordict: is returned as it is.

        Raises:
            ValueError: a value is not finite.
        """
        return self._call(tensordict)


class PinMemoryTransform(Transform):
    """Values in page-locked memory, from where they are copied to a GPU faster, and without waiting."""

    def _call(self, next_tensordict: Any) -> Any:
        if not torch.cuda.is_available():
            raise RuntimeError("PinMemoryTransform locks memory for a GPU, and no GPU is available.")
        return next_tensordict.pin_memory()

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def forward(self, tensordict: Any) -> Any:
        """Move data into page-locked memory.

        Args:
            tensordict: any.

        Raises:
            RuntimeError: there is no GPU.
        """
        return self._call(tensordict)
