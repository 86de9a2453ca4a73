"""Where the files of tables go."""

from __future__ import annotations

import tempfile
from pathlib import Path

from flambeau.rec.errors import OptionError

__all__ = ["folder_of"]


def folder_of(storage_directory: str, unique_id: int) -> tuple[Path, bool]:
    """The folder of some tables, and whether it is removed with them.

    Args:
        storage_directory: where it is made; several, separated by commas, of which tables take turns.
        unique_id: from 0 on, the folder has a name by it, is opened again where there is one, and stays. Below 0 it is
            a new one, for as long as the tables live.

    Raises:
        ValueError: no directory is given.
    """
    directories = [Path(one.strip()) for one in storage_directory.split(",") if one.strip()]
    if not directories:
        raise OptionError("ssd_storage_directory is empty; give the directory that tables are to be stored in.")
    directory = directories[max(unique_id, 0) % len(directories)]
    directory.mkdir(parents=True, exist_ok=True)
    if unique_id >= 0:
        return directory / f"tables-{unique_id}", False
    return Path(tempfile.mkdtemp(prefix="ssd_table_batched_embeddings", dir=directory)), True
