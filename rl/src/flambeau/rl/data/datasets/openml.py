"""Tables of OpenML as contextual bandits: features, and the class that is the right action.

References:
    Vanschoren, van Rijn, Bischl and Torgo 2014, OpenML: networked science in machine learning. arXiv:1407.7722.
    Riquelme, Tucker and Snoek 2018, Deep Bayesian Bandits Showdown. arXiv:1802.09127 (which tables, and their labels).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from flambeau.core.datasets import DatasetFile, register_dataset
from flambeau.rl.data.datasets._arff import Table, read_arff
from flambeau.rl.data.datasets._published_files import fetched
from flambeau.rl.data.datasets._row_files import RowFiles
from flambeau.rl.data.datasets.common import STEP, BaseDatasetExperienceReplay, Download
from flambeau.rl.data.replay_buffers.storages.tensor import TensorStorage
from flambeau.rl.errors import DatasetFormatError

__all__ = ["OpenMLExperienceReplay"]

HOMEPAGE = "https://www.openml.org"
# Data set -> name and version at OpenML; the label where it is another than OpenML says; whether features are one-hot.
_TABLES: dict[str, tuple[str, int, str | None, bool]] = {
    "adult_num": ("adult", 1, "occupation", False),
    "adult_onehot": ("adult", 1, "occupation", True),
    "mushroom_num": ("mushroom", 1, None, False),
    "mushroom_onehot": ("mushroom", 1, None, True),
    "covertype": ("covertype", 3, None, False),
    "shuttle": ("shuttle", 1, None, False),
    "magic": ("MagicTelescope", 1, None, False),
}


@register_dataset(
    "openml",
    task="contextual-bandits",
    license="differs by table; see its page",
    homepage=HOMEPAGE,
    description="Tables of OpenML as contextual bandits: features, and the class that is the right action.",
    citation="@article{vanschoren2014openml, author={Vanschoren, Joaquin and van Rijn, Jan N. and Bischl, Bernd and "
    "Torgo, Luis}, title={OpenML: networked science in machine learning}, journal={SIGKDD Explorations}, year={2014}}",
    schema=STEP,
)
class OpenMLExperienceReplay(BaseDatasetExperienceReplay):
    """Tables of OpenML, read from their ARFF files; scikit-learn is not needed.

    Steps have "X", features (features,), float64, and "y", the number of the class, int64. Features of numbers are
    standardized, to mean 0 and variance 1. Features of names are numbered and standardized, or one-hot with "_onehot",
    behind those of numbers; of mushroom_onehot all features are. Rows of adult with missing values are left out.

    Args:
        name: one of `available_datasets`.
        batch_size: how many rows a batch has.
        root: folder of this source's data sets.
        sampler: what is drawn; by default a `RandomSampler`.
        writer: by default an `ImmutableDatasetWriter`.
        collate_fn: see `ReplayBuffer`.
        pin_memory: see `ReplayBuffer`.
        prefetch: see `ReplayBuffer`.
        transform: see `ReplayBuffer`.
        download: fetch and convert what is missing; "force" does so again; False uses what there is.

    Attributes:
        max_outcome_val: the largest number of a class.

    Raises:
        ValueError: no such table.
        DatasetMissingError: there is no whole copy, and `download` is False.
    """

    source = "openml"
    API_URL: ClassVar[str] = "https://api.openml.org/api/v1/json/data"
    available_datasets: ClassVar[list[str]] = list(_TABLES)

    def __init__(
        self,
        name: str,
        batch_size: int,
        root: Path | str | None = None,
        sampler: Any = None,
        writer: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        transform: Any = None,
        download: Download = True,
    ) -> None:
        self._check_id(name, _TABLES)
        self._locate(name, root)
        steps = self._prepared(download)
        self.max_outcome_val = int(steps["y"].max())
        super().__init__(
            batch_size=batch_size,
            storage=TensorStorage(steps),
            sampler=sampler,
            writer=writer,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            prefetch=prefetch,
            transform=transform,
        )

    def _convert(self, folder: Path, sources: Path, download: bool) -> tuple[Mapping[str, Path], Mapping[str, Any]]:
        title, version, label, one_hot = _TABLES[self.dataset_id]
        if download:
            asked = f"{self.API_URL}/list/data_name/{title}/data_version/{version}/limit/2"
            listed = self._asked(asked, "found.json", sources)
            number = listed["data"]["dataset"][0]["did"]
            described = self._asked(f"{self.API_URL}/{number}", "description.json", sources)["data_set_description"]
            wanted = DatasetFile(url=described["url"], path=f"{title}.arff", md5=described.get("md5_checksum"))
            files = fetched(self.name, [wanted], sources, download=True, homepage=HOMEPAGE)
            files |= {name: sources / name for name in ("found.json", "description.json")}
            label = label or described["default_target_attribute"]
        else:
            files = {path.name: path for path in sorted(sources.glob("*.arff"))}
        table = read_arff(next(path for path in files.values() if path.suffix == ".arff"))
        features, classes = _features(table, label or table.names[-1], one_hot, self.dataset_id)
        rows = RowFiles(folder, self.name)
        rows.append({("X",): features, ("y",): classes}, "its table")
        rows.finish()
        return files, {"features": features.shape[1], "classes": int(classes.max()) + 1}

    def _asked(self, url: str, name: str, sources: Path) -> Any:
        """What OpenML answers."""
        (path,) = fetched(self.name, [DatasetFile(url=url, path=name)], sources, download=True).values()
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            path.unlink()
            raise DatasetFormatError(f"{self.name}: {url} answers something else than JSON: {error}") from error


def _features(table: Table, label: str, one_hot: bool, name: str) -> tuple[Tensor, Tensor]:
    """Features, standardized or one-hot, and numbers of classes."""
    if label not in table.names:
        raise DatasetFormatError(f"openml:{name}: its table has no column {label!r}; it has {', '.join(table.names)}.")
    columns = {name: table.columns[name] for name in table.names}
    if label == "occupation":
        columns.pop("class", None)
        whole = np.ones(table.rows, bool)
        for column in columns.values():
            whole &= column != None if column.dtype.hasobject else ~np.isnan(column)  # noqa: E711 of each element
        columns = {key: column[whole] for key, column in columns.items()}
    classes = _codes(columns.pop(label))
    if one_hot and name.startswith("mushroom"):
        made = [_one_hot(column) for column in columns.values()]
    elif one_hot:
        numbers = [column[:, None] for column in columns.values() if not column.dtype.hasobject]
        made = [_standardized(column) for column in numbers]
        made += [_one_hot(column) for column in columns.values() if column.dtype.hasobject]
    else:
        made = [
            _standardized((_codes(column) if column.dtype.hasobject else column)[:, None])
            for column in columns.values()
        ]
    return torch.from_numpy(np.concatenate(made, 1).astype(np.float64)), torch.from_numpy(classes)


def _codes(column: Any) -> Any:
    """Each value's number among the sorted values; a missing one is a value of its own, the last."""
    if not column.dtype.hasobject:
        return np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.int64)
    values = sorted({value for value in column if value is not None})
    numbers = {value: number for number, value in enumerate(values)} | {None: len(values)}
    return np.array([numbers[value] for value in column], np.int64)


def _standardized(column: Any) -> Any:
    deviation = column.std(0)
    return (column - column.mean(0)) / np.where(deviation == 0, 1.0, deviation)


def _one_hot(column: Any) -> Any:
    codes = _codes(column)
    return np.eye(int(codes.max()) + 1)[codes]
