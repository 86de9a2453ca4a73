"""Downloading, unpacking and verifying files, under the names that programs for upstream use.

Everything comes through core's hub: it resumes, is verified before it becomes visible, and archives cannot leave their
folder.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from flambeau.core.errors import HashMismatchError
from flambeau.core.files import replace

__all__ = [
    "download_from_url",
    "extract_archive",
    "get_asset_local_path",
    "get_lock_dir",
    "reporthook",
    "validate_file",
]

_HASHES = ("sha256", "md5")
_TAR, _ZIP, _GZIP = (".tar.gz", ".tgz"), (".zip",), (".gz",)


def reporthook(t: Any) -> Callable[..., None]:
    """A function for `urllib.request.urlretrieve` that moves a bar of `tqdm`.

    Args:
        t: the bar.
    """
    last = [0]

    def inner(b: int = 1, bsize: int = 1, tsize: int | None = None) -> None:
        if tsize is not None:
            t.total = tsize
        t.update((b - last[0]) * bsize)
        last[0] = b

    return inner


def validate_file(file_obj: IO[bytes], hash_value: str, hash_type: str = "sha256") -> bool:
    """Whether what an open file holds has this digest.

    Args:
        file_obj: open for reading bytes.
        hash_value: the digest in hexadecimal.
        hash_type: "sha256" or "md5".

    Raises:
        ValueError: another `hash_type`.
    """
    if hash_type not in _HASHES:
        raise ValueError(f"hash_type is {hash_type!r}; expected 'sha256' or 'md5'.")
    digest = hashlib.new(hash_type, usedforsecurity=False)
    while block := file_obj.read(1 << 20):
        digest.update(block)
    return digest.hexdigest() == hash_value.lower()


def download_from_url(
    url: str,
    path: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] = ".data",
    overwrite: bool = False,
    hash_value: str | None = None,
    hash_type: str = "sha256",
) -> str:
    """Fetch a file. One that is there already is verified and kept.

    Args:
        url: its address; pages on which Google Drive offers a file count as its address.
        path: where it goes; below `root`, under the URL's last part, when None.
        root: a folder, made if absent.
        overwrite: fetch it even if it is there.
        hash_value: its digest in hexadecimal.
        hash_type: "sha256" or "md5".

    Returns:
        The file's absolute path.

    Raises:
        RuntimeError: the file, fetched or there already, has another digest; the message names it.
        DownloadError: it could not be fetched.
        ValueError: another `hash_type`.
    """
    if hash_type not in _HASHES:
        raise ValueError(f"hash_type is {hash_type!r}; expected 'sha256' or 'md5'.")
    from flambeau.core.hub.cache import url_name

    given = Path(path) if path is not None else Path(root) / url_name(url)
    target = given.expanduser().absolute()
    if target.is_file() and not overwrite:
        if hash_value is not None:
            _check(target, hash_value, hash_type)
        return str(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        _fetch(url, target, hash_value, hash_type)
        return str(target)
    # The old file stays until there is a good new one.
    with tempfile.TemporaryDirectory(prefix=".flambeau-incoming-", dir=target.parent) as incoming:
        fetched = Path(incoming) / target.name
        _fetch(url, fetched, hash_value, hash_type)
        replace(fetched, target)
    return str(target)


def extract_archive(
    from_path: str | os.PathLike[str], to_path: str | os.PathLike[str] | None = None, overwrite: bool = False
) -> list[str]:
    """Unpack an archive, or a single file that is compressed.

    Args:
        from_path: `.tar.gz`, `.tgz`, `.zip` or `.gz`.
        to_path: the folder to unpack into; the archive's own when None.
        overwrite: replace files that are there already; else they stay as they are.

    Returns:
        The files in it, as paths below `to_path`.

    Raises:
        NotImplementedError: the name ends otherwise.
        UnsafeArchiveError: the archive would write outside the folder, or grows beyond bounds; nothing is left of it.
        HubError: it is damaged.
    """
    from flambeau.core import hub

    source = Path(from_path)
    if not source.name.endswith((*_TAR, *_ZIP, *_GZIP)):
        kinds = ", ".join((*_TAR, *_ZIP, *_GZIP))
        raise NotImplementedError(f"{os.fspath(from_path)!r} is no archive of a kind that is unpacked: {kinds}.")
    folder = Path(to_path) if to_path is not None else source.parent
    folder.mkdir(parents=True, exist_ok=True)
    # Beside its place, so that moving is renaming; and checked as a whole before anything is there.
    with tempfile.TemporaryDirectory(prefix=".flambeau-unpacked-", dir=folder) as temporary:
        unpacked = hub.extract_archive(source, Path(temporary) / "content")
        names = sorted(
            file.relative_to(unpacked)
            for file in unpacked.rglob("*")
            if not file.is_dir() and not (file.parent == unpacked and file.name.startswith(".flambeau-"))
        )
        for name in names:
            target = folder / name
            if overwrite or not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                replace(unpacked / name, target)
    return [str(folder / name) for name in names]


def get_asset_local_path(asset_path: str, overwrite: bool = False) -> str:
    """The path of a file that may be a URL: fetched into the cache once.

    Args:
        asset_path: path or URL.
        overwrite: fetch a URL again.

    Raises:
        FileNotFoundError: it is no URL, and there is no such file.
        DownloadError: it could not be fetched.
    """
    if Path(asset_path).exists():
        return asset_path
    if "://" not in asset_path:
        raise FileNotFoundError(f"{asset_path!r} is no file, and no URL either.")
    from flambeau import text

    return download_from_url(asset_path, root=text._CACHE_DIR, overwrite=overwrite)


def get_lock_dir() -> str:
    """The folder in the cache for locks, made if absent."""
    from flambeau import text

    folder = Path(text._CACHE_DIR) / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _log_class_usage(klass: Any) -> None:
    """Do nothing: upstream counts here which classes are used inside Meta."""


def _check(file: Path, hash_value: str, hash_type: str) -> None:
    with file.open("rb") as stream:
        if not validate_file(stream, hash_value, hash_type):
            raise HashMismatchError(
                f"The hash of {file} does not match: its {hash_type} is not {hash_value}. Remove the file, or call "
                "with overwrite=True, to fetch it again."
            )


def _fetch(url: str, target: Path, hash_value: str | None, hash_type: str) -> None:
    from flambeau.core.datasets import DatasetFile, DatasetInfo, fetch_dataset
    from flambeau.text.datasets._urls import addresses

    first, *others = addresses(url)
    digest = hash_value.lower() if hash_value is not None else None
    file = DatasetFile(
        url=first,
        mirrors=tuple(others),
        path=target.name,
        sha256=digest if hash_type == "sha256" else None,
        md5=digest if hash_type == "md5" else None,
    )
    fetch_dataset(DatasetInfo(name=target.name, files=(file,)), target.parent)
