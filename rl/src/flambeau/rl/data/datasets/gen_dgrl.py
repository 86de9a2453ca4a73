"""Gen-DGRL: Procgen's games, to measure how offline learning generalizes to other levels.

References:
    Mediratta, You, Jiang and Raileanu 2023, The Generalization Gap in Offline Reinforcement Learning.
    arXiv:2312.05742.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from flambeau.core.datasets import DatasetFile, register_dataset
from flambeau.core.hub import read_archive
from flambeau.rl.data.datasets._pickled_arrays import load_array_file
from flambeau.rl.data.datasets._published_files import fetched
from flambeau.rl.data.datasets._row_files import RowFiles
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage
from flambeau.rl.errors import DatasetFormatError

__all__ = ["GenDGRLExperienceReplay"]

HOMEPAGE = "https://github.com/facebookresearch/gen_dgrl"
_GAMES = (
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip
_FOLDERS = {
    "1M_E": "1M/level_200/expert",
    "1M_S": "1M/level_200/suboptimal",
    "10M": "10M/level_200/expert",
    "25M": "25M/level_200/expert",
    "level_1_E": "100k/level_1/expert",
    "level_1_S": "100k/level_1/suboptimal",
    "level_40_E": "100k/level_40/expert",
    "level_40_S": "100k/level_40/suboptimal",
}
Key = tuple[str, ...]


@register_dataset(
    "gen_dgrl",
    task="offline-reinforcement-learning",
    license="CC-BY-NC-4.0",
    homepage=HOMEPAGE,
    description="Procgen's games, from experts and worse, to measure how offline learning generalizes.",
    citation="@article{mediratta2023generalization, author={Mediratta, Ishita and You, Qingfei and Jiang, Minqi and "
    "Raileanu, Roberta}, title={The Generalization Gap in Offline Reinforcement Learning}, journal={arXiv:2312.05742}, "
    "year={2023}}",
    schema=STEP,
)
class GenDGRLExperienceReplay(BaseDatasetExperienceReplay):
    """Data sets of Gen-DGRL, read from archives (`.tar.xz`) of episodes, without unpacking them to the disk.

    Steps have "observation", an image (64, 64, 3), uint8, and "action", the number of one. Episodes end by
    "terminated".

    Args:
        dataset_id: one of `available_datasets`: a game and a category, such as "bigfish-1M_E".
        batch_size: how many steps a batch has; by default `sample` must be told.
        download: fetch and convert what is missing; "force" does so again; False uses what there is.
        root: folder of this source's data sets.
        kwargs: see `ReplayBuffer`.

    Raises:
        ValueError: no such data set.
        DatasetMissingError: there is no whole copy, and `download` is False.
        UnsafePickleError: an episode's file holds something else than arrays.
    """

    source = "gen_dgrl"
    BASE_URL: ClassVar[str] = "https://dl.fbaipublicfiles.com/DGRL/Procgen/Datasets/Compressed"
    available_datasets: ClassVar[list[str]] = [f"{game}-{category}" for category in _FOLDERS for game in _GAMES]

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        download: Download = True,
        root: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        self._check_id(dataset_id, self.available_datasets)
        self._locate(dataset_id, root)
        super().__init__(batch_size=batch_size, storage=TensorStorage(self._prepared(download)), **kwargs)

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        game, _, category = self.dataset_id.partition("-")
        wanted = DatasetFile(url=f"{self.BASE_URL}/{_FOLDERS[category]}/{game}.tar.xz")
        files = fetched(self.name, [wanted], sources, download=download, homepage=HOMEPAGE)
        rows = RowFiles(folder, self.name)
        try:
            for path in files.values():
                for member, stream in read_archive(path):
                    if member.endswith(".npy"):
                        where = f"{path.name}, {member}"
                        rows.append(_steps(load_array_file(stream, where), where), where)
        finally:
            rows.close()
        rows.finish()
        return files, {}


def _steps(found: Any, where: str) -> dict[Key, Any]:
    """Steps of an episode, of which there is one more observation."""
    names = ("observations", "actions", "rewards", "dones")
    if not isinstance(found, dict) or any(name not in found for name in names):
        raise DatasetFormatError(f"{where} is no episode: it needs a dictionary of {', '.join(names)}.")
    observations, actions, rewards, dones = (torch.from_numpy(np.ascontiguousarray(found[name])) for name in names)
    count = len(actions)
    if len(observations) != count + 1:
        raise DatasetFormatError(f"{where} has {len(observations)} observations of {count} steps, expected one more.")
    done = dones.bool().reshape(count, 1)
    none = torch.zeros_like(done)
    return {
        ("observation",): observations[:-1],
        ("action",): actions.reshape(count),
        ("next", "observation"): observations[1:],
        ("next", "reward"): rewards.reshape(count, 1),
        ("next", "done"): done,
        ("next", "terminated"): done,
        ("next", "truncated"): none,
        ("done",): none,
        ("terminated",): none,
        ("truncated",): none,
    }
