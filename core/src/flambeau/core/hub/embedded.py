"""`package:importable.package/relative/path`: files that an installed package carries."""

from __future__ import annotations

from pathlib import Path

from flambeau.core.errors import DownloadError
from flambeau.core.hub.addresses import PACKAGE, split_package
from flambeau.core.packages import package_folders


def is_embedded(url: str) -> bool:
    """Whether a URL names a file inside an installed package."""
    return url.startswith(PACKAGE)


def find(url: str) -> Path | None:
    """The installed file, or None where the package or the file is absent. Nothing is imported.

    Raises:
        ValueError: not of the form `package:importable.package/relative/path`.
    """
    package, relative = split_package(url)
    return next((found for folder in package_folders(package) if (found := Path(folder, relative)).is_file()), None)


def locate(url: str) -> Path:
    """The installed file.

    Raises:
        DownloadError: the package or the file is absent.
    """
    path = find(url)
    if path is None:
        package, relative = split_package(url)
        raise DownloadError(
            f"{url}: no file {relative!r} in an installed package {package!r}. Install or reinstall the distribution "
            "that carries it.",
            url=url,
        )
    return path
