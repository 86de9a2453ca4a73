"""Downloading, unpacking and listing of files, under the names that datasets written for upstream use.

Everything fetched goes through core's hub: it resumes, is verified before it becomes visible, and archives cannot
leave their folder.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from flambeau.core.datasets import DatasetFile, DatasetInfo, fetch_dataset
from flambeau.core.datasets.browsing import browser_url, is_web_page
from flambeau.core.errors import DownloadError, HashMismatchError, UnknownNameError, close_names
from flambeau.core.files import replace
from flambeau.core.hub.transport import USER_AGENT as USER_AGENT
from flambeau.vision.datasets._google_drive import drive_url

__all__ = [
    "calculate_md5",
    "check_integrity",
    "check_md5",
    "download_and_extract_archive",
    "download_file_from_google_drive",
    "download_url",
    "extract_archive",
    "iterable_to_str",
    "list_dir",
    "list_files",
    "verify_str_arg",
]

T = TypeVar("T", str, bytes)


def calculate_md5(fpath: str | Path, chunk_size: int = 1024 * 1024) -> str:
    """The MD5 of a file in hexadecimal, read `chunk_size` bytes at a time. It detects damage, not malice."""
    digest = hashlib.md5(usedforsecurity=False)
    with Path(fpath).open("rb") as file:
        while chunk := file.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(fpath: str | Path, md5: str, **kwargs: int) -> bool:
    """Whether a file has this MD5; `kwargs` go to `calculate_md5`."""
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath: str | Path, md5: str | None = None) -> bool:
    """Whether a file exists and, with `md5`, has that MD5."""
    return Path(fpath).is_file() and (md5 is None or check_md5(fpath, md5))


def download_url(
    url: str,
    root: str | Path,
    filename: str | Path | None = None,
    md5: str | None = None,
    max_redirect_hops: int = 3,
) -> None:
    """Fetch a file into a folder. A file that is there already, and intact as far as `md5` tells, is kept.

    Args:
        url: http(s) address.
        root: the folder; made if absent, `~` is expanded.
        filename: name below the folder; the URL's last part when None.
        md5: hexadecimal digest; without it, the length that the server announces is all that is checked.
        max_redirect_hops: accepted and not used: the hub follows ten.

    Raises:
        DownloadError: the file could not be fetched; as `HashMismatchError` where its MD5 is another.
    """
    file = DatasetFile(url=url, path=str(filename) if filename else "", md5=md5.lower() if md5 else None)
    fetch_dataset(DatasetInfo(name=file.path.rpartition("/")[2], files=(file,)), root)


def download_file_from_google_drive(
    file_id: str, root: str | Path, filename: str | Path | None = None, md5: str | None = None
) -> None:
    """Fetch a file that is shared on Google Drive into a folder. A file that is there, and intact, is kept.

    Args:
        file_id: the long name in its link.
        root: the folder; made if absent, `~` is expanded.
        filename: name below the folder; the id when None.
        md5: hexadecimal digest.

    Raises:
        DownloadError: the file could not be fetched, or Drive sent a page in its place, because of a quota or because
            the file is not shared with everybody; nothing is saved then.
    """
    from flambeau.core import hub

    target = Path(root).expanduser() / (filename or file_id)
    if check_integrity(target, md5):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".flambeau-incoming-", dir=target.parent) as incoming:
        fetched = hub.fetch(drive_url(file_id), root=incoming, filename=target.name)
        page = is_web_page(fetched)
        if page or (md5 is not None and not check_md5(fetched, md5.lower())):
            kind = DownloadError if page else HashMismatchError
            found = "a web page" if page else f"a file with md5 {calculate_md5(fetched)}"
            raise kind(
                f"Google Drive sent {found} in place of {target.name} (id {file_id}{f', md5 {md5}' if md5 else ''}). "
                "Its quota may be used up, or the file not be shared with everybody: try again a day later, name a "
                f"mirror in FLAMBEAU_MIRRORS, or open {browser_url(drive_url(file_id))} in a browser and save it as "
                f"{target}."
            )
        replace(fetched, target)


_COMPRESSED = (".gz", ".bz2", ".xz")


def extract_archive(
    from_path: str | Path, to_path: str | Path | None = None, remove_finished: bool = False
) -> str | Path:
    """Unpack an archive (tar, zip, gz, bz2, xz and the like, recognised by content).

    Args:
        from_path: the archive.
        to_path: the folder to unpack into; the archive's own when None.
        remove_finished: delete the archive afterwards.

    Returns:
        The folder; for a single compressed file, the unpacked file. A string where `to_path` (or without it
        `from_path`) is one.

    Raises:
        UnsafeArchiveError: the archive would write outside the folder, or grows beyond bounds; nothing is left of it.
    """
    from flambeau.core import hub

    source = Path(from_path)
    made = hub.extract_archive(source, Path(to_path) if to_path is not None else source.parent, remove=remove_finished)
    if source.suffix in _COMPRESSED and (made / source.stem).is_file():
        made /= source.stem
    return str(made) if isinstance(from_path if to_path is None else to_path, str) else made


def download_and_extract_archive(
    url: str,
    download_root: str | Path,
    extract_root: str | Path | None = None,
    filename: str | Path | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """`download_url`, then `extract_archive`; unpacks into `download_root` when `extract_root` is None."""
    folder = Path(download_root).expanduser()
    name = str(filename) if filename else DatasetFile(url=url).path
    download_url(url, folder, name, md5)
    extract_archive(folder / name, Path(extract_root).expanduser() if extract_root else folder, remove_finished)


def list_dir(root: str | Path, prefix: bool = False) -> list[str]:
    """Names of the folders in a folder, sorted; with `prefix`, their paths."""
    return _listing(root, prefix, lambda path: path.is_dir())


def list_files(root: str | Path, suffix: str | tuple[str, ...], prefix: bool = False) -> list[str]:
    """Names of the files in a folder that end in `suffix`, sorted; with `prefix`, their paths."""
    return _listing(root, prefix, lambda path: path.is_file() and path.name.endswith(suffix))


def _listing(root: str | Path, prefix: bool, wanted: Callable[[Path], bool]) -> list[str]:
    found = sorted(path for path in Path(root).expanduser().iterdir() if wanted(path))
    return [str(path) if prefix else path.name for path in found]


def iterable_to_str(iterable: Iterable[object]) -> str:
    """The items in quotes, separated by commas."""
    return "'" + "', '".join(str(item) for item in iterable) + "'"


def verify_str_arg(
    value: T,
    arg: str | None = None,
    valid_values: Iterable[T] | None = None,
    custom_msg: str | None = None,
) -> T:
    """Check an argument that has a fixed set of values, and return it.

    Args:
        value: what the caller gave.
        arg: name of the argument, for the message.
        valid_values: what it may be; None accepts every string.
        custom_msg: the message in place of the usual one.

    Raises:
        ValueError: `value` is no string, or none of `valid_values`; the message suggests the nearest.
    """
    if not isinstance(value, str | bytes):
        named = f" for argument {arg}" if arg else ""
        raise ValueError(f"Expected type str{named}, but got type {type(value)}.")
    if valid_values is None or value in (valid := list(valid_values)):
        return value
    named = f" for argument {arg}" if arg else ""
    close = close_names(str(value), map(str, valid))
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise UnknownNameError(
        custom_msg or f"Unknown value '{value!s}'{named}. Valid values are {{{iterable_to_str(valid)}}}.{hint}"
    )
