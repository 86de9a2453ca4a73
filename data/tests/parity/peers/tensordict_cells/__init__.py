"""Tables of the differential tests against tensordict: kinds of collections, and programs to run on them."""

from __future__ import annotations

import collections
import copy
import dataclasses
import multiprocessing
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pandas
import torch

from flambeau.core.testing.differential import Cell, Library, cross, read_table
from tensordict_cells import helpers
from tensordict_cells.kinds import KINDS, classes, kinds
from tensordict_cells.methods import FAMILIES, METHODS, STORAGE, TABLES

LENT: dict[str, Any] = {
    "torch": torch,
    "nn": torch.nn,
    "F": torch.nn.functional,
    "numpy": numpy,
    "pytree": torch.utils._pytree,
    "pickle": pickle,
    "collections": collections,
    "copy": copy,
    "pandas": pandas,
    "multiprocessing": multiprocessing,
    "D": torch.distributions,
    "dataclasses": dataclasses,
    **helpers.LENT,
}
"""Names that programs see besides the library's."""

# One of each way to hold leaves, for families of which one member is like another.
FEW = kinds("nested", "lazy", "lazy-ragged", "sub", "h5", "memmap", "locked", "params", "tensorclass", "non-tensor")


def read_again(library: Library, folder: Path) -> Any:
    """Whatever lies in the folder of a run, as a library reads it."""
    options = helpers.opened(library)
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir() or (path.suffix in ("", ".tdz") and zipfile.is_zipfile(path)):
            if path.is_file() or (path / "meta.json").is_file():
                found[path.name] = library.load_memmap(path, **options)
        elif path.suffix == ".h5":
            found[path.name] = library.PersistentTensorDict.from_h5(path).to_tensordict()
        elif path.suffix == ".csv":
            found[path.name] = library.from_csv(path)
        elif path.suffix in (".json", ".jsonl"):
            found[path.name] = library.from_json(path)
        elif path.suffix == ".parquet":
            found[path.name] = library.from_parquet(path)
        elif path.suffix == "":
            found[path.name] = library.TensorDict.from_consolidated(path)
    return found


def all_cells() -> Iterator[Cell]:
    """All cells, area by area."""
    for member, programs in FAMILIES.items():
        yield from cross(f"methods/{member}", FEW, programs, names=LENT)
    for member, programs in METHODS.items():
        yield from cross(f"methods/{member}", KINDS, programs, names=LENT)
    for area, programs in read_table(TABLES / "access.txt").items():
        yield from cross(area, KINDS, programs, names=LENT)
    for member, programs in STORAGE.items():
        yield from cross(f"storage/{member}", KINDS, programs, names=LENT, read=read_again)
    for table in ("functions", "transforms"):
        for area, programs in read_table(TABLES / f"{table}.txt").items():
            yield from cross(area, KINDS, programs, names=LENT)
    for area, programs in read_table(TABLES / "compile.txt").items():
        yield from cross(area, kinds("nested", "lazy", "locked", "tensorclass"), programs, names=LENT)
    inputs = {"call": {"classes": classes, **helpers.MODULE_INPUTS}}
    for table in ("construction", "modules", "classes"):
        for heading, programs in read_table(TABLES / f"{table}.txt").items():
            yield from cross(f"{table}/{heading}", inputs, programs, names=LENT)
