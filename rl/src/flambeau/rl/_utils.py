"""Small things that all parts use: seeds, timers, functions that depend on versions, environment variables."""

from __future__ import annotations

import collections
import functools
import importlib
import inspect
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch

from flambeau.rl._cuda_memory import cuda_memory_profile as cuda_memory_profile
from flambeau.rl._cuda_memory import cuda_memory_stats as cuda_memory_stats
from flambeau.rl._cuda_memory import reset_cuda_peak_stats as reset_cuda_peak_stats
from flambeau.rl._cuda_memory import safe_is_current_stream_capturing as safe_is_current_stream_capturing
from flambeau.rl._remote import accept_remote_rref_invocation as accept_remote_rref_invocation
from flambeau.rl._remote import accept_remote_rref_udf_invocation as accept_remote_rref_udf_invocation
from flambeau.rl._remote import as_remote as as_remote
from flambeau.rl._remote import get_ray_default_runtime_env as get_ray_default_runtime_env
from flambeau.rl._remote import merge_ray_runtime_env as merge_ray_runtime_env

F = TypeVar("F", bound=Callable[..., Any])

logger = torchrl_logger = logging.getLogger("flambeau.rl")


def strtobool(val: Any) -> bool:
    """Whether a word means yes: "y", "yes", "t", "true", "on", "1"; or no: "n", "no", "f", "false", "off", "0".

    Raises:
        ValueError: it means neither.
    """
    word = str(val).strip().lower()
    if word in {"y", "yes", "t", "true", "on", "1"}:
        return True
    if word in {"n", "no", "f", "false", "off", "0"}:
        return False
    raise ValueError(f"{val!r} means neither yes nor no; use one of y, yes, t, true, on, 1, n, no, f, false, off, 0.")


def get_binary_env_var(key: str) -> bool | None:
    """An environment variable that means yes or no; None where it is not set."""
    value = os.environ.get(key)
    return None if value is None else strtobool(value)


def rl_warnings() -> bool:
    """Whether warnings about slow or doubtful uses are given: the environment variable RL_WARNINGS, yes by default."""
    return get_binary_env_var("RL_WARNINGS") is not False


def seed_generator(seed: int) -> int:
    """The seed after a seed, for environments and processes that must not have the same.

    Args:
        seed: any number that NumPy takes as one.

    Returns:
        A number in [0, 2**32 - 1).

    Example:
        >>> seed_generator(0)
        795726461
    """
    return int.from_bytes(np.random.default_rng(seed).bytes(8), "big") % (2**32 - 1)


def prod(sequence: Iterable[Any]) -> Any:
    """The product of numbers, 1 where there are none."""
    return math.prod(sequence)


def get_available_device(return_str: bool = False) -> torch.device | str:
    """The first accelerator, or the CPU.

    Args:
        return_str: return its name instead.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    device = torch.device("cpu") if accelerator is None else torch.device(accelerator.type, 0)
    return str(device) if return_str else device


class KeyDependentDefaultDict(collections.defaultdict[Any, Any]):
    """A dictionary that makes what it lacks from the key.

    Args:
        fun: key -> value.

    Example:
        >>> KeyDependentDefaultDict(lambda key: f"bar_{key}")["foo"]
        'bar_foo'
    """

    def __init__(self, fun: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fun = fun

    def __missing__(self, key: Any) -> Any:
        value = self.fun(key)
        self[key] = value
        return value


def print_directory_tree(path: str | Path, indent: str = "", display_metadata: bool = True) -> None:
    """Log the files and folders below a path.

    Args:
        path: where to look.
        indent: what to write before each line.
        display_metadata: also log the size of all of it.
    """
    path = Path(path)
    if display_metadata:
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        logger.info("Directory size: %.2f MB", size / 2**20)
    if path.is_dir():
        logger.info("%s%s/", indent, path.name)
        for item in sorted(path.iterdir()):
            print_directory_tree(item, indent + "    ", display_metadata=False)
    else:
        logger.info("%s%s", indent, path.name)


class timeit(ContextDecorator):  # upstream's name
    """Measures how long a block or a function takes, by name, over all its runs.

    Args:
        name: what to call it.
        sync: wait for the accelerator before and after.

    Example:
        >>> with timeit("a"):
        ...     pass
        >>> timeit.todict()["a"] < 1
        True
        >>> timeit.erase()
    """

    _REG: ClassVar[dict[str, list[float]]] = {}
    """Name -> mean, sum in seconds, number of runs."""
    _begun: ClassVar[dict[str, Any]] = {}
    """What `mark_start` began."""

    def __init__(self, name: str, *, sync: bool = False) -> None:
        self.name = name
        self.sync = sync

    def start(self) -> Self:
        """Begin to measure."""
        return self.__enter__()

    def stop(self) -> None:
        """End it."""
        self.__exit__(None, None, None)

    def _wait(self) -> None:
        if self.sync and torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def __enter__(self) -> Self:
        self._wait()
        self.t0 = time.perf_counter()
        return self

    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.t0

    def __exit__(self, *exception: object) -> None:
        self._wait()
        took = self.elapsed()
        entry = self._REG.setdefault(self.name, [0.0, 0.0, 0])
        entry[1] += took
        entry[2] += 1
        entry[0] = entry[1] / entry[2]

    @classmethod
    def mark_start(cls, name: str) -> None:
        """Begin to measure what `mark_end` of the same name ends."""
        cls._begun[name] = cls(name).start()

    @classmethod
    def mark_end(cls, name: str) -> None:
        """End what `mark_start` began.

        Raises:
            KeyError: nothing of that name was begun.
        """
        if name not in cls._begun:
            raise KeyError(f"nothing called {name!r} was begun; call mark_start first.")
        cls._begun.pop(name).stop()

    @staticmethod
    def print(prefix: str | None = None) -> str:
        """Log all that was measured, slowest first, and return it as text."""
        lines = [
            f"{name} took {mean * 1000:4.4f} msec (total = {total:.4f} sec, {runs} runs)"
            for name, (mean, total, runs) in sorted(timeit._REG.items(), key=lambda item: -item[1][1])
        ]
        text = "\n".join(lines if prefix is None else [prefix, *lines])
        for line in text.splitlines():
            logger.info(line)
        return text

    printevery_count: ClassVar[int] = 0

    @classmethod
    def printevery(cls, num_prints: int, total_count: int, *, erase: bool = False) -> None:
        """Log what was measured, `num_prints` times in `total_count` calls.

        Args:
            num_prints: how often.
            total_count: number of calls.
            erase: forget it afterwards.
        """
        interval = max(1, total_count // num_prints)
        cls.printevery_count += 1
        if cls.printevery_count % interval == 0:
            cls.print()
            if erase:
                cls.erase()

    @classmethod
    def todict(cls, percall: bool = True, prefix: str | None = None) -> dict[str, float]:
        """Seconds by name.

        Args:
            percall: of one run, on average; else of all.
            prefix: what to write before each name.
        """
        head = "" if prefix is None else f"{prefix}/"
        return {f"{head}{name}": entry[0] if percall else entry[1] for name, entry in cls._REG.items()}

    @staticmethod
    def erase() -> None:
        """Forget what was measured."""
        timeit._REG.clear()

    @classmethod
    def reset(cls) -> None:
        """Count runs anew; names stay."""
        for entry in cls._REG.values():
            entry[:] = [0.0, 0.0, 0]

    @classmethod
    def exit(cls) -> None:
        """Kept for upstream's signature."""


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """A function, or a class, that runs in a context.

    Args:
        ctx: a context manager, or a function that makes one each time.
        func: what to run in it.
    """
    make = ctx if isinstance(ctx, type) or not hasattr(ctx, "__enter__") else lambda: ctx

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return decorated


class implement_for:  # upstream's name
    """A function of which there are several, for ranges of versions of another library.

    Args:
        module_name: the library; or a function that returns it, imported.
        from_version: the first version that the function is for; None for all up to `to_version`.
        to_version: the first version it is no longer for; None for all from `from_version` on.
        class_method: it is one of a class.

    Raises:
        ModuleNotFoundError: when it is called, and none of the functions is for the version that is installed.

    Example:
        >>> @implement_for("torch", None, "1.0")
        ... def era():
        ...     return "before"
        >>> @implement_for("torch", "1.0")
        ... def era():
        ...     return "after"
        >>> era()
        'after'
    """

    _implementations: ClassVar[dict[str, list[implement_for]]] = {}
    _cache_modules: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        module_name: str | Callable[[], Any],
        from_version: str | None = None,
        to_version: str | None = None,
        *,
        class_method: bool = False,
    ) -> None:
        self.module_name = module_name
        self.from_version = from_version
        self.to_version = to_version
        self.class_method = class_method

    @staticmethod
    def check_version(version: str, from_version: str | None, to_version: str | None) -> bool:
        """Whether a version lies in a range; pre-releases count as their release.

        Args:
            version: of the library.
            from_version: first of the range.
            to_version: first behind the range.
        """
        found = _version(version)
        return (from_version is None or found >= _version(from_version)) and (
            to_version is None or found < _version(to_version)
        )

    @staticmethod
    def get_class_that_defined_method(f: Any) -> str:
        """The name of the class that a function belongs to, with its module; "" for none."""
        return str(f.__qualname__.rpartition(".")[0])

    @classmethod
    def get_func_name(cls, func: Any) -> str:
        """The name under which functions for several versions find one another."""
        return f"{func.__module__}.{func.__qualname__}"

    @staticmethod
    def import_module(module_name: str | Callable[[], Any]) -> str:
        """The version of a library, imported.

        Args:
            module_name: the library; or a function that returns it, imported.
        """
        module = module_name() if callable(module_name) else importlib.import_module(module_name)
        return str(module.__version__)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        self.fn = fn
        self.func_name = self.get_func_name(fn)
        others = self._implementations.setdefault(self.func_name, [])
        others.append(self)

        @functools.wraps(fn)
        def chosen(*args: Any, **kwargs: Any) -> Any:
            return self.implementation()(*args, **kwargs)

        self.dispatcher = chosen
        return classmethod(chosen) if self.class_method else chosen  # type: ignore[return-value]

    def implementation(self) -> Callable[..., Any]:
        """The function for the version that is installed: of several, the one defined last.

        Raises:
            ModuleNotFoundError: there is none.
        """
        missing = None
        for each in reversed(self._implementations[self.func_name]):
            try:
                version = self.import_module(each.module_name)
            except ModuleNotFoundError as error:
                missing = error
                continue
            if self.check_version(version, each.from_version, each.to_version):
                return each.fn
        raise ModuleNotFoundError(
            f"{self.func_name} is not defined for the versions that are installed"
            + ("." if missing is None else f": {missing}.")
        )

    @classmethod
    def reset(cls, setters_dict: dict[str, Any] | None = None) -> None:
        """Kept for upstream's signature: which function is called is decided in each call."""

    def module_set(self) -> None:
        """Kept for upstream's signature: which function is called is decided in each call."""


def _version(text: str) -> tuple[int, ...]:
    release = text.partition("+")[0]
    numbers = []
    for part in release.split("."):
        digits = "".join(ch for ch in part if ch.isdigit()) if part.isdigit() else _leading(part)
        if not digits:
            break
        numbers.append(int(digits))
        if not part.isdigit():
            break
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _leading(part: str) -> str:
    at = next((at for at, ch in enumerate(part) if not ch.isdigit()), len(part))
    return part[:at]


_UNWRAP = {"mode": get_binary_env_var("AUTO_UNWRAP_TRANSFORMED_ENV")}


class set_auto_unwrap_transformed_env(ContextDecorator):  # upstream's name
    """Whether a transformed environment of a transformed environment becomes one with both transforms.

    Args:
        mode: whether it does; in a `with` block, or from `set` on.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> Self:
        self.set()
        return self

    def __exit__(self, *exception: object) -> None:
        _UNWRAP["mode"] = self._before

    def set(self) -> None:
        """Set it, until it is set otherwise."""
        self._before = _UNWRAP["mode"]
        _UNWRAP["mode"] = bool(self.mode)


def auto_unwrap_transformed_env(allow_none: bool = False) -> bool | None:
    """Whether a transformed environment of a transformed environment becomes one: yes, unless it is set otherwise.

    Args:
        allow_none: return None where it is not set.
    """
    mode = _UNWRAP["mode"]
    return mode if allow_none or mode is not None else True


def compile_with_warmup(*args: Any, warmup: int = 1, **kwargs: Any) -> Any:
    """`torch.compile`, which begins after some calls, when what is lazy has been set up.

    Args:
        args: the function, as for `torch.compile`; without it, a decorator is returned.
        warmup: number of calls that are not compiled.
        kwargs: as for `torch.compile`.
    """
    if not args:
        return functools.partial(compile_with_warmup, warmup=warmup, **kwargs)
    function, *rest = args
    calls = 0
    compiled: Any = None

    @functools.wraps(function if inspect.isfunction(function) else type(function).__call__)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        nonlocal calls, compiled
        if calls < warmup:
            calls += 1
            return function(*arguments, **options)
        if compiled is None:
            compiled = torch.compile(function, *rest, **kwargs)
        return compiled(*arguments, **options)

    return wrapped


def get_trace() -> None:
    """Log where the program is."""
    import traceback

    logger.info("".join(traceback.format_stack(sys._getframe(1))))
