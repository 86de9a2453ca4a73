"""Run a cell on one library, and keep all that can be seen of it afterwards."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from flambeau.core.testing.differential.cells import Cell, Library
from flambeau.core.testing.differential.records import Describer, Record, Recorder


@dataclass(frozen=True)
class Failure:
    """An error: the names of its classes, from its own to `BaseException`, and its words for a person to read."""

    classes: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        words = " ".join(self.message.split())
        shown = words if len(words) <= 160 else f"{words[:157]}..."
        return f"{self.classes[0]}: {shown}" if shown else self.classes[0]


@dataclass(frozen=True)
class Outcome:
    """What came of one cell on one library.

    Args:
        failure: the error of the call, None where it returned.
        result: record of what it returned.
        inputs: records of the inputs after the call, by name.
        printed: what it wrote to the standard streams.
        files: what lies below the run's folder: path -> content, see `Files`.
        warnings: category and text; for a person, never compared.
    """

    failure: Failure | None = None
    result: Record = None
    inputs: Record = field(default_factory=dict)
    printed: str = ""
    files: Mapping[str, Record] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


Files = Mapping[str, Callable[[Path], Record]]
"""How the content of a file is compared, by the ending of its name: a function path -> record.

JSON is compared parsed, all else byte by byte; "" takes the place of the latter."""


def execute(
    cell: Cell,
    library: Library,
    *,
    roots: Sequence[str],
    describers: Sequence[Describer] = (),
    files: Files | None = None,
    seed: int = 0,
) -> Outcome:
    """Run a cell on a library from a seed.

    Args:
        cell: what to run.
        library: a fresh one; whoever made it closes it.
        roots: see `Recorder`.
        describers: see `Recorder`.
        files: how files are compared, see `Files`.
        seed: of Python's, NumPy's and torch's generators.
    """
    recorder = Recorder(roots, describers, lambda: library.used_folder)
    printed = io.StringIO()
    failure: Failure | None = None
    result: Record = None
    inputs: Record = {}
    with _observed() as warned, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            seed_generators(seed)
            given = cell.given(library)
            recorder.describe(given, "inputs")
            seed_generators(seed)
            returned = cell.call(library, given)
        except Exception as error:
            failure = failed(error, recorder)
        else:
            result = _readable(lambda: recorder.describe(returned), recorder)
            # An error may leave things half done; what of it is left is an accident on either side.
            if cell.effects:
                inputs = _readable(lambda: recorder.describe(given, "inputs"), recorder)
    folder = library.used_folder
    return Outcome(
        failure=failure,
        result=result,
        inputs=inputs,
        printed=recorder.text(printed.getvalue()) if cell.printed and failure is None else "",
        files={} if folder is None or failure is not None else _files(folder, files or {}, recorder),
        warnings=tuple(f"{one.category.__name__}: {one.message}" for one in warned),
    )


def read_back(
    cell: Cell, library: Library, folder: Path, *, roots: Sequence[str], describers: Sequence[Describer] = ()
) -> Outcome:
    """What a library reads from the folder that a run of the cell left, whichever library that was of."""
    if cell.read is None:
        raise ValueError(f"The cell {cell.id!r} has no `read`.")
    recorder = Recorder(roots, describers, lambda: folder)
    with _observed() as warned:
        try:
            outcome = Outcome(result=recorder.describe(cell.read(library, folder)))
        except Exception as error:
            outcome = Outcome(failure=failed(error, recorder))
    return Outcome(outcome.failure, outcome.result, warnings=tuple(str(one.message) for one in warned))


def seed_generators(seed: int) -> None:
    """Seed every generator that a library may draw from."""
    import numpy

    random.seed(seed)
    numpy.random.seed(seed)
    # `torch.manual_seed` walks through all kinds of devices, which takes longer than most cells.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def failed(error: BaseException, recorder: Recorder) -> Failure:
    """An error as a plain record."""
    classes = tuple(recorder.class_name(kind) for kind in type(error).__mro__ if kind is not object)
    return Failure(classes, recorder.text(str(error)))


@contextlib.contextmanager
def _observed() -> Iterator[list[warnings.WarningMessage]]:
    """Keep warnings; afterwards, environment variables are as they were, which both libraries may read."""
    environment = dict(os.environ)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield warned
        finally:
            if dict(os.environ) != environment:
                os.environ.clear()
                os.environ.update(environment)


def _readable(describe: Callable[[], Record], recorder: Recorder) -> Record:
    """A record, or of what class the error is that reading the value raises: a result can be broken itself."""
    try:
        return describe()
    except Exception as error:
        return {"unreadable": failed(error, recorder).classes[0]}


def _files(folder: Path, chosen: Files, recorder: Recorder) -> dict[str, Record]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): _content(path, chosen, recorder) for path in found}


def _content(path: Path, chosen: Files, recorder: Recorder) -> Record:
    for ending, content in chosen.items():
        if ending and path.name.endswith(ending):
            return content(path)
    if path.suffix == ".json":
        return recorder.describe(sorted_items(json.loads(path.read_text(encoding="utf-8"))))
    return chosen.get("", digest)(path)


def sorted_items(parsed: Any) -> Any:
    """Parsed JSON with the entries of every object sorted, since their order means nothing."""
    if isinstance(parsed, dict):
        return {key: sorted_items(parsed[key]) for key in sorted(parsed)}
    return [sorted_items(item) for item in parsed] if isinstance(parsed, list) else parsed


def digest(path: Path) -> Record:
    """A file's size and the digest of its bytes."""
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
