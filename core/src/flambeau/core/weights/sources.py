"""From what a caller calls a checkpoint (a path, URL, weights member or name) to a verified file on this machine."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flambeau.core.errors import MissingCheckpointError
from flambeau.core.weights.enums import CHECKPOINT_SUFFIXES, Format, Weights, WeightsEnum

if TYPE_CHECKING:
    Source = str | os.PathLike[str] | WeightsEnum | Weights

logger = logging.getLogger(__name__)

# `resnet50-0676ba61.pth`: upstream puts the first digits of the SHA-256 into the file's name.
_NAMED_HASH = re.compile(r"-([0-9a-f]{8,64})\.")
_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_NON_COMMERCIAL = re.compile(r"\bnc\b|non-?commercial", re.IGNORECASE)
_SAFETENSORS_FILE = "model.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A file that is there, and how it may be read."""

    path: Path
    format: Format = "auto"
    safe_globals: tuple[str, ...] = ()
    trust: bool = False


def named_hash(file: str) -> str | None:
    """The digits of the SHA-256 in a file's name, None where it carries none.

    A date such as `-20240131.` has the same form; it is no hash.

    Example:
        >>> named_hash("resnet50-0676ba61.pth"), named_hash("tagger-20240131.pt")
        ('0676ba61', None)
    """
    match = _NAMED_HASH.search(file)
    return match[1] if match and not _DATE.fullmatch(match[1]) else None


def expected_sha256(weights: Weights) -> str | None:
    """The digest a file must have, or its first digits: as stated, else from the file's name."""
    return weights.sha256 or named_hash(weights.url.rpartition("/")[2])


def fetch_weights(
    weights: Weights,
    *,
    progress: bool = True,
    check_hash: bool = True,
    root: str | os.PathLike[str] | None = None,
    filename: str | None = None,
) -> Path:
    """The file of some weights, downloaded and verified if need be.

    Raises:
        DownloadError: it could not be fetched, or not verified.
    """
    from flambeau.core import hub

    digest = expected_sha256(weights) if check_hash else None
    folder = Path(root) if root is not None else None
    _tell_license(weights, digest, filename, folder)
    return hub.fetch(
        weights.url,
        sha256=digest,
        size=weights.size,
        filename=filename,
        root=folder,
        mirrors=weights.mirrors,
        progress=progress,
    )


def _tell_license(weights: Weights, digest: str | None, filename: str | None, folder: Path | None) -> None:
    """Say once, when the file is first fetched, that its use is restricted."""
    from flambeau.core import hub

    license = str(weights.meta.get("license") or "")
    if _NON_COMMERCIAL.search(license.replace("_", "-")) is None:
        return
    if hub.cached(weights.url, sha256=digest, filename=filename, root=folder) is None:
        logger.info("%s is licensed %s: no commercial use.", weights.url.rpartition("/")[2], license)


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
    from flambeau.core.weights.catalogue import get_weight

    path = Path(name)
    if path.suffix.lower() in CHECKPOINT_SUFFIXES or path.is_absolute():  # no name looks like this
        raise MissingCheckpointError(f"no checkpoint at {path}{_nearby(path)}")
    return get_weight(name).value  # type: ignore[no-any-return]


def _nearby(path: Path) -> str:
    from flambeau.core.errors import close_names

    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist. Check the path."
    names = close_names(path.name, (child.name for child in path.parent.iterdir()))
    return f"; in that folder are {', '.join(names)}." if names else f"; {path.parent} has no file of a similar name."
