"""`implement_for`: one function with an implementation for each range of versions of a library."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from packaging.version import Version


class _Implementation(NamedTuple):
    module: str | Callable[[], ModuleType]
    lowest: str | None
    end: str | None
    function: Callable[..., Any]

    def fits(self) -> bool:
        """Whether the library is there, in a version of the range."""
        try:
            version = implement_for.import_module(self.module)
        except ImportError:
            return False
        return implement_for.check_version(version, self.lowest, self.end)


class implement_for:
    """Decorates the implementations of a function, each for a range of versions of a library.

    Which one runs is found at the first call: of those that fit, the one that was defined last. Implementations belong
    together by the name of the function, so a module or class defines it several times; `register` of what the
    decorator returned takes further ones of any name.

    Args:
        module_name: the library, or a function that imports it.
        from_version: the first version that fits; None for all before.
        to_version: the first version that no longer fits; None for all behind.
        class_method: make it a class method.
        compilable: find the implementation at once, so that `torch.compile` sees no search.

    Raises:
        ModuleNotFoundError: at the call, where none fits.

    Example:
        >>> @implement_for("torch", None, "1.0")
        ... def name(): return "old"
        >>> @implement_for("torch", "1.0")
        ... def name(): return "new"
        >>> name()
        'new'
    """

    _known: ClassVar[dict[str, list[_Implementation]]] = {}
    _chosen: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init__(
        self,
        module_name: str | Callable[[], ModuleType],
        from_version: str | None = None,
        to_version: str | None = None,
        *,
        class_method: bool = False,
        compilable: bool = False,
    ) -> None:
        self.module_name, self.from_version, self.to_version = module_name, from_version, to_version
        self.class_method, self.compilable = class_method, compilable

    def __call__(self, function: Callable[..., Any]) -> Any:
        name = f"{function.__module__}.{function.__qualname__}"
        self._add(name, function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._choose(name)(*args, **kwargs)

        def register(
            from_version: str | None = None,
            to_version: str | None = None,
            *,
            module_name: str | Callable[[], ModuleType] | None = None,
        ) -> Callable[[Callable[..., Any]], Any]:
            def add(other: Callable[..., Any]) -> Any:
                implement_for(module_name or self.module_name, from_version, to_version)._add(name, other)
                return call

            return add

        call.register = register  # type: ignore[attr-defined]
        if self.compilable and self._known[name][-1].fits():
            self._choose(name)
        return classmethod(call) if self.class_method else call

    def _add(self, name: str, function: Callable[..., Any]) -> None:
        self._known.setdefault(name, []).append(
            _Implementation(self.module_name, self.from_version, self.to_version, function)
        )
        self._chosen.pop(name, None)

    @classmethod
    def _choose(cls, name: str) -> Callable[..., Any]:
        chosen = cls._chosen.get(name)
        if chosen is None:
            fitting = [one.function for one in cls._known[name] if one.fits()]
            if not fitting:
                ranges = [f"{one.module} from {one.lowest} to {one.end}" for one in cls._known[name]]
                raise ModuleNotFoundError(f"{name} runs with {' or '.join(ranges)}, and none of these is installed.")
            chosen = cls._chosen[name] = fitting[-1]
        return chosen

    @staticmethod
    def check_version(version: str, from_version: str | None, to_version: str | None) -> bool:
        """Whether a version lies in a range, `to_version` excluded; development versions count as their release."""
        found = Version(Version(version).base_version)
        return (from_version is None or found >= Version(from_version)) and (
            to_version is None or found < Version(to_version)
        )

    @staticmethod
    def import_module(module_name: str | Callable[[], ModuleType]) -> str:
        """Import a library, and give its version.

        Raises:
            ImportError: it is not there.
        """
        module = module_name() if callable(module_name) else importlib.import_module(module_name)
        version = getattr(module, "__version__", None)
        return str(version) if version is not None else importlib.metadata.version(module.__name__)

    def module_set(self) -> None:
        """Let the implementations of this library's range run from now on, whatever fits besides."""
        for name, known in self._known.items():
            mine = [
                one.function
                for one in known
                if (one.module, one.lowest, one.end) == (self.module_name, self.from_version, self.to_version)
            ]
            if mine:
                self._chosen[name] = mine[-1]

    @classmethod
    def reset(cls) -> None:
        """Find the implementations anew at their next call: libraries may have been exchanged."""
        cls._chosen.clear()
