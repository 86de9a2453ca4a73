"""`MemoryMappedTensor`: a tensor whose memory is a file, or memory that processes share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from flambeau.data.tensordict.memmap import nested
from flambeau.data.tensordict.memmap.files import Mode, check_mode, create_sized, map_file
from flambeau.data.tensordict.memmap.parallel import write_complete
from flambeau.data.tensordict.memmap.shared import SharedHandle

_HANDLED: dict[Callable[..., Any], Callable[..., Any]] = {}


def implements_for_memmap(torch_function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: what a torch function does with memory-mapped tensors, in place of torch's own."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _HANDLED[torch_function] = function
        return function

    return decorate


class MemoryMappedTensor(Tensor):
    """A tensor over a file, or over shared memory without a name.

    It is a `torch.Tensor` in every respect; what is written in place reaches the file. Views taken by slicing, integer
    indexing, `unbind`, `split` and `chunk` are memory-mapped tensors again; whatever makes new elements gives
    plain tensors. A pickle holds the file's name, or the shared memory's handle, and no elements.

    Args:
        source: a tensor to copy into the new memory; None to map what exists, by `filename` or `handler`.
        dtype: of the elements; only without `source`.
        shape: of the tensor; only without `source`.
        index: taken of the mapped tensor.
        device: None or "cpu".
        handler: shared memory to map.
        filename: the file to map, or to create for `source`.

    Example:
        >>> tensor = MemoryMappedTensor.from_tensor(torch.zeros(3, 4))
        >>> tensor[1:].fill_(1).sum()
        tensor(8.)
    """

    _filename: str | None
    _handler: SharedHandle | None
    _nested: nested.Jagged | None
    _readonly: bool
    _read_only_class: ClassVar[type[MemoryMappedTensor]]  # `readonly.ReadOnly`, which puts itself here

    def __new__(  # noqa: D102 - the class's docstring has the arguments
        cls,
        source: Any,
        *,
        dtype: torch.dtype | None = None,
        shape: Sequence[int] | None = None,
        index: Any = None,
        device: torch.device | None = None,
        handler: SharedHandle | None = None,
        filename: str | Path | None = None,
    ) -> Self:
        _check_device(device)
        if source is None:
            if shape is None or dtype is None or (handler is None) == (filename is None):
                raise TypeError("without `source`, `dtype`, `shape` and one of `filename` and `handler` are needed.")
            if handler is not None:
                return cls.from_handler(handler, dtype, shape, index)
            return cls.from_filename(filename, dtype, shape, index)
        if isinstance(source, torch.UntypedStorage):
            return cls.from_storage(
                source, shape=shape, dtype=dtype, device=device, index=index, filename=filename, handler=handler
            )
        return cls.from_tensor(torch.as_tensor(source), filename=filename)

    @classmethod
    def from_tensor(
        cls,
        input: Tensor,
        *,
        filename: str | Path | None = None,
        existsok: bool = False,
        copy_existing: bool = False,
        copy_data: bool = True,
        shape: torch.Size | Tensor | None = None,
    ) -> Self:
        """Copy a tensor into a file or into shared memory.

        Args:
            input: any dense or nested tensor, on any device.
            filename: the file to write; None for shared memory. A file is complete when it appears.
            existsok: replace a file that exists.
            copy_existing: copy a tensor that is mapped to another file; otherwise that is an error, since it usually
                means that two files are taken for one.
            copy_data: False leaves zeros.
            shape: another shape of as many elements; for nested tensors the (tensors, dims) int64 sizes.

        Raises:
            RuntimeError: the file exists, or `input` lies in another file.
        """
        path = None if filename is None else _absolute(filename)
        if isinstance(input, MemoryMappedTensor):
            where = input._filename
            if where == path and shape is None:
                return input  # type: ignore[return-value]
            if not copy_existing and where is not None:
                raise RuntimeError(
                    f"the tensor lies in {where} already, and a copy in {path or 'shared memory'} was asked for; pass "
                    "copy_existing=True if that is meant."
                )
        if path is not None and not existsok and Path(path).exists():
            raise RuntimeError(f"{path} exists; pass existsok=True to replace it, or choose another name.")
        if input.is_nested:
            sizes: Any = shape
            return nested.from_nested(cls, input, path, sizes=sizes, copy_data=copy_data)
        data = input.detach()
        size = torch.Size(data.shape if shape is None else shape)
        nbytes = size.numel() * data.element_size()
        if path is None:
            made = cls._anonymous(size, data.dtype, nbytes)
            if copy_data and nbytes:
                made.as_subclass(Tensor).copy_(data.reshape(size))
            return made
        write_complete(path, data.reshape(size) if copy_data else None, nbytes)
        return cls._mapped(path, data.dtype, size, "r+")

    @classmethod
    def from_filename(
        cls,
        filename: str | Path | None,
        dtype: torch.dtype,
        shape: Sequence[int] | Tensor,
        index: Any = None,
        *,
        mode: Mode = "r+",
    ) -> Self:
        """Map a file that exists.

        Args:
            filename: raw little-endian elements, row-major, without header.
            dtype: of the elements.
            shape: of the tensor; a (tensors, dims) int64 tensor of sizes for a nested one.
            index: taken of the tensor.
            mode: "r+" writes to the file; "r" raises on every in-place write; "c" keeps writes to this tensor. Files
                without write permission are mapped as with "r".

        Raises:
            FileNotFoundError: there is no such file.
            TruncatedFileError: it is too short for the shape.
        """
        check_mode(mode)
        if filename is None:
            raise TypeError("filename is None; from_filename maps a file.")
        path = _absolute(filename)
        if isinstance(shape, Tensor):
            return nested.from_file(cls, path, dtype, shape, mode)
        made: Any = cls._mapped(path, dtype, torch.Size(shape), mode)
        return made if index is None else made[index]

    @classmethod
    def from_handler(
        cls, handler: SharedHandle, dtype: torch.dtype, shape: Sequence[int] | Tensor, index: Any = None
    ) -> Self:
        """Map shared memory by its handle, as another process got it."""
        if isinstance(shape, Tensor):
            return nested.from_memory(cls, handler.storage, dtype, shape, handler=handler)
        made: Any = cls._over(handler.storage, dtype, torch.Size(shape), handler=handler)
        return made if index is None else made[index]

    @classmethod
    def from_storage(
        cls,
        storage: torch.UntypedStorage,
        *,
        shape: Sequence[int] | Tensor | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        index: Any = None,
        filename: Path | str | None = None,
        handler: SharedHandle | None = None,
    ) -> Self:
        """A tensor over memory that is mapped already.

        Args:
            storage: the memory.
            shape: of the tensor; None takes all of the storage in one dimension. Nested: the int64 sizes.
            dtype: of the elements, default float32.
            device: None or "cpu".
            index: taken of the tensor.
            filename: the file that `storage` maps.
            handler: the shared memory that `storage` maps.

        Raises:
            RuntimeError: `filename` and `handler` are both given, or the storage is too small.
        """
        _check_device(device)
        if filename is not None and handler is not None:
            raise RuntimeError("filename and handler exclude each other; pass the one that `storage` maps.")
        dtype = dtype or torch.get_default_dtype()
        path = None if filename is None else _absolute(filename)
        if isinstance(shape, Tensor):
            return nested.from_memory(cls, storage, dtype, shape, filename=path, handler=handler)
        size = torch.Size([storage.nbytes() // dtype.itemsize] if shape is None else shape)
        if size.numel() * dtype.itemsize > storage.nbytes():
            raise RuntimeError(
                f"the storage has {storage.nbytes():,} bytes; shape {tuple(size)} of {dtype} needs "
                f"{size.numel() * dtype.itemsize:,}."
            )
        made: Any = cls._over(storage, dtype, size, filename=path, handler=handler)
        return made if index is None else made[index]

    @classmethod
    def empty(
        cls,
        *shape: Any,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        filename: str | Path | None = None,
        existsok: bool = False,
        **named: Any,
    ) -> Self:
        """New memory of a shape, in a file or shared; its elements are zero, which costs nothing.

        Args:
            shape: sizes, as integers, as one sequence or by the name `shape`; an int64 tensor of sizes makes a nested
                tensor.
            dtype: default `torch.get_default_dtype()`.
            device: None or "cpu".
            filename: the file to create; None for shared memory.
            existsok: replace a file that exists.
            named: `shape`, and nothing else.

        Raises:
            TypeError: no shape is given, or it is given twice.
            RuntimeError: the file exists.
            StorageFullError: there is no room for it.
        """
        _check_device(device)
        shape = _shape_given(shape, named)
        dtype = dtype or torch.get_default_dtype()
        if len(shape) == 1 and isinstance(shape[0], Tensor):
            return cls.empty_nested(shape[0], dtype=dtype, filename=filename, existsok=existsok)
        size = torch.Size(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        nbytes = size.numel() * dtype.itemsize
        if filename is None:
            return cls._anonymous(size, dtype, nbytes)
        path = _absolute(filename)
        _free(path, existsok)
        create_sized(path, nbytes)
        return cls._mapped(path, dtype, size, "r+")

    @classmethod
    def empty_nested(
        cls,
        shape: Tensor,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        filename: str | Path | None = None,
        existsok: bool = False,
    ) -> Self:
        """As `empty`, for a nested tensor: `shape` is (tensors, dims), int64, one size in each row."""
        _check_device(device)
        dtype = dtype or torch.get_default_dtype()
        nbytes = nested.numel(shape) * dtype.itemsize
        if filename is None:
            handler = SharedHandle(max(nbytes, 1))
            return nested.from_memory(cls, handler.storage, dtype, shape, handler=handler)
        path = _absolute(filename)
        _free(path, existsok)
        create_sized(path, nbytes)
        return nested.from_file(cls, path, dtype, shape, "r+")

    @classmethod
    def zeros(cls, *shape: Any, **options: Any) -> Self:
        """As `empty`: new memory is zero."""
        return cls.empty(*shape, **options)

    @classmethod
    def ones(cls, *shape: Any, **options: Any) -> Self:
        """As `empty`, filled with ones."""
        return cls.full(*shape, fill_value=1, **{**options, "dtype": options.get("dtype") or torch.get_default_dtype()})

    @classmethod
    def full(cls, *shape: Any, fill_value: Any, **options: Any) -> Self:
        """As `empty`, filled with a value."""
        shape = _shape_given(shape, {name: options.pop(name) for name in ("shape",) if name in options})
        if options.get("dtype") is None:
            options["dtype"] = torch.full((), fill_value).dtype
        made = cls.empty(*shape, **options)
        made.as_subclass(Tensor).fill_(fill_value)
        return made

    @classmethod
    def empty_like(cls, input: Tensor, *, filename: str | Path | None = None) -> Self:
        """New memory of another tensor's shape and dtype; zeros."""
        return cls.from_tensor(input, filename=filename, copy_data=False, copy_existing=True)

    @classmethod
    def zeros_like(cls, input: Tensor, *, filename: str | Path | None = None) -> Self:
        """New memory of another tensor's shape and dtype; zeros."""
        return cls.empty_like(input, filename=filename)

    @classmethod
    def ones_like(cls, input: Tensor, *, filename: str | Path | None = None) -> Self:
        """New memory of another tensor's shape and dtype, filled with ones."""
        return cls.full_like(input, 1, filename=filename)

    @classmethod
    def full_like(cls, input: Tensor, fill_value: Any, *, filename: str | Path | None = None) -> Self:
        """New memory of another tensor's shape and dtype, filled with a value."""
        made = cls.empty_like(input, filename=filename)
        made.as_subclass(Tensor).fill_(fill_value)
        return made

    @property
    def filename(self) -> str:
        """The file's absolute path.

        Raises:
            RuntimeError: the tensor lies in shared memory without a name.
        """
        if self._filename is None:
            raise RuntimeError("this MemoryMappedTensor lies in shared memory and has no file; see `filehandler`.")
        return self._filename

    @property
    def filehandler(self) -> SharedHandle:
        """The handle of the shared memory.

        Raises:
            RuntimeError: the tensor lies in a file.
        """
        if self._handler is None:
            raise RuntimeError(f"this MemoryMappedTensor lies in {self._filename} and has no handle; see `filename`.")
        return self._handler

    @classmethod
    def _mapped(cls, path: str, dtype: torch.dtype, shape: torch.Size, mode: Mode) -> Self:
        storage, readonly = map_file(path, shape.numel() * dtype.itemsize, mode)
        return cls._over(storage, dtype, shape, filename=path, readonly=readonly)

    @classmethod
    def _anonymous(cls, shape: torch.Size, dtype: torch.dtype, nbytes: int) -> Self:
        handler = SharedHandle(max(nbytes, 1))
        return cls._over(handler.storage, dtype, shape, handler=handler)

    @classmethod
    def _over(
        cls,
        storage: torch.UntypedStorage,
        dtype: torch.dtype,
        shape: torch.Size,
        *,
        offset: int = 0,
        filename: str | None = None,
        handler: SharedHandle | None = None,
        readonly: bool = False,
    ) -> Self:
        """A tensor at an offset, in elements, of mapped memory."""
        plain = torch.empty(0, dtype=dtype).set_(storage, offset, shape)  # type: ignore[call-overload]  # torch lacks it
        made: Any = plain.as_subclass(MemoryMappedTensor._read_only_class if readonly else cls)
        made._filename, made._handler, made._readonly, made._nested = filename, handler, readonly, None
        return made

    def _like(self, view: Tensor) -> Tensor:
        """Call a view of this memory a memory-mapped tensor; anything else stays plain."""
        if view is self or view.untyped_storage()._cdata != self.untyped_storage()._cdata:
            return view
        made: Any = view.as_subclass(type(self))
        made._filename, made._handler, made._readonly, made._nested = (
            self._filename,
            self._handler,
            self._readonly,
            None,
        )
        return made

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in _HANDLED:
            return _HANDLED[func](*args, **(kwargs or {}))
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def __getitem__(self, item: Any) -> Tensor:
        with DisableTorchFunctionSubclass():
            return self._like(super().__getitem__(item))

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Views of this memory without one dimension."""
        with DisableTorchFunctionSubclass():
            return tuple(self._like(part) for part in super().unbind(dim))

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Views of this memory, cut along a dimension."""
        with DisableTorchFunctionSubclass():
            return tuple(self._like(part) for part in super().split(split_size, dim))  # type: ignore[no-untyped-call]  # torch's

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Views of this memory, cut along a dimension into a number of parts."""
        with DisableTorchFunctionSubclass():
            return tuple(self._like(part) for part in super().chunk(chunks, dim))

    def __reduce_ex__(self, protocol: Any) -> Any:
        where = self._handler if self._filename is None else self._filename
        if self._nested is not None:
            return nested.rebuild, (MemoryMappedTensor, where, self.dtype, self._nested.sizes, self._readonly)
        plain = self.as_subclass(Tensor)
        view = (plain.dtype, tuple(plain.shape), plain.stride(), plain.storage_offset())
        return _rebuild, (where, plain.untyped_storage().nbytes(), *view, self._readonly)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.clone()

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]  # torch's has no types
        with DisableTorchFunctionSubclass():
            text = super().__repr__(tensor_contents=tensor_contents)  # type: ignore[no-untyped-call, call-arg]  # torch's
        return text if text.startswith("MemoryMappedTensor(") else f"MemoryMappedTensor({text})"


def _rebuild(
    where: str | SharedHandle,
    nbytes: int,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    readonly: bool,
) -> MemoryMappedTensor:
    """The tensor that a pickle describes."""
    if isinstance(where, SharedHandle):
        storage, filename, handler = where.storage, None, where
    else:
        storage, readonly = map_file(where, nbytes, "r" if readonly else "r+")
        filename, handler = where, None
    made = MemoryMappedTensor._over(
        storage, dtype, torch.Size([0]), filename=filename, handler=handler, readonly=readonly
    )
    with DisableTorchFunctionSubclass():
        made.set_(storage, offset, shape, stride)
    return made


def _absolute(filename: str | Path) -> str:
    return os.path.abspath(filename)  # noqa: PTH100 - of a string, and links stay as they are


def _free(path: str, existsok: bool) -> None:
    if not existsok and Path(path).exists():
        raise RuntimeError(f"{path} exists; pass existsok=True to replace it, or choose another name.")


def _check_device(device: Any) -> None:
    if device is not None and torch.device(device).type != "cpu":
        raise ValueError(f"device is {device}; files are mapped into the CPU's memory: pass None or 'cpu'.")


def _shape_given(shape: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The shape of positional arguments or of the one by name."""
    given = named.pop("shape", None)
    if named:
        raise TypeError(f"unknown arguments {sorted(named)}.")
    if (given is None) == (not shape):
        raise TypeError("give the shape as integers, as one sequence, or by the name `shape`.")
    return shape if given is None else (given,)
