"""Files that lie in this package."""

from __future__ import annotations

from pathlib import Path

__all__ = ["COMPONENTS_DIR", "get_abspath", "read_conf_file"]

COMPONENTS_DIR: Path = Path("flambeau/launch/components")


def get_abspath(relpath: str) -> str:
    """The absolute path of a file below `components`."""
    return str(Path(__file__).resolve().parent.parent / "components" / relpath)


def read_conf_file(conf_file: str) -> str:
    """The text of a file.

    Raises:
        FileNotFoundError: it is not there.
    """
    return Path(conf_file).read_text(encoding="utf-8")
