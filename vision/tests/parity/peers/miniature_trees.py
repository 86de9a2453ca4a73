"""One miniature tree of files per dataset, laid out as torchvision leaves it, which both libraries read."""

from __future__ import annotations

import atexit
import bz2
import contextlib
import dataclasses
import functools
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from flambeau.core.datasets import DatasetInfo
from flambeau.core.datasets.registered import stand_in
from flambeau.core.testing.dataset_subject import DatasetSubject
from flambeau.core.testing.differential import Library
from flambeau.core.testing.miniature import miniature_facts
from flambeau.core.testing.samples import provision
from flambeau.vision import datasets

MARK = "differential-tree-"


def _archive(*paths: str) -> Callable[[Path], None]:
    """torchvision looks for archives that were unpacked, although it reads none of them."""

    def place(root: Path) -> None:
        for path in paths:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()

    return place


def _caltech256(root: Path) -> None:
    folder = root / "caltech256" / "256_ObjectCategories"
    for number, name in enumerate(sorted(path.name for path in folder.iterdir()), 1):
        for index, path in enumerate(sorted((folder / name).glob("*.jpg")), 1):
            path.rename(path.with_name(f"{number:03d}_{index:04d}.jpg"))


def _usps(root: Path) -> None:
    rows = [[10, *np.linspace(-1, 1, 256).round(4)], [1, *np.linspace(1, -1, 256).round(4)]]
    text = "".join(f"{row[0]} {' '.join(f'{at}:{value}' for at, value in enumerate(row[1:], 1))}\n" for row in rows)
    for name in ("usps.bz2", "usps.t.bz2"):
        (root / name).write_bytes(bz2.compress(text.encode()))


def _emnist(root: Path) -> None:
    raw = root / "EMNIST" / "raw"
    for path in (raw / "gzip").glob("*.gz"):
        (raw / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    shutil.rmtree(raw / "gzip")


def _up(folder: str, inner: str) -> Callable[[Path], None]:
    def move(root: Path) -> None:
        for path in (root / folder / inner).iterdir():
            path.rename(root / folder / path.name)
        (root / folder / inner).rmdir()

    return move


def _places(root: Path) -> None:
    for variant in ("standard", "challenge"):
        _up(f"data_256_{variant}", "data_256")(root)
    _archive("train_256_places365standard.tar", "train_256_places365challenge.tar", "val_256.tar", "test_256.tar",
             "val_large.tar", "test_large.tar")(root)  # fmt: skip


def _sbd(root: Path) -> None:
    _up("benchmark_RELEASE", "dataset")(root)
    for path in (root / "benchmark_RELEASE").iterdir():
        path.rename(root / path.name)


def _middlebury(root: Path) -> None:
    (root / "Middlebury2014" / "MiddEval3" / "testF").rename(root / "Middlebury2014" / "test")


def _phototour(root: Path) -> None:
    with (root / "liberty" / "info.txt").open("a") as file:
        file.write("9 0\n")  # as many as there are patches


_ARRANGE: dict[str, Callable[[Path], None]] = {
    "Caltech256": _caltech256,
    "CelebA": _archive("celeba/img_align_celeba.zip"),
    "EMNIST": _emnist,
    "INaturalist": _up("2021_train", "train"),
    "LFWPairs": _archive("lfw-py/lfw-funneled.tgz"),
    "LFWPeople": _archive("lfw-py/lfw-funneled.tgz"),
    "Middlebury2014Stereo": _middlebury,
    "Omniglot": _archive("omniglot-py/images_background.zip", "omniglot-py/images_evaluation.zip"),
    "PhotoTour": _phototour,
    "Places365": _places,
    "SBDataset": _sbd,
    "USPS": _usps,
}


@functools.cache
def subject(name: str) -> DatasetSubject:
    """The dataset of this class, with its miniature."""
    getattr(datasets, name)  # registers it
    return DatasetSubject(f"vision/{name.lower()}", provision(None, "vision"))


@functools.cache
def facts(name: str) -> DatasetInfo:
    """The facts of the miniature as it is laid out here; of what it does not hold, those that are published."""
    root = _root(name, ours=True)
    with tempfile.TemporaryDirectory() as archives:
        found = miniature_facts(subject(name).info, root, Path(archives))
    written = {file.path: file for file in found.files}
    if name == "Middlebury2014Stereo":  # its facts list every scene, of which the miniature has two
        return found
    return dataclasses.replace(found, files=tuple(written.get(file.path, file) for file in subject(name).info.files))


@functools.cache
def _root(name: str, *, ours: bool) -> Path:
    of = subject(name)
    _ = of.config
    root = Path(tempfile.mkdtemp(prefix=MARK))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    shutil.copytree(of.placed, root, dirs_exist_ok=True)
    _ARRANGE.get(name, lambda root: None)(root)
    return root


@functools.cache
def arguments(name: str, *, ours: bool) -> dict[str, Any]:
    """What the dataset is built with over its miniature; each library has a copy, since both leave files in it."""
    root = _root(name, ours=ours)
    return {key: subject(name)._moved(value, root) for key, value in subject(name).config.items()}


@contextlib.contextmanager
def believed(library: Library, name: str) -> Iterator[None]:
    """Within it, the library takes the miniature's files for the published ones, whose digests they do not have."""
    if library.ours:
        with stand_in(facts(name)):
            yield
        return
    _believe_everything()
    before = Path.cwd()
    os.chdir(empty_folder("cwd"))  # torchvision leaves some indices in the current folder
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def listed(order: Callable[[list[str]], list[str]]) -> Iterator[None]:
    """Within it, folders are listed in some order: torchvision takes that of the file system."""
    plain_list, plain_scan = os.listdir, os.scandir
    with (
        mock.patch("os.listdir", lambda path=".": order(plain_list(path))),
        mock.patch("os.scandir", lambda path=".": _Scanned(path, plain_scan, order)),
    ):
        yield


class _Scanned:
    """What `os.scandir` gives, in some order of names."""

    def __init__(self, path: Any, scan: Callable[[Any], Any], order: Callable[[list[str]], list[str]]) -> None:
        with scan(path) as entries:
            by_name = {entry.name: entry for entry in entries}
        self._entries = iter([by_name[name] for name in order(list(by_name))])

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Scanned:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        """Nothing is open."""


@functools.cache
def _believe_everything() -> None:
    import torchvision.datasets  # noqa: F401  # all its modules

    def is_there(fpath: Any, md5: str | None = None) -> bool:
        return Path(fpath).is_file()

    for module_name, module in list(sys.modules.items()):
        # The function itself is compared with ours, and stays as it is where it is at home.
        if module_name.startswith("torchvision.datasets.") and module_name != "torchvision.datasets.utils":
            vars(module).update({name: is_there for name in vars(module) if name == "check_integrity"})


@functools.cache
def empty_folder(name: str = "empty") -> Path:
    """A folder with nothing in it."""
    folder = Path(tempfile.mkdtemp(prefix=f"differential-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
