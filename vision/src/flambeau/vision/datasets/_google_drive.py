"""Files on Google Drive: their addresses, and how its notices are told from files."""

from __future__ import annotations

from pathlib import Path

__all__ = ["drive_url", "is_web_page"]


def drive_url(file_id: str) -> str:
    """Where Drive serves a shared file; `confirm` answers its question about files too large for a virus scan."""
    return f"https://drive.usercontent.google.com/download?id={file_id}&export=download&confirm=t"


def is_web_page(path: Path) -> bool:
    """Whether a file is HTML by its first bytes, as Drive's notices about quotas and permissions are."""
    with path.open("rb") as file:
        head = file.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return head.startswith((b"<!doctype html", b"<html"))
