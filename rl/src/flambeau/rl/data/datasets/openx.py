"""Open X-Embodiment: what robots of twenty-two kinds saw and did.

References:
    Open X-Embodiment Collaboration 2023, Open X-Embodiment: Robotic Learning Datasets and RT-X Models.
    arXiv:2310.08864.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from flambeau.core.datasets import register_dataset
from flambeau.rl.data.datasets._openx_episodes import SUFFIXES, episodes, steps_of
from flambeau.rl.data.datasets._openx_ids import IDS
from flambeau.rl.data.datasets._openx_stream import TrajectoryStream
from flambeau.rl.data.datasets._published_files import fetched, folder_files, hub_files, sources_folder
from flambeau.rl.data.datasets._row_files import RowFiles
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.samplers.slice import SliceSampler
from flambeau.rl.data.replay_buffers.samplers.slice_without_replacement import SliceSamplerWithoutReplacement
from flambeau.rl.data.replay_buffers.samplers.without_replacement import SamplerWithoutReplacement
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage

__all__ = ["OpenXExperienceReplay"]

HOMEPAGE = "https://robotics-transformer-x.github.io"
REPOSITORY = "jxu124/OpenX-Embodiment"


@register_dataset(
    "openx",
    task="offline-reinforcement-learning",
    license="CC-BY-4.0",
    homepage=HOMEPAGE,
    description="What robots of twenty-two kinds saw and did, in more than fifty data sets.",
    citation="@article{openx2023, author={{Open X-Embodiment Collaboration}}, title={Open X-Embodiment: Robotic "
    "Learning Datasets and RT-X Models}, journal={arXiv:2310.08864}, year={2023}}",
    schema=STEP,
)
class OpenXExperienceReplay(BaseDatasetExperienceReplay):
    """Data sets of Open X-Embodiment, read from shards of episodes; neither tensorflow nor datasets is needed.

    Steps have "observation", with images (channels, height, width), uint8, "action", "is_init", "episode", and what
    else was recorded, such as "discount" and the texts "language_instruction".

    A stream reads one shard after the other, and keeps none. It has no length and no places: iterating gives whole
    trajectories without `batch_size`, else batches of slices.

    Args:
        dataset_id: one of `available_datasets`, such as "cmu_stretch".
        batch_size: how many steps a batch has; by default `sample` must be told.
        shuffle: whether steps, or trajectories, come in random order.
        num_slices: how many trajectories make up a batch.
        slice_len: how many steps of a trajectory are given; at most one of the two.
        pad: for streams: what steps behind the end of shorter trajectories are filled with (True for 0); by default
            those raise an error.
        replacement: whether steps or trajectories are drawn with replacement; by default if they were downloaded.
        streaming: whether the data set is a stream; by default if `download` is not given and there is no copy.
        root: folder of this source's data sets.
        download: fetch and convert what is missing; "force" does so again; False uses what there is.
        sampler: what is drawn, instead of what the arguments above say.
        writer: by default an `ImmutableDatasetWriter`.
        collate_fn: see `ReplayBuffer`.
        pin_memory: see `ReplayBuffer`.
        prefetch: see `ReplayBuffer`.
        transform: see `ReplayBuffer`.
        split_trajs: whether trajectories are rows, (trajectories, longest), with a "mask".
        strict_length: whether trajectories that are shorter than a slice are left out.

    Raises:
        ValueError: no such data set, or arguments that exclude one another.
        DatasetMissingError: there is no whole copy, and `download` is False.
    """

    source = "openx"
    BASE_URL: ClassVar[str] = f"https://huggingface.co/datasets/{REPOSITORY}/resolve/main"
    available_datasets: ClassVar[list[str]] = list(IDS)

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        shuffle: bool = True,
        num_slices: int | None = None,
        slice_len: int | None = None,
        pad: float | bool | None = None,
        replacement: bool | None = None,
        streaming: bool | None = None,
        root: str | Path | None = None,
        download: Download | None = None,
        sampler: Any = None,
        writer: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        transform: Any = None,
        split_trajs: bool = False,
        strict_length: bool = True,
    ) -> None:
        self._check_id(dataset_id, IDS)
        if num_slices is not None and slice_len is not None:
            raise ValueError("num_slices and slice_len exclude one another; give one of them.")
        self._locate(dataset_id, root)
        if streaming is None:
            streaming = not download and not self._is_downloaded()
        if streaming and (download or split_trajs or sampler is not None or replacement):
            raise ValueError(
                "A stream takes no download, split_trajs, sampler or replacement; give streaming=False with them."
            )
        self.streaming, self.split_trajs = streaming, split_trajs
        if streaming:
            filling = None if pad is None or pad is False else float(pad is not True and pad)
            storage: Any = TrajectoryStream(
                self._shards, shuffle=shuffle, slice_len=slice_len, num_slices=num_slices, pad=filling
            )
        else:
            storage = TensorStorage(self._prepared(True if download is None else download))
            sampler = sampler or _sampler(shuffle, num_slices, slice_len, replacement, strict_length, split_trajs)
        super().__init__(
            batch_size=batch_size,
            storage=storage,
            sampler=sampler,
            writer=writer,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            prefetch=prefetch,
            transform=transform,
        )

    # Streams

    def _shards(self) -> list[str | Path]:
        placed = sources_folder(self.data_path_root)
        if placed.is_dir():
            return sorted(path for path in placed.rglob("*") if path.suffix in SUFFIXES)
        return [f"{self.BASE_URL}/{path}" for path in folder_files(REPOSITORY, self.dataset_id, SUFFIXES)]

    def __iter__(self) -> Iterator[Any]:
        """Batches; of a stream without `batch_size`, trajectories."""
        if not self.streaming:
            yield from super().__iter__()
        elif self._batch_size is None:
            for trajectory in self._storage:
                yield self._transformed(trajectory) if len(self._transform) else trajectory
        else:
            while True:
                try:
                    batch = self._streamed(self._batch_size)
                except StopIteration:
                    return
                yield batch

    def _streamed(self, batch_size: int) -> Any:
        batch = self._storage.batch(batch_size)
        return self._transformed(batch) if len(self._transform) else batch

    def sample(self, batch_size: int | None = None, return_info: bool = False, include_info: bool | None = None) -> Any:
        """A batch; of a stream, slices of the trajectories that come next, and from the beginning when none are left.

        Args:
            batch_size: how many steps; by default as the buffer was told.
            return_info: whether what the sampler knows comes with it.
            include_info: accepted for code written for upstream.

        Raises:
            RuntimeError: no batch size, or a stream with fewer trajectories than a batch has slices.
        """
        if not self.streaming:
            return super().sample(batch_size, return_info, include_info)
        size = self._batch_size if batch_size is None else batch_size
        if size is None:
            raise RuntimeError("batch_size not specified. Give it to the buffer, or to sample.")
        for _ in range(2):
            try:
                batch = self._streamed(size)
            except StopIteration:
                continue
            return (batch, {}) if return_info else batch
        raise RuntimeError(f"{self.name} has fewer trajectories than a batch of {size} steps has slices.")

    def __len__(self) -> int:
        """How many steps can be drawn.

        Raises:
            TypeError: of a stream, it is not known.
        """
        return len(self._storage) if self.streaming else super().__len__()

    def __repr__(self) -> str:
        if not self.streaming:
            return super().__repr__()
        return f"{type(self).__name__}({self.dataset_id!r}, a stream, batch_size={self._batch_size})"

    # Copies

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        if download:
            wanted = hub_files(REPOSITORY, folder_files(REPOSITORY, self.dataset_id, SUFFIXES))
            files = fetched(self.name, wanted, sources, download=True, homepage=HOMEPAGE)
        else:
            files = {path.name: path for path in sorted(sources.rglob("*")) if path.suffix in SUFFIXES}
        rows, number = RowFiles(folder, self.name), 0
        try:
            for path in files.values():
                for where, recorded in episodes(path):
                    rows.append(steps_of(recorded, number, where), where)
                    number += 1
        finally:
            rows.close()
        rows.finish()
        return files, {"episodes": number}


def _sampler(
    shuffle: bool,
    num_slices: int | None,
    slice_len: int | None,
    replacement: bool | None,
    strict_length: bool,
    split_trajs: bool,
) -> Any:
    """What the arguments of a downloaded data set ask for."""
    replacement = shuffle if replacement is None else replacement
    if num_slices is None and slice_len is None:
        return None if replacement else SamplerWithoutReplacement(shuffle=shuffle)
    if split_trajs:
        raise ValueError("num_slices and slice_len cut trajectories that are not split; leave split_trajs out.")
    slices: dict[str, Any] = {
        "num_slices": num_slices, "slice_len": slice_len, "traj_key": "episode", "strict_length": strict_length
    }  # fmt: skip
    return SliceSampler(**slices) if replacement else SliceSamplerWithoutReplacement(**slices, shuffle=shuffle)
