"""New tensordicts with the keys, dtypes and feature shapes of this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.defaults import NO_DEFAULT
from flambeau.data.tensordict._layout.non_tensor import resized
from flambeau.data.tensordict._layout.sizes import as_device
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection


class NewMethods(CollectionMethods):
    """`new_zeros` and its relatives: the sizes given are batch sizes."""

    def _new(self, make: Callable[..., Tensor], size: Any, device: Any, empty_lazy: bool, options: Any) -> Any:
        new = torch.Size(size[0]) if len(size) == 1 and not isinstance(size[0], int) else torch.Size(size)
        width = len(self.batch_size)
        device = self.device if device is NO_DEFAULT else None if device is None else as_device(device)
        given = {name: value for name, value in options.items() if value is not None}
        if device is not None:
            given["device"] = device
        data = {}
        for key, value in self._items():
            shape = (*new, *value.shape[width:])
            if not isinstance(value, TensorCollection):
                data[key] = make(value, shape, given)
            elif value._is_non_tensor:
                data[key] = resized(value, torch.Size(shape))
            else:
                data[key] = value._new(make, (shape,), NO_DEFAULT if device is None else device, empty_lazy, options)
        return self._result(data, new, device, self._names_or_none() if len(new) == width else None)

    def new_zeros(
        self, *size: Any, dtype: Any = None, device: Any = NO_DEFAULT, requires_grad: bool = False,
        layout: Any = torch.strided, pin_memory: bool | None = None, empty_lazy: bool = False,
    ) -> Self:  # fmt: skip
        """Zeros of these dtypes and feature shapes with batch size `size`; arguments as `torch.Tensor.new_zeros`."""
        options = {"dtype": dtype, "requires_grad": requires_grad, "layout": layout, "pin_memory": pin_memory}
        return self._new(lambda value, shape, given: value.new_zeros(shape, **given), size, device, empty_lazy, options)

    def new_ones(
        self, *size: Any, dtype: Any = None, device: Any = NO_DEFAULT, requires_grad: bool = False,
        layout: Any = torch.strided, pin_memory: bool | None = None, empty_lazy: bool = False,
    ) -> Self:  # fmt: skip
        """Ones of these dtypes and feature shapes with the batch size `size`; arguments as `torch.Tensor.new_ones`."""
        options = {"dtype": dtype, "requires_grad": requires_grad, "layout": layout, "pin_memory": pin_memory}
        return self._new(lambda value, shape, given: value.new_ones(shape, **given), size, device, empty_lazy, options)

    def new_empty(
        self, *size: Any, dtype: Any = None, device: Any = NO_DEFAULT, requires_grad: bool = False,
        layout: Any = torch.strided, pin_memory: bool | None = None, empty_lazy: bool = False,
    ) -> Self:  # fmt: skip
        """Memory of these dtypes and feature shapes with batch size `size`; arguments as `torch.Tensor.new_empty`."""
        options = {"dtype": dtype, "requires_grad": requires_grad, "layout": layout, "pin_memory": pin_memory}
        return self._new(lambda value, shape, given: value.new_empty(shape, **given), size, device, empty_lazy, options)

    def new_full(
        self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = NO_DEFAULT, requires_grad: bool = False,
        layout: Any = torch.strided, pin_memory: bool | None = None, empty_lazy: bool = False,
    ) -> Self:  # fmt: skip
        """One value in these feature shapes with the batch size `size`; arguments as `torch.Tensor.new_full`."""
        options = {"dtype": dtype, "requires_grad": requires_grad, "layout": layout, "pin_memory": pin_memory}
        size = (size,) if isinstance(size, int) else tuple(size)
        return self._new(
            lambda value, shape, given: value.new_full(shape, fill_value, **given), size, device, empty_lazy, options
        )

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = NO_DEFAULT, requires_grad: bool = False,
        pin_memory: bool | None = None,
    ) -> Self:  # fmt: skip
        """A copy of `data`, with the dtypes of the entries here that have the same key.

        Args:
            data: a tensordict with keys of this one, or a tensor, which becomes every entry.
            dtype: another dtype for all.
            device: of the result; by default that of `data`, None for those of the entries here.
            requires_grad: of the new tensors.
            pin_memory: put them into page-locked memory.
        """
        device = data.device if device is NO_DEFAULT else None if device is None else as_device(device)

        def copy(model: Tensor, value: Tensor) -> Tensor:
            new = value.detach().clone().to(device or model.device, dtype or model.dtype)
            new.requires_grad_(requires_grad)
            return new.pin_memory() if pin_memory else new

        if isinstance(data, Tensor):
            return self._fast_apply(lambda model: copy(model, data), batch_size=data.shape, device=device)
        return self.select(*data._key_names())._fast_apply(copy, data, batch_size=data.batch_size, device=device)
