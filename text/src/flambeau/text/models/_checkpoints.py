"""Reading checkpoints for bundles: by URL with upstream's download options, by path, or a state that is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

__all__ = ["read_state"]

_OPTIONS = ("model_dir", "map_location", "progress", "check_hash", "file_name")


def read_state(checkpoint: Any, dl_kwargs: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The state that a bundle's `checkpoint` stands for.

    Args:
        checkpoint: a URL, a path, or a mapping of names to tensors.
        dl_kwargs: options of `torch.hub.load_state_dict_from_url`: model_dir, map_location, progress, check_hash,
            file_name.

    Raises:
        TypeError: `checkpoint` is something else, or an option is unknown.
    """
    if isinstance(checkpoint, Mapping) and all(isinstance(value, Tensor) for value in checkpoint.values()):
        return checkpoint
    if not isinstance(checkpoint, str):
        raise TypeError(
            f"checkpoint must be a URL, a path or a dict of names and tensors, but is a {type(checkpoint).__name__}."
        )
    options = dict(dl_kwargs or {})
    if unknown := sorted(options.keys() - set(_OPTIONS)):
        raise TypeError(f"dl_kwargs has {', '.join(unknown)}; expected only {', '.join(_OPTIONS)}.")
    from flambeau.core.weights import Weights
    from flambeau.core.weights.checkpoints import read_checkpoint
    from flambeau.core.weights.files import fetch_weights

    device = options.pop("map_location", None) or "cpu"
    if "://" in checkpoint:
        renamed = {"model_dir": "root", "file_name": "filename"}
        path = fetch_weights(
            Weights(checkpoint, dict, {}), **{renamed.get(name, name): value for name, value in options.items()}
        )
    else:
        path = Path(checkpoint)
        if not path.is_file():
            raise FileNotFoundError(f"no checkpoint at {checkpoint!r}; give a URL or the path of a file.")
    return read_checkpoint(path, device=device)
