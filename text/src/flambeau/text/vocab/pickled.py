"""Vocabularies that upstream distributes as pickled modules, read without running anything they say."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

from flambeau.core.errors import CheckpointError, UnsafeCheckpointError
from flambeau.text._tokenizers import files
from flambeau.text.vocab.vocab import Vocab

__all__ = ["load_vocab"]

# Before torch 1.6 a file was several pickles in a row: a magic number, a version, the system, then the object.
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
# Far more than comes before the first name of a class.
_HEAD = 1 << 16
_DAMAGE = (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


def load_vocab(path: str | os.PathLike[str]) -> Vocab:
    """Read a vocabulary: what `torch.save` wrote of one, upstream's (`*.vocab.pt`) or ours.

    Neither torchtext nor trust is needed: nothing but the tokens and the default index is taken from the file, and one
    that names anything else is refused.

    Args:
        path: file or URL.

    Raises:
        FileNotFoundError: no such file.
        UnsafeCheckpointError: the file would call or build something that belongs to no vocabulary.
        CheckpointError: the file is damaged, or holds something else.
    """
    local = files.local(path)
    vocabulary = _content(local)
    if not isinstance(vocabulary, _Module):
        raise CheckpointError(f"{os.fspath(path)!r} holds no vocabulary, but {type(vocabulary).__name__}.")
    state = vocabulary.__dict__
    if "_itos" in state:
        tokens, default = state["_itos"], state.get("_default")
    else:
        tokens, default = _upstream(state.get("vocab"), local)
    try:
        made = Vocab(tokens)
        made.set_default_index(default)
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"{os.fspath(path)!r}: {error}") from error
    return made


def is_vocab_file(path: Path) -> bool:
    """Whether a file is a pickled vocabulary, as far as the names in it tell."""
    try:
        data = _head(path)
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, ValueError):
        return False  # what reads the file says what is wrong with it
    return b"Vocab" in data and (b"torchtext" in data or b"flambeau.text.vocab" in data)


def _head(path: Path) -> bytes:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            return archive.open(names[0]).read(_HEAD) if names else b""
    with path.open("rb") as file:
        return file.read(_HEAD)


def _upstream(inner: Any, path: Path) -> tuple[list[str], int | None]:
    """Tokens and default index of the compiled vocabulary inside: (version, integers, tokens, tensors)."""
    state = inner.state if isinstance(inner, _Compiled) else None
    if isinstance(state, tuple) and len(state) == 4 and isinstance(state[1], list) and isinstance(state[2], list):
        return state[2], state[1][0] if state[1] else None
    raise CheckpointError(f"{path} holds a vocabulary of an unknown kind; expected upstream's, or one of ours.")


class _Module:
    """Stands for the pickled module; its state is its `__dict__`."""

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise TypeError(f"the state of the vocabulary is {type(state).__name__}")
        self.__dict__.update(state)


class _Compiled:
    """Stands for the compiled vocabulary inside it."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


_KNOWN: dict[tuple[str, str], type] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
    ("torchtext.vocab.vocab", "Vocab"): _Module,
    ("torchtext._torchtext", "Vocab"): _Compiled,
    ("flambeau.text.vocab.vocab", "Vocab"): _Module,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in _KNOWN:
            raise UnsafeCheckpointError(
                f"the file names {module}.{name}, which no vocabulary needs. It was not loaded; if you trust its "
                "origin, load it with the library that wrote it and save get_itos()."
            )
        return _KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        # Files of torch before 1.6 name a module's class so, with its source; `find_class` has judged it.
        if isinstance(pid, tuple) and len(pid) > 1 and pid[0] == "module":
            return pid[1]
        raise CheckpointError(f"the file holds tensors ({pid!r:.60}); a vocabulary has none.")


def _content(path: Path) -> Any:
    # Read whole, so that places in a damaged archive that do not exist are no errors of the system.
    data = path.read_bytes()
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            return _Unpickler(io.BytesIO(_pickle_of(data, path))).load()
        file = io.BytesIO(data)
        value = _Unpickler(file).load()
        if value == _LEGACY_MAGIC:
            for _ in range(3):
                value = _Unpickler(file).load()
        return value
    except UnsafeCheckpointError as error:
        raise UnsafeCheckpointError(f"{path}: {error}") from error
    except CheckpointError:
        raise
    except (pickle.UnpicklingError, zipfile.BadZipFile, zlib.error, *_DAMAGE) as error:
        raise CheckpointError(f"{path} is no vocabulary, or is damaged ({error}).") from error


def _pickle_of(data: bytes, path: Path) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
        if len(names) != 1:
            raise CheckpointError(f"{path} is no file of torch.save: it has {len(names)} members named data.pkl.")
        return archive.read(names[0])
