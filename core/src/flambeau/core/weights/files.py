"""The file of some weights: its digest, and bringing it here. The hub is imported when a file is first wanted."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from flambeau.core.weights.facts import Weights

logger = logging.getLogger(__name__)

# `resnet50-0676ba61.pth`: upstream puts the first digits of the SHA-256 into the file's name.
_NAMED_HASH = re.compile(r"-([0-9a-f]{8,64})\.")
_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_NON_COMMERCIAL = re.compile(r"\bnc\b|non-?commercial", re.IGNORECASE)


def named_hash(file: str) -> str | None:
    """The digits of the SHA-256 in a file's name, None where it carries none.

    A date such as `-20240131.` has the same form; it is no hash.

    Example:
        >>> named_hash("resnet50-0676ba61.pth"), named_hash("tagger-20240131.pt")
        ('0676ba61', None)
    """
    match = _NAMED_HASH.search(file)
    return match[1] if match and not _DATE.fullmatch(match[1]) else None


def expected_sha256(weights: Weights) -> str | None:
    """The digest a file must have, or its first digits: as stated, else from the file's name."""
    return weights.sha256 or named_hash(weights.url.rpartition("/")[2])


def fetch_weights(
    weights: Weights,
    *,
    progress: bool = True,
    check_hash: bool = True,
    root: str | os.PathLike[str] | None = None,
    filename: str | None = None,
) -> Path:
    """The file of some weights, downloaded and verified if need be.

    Raises:
        DownloadError: it could not be fetched, or not verified.
    """
    from flambeau.core.hub.fetching import fetch

    digest = expected_sha256(weights) if check_hash else None
    folder = Path(root) if root is not None else None
    _announce_license(weights, digest, filename, folder)
    return fetch(
        weights.url,
        sha256=digest,
        size=weights.size,
        filename=filename,
        root=folder,
        mirrors=weights.mirrors,
        progress=progress,
    )


def _announce_license(weights: Weights, digest: str | None, filename: str | None, folder: Path | None) -> None:
    """Say once, when the file is first fetched, that its use is restricted."""
    from flambeau.core.hub.cache import cached

    license = str(weights.meta.get("license") or "")
    if _NON_COMMERCIAL.search(license.replace("_", "-")) is None:
        return
    if cached(weights.url, sha256=digest, filename=filename, root=folder) is None:
        logger.info("%s is licensed %s: no commercial use.", weights.url.rpartition("/")[2], license)
