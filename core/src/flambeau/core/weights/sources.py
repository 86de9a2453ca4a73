"""From what a caller calls a checkpoint (a path, URL, weights member or name) to a verified file on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flambeau.core.errors import MissingCheckpointError, close_names
from flambeau.core.weights.enums import WeightsEnum
from flambeau.core.weights.facts import CHECKPOINT_SUFFIXES, Format, Weights
from flambeau.core.weights.files import fetch_weights
from flambeau.core.weights.index import get_weight

if TYPE_CHECKING:
    Source = str | os.PathLike[str] | WeightsEnum | Weights

_SAFETENSORS_FILE = "model.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A file that is there, and how it may be read."""

    path: Path
    format: Format = "auto"
    safe_globals: tuple[str, ...] = ()
    trust: bool = False


def is_remote(source: object) -> bool:
    """Whether `locate` may have to download."""
    if isinstance(source, str):
        return not Path(source).is_file()
    return isinstance(source, (Weights, WeightsEnum))


def locate(source: Source, *, progress: bool = True, check_hash: bool = True, trust: bool = False) -> Checkpoint:
    """Find or fetch the file that `source` means.

    Args:
        source: a path; a URL (http, https, `hf://owner/name/file[@revision]`, `package:pkg/file`);
            `"hf:owner/name[@revision]"` for the `model.safetensors` of a repository; a weights member or its name.
        progress: show a download on a terminal.
        check_hash: verify the digest that is known or part of the file's name.
        trust: the caller vouches for a file of their own; whatever it unpickles may run.

    Raises:
        ValueError: `trust` for anything but a local path.
        MissingCheckpointError: a path that does not exist.
        UnknownNameError: no weights of this name.
        DownloadError: it could not be fetched, or not verified.
    """
    if isinstance(source, os.PathLike) or (isinstance(source, str) and Path(source).is_file()):
        path = Path(source)
        if not path.is_file():
            raise MissingCheckpointError(f"no checkpoint at {path}{_nearby(path)}")
        return Checkpoint(path, trust=trust)
    if trust:
        raise ValueError(
            f"trust=True was given for {source!r}, expected a local path: what was fetched is never unpickled freely. "
            "If you know the file, fetch it, look at it, and load it by its path."
        )
    weights = _as_weights(source)
    path = fetch_weights(weights, progress=progress, check_hash=check_hash)
    return Checkpoint(path, weights.format, weights.safe_globals)


def _as_weights(source: object) -> Weights:
    if isinstance(source, WeightsEnum):
        return source.value  # type: ignore[no-any-return]
    if isinstance(source, Weights):
        return source
    if not isinstance(source, str):
        raise TypeError(
            f"a checkpoint is given by path, URL, weights member or name; got {type(source).__name__} {source!r}."
        )
    if source.startswith("hf:") and not source.startswith("hf://"):
        return Weights(repository_file(source, _SAFETENSORS_FILE), dict, {})
    if "://" in source or source.startswith("package:"):
        return Weights(source, dict, {})
    return _registered(source)


def repository_file(repository: str, file: str) -> str:
    """The URL of a file in `"hf:owner/name[@revision]"`.

    Example:
        >>> repository_file("hf:someone/net@v2", "config.json")
        'hf://someone/net/config.json@v2'
    """
    name, at, revision = repository.removeprefix("hf:").partition("@")
    if name.count("/") != 1 or not all(name.split("/")):
        raise ValueError(f"{repository!r} names no repository; expected 'hf:owner/name' or 'hf:owner/name@revision'.")
    return f"hf://{name}/{file}{at}{revision}"


def _registered(name: str) -> Weights:
    path = Path(name)
    if path.suffix.lower() in CHECKPOINT_SUFFIXES or path.is_absolute():  # no name looks like this
        raise MissingCheckpointError(f"no checkpoint at {path}{_nearby(path)}")
    return get_weight(name).value  # type: ignore[no-any-return]


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist. Check the path."
    names = close_names(path.name, (child.name for child in path.parent.iterdir()))
    return f"; in that folder are {', '.join(names)}." if names else f"; {path.parent} has no file of a similar name."
