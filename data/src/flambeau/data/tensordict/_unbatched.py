"""`UnbatchedTensor`: an entry that has no batch dimensions of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class UnbatchedTensor(Tensor):
    """A tensor that every element of a batch shares; shape operations of its tensordict leave it alone.

    Args:
        data: any tensor.
        batch_size: of the tensordict that holds it; set when it is put there.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> td = TensorDict(a=torch.zeros(3), mean=UnbatchedTensor(torch.ones(7)), batch_size=[3])
        >>> td[0]["mean"].shape
        torch.Size([7])
    """

    _is_unbatched = True
    _batch_size: torch.Size = torch.Size(())

    @staticmethod
    def __new__(cls, data: Tensor, batch_size: Sequence[int] | None = None) -> UnbatchedTensor:
        """See the class."""
        new = torch.as_tensor(data).as_subclass(cls)
        if batch_size is not None:
            new._batch_size = torch.Size(batch_size)
        return new

    @property
    def batch_size(self) -> torch.Size:
        """The batch size of the tensordict that holds it."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, size: Sequence[int]) -> None:
        self._batch_size = torch.Size(size)

    def _within(self, batch_size: torch.Size) -> UnbatchedTensor:
        """The same tensor in a tensordict of this batch size."""
        if batch_size == self._batch_size:
            return self
        return UnbatchedTensor(self.as_subclass(Tensor), batch_size)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """As for tensors; results stay unbatched."""
        result = super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]  # torch's
        source = next((arg for arg in args if isinstance(arg, UnbatchedTensor)), None)
        if isinstance(result, UnbatchedTensor) and source is not None and result is not source:
            result._batch_size = source._batch_size
        return result

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]  # torch leaves its own without types
        return f"{type(self).__name__}({self.as_subclass(Tensor)!r})"


def batched(function: Callable[[Any], Any], value: Any, batch_size: torch.Size) -> Any:
    """A function of an entry, but for unbatched ones, which move on to another batch size."""
    return value._within(batch_size) if isinstance(value, UnbatchedTensor) else function(value)
