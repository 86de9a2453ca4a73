"""Stubs by which type checkers and editors know the methods of pipes, generated from the register.

`python -m flambeau.data.datapipes.stubs` writes `datapipe.pyi`; with `--check` it exits with 1 when that is stale.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("datapipe.pyi")

_HEAD = '''"""Generated from the register of methods by `python -m flambeau.data.datapipes.stubs`; do not edit."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeVar

from torch.utils.data import Dataset, IterableDataset

from flambeau.data.datapipes._methods import functional_datapipe as functional_datapipe
from flambeau.data.datapipes.chunk import DataChunk as DataChunk

T_co = TypeVar("T_co", covariant=True)

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]

class _Registered:
    functions: ClassVar[dict[str, Callable[..., Any]]]
    reduce_ex_hook: ClassVar[Callable[..., Any] | None]
    getstate_hook: ClassVar[Callable[..., Any] | None]
    str_hook: ClassVar[Callable[..., str] | None]
    repr_hook: ClassVar[Callable[..., str] | None]
    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None: ...
    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None: ...
    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None: ...
    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None: ...
    def _hook(self, name: str) -> Callable[..., Any] | None: ...
    def _configuration(self) -> dict[str, Any]: ...

class IterDataPipe(_Registered, IterableDataset[T_co]):
    state_fields: ClassVar[tuple[str, ...] | None]
    transient: ClassVar[tuple[str, ...]]
    is_dataframe_pipe: ClassVar[bool]
    _replayable: ClassVar[bool]
    _live: object | None
    _saved: dict[str, Any] | None
    _begun: int
    _yielded: int
    _skip: int
    _resuming: bool
    _touched: bool
    def __iter__(self) -> Iterator[T_co]: ...
    def reset(self) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...
    def get_state(self) -> dict[str, Any] | None: ...
    def set_state(self, state: dict[str, Any]) -> None: ...
    def get_origin(self, begun: bool) -> dict[str, Any] | None: ...
    def load_origin(self, origin: dict[str, Any]) -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...
    def _has_begun(self, readers: list[Any]) -> bool: ...
'''

_MAP = """
class DFIterDataPipe(IterDataPipe[T_co]):
    def _is_dfpipe(self) -> bool: ...

class MapDataPipe(_Registered, Dataset[T_co]):
    def __getitem__(self, index: Any) -> T_co: ...
"""

# Methods that do not give an iterable pipe.
_RESULTS = {
    "fork": "list[IterDataPipe[Any]]",
    "demux": "list[IterDataPipe[Any]]",
    "round_robin_demux": "list[IterDataPipe[Any]]",
    "unzip": "list[IterDataPipe[Any]]",
    "random_split": "Any",
    "to_map_datapipe": "MapDataPipe[Any]",
}
_MAP_RESULTS = {
    "unzip": "list[MapDataPipe[Any]]",
    "shuffle": "IterDataPipe[Any]",
    "to_iter_datapipe": "IterDataPipe[Any]",
}
# Types that the stub does not import.
_OPAQUE = "torch|CompressionType|Spec|SHARDING_PRIORITIES|K|StreamWrapper|Sampler|IO"


def rendered() -> str:
    """The text of the stub file."""
    # Imported for what it registers; the register is whole afterwards.
    import flambeau.data.datapipes.iter
    import flambeau.data.datapipes.map  # noqa: F401
    from flambeau.data.datapipes.datapipe import IterDataPipe, MapDataPipe

    iterable = _methods(IterDataPipe.functions, _RESULTS, "IterDataPipe[Any]")
    mapped = _methods(MapDataPipe.functions, _MAP_RESULTS, "MapDataPipe[Any]")
    return f"{_HEAD}{iterable}{_MAP}{mapped}"


def _methods(functions: dict[str, Callable[..., Any]], results: dict[str, str], usual: str) -> str:
    ours = [name for name in sorted(functions) if _target(functions[name]).__module__.startswith("flambeau.data.")]
    return "".join(_method(name, functions[name], results.get(name, usual)) for name in ours)


def _target(function: Callable[..., Any]) -> Any:
    return getattr(function, "__wrapped__", function)


def _method(name: str, function: Callable[..., Any], result: str) -> str:
    target = _target(function)
    parameters = list(inspect.signature(target.__init__).parameters.values())[1:]
    shown, stars = ["self"], False
    skip_first = not parameters or parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL
    for parameter in parameters[1:] if skip_first else parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not stars:
            shown.append("*")
            stars = True
        stars = stars or parameter.kind is parameter.VAR_POSITIONAL
        shown.append(_parameter(parameter))
    line = f"    def {name}({', '.join(shown)}) -> {result}: ..."
    if len(line) <= 120:
        return f"{line}\n"
    inner = "".join(f"        {one},\n" for one in shown)
    return f"    def {name}(\n{inner}    ) -> {result}: ...\n"


def _parameter(parameter: inspect.Parameter) -> str:
    kinds: dict[Any, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    prefix = kinds.get(parameter.kind, "")
    kind = parameter.annotation if isinstance(parameter.annotation, str) else "Any"
    kind = re.sub(rf"\b({_OPAQUE})\b(\.\w+|\[[^\]]*\])*", "Any", kind).replace("'", '"')
    known = parameter.default is parameter.empty or isinstance(parameter.default, (int, float, str, bool, type(None)))
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}" if known else " = ..."
    return f"{prefix}{parameter.name}: {kind}{default.replace(chr(39), chr(34))}"


def main(arguments: list[str]) -> int:
    """Write or check the file; returns the exit status."""
    text = rendered()
    if "--check" not in arguments:
        PATH.write_text(text, encoding="utf-8")
        return 0
    stale = not PATH.is_file() or PATH.read_text(encoding="utf-8") != text
    if stale:
        sys.stderr.write(f"{PATH} is stale; run: python -m flambeau.data.datapipes.stubs\n")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
