"""The layout of a saved TensorDict: what a `meta.json` says, and which class a `_type` names.

::

    prefix/meta.json        {"a": {leaf}, "b": {"type": "TensorDict"}, "shape": [3], "device": "cpu", "_type": "..."}
    prefix/a.memmap         raw little-endian elements, row-major
    prefix/b/meta.json      ... and so on; every folder is a saved TensorDict of its own

It is that of the tensordict library, which reads what is written here and the other way round. What that
library has no place for (names of dimensions, entries whose keys are words of the layout) stands under
one more entry that it passes over.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import torch

from flambeau.data.tensordict._tensorcollection import is_tensorclass
from flambeau.data.tensordict.memmap.errors import LayoutError

META = "meta.json"
EXTRA = "_flambeau"
RESERVED = frozenset({"shape", "device", "_type", EXTRA})

_UPSTREAM = {
    "TensorDict": "tensordict._td.TensorDict",
    "LazyStackedTensorDict": "tensordict._lazy.LazyStackedTensorDict",
    "NonTensorData": "tensordict.tensorclass.NonTensorData",
    "NonTensorStack": "tensordict.tensorclass.NonTensorStack",
    "MetaData": "tensordict.tensorclass.MetaData",
    "TensorDictParams": "tensordict.nn.params.TensorDictParams",
    "PersistentTensorDict": "tensordict.persistent.PersistentTensorDict",
    "_SubTensorDict": "tensordict._td._SubTensorDict",
}
_OURS = "flambeau.data.tensordict."
_TYPE = re.compile(r"<class '([\w.<>]+)'>")
_DTYPES: dict[str, torch.dtype] = {}

# Module.qualname of every tensorclass that was defined, for records that name one.
TENSORCLASSES: dict[str, type] = {}


def type_string(cls: type) -> str:
    """What `_type` says of a class: for our own, the name of upstream's twin."""
    name = _UPSTREAM.get(cls.__name__) if cls.__module__.startswith(_OURS) else None
    return f"<class '{name}'>" if name else str(cls)


def kind_of(text: Any, where: str, *, trusted: bool | None = None) -> str | type:
    """What a `_type` stands for.

    Args:
        text: the entry of `meta.json`.
        where: the file, for messages.
        trusted: import the module that a tensorclass is defined in, if it was not imported yet.

    Returns:
        The name of one of the library's own classes, or a tensorclass.

    Raises:
        LayoutError: it names nothing that is known, with what to import.
    """
    match = _TYPE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise LayoutError(f"{where} has _type {text!r}; expected \"<class 'module.Name'>\". It is not of a TensorDict.")
    path = match[1]
    name = path.rpartition(".")[2]
    if name in _UPSTREAM and path.startswith(("tensordict.", _OURS)):
        return name
    if path in TENSORCLASSES:
        return TENSORCLASSES[path]
    return _imported(path, where, trusted)


def _imported(path: str, where: str, trusted: bool | None) -> type:
    parts = path.split(".")
    # A file, which may come from anywhere, imports nothing by itself: its class is there, or its reader trusts it.
    for end in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:end])
        if trusted and module not in sys.modules:
            try:
                __import__(module)
            except ImportError:
                continue
        found: Any = sys.modules.get(module)
        for part in parts[end:]:
            found = getattr(found, part, None)
        if isinstance(found, type) and is_tensorclass(found):
            return found
    raise LayoutError(
        f"{where} holds a {path}, which is not defined. Import {'.'.join(parts[:-1])} first, or load with "
        "allow_pickle=True if you trust the file to choose what is imported."
    )


def index_of(record: Any) -> Any:
    """The index that a record of a part holds: numbers, None, and lists of a word and its arguments.

    Raises:
        ValueError, TypeError, KeyError, IndexError: it is none.
    """
    if record is None or isinstance(record, (bool, int)):
        return record
    word = record[0]
    if word == "tuple":
        return tuple(index_of(part) for part in record[1])
    if word in ("slice", "range"):
        ends = [record[1][name] for name in ("start", "stop", "step")]
        return slice(*ends) if word == "slice" else range(*ends)
    if word == "tensor":
        return torch.tensor(record[1])
    if word == "Ellipsis":
        return Ellipsis
    raise ValueError(f"{word!r} is no kind of index")


def dtype_named(text: str, where: str) -> torch.dtype:
    """The dtype that `"torch.float32"` names.

    Raises:
        LayoutError: torch has none of this name.
    """
    found = _DTYPES.get(text)
    if found is None:
        found = getattr(torch, text.removeprefix("torch."), None)
        if not isinstance(found, torch.dtype):
            raise LayoutError(f"{where} names dtype {text!r}, which torch {torch.__version__} does not have.")
        _DTYPES[text] = found
    return found


def with_extras(entries: dict[str, Any], names: list[str | None] | None) -> dict[str, Any]:
    """Entries of a level as `meta.json` takes them: those with the layout's own words for keys moved aside."""
    clashing = RESERVED & entries.keys()
    extra: dict[str, Any] = {}
    if names is not None and any(name is not None for name in names):
        extra["names"] = names
    if clashing:
        extra["entries"] = {key: entries[key] for key in entries if key in clashing}
        extra["order"] = list(entries)
        entries = {key: entry for key, entry in entries.items() if key not in clashing}
    if extra:
        entries = {**entries, EXTRA: {"type": "flambeau", **extra}}
    return entries


def split_meta(meta: dict[str, Any]) -> tuple[dict[str, Any], list[str | None] | None]:
    """The entries of a level of `meta.json`, in order, and the names of its dimensions."""
    entries = {key: entry for key, entry in meta.items() if key not in RESERVED}
    extra = meta.get(EXTRA)
    if not isinstance(extra, dict):
        return entries, None
    if "entries" in extra:
        entries |= extra["entries"]
        entries = {key: entries[key] for key in extra["order"]}
    return entries, extra.get("names")
