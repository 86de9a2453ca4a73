"""Device and dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.sizes import as_device, as_size
from flambeau.data.tensordict._methods.locking import LOCKED
from flambeau.data.tensordict._tensorcollection import CollectionMethods, TensorCollection

# name of the method -> dtype
_CASTS = {
    "bfloat16": torch.bfloat16, "bool": torch.bool, "complex128": torch.complex128, "complex32": torch.complex32,
    "complex64": torch.complex64, "double": torch.float64, "float": torch.float32, "float16": torch.float16,
    "float32": torch.float32, "float64": torch.float64, "half": torch.float16, "int": torch.int32, "int16": torch.int16,
    "int32": torch.int32, "int64": torch.int64, "int8": torch.int8, "qint32": torch.qint32, "qint8": torch.qint8,
    "quint4x2": torch.quint4x2, "quint8": torch.quint8, "uint16": torch.uint16, "uint32": torch.uint32,
    "uint64": torch.uint64, "uint8": torch.uint8,
}  # fmt: skip
_QUANTIZED = frozenset({torch.qint32, torch.qint8, torch.quint4x2, torch.quint8})


class DeviceMethods(CollectionMethods):
    """Moving and casting."""

    @property
    def is_cpu(self) -> bool:
        """Whether the device is the CPU."""
        return self.device is not None and self.device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a CUDA one."""
        return self.device is not None and self.device.type == "cuda"

    @property
    def is_meta(self) -> bool:
        """Whether the device is "meta": shapes without data."""
        return self.device is not None and self.device.type == "meta"

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Another device, dtype or batch size; `self` where nothing changes, but a copy after `to(collection)`.

        Args:
            args: a device, a dtype, another collection (whose device and batch size are taken) or tensor (whose
                device and dtype are), in any order.
            kwargs: `device`, `dtype`, `other`, `batch_size` by name; `non_blocking` (None: copies to and from
                CUDA overlap, and are complete when this returns); `non_blocking_pin` with `num_threads`: stage through
                pinned memory; `inplace`: change this tensordict.

        Raises:
            RuntimeError: `inplace`, something changes, and it is locked.
        """
        request = _request(args, kwargs)
        device, dtype, size = request["device"], request["dtype"], request["batch_size"]
        same_device = device is None or device == self.device
        result = self
        if not (same_device and dtype is None):
            if request["inplace"] and self.is_locked:
                raise RuntimeError(LOCKED)
            result = self._moved(None if same_device else device, dtype, request)
        if size is not None and size != result.batch_size:
            result = result.copy() if result is self and not request["inplace"] else result
            result.batch_size = size
        elif result is self and any(isinstance(arg, TensorCollection) for arg in args):
            result = self.copy()  # upstream: unlike `to(other=...)`
            if self.is_locked:
                result._propagate_lock()
        return result._remember("to", self)

    def _moved(self, device: torch.device | None, dtype: torch.dtype | None, request: dict[str, Any]) -> Any:
        if self._consolidated is not None and self.is_consolidated() and dtype is None and not request["inplace"]:
            return self._moved_whole(device, request["non_blocking"])
        leaves = self._leaves()
        wait = False
        non_blocking = request["non_blocking"]
        if device is not None:
            if request["non_blocking_pin"]:
                leaves = pinned(leaves, request["num_threads"])
            if non_blocking is None:
                wait = device.type != "cuda" and any(leaf.is_cuda for leaf in leaves)
                wait = wait or (device.type == "cuda" and any(leaf.device.type == "cpu" for leaf in leaves))
        options: dict[str, Any] = {"non_blocking": wait or bool(non_blocking)}
        if dtype is not None:
            options["dtype"] = dtype
        if device is not None:
            options["device"] = device
        moved = [leaf.to(**options) for leaf in leaves]
        if wait:
            _synchronize(leaves, device)
        return self._with_leaves(iter(moved), self.device if device is None else device, request["inplace"])

    def _with_leaves(self, leaves: Iterator[Tensor], device: torch.device | None, inplace: bool) -> Any:
        """Rebuild on a device, there and below; locked if this is."""
        if inplace:
            for key, value in list(self._items()):
                nested = isinstance(value, TensorCollection)
                if not nested:
                    self._set_str(key, next(leaves), validated=True, ignore_lock=True)
                elif not value._is_non_tensor:
                    value._with_leaves(leaves, device, True)
            self._set_device(device)
            return self
        result = self._rebuild(leaves)
        if result.device != device:
            result._set_device(device)
        if self.is_locked:
            result._lock_below(None)
        return result

    def _set_device(self, device: torch.device | None) -> None:
        """Note the device, here and below; the tensors are there already."""
        self._device = device
        for value in self._collections():
            value._set_device(device)

    def cpu(self, **kwargs: Any) -> Self:
        """`to("cpu")`."""
        return self.to("cpu", **kwargs)

    def cuda(self, device: int | None = None, **kwargs: Any) -> Self:
        """`to` a CUDA device, by default the current one."""
        return self.to(torch.device("cuda" if device is None else f"cuda:{device}"), **kwargs)

    def type(self, dst_type: torch.dtype) -> Self:
        """All tensors as another dtype."""
        return self._cast(dst_type)

    def _cast(self, dtype: torch.dtype) -> Any:
        if dtype in _QUANTIZED:
            return self._pointwise([torch.quantize_per_tensor(leaf, 1.0, 0, dtype) for leaf in self._leaves()])
        return self._rebuild(iter([leaf.to(dtype) for leaf in self._leaves()]))

    def is_floating_point(self) -> bool:
        """Whether all tensors are of a floating point dtype."""
        return all(leaf.is_floating_point() for leaf in self._leaves())

    def auto_device_(self) -> Self:
        """Note the device of the tensors if it is one and the same, otherwise none."""
        devices = {leaf.device for leaf in self._leaves()}
        self._set_device(devices.pop() if len(devices) == 1 else None)
        return self

    def clear_device_(self) -> Self:
        """Forget the device: entries may live anywhere. Nothing moves."""
        self._set_device(None)
        return self

    def pin_memory(self, num_threads: int | None = None, inplace: bool = False) -> Self:
        """With the tensors in page-locked memory, from which copies to CUDA devices are fast.

        Args:
            num_threads: that copy.
            inplace: change this tensordict.
        """
        leaves = pinned(self._leaves(), num_threads)
        return self._with_leaves(iter(leaves), self.device, inplace)

    def pin_memory_(self, num_threads: int | str = 0) -> Self:
        """`pin_memory` in place."""
        return self.pin_memory(None if isinstance(num_threads, str) else num_threads, inplace=True)

    def record_stream(self, stream: Any) -> Self:
        """Tell the allocator that a CUDA stream uses the tensors."""
        for leaf in self._leaves():
            leaf.record_stream(stream)
        return self

    def share_memory_(self) -> Self:
        """Move the tensors to memory that other processes can map, and lock; CUDA memory is shared anyway."""
        for leaf in self._leaves():
            if leaf.device.type == "cpu":
                leaf.share_memory_()
        self._mark_shared()
        return self.lock_()

    def _mark_shared(self) -> None:
        self._is_shared = True
        for value in self._collections():
            value._mark_shared()

    def is_shared(self) -> bool:
        """Whether all tensors lie in memory that other processes can map."""
        return self._is_shared or self.is_cuda

    def is_memmap(self) -> bool:
        """Whether all tensors are memory-mapped files: after `memmap` and its relatives, until it is unlocked."""
        return self._is_memmap and self.is_locked

    _is_shared: bool = False
    _is_memmap: bool = False


def _request(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    request: dict[str, Any] = {
        "device": None, "dtype": None, "batch_size": None, "non_blocking": None, "non_blocking_pin": False,
        "num_threads": None, "inplace": False, "other": None,
    }  # fmt: skip
    unknown = kwargs.keys() - request.keys()
    if unknown:
        raise TypeError(f"to() takes no {sorted(unknown)}; it takes {sorted(request)}.")
    request.update(kwargs)
    for arg in args:
        if isinstance(arg, torch.dtype):
            request["dtype"] = arg
        elif isinstance(arg, torch.Size):
            request["batch_size"] = arg
        elif isinstance(arg, (Tensor, TensorCollection)):
            request["other"] = arg
        elif isinstance(arg, bool):
            request["non_blocking"] = arg
        elif arg is not None:
            request["device"] = arg
    other = request["other"]
    if other is not None:
        request["device"] = other.device
        if isinstance(other, Tensor):
            request["dtype"] = other.dtype
        else:
            request["batch_size"] = other.batch_size
    if request["device"] is not None:
        request["device"] = as_device(request["device"])
    if request["batch_size"] is not None:
        request["batch_size"] = as_size(request["batch_size"])
    return request


def pinned(leaves: list[Tensor], num_threads: int | None) -> list[Tensor]:
    """Tensors in page-locked memory; `num_threads` copy (None or 0: this one)."""
    if not num_threads:
        return [leaf.pin_memory() for leaf in leaves]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(num_threads) as pool:
        return list(pool.map(Tensor.pin_memory, leaves))


def _synchronize(leaves: list[Tensor], device: torch.device | None) -> None:
    """Wait for copies between host and devices."""
    devices = {leaf.device for leaf in leaves if leaf.is_cuda}
    if device is not None and device.type == "cuda":
        devices.add(device)
    for one in devices:
        torch.cuda.current_stream(one).synchronize()


def _define_cast(name: str, dtype: torch.dtype) -> None:
    def method(self: Any) -> Any:
        result = self._cast(dtype)
        return result._propagate_lock() if self.is_locked and result is not self else result  # upstream: unlike `type`

    method.__name__, method.__qualname__ = name, f"DeviceMethods.{name}"
    ending = ", quantized with scale 1 and zero point 0." if dtype in _QUANTIZED else "."
    method.__doc__ = f"All tensors as `{dtype}`{ending}"
    setattr(DeviceMethods, name, method)


for _name, _dtype in _CASTS.items():
    _define_cast(_name, _dtype)
