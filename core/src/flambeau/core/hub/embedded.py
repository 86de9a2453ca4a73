"""`package:importable.package/relative/path`: files that an installed package carries."""

from __future__ import annotations

import importlib.util
from pathlib import Path, PurePosixPath

from flambeau.core.errors import DownloadError

_SCHEME = "package:"


def is_embedded(url: str) -> bool:
    """Whether a URL names a file inside an installed package."""
    return url.startswith(_SCHEME)


def find(url: str) -> Path | None:
    """The installed file, or None where the package or the file is absent. The package itself is not imported.

    Raises:
        ValueError: not of the form `package:importable.package/relative/path`.
    """
    package, _, relative = url.removeprefix(_SCHEME).partition("/")
    path = PurePosixPath(relative)
    plain = relative and not path.is_absolute() and ".." not in path.parts and not set("\\:\0") & set(relative)
    if not plain or not all(part.isidentifier() for part in package.split(".")):
        raise ValueError(f"{url!r} is malformed; expected package:importable.package/relative/path, without '..'.")
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    # An editable install may spread one package over several folders.
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return next((found for folder in folders if (found := Path(folder, path)).is_file()), None)


def locate(url: str) -> Path:
    """The installed file.

    Raises:
        DownloadError: the package or the file is absent.
    """
    path = find(url)
    if path is None:
        package, _, relative = url.removeprefix(_SCHEME).partition("/")
        raise DownloadError(
            f"{url}: no file {relative!r} in an installed package {package!r}. Install or reinstall the distribution "
            "that carries it.",
            url=url,
        )
    return path
