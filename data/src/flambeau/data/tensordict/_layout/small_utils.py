"""Small helpers that upstream offers in `tensordict.utils`."""

from __future__ import annotations

import collections
import functools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn
from torch._C._functorch import is_batchedtensor as is_batchedtensor

from flambeau.data.tensordict._layout import classes

T = TypeVar("T", bound="Any")


class KeyDependentDefaultDict(collections.defaultdict):
    """A dict that makes the value of a missing key by calling a function with the key."""

    def __init__(self, fun: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fun = fun

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self.fun(key)
        return value


class Buffer(nn.Buffer):
    """A tensor that a module registers as buffer when it is set as attribute."""


class BufferLegacy(Buffer):
    """A buffer, by its older name."""


class timeit:
    """Adds up the time that blocks or functions take, by name: a context manager and a decorator.

    Args:
        name: under which the time is counted.
    """

    _times: ClassVar[dict[str, list[float]]] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function."""

        @functools.wraps(fn)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with timeit(self.name):
                return fn(*args, **kwargs)

        return timed

    def __enter__(self) -> timeit:
        self._start = time.perf_counter()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self._times.setdefault(self.name, []).append(time.perf_counter() - self._start)

    @staticmethod
    def print(prefix: str | None = None) -> str:
        """Log, and return, a line per name: mean milliseconds and the sum in seconds."""
        import logging

        lines = [
            f"{prefix or ''}{name} took {1e3 * sum(times) / len(times):.6f} msec (total = {sum(times):.6f} sec)"
            for name, times in sorted(timeit._times.items(), key=lambda item: -sum(item[1]))
        ]
        text = "\n".join(lines)
        logging.getLogger("flambeau.data.tensordict").info(text)
        return text

    @staticmethod
    def erase() -> None:
        """Forget all times."""
        timeit._times.clear()


def cache(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Keep what a method of a tensordict returns for its arguments, as long as the tensordict is locked."""

    @functools.wraps(fun)
    def cached(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_locked or torch.compiler.is_compiling():
            return fun(self, *args, **kwargs)
        if self._cache is None:
            self._cache = {}
        key = (fun.__name__, args, tuple(sorted(kwargs.items())))
        if key not in self._cache:
            self._cache[key] = fun(self, *args, **kwargs)
        return self._cache[key]

    return cached


def erase_cache(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Drop what `cache` kept whenever a method is called."""

    @functools.wraps(fun)
    def erasing(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._cache = None
        return fun(self, *args, **kwargs)

    return erasing


def expand_as_right(tensor: Any, dest: Any) -> Any:
    """Expand a tensor to the shape of another whose first dimensions it has.

    Raises:
        RuntimeError: it has more dimensions, or others.
    """
    return expand_right(tensor, dest.shape)


def expand_right(tensor: Any, shape: Sequence[int]) -> Any:
    """Expand a tensor, which has the first dimensions of `shape`, to `shape`.

    Raises:
        RuntimeError: it has more dimensions, or others.
    """
    if tensor.ndim > len(shape):
        raise RuntimeError(f"a tensor of shape {list(tensor.shape)} cannot expand to {list(shape)}.")
    for _ in range(len(shape) - tensor.ndim):
        tensor = tensor.unsqueeze(-1)
    return tensor.expand(shape)


def infer_size_impl(shape: list[int], numel: int) -> list[int]:
    """A shape with its -1 worked out, as a list.

    Raises:
        RuntimeError: it does not hold `numel` elements.
    """
    from flambeau.data.tensordict._methods.shape import infer_size

    return list(infer_size(shape, numel))


def int_generator(seed: int) -> int:
    """An integer in [0, 2**63) drawn with this seed; the global generator stays as it is."""
    generator = torch.Generator().manual_seed(seed)
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is an instance of a namedtuple class."""
    return isinstance(obj, tuple) and is_namedtuple_class(type(obj))


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class comes of `collections.namedtuple` or `typing.NamedTuple`."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def prod(sequence: Iterable[int]) -> int:
    """The product of numbers, 1 for none."""
    return math.prod(sequence)


def parse_tensor_dict_string(s: str) -> Any:
    """A TensorDict of zeros with the keys, shapes and dtypes that the text of a TensorDict shows.

    Raises:
        ValueError: it is no such text.
    """
    import re

    entry = re.compile(
        r"(?P<key>[^\s:{]+): \w+\(shape=torch\.Size\(\[(?P<shape>[\d, ]*)\]\), "
        r"device=(?P<device>[\w:]+), dtype=torch\.(?P<dtype>\w+)"
    )
    opening = re.compile(r"(?P<key>[^\s:{]+): \w+\(\s*$")
    size = re.compile(r"batch_size=torch\.Size\(\[(?P<size>[\d, ]*)\]\)")
    stack: list[tuple[str, dict[str, Any]]] = []
    current: dict[str, Any] | None = None
    result: Any = None
    for line in s.splitlines():
        if found := entry.search(line):
            if current is None:
                break
            shape = _numbers(found["shape"])
            current[found["key"]] = torch.zeros(shape, dtype=getattr(torch, found["dtype"]), device=found["device"])
        elif found := opening.search(line):
            stack.append((found["key"], current or {}))
            current = {}
        elif "fields={" in line and current is None:
            current = {}
        elif (found := size.search(line)) and current is not None:
            made = classes.TensorDict(current, batch_size=_numbers(found["size"]))
            if not stack:
                result = made
                break
            key, current = stack.pop()
            current[key] = made
    if result is None:
        raise ValueError("this is not the text of a TensorDict, as `repr` gives it.")
    return result


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


def print_directory_tree(path: Any, indent: str = "", display_metadata: bool = True) -> str:
    """Log, and return, the files below a folder, one a line, with their size in all on top.

    Args:
        path: of the folder.
        indent: before each line.
        display_metadata: say how large the folder is.
    """
    import logging
    from pathlib import Path

    folder = Path(path)
    lines = []
    if display_metadata:
        total = float(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
        unit = "B"
        for unit in ("B", "kB", "MB", "GB", "TB"):
            if total < 1024 or unit == "TB":
                break
            total /= 1024
        lines.append(f"{indent}Directory size: {total:.2f} {unit}")
    lines += _tree_lines(folder, indent)
    text = "\n".join(lines)
    logging.getLogger("flambeau.data.tensordict").info(text)
    return text


def _tree_lines(path: Any, indent: str) -> list[str]:
    if not path.is_dir():
        return [indent + path.name]
    lines = [f"{indent}{path.name}/"]
    for child in sorted(path.iterdir(), key=lambda one: (one.is_file(), one.name)):
        lines += _tree_lines(child, indent + "    ")
    return lines
