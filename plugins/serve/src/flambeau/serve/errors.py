"""What `flambeau.serve` raises, in one tree, with the HTTP status that each becomes.

::

    FlambeauError
    └── ServeError
        ├── RequestError                  the request cannot be answered as it is; `status` and `name` go to the client
        │   ├── BadRequest                400
        │   ├── VersionRefused            403
        │   ├── NotFound                  404, `name` tells of what
        │   ├── MethodRefused             405
        │   ├── Conflict                  409
        │   ├── TooLarge                  413
        │   ├── Unavailable               503, with the seconds after which to try again
        │   ├── HandlerFailed             503, as TorchServe answers
        │   ├── ClientGone                499, which nobody sees
        │   ├── WorkerDied                500, or 507 after signal 9
        │   └── DeadlineExceeded          504
        ├── StartError (RuntimeError)     the server, or a model's workers, could not be started
        ├── ArchiveError (ValueError)     an archive that cannot be read, or is not safe to
        └── FrameError (ValueError)       what came over a worker's socket is no frame
"""

from __future__ import annotations

from flambeau.core.errors import FlambeauError

__all__ = [
    "ArchiveError",
    "BadRequest",
    "ClientGone",
    "Conflict",
    "DeadlineExceeded",
    "FrameError",
    "HandlerFailed",
    "MethodRefused",
    "NotFound",
    "RequestError",
    "ServeError",
    "StartError",
    "TooLarge",
    "Unavailable",
    "VersionRefused",
    "WorkerDied",
]


class ServeError(FlambeauError):
    """Root of what the server raises on its own account."""


class RequestError(ServeError):
    """A request that is answered by an error.

    Attributes:
        status: of HTTP.
        name: the `type` of the error's JSON, in TorchServe's words.
    """

    status = 500
    name = "InternalServerException"

    def __init__(self, message: str, *, status: int | None = None, name: str | None = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status
        if name is not None:
            self.name = name


class BadRequest(RequestError):
    """Parameters or a body that make no sense."""

    status, name = 400, "BadRequestException"


class VersionRefused(RequestError):
    """A default version cannot be removed while others exist."""

    status, name = 403, "InvalidModelVersionException"


class NotFound(RequestError):
    """There is no such model, version, workflow or path."""

    status, name = 404, "ModelNotFoundException"


class MethodRefused(RequestError):
    """The path exists, and does not take this method."""

    status, name = 405, "MethodNotAllowedException"


class Conflict(RequestError):
    """The version is registered already."""

    status, name = 409, "ConflictStatusException"


class TooLarge(RequestError):
    """A body, or an answer, above the limit."""

    status, name = 413, "RequestEntityTooLargeException"


class Unavailable(RequestError):
    """No worker can take the request now.

    Attributes:
        retry_after_s: when it makes sense to try again.
    """

    status, name = 503, "ServiceUnavailableException"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class HandlerFailed(RequestError):
    """The model's code raised, or returned something that cannot be sent."""

    status, name = 503, "InternalServerException"


class WorkerDied(RequestError):
    """The worker ended while it had the request, and again when the request was given to another one."""

    status, name = 500, "InternalServerException"


class DeadlineExceeded(RequestError):
    """The request's time was over before its answer was there."""

    status, name = 504, "DeadlineExceededException"


class ClientGone(RequestError):
    """The client closed its connection before it had its answer."""

    status, name = 499, "ClientClosedRequest"


class StartError(ServeError, RuntimeError):
    """The server, or a model's workers, could not be started."""


class ArchiveError(ServeError, ValueError):
    """An archive that cannot be read, or is not safe to."""


class FrameError(ServeError, ValueError):
    """What came over a worker's socket is no frame."""
