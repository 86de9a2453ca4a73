"""D4RL: locomotion, manipulation, navigation and driving, from policies of several qualities and from people.

References:
    Fu, Kumar, Nachum, Tucker and Levine 2020, D4RL: Datasets for Deep Data-Driven Reinforcement Learning.
    arXiv:2004.07219.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from flambeau.core.datasets import DatasetFile, register_dataset
from flambeau.core.errors import DownloadError, HubWarning
from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.datasets._d4rl_files import BASE_URL, FILES, SUCCESSORS
from flambeau.rl.data.datasets._hdf5 import arrays, following, opened, preceding
from flambeau.rl.data.datasets._published_files import fetched
from flambeau.rl.data.datasets._row_files import RowFiles
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage
from flambeau.rl.errors import DatasetFormatError

__all__ = ["D4RLExperienceReplay"]

HOMEPAGE = "https://github.com/Farama-Foundation/D4RL"
_NAMES: dict[str, tuple[str, ...]] = {
    "observations": ("observation",),
    "next_observations": ("next", "observation"),
    "actions": ("action",),
    "rewards": ("next", "reward"),
    "terminals": ("next", "terminated"),
    "timeouts": ("next", "truncated"),
}
_FLAGS = (("next", "terminated"), ("next", "truncated"))


@register_dataset(
    "d4rl",
    task="offline-reinforcement-learning",
    license="CC-BY-4.0",
    homepage=HOMEPAGE,
    description="Locomotion, manipulation, navigation and driving, from policies of several qualities and from people.",
    citation="@article{fu2020d4rl, author={Fu, Justin and Kumar, Aviral and Nachum, Ofir and Tucker, George and "
    "Levine, Sergey}, title={D4RL: Datasets for Deep Data-Driven Reinforcement Learning}, journal={arXiv:2004.07219}, "
    "year={2020}}",
    schema=STEP,
)
class D4RLExperienceReplay(BaseDatasetExperienceReplay):
    """Data sets of D4RL, read from their HDF5 files.

    The project is archived, and its server refuses requests at times. Where a file cannot be fetched, a data set with
    a successor in Minari is taken from there, with a warning.

    Steps have "observation", "action", "info" where it was recorded, and below "next" also "reward", "done",
    "terminated" and "truncated". Upstream: flags and "reward" at the root are those of the step before, also where an
    episode begins, and ("next", "observation") is zero where ("next", "done") is true, as it was not recorded.

    Args:
        dataset_id: one of `available_datasets`, such as "halfcheetah-medium-v2".
        batch_size: how many steps a batch has.
        sampler: what is drawn; by default a `RandomSampler`.
        writer: by default an `ImmutableDatasetWriter`.
        collate_fn: see `ReplayBuffer`.
        pin_memory: see `ReplayBuffer`.
        prefetch: see `ReplayBuffer`.
        transform: see `ReplayBuffer`.
        split_trajs: whether trajectories are rows, (trajectories, longest), with a "mask".
        from_env: read from the package d4rl by `env.get_dataset()`, which must be installed.
        use_truncated_as_done: whether an episode that was cut off is done, too.
        direct_download: False reads from the package d4rl; None and True fetch the files.
        terminate_on_end: for the package d4rl alone: see `d4rl.qlearning_dataset`.
        download: fetch and convert what is missing; "force" does so again; False uses what there is.
        root: folder of this source's data sets.
        env_kwargs: arguments of the package d4rl.

    Attributes:
        metadata: what the file says of its recording.

    Raises:
        ValueError: no such data set, or `terminate_on_end` without the package d4rl.
        DatasetMissingError: there is no whole copy, and `download` is False.
    """

    source = "d4rl"
    available_datasets: ClassVar[list[str]] = list(FILES)

    def __init__(
        self,
        dataset_id: str,
        batch_size: int,
        sampler: Any = None,
        writer: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        transform: Any = None,
        split_trajs: bool = False,
        from_env: bool = False,
        use_truncated_as_done: bool = True,
        direct_download: bool | None = None,
        terminate_on_end: bool | None = None,
        download: Download = True,
        root: str | Path | None = None,
        **env_kwargs: Any,
    ) -> None:
        by_package = from_env or direct_download is False
        if by_package and direct_download:
            raise ValueError("from_env=True reads from the package d4rl, and direct_download=True does not; give one.")
        if terminate_on_end is not None and not by_package:
            raise ValueError("terminate_on_end is for the package d4rl; give direct_download=False with it.")
        if not by_package:
            self._check_id(dataset_id, FILES)
        self._locate(dataset_id, root)
        self.split_trajs = split_trajs
        self.from_env, self.use_truncated_as_done = from_env, use_truncated_as_done
        self._by_package = by_package
        self._env_kwargs = (
            env_kwargs if terminate_on_end is None else {"terminate_on_end": terminate_on_end, **env_kwargs}
        )
        storage = TensorStorage(self._prepared(download))
        self.metadata = self._facts.get("metadata", {})
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

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        files: Mapping[str, Path] = {}
        if self._by_package:
            found = _from_package(self.dataset_id, self.from_env, self._env_kwargs)
        else:
            path = FILES[self.dataset_id]
            wanted = DatasetFile(url=f"{BASE_URL}/{path}", path=path.rpartition("/")[2])
            try:
                files = fetched(self.name, [wanted], sources, download=download, homepage=HOMEPAGE)
            except DownloadError as error:
                return self._from_successor(folder, sources, error)
            with opened(next(iter(files.values()))) as file:
                found = dict(arrays(file))
        metadata = {".".join(key[1:]): _plain(value) for key, value in found.items() if key[0] == "metadata"}
        rows = RowFiles(folder, self.name)
        rows.append(self._steps({key: value for key, value in found.items() if key[0] != "metadata"}), "its file")
        rows.finish()
        return files, {"metadata": metadata}

    def _steps(self, found: dict[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
        """Steps of a recording's arrays; the last, of which the outcome is not known, is left out."""
        made: dict[tuple[str, ...], Any] = {}
        for key, value in found.items():
            if key[0] == "infos":
                made["info", *key[1:]] = value
                continue
            made[(*_NAMES.get(key[0], key[:1]), *key[1:])] = value
        needed = [("observation",), ("action",), ("next", "reward"), ("next", "terminated")]
        if missing := [".".join(key) for key in needed if key not in made]:
            raise DatasetFormatError(f"{self.name}: its file has no entries for {', '.join(missing)}.")
        count = len(made["action",])
        for key in (*_FLAGS, ("next", "reward")):
            value = made.get(key, torch.zeros(count, dtype=torch.bool))
            made[key] = (value.bool() if key in _FLAGS else value).reshape(count, 1)
        terminated, truncated = (made[key] for key in _FLAGS)
        made["next", "done"] = terminated | truncated if self.use_truncated_as_done else terminated.clone()
        recorded = ("next", "observation") in made
        for key in [key for key in made if key[0] in ("info", "observation")]:
            made.setdefault(("next", *key), following(made[key]))
        if not recorded:
            ended = made["next", "done"].reshape(-1)
            made["next", "observation"] = made["next", "observation"].masked_fill(_wide(ended, made["observation",]), 0)
        for name in ("reward", "done", "terminated", "truncated"):
            made[name,] = preceding(made["next", name])
        return made if recorded else {key: value[:-1] for key, value in made.items()}

    def _from_successor(
        self, folder: Path, sources: Path, error: DownloadError
    ) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        from flambeau.rl.data.datasets.minari_data import convert_minari

        successor = SUCCESSORS.get(self.dataset_id)
        if successor is None:
            raise error
        warnings.warn(
            f"{self.name} cannot be fetched ({error}); its successor in Minari, {successor}, is used. Name it by "
            f"load_dataset('minari:{successor}') to have it at once.",
            HubWarning,
            stacklevel=6,
        )
        return convert_minari(successor, folder, sources, download=True)


def _from_package(name: str, from_env: bool, arguments: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """Arrays that the package d4rl gives, by the names of its files."""
    try:
        import d4rl  # type: ignore[import-not-found]  # archived, and not on PyPI
        import gym  # type: ignore[import-not-found]
    except ImportError as error:
        raise ImportError(
            "from_env=True and direct_download=False read from the package d4rl, which is not installed; leave them "
            "out to fetch the files themselves."
        ) from error
    env = gym.make(name)
    found = env.get_dataset() if from_env else d4rl.qlearning_dataset(env, **arguments)
    content = TensorDict({}, [])
    for key, value in found.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim:
            content.set(tuple(key.split("/")), torch.from_numpy(np.ascontiguousarray(value)))
    return {key if isinstance(key, tuple) else (key,): value for key, value in content.items(True, True)}


def _wide(flags: Tensor, like: Tensor) -> Tensor:
    return flags.reshape(-1, *[1] * (like.ndim - 1))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value
