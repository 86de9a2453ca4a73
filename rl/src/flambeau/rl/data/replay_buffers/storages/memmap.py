"""Storages in files that are mapped into memory: larger than memory, and shared by processes."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from flambeau.data.tensordict import is_tensor_collection
from flambeau.rl.data.replay_buffers._publication import Publication
from flambeau.rl.data.replay_buffers.storages import _mapped_files as mapped_files
from flambeau.rl.data.replay_buffers.storages.tensor import LazyTensorStorage

__all__ = ["LazyMemmapStorage"]

_LARGE_GB = 1.0


class LazyMemmapStorage(LazyTensorStorage):
    """Items in files that are mapped into memory, made with all places when the first item shows what they are like.

    Every process that the storage is sent to sees the same items; several may write.

    Args:
        max_size: how many places there are, > 0.
        scratch_dir: folder of the files; by default a temporary one, which is removed with the storage.
        device: where items are moved to when they are read; the files themselves are read by the CPU.
        ndim: see `LazyTensorStorage`.
        existsok: whether files that are in `scratch_dir` already may be written over.
        compilable: see `Storage`.
        shared_init: accepted for code written for upstream; files can always be made by any process.
        auto_cleanup: whether `scratch_dir` is removed with the storage; by default if it is a temporary one.

    Raises:
        RuntimeError: at the first item: the disk has less room than all places need.
        ValueError: max_size < 1.
    """

    def __init__(
        self,
        max_size: int,
        *,
        scratch_dir: str | Path | None = None,
        device: torch.device | str = "cpu",
        ndim: int = 1,
        existsok: bool = False,
        compilable: bool = False,
        shared_init: bool = False,
        auto_cleanup: bool | None = None,
    ) -> None:
        self.existsok = existsok
        self.scratch_dir: str | None = None if scratch_dir is None else str(scratch_dir).rstrip("/") + "/"
        self._deliver_to: torch.device | None = None
        super().__init__(max_size, device="cpu", ndim=ndim, compilable=compilable, cleanup_memmap=False)
        if device != "auto" and torch.device(device).type != "cpu":
            self._deliver_to = torch.device(device)
        self._temporary = scratch_dir is None
        self.auto_cleanup = self._temporary if auto_cleanup is None else auto_cleanup
        self.shared_init = shared_init
        self._cleaner: Any = None
        self.share_()

    def share_(self) -> LazyMemmapStorage:
        """Choose the folder that processes share."""
        if self.publication is None:
            self.publication = Publication(self.max_size)
            self._counters.share()
        if self._folder is None and hasattr(self, "auto_cleanup"):
            self._folder = self.scratch_dir or tempfile.mkdtemp(prefix="flambeau-replay-")
            if self.auto_cleanup:
                self._cleaner = weakref.finalize(self, _remove, self._folder, os.getpid())
        return self

    def cleanup(self) -> bool:
        """Remove the files; true if there were any to remove. The storage cannot be used afterwards."""
        if self._folder is None or not Path(self._folder).is_dir():
            return False
        shutil.rmtree(self._folder, ignore_errors=True)
        return True

    def _mapped(self, example: Any, folder: str) -> Any:
        self._check_room_on_disk(example, folder)
        if not self.existsok and not self._temporary and _has_files(folder):
            raise RuntimeError(
                f"LazyMemmapStorage: {folder} has files of a storage already; give existsok=True to write over them, "
                "or another scratch_dir."
            )
        return super()._mapped(example, folder)

    def _check_room_on_disk(self, example: Any, folder: str) -> None:
        collection = not isinstance(example, Tensor) and is_tensor_collection(example)
        leaves = list(example.values(True, True)) if collection else tree_flatten(example)[0]
        bytes_ = sum(
            math.prod(self._full_shape(leaf)) * leaf.element_size() for leaf in leaves if isinstance(leaf, Tensor)
        )
        Path(folder).mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if bytes_ > free:
            raise RuntimeError(
                f"LazyMemmapStorage: {self.max_size} places need {bytes_ / 1e9:.2f} GB, but {folder} has "
                f"{free / 1e9:.2f} GB left. Lower max_size, store smaller items (images as uint8), or give a "
                "scratch_dir on another disk."
            )
        if bytes_ > _LARGE_GB * 1e9 and bytes_ > 0.5 * free:
            warnings.warn(
                f"LazyMemmapStorage: {self.max_size} places will take {bytes_ / 1e9:.2f} GB of the {free / 1e9:.2f} GB "
                f"that {folder} has left.",
                stacklevel=4,
            )

    def get(self, index: Any) -> Any:
        """Items at places, on the device they are delivered to."""
        return self._delivered(super().get(index))

    def take(self, index: Any) -> Any:
        """Items at places that a sampler drew."""
        return self._delivered(super().take(index))

    def _delivered(self, found: Any) -> Any:
        if self._deliver_to is None:
            return found
        if isinstance(found, Tensor) or is_tensor_collection(found):
            return found.to(self._deliver_to)
        return tree_map(lambda leaf: leaf.to(self._deliver_to), found)

    def _take_over(self, content: Any) -> None:
        if self._folder is not None and not mapped_files.is_mapped(content):
            content = mapped_files.copied(content, self._folder)
            if self.publication is not None:
                self.publication.set_allocated()
        super()._take_over(content)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_cleaner"] = None
        # Files are opened anew: a copy in the pickle would be another storage.
        state["_storage"], state["initialized"] = None, False
        return state


def _has_files(folder: str) -> bool:
    return (Path(folder) / "meta.json").exists() or any(Path(folder).glob("*.memmap"))


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
