"""A dataset as the subject of checks: a miniature below a temporary root, and the dataset built over it."""

from __future__ import annotations

import functools
import inspect
import itertools
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from torch.utils.data import IterableDataset

from flambeau.core.datasets import DatasetInfo
from flambeau.core.datasets.registered import stand_in
from flambeau.core.registry import DATASETS
from flambeau.core.testing.miniature import miniature_facts
from flambeau.core.testing.results import NotApplicable
from flambeau.core.testing.samples import Provision

# Items looked at; a miniature rarely has more, and a dataset without files may make as many as it likes.
MOST_ITEMS = 16


class DatasetSubject:
    """One registered dataset with a miniature of its files in a temporary folder.

    Args:
        name: canonical id.
        provided: the plugin's samples.
    """

    def __init__(self, name: str, provided: Provision) -> None:
        self.name = name
        self.short = name.rpartition("/")[2]
        self.provided = provided
        self.info = DatasetInfo.from_record(DATASETS.info(name))

    @functools.cached_property
    def target(self) -> Any:
        """The registered class or function."""
        return DATASETS.resolve(self.name)

    @functools.cached_property
    def options(self) -> frozenset[str]:
        """Names of the arguments the dataset takes."""
        return frozenset(inspect.signature(self.target).parameters)

    @functools.cached_property
    def folder(self) -> Path:
        """A temporary folder that goes when the subject does."""
        folder = Path(tempfile.mkdtemp(prefix="flambeau-conformance-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    @property
    def placed(self) -> Path:
        """Root of the miniature."""
        return self.folder / "placed"

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """What the fixture says the dataset is built with; empty where it needs nothing.

        Raises:
            NotApplicable: no fixture, and the dataset cannot be built without arguments.
        """
        if self.provided.has("dataset_fixture"):
            self.placed.mkdir(exist_ok=True)
            return dict(self.provided.ask("dataset_fixture", self.short, self.placed))
        needed = [
            name
            for name, parameter in inspect.signature(self.target).parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        ]
        if needed:
            raise NotApplicable(f"it needs {', '.join(needed)}; {self.provided.origin} has no `dataset_fixture`.")
        return {}

    @functools.cached_property
    def facts(self) -> DatasetInfo:
        """The facts of the miniature."""
        return miniature_facts(self.info, self.placed, self.folder / "archives") if self.config else self.info

    def build(self, root: Path | None = None, facts: DatasetInfo | None = None, **more: Any) -> Any:
        """The dataset over the miniature, or over another root."""
        config = {name: self._moved(value, root or self.placed) for name, value in self.config.items()}
        more = {name: value for name, value in more.items() if name in self.options}
        with stand_in(facts or self.facts):
            return self.target(**config | more)

    def _moved(self, value: Any, root: Path) -> Any:
        if isinstance(value, str | Path) and Path(value).is_relative_to(self.placed):
            return type(value)(root / Path(value).relative_to(self.placed))
        return value

    @functools.cached_property
    def dataset(self) -> Any:
        """The dataset over the miniature; checks leave it as it is."""
        return self.build()

    @property
    def rooted(self) -> bool:
        """Whether the dataset reads files below a root."""
        return any(self._moved(value, Path("elsewhere")) != value for value in self.config.values())


def items_of(dataset: Any, most: int = MOST_ITEMS) -> list[Any]:
    """The first items of a dataset, by index where it has indices."""
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        return list(itertools.islice(iter(dataset), most))
    return [dataset[index] for index in range(min(len(dataset), most))]
