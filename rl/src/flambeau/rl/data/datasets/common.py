"""What data sets have in common: a local copy that is whole or not there, and buffers that draw from it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from flambeau.core.datasets import Field
from flambeau.core.errors import close_names
from flambeau.core.folders import replaced_folder
from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.datasets._local_copies import LocalCopy, default_root
from flambeau.rl.data.datasets._published_files import remove, sources_folder
from flambeau.rl.data.datasets._splitting import split_rows
from flambeau.rl.data.replay_buffers.replay_buffers.tensordict import TensorDictReplayBuffer
from flambeau.rl.data.replay_buffers.samplers.random import RandomSampler
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage
from flambeau.rl.data.replay_buffers.writers.base import ImmutableDatasetWriter

__all__ = ["BaseDatasetExperienceReplay"]

Download = bool | Literal["force"]
# What an item is, for the registry of data sets: a tensordict, whose entries each data set describes.
STEP = (Field("step", "any"),)


class BaseDatasetExperienceReplay(TensorDictReplayBuffer):
    """A data set that was recorded before: a replay buffer that is read only.

    Its steps are laid out like those of environments: what an observation, an action and the flags were at the root,
    and what they led to below "next"; flags and rewards (steps, 1).

    Subclasses say where the steps come from, by `_convert`.

    Args:
        priority_key: see `TensorDictReplayBuffer`.
        kwargs: see `TensorDictReplayBuffer`.
    """

    source: ClassVar[str] = "local"
    dataset_id: str
    root: Path
    split_trajs: bool = False

    def __init__(self, *, priority_key: Any = "td_error", **kwargs: Any) -> None:
        kwargs.setdefault("writer", None)
        if kwargs["writer"] is None:
            kwargs["writer"] = ImmutableDatasetWriter()
        if kwargs.get("sampler") is None:
            kwargs["sampler"] = RandomSampler()
        super().__init__(priority_key=priority_key, **kwargs)

    # Where it lies

    @property
    def data_path_root(self) -> Path:
        """Folder of the steps."""
        return self.root / self.dataset_id

    @property
    def data_path(self) -> Path:
        """Folder of what batches are drawn from: of the steps, or of the trajectories that they were split into."""
        whole = self.data_path_root
        return whole.with_name(f"{whole.name}_split") if self.split_trajs else whole

    @property
    def name(self) -> str:
        """What the data set is called in messages, and by `load_dataset`."""
        return f"{self.source}:{self.dataset_id}"

    def _is_downloaded(self) -> bool:
        return LocalCopy(self.data_path_root, self.name).fault() is None

    def _locate(self, dataset_id: str, root: str | Path | None) -> None:
        """Say which data set it is, before anything else."""
        self.dataset_id = dataset_id
        self.root = default_root(self.source) if root is None else Path(root).expanduser()

    def _check_id(self, dataset_id: str, known: Any) -> None:
        if dataset_id not in known:
            near = close_names(dataset_id, list(known))
            hint = f" Close names: {', '.join(near)}." if near else ""
            raise ValueError(
                f"{type(self).__name__} knows no data set {dataset_id!r}.{hint} "
                f"`{type(self).__name__}.available_datasets` lists all."
            )

    # Making the copy

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        """Write the steps to a folder.

        Args:
            folder: empty; it becomes the copy.
            sources: folder for the published files.
            download: whether they may be fetched.

        Returns:
            The files that it was made of, and facts to keep with it.
        """
        raise TypeError(f"{type(self).__name__} reads a copy that is there; it has no files of its own to convert.")

    def _prepared(self, download: Download) -> Any:
        """The steps, memory-mapped; fetched and converted where that is needed and allowed.

        Raises:
            DatasetMissingError: there is no whole copy, and `download` is False.
            DownloadError: a file could not be fetched.
            DatasetFormatError: a file is not in the format that its publisher describes.
        """
        copy = LocalCopy(self.data_path_root, self.name)
        if download == "force":
            self._make(copy, download=True)
        elif copy.fault() is not None:
            if not download and not self._has_sources():
                if not copy.accept_unmarked():
                    raise copy.missing(self._missing_hint())
            else:
                with copy.turn():
                    if copy.fault() is not None:  # another process may have made it meanwhile
                        self._make(copy, download=bool(download))
        if not self.split_trajs:
            return copy.load()
        split = LocalCopy(self.data_path, f"{self.name}, split")
        if download == "force" or split.fault() is not None:
            with split.writing({}) as folder:
                split_rows(copy.load(), folder)
        return split.load()

    def _has_sources(self) -> bool:
        """Whether published files were placed by hand."""
        return sources_folder(self.data_path_root).is_dir()

    def _missing_hint(self) -> str:
        return ""

    def _make(self, copy: LocalCopy, *, download: bool) -> None:
        sources = sources_folder(copy.folder)
        placed = sources.is_dir() and not any(sources.rglob(".flambeau-*"))
        found: dict[str, Path] = {}
        facts: dict[str, Any] = {}
        with copy.writing(found, facts) as folder:
            files, known = self._convert(folder, sources, download)
            found.update(files)
            facts.update(known)
        if not placed and sources.is_dir():
            remove({name: path for name, path in files.items() if path.is_relative_to(sources)}, sources)

    @property
    def _facts(self) -> dict[str, Any]:
        """What was kept with the copy."""
        facts: dict[str, Any] = LocalCopy(self.data_path_root, self.name).description.get("facts", {})
        return facts

    # What users do with it

    def preprocess(
        self,
        fn: Callable[[Any], Any],
        dim: int = 0,
        num_workers: int | None = None,
        *,
        chunksize: int | None = None,
        num_chunks: int | None = None,
        pool: Any = None,
        generator: torch.Generator | None = None,
        max_tasks_per_child: int | None = None,
        worker_threads: int = 1,
        index_with_generator: bool = False,
        pbar: bool = False,
        mp_start_method: str | None = None,
        num_frames: int | None = None,
        dest: str | Path,
    ) -> TensorStorage:
        """Change all steps by a function, in processes, and write what comes to memory-mapped files.

        Args:
            fn: takes a tensordict of steps and returns one of as many: see `TensorDict.map`.
            dim: the dimension along which processes share the steps.
            num_workers: how many processes; 0 for this one alone.
            chunksize: how many steps the function gets at once.
            num_chunks: how many times it is called, instead of `chunksize`.
            pool: processes to use, instead of `num_workers`.
            generator: of the processes' random numbers.
            max_tasks_per_child: how many calls a process makes before it is replaced.
            worker_threads: threads of each process.
            index_with_generator: whether steps are handed out one by one, which needs less memory.
            pbar: whether a bar shows the progress.
            mp_start_method: "fork" or "spawn".
            num_frames: only the first so many steps.
            dest: the folder, which appears, or is replaced, when all is written.

        Returns:
            A storage for a buffer of your own.
        """
        steps = self[:] if num_frames is None else self[:num_frames]
        with replaced_folder(dest) as folder:
            if num_workers == 0:
                made = fn(steps)
            else:
                made = steps.map(
                    fn,
                    dim=dim,
                    num_workers=num_workers,
                    chunksize=chunksize,
                    num_chunks=num_chunks,
                    pool=pool,
                    generator=generator,
                    max_tasks_per_child=max_tasks_per_child,
                    worker_threads=worker_threads,
                    index_with_generator=index_with_generator,
                    pbar=pbar,
                    mp_start_method=mp_start_method,
                )
            made.memmap(folder, copy_existing=True)
        return TensorStorage(TensorDict.load_memmap(Path(dest).absolute()))

    def __repr__(self) -> str:
        lines = (
            f"{len(self._storage):,} steps in {self.data_path}",
            f"sampler={type(self._sampler).__name__}, batch_size={self._batch_size}",
            f"transform={self._transform}",
        )
        return f"{type(self).__name__}({self.dataset_id!r}:\n    " + "\n    ".join(lines) + ")"

    def delete(self) -> None:
        """Remove the copy from the disk. The buffer cannot be used afterwards."""
        shutil.rmtree(self.data_path_root, ignore_errors=True)
        if self.split_trajs:
            shutil.rmtree(self.data_path, ignore_errors=True)
