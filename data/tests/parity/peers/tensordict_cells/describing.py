"""Tensor collections of either library as plain records."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.testing.differential.execution import digest


def describe_collection(value: Any, recorder: Any, where: str) -> Any:
    """Class, batch size, device, names, locks, storage and leaves; of a lazy stack its parts."""
    kind = type(value)
    if not hasattr(kind, "batch_size") or not hasattr(kind, "to_tensordict"):
        return NotImplemented

    def field(read: Callable[[], Any], name: str = "") -> Any:
        try:
            return recorder.describe(read(), f"{where}{name}")
        except Exception as error:
            return f"raises {recorder.class_name(type(error))}"

    first = recorder.identity(value, where)
    name = recorder.class_name(kind)
    record = {
        # What a sub-tensordict makes of nested collections matters where one is asked for, not in every other cell.
        "type": "TensorDict" if name == "_SubTensorDict" and not _is_outermost(where) else name,
        # Of what lies inside, many kinds make a new object at every access.
        "is": first if first.startswith("inputs[") and _is_outermost(first) else "new",
        "batch_size": field(lambda: value.batch_size),
        "device": field(lambda: value.device),
        "names": field(lambda: value.names),
        "locked": field(lambda: value.is_locked),
        "storage": [field(value.is_memmap), field(value.is_shared)],
    }
    if kind.__name__ in ("NonTensorData", "MetaData"):
        return record | {"data": field(lambda: value.data)}
    if kind.__name__ == "NonTensorStack":
        return record | {"stack_dim": int(value.stack_dim), "list": field(value.tolist)}
    if kind.__name__ == "LazyStackedTensorDict":
        parts = [recorder.describe(part, f"{where}[{at}]") for at, part in enumerate(value.tensordicts)]
        return record | {"stack_dim": int(value.stack_dim), "keys": field(lambda: list(value.keys())), "parts": parts}
    if getattr(kind, "_is_tensorclass", False):
        names = list(getattr(kind, "__dataclass_fields__", {})) or list(value.keys())
        return record | {"fields": {name: field(lambda name=name: getattr(value, name), f".{name}") for name in names}}
    return record | {"items": {key: field(lambda key=key: value.get(key), f"[{key!r}]") for key in list(value.keys())}}


def _is_outermost(where: str) -> bool:
    """Whether a place is the whole result or the whole of one input."""
    return where == "result" or (where.startswith("inputs[") and where.count("[") == 1)


def archive_entries(path: Path) -> list[str]:
    """Names in a zip file, whose bytes hold times."""
    with zipfile.ZipFile(path) as archive:
        return sorted(archive.namelist())


def consolidated_file(path: Path) -> dict[str, Any]:
    """The tensors' bytes, and the description that follows them, of which the last eight bytes tell the length."""
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:], "little")
    return {"tensors": hashlib.sha256(content[:start]).hexdigest(), "structure": json.loads(content[start:-8])}


def other_file(path: Path) -> Any:
    """An archive or a consolidated file, which may have any name, or just bytes."""
    if zipfile.is_zipfile(path):
        return archive_entries(path)
    return consolidated_file(path) if path.name == "file" else digest(path)


FILES = {
    "": other_file,
    ".csv": lambda path: None,  # how a number is printed; read back instead
    ".jsonl": lambda path: None,
    ".h5": lambda path: None,  # times and paddings
    ".pickle": lambda path: None,  # names of modules
    ".parquet": lambda path: None,  # read back instead
    ".pt": lambda path: None,
    ".tdz": archive_entries,
}
