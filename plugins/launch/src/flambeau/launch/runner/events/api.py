"""What is told of a call of the runner."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum

__all__ = ["SourceType", "TorchxEvent"]


class SourceType(str, Enum):  # noqa: UP042  (upstream: `str()` of a member is not its value)
    """Who made a call."""

    UNKNOWN = "<unknown>"
    INTERNAL = "INTERNAL"
    EXTERNAL = "EXTERNAL"


@dataclass
class TorchxEvent:
    """One call of the runner.

    Attributes:
        session: name of the session.
        scheduler: name of the scheduler.
        api: which call.
        app_id: of the application, once it has one.
        app_image: images of its roles.
        runcfg: options of the scheduler, as JSON.
        raw_exception: traceback of what it raised.
        source: who called.
        cpu_time_usec: microseconds of this process's time that it took.
        wall_time_usec: microseconds that it took.
        start_epoch_time_usec: when it began, in microseconds since the epoch.
        workspace: the workspace that was packed.
    """

    session: str
    scheduler: str
    api: str
    app_id: str | None = None
    app_image: str | None = None
    runcfg: str | None = None
    raw_exception: str | None = None
    source: SourceType = SourceType.UNKNOWN
    cpu_time_usec: int | None = None
    wall_time_usec: int | None = None
    start_epoch_time_usec: int | None = None
    workspace: str | None = None

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | TorchxEvent) -> TorchxEvent:
        """The event that `serialize` wrote; an event is given as it is."""
        if isinstance(data, TorchxEvent):
            return data
        fields = json.loads(data)
        return TorchxEvent(**{**fields, "source": SourceType(fields["source"])})

    def serialize(self) -> str:
        """The event as JSON."""
        return json.dumps(asdict(self))
