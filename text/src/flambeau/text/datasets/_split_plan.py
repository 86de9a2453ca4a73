"""One split as a plan: what it is made of and how it is read. Pipelines, facts and indices come from plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flambeau.core.datasets import DatasetFile, DatasetInfo, Field
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.datasets._formats import Format
from flambeau.text.datasets._locations import Place
from flambeau.text.datasets._sources import Source


@dataclass(frozen=True)
class Plan:
    """One split of a dataset.

    Args:
        dataset: its name.
        split: the split.
        splits: all of the dataset.
        source: where its text files come from.
        format: what they hold.
    """

    dataset: str
    split: str
    splits: tuple[str, ...]
    source: Source
    format: Format


class Files(IterDataPipe[str]):
    """Paths of a plan's text files; they are fetched and unpacked when the first one is asked for."""

    state_fields = None

    def __init__(self, plan: Plan, place: Place) -> None:
        import flambeau.data.datapipes.iter  # noqa: F401  # the methods of pipes, which importing a dataset does without

        self.plan = plan
        self.place = place

    def __iter__(self) -> Iterator[str]:
        for path in self.plan.source.files(self.place):
            yield str(path)


def stream(plan: Plan, folder: str) -> IterDataPipe[Any]:
    """The pipeline of a split: items in order, shuffled when a loader asks for it, shared out among workers.

    Args:
        plan: the split.
        folder: the dataset's own folder, `<root>/datasets/<name>`.
    """
    root = str(Path(folder).parent.parent)
    files = Files(plan, Place(root, plan.dataset, plan.split, plan.splits))
    items: Any = plan.format.stream(files)
    return items.shuffle().set_shuffle(False).sharding_filter()  # type: ignore[no-any-return]


def describe(
    plan: Callable[..., Plan],
    splits: tuple[str, ...],
    sizes: Mapping[str, int] | None,
    schema: tuple[Field, ...],
    **facts: Any,
) -> DatasetInfo:
    """The registry's facts of a dataset, its files being those of its plans.

    Args:
        plan: from a split to its plan.
        splits: of the dataset.
        sizes: items of each split, where they are known.
        schema: what an item holds; parts that a split lacks are optional.
        **facts: further fields of `DatasetInfo`.
    """
    plans = [plan(split) for split in splits]
    needed: dict[str, DatasetFile] = {}
    for each in plans:
        for download in each.source.downloads:
            before = needed.get(download.path)
            users = (*(before.splits if before else ()), each.split)
            needed[download.path] = download.file(each.dataset, users if len(splits) > 1 else ())
    return DatasetInfo(
        name=plans[0].dataset.lower(),
        splits=splits,
        sizes={split: sizes[split] for split in splits} if sizes else {},
        files=tuple(needed.values()),
        schema=schema,
        **facts,
    )


def texts(*names: str) -> tuple[Field, ...]:
    """Columns of text."""
    return tuple(Field(name, "text") for name in names)


def label(name: str = "label", *, optional: bool = False) -> Field:
    """A column of class numbers, which need not begin at zero."""
    return Field(name, "int", optional=optional)
