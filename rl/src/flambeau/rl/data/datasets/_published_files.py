"""Fetching what publishers of data sets offer: files by their addresses, and folders of the Hugging Face hub."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from flambeau.core.datasets import DatasetFile, DatasetInfo, prepare_dataset
from flambeau.core.environment import flag
from flambeau.core.errors import DownloadError, HubError, OfflineError
from flambeau.core.files import safe_name

__all__ = ["fetched", "folder_files", "hub_files", "sources_folder"]


def sources_folder(copy: Path) -> Path:
    """Where the published files of a copy go before they are converted: beside it."""
    return copy.with_name(f"{copy.name}.sources")


def fetched(
    name: str,
    files: Iterable[DatasetFile],
    folder: Path,
    *,
    download: bool,
    homepage: str | None = None,
) -> dict[str, Path]:
    """Bring published files into a folder: resumed, verified where a digest is known, and visible only when whole.

    Args:
        name: of the data set, for messages.
        files: what is wanted; those that are in the folder already are not asked for.
        folder: where they go, and where files placed by hand belong.
        download: whether those that are missing are fetched.
        homepage: where a person finds them.

    Returns:
        The files, by their paths below the folder.

    Raises:
        DatasetMissingError: `download` is False, and a file is missing; the message tells how to place it by hand.
        DownloadError: no server delivered a file.
    """
    facts = DatasetInfo(name=name.replace("/", "_"), files=tuple(files), homepage=homepage)
    prepare_dataset(facts, folder, download=download)
    return {file.path: folder / file.path for file in facts.files}


def hub_files(repository: str, paths: Iterable[str]) -> list[DatasetFile]:
    """Files of a data set's repository on the Hugging Face hub, each under its name there."""
    return [DatasetFile(url=f"hf://datasets/{repository}/{path}", path=_plain(path)) for path in paths]


def folder_files(repository: str, folder: str, suffixes: tuple[str, ...]) -> list[str]:
    """Paths of the files directly in a folder of a repository, wherever in the tree the folder lies; sorted.

    Raises:
        DownloadError: the repository has no such folder, or the hub cannot be reached.
        OfflineError: the network is switched off.
        HubError: `huggingface_hub` is not installed.
    """
    wanted = f"/{folder}"
    found = [path for path in listing(repository)
             if path.endswith(suffixes) and f"/{path.rpartition('/')[0]}".endswith(wanted)]  # fmt: skip
    if not found:
        raise DownloadError(
            f"{repository} on the Hugging Face hub has no folder {folder!r} with {', '.join(suffixes)}."
        )
    return sorted(found)


@functools.cache
def listing(repository: str) -> tuple[str, ...]:
    """Paths of all files of a data set's repository.

    Raises:
        DownloadError: the hub cannot be reached, or has no such repository.
        OfflineError: the network is switched off.
        HubError: `huggingface_hub` is not installed.
    """
    if flag("FLAMBEAU_OFFLINE"):
        raise OfflineError(f"the files of {repository} are listed by the Hugging Face hub; unset FLAMBEAU_OFFLINE.")
    try:
        import huggingface_hub
    except ImportError as error:
        raise HubError(
            f"{repository} needs huggingface_hub, which is not installed. Run: pip install 'flambeau-rl[datasets]'"
        ) from error
    try:
        return tuple(huggingface_hub.HfApi().list_repo_files(repository, repo_type="dataset"))
    except hub_errors() as error:
        raise DownloadError(f"the files of {repository} on the Hugging Face hub cannot be listed: {error}") from error


def hub_errors() -> tuple[type[Exception], ...]:
    """What `huggingface_hub` raises where it cannot ask: errors of its own, and of the library that it asks with."""
    from huggingface_hub.errors import HfHubHTTPError

    libraries = (sys.modules.get(name) for name in ("httpx", "httpx2"))
    return (HfHubHTTPError, OSError, RuntimeError, *(each.HTTPError for each in libraries if each is not None))


def remove(files: Mapping[str, Path], folder: Path) -> None:
    """Remove fetched files once they were converted."""
    for path in files.values():
        path.unlink(missing_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.name.startswith(".flambeau-"):
            path.unlink()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _plain(path: str) -> str:
    return "/".join(safe_name(part) for part in path.split("/"))
