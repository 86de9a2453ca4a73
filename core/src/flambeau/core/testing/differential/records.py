"""Values of either library as plain records, which can be compared without either.

A record consists of numbers, strings, tensors, lists, tuples and dictionaries. Names of the libraries' modules are
left out of it, of the class counts its name; so does, for every tensor, which memory seen earlier it shares.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, Set, ValuesView
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Record = Any
"""Numbers, strings, tensors, lists, tuples and dictionaries of such."""

Describer = Callable[[Any, "Recorder", str], Record]
"""Takes an object of a domain apart: object, recorder (for its parts), where it stands; `NotImplemented` if it is none
of its kinds."""

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_LONGEST_ITERATOR = 1000


class Recorder:
    """Makes the records of one run on one library.

    It remembers where each piece of memory was seen first, so a value described later says what it shares: describe the
    inputs, make the call, then describe the result and the inputs again.

    Args:
        roots: the libraries' root modules, ours and the peer's.
        describers: for objects of the domain, asked in order before anything else is tried.
        folder: path that reads "<folder>" in strings.
    """

    def __init__(
        self,
        roots: Sequence[str],
        describers: Sequence[Describer] = (),
        folder: Callable[[], Path | None] | None = None,
    ) -> None:
        # The longest first: one library's root may begin with the other's.
        self._roots = sorted(roots, key=len, reverse=True)
        self._describers = tuple(describers)
        self._folder = folder or (lambda: None)
        self._memory: list[tuple[int, int, str]] = []  # first byte, the one behind the last, where it was seen
        self._objects: dict[int, str] = {}
        self._alive: list[Any] = []  # else an address could come up again
        self._open: set[int] = set()

    def describe(self, value: Any, where: str = "result") -> Record:
        """The record of a value.

        Args:
            value: anything.
            where: its place, by which what shares memory with it will refer to it.
        """
        if id(value) in self._open:
            return f"<{self.class_name(type(value))} again>"
        self._open.add(id(value))
        try:
            for describer in self._describers:
                record = describer(value, self, where)
                if record is not NotImplemented:
                    return record
            return self._describe_common(value, where)
        finally:
            self._open.discard(id(value))

    def identity(self, value: Any, where: str) -> str:
        """Where this very object was seen first, "new" where it was not."""
        first = self._objects.setdefault(id(value), where)
        self._alive.append(value)
        return "new" if first == where else first

    def class_name(self, kind: type) -> str:
        """A class by its name; with its module unless it belongs to one of the libraries."""
        module = kind.__module__
        if module == "builtins" or any(module == root or module.startswith(f"{root}.") for root in self._roots):
            return kind.__qualname__
        return f"{module}.{kind.__qualname__}"

    def text(self, words: str) -> str:
        """A string without what is bound to differ: the run's folder, addresses, the libraries' root modules."""
        if (folder := self._folder()) is not None:
            words = words.replace(str(folder), "<folder>")
        for root in self._roots:
            words = re.sub(rf"\b{re.escape(root)}\b", "<library>", words)
        return _ADDRESS.sub("0x...", words)

    def tensor(self, value: Tensor, where: str) -> Record:
        """A tensor's type, shape, dtype, device, layout, need of gradients, memory and values."""
        record: dict[str, Record] = {
            "type": self.class_name(type(value)),
            "dtype": str(value.dtype),
            "device": str(value.device),
            "requires_grad": value.requires_grad,
        }
        if value.is_nested:
            parts = value.detach().unbind(0)
            return record | {"nested": [self.tensor(part, f"{where}[{at}]") for at, part in enumerate(parts)]}
        record["shape"] = list(value.shape)
        if value.layout is not torch.strided:
            record["layout"] = str(value.layout)
            value = value.to_dense()
        if value.device.type == "meta" or torch._C._functorch.is_functorch_wrapped_tensor(value):
            return record
        record["memory"] = self._shared(value, where)
        plain = value.detach().as_subclass(Tensor)
        plain = plain.resolve_conj().resolve_neg() if plain.is_complex() else plain.resolve_neg()
        record["values"] = plain.to("cpu", copy=True)
        return record

    def _shared(self, value: Tensor, where: str) -> str:
        if value.numel() == 0:
            return "none"
        try:
            start = value.data_ptr()
            self._alive.append(value.untyped_storage())
        except (RuntimeError, NotImplementedError):  # wrappers have none
            return "none"
        reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
        end = start + (reach + 1) * value.element_size()
        # Not by storages: leaves may lie side by side in one, which is nobody's business.
        for first, behind, place in self._memory:
            if first < end and start < behind:
                return "own" if place == where else f"{place} at byte {start - first}"
        self._memory.append((start, end, where))
        return "own"

    def _describe_common(self, value: Any, where: str) -> Record:
        if value is None or value is Ellipsis or isinstance(value, bool | int | float | complex | bytes):
            return value if type(value) in _PLAIN else {"type": self.class_name(type(value)), "value": repr(value)}
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Tensor):
            return self.tensor(value, where)
        if isinstance(value, torch.Size):
            return {"type": "torch.Size", "sizes": list(value)}
        if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
            return str(value)
        if isinstance(value, BaseException):
            return {"error": [self.class_name(kind) for kind in type(value).__mro__]}
        if isinstance(value, type):
            return f"<class {self.class_name(value)}>"
        if isinstance(value, Path):
            return {"path": self.text(str(value))}
        if isinstance(value, enum.Enum):
            return f"{self.class_name(type(value))}.{value.name}"
        if isinstance(value, torch.nn.Module):
            return self._module(value, where)
        if type(value).__module__ == "numpy":
            return self._array(value)
        return self._describe_container(value, where)

    def _describe_container(self, value: Any, where: str) -> Record:
        kind = self.class_name(type(value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            parts = {name: self.describe(getattr(value, name), f"{where}.{name}") for name in value._fields}
            return {"type": kind, "fields": parts}
        if isinstance(value, Mapping):
            items = {_key(key): self.describe(item, f"{where}[{key!r}]") for key, item in value.items()}
            return {"type": kind, "items": items}
        if isinstance(value, KeysView | ValuesView | ItemsView):
            return {"view": [self.describe(item, f"{where}[{at}]") for at, item in enumerate(value)]}
        if isinstance(value, Set):
            return {"type": kind, "members": sorted((self.describe(item, where) for item in value), key=repr)}
        if isinstance(value, list | tuple):
            items_ = [self.describe(item, f"{where}[{at}]") for at, item in enumerate(value)]
            return items_ if type(value) is list else {"type": kind, "items": items_}
        if isinstance(value, Iterator):
            return {"iterator": [self.describe(item, f"{where}[{at}]") for at, item in _bounded(value)]}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = {f.name: getattr(value, f.name, "<unset>") for f in dataclasses.fields(value)}
            return {"type": kind, "fields": {n: self.describe(p, f"{where}.{n}") for n, p in parts.items()}}
        if isinstance(value, types.ModuleType):
            return f"<module {self.text(value.__name__)}>"
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
            return f"<function {value.__qualname__.rpartition('.')[2]}>"
        return {"type": kind}

    def _module(self, module: torch.nn.Module, where: str) -> Record:
        """A module's class, mode, parameters and buffers by name, and the classes of its parts."""
        return {
            "type": self.class_name(type(module)),
            "training": module.training,
            "parts": {name: self.class_name(type(part)) for name, part in module.named_modules() if name},
            "parameters": {n: self.describe(p, f"{where}.{n}") for n, p in module.named_parameters()},
            "buffers": {n: self.describe(b, f"{where}.{n}") for n, b in module.named_buffers()},
        }

    def _array(self, value: Any) -> Record:
        import numpy

        array = numpy.asarray(value)
        record = {"type": self.class_name(type(value)), "dtype": str(array.dtype), "shape": list(array.shape)}
        return record | {"values": self.describe(array.tolist())}


_PLAIN = (type(None), bool, int, float, complex, bytes, type(Ellipsis))


def _key(key: Any) -> Any:
    """A dictionary's key, which may be an object, as a value that is equal for both libraries."""
    if isinstance(key, tuple):
        return tuple(_key(part) for part in key)
    return key if isinstance(key, str | int | float | bool | bytes | None) else str(key)


def _bounded(values: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    for at, value in enumerate(values):
        if at == _LONGEST_ITERATOR:
            return
        yield at, value
