"""Fetching by hand: where a browser shows a file, and how a page that came in place of one is told."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_DRIVE = frozenset({"docs.google.com", "drive.google.com", "drive.usercontent.google.com"})


def browser_url(url: str) -> str:
    """Where a person fetches what a program fetches from `url`: of Google Drive its page, else the address itself.

    Example:
        >>> browser_url("https://drive.usercontent.google.com/download?id=1abc&confirm=t")
        'https://drive.google.com/file/d/1abc/view'
    """
    identifier = _drive_id(url)
    return url if identifier is None else f"https://drive.google.com/file/d/{identifier}/view"


def advice(url: str) -> str:
    """What is worth knowing about an address that failed, a sentence; empty where there is nothing."""
    if _drive_id(url) is None:
        return ""
    return (
        "Google Drive sends a notice in place of a file that many asked for in the last day, or that is not shared "
        "with everybody. A browser that is signed in often gets it all the same."
    )


def is_web_page(path: Path) -> bool:
    """Whether a file is HTML by its first bytes."""
    with path.open("rb") as file:
        head = file.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return head.startswith((b"<!doctype html", b"<html"))


def _drive_id(url: str) -> str | None:
    parts = urlsplit(url)
    identifier = parse_qs(parts.query).get("id") if parts.hostname in _DRIVE else None
    return identifier[0] if identifier else None
