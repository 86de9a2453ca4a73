"""LeRobot: recordings of robots in one format, which its community publishes.

References:
    Cadene et al. 2024, LeRobot: State-of-the-art Machine Learning for Real-World Robotics in PyTorch.
    https://github.com/huggingface/lerobot
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.core.datasets import register_dataset
from flambeau.data.tensordict import NonTensorStack, TensorDict
from flambeau.rl.data.datasets._lerobot_files import LeRobotFiles
from flambeau.rl.data.datasets._published_files import fetched, hub_files, listing
from flambeau.rl.data.datasets._row_files import RowFiles
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.samplers.slice import SliceSampler
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage
from flambeau.rl.data.video import VideoClipRef

__all__ = ["LeRobotExperienceReplay", "lerobot_columns_to_tensordict"]

HOMEPAGE = "https://huggingface.co/lerobot"
_KEYS: dict[str, Any] = {
    "action": "action",
    "observation.state": ("observation", "state"),
    "observation.image": ("observation", "image"),
    "episode_index": "episode",
    "frame_index": "frame",
    "task": "language_instruction",
}
_IMAGES = "observation.images."
_SUFFIXES = (".json", ".jsonl", ".parquet", ".mp4")


def lerobot_columns_to_tensordict(
    columns: Mapping[str, Any], *, key_map: Mapping[str, Any] | None = None
) -> TensorDict:
    """LeRobot's columns as steps.

    "observation.state" becomes ("observation", "state"), "observation.images.top" ("observation", "image", "top"),
    "episode_index" "episode", "frame_index" "frame" and "task" "language_instruction"; other names with dots "
    "become nested
    keys. What is below "next" gets a trailing dimension of 1 where it has none.

    Args:
        columns: tensors (steps, ...), lists of texts, or references to videos, by their names.
        key_map: keys for names, instead of those above.

    Returns:
        (steps,).

    Raises:
        ValueError: no columns, or of different lengths.

    Example:
        >>> steps = lerobot_columns_to_tensordict({"action": torch.zeros(2, 7), "task": ["pick", "place"]})
        >>> steps["language_instruction"]
        ['pick', 'place']
    """
    lengths = {name: len(value) for name, value in columns.items()}
    if not lengths:
        raise ValueError("columns is empty, so the number of steps is not known; give one column or more.")
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns have different lengths: {lengths}.")
    made = TensorDict({}, [next(iter(lengths.values()))])
    for name, value in columns.items():
        key = _key(name, key_map)
        if isinstance(value, list | tuple):
            made.set(key, NonTensorStack(*map(str, value)))
        else:
            made.set(key, _widened(key, value))
    return made


def _key(name: str, key_map: Mapping[str, Any] | None) -> Any:
    keys = {**_KEYS, **(key_map or {})}
    if name in keys:
        return keys[name]
    if name.startswith(_IMAGES):
        return ("observation", "image", name.removeprefix(_IMAGES))
    parts = tuple(name.split("."))
    return parts if len(parts) > 1 else name


def _widened(key: Any, value: Any) -> Any:
    outcome = isinstance(key, tuple) and key[0] == "next" and isinstance(value, Tensor) and value.ndim == 1
    return value.unsqueeze(-1) if outcome else value


@register_dataset(
    "lerobot",
    task="imitation-learning",
    license="differs by data set; see its page",
    homepage=HOMEPAGE,
    description="Recordings of robots in LeRobot's format, with their videos.",
    citation="@misc{cadene2024lerobot, author={Cadene, Remi and Alibert, Simon and Soare, Alexander and Gallouedec, "
    "Quentin and Zouitine, Adil and Wolf, Thomas}, title={LeRobot: State-of-the-art Machine Learning for Real-World "
    "Robotics in PyTorch}, year={2024}, url={https://github.com/huggingface/lerobot}}",
    schema=STEP,
)
class LeRobotExperienceReplay(BaseDatasetExperienceReplay):
    """Data sets in LeRobot's format (versions 2 and 3); neither lerobot nor datasets is needed.

    Steps have the keys of `lerobot_columns_to_tensordict`. Videos stay as they are: a step refers to its frame, and
    batches have frames (3, height, width), uint8.

    Args:
        repo_id: the repository on the Hugging Face hub, such as "lerobot/pusht".
        root: folder of this source's data sets.
        download: fetch and convert what is missing; "force" does so again; False uses what there is.
        batch_size: how many steps a batch has; by default `sample` must be told.
        num_slices: how many slices of episodes make up a batch.
        slice_len: how many steps a slice has; at most one of the two.
        sampler: what is drawn; by default a `SliceSampler` if slices are asked for, else a `RandomSampler`.
        writer: by default an `ImmutableDatasetWriter`.
        collate_fn: see `ReplayBuffer`.
        transform: see `ReplayBuffer`; it comes after videos are decoded.
        key_map: see `lerobot_columns_to_tensordict`.
        decode_video: whether batches have frames; else they have references, see `VideoClipRef`.
        rehydrate: whether batches have ("next", "observation"): the following row's, and NaN, or 0 for integers, where
            the following row is not the next step.
        strict_length: whether episodes that are shorter than a slice are left out.
        pin_memory: see `ReplayBuffer`.
        prefetch: see `ReplayBuffer`.

    Raises:
        DatasetMissingError: there is no whole copy, and `download` is False.
        DatasetFormatError: a file is not in LeRobot's format.
        ValueError: both `num_slices` and `slice_len`.
    """

    source = "lerobot"

    def __init__(
        self,
        repo_id: str,
        *,
        root: str | Path | None = None,
        download: Download = True,
        batch_size: int | None = None,
        num_slices: int | None = None,
        slice_len: int | None = None,
        sampler: Any = None,
        writer: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        transform: Any = None,
        key_map: dict[str, Any] | None = None,
        decode_video: bool = True,
        rehydrate: bool = False,
        strict_length: bool = True,
        pin_memory: bool = False,
        prefetch: int | None = None,
        _data: Any = None,
    ) -> None:
        if num_slices is not None and slice_len is not None:
            raise ValueError("num_slices and slice_len exclude one another; give one of them.")
        self._locate(repo_id, root)
        self.repo_id, self._key_map = repo_id, key_map
        steps = self._with_videos(self._prepared(download)) if _data is None else _data
        episode = _key("episode_index", key_map)
        if sampler is None and (num_slices is not None or slice_len is not None):
            sampler = SliceSampler(
                num_slices=num_slices, slice_len=slice_len, traj_key=episode, strict_length=strict_length
            )
        super().__init__(
            batch_size=batch_size,
            storage=TensorStorage(steps),
            sampler=sampler,
            writer=writer,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            prefetch=prefetch,
        )
        videos = _videos(steps)
        if decode_video and videos:
            self.append_transform(_DecodedVideos(videos))
        if rehydrate:
            undecoded = [] if decode_video else videos
            self.append_transform(_following(steps, undecoded, episode, _key("frame_index", key_map)))
        if transform is not None:
            self.append_transform(transform)

    @classmethod
    def from_columns(
        cls, columns: dict[str, Any], *, repo_id: str = "local", key_map: dict[str, Any] | None = None, **kwargs: Any
    ) -> Self:
        """A data set of columns in memory.

        Args:
            columns: see `lerobot_columns_to_tensordict`.
            repo_id: what it is called.
            key_map: see `lerobot_columns_to_tensordict`.
            kwargs: see the class.
        """
        steps = lerobot_columns_to_tensordict(columns, key_map=key_map)
        return cls(repo_id, key_map=key_map, _data=steps, download=False, **kwargs)

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        if download:
            paths = [path for path in listing(self.repo_id) if path.endswith(_SUFFIXES)]
            files = fetched(self.name, hub_files(self.repo_id, paths), sources, download=True, homepage=HOMEPAGE)
        else:
            files = {str(path.relative_to(sources)): path for path in sorted(sources.rglob("*")) if path.is_file()}
        recorded = LeRobotFiles(sources)
        rows = RowFiles(folder, self.name)
        names: dict[str, list[str]] = {video: [] for video in recorded.videos}
        try:
            for number, columns in enumerate(recorded.tables()):
                episode = self._steps(columns)
                for video in recorded.videos:
                    found, owners, frames = recorded.video_frames(video, columns)
                    known = names[video]
                    known.extend(path for path in found if path not in known)
                    places = torch.tensor([known.index(path) for path in found])
                    key = _as_tuple(_key(video, self._key_map))
                    episode[*key, "file_id"] = places[owners]
                    episode[*key, "frame_index"] = frames
                rows.append(episode, f"table {number}")
        finally:
            rows.close()
        rows.finish()
        videos = []
        for video, paths_of in names.items():
            for path in paths_of:
                _kept(sources / path, folder / path)
            videos.append({"key": list(_as_tuple(_key(video, self._key_map))), "sources": paths_of})
        return files, {"videos": videos, "fps": recorded.info.get("fps"), "robot_type": recorded.info.get("robot_type")}

    def _steps(self, columns: dict[str, Any]) -> dict[tuple[str, ...], Any]:
        made = {}
        for name, value in columns.items():
            key = _as_tuple(_key(name, self._key_map))
            made[key] = _widened(key, value)
        return made

    def _with_videos(self, steps: Any) -> Any:
        """Steps with references where numbers of frames were stored."""
        videos = self._facts.get("videos", [])
        if not videos:
            return steps
        made = steps.clone(False)
        made.unlock_()
        for video in videos:
            key = tuple(video["key"])
            frames, owners = (made.get((*key, name)) for name in ("frame_index", "file_id"))
            sources = tuple(str(self.data_path_root / path) for path in video["sources"])
            reference = VideoClipRef(
                sources=sources, frame_index=frames, file_id=owners, batch_size=made.batch_size, device=made.device
            )
            made.get(key[:-1]).unlock_().set(key[-1], reference) if key[:-1] else made.set(key[-1], reference)
        return made.lock_()


def _as_tuple(key: Any) -> tuple[str, ...]:
    return tuple(key) if isinstance(key, tuple | list) else (key,)


def _kept(source: Path, target: Path) -> None:
    """Have a video in the copy's folder, without its bytes a second time where the disk can."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _videos(steps: Any, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Keys of references to videos."""
    found: list[tuple[str, ...]] = []
    for name in sorted(steps.keys()):
        value = steps.get(name)
        if isinstance(value, VideoClipRef):
            found.append((*prefix, name))
        elif not isinstance(value, Tensor) and isinstance(value, TensorDict):
            found.extend(_videos(value, (*prefix, name)))
    return found


class _DecodedVideos:
    """Puts frames in the place of references to them."""

    def __init__(self, keys: list[tuple[str, ...]]) -> None:
        self.keys = keys

    def __call__(self, steps: Any) -> Any:
        for key in self.keys:
            steps.set(key, steps.get(key).decode())
        return steps

    def __repr__(self) -> str:
        return f"DecodedVideos(keys={self.keys})"


def _following(steps: Any, undecoded: list[tuple[str, ...]], episode: Any, frame: Any) -> Any:
    """The transform that gives batches the next observations."""
    from flambeau.rl.envs.transforms import NextStateReconstructor

    videos = _videos(steps)
    keys = {_as_tuple(key) for key in steps.keys(True, True)}
    keys = {key for key in keys if not any(key[: len(video)] == video for video in videos)} | set(videos)
    chosen = sorted(key for key in keys - set(undecoded) if key[0] == "observation")
    counted = frame if steps.get(frame, None) is not None else None
    return NextStateReconstructor(chosen, traj_key=episode, step_count_key=counted, strict=False)
