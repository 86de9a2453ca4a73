"""How upstream fetches models and data sets, over core's hub."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["DownloadManager", "load_state_dict_from_url"]

# What torch's own names of checkpoints end with: the first digits of their SHA-256.
_DIGEST = re.compile(r"-([a-f0-9]{8,})\.")


def load_state_dict_from_url(
    url: str,
    model_dir: str | os.PathLike[str] | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Fetch a checkpoint once and read it; upstream's pickled vocabularies (`*.vocab.pt`) become a `Vocab`.

    Args:
        url: its address.
        model_dir: folder to keep it in; the cache when None.
        map_location: device of its tensors, the CPU when None.
        progress: show a bar where stderr is a terminal.
        check_hash: verify the digits of the SHA-256 in its name, `<name>-<digits>.<suffix>`.
        file_name: the name to keep it under.
        weights_only: accepted; nothing else is ever read.

    Returns:
        A mapping of names to tensors, or a `Vocab`.

    Raises:
        DownloadError: it could not be fetched, or is not what its name says.
        UnsafeCheckpointError: reading it would run code.
    """
    from flambeau.core import hub
    from flambeau.core.weights.checkpoints import read_checkpoint
    from flambeau.text.vocab.pickled import is_vocab_file, load_vocab

    digits = _DIGEST.search(url.rpartition("/")[2]) if check_hash else None
    path = hub.fetch(
        url, root=model_dir, filename=file_name, progress=progress, sha256=digits.group(1) if digits else None
    )
    if is_vocab_file(path):
        return load_vocab(path)
    state: Mapping[str, Any] = read_checkpoint(path, device=map_location or "cpu")
    return state


class DownloadManager:
    """Fetches files to where they are wanted."""

    def get_local_path(self, url: str, destination: str | os.PathLike[str]) -> str:
        """The path of a file, fetched unless it is there.

        Raises:
            DownloadError: it could not be fetched.
        """
        from flambeau.core import hub

        target = Path(destination)
        return str(hub.fetch(url, root=target.parent, filename=target.name))


_DATASET_DOWNLOAD_MANAGER = DownloadManager()
_TEST_DOWNLOAD_MANAGER = DownloadManager()
