"""Reading checkpoint files without running what they contain.

A format is told by a file's first bytes, never by its name:

=============  ==========================================  =====================================
format         begins with                                 read by
=============  ==========================================  =====================================
torch          zip with a member `*/data.pkl`              memory map, restricted unpickling
torch-in-zip   zip with one file, itself a checkpoint      unpacked once, then as that file
safetensors    8 bytes length of header, `{`               memory map, no pickle
torch-legacy   pickled magic number of torch before 1.6    read whole, restricted unpickling
=============  ==========================================  =====================================

The map is private: writing to a tensor copies its page, and the file stays as it is.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import pickletools
import re
import threading
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import torch
from torch import Tensor

from flambeau.core.errors import CheckpointError, UnsafeCheckpointError
from flambeau.core.naming import import_target
from flambeau.core.weights.facts import Format
from flambeau.core.weights.torch_records import READER_ERRORS, check_records

FileFormat = Literal["torch", "torch-legacy", "torch-in-zip", "safetensors", "tar", "pickle", "torchscript", "unknown"]

# 0x1950a86a20f9469cfc6c as pickle protocol 2 writes it.
_LEGACY_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_SAFETENSORS_HEADER_LIMIT = 100_000_000  # the format's own limit
_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
# Where a safetensors file may keep the versions of modules, as JSON of `state_dict()._metadata`: some modules load what
# an earlier version of theirs saved in another way.
VERSIONS_KEY = "state_dict_metadata"
# torch keeps one table of allowed globals for the whole process.
_globals_lock = threading.Lock()


def read_checkpoint(
    path: str | Path,
    *,
    format: Format = "auto",
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    mmap: bool = True,
    safe_globals: tuple[str, ...] = (),
    trust: bool = False,
) -> Mapping[str, Any]:
    """Read the mapping that a checkpoint file holds, usually names to tensors.

    Args:
        path: the file.
        format: refuse the file if it holds another format; "auto" takes any.
        device: where the tensors go.
        dtype: cast floating tensors, nested ones included; None keeps the file's.
        mmap: map the file, so that bytes are read when they are used; False reads them now.
        safe_globals: `"module:name"` of classes that may be built besides tensors and plain containers.
        trust: unpickle without restriction. Code in the file then runs.

    Raises:
        UnsafeCheckpointError: the file wants something built or called that nobody allowed; the message names it.
        CheckpointError: the file is damaged, of an unknown or another format, or holds no mapping.
    """
    path = Path(path)
    found = sniff(path)
    if format not in get_args(Format):
        raise ValueError(f"format {format!r} is unknown, expected one of {', '.join(get_args(Format))}.")
    if format not in ("auto", found):
        raise CheckpointError(f"{path}: the file's format is {found}, expected {format}; it was not read.")
    if found == "torch-in-zip":
        inner = unpack(path)
        return read_checkpoint(inner, device=device, dtype=dtype, mmap=mmap, safe_globals=safe_globals, trust=trust)
    if found == "safetensors":
        content: Any = _read_safetensors(path, device, mmap)
    elif found == "torch" or found == "torch-legacy" or (found == "tar" and trust):
        mapped = mmap and found == "torch" and _maps_are_private()
        if found == "torch":
            mapped = check_records(path) and mapped
        with _allowed(safe_globals):
            content = _read_torch(path, device, mapped, trust)
    else:
        _refuse(path, found)
    if not isinstance(content, Mapping):
        raise CheckpointError(
            f"{path}: holds a {type(content).__name__}, expected a mapping of names to tensors; save the model's "
            "state_dict()."
        )
    return content if dtype is None else _cast(content, dtype)


def sniff(path: Path) -> FileFormat:
    """A file's format by its content.

    Raises:
        CheckpointError: the file is empty.
    """
    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        raise CheckpointError(f"{path}: the file is empty; remove it and fetch it again.")
    if start.startswith(b"PK\x03\x04"):
        return _zip_format(path)
    if start.startswith(_LEGACY_MAGIC):
        return "torch-legacy"
    if start[8:9] == b"{" and 2 <= int.from_bytes(start[:8], "little") <= _SAFETENSORS_HEADER_LIMIT:
        return "safetensors"
    if start[257:262] == b"ustar":
        return "tar"
    if start[:1] == b"\x80" and start[1:2] <= bytes([pickle.HIGHEST_PROTOCOL]):
        return "pickle"
    return "unknown"


def _zip_format(path: Path) -> FileFormat:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [member.filename for member in archive.infolist() if not member.is_dir()]
    except zipfile.BadZipFile as error:
        raise CheckpointError(
            f"{path}: the file is damaged or cut off ({error}); remove it and fetch it again."
        ) from error
    if any(name.endswith("/constants.pkl") for name in names):
        return "torchscript"
    if any(name.endswith("/data.pkl") for name in names):
        return "torch"
    visible = [name for name in names if not name.startswith("__MACOSX/")]
    return "torch-in-zip" if len(visible) == 1 else "unknown"


def unpack(path: Path) -> Path:
    """The one file in a zip, unpacked beneath the cache once for each content of the zip."""
    from flambeau.core.hub.archives import extract_archive
    from flambeau.core.hub.cache import cache_dir

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    folder: Path = extract_archive(path, cache_dir("unpacked") / digest[:16])
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and "__MACOSX" not in file.parts]
    files = [file for file in files if not file.name.startswith(".")]
    if len(files) != 1:
        raise CheckpointError(f"{path}: holds {len(files)} files, expected one checkpoint.")
    if sniff(files[0]) == "torch-in-zip":
        raise CheckpointError(f"{path}: holds a zip in a zip, expected a checkpoint; unpack it yourself.")
    return files[0]


def _read_torch(path: Path, device: torch.device | str, mmap: bool, trust: bool) -> Any:
    torch.empty(0, device=device)  # a device that is not there is no fault of the file
    try:
        with warnings.catch_warnings():
            # torch warns of its own way of rebuilding quantized tensors, which no caller can change.
            warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
            warnings.filterwarnings(
                "ignore", message=r"torch\.quantize_per_tensor, torch\.quantize_per_channel and other"
            )
            # A damaged file may name any protocol; that it cannot be read is what the caller is told.
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            return torch.load(path, map_location=device, mmap=mmap, weights_only=not trust)
    except pickle.UnpicklingError as error:
        names = _GLOBAL.findall(str(error))
        reason = str(error).partition("WeightsUnpickler error: ")[2].strip().partition("\n")[0]
        _unsafe(path, names or [f"something else ({reason or error})"], error)
    except READER_ERRORS as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(
            f"{path}: the file is damaged or cut off ({reason}); remove it and fetch it again."
        ) from error


def _read_safetensors(path: Path, device: torch.device | str, mmap: bool) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            tensors = OrderedDict((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118 - no mapping
            versions = json.loads((file.metadata() or {}).get(VERSIONS_KEY, "{}"))
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"{path}: the file is damaged or cut off ({error}); remove it and fetch it again."
        ) from error
    if not mmap:
        tensors = OrderedDict((name, tensor.clone()) for name, tensor in tensors.items())
    if versions:
        tensors._metadata = versions  # type: ignore[attr-defined]
    return tensors


def _refuse(path: Path, found: FileFormat) -> NoReturn:
    if found == "pickle":
        _unsafe(path, _pickled_globals(path), None)
    if found == "tar":
        raise UnsafeCheckpointError(
            f"{path}: is a tar of torch before 0.4, which only unrestricted unpickling reads. If you made the file "
            "yourself, load it with trust=True and save its state_dict again."
        )
    if found == "torchscript":
        raise CheckpointError(
            f"{path}: is a TorchScript program, expected a state dict; where you trust it, make one with "
            "torch.save(torch.jit.load(path).state_dict(), ...)."
        )
    with path.open("rb") as file:
        start = file.read(16)
    page = " It looks like a web page: the address may want a login." if start.lstrip()[:1] == b"<" else ""
    raise CheckpointError(
        f"{path}: is no checkpoint (it begins with {start!r}), expected a file of torch.save or safetensors.{page}"
    )


def _unsafe(path: Path, names: list[str], cause: BaseException | None) -> NoReturn:
    wants = ", ".join(dict.fromkeys(names)) or "more than data"
    raise UnsafeCheckpointError(
        f"{path}: was not loaded, because its pickle wants {wants}; expected tensors and plain containers. Nothing of "
        "it was run. Ask for a safetensors file, or, for a local file you made yourself, pass trust=True."
    ) from cause


def _pickled_globals(path: Path) -> list[str]:
    """Names of what a pickle would import, read from its opcodes without running them."""
    names: list[str] = []
    strings: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(path.read_bytes()):
            if opcode.name in ("GLOBAL", "INST"):
                names.append(str(argument).replace(" ", "."))
            elif opcode.name == "STACK_GLOBAL":
                names.append(".".join(strings[-2:]))
            elif isinstance(argument, str):
                strings.append(argument)
    except ValueError:
        pass  # cut off or garbled; what was named before that is what can be told
    return names


@contextmanager
def _allowed(names: tuple[str, ...]) -> Iterator[None]:
    if not names:
        yield
        return
    objects = [import_target(name) for name in names]
    with _globals_lock, torch.serialization.safe_globals(objects):
        yield


def _maps_are_private() -> bool:
    """Whether torch maps files so that writing to a tensor leaves the file alone; a user can have switched that off."""
    import mmap

    wanted = getattr(mmap, "MAP_PRIVATE", None)  # Windows has no such flag and maps privately
    return wanted is None or torch.serialization.get_default_mmap_options() == wanted


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        for key in value:  # in place: keeps the order, the class and torch's `_metadata`
            value[key] = _cast(value[key], dtype)
    return value
