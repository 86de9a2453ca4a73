"""Reading folders that `transformers` saves: `config.json` and weights in one file or several."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from flambeau.core.errors import CheckpointError, MissingCheckpointError

__all__ = ["read_config", "read_weights"]

# In the order of preference: safetensors need no unpickling.
_FILES = ("model.safetensors", "pytorch_model.bin")


def read_config(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What `config.json` says.

    Raises:
        MissingCheckpointError: the folder or the file does not exist; a FileNotFoundError too.
        CheckpointError: it is not a JSON object.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise MissingCheckpointError(f"no {path}; expected a folder that `save_pretrained` of transformers wrote.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}.") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} holds a {type(config).__name__}, expected an object.")
    return config


def need(config: Mapping[str, Any], key: str, folder: str | os.PathLike[str]) -> Any:
    """A value that `config.json` must have.

    Raises:
        CheckpointError: it has none.
    """
    if key not in config:
        raise CheckpointError(f"{Path(folder) / 'config.json'} has no {key!r}; is it the configuration of this model?")
    return config[key]


def read_weights(folder: str | os.PathLike[str]) -> dict[str, Tensor]:
    """All tensors of a folder by their names, memory-mapped.

    Read are `model.safetensors`, else `pytorch_model.bin`, whole or in the shards that an index lists.

    Raises:
        MissingCheckpointError: there is none of them.
        CheckpointError: a file is damaged.
        UnsafeCheckpointError: a file wants code to be run.
    """
    from flambeau.core.weights.checkpoints import read_checkpoint

    state: dict[str, Tensor] = {}
    for path in _files(Path(folder)):
        state.update(read_checkpoint(path))
    return state


def _files(folder: Path) -> list[Path]:
    for name in _FILES:
        if (folder / name).is_file():
            return [folder / name]
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _shards(index)
    raise MissingCheckpointError(
        f"no weights in {folder}; expected {' or '.join(_FILES)}, or an index of shards. Formats of other frameworks "
        "are not read: save it with transformers and torch first."
    )


def _shards(index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{index} is no index of shards ({error!r}).") from error
    paths = [index.parent / name for name in names]
    # An index comes from outside: it must not lead out of its folder.
    if outside := [name for name in names if Path(name).name != name]:
        raise CheckpointError(f"{index} lists {outside[0]!r}, expected names of files beside it.")
    if missing := [path.name for path in paths if not path.is_file()]:
        raise MissingCheckpointError(f"{index.parent} lacks {', '.join(missing)}, which its index lists.")
    return paths
