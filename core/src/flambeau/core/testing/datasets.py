"""Checks of datasets: what they say about themselves is so, workers agree, and files are found or explained."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import json
import multiprocessing
import os
import pickle
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from flambeau.core.datasets import DatasetInfo, fetch_dataset
from flambeau.core.datasets.registered import stand_in
from flambeau.core.registry import DATASETS
from flambeau.core.testing.comparing import difference, require_equal
from flambeau.core.testing.miniature import miniature_facts, served
from flambeau.core.testing.results import BoundCheck, Catalogue, CheckFailed, Level, NotApplicable, Result, bind, run
from flambeau.core.testing.samples import Provision, provision
from flambeau.core.testing.schema import item_fault
from flambeau.core.testing.server import Request

_MOST_ITEMS = 16
_WORKER_TIMEOUT_S = 120


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


CHECKS: Catalogue[DatasetSubject] = Catalogue("dataset")


def check_dataset(name: str, *, samples: object | None = None, level: Level = "default") -> list[Result]:
    """Ask everything that datasets are asked.

    Args:
        name: canonical id or short name of a registered dataset.
        samples: a module or object with the hooks of a conformance module; by default the plugin's own.
        level: "full" starts workers by spawn too.

    Raises:
        UnknownNameError, AmbiguousNameError: from the registry.
    """
    return run(bind_dataset(name, samples=samples, level=level))


def bind_dataset(name: str, *, samples: object | None = None, level: Level = "default") -> list[BoundCheck]:
    """The checks of one dataset."""
    entry = DATASETS.entry(name)
    provided = provision(samples, entry.plugin)
    subject = DatasetSubject(entry.id, provided)
    return bind(CHECKS, subject, entry.id, level=level, expected_failures=provided.expected_failures)


@CHECKS.check("fixture")
def _fixture(subject: DatasetSubject) -> None:
    """Can be built over the plugin's miniature, which has at least two items."""
    try:
        dataset = subject.dataset
    except NotApplicable as reason:
        raise CheckFailed(str(reason)) from reason
    if len(_items(dataset)) < 2:
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
    for index, item in enumerate(_items(subject.dataset)):
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
        except Exception as error:
            raise CheckFailed(
                f"index {index} of {length} items raises {type(error).__name__}, expected IndexError."
            ) from error
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
        items = _items(subject.build(**options), most=2)
        if recorder.calls != len(items):
            raise CheckFailed(f"{name} was called {recorder.calls} times for {len(items)} items.")
        if not all(_holds_marked(item) for item in items):
            raise CheckFailed(f"the result of {name} is not in the item.")


@CHECKS.check("pickles")
def _pickles(subject: DatasetSubject) -> None:
    """A copy through pickle has equal items."""
    copy = pickle.loads(pickle.dumps(subject.dataset))
    require_equal(_items(copy), _items(subject.dataset), "after pickle", where="items")


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


@CHECKS.check("clear-error-when-absent")
def _clear_error(subject: DatasetSubject) -> None:
    """Over an empty root it raises FileNotFoundError or RuntimeError that names the root and the way out."""
    if not subject.rooted:
        raise NotApplicable("it reads no files below a root.")
    empty = subject.folder / "absent"
    try:
        subject.build(empty, subject.info, download=False)
    except (FileNotFoundError, RuntimeError) as error:
        message = str(error)
    except Exception as error:
        raise CheckFailed(
            f"raises {type(error).__name__}: {error}; expected FileNotFoundError or RuntimeError."
        ) from error
    else:
        raise CheckFailed(f"{empty} does not exist, and nothing was raised.")
    if str(empty) not in message:
        raise CheckFailed(f"the error does not say where it looked ({empty}): {message}")
    if "download" in subject.options and _fetchable(subject.info) and "download=True" not in message:
        raise CheckFailed(f"the error does not say that download=True helps: {message}")


@CHECKS.check("download-idempotent")
def _download_idempotent(subject: DatasetSubject) -> None:
    """Fetching gives the items, and fetching again asks the server for nothing."""
    with _downloaded(subject) as (root, facts, asked):
        before = len(asked)
        require_equal(_items(_obtain(subject, root, facts)), _items(subject.dataset), "fetched", where="items")
        if len(asked) != before:
            raise CheckFailed(f"fetching again asked the server for {_paths(asked[before:])}.")


@CHECKS.check("corrupted-file-detected")
def _corrupted(subject: DatasetSubject) -> None:
    """A damaged file is never read: it is refused, unpacked again, or fetched again where that is allowed."""
    with _downloaded(subject) as (root, facts, _):
        damaged = _damage(facts, root)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a file had to be replaced is what is being asked for
            try:
                read = _items(subject.build(root, facts, download=False))
            except (FileNotFoundError, RuntimeError):
                pass
            else:  # it may be unpacked again from an archive that is intact
                whole = _items(subject.dataset)
                require_equal(read, whole, f"{damaged} was damaged, and read all the same", where="items")
                damaged = _damage(facts, root)
            repaired = _obtain(subject, root, facts)
        require_equal(
            _items(repaired), _items(subject.dataset), f"{damaged} was damaged and fetched again", where="items"
        )


@CHECKS.check("offline-once-present")
def _offline(subject: DatasetSubject) -> None:
    """Once its files are in place it works without network, also when told to download."""
    with _downloaded(subject) as (root, facts, asked), _environment("FLAMBEAU_OFFLINE", "1"):
        before = len(asked)
        for download in (False, True):
            items = _items(subject.build(root, facts, download=download))
            require_equal(items, _items(subject.dataset), f"offline with download={download}", where="items")
        if len(asked) != before:
            raise CheckFailed(f"the server was asked for {_paths(asked[before:])} although the network is off.")


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
    rejoined = {index: dataset[index] for share in shares for index in share[: _MOST_ITEMS // 2]}
    for index, item in rejoined.items():
        require_equal(item, dataset[index], f"item {index} depends on what was read before", where="item")


@CHECKS.check("state-resumes")
def _state(subject: DatasetSubject) -> None:
    """A state taken after some items, put into a new dataset, goes on with the next one; it is plain JSON."""
    if not hasattr(subject.dataset, "state_dict"):
        raise NotApplicable("it keeps no state.")
    whole = _items(subject.build())
    taken = min(2, len(whole) - 1)
    first = subject.build()
    iterator = iter(first)
    for _ in range(taken):
        next(iterator)
    state = json.loads(json.dumps(first.state_dict()))
    second = subject.build()
    second.load_state_dict(state)
    require_equal(_items(second), whole[taken:], f"resumed after {taken} items", where="items")


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


def _items(dataset: Any, most: int = _MOST_ITEMS) -> list[Any]:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        return list(itertools.islice(iter(dataset), most))
    return [dataset[index] for index in range(min(len(dataset), most))]


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
        return list(itertools.islice(loader, 4 * _MOST_ITEMS))


def _workers_agree(dataset: Any, method: str) -> None:
    if isinstance(dataset, IterableDataset):
        raise NotApplicable("a stream's workers share its items; see shards-partition.")
    require_equal(_loaded(dataset, 2, method), _loaded(dataset, 0), f"two workers by {method}", where="items")


def _fetchable(info: DatasetInfo) -> bool:
    manual = info.gated is not None and info.gated.kind == "manual"
    return bool(info.files) and not manual and all(file.urls for file in info.files)


def _paths(requests: list[Request]) -> str:
    return ", ".join(request.path for request in requests)


@contextlib.contextmanager
def _downloaded(subject: DatasetSubject) -> Iterator[tuple[Path, DatasetInfo, list[Request]]]:
    """The miniature fetched from a loopback server into a new root, with the server still there."""
    if not _fetchable(subject.info):
        raise NotApplicable("it has no files to fetch.")
    if not subject.facts.files:
        raise CheckFailed("the fixture writes none of the files, or contents, that the facts name.")
    root = Path(tempfile.mkdtemp(prefix="downloaded-", dir=subject.folder))
    with served(subject.facts, subject.placed, subject.folder / "archives") as (facts, asked):
        _obtain(subject, root, facts)
        if not asked:
            raise CheckFailed("fetching asked nothing of the addresses in its facts; use `prepare_dataset`.")
        yield root, facts, asked


def _obtain(subject: DatasetSubject, root: Path, facts: DatasetInfo) -> Any:
    if "download" not in subject.options:
        with stand_in(facts):
            fetch_dataset(facts, root)
    return subject.build(root, facts, download=True)


def _damage(facts: DatasetInfo, root: Path) -> str:
    """Change a byte of a file whose digest is known; returns its path."""
    file = facts.files[0]
    known = [content for content in file.contents if content.sha256 or content.md5]
    victim = known[0].path if known else file.path
    if not known:  # with its contents in place nobody would look at the archive
        for content in file.contents:
            path = root / content.path
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    body = bytearray((root / victim).read_bytes())
    body[len(body) // 2] ^= 0xFF
    (root / victim).write_bytes(bytes(body))
    return victim


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
