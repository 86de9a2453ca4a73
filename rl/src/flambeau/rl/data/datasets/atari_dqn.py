"""DQN replay: what five DQN agents saw on sixty Atari 2600 games.

References:
    Agarwal, Schuurmans and Norouzi 2020, An Optimistic Perspective on Offline Reinforcement Learning. arXiv:1907.04543.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import torch

from flambeau.core.datasets import DatasetFile, register_dataset
from flambeau.core.errors import DatasetMissingError, DownloadError
from flambeau.data.tensordict import MemoryMappedTensor, TensorDict
from flambeau.rl.data.datasets._atari_storage import RunStorage
from flambeau.rl.data.datasets._local_copies import LocalCopy
from flambeau.rl.data.datasets._published_files import fetched, sources_folder
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.samplers.slice import SliceSampler
from flambeau.rl.data.replay_buffers.samplers.slice_without_replacement import SliceSamplerWithoutReplacement
from flambeau.rl.data.replay_buffers.samplers.without_replacement import SamplerWithoutReplacement
from flambeau.rl.errors import DatasetFormatError

__all__ = ["AtariDQNExperienceReplay"]

HOMEPAGE = "https://research.google/resources/datasets/dqn-replay/"
_RUNS = 50
_GAMES = (
    "AirRaid", "Alien", "Amidar", "Assault", "Asterix", "Asteroids", "Atlantis", "BankHeist", "BattleZone",
    "BeamRider", "Berzerk", "Bowling", "Boxing", "Breakout", "Carnival", "Centipede", "ChopperCommand",
    "CrazyClimber", "DemonAttack", "DoubleDunk", "ElevatorAction", "Enduro", "FishingDerby", "Freeway", "Frostbite",
    "Gopher", "Gravitar", "Hero", "IceHockey", "Jamesbond", "JourneyEscape", "Kangaroo", "Krull", "KungFuMaster",
    "MontezumaRevenge", "MsPacman", "NameThisGame", "Phoenix", "Pitfall", "Pong", "Pooyan", "PrivateEye", "Qbert",
    "Riverraid", "RoadRunner", "Robotank", "Seaquest", "Skiing", "Solaris", "SpaceInvaders",
)  # fmt: skip
_ENTRIES: dict[str, tuple[str, ...]] = {
    "observation": ("observation",),
    "action": ("action",),
    "reward": ("next", "reward"),
    "terminal": ("next", "terminated"),
}
_BLOCK = 1 << 22


@register_dataset(
    "atari_dqn",
    task="offline-reinforcement-learning",
    license="CC-BY-4.0",
    homepage=HOMEPAGE,
    description="What five DQN agents saw on Atari 2600 games, 50 million steps each.",
    citation="@inproceedings{agarwal2020optimistic, author={Agarwal, Rishabh and Schuurmans, Dale and Norouzi, "
    "Mohammad}, title={An Optimistic Perspective on Offline Reinforcement Learning}, booktitle={ICML}, year={2020}}",
    schema=STEP,
)
class AtariDQNExperienceReplay(BaseDatasetExperienceReplay):
    """What a DQN agent saw while it learned a game, read from its checkpoints (gzip-compressed `.npy` files).

    Steps have "observation", an image (84, 84), uint8, and "action", int32. Observations are stored once: the next one
    is the following step's, and zero where an episode or a checkpoint ends, as it was not recorded.

    The public bucket is no longer there. A copy of it, of a local folder or of a server, is used by `BASE_URL`, or by
    placing the files by hand; the error says where.

    Args:
        dataset_id: one of `available_datasets`: a game and an agent from 1 to 5, such as "Pong/5".
        batch_size: how many steps a batch has; by default `sample` must be told.
        root: folder of this source's data sets.
        download: fetch and convert what is missing; "force" does so again; False uses what there is.
        sampler: what is drawn; by default a `RandomSampler`, or one of slices if they are asked for.
        writer: by default an `ImmutableDatasetWriter`.
        transform: see `ReplayBuffer`.
        num_procs: accepted for code written for upstream; checkpoints are converted as they come.
        num_slices: how many slices of episodes a batch has.
        slice_len: how many steps a slice has; at most one of the two.
        strict_len: whether episodes that are shorter than a slice are left out.
        replacement: whether steps, or episodes, are drawn with replacement.
        mp_start_method: accepted for code written for upstream.
        kwargs: see `ReplayBuffer`.

    Attributes:
        episodes: (steps,), the number of each step's episode.
        metadata: of each checkpoint, "add_count" and "invalid_range" as the agent's memory had them.

    Raises:
        ValueError: no such data set, or both `num_slices` and `slice_len`.
        DatasetMissingError: there is no whole copy, and `download` is False, or the bucket is gone.
        DatasetFormatError: a file is not what its name says.
    """

    source = "atari_dqn"
    BASE_URL: ClassVar[str] = "https://storage.googleapis.com/atari-replay-datasets/dqn"
    available_datasets: ClassVar[list[str]] = [f"{game}/{agent}" for game in _GAMES for agent in range(1, 6)]
    # How many checkpoints are used; all for None.
    _max_runs: ClassVar[int | None] = None

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        root: str | Path | None = None,
        download: Download = True,
        sampler: Any = None,
        writer: Any = None,
        transform: Any = None,
        num_procs: int = 0,
        num_slices: int | None = None,
        slice_len: int | None = None,
        strict_len: bool = True,
        replacement: bool = True,
        mp_start_method: str = "fork",
        **kwargs: Any,
    ) -> None:
        self._check_id(dataset_id, self.available_datasets)
        if num_slices is not None and slice_len is not None:
            raise ValueError("num_slices and slice_len exclude one another; give one of them.")
        self._locate(dataset_id, root)
        self._prepared(download)
        self.metadata: dict[str, Any] = self._facts.get("runs", {})
        folders = sorted(
            (path for path in self.data_path_root.iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
        )
        storage = RunStorage([TensorDict.load_memmap(folder) for folder in folders])
        self.episodes = storage.episodes()
        if sampler is None and (num_slices is not None or slice_len is not None):
            slices: dict[str, Any] = {
                "num_slices": num_slices,
                "slice_len": slice_len,
                "trajectories": self.episodes,
                "strict_length": strict_len,
            }
            sampler = (
                SliceSampler(**slices, cache_values=True) if replacement else SliceSamplerWithoutReplacement(**slices)
            )
        elif sampler is None and not replacement:
            sampler = SamplerWithoutReplacement()
        super().__init__(
            batch_size=batch_size, storage=storage, sampler=sampler, writer=writer, transform=transform, **kwargs
        )

    def _prepared(self, download: Download) -> None:
        copy = LocalCopy(self.data_path_root, self.name)
        if download == "force":
            self._make(copy, download=True)
        elif copy.fault() is not None:
            if not download and not self._has_sources():
                raise copy.missing(f" The public bucket is gone: place its files in {sources_folder(copy.folder)}.")
            with copy.turn():
                if copy.fault() is not None:
                    self._make(copy, download=bool(download))

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        files: dict[str, Path] = {}
        known: dict[str, Any] = {}
        for run in self._runs(sources):
            found = self._run_files(run, sources, download)
            files.update({path.name: path for path in found.values()})
            known[str(run)] = _convert_run(found, folder / str(run), f"{self.name}, checkpoint {run}")
        if not known:
            raise DatasetFormatError(f"{self.name}: {sources} has no checkpoints.")
        return files, {"runs": known}

    def _runs(self, sources: Path) -> list[int]:
        """Numbers of checkpoints: of those placed by hand, else all."""
        placed = sorted(int(path.name.split(".")[-2]) for path in sources.rglob("$store$_observation_ckpt.*.gz"))
        return (placed or list(range(_RUNS)))[: self._max_runs]

    def _run_files(self, run: int, sources: Path, download: bool) -> dict[str, Path]:
        names = {entry: f"$store$_{entry}_ckpt.{run}.gz" for entry in _ENTRIES}
        names |= {entry: f"{entry}_ckpt.{run}.gz" for entry in ("add_count", "invalid_range")}
        address = f"{self.BASE_URL}/{self.dataset_id}/replay_logs"
        wanted = [DatasetFile(url=f"{address}/{name}", path=f"replay_logs/{name}") for name in names.values()]
        try:
            found = fetched(self.name, wanted, sources, download=download, homepage=HOMEPAGE)
        except DownloadError as error:
            status = getattr(error.__cause__, "status", None)
            if status not in (403, 404):
                raise
            raise DatasetMissingError(
                f"{self.name}: {address} answers {status}. The bucket of this data set was removed in 2026. Set "
                f"{type(self).__name__}.BASE_URL to a copy of it, or place the files {', '.join(names.values())}, and "
                f"those of the other checkpoints, in {sources / 'replay_logs'}."
            ) from error
        return {entry: found[f"replay_logs/{name}"] for entry, name in names.items()}


def _convert_run(files: Mapping[str, Path], folder: Path, where: str) -> dict[str, Any]:
    """Write one checkpoint's arrays as memory-mapped tensors; what is known of it."""
    (folder / "next").mkdir(parents=True)
    content = TensorDict({}, [])
    counts: dict[str, int] = {}
    for entry, key in _ENTRIES.items():
        target = folder.joinpath(*key[:-1], f"{key[-1]}.memmap")
        shape, dtype = _copied(files[entry], target, where)
        if entry == "terminal":
            dtype = torch.bool  # of the same size, and 0 or 1
        counts[entry] = shape[0]
        content.set(key, MemoryMappedTensor.from_filename(str(target), dtype, torch.Size(shape)))
    if len({counts[entry] for entry in ("action", "reward", "terminal")}) != 1 or not (
        counts["action"] <= counts["observation"] <= counts["action"] + 1
    ):
        raise DatasetFormatError(f"{where}: its arrays have {counts} rows, expected as many each.")
    content.memmap_(folder)
    return {entry: _small(files[entry], where) for entry in ("add_count", "invalid_range")}


def _copied(path: Path, target: Path, where: str) -> tuple[tuple[int, ...], torch.dtype]:
    """Write the bytes of a compressed array to a file, without having all of it in memory."""
    with _decompressed(path, where) as source, target.open("wb") as file:
        shape, dtype = _header(source, path, where)
        left = int(np.prod(shape)) * dtype.itemsize
        while left and (block := source.read(min(left, _BLOCK))):
            file.write(block)
            left -= len(block)
        if left or source.read(1):
            raise DatasetFormatError(f"{where}: {path} has not as many bytes as its header says; fetch it again.")
    return shape, torch.from_numpy(np.zeros(0, dtype)).dtype


def _small(path: Path, where: str) -> Any:
    with _decompressed(path, where) as source:
        shape, dtype = _header(source, path, where)
        return np.frombuffer(source.read(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).tolist()


def _header(source: IO[bytes], path: Path, where: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(source)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(source, max_header_size=10_000)
    except ValueError as error:
        raise DatasetFormatError(f"{where}: {path} is no array: {error}") from error
    if (fortran and len(shape) > 1) or dtype.hasobject or not dtype.isnative:
        raise DatasetFormatError(f"{where}: {path} has an array of {dtype} in another order than is read here.")
    return shape, dtype


class _decompressed:
    """A gzip-compressed file to read; what is wrong with it is said with its name."""

    def __init__(self, path: Path, where: str) -> None:
        self._path, self._where = path, where

    def __enter__(self) -> IO[bytes]:
        self._file = gzip.open(self._path, "rb")
        return self._file  # type: ignore[return-value]  # a file of bytes by all that is used of it

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._file.close()
        if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
            raise DatasetFormatError(f"{self._where}: {self._path} is damaged: {error}; fetch it again.") from error
