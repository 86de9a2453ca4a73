"""What can go wrong with tensors on disk.

::

    FlambeauError
    └── StorageError (RuntimeError)
        ├── LayoutError (ValueError)
        │   ├── MissingLayoutError (FileNotFoundError)
        │   └── TruncatedFileError
        ├── StorageFullError (OSError)
        ├── ReadOnlyError
        └── UnsafePickleError (pickle.UnpicklingError)
"""

from __future__ import annotations

from _pickle import UnpicklingError

from flambeau.core.errors import FlambeauError


class StorageError(FlambeauError, RuntimeError):
    """Something about tensors that are kept in files or shared memory."""


class LayoutError(StorageError, ValueError):
    """Files that do not form a saved TensorDict."""


class MissingLayoutError(LayoutError, FileNotFoundError):
    """No complete TensorDict was saved at this place, or its writer did not finish."""


class TruncatedFileError(LayoutError):
    """A file holds fewer bytes than its shape and dtype need."""


class StorageFullError(StorageError, OSError):
    """The disk, the quota or the file size limit does not leave enough room.

    Attributes:
        errno: as the system reported it.
    """

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class ReadOnlyError(StorageError):
    """An in-place write to a tensor that maps a file for reading only."""


class UnsafePickleError(StorageError, UnpicklingError):
    """A pickled value that would import or run something nobody allowed."""
