"""Files that upstream serves beside its weights: tutorials' recordings, tokenizers, statistics."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["download_asset"]

_BASE_URL = "https://download.pytorch.org/torchaudio/"


def download_asset(key: str, hash: str = "", path: str | os.PathLike[str] = "", *, progress: bool = True) -> str:
    """Fetch an asset unless it is there already.

    Args:
        key: name below upstream's server, such as `tutorial-assets/Lab41-SRI-VOiCES-src-sp0307-ch127535-sg0042.wav`.
        hash: expected SHA-256 in hex; empty to take the file as it is.
        path: where to put it; by default `torchaudio/<key>` below torch's hub folder, where upstream looks too.
        progress: show a bar where stderr is a terminal.

    Returns:
        Path of the file.

    Raises:
        HashMismatchError: what is or came there is another file.
        DownloadError: it could not be fetched.
    """
    from torch.hub import get_dir

    from flambeau.core.hub import fetch

    target = Path(path) if os.fspath(path) else Path(get_dir(), "torchaudio", key)
    if target.is_file() and not hash:
        return str(target)
    got = fetch(_BASE_URL + key, sha256=hash or None, filename=target.name, root=target.parent, progress=progress)
    return str(got)
