"""`hf://owner/name/file[@revision]`: files of the Hugging Face hub, through the optional `huggingface_hub`.

The files stay in that library's own cache and follow its variables. `hf://datasets/owner/name/file` names a dataset's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flambeau.core.errors import DownloadError, GatedError, HubError, OfflineError
from flambeau.core.hub.addresses import HUGGING_FACE, split_hugging_face

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True)
class Reference:
    """The parts of an `hf://` URL."""

    repository: str
    file: str
    revision: str | None
    kind: str = "model"


def is_hugging_face(url: str) -> bool:
    """Whether a URL names a file of the Hugging Face hub."""
    return url.startswith(HUGGING_FACE)


def parse(url: str) -> Reference:
    """Take an `hf://` URL apart.

    Raises:
        ValueError: a part is missing.
    """
    return Reference(*split_hugging_face(url))


def find(url: str) -> Path | None:
    """The file in that library's cache, or None."""
    try:
        import huggingface_hub
    except ImportError:
        return None
    wanted = parse(url)
    found = huggingface_hub.try_to_load_from_cache(
        wanted.repository, wanted.file, revision=wanted.revision, repo_type=wanted.kind
    )
    return Path(found) if isinstance(found, str) else None


def download(url: str, *, offline: bool, again: bool = False) -> Path:
    """Bring the file into that library's cache.

    Args:
        url: `hf://owner/name/file[@revision]`.
        offline: look into the cache alone.
        again: fetch it although it is there.

    Raises:
        HubError: `huggingface_hub` is not installed.
        GatedError: its owner gives it out only after registration.
        OfflineError: not cached, and the network is switched off.
        DownloadError: any other refusal or failure.
    """
    hub, wanted = _library(url), parse(url)
    errors = hub.errors
    try:
        path = hub.hf_hub_download(
            wanted.repository, wanted.file, revision=wanted.revision, repo_type=wanted.kind,
            local_files_only=offline, force_download=again and not offline,
        )  # fmt: skip
    except errors.GatedRepoError as error:
        page = f"https://huggingface.co/{wanted.repository}"
        raise GatedError(
            f"{url} is gated. Ask for access at {page}, then run: hf auth login", url=url, status=403
        ) from error
    except errors.LocalEntryNotFoundError as error:
        if not offline and os.environ.get("HF_HUB_OFFLINE", "") in ("", "0"):
            raise DownloadError(f"{url}: the hub cannot be reached. {error}", url=url) from error
        raise OfflineError(
            f"{url} is not cached and the network is switched off (FLAMBEAU_OFFLINE or HF_HUB_OFFLINE). "
            f"Where there is a network, run: hf download {wanted.repository} {wanted.file}",
            url=url,
        ) from error
    except (errors.HfHubHTTPError, errors.EntryNotFoundError, OSError) as error:
        raise DownloadError(f"{url}: {error}", url=url) from error
    return Path(path)


def _library(url: str) -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise HubError(
            f"{url} needs huggingface_hub, which is not installed. Run: pip install 'flambeau-core[hub]'"
        ) from error
    return huggingface_hub
