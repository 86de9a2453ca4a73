"""RoboSet: manipulation in simulated kitchens and with simulated hands, by experts and by people.

References:
    Kumar et al. 2023, RoboHive: A Unified Framework for Robot Learning. arXiv:2310.06828.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from flambeau.core.datasets import register_dataset
from flambeau.rl.data.datasets._hdf5 import arrays, following, opened
from flambeau.rl.data.datasets._published_files import fetched, folder_files, hub_files
from flambeau.rl.data.datasets._row_files import RowFiles
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage
from flambeau.rl.errors import DatasetFormatError

__all__ = ["RobosetExperienceReplay"]

HOMEPAGE = "https://sites.google.com/view/robohive/roboset"
REPOSITORY = "jdvakil/RoboSet_Sim"
_TASKS = ("door", "relocate", "hammer", "pen")
_KITCHEN = ("MicroOpen", "Knob2Off", "LdoorOpen", "SdoorOpen", "Knob1On")
_NAMES = {"observations": ("observation",), "actions": ("action",), "rewards": ("next", "reward"),
          "done": ("next", "done"), "env_infos": ("info",)}  # fmt: skip
Key = tuple[str, ...]


@register_dataset(
    "roboset",
    task="offline-reinforcement-learning",
    license="Apache-2.0",
    homepage=HOMEPAGE,
    description="Manipulation in simulated kitchens and with simulated hands, by experts and by people.",
    citation="@inproceedings{kumar2023robohive, author={Kumar, Vikash and Shah, Rutav and Zhou, Gaoyue and Moens, "
    "Vincent and Caggiano, Vittorio and Vakil, Jay and Gupta, Abhishek and Rajeswaran, Aravind}, title={RoboHive: A "
    "Unified Framework for Robot Learning}, booktitle={NeurIPS}, year={2023}}",
    schema=STEP,
)
class RobosetExperienceReplay(BaseDatasetExperienceReplay):
    """Data sets of RoboSet, read from their HDF5 files, one for each seed.

    Steps have "observation", "action", "time" and "info", and of which "episode" of which "seed" they are. Episodes of
    all seeds alternate.

    Args:
        dataset_id: one of `available_datasets`, such as "DAPG(expert)/door_v2d-v1".
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
        env_kwargs: accepted for code written for upstream.

    Raises:
        ValueError: no such data set.
        DatasetMissingError: there is no whole copy, and `download` is False.
    """

    source = "roboset"
    available_datasets: ClassVar[list[str]] = [
        *(f"DAPG({who})/{task}_v2d-v1" for who in ("expert", "human") for task in _TASKS),
        *(f"FK1-v4(expert)/FK1_{task}Random_v2d-v4" for task in _KITCHEN),
        "FK1-v4(human)/human_demos_by_playdata",
        "FK1-v4(human)/human_demos_by_task/human_demo_singleTask_Fixed-v4",
        *(
            f"FK1-v4(human)/human_demos_by_task/FK1_{task}Random_v2d-v4"
            for task in ("SdoorOpen", "LdoorOpen", "Knob2Off", "Knob1On", "MicroOpen")
        ),
    ]

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
        **env_kwargs: Any,
    ) -> None:
        self._check_id(dataset_id, self.available_datasets)
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
            transform=transform,
        )

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        if download:
            wanted = hub_files(REPOSITORY, folder_files(REPOSITORY, self.dataset_id, (".h5", ".hdf5")))
            files = fetched(self.name, wanted, sources, download=True, homepage=HOMEPAGE)
        else:
            files = {path.name: path for path in sorted(sources.rglob("*.h5")) + sorted(sources.rglob("*.hdf5"))}
        opened_files = [opened(path) for path in files.values()]
        rows = RowFiles(folder, self.name)
        try:
            trials = sorted({name for file in opened_files for name in file if name.startswith("Trial")}, key=_number)
            for episode, trial in enumerate(trials):
                for seed, (path, file) in enumerate(zip(files, opened_files, strict=True)):
                    if trial in file:
                        where = f"{path}, {trial}"
                        rows.append(_steps(dict(arrays(file[trial])), episode, seed, where), where)
        finally:
            rows.close()
            for file in opened_files:
                file.close()
        rows.finish()
        return files, {}


def _number(trial: str) -> tuple[int, str]:
    digits = trial.removeprefix("Trial")
    return (int(digits) if digits.isdigit() else -1, trial)


def _steps(found: dict[Key, Any], episode: int, seed: int, where: str) -> dict[Key, Any]:
    """Steps of one trial's arrays; the last is truncated where it is not done."""
    made: dict[Key, Any] = {}
    for (first, *rest), value in found.items():
        if first != "config":  # of the environment, and as long as it likes
            made[(*_NAMES.get(first, (first,)), *rest)] = value
    if missing := [
        key for key in (("observation",), ("action",), ("next", "reward"), ("next", "done")) if key not in made
    ]:
        raise DatasetFormatError(f"{where} has no entries for {', '.join('.'.join(key) for key in missing)}.")
    count = len(made["action",])
    made["next", "reward"] = made["next", "reward"].reshape(count, 1)
    terminated = made["next", "done"].bool().reshape(count, 1)
    truncated = torch.zeros_like(terminated)
    truncated[-1] = ~terminated[-1]
    made.update({("next", "terminated"): terminated, ("next", "truncated"): truncated})
    made["next", "done"] = terminated | truncated
    for key in [key for key in made if key[0] in ("observation", "info")]:
        made["next", *key] = following(made[key])
    for flag in ("done", "terminated", "truncated"):
        made[flag,] = torch.zeros(count, 1, dtype=torch.bool)
    made["episode",] = torch.full((count,), episode)
    made["seed",] = torch.full((count,), seed)
    return made
