"""Files from outside: fetched once, resumed, verified before they become visible, and unpacked without surprises.

`fetch` brings a file into the cache and returns its path; `extract_archive` unpacks one, `read_archive` reads single
files of one; `push` publishes a model. Fetching is safe between threads and processes and trusts no lock: every writer
has a file of its own, and only a finished, verified file is renamed to its final name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

# isort: off
if TYPE_CHECKING:
    from flambeau.core.errors import (
        DiskFullError as DiskFullError,
        DownloadError as DownloadError,
        GatedError as GatedError,
        HashMismatchError as HashMismatchError,
        HubError as HubError,
        HubWarning as HubWarning,
        OfflineError as OfflineError,
        UnsafeArchiveError as UnsafeArchiveError,
    )
    from flambeau.core.hub.archive_streams import read_archive as read_archive
    from flambeau.core.hub.archives import extract_archive as extract_archive
    from flambeau.core.hub.cache import (
        cache_dir as cache_dir,
        cached as cached,
        purge as purge,
        verify as verify,
    )
    from flambeau.core.hub.fetching import fetch as fetch
    from flambeau.core.weights.publishing import push as push
# isort: on

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "archive_streams": ("read_archive",),
        "archives": ("extract_archive",),
        "cache": ("cache_dir", "cached", "purge", "verify"),
        "fetching": ("fetch",),
        "flambeau.core.weights.publishing": ("push",),
        "flambeau.core.errors": (
            "DiskFullError", "DownloadError", "GatedError", "HashMismatchError", "HubError", "HubWarning",
            "OfflineError", "UnsafeArchiveError",
        ),
    },
)  # fmt: skip
