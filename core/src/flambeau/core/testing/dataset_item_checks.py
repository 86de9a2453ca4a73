"""Checks of what datasets say about themselves and give: items, indices, transforms, copies, workers, shards."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import pickle
import warnings
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from flambeau.core.testing.comparing import difference, require_equal
from flambeau.core.testing.dataset_subject import MOST_ITEMS, DatasetSubject, items_of
from flambeau.core.testing.results import Catalogue, CheckFailed, NotApplicable
from flambeau.core.testing.schema import item_fault

_WORKER_TIMEOUT_S = 120

CHECKS: Catalogue[DatasetSubject] = Catalogue("dataset")


@CHECKS.check("fixture")
def _fixture(subject: DatasetSubject) -> None:
    """Can be built over the plugin's miniature, which has at least two items."""
    try:
        dataset = subject.dataset
    except NotApplicable as reason:
        raise CheckFailed(str(reason)) from reason
    if len(items_of(dataset)) < 2:
        raise CheckFailed("the miniature has fewer than two items; with one, order and shards show nothing.")


@CHECKS.check("facts-complete")
def _facts(subject: DatasetSubject) -> None:
    """States what an item holds; a published dataset also its splits, homepage, licence and citation."""
    wanted = ["schema"]
    if subject.info.files:
        wanted += ["splits", "homepage", "license", "citation"]
    if lacking := [fact for fact in wanted if not getattr(subject.info, fact)]:
        raise CheckFailed(f"its facts lack {', '.join(lacking)}.")
    if unsafe := [file.path for file in subject.info.files if not (file.sha256 or file.md5)]:
        raise CheckFailed(f"without sha256 or md5 nobody can tell whether these are intact: {', '.join(unsafe)}.")


@CHECKS.check("length-agrees-with-iteration")
def _length(subject: DatasetSubject) -> None:
    """`len` is the number of items that iteration gives."""
    dataset = subject.dataset
    if not hasattr(dataset, "__len__"):
        raise NotApplicable("it has no length.")
    length = len(dataset)
    count = sum(1 for _ in itertools.islice(iter(dataset), length + 1))
    if count != length:
        raise CheckFailed(f"len is {length}, but iteration gives {'more' if count > length else count} items.")


@CHECKS.check("schema-agrees-with-samples")
def _schema(subject: DatasetSubject) -> None:
    """Each item holds what the schema says: keys, kinds, shapes, dtypes."""
    if not subject.info.schema:
        raise CheckFailed("it has no schema; declare one in its facts.")
    for index, item in enumerate(items_of(subject.dataset)):
        if fault := item_fault(item, subject.info.schema):
            raise CheckFailed(f"item {index}: {fault}.")


@CHECKS.check("index-bounds")
def _index_bounds(subject: DatasetSubject) -> None:
    """Negative indices count from the end, and indices out of range raise IndexError."""
    dataset = _map_style(subject.dataset)
    length = len(dataset)
    require_equal(dataset[-1], dataset[length - 1], "index -1 is not the last item", where="item")
    require_equal(dataset[-length], dataset[0], f"index {-length} is not the first item", where="item")
    for index in (length, -length - 1):
        try:
            dataset[index]
        except IndexError:
            continue
        raise CheckFailed(f"index {index} of {length} items gives an item, expected IndexError.")


@CHECKS.check("transforms-applied-once")
def _transforms(subject: DatasetSubject) -> None:
    """Each of its transforms is applied once per item, and its result is what the item holds."""
    offered = [name for name in ("transform", "target_transform", "transforms") if name in subject.options]
    if not offered:
        raise NotApplicable("it takes no transform.")
    for name in offered:
        recorder = _Recorder()
        options: dict[str, Any] = {name: recorder}
        items = items_of(subject.build(**options), most=2)
        if recorder.calls != len(items):
            raise CheckFailed(f"{name} was called {recorder.calls} times for {len(items)} items.")
        if not all(_holds_marked(item) for item in items):
            raise CheckFailed(f"the result of {name} is not in the item.")


@CHECKS.check("pickles")
def _pickles(subject: DatasetSubject) -> None:
    """A copy through pickle has equal items."""
    copy = pickle.loads(pickle.dumps(subject.dataset))
    require_equal(items_of(copy), items_of(subject.dataset), "after pickle", where="items")


@CHECKS.check("workers-agree-fork")
def _workers_fork(subject: DatasetSubject) -> None:
    """Two forked workers give the same items as none."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise NotApplicable("this platform cannot fork.")
    _workers_agree(subject.dataset, "fork")


@CHECKS.check("workers-agree-spawn", level="full")
def _workers_spawn(subject: DatasetSubject) -> None:
    """Two spawned workers give the same items as none."""
    _workers_agree(subject.dataset, "spawn")


@CHECKS.check("shards-partition")
def _shards(subject: DatasetSubject) -> None:
    """Ranks, or the workers of a stream, share the items without gap or overlap."""
    dataset = subject.dataset
    if isinstance(dataset, IterableDataset):
        if "fork" not in multiprocessing.get_all_start_methods():
            raise NotApplicable("this platform cannot fork.")
        together, alone = _loaded(dataset, 2, "fork"), _loaded(dataset, 0)
        if len(together) != len(alone):
            raise CheckFailed(f"two workers give {len(together)} items, expected each of {len(alone)} once.")
        for item in alone:
            if not any(difference(other, item) is None for other in together):
                raise CheckFailed("two workers leave an item out.")
        return
    length = len(_map_style(dataset))
    shares: list[list[int]] = [list(DistributedSampler(dataset, 2, rank, shuffle=False)) for rank in (0, 1)]
    if sorted(set(itertools.chain(*shares))) != list(range(length)):
        raise CheckFailed(f"two ranks read {shares} of {length} items.")
    rejoined = {index: dataset[index] for share in shares for index in share[: MOST_ITEMS // 2]}
    for index, item in rejoined.items():
        require_equal(item, dataset[index], f"item {index} depends on what was read before", where="item")


@CHECKS.check("state-resumes")
def _state(subject: DatasetSubject) -> None:
    """A state taken after some items, put into a new dataset, goes on with the next one; it is plain JSON."""
    if not hasattr(subject.dataset, "state_dict"):
        raise NotApplicable("it keeps no state.")
    whole = items_of(subject.build())
    taken = min(2, len(whole) - 1)
    first = subject.build()
    iterator = iter(first)
    for _ in range(taken):
        next(iterator)
    state = json.loads(json.dumps(first.state_dict()))
    second = subject.build()
    second.load_state_dict(state)
    require_equal(items_of(second), whole[taken:], f"resumed after {taken} items", where="items")


@CHECKS.check("repr-one-screen")
def _repr(subject: DatasetSubject) -> None:
    """Its repr says what it is and how long, on one screen."""
    dataset = subject.dataset
    text = repr(dataset)
    lines = text.splitlines()
    if len(lines) > 24 or any(len(line) > 160 for line in lines):
        raise CheckFailed(
            f"repr has {len(lines)} lines of up to {max(map(len, lines))} characters; expected one screen."
        )
    if " object at 0x" in text:
        raise CheckFailed(f"repr is {text!r}, which says nothing about the dataset.")
    if hasattr(dataset, "__len__") and str(len(dataset)) not in text.replace(",", ""):
        raise CheckFailed(f"repr does not tell the number of items ({len(dataset)}): {text!r}")


class _Marked:
    """What a recording transform returns, so that it is found again."""


class _Recorder:
    """A transform that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *values: Any) -> Any:
        self.calls += 1
        return _Marked() if len(values) == 1 else tuple(_Marked() for _ in values)


def _holds_marked(item: Any) -> bool:
    if isinstance(item, dict):
        item = tuple(item.values())
    return isinstance(item, _Marked) or (isinstance(item, tuple | list) and any(_holds_marked(part) for part in item))


def _map_style(dataset: Any) -> Any:
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise NotApplicable("it is a stream without indices.")
    return dataset


def _identity(item: Any) -> Any:
    return item


def _loaded(dataset: Any, workers: int, method: str | None = None) -> list[Any]:
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        collate_fn=_identity,
        multiprocessing_context=method if workers else None,
        timeout=_WORKER_TIMEOUT_S if workers else 0,
    )
    with warnings.catch_warnings():
        # Python 3.12 and later warn that a process with threads forks; the workers run no code that takes their locks.
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        return list(itertools.islice(loader, 4 * MOST_ITEMS))


def _workers_agree(dataset: Any, method: str) -> None:
    if isinstance(dataset, IterableDataset):
        raise NotApplicable("a stream's workers share its items; see shards-partition.")
    require_equal(_loaded(dataset, 2, method), _loaded(dataset, 0), f"two workers by {method}", where="items")
