"""Checkpoints that policies are rendered from."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.files import write_atomic
from flambeau.rl.checkpoint import Checkpoint

__all__ = ["checkpoint_hash", "infer_state_dict", "load_checkpoint", "save_render_checkpoint"]

_STATE = "model_state_dict"
_KNOWN = (_STATE, "policy", "state_dict")


class _State:
    """A component of a checkpoint that is nothing but its state."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self.state = dict(state or {})

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.state = dict(state)


def save_render_checkpoint(
    path: str | Path | None, model: Any, *, env_metadata: Mapping[str, Any] | None = None, frames: int | None = None,
    metrics: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None, format: Any = None,
) -> Path | None:  # fmt: skip
    """Write parameters, and what environments and policies are made of again.

    Args:
        path: the file; with None or "" nothing is written.
        model: a module, or its state_dict; is written at "model_state_dict".
        env_metadata: entries beside it, such as "env_name".
        frames: number of steps so far.
        metrics: numbers of this moment.
        config: of the training.
        extra: further entries.
        format: "directory" or "archive", see `Checkpoint`; default: a file of `torch.save`.

    Returns:
        The file.
    """
    if path in (None, ""):
        return None
    state = model.state_dict() if hasattr(model, "state_dict") else dict(model)
    payload: dict[str, Any] = {_STATE: state, **(env_metadata or {})}
    known = {"frames": frames, "metrics": metrics, "config": config}
    payload |= {name: value for name, value in known.items() if value is not None}
    payload |= dict(extra or {})
    target = Path(path)
    if format is None:
        buffer = io.BytesIO()
        torch.save(payload, buffer)
        write_atomic(target, buffer.getvalue())
        return target
    Checkpoint(payload=_State(payload)).save(target, format=format)
    return target


def load_checkpoint(path: str | Path, map_location: Any = "cpu", *, weights_only: bool | None = None) -> Any:
    """Read a checkpoint.

    Args:
        path: a file of `torch.save`, or what `Checkpoint` wrote.
        map_location: where tensors go.
        weights_only: read tensors and plain containers alone; default: True. With False a file runs whatever code it
            was made to run.

    Raises:
        FileNotFoundError: there is none.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no checkpoint at {source}.")
    if Checkpoint.is_checkpoint(source):
        component = _State()
        Checkpoint(payload=component).load(source)
        return _moved(component.state, map_location)
    return torch.load(source, map_location=map_location, weights_only=weights_only is not False)


def _moved(value: Any, place: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(place)
    if isinstance(value, Mapping):
        return type(value)((key, _moved(one, place)) for key, one in value.items())  # type: ignore[call-arg]
    return value


def checkpoint_hash(path: str | Path) -> str:
    """SHA-256 of a checkpoint, as hexadecimal digits; of a folder, of all its files in the order of their names.

    Args:
        path: the file or folder.
    """
    source = Path(path)
    digest = hashlib.sha256()
    folder = source.is_dir()
    for file in sorted(one for one in source.rglob("*") if one.is_file()) if folder else [source]:
        if folder:
            digest.update(str(file.relative_to(source)).encode())
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def infer_state_dict(payload: Any, key: str | None = None) -> Mapping[str, Tensor]:
    """The parameters in a checkpoint: at "model_state_dict", "policy" or "state_dict", or all of it.

    Args:
        payload: the checkpoint.
        key: where they are.

    Raises:
        KeyError: there is nothing at `key`.
        TypeError: there are none.
    """
    if key is not None:
        if not isinstance(payload, Mapping) or key not in payload:
            raise KeyError(f"The checkpoint has no {key!r}.")
        payload = {_STATE: payload[key]}
    if isinstance(payload, Mapping):
        for name in _KNOWN:
            found = payload.get(name)
            found = found.state_dict() if isinstance(found, torch.nn.Module) else found
            if _is_state(found):
                return found  # type: ignore[return-value]
        if _is_state(payload):
            return payload
    raise TypeError(
        f"The checkpoint has no parameters at {', '.join(map(repr, _KNOWN))}, and is none itself; state_dict_key says "
        "where they are."
    )


def _is_state(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(one, Tensor) for one in value.values())
