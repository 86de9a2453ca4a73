"""What the families of a lazy stack's methods ask of the stack, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import torch
    from torch import Tensor

    from flambeau.data.tensordict.base import TensorDictBase

    class StackMethods(TensorDictBase):
        """The base of a family of methods; `LazyStackedTensorDict` has the members."""

        tensordicts: list[Any]
        stack_dim: int
        hook_out: Callable[[Any], Any] | None
        hook_in: Callable[[Any], Any] | None
        _element_size: torch.Size
        _stack_dim_name: str | None

        def __init__(self, *tensordicts: Any, stack_dim: int = 0, **options: Any) -> None: ...
        def _like(self, tensordicts: list[Any], stack_dim: int | None = None) -> Any: ...
        def _each_td(self, function: Callable[[Any], Any], stack_dim: int | None = None) -> Any: ...
        def _is_even(self) -> bool: ...
        def _fitted(self, value: Any, size: torch.Size) -> Any: ...
        def _below(self, dim: int) -> int: ...
        def _dense(self) -> Any: ...
        def _locked_alike(self, part: Any) -> Any: ...
        def _nest(self, tds: list[Any], shape: torch.Size, place: int) -> Any: ...
        def _nested_tensor(self, key: str, values: list[Tensor], layout: torch.layout | None) -> Tensor: ...

else:  # nothing at run time
    StackMethods = object
