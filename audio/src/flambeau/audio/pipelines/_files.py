"""Where the bundles' files are: below torch's hub folder, under upstream's names, so that they are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["BASE_URL", "asset", "checkpoint"]

BASE_URL = "https://download.pytorch.org/torchaudio/"


def checkpoint(path: str, dl_kwargs: dict[str, Any] | None) -> tuple[Path, dict[str, Any]]:
    """Fetch a file of weights.

    Args:
        path: its name below upstream's folder of models, or a whole URL.
        dl_kwargs: arguments as of `torch.hub.load_state_dict_from_url`: `model_dir`, `file_name`, `progress`,
            `map_location`, `check_hash`, `weights_only`. No digests are published, so nothing is checked against one;
            unpickling is always restricted.

    Returns:
        The file, and the options for `build_with_weights` that follow from `dl_kwargs`.

    Raises:
        TypeError: an argument that is not known.
        DownloadError: the file could not be fetched.
    """
    from torch.hub import get_dir

    from flambeau.core.hub import fetch

    options = dict(dl_kwargs or {})
    folder = options.pop("model_dir", None) or Path(get_dir(), "checkpoints")
    name = options.pop("file_name", None)
    progress = options.pop("progress", True)
    device = options.pop("map_location", None)
    for ignored in ("check_hash", "weights_only"):
        options.pop(ignored, None)
    if options:
        raise TypeError(f"dl_kwargs holds {', '.join(sorted(options))}, which torch.hub does not know.")
    url = path if "://" in path else f"{BASE_URL}models/{path}"
    target = Path(folder, name or url.rpartition("/")[2])
    if not target.is_file():
        target = fetch(url, root=folder, filename=target.name, progress=progress)
    return target, {} if device is None else {"device": device}


def asset(path: str) -> str:
    """A file beside the weights, fetched if need be.

    Args:
        path: its name below upstream's server, a whole URL there, or a file of this machine.
    """
    if Path(path).is_file():
        return path
    from flambeau.audio.utils.download import download_asset

    return download_asset(path.removeprefix(BASE_URL))
