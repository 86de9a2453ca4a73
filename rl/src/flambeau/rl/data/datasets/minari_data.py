"""Minari: data sets in one format, which its community publishes, or which you recorded yourself.

References:
    Younis et al. 2024, Minari. https://minari.farama.org
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.datasets import register_dataset
from flambeau.core.errors import DatasetMissingError, HubError
from flambeau.rl.data.datasets._class_property import classproperty
from flambeau.rl.data.datasets._hdf5 import following
from flambeau.rl.data.datasets._minari_episodes import episodes, read_metadata
from flambeau.rl.data.datasets._minari_spaces import as_spec
from flambeau.rl.data.datasets._published_files import fetched, hub_errors, hub_files, listing
from flambeau.rl.data.datasets._row_files import RowFiles
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage
from flambeau.rl.errors import DatasetFormatError

__all__ = ["MinariExperienceReplay"]

HOMEPAGE = "https://minari.farama.org"
ENV_METADATA = "env_metadata.json"
_OWNER = "farama-minari"
_NAMES = {"observations": "observation", "actions": "action", "infos": "info", "state": "state"}
_OUTCOMES = {"rewards": "reward", "terminations": "terminated", "truncations": "truncated"}
Key = tuple[str, ...]


@register_dataset(
    "minari",
    task="offline-reinforcement-learning",
    license="differs by data set; see its page",
    homepage=HOMEPAGE,
    description="Data sets of Minari: of locomotion, manipulation, navigation, Atari games and more.",
    citation="@software{minari, author={Younis, Omar G. and Perez-Vicente, Rodrigo and Balis, John U. and Dudley, Will "
    "and Davey, Alex and Terry, Jordan K}, title={Minari}, year={2024}, url={https://github.com/Farama-Foundation/Minari}}",
    schema=STEP,
)
class MinariExperienceReplay(BaseDatasetExperienceReplay):
    """Data sets of Minari, read from their HDF5 or Arrow files; the package minari is not needed.

    Steps have "observation", "action", "info" where it was recorded, and "episode", the episode's number. Texts, such
    as missions, are kept: one for each step. Images are (height, width, channels), uint8.

    Args:
        dataset_id: such as "D4RL/door/human-v2"; `available_datasets` asks the hub for all.
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
        load_from_local_minari: read from Minari's own folder (`MINARI_DATASETS_PATH`, or `~/.minari/datasets`), where
            the data sets are that you recorded.

    Attributes:
        metadata: what the data set says of itself; "observation_space" and "action_space" are specs.

    Raises:
        DatasetMissingError: there is no whole copy and `download` is False, or Minari's folder does not have it.
        DatasetFormatError: a file is not in Minari's format.
    """

    source = "minari"

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
        load_from_local_minari: bool = False,
    ) -> None:
        self._locate(dataset_id, root)
        self.split_trajs = split_trajs
        self.load_from_local_minari = load_from_local_minari
        storage = TensorStorage(self._prepared(download or load_from_local_minari))
        self.metadata = _described(self.data_path_root / ENV_METADATA)
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

    @classproperty
    def available_datasets(cls) -> list[str]:
        """Names of all published data sets, as the Hugging Face hub lists them.

        Raises:
            HubError: the hub cannot be reached, or `huggingface_hub` is not installed.
        """
        return _published()

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        if self.load_from_local_minari:
            local = _own_folder() / self.dataset_id / "data"
            if not local.is_dir():
                raise DatasetMissingError(
                    f"{self.dataset_id} is not among the data sets of Minari on this machine: there is no {local}. "
                    f"Record it with minari, set MINARI_DATASETS_PATH, or leave load_from_local_minari out to have it "
                    "fetched."
                )
            return _written(self.dataset_id, local, folder)
        return convert_minari(self.dataset_id, folder, sources, download=download)


def convert_minari(
    name: str, folder: Path, sources: Path, *, download: bool
) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
    """Fetch a published data set, and write its steps to a folder.

    Args:
        name: of the data set.
        folder: empty.
        sources: folder for its files.
        download: whether they may be fetched.

    Returns:
        The files, and what is known of it.
    """
    group, _, rest = name.partition("/")
    if download:
        repository = f"{_OWNER}/{group}"
        inside = f"{rest}/data/" if rest else "data/"
        paths = [path for path in listing(repository) if path.startswith(inside)]
        if not paths:
            raise HubError(f"minari:{name}: {repository} on the Hugging Face hub has no folder {inside}.")
        files = fetched(f"minari:{name}", hub_files(repository, paths), sources, download=True, homepage=HOMEPAGE)
        data = sources / inside
    else:
        data = next((path.parent for path in sorted(sources.rglob("metadata.json"))), sources)
        files = {str(path.relative_to(sources)): path for path in sorted(data.rglob("*")) if path.is_file()}
    _, facts = _written(name, data, folder)
    return files, facts


def _written(name: str, data: Path, folder: Path) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
    metadata = read_metadata(data)
    rows = RowFiles(folder, f"minari:{name}")
    try:
        for number, found in episodes(data, metadata):
            rows.append(_steps(found, number, f"minari:{name}, episode {number}"), f"episode {number}")
    finally:
        rows.close()
    rows.finish()
    described = {**metadata, "data_path": str(data), "dataset_id": metadata.get("dataset_id", name)}
    (folder / ENV_METADATA).write_text(json.dumps(described), encoding="utf-8")
    read = {path.name: path for path in sorted(data.glob("*")) if path.is_file()}
    return read, {"total_steps": rows.rows}


def _steps(found: dict[Key, Any], number: int, where: str) -> dict[Key, Any]:
    """Steps of one episode's arrays."""
    if missing := [name for name in ("actions", *_OUTCOMES) if not any(key[0] == name for key in found)]:
        raise DatasetFormatError(f"{where} has no {', '.join(missing)}.")
    count = len(found["rewards",])
    made: dict[Key, Any] = {("episode",): torch.full((count,), number)}
    for (first, *rest), value in found.items():
        if first in _OUTCOMES:
            made["next", _OUTCOMES[first]] = value.reshape(count, 1)
        elif first == "actions":
            made["action", *rest] = value
        else:
            key = (_NAMES.get(first, first), *rest)
            made[key] = value[:count]
            made["next", *key] = value[1:] if len(value) > count else following(value)
    for flag in ("terminated", "truncated"):
        made["next", flag] = made["next", flag].bool()
    made["next", "done"] = made["next", "terminated"] | made["next", "truncated"]
    for flag in ("done", "terminated", "truncated"):
        made[flag,] = torch.zeros(count, 1, dtype=torch.bool)
    return {key: value if isinstance(value, Tensor) else list(map(str, value)) for key, value in made.items()}


def _own_folder() -> Path:
    return Path(os.environ.get("MINARI_DATASETS_PATH") or "~/.minari/datasets").expanduser()


def _described(path: Path) -> dict[str, Any]:
    """What was kept of a data set's description, with specs in place of spaces."""
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name in ("observation_space", "action_space"):
        if isinstance(found.get(name), dict):
            found[name] = as_spec(found[name])
    return found


def _published() -> list[str]:
    try:
        import huggingface_hub
    except ImportError as error:
        raise HubError(
            "the data sets of Minari are listed by huggingface_hub, which is not installed. Run: pip install "
            "'flambeau-rl[datasets]'"
        ) from error
    try:
        groups = [found.id for found in huggingface_hub.HfApi().list_datasets(author=_OWNER)]
    except hub_errors() as error:
        raise HubError(f"the data sets of {_OWNER} on the Hugging Face hub cannot be listed: {error}") from error
    ends = "/data/metadata.json"
    return sorted(
        "/".join(part for part in (group.partition("/")[2], path.removesuffix(ends).removesuffix(ends[1:])) if part)
        for group in groups
        for path in listing(group)
        if f"/{path}".endswith(ends)
    )
