"""V-D4RL: locomotion seen through pixels, with distractions and without.

References:
    Lu, Ball, Rudner, Parker-Holder, Osborne and Teh 2022, Challenges and Opportunities in Offline Reinforcement
    Learning from Visual Observations. arXiv:2206.04779.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flambeau.core.datasets import register_dataset
from flambeau.core.errors import DownloadError, HubError, HubWarning
from flambeau.rl.data.datasets._class_property import classproperty
from flambeau.rl.data.datasets._hdf5 import arrays, following, opened
from flambeau.rl.data.datasets._published_files import fetched, folder_files, hub_files, listing
from flambeau.rl.data.datasets._row_files import RowFiles
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage
from flambeau.rl.errors import DatasetFormatError

__all__ = ["VD4RLExperienceReplay"]

HOMEPAGE = "https://github.com/conglu1997/v-d4rl"
REPOSITORY = "conglu/vd4rl"
_SUFFIXES = (".npz", ".hdf5")
# Those of the paper, section 4, for machines that cannot ask the hub.
_MAIN = [
    f"main/{task}/{quality}/{size}px"
    for task in ("cheetah_run", "humanoid_walk", "walker_walk")
    for quality in ("expert", "medium", "medium_expert", "medium_replay", "random")
    for size in (64, 84)
]
_NAMES: dict[str, tuple[str, ...]] = {
    "is_first": ("is_init",),
    "is_last": ("next", "done"),
    "is_terminal": ("next", "terminated"),
    "reward": ("next", "reward"),
    "image": ("pixels",),
    "observation": ("pixels",),
    "discount": ("discount",),
    "action": ("action",),
}
Key = tuple[str, ...]


@register_dataset(
    "vd4rl",
    task="offline-reinforcement-learning",
    license="MIT",
    homepage=HOMEPAGE,
    description="Locomotion seen through pixels, from policies of several qualities, with distractions and without.",
    citation="@article{lu2023vd4rl, author={Lu, Cong and Ball, Philip J. and Rudner, Tim G. J. and Parker-Holder, Jack "
    "and Osborne, Michael A. and Teh, Yee Whye}, title={Challenges and Opportunities in Offline Reinforcement Learning "
    "from Visual Observations}, journal={TMLR}, year={2023}}",
    schema=STEP,
)
class VD4RLExperienceReplay(BaseDatasetExperienceReplay):
    """Data sets of V-D4RL, read from their files: episodes (`.npz`), or parts of many (`.hdf5`).

    Steps have "pixels", "action", "discount" and "is_init"; all else that was recorded is below "state". A file with
    other shapes than the ones before is left out, with a warning that names it; so is one that cannot be read.

    The parts of many episodes say by "step_type" (0, 1, 2 for a first, middle and last step) where they end; it is
    below "state", and the flags are made of it.

    Args:
        dataset_id: `<main, distracting, multitask or expert>/<task>/<quality>/<size>px`, such as
            "main/walker_walk/random/64px".
        batch_size: how many steps a batch has.
        root: folder of this source's data sets.
        download: fetch and convert what is missing; "force" does so again; False uses what there is.
        sampler: what is drawn; by default a `RandomSampler`.
        writer: by default an `ImmutableDatasetWriter`.
        collate_fn: see `ReplayBuffer`.
        pin_memory: see `ReplayBuffer`.
        prefetch: see `ReplayBuffer`.
        transform: see `ReplayBuffer`.
        split_trajs: whether trajectories are rows, (trajectories, longest), with a "mask".
        totensor: whether batches have pixels as (channels, height, width), float32 in [0, 1].
        image_size: height and width, or one number for both, which pixels of batches are resized to.
        num_workers: accepted for code written for upstream; files are fetched one after the other, and resumed.
        env_kwargs: accepted for code written for upstream.

    Raises:
        ValueError: no such data set.
        DatasetMissingError: there is no whole copy, and `download` is False.
    """

    source = "vd4rl"

    def __init__(
        self,
        dataset_id: str,
        batch_size: int,
        *,
        root: str | Path | None = None,
        download: Download = True,
        sampler: Any = None,
        writer: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        transform: Any = None,
        split_trajs: bool = False,
        totensor: bool = True,
        image_size: int | list[int] | None = None,
        num_workers: int = 0,
        **env_kwargs: Any,
    ) -> None:
        self._locate(dataset_id, root)
        self.split_trajs = split_trajs
        super().__init__(
            batch_size=batch_size,
            storage=TensorStorage(self._prepared(download)),
            sampler=sampler,
            writer=writer,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            prefetch=prefetch,
            transform=_of_pixels(transform, totensor, image_size),
        )

    @classproperty
    def available_datasets(cls) -> list[str]:
        """Names of all data sets, as the Hugging Face hub lists them; of the main ones where it cannot be asked."""
        try:
            paths = listing(REPOSITORY)
        except HubError:
            return list(_MAIN)
        kinds = ("main/", "distracting/", "multitask/", "expert/")
        folders = {f"/{path.rpartition('/')[0]}" for path in paths if path.endswith(_SUFFIXES)}
        return sorted(
            {folder[folder.index(f"/{kind}") + 1 :] for folder in folders for kind in kinds if f"/{kind}" in folder}
        )

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        if download:
            try:
                paths = folder_files(REPOSITORY, self.dataset_id, _SUFFIXES)
            except DownloadError as error:
                if "has no folder" in str(error):
                    self._check_id(self.dataset_id, self.available_datasets)
                raise
            files = fetched(self.name, hub_files(REPOSITORY, paths), sources, download=True, homepage=HOMEPAGE)
        else:
            files = {path.name: path for path in sorted(sources.rglob("*")) if path.suffix in _SUFFIXES}
        rows = RowFiles(folder, self.name)
        left_out: list[str] = []
        try:
            for name, path in files.items():
                try:
                    rows.append(_steps(_arrays(path), name), name)
                except DatasetFormatError as error:
                    left_out.append(str(error))
        finally:
            rows.close()
        if left_out and rows.rows:
            warnings.warn(
                f"{self.name}: {len(left_out)} of {len(files)} files are left out: {'; '.join(left_out)}",
                HubWarning,
                stacklevel=6,
            )
        elif left_out:
            raise DatasetFormatError(f"{self.name}: no file can be read: {'; '.join(left_out)}")
        rows.finish()
        return files, {"left_out": left_out}


def _arrays(path: Path) -> dict[str, Any]:
    if path.suffix == ".hdf5":
        with opened(path) as file:
            return {"/".join(key): value for key, value in arrays(file)}
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: torch.from_numpy(np.ascontiguousarray(file[name])) for name in sorted(file.files)}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, TypeError) as error:
        raise DatasetFormatError(f"{path.name} cannot be read: {error}") from error


def _steps(found: dict[str, Any], where: str) -> dict[Key, Any]:
    """Steps of one file's arrays."""
    made: dict[Key, Any] = {}
    for name, value in found.items():
        made[_NAMES.get(name, ("state", *name.split("/")))] = value
    if missing := [".".join(key) for key in (("pixels",), ("action",), ("next", "reward")) if key not in made]:
        raise DatasetFormatError(f"{where} has no entries for {', '.join(missing)}.")
    count = len(made["pixels",])
    made["next", "reward"] = made["next", "reward"].reshape(count, 1)
    if ("state", "step_type") in made:
        kinds = made["state", "step_type"].reshape(count)
        made.setdefault(("is_init",), kinds == 0)
        made.setdefault(("next", "done"), kinds == 2)
    done = made.pop(("next", "done"), torch.arange(count) == count - 1).bool().reshape(count, 1)
    terminated = made.pop(("next", "terminated"), torch.zeros(count, dtype=torch.bool)).bool().reshape(count, 1)
    made["next", "done"], made["next", "terminated"] = done, terminated
    made["next", "truncated"] = done & ~terminated
    if ("is_init",) in made:
        made["is_init",] = made["is_init",].bool()
    for key in [key for key in made if key[0] in ("pixels", "state")]:
        made["next", *key] = following(made[key])
    for flag in ("done", "terminated", "truncated"):
        made[flag,] = torch.zeros(count, 1, dtype=torch.bool)
    return made


def _of_pixels(transform: Any, totensor: bool, image_size: int | list[int] | None) -> Any:
    """A transform, with pixels made floating-point and resized after it."""
    if not totensor and image_size is None:
        return transform
    from flambeau.rl.envs.transforms import Compose, Resize, ToTensorImage

    keys: list[Any] = ["pixels", ("next", "pixels")]
    made = [] if transform is None else list(transform) if isinstance(transform, Compose) else [transform]
    if totensor and not any(isinstance(each, ToTensorImage) for each in made):
        made.append(ToTensorImage(in_keys=keys))
    if image_size is not None:
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        made.append(Resize(height, width, in_keys=keys))
    return Compose(*made)
