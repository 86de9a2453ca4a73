"""The forms that a file's address can have, and taking one apart. Nothing here looks whether there is such a file.

==============================================  ===========================================================
`https://host/path/file`, `http://..`           a file on a server
`hf://owner/name/file[@revision]`               a file of the Hugging Face hub
`package:importable.package/relative/path`      a file that an installed package carries
`file:///path/file`                             a file on this machine
==============================================  ===========================================================
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

PACKAGE = "package:"
HUGGING_FACE = "hf://"
FILE = "file:"

_KINDS = {"datasets": "dataset", "spaces": "space"}
_FORMS = "an http or https URL, hf://owner/name/file, package:name/file, or file:///path"
# What nearly every URL looks like; a listing checks a thousand of them, and taking one apart takes ten times as long.
_PLAIN = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]*/[ -~]*")
_DRIVE = re.compile(r"/[A-Za-z]:/")


def check(url: str) -> None:
    """See that an address has one of the forms.

    Raises:
        ValueError: it has none; the message says what is wrong.
    """
    if _PLAIN.fullmatch(url):
        return
    if url.startswith(PACKAGE):
        split_package(url)
    elif url.startswith(HUGGING_FACE):
        split_hugging_face(url)
    elif url.startswith(FILE):
        local_path(url)
    else:
        split_web(url)


def split_web(url: str) -> SplitResult:
    """The parts of an http or https URL.

    Raises:
        ValueError: another scheme, no host, a port that is no number, or a user name and password inside.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises for what is no port
    except ValueError as error:
        raise ValueError(f"{url!r} is malformed ({error}); expected {_FORMS}.") from error
    if not known:
        raise ValueError(f"{url!r} cannot be fetched; expected {_FORMS}. A file may also be given as a pathlib.Path.")
    if "@" in parts.netloc:
        host = parts.netloc.rpartition("@")[2]
        raise ValueError(f"the URL for {host} holds a user name; put a token into FLAMBEAU_TOKEN_FILE instead.")
    return parts


def split_package(url: str) -> tuple[str, str]:
    """The package, and the path below it, of `package:importable.package/relative/path`.

    Raises:
        ValueError: it is not of this form.
    """
    package, _, path = url.removeprefix(PACKAGE).partition("/")
    plain = path and not path.startswith("/") and ".." not in path.split("/") and not set("\\:\0") & set(path)
    if not plain or not all(part.isidentifier() for part in package.split(".")):
        raise ValueError(f"{url!r} is malformed; expected package:importable.package/relative/path, without '..'.")
    return package, path


def split_hugging_face(url: str) -> tuple[str, str, str | None, str]:
    """Repository, file, revision and kind ("model", "dataset" or "space") of `hf://owner/name/file[@revision]`.

    Raises:
        ValueError: a part is missing.
    """
    path, at, revision = url.removeprefix(HUGGING_FACE).rpartition("@")
    path, revision = (path, revision) if at else (revision, "")
    first, _, rest = path.partition("/")
    kind, path = (_KINDS[first], rest) if first in _KINDS else ("model", path)
    owner, name, file = (*path.split("/", 2), "", "")[:3]
    if not (owner and name and file) or (at and not revision) or ".." in file.split("/"):
        raise ValueError(f"{url!r} is malformed; expected hf://owner/name/file or hf://owner/name/file@revision.")
    return f"{owner}/{name}", file, revision or None, kind


def local_path(url: str) -> Path:
    """The path of `file:///path`.

    Raises:
        ValueError: a file of another machine, a relative path, or no path at all.
    """
    try:
        parts = urlsplit(url)
        path = unquote(parts.path)
    except ValueError as error:
        raise ValueError(f"{url!r} is malformed ({error}); expected file:///path.") from error
    if parts.netloc not in ("", "localhost") or not path.strip("/") or not path.startswith("/") or "\0" in path:
        raise ValueError(f"{url!r} names no file of this machine; expected file:///path, absolute.")
    return Path(path[1:] if _DRIVE.match(path) else path)
