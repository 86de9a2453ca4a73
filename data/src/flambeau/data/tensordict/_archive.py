"""Archives of saved TensorDicts: upstream's path of these functions."""

from __future__ import annotations

from flambeau.data.tensordict.memmap.archive import (
    is_memmap_archive,
    pack_memmap,
    refresh_archive_checksums,
    unpack_memmap,
)

__all__ = ["is_memmap_archive", "pack_memmap", "refresh_archive_checksums", "unpack_memmap"]
