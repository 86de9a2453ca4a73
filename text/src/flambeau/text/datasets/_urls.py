"""Addresses of files: what a program has to ask for where a browser would be asked to confirm first."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

_DRIVE_HOSTS = frozenset({"drive.google.com", "docs.google.com"})


def addresses(url: str) -> tuple[str, ...]:
    """Where to ask for a file: for Google Drive, which answers large files with a page, where it sends them at once.

    Example:
        >>> addresses("https://drive.google.com/uc?export=download&id=1abc")
        ('https://drive.usercontent.google.com/download?id=1abc&export=download&confirm=t',)
    """
    parts = urlsplit(url)
    identifier = parse_qs(parts.query).get("id") if parts.hostname in _DRIVE_HOSTS else None
    if not identifier:
        return (url,)
    return (f"https://drive.usercontent.google.com/download?id={identifier[0]}&export=download&confirm=t",)
