"""What `flambeau.launch` raises, in one tree.

::

    FlambeauError
    └── LaunchError
        ├── SpecError (ValueError)              an application that cannot be described so
        │   ├── MountError (KeyError)
        │   └── ResourceError (KeyError)
        ├── ComponentValidationException        a component that breaks the rules for components
        ├── ComponentNotFoundException
        │   └── ComponentFileNotFound (FileNotFoundError)
        ├── ComponentArgumentError (ValueError) arguments that a component does not take
        ├── InvalidRunConfigException           an option of a scheduler that is missing, or of a wrong type
        ├── RunOptionError (ValueError)         options that cannot be read
        ├── MalformedAppHandleException
        ├── UnknownSchedulerException
        ├── UnknownAppException
        ├── AppStatusError                      an application that failed or was cancelled
        ├── WorkspaceError (ValueError)         a workspace that cannot be packed, or a path that leaves it
        ├── ConfigurationError (ValueError)     a configuration file that cannot be read
        ├── TrackerError (RuntimeError)
        └── SchedulerError (RuntimeError)       a scheduler that refuses, cannot be reached or gives no sense
            ├── MissingBackend (ImportError)    its client is not installed
            ├── LogsUnavailable                 logs that were cleaned away, or not written yet
            └── JobExists (ValueError)

Names that end with `Exception` are upstream's.
"""

from __future__ import annotations

from flambeau.core.errors import FlambeauError

__all__ = [
    "ComponentArgumentError",
    "ComponentFileNotFound",
    "ComponentNotFoundException",
    "ComponentValidationException",
    "ConfigurationError",
    "JobExists",
    "LaunchError",
    "LogsUnavailable",
    "MalformedAppHandleException",
    "MissingBackend",
    "MountError",
    "ResourceError",
    "RunOptionError",
    "SchedulerError",
    "SpecError",
    "TrackerError",
    "UnknownAppException",
    "UnknownSchedulerException",
    "WorkspaceError",
]


class LaunchError(FlambeauError):
    """Root of what this package raises on its own account."""


class SpecError(LaunchError, ValueError):
    """An application, role or resource that cannot be described so."""


class MountError(SpecError, KeyError):
    """Options of mounts that do not go together."""


class ResourceError(SpecError, KeyError):
    """No named resource has this name."""


class ComponentValidationException(LaunchError):
    """A component that breaks the rules for components."""


class ComponentNotFoundException(LaunchError):
    """No component has this name."""


class ComponentFileNotFound(ComponentNotFoundException, FileNotFoundError):
    """The file that a component should come from is not there."""


class ComponentArgumentError(LaunchError, ValueError):
    """A value that a component's argument does not take."""


class RunOptionError(LaunchError, ValueError):
    """Options of a scheduler that cannot be read."""


class MalformedAppHandleException(LaunchError):
    """Something that is no `scheduler://session/app_id`."""

    def __init__(self, app_handle: str) -> None:
        super().__init__(f"{app_handle!r} is not an app handle; expected <scheduler>://<session>/<app_id>.")


class UnknownSchedulerException(LaunchError):
    """No scheduler has this name."""

    def __init__(self, scheduler_backend: str, known: str = "") -> None:
        listed = f" There are: {known}." if known else " `Runner.scheduler_backends()` lists those there are."
        super().__init__(f"no scheduler {scheduler_backend!r}.{listed}")


class UnknownAppException(LaunchError):
    """A scheduler does not know an application, or does not know it any more."""

    def __init__(self, app_handle: str) -> None:
        super().__init__(
            f"{app_handle} is not known to its scheduler: it was never submitted there, or has finished and was "
            "forgotten. `flambeau launch list -s SCHEDULER` shows what there is."
        )


class WorkspaceError(LaunchError, ValueError):
    """A workspace that cannot be packed, or a path that would leave it."""


class ConfigurationError(LaunchError, ValueError):
    """A configuration file that cannot be read; the message names it."""


class TrackerError(LaunchError, RuntimeError):
    """A tracker that is not there, or cannot store something."""


class SchedulerError(LaunchError, RuntimeError):
    """A scheduler that refuses a request, cannot be reached, or answers what makes no sense."""


class MissingBackend(SchedulerError, ImportError):
    """The client library or program of a scheduler is not installed; the message says how to install it."""


class LogsUnavailable(SchedulerError):
    """Logs that were cleaned away, or are not there yet."""


class JobExists(SchedulerError, ValueError):
    """A job of this name is there already."""
