"""A table that is not in memory, as a tensor: parts of it are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["PartiallyMaterializedTensor", "implements"]

_HANDLED_FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def implements(torch_function: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a function of torch do something else with tables that are not in memory.

    Args:
        torch_function: which one.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _HANDLED_FUNCTIONS[torch_function] = function
        return function

    return register


class PartiallyMaterializedTensor:
    """A table in a store, with as much of a tensor's interface as checkpoints need.

    Args:
        wrapped: the table: `shape`, `narrow(dim, start, length)`, `set_range(dim, start, length, values)`, and of
            virtual tables `set_weights_and_ids(weights, ids)` and `get_weights_by_ids(ids)`.
        is_virtual: whether rows are those of ids that came up, in the order of the ids.
    """

    def __init__(self, wrapped: Any, is_virtual: bool = False) -> None:
        self._wrapped, self._is_virtual = wrapped, is_virtual
        self._requires_grad = False

    @property
    def wrapped(self) -> Any:
        """The table."""
        return self._wrapped

    @property
    def is_virtual(self) -> bool:
        """Whether rows are those of ids that came up."""
        return self._is_virtual

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func not in _HANDLED_FUNCTIONS:
            return NotImplemented
        return _HANDLED_FUNCTIONS[func](*args, **(kwargs or {}))

    # ----- contents ---------------------------------------------------------------------------------------------------

    @implements(torch.narrow)
    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Some rows, as a tensor in memory.

        Args:
            dim: 0.
            start: the first of them.
            length: how many.

        Raises:
            ValueError: they are not all in the table.
        """
        found: Tensor = self._wrapped.narrow(dim, start, length)
        return found

    def set_weights_and_ids(self, weights: Tensor, ids: Tensor) -> None:
        """Overwrite the rows of some ids, and make those that are not there.

        Args:
            weights: (ids, columns).
            ids: each once.
        """
        self._wrapped.set_weights_and_ids(weights, ids)

    def get_weights_by_ids(self, ids: Tensor) -> Tensor:
        """The rows of some ids: (ids, columns)."""
        found: Tensor = self._wrapped.get_weights_by_ids(ids)
        return found

    def full_tensor(self) -> Tensor:
        """All rows; needs memory for them."""
        found: Tensor = self.narrow(0, 0, self.size(0))
        return found

    @implements(torch.isclose)
    def isclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
        """Elements that are close to those of another; both are read."""
        mine, others = (
            one.full_tensor() if isinstance(one, PartiallyMaterializedTensor) else one for one in (self, other)
        )
        close: Tensor = torch.isclose(mine, others, rtol=rtol, atol=atol, equal_nan=equal_nan)
        return close

    def copy_(self, src: Any, non_blocking: bool = False) -> PartiallyMaterializedTensor:
        """Overwrite all rows, some at a time.

        Args:
            src: (rows, columns), a tensor or another table.
            non_blocking: nothing is done in the background.
        """
        if tuple(src.shape) != tuple(self.shape):
            raise ValueError(f"src has shape {tuple(src.shape)}; expected {tuple(self.shape)}.")
        rows, columns = self.shape
        step = max((32 << 20) // max(columns * self.element_size(), 1), 1)
        for start in range(0, rows, step):
            count = min(step, rows - start)
            self._wrapped.set_range(0, start, count, src.narrow(0, start, count))
        return self

    def uniform_(self, low: float = 0.0, high: float = 1.0) -> PartiallyMaterializedTensor:
        """Overwrite all rows by uniform random numbers, some at a time."""
        rows, columns = self.shape
        step = max((32 << 20) // max(columns * self.element_size(), 1), 1)
        for start in range(0, rows, step):
            count = min(step, rows - start)
            made = torch.empty(count, columns, dtype=self.dtype).uniform_(low, high)
            self._wrapped.set_range(0, start, count, made)
        return self

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        """Upstream: what asks whether it has a parameter is told so, as checkpoints do."""
        return torch.nn.Parameter

    # ----- what a tensor says of itself -------------------------------------------------------------------------------

    @implements(torch.detach)
    def detach(self) -> PartiallyMaterializedTensor:
        """The table; it has no history."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> PartiallyMaterializedTensor:
        """The table: it stays on disk, whatever is asked for."""
        return self

    def is_floating_point(self) -> bool:
        """True."""
        return bool(self.dtype.is_floating_point)

    def _has_compatible_shallow_copy_type(self, other: Any) -> bool:
        return True

    def requires_grad_(self, requires_grad: bool = True) -> PartiallyMaterializedTensor:
        """Note whether gradients are wanted; it is trained by its module, and has none."""
        self._requires_grad = requires_grad
        return self

    @property
    def requires_grad(self) -> bool:
        """Whether gradients were asked for."""
        return self._requires_grad

    @property
    def grad(self) -> None:
        """None."""
        return None

    @property
    def grad_fn(self) -> None:
        """None."""
        return None

    @property
    def is_leaf(self) -> bool:
        """True."""
        return True

    @property
    def shape(self) -> torch.Size:
        """(rows, columns)."""
        return torch.Size(self._wrapped.shape)

    def size(self, dim: int | None = None) -> int | torch.Size:
        """The shape, or one of its sizes."""
        return self.shape if dim is None else self.shape[dim]

    def is_contiguous(self) -> bool:
        """True."""
        return True

    def is_pinned(self) -> bool:
        """False."""
        return False

    @property
    def dtype(self) -> torch.dtype:
        """Of elements."""
        text = getattr(self._wrapped, "dtype_str", None)
        if text is not None:
            return getattr(torch, str(text).removeprefix("torch."))  # type: ignore[no-any-return]
        return self._wrapped.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        """Where parts are read to: the CPU."""
        return torch.device("cpu")

    @property
    def layout(self) -> torch.layout:
        """Strided."""
        return torch.strided

    def view(self, *args: Any, **kwargs: Any) -> PartiallyMaterializedTensor:
        """The table: it has one shape."""
        return self

    @property
    def is_meta(self) -> bool:
        """False."""
        return False

    @property
    def is_quantized(self) -> bool:
        """False."""
        return False

    @property
    def is_mps(self) -> bool:
        """False."""
        return False

    @property
    def is_sparse(self) -> bool:
        """False."""
        return False

    def numel(self) -> int:
        """Elements of the table."""
        return self.shape.numel()

    def nelement(self) -> int:
        """Elements of the table."""
        return self.numel()

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def required_grad(self) -> bool:
        """Whether gradients were asked for."""
        return self._requires_grad

    def get_kvtensor_serializable_metadata(self) -> list[str]:
        """What another process needs to open the table; see `StoredTensor.serializable_metadata`."""
        found: list[str] = self._wrapped.get_kvtensor_serializable_metadata()
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> PartiallyMaterializedTensor:
        # Both are of the same table on disk.
        made = PartiallyMaterializedTensor(self._wrapped, self._is_virtual)
        memo[id(self)] = made
        return made

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, PartiallyMaterializedTensor | Tensor):
            return NotImplemented
        mine = self.full_tensor()
        return torch.eq(mine, other.full_tensor() if isinstance(other, PartiallyMaterializedTensor) else other)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"PartiallyMaterializedTensor(shape={tuple(self.shape)}, dtype={self.dtype})"
