"""What can go wrong with an object store.

::

    DownloadError (of flambeau.core.errors)
    └── StorageError
        ├── ObjectMissingError (FileNotFoundError)
        ├── StorageAccessError (PermissionError)
        └── StorageTimeoutError (TimeoutError)
"""

from __future__ import annotations

from flambeau.core.errors import DownloadError


class StorageError(DownloadError):
    """An object store refused, failed, or was asked for something it cannot do."""


class ObjectMissingError(StorageError, FileNotFoundError):
    """There is no object, or no bucket, of this name."""


class StorageAccessError(StorageError, PermissionError):
    """The credentials that were found do not open this object, or none were found."""


class StorageTimeoutError(StorageError, TimeoutError):
    """The store did not answer within the time allowed, repeated attempts included."""
