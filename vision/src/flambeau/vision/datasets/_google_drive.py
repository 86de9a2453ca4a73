"""Files on Google Drive: their addresses."""

from __future__ import annotations

__all__ = ["drive_url"]


def drive_url(file_id: str) -> str:
    """Where Drive serves a shared file; `confirm` answers its question about files too large for a virus scan."""
    return f"https://drive.usercontent.google.com/download?id={file_id}&export=download&confirm=t"
