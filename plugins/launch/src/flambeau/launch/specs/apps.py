"""Applications, and the roles that they consist of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from flambeau.launch.specs.mounts import BindMount, DeviceMount, VolumeMount
from flambeau.launch.specs.options import CfgVal
from flambeau.launch.specs.resources import Resource

__all__ = ["ALL", "MISSING", "NONE", "AppDef", "AppDryRunInfo", "RetryPolicy", "Role"]

ALL: str = "all"
MISSING: str = "<MISSING>"
NONE: str = "<NONE>"

T = TypeVar("T")


class RetryPolicy(str, Enum):  # noqa: UP042  (upstream: `str()` of a member is not its value)
    """What is started again when a replica fails.

    * REPLICA: that replica.
    * APPLICATION: all replicas of the application.
    * HOT_SPARE: as APPLICATION; `Role.min_replicas` go on while the others are replaced.
    """

    REPLICA = "REPLICA"
    APPLICATION = "APPLICATION"
    HOT_SPARE = "HOT_SPARE"


def _null_resource() -> Resource:
    return Resource(cpu=-1, gpu=-1, memMB=-1)


@dataclass
class Role:
    """Replicas that run the same program.

    Attributes:
        name: of the role, unique in its application.
        image: what the replicas run in: an image of a container, or a folder for local ones.
        min_replicas: as few as the job can go on with; None for all of them.
        base_image: an image below, where the scheduler knows such.
        entrypoint: the program.
        args: its arguments. Macros are filled in, see `macros`; nothing is left to a shell.
        env: environment variables.
        num_replicas: how many.
        max_retries: how often replicas are started again after a failure.
        retry_policy: which of them.
        resource: what each replica needs.
        port_map: ports that the program listens on, by name.
        metadata: for schedulers, keyed by their names.
        mounts: folders, volumes and devices.
    """

    name: str
    image: str
    min_replicas: int | None = None
    base_image: str | None = None
    entrypoint: str = MISSING
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    num_replicas: int = 1
    max_retries: int = 0
    retry_policy: RetryPolicy = RetryPolicy.APPLICATION
    resource: Resource = field(default_factory=_null_resource)
    port_map: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    mounts: list[BindMount | VolumeMount | DeviceMount] = field(default_factory=list)

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
        """Change the request of a scheduler before it is shown or sent; for subclasses.

        Args:
            scheduler: name of the scheduler.
            dryrun_info: its request.

        Returns:
            The request to use instead.
        """
        return dryrun_info


@dataclass
class AppDef:
    """An application: one or more roles that run together.

    Attributes:
        name: of the application; schedulers make ids of it.
        roles: what it consists of.
        metadata: for schedulers.
    """

    name: str
    roles: list[Role] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)


class AppDryRunInfo(Generic[T]):
    """The request that a scheduler would send, readable by `print`.

    Attributes:
        request: as the scheduler has it.
    """

    def __init__(self, request: T, fmt: Callable[[T], str]) -> None:
        self.request = request
        self._fmt = fmt
        # Where the request comes from; the runner fills it in and needs it to submit.
        self._app: AppDef | None = None
        self._cfg: Mapping[str, CfgVal] = {}
        self._scheduler: str | None = None

    def __repr__(self) -> str:
        return self._fmt(self.request)
