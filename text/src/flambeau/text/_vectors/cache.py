"""The copy of a file of vectors that is mapped into memory instead of read."""

from __future__ import annotations

import contextlib
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.errors import CheckpointError, HubWarning
from flambeau.core.files import replace

_KIND = "flambeau.text.vectors 1"
# What torch's reader and taking its result apart raise over something else.
_DAMAGE = (RuntimeError, TypeError, ValueError, AttributeError, EOFError, LookupError)


def load(path: Path, source: Path | None) -> tuple[bytes, Tensor] | None:
    """Words (each followed by a newline) and vectors of a copy; None if there is none, or not of this source.

    Args:
        path: of the copy.
        source: the text it was made from; None where that is gone, or irrelevant.
    """
    from safetensors import SafetensorError, safe_open

    from flambeau.core.weights.checkpoints import read_checkpoint

    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            known = file.metadata() or {}
        if known.get("kind") != _KIND or (source is not None and known.get("source") != _state(source)):
            return None
        content = read_checkpoint(path, format="safetensors")
        return content["words"].numpy().tobytes(), content["vectors"]
    except (SafetensorError, CheckpointError, KeyError) as error:
        warnings.warn(f"{path} is damaged and will be made again ({error}).", HubWarning, stacklevel=2)
        return None


def save(path: Path, words: bytes, vectors: Tensor, source: Path | None) -> None:
    """Write a copy, whole or not at all. Where that is impossible a warning says so, and the next load reads again."""
    from safetensors.torch import save_file

    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    metadata = {"kind": _KIND, "source": _state(source) if source is not None else ""}
    tensors = {"vectors": vectors, "words": torch.frombuffer(bytearray(words), dtype=torch.uint8)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, temporary, metadata)
        replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        warnings.warn(
            f"The vectors could not be kept as {path} ({error}); they will be read from text every time.",
            HubWarning,
            stacklevel=2,
        )


def load_upstream(path: Path) -> tuple[bytes, Tensor] | None:
    """Words and vectors of a copy that upstream made, with torch.save; None if there is none.

    Raises:
        CheckpointError: the file holds something else, or would run code.
    """
    if not path.is_file():
        return None
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
        words, _, vectors, dim = content
        return "".join(f"{word}\n" for word in words).encode(), vectors.view(-1, dim)[: len(words)].contiguous()
    except (OSError, pickle.UnpicklingError, *_DAMAGE) as error:
        raise CheckpointError(f"{path} is no copy of word vectors ({error}); remove it.") from error


def _state(source: Path) -> str:
    stat = source.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"
