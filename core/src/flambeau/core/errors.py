"""Every exception and warning of the suite, in one tree.

::

    FlambeauError
    ├── RegistryError (LookupError)
    │   ├── UnknownNameError (KeyError, ValueError)
    │   │   └── UnknownMemberError (TypeError)
    │   ├── AmbiguousNameError (KeyError)
    │   └── DuplicateNameError (ValueError)
    ├── PluginError (RuntimeError)
    │   └── ManifestError (ValueError)
    ├── HubError (RuntimeError)
    │   ├── DownloadError (OSError)
    │   │   ├── HashMismatchError
    │   │   ├── OfflineError
    │   │   ├── GatedError
    │   │   └── DiskFullError
    │   ├── DatasetMissingError (FileNotFoundError)
    │   ├── UnsafeArchiveError (ValueError)
    │   ├── UnsafeCheckpointError (pickle.UnpicklingError)
    │   └── CheckpointError
    │       └── MissingCheckpointError (FileNotFoundError)
    ├── TensorTypeError (TypeError)
    │   └── MetadataError (ValueError)
    ├── ConfigError (ValueError)
    ├── PredictError (ValueError)
    │   └── MissingInputError (FileNotFoundError)
    └── CommandError (RuntimeError)

    PluginWarning (UserWarning)
    HubWarning (UserWarning)

Each class also derives from the built-in that code written for the upstream libraries catches. A message says
what was wrong, what was expected, and what to do.
"""

from __future__ import annotations

from _pickle import UnpicklingError  # the one that `pickle` shows, without the time that `pickle` takes
from collections.abc import Iterable


class FlambeauError(Exception):
    """Root of all errors that Flambeau raises on its own account."""

    def __str__(self) -> str:
        # KeyError would print the repr of its argument; a message is meant to be read.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class RegistryError(FlambeauError, LookupError):
    """A name could not be looked up in, or added to, a registry."""


class UnknownNameError(RegistryError, KeyError, ValueError):
    """No entry has this name; the message suggests the nearest ones."""


class UnknownMemberError(UnknownNameError, TypeError):
    """A weights enum has no member of this name; a TypeError as well, as for anything else that is no member of it."""


class AmbiguousNameError(RegistryError, KeyError):
    """A short name that several plugins offer; the message lists the candidates."""


class DuplicateNameError(RegistryError, ValueError):
    """A name that is already registered with another target."""


class PluginError(FlambeauError, RuntimeError):
    """A plugin is broken, incompatible or absent; raised where it is asked for, or at once in strict mode."""


class ManifestError(PluginError, ValueError):
    """A manifest file that cannot be read or does not fit the schema."""


class HubError(FlambeauError, RuntimeError):
    """Something about a file from outside: fetching, verifying or opening it."""


class DownloadError(HubError, OSError):
    """A file could not be fetched.

    Attributes:
        url: what was asked for.
        status: the HTTP status the server refused with, for example 403; None where there was no answer.
    """

    def __init__(self, message: str, *, url: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.url, self.status = url, status


class HashMismatchError(DownloadError):
    """The bytes that came are not the bytes that were announced; nothing of them was kept.

    Attributes:
        url: where they came from.
        expected: the announced SHA-256 or its first digits, None where only the size was announced.
        actual: the SHA-256 of what came, None where its size alone told.
        size: bytes that came.
    """

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        expected: str | None = None,
        actual: str | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(message, url=url)
        self.expected, self.actual, self.size = expected, actual, size


class OfflineError(DownloadError):
    """A file is not cached and the network is switched off."""


class GatedError(DownloadError):
    """A file that its owner gives out only after registration or by hand."""


class DiskFullError(DownloadError):
    """The file does not fit on the disk.

    Attributes:
        needed: bytes still to be written.
        free: bytes that the disk has left.
    """

    def __init__(
        self, message: str, *, url: str | None = None, needed: int | None = None, free: int | None = None
    ) -> None:
        super().__init__(message, url=url)
        self.needed, self.free = needed, free


class DatasetMissingError(HubError, FileNotFoundError):
    """A dataset's files are not where they were looked for; the message names the folder and both ways out."""


class UnsafeArchiveError(HubError, ValueError):
    """An archive that would write outside its folder, create links or devices, or grow without bound."""


class UnsafeCheckpointError(HubError, UnpicklingError):
    """A checkpoint that would run code, or build objects nobody allowed, when loaded."""


class CheckpointError(HubError):
    """A checkpoint that cannot be read, or whose tensors do not fit the module they are loaded into."""


class MissingCheckpointError(CheckpointError, FileNotFoundError):
    """A checkpoint that is at none of the places its name could mean."""


class TensorTypeError(FlambeauError, TypeError):
    """Typed tensors with wrong, missing or contradicting metadata."""


class ConfigError(FlambeauError, ValueError):
    """The user's configuration file is damaged; the message names it."""


class MetadataError(TensorTypeError, ValueError):
    """A value that a tensor type's declaration refuses: of a metadata field, a shape or a dtype."""


class PredictError(FlambeauError, ValueError):
    """A prediction that cannot be made: no model, predictor or device for it; the message says what there is."""


class MissingInputError(PredictError, FileNotFoundError):
    """The input of a prediction is not there."""


class CommandError(FlambeauError, RuntimeError):
    """A command of the `flambeau` program cannot go on; printed without a traceback."""


class PluginWarning(UserWarning):
    """A plugin was left out, and why."""


class HubWarning(UserWarning):
    """A cached or fetched file needed attention, for example a damaged copy that was replaced."""


def describe(error: BaseException) -> str:
    """An error in one line: the message alone for our own errors, which are sentences, else with its type."""
    text = " ".join(str(error).split())
    if isinstance(error, FlambeauError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def close_names(name: str, candidates: Iterable[str], *, most: int = 3) -> list[str]:
    """The candidates nearest to `name`, best first, ignoring case; for "did you mean" sentences."""
    import difflib  # only errors need it

    by_fold: dict[str, str] = {}
    for candidate in candidates:
        by_fold.setdefault(candidate.casefold(), candidate)
    return [by_fold[fold] for fold in difflib.get_close_matches(name.casefold(), by_fold, n=most, cutoff=0.5)]
