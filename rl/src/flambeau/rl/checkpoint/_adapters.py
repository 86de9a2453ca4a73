"""How components are written and read: by their state dictionaries, by their own `dump` and `load`, or as JSON."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, pack_memmap, unpack_memmap
from flambeau.rl.checkpoint._states import decoded, encoded

__all__ = [
    "CheckpointAdapter",
    "DumpLoadCheckpointAdapter",
    "JSONCheckpointAdapter",
    "StateDictCheckpointAdapter",
    "StateDictFormat",
    "fitting",
    "is_json",
]

StateDictFormat = Literal["directory", "archive", "consolidated", "torch"]
_FORMATS = ("directory", "archive", "consolidated", "torch")


class CheckpointAdapter(ABC):
    """Writes a component to a folder, and reads it from there.

    Attributes:
        adapter_id: the name by which checkpoints know it.
        format_version: of what it writes.
    """

    adapter_id: str
    format_version = 1

    @abstractmethod
    def save(self, component: Any, path: Path, *, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Write a component.

        Args:
            component: what to write.
            path: an empty folder.
            args: for the method of the component that is called.
            kwargs: for it, by name.
        """

    @abstractmethod
    def load(
        self,
        component: Any,
        path: Path,
        *,
        map_location: Any,
        tensor_load_kwargs: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Read a component, which is changed in place; a value that cannot be is returned.

        Args:
            component: what is changed.
            path: the folder that `save` wrote to.
            map_location: device that tensors are brought to; None for where they were.
            tensor_load_kwargs: for `torch.load`.
            args: for the method of the component that is called.
            kwargs: for it, by name.
        """


class JSONCheckpointAdapter(CheckpointAdapter):
    """Values that JSON takes; they are returned, nothing is changed."""

    adapter_id = "torchrl.json"
    state_filename = "value.json"

    def save(self, component: Any, path: Path, *, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Write the value to `value.json`."""
        path.mkdir(parents=True, exist_ok=True)
        (path / self.state_filename).write_text(json.dumps(component) + "\n", encoding="utf-8")

    def load(
        self,
        component: Any,
        path: Path,
        *,
        map_location: Any,
        tensor_load_kwargs: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Read the value."""
        return json.loads((path / self.state_filename).read_text(encoding="utf-8"))


class DumpLoadCheckpointAdapter(CheckpointAdapter):
    """Components that write themselves to a folder: `dump(path)` and `load(path)`, or `dumps` and `loads`."""

    adapter_id = "torchrl.dump_load"

    def save(self, component: Any, path: Path, *, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Have the component write itself."""
        path.mkdir(parents=True, exist_ok=True)
        return _method(component, "dump", "dumps")(path, *args, **kwargs)

    def load(
        self,
        component: Any,
        path: Path,
        *,
        map_location: Any,
        tensor_load_kwargs: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Have the component read itself."""
        return _method(component, "load", "loads")(path, *args, **kwargs)


def _method(component: Any, *names: str) -> Any:
    return next(method for name in names if callable(method := getattr(component, name, None)))


class StateDictCheckpointAdapter(CheckpointAdapter):
    """Components with `state_dict` and `load_state_dict`: what is no tensor becomes JSON.

    Args:
        payload_format: tensors as a "directory" of memory-mapped files, which can be read in part; as an "archive" of
            them; "consolidated" in one file; or the whole state as "torch" saves it, which may hold any objects, but
            then is read only with tensor_load_kwargs={"weights_only": False}.
        archive_compression: of an archive.

    Raises:
        ValueError: the format is another one.
    """

    adapter_id = "torchrl.state_dict"
    schema_filename = "state.json"
    state_directory = "state"
    state_archive = "state.tdz"
    state_consolidated = "state.tdc"
    state_torch = "state.pt"

    def __init__(
        self, payload_format: StateDictFormat = "directory", *, archive_compression: str | int | None = None
    ) -> None:
        if payload_format not in _FORMATS:
            raise ValueError(f"payload_format must be one of {', '.join(_FORMATS)}; got {payload_format!r}.")
        self.payload_format = payload_format
        self.archive_compression = archive_compression

    def save(self, component: Any, path: Path, *, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Write the state of a component.

        Raises:
            TypeError: it holds what has no form, see `payload_format`.
        """
        path.mkdir(parents=True, exist_ok=True)
        state = component.state_dict(*args, **kwargs)
        if self.payload_format == "torch":
            torch.save(state, path / self.state_torch)
            return
        form, tensors = encoded(state)
        (path / self.schema_filename).write_text(json.dumps(form, separators=(",", ":")) + "\n", encoding="utf-8")
        held = TensorDict({name: tensor.cpu() for name, tensor in tensors.items()}, [])
        if self.payload_format == "consolidated":
            held.consolidate(str(path / self.state_consolidated))
            return
        folder = path / self.state_directory
        # Empty tensors have no file.
        held.memmap(str(folder), copy_existing=True)
        if self.payload_format == "archive":
            options = {} if self.archive_compression is None else {"compression": self.archive_compression}
            pack_memmap(folder, path / self.state_archive, **options)
            _remove(folder)

    def load(
        self,
        component: Any,
        path: Path,
        *,
        map_location: Any,
        tensor_load_kwargs: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Read a state into a component.

        Raises:
            FileNotFoundError: no state is there.
            ValueError: it is damaged.
        """
        if (path / self.state_torch).exists():
            options = {"weights_only": True, "map_location": map_location} | dict(tensor_load_kwargs)
            state = torch.load(path / self.state_torch, **options)
        else:
            form = json.loads((path / self.schema_filename).read_text(encoding="utf-8"))
            tensors = self._tensors(path)
            if map_location is not None:
                tensors = {name: tensor.to(map_location) for name, tensor in tensors.items()}
            state = decoded(form, tensors)
        component.load_state_dict(state, *args, **kwargs)

    def _tensors(self, path: Path) -> dict[str, Tensor]:
        """Tensors in memory: components keep what they are given, and must not write to the files."""
        if (path / self.state_consolidated).exists():
            held = TensorDict.from_consolidated(str(path / self.state_consolidated))
        elif (path / self.state_archive).exists():
            folder = path / "unpacked"
            unpack_memmap(path / self.state_archive, folder)
            held = TensorDict.load_memmap(str(folder))
            try:
                return {name: tensor.clone() for name, tensor in held.items()}
            finally:
                _remove(folder)
        else:
            held = _checked(path / self.state_directory)
        return {name: tensor.clone() for name, tensor in held.items()}


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder)


def _checked(folder: Path) -> Any:
    """A folder of memory-mapped tensors whose files have the sizes that they must have."""
    described = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    for name, entry in described.items():
        if not isinstance(entry, dict) or "dtype" not in entry or "shape" not in entry:
            continue
        dtype = getattr(torch, str(entry["dtype"]).removeprefix("torch."))
        expected = math.prod(entry["shape"]) * dtype.itemsize
        file = folder / f"{name}.memmap"
        size = file.stat().st_size if file.exists() else 0
        if expected and size != expected:
            raise ValueError(
                f"{file} has {size} bytes, expected {expected}: the checkpoint is damaged; load another one."
            )
    return TensorDict.load_memmap(str(folder))


def fitting(component: Any) -> CheckpointAdapter:
    """The adapter for a component of no registered type.

    Raises:
        TypeError: there is none.
    """
    for writes, reads in (("dump", "load"), ("dumps", "loads")):
        if callable(getattr(component, writes, None)) and callable(getattr(component, reads, None)):
            return DumpLoadCheckpointAdapter()
    if callable(getattr(component, "state_dict", None)) and callable(getattr(component, "load_state_dict", None)):
        return StateDictCheckpointAdapter()
    if is_json(component):
        return JSONCheckpointAdapter()
    raise TypeError(
        f"a {type(component).__name__} cannot be part of a checkpoint: it has neither state_dict and load_state_dict "
        "nor dump and load, and JSON does not take it. Give an adapter= for it."
    )


def is_json(value: Any) -> bool:
    """Whether JSON gives a value back as it is."""
    if value is None or type(value) in (bool, int, str):
        return True
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return all(map(is_json, value))
    return type(value) is dict and all(type(key) is str and is_json(each) for key, each in value.items())
