"""States of applications, and what is known of them while they run."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import Enum
from string import Template
from typing import Any

from flambeau.launch.errors import LaunchError
from flambeau.launch.specs.apps import NONE

__all__ = [
    "AppState",
    "AppStatus",
    "AppStatusError",
    "ReplicaState",
    "ReplicaStatus",
    "RoleStatus",
    "is_started",
    "is_terminal",
]


class AppState(int, Enum):
    """Where an application stands.

    UNSUBMITTED is not sent yet, SUBMITTED is accepted, PENDING waits for machines. SUCCEEDED, FAILED and CANCELLED are
    final. UNKNOWN is what a scheduler says that cannot be made out.
    """

    UNSUBMITTED = 0
    SUBMITTED = 1
    PENDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6
    UNKNOWN = 7

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name} ({self.value})"

    def __format__(self, format_spec: str) -> str:
        return format(self.name, format_spec)


ReplicaState = AppState
_TERMINAL = (AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED)


def is_terminal(state: AppState) -> bool:
    """Whether it will not change any more."""
    return state in _TERMINAL


def is_started(state: AppState) -> bool:
    """Whether it runs, or has ended."""
    return state is AppState.RUNNING or is_terminal(state)


@dataclass
class ReplicaStatus:
    """One replica.

    Attributes:
        id: its number in the role.
        state: where it stands.
        role: name of its role.
        hostname: where it runs.
        structured_error_msg: the JSON that torchelastic writes about the first error, else "<NONE>".
    """

    id: int
    state: ReplicaState
    role: str
    hostname: str
    structured_error_msg: str = NONE


@dataclass
class RoleStatus:
    """The replicas of one role."""

    role: str
    replicas: list[ReplicaStatus]


class AppStatusError(LaunchError):
    """An application that did not succeed.

    Attributes:
        status: how it ended.
    """

    def __init__(self, status: AppStatus, *args: object) -> None:
        super().__init__(*args)
        self.status = status


_FORMAT = """AppStatus:
    State: ${state}
    Num Restarts: ${num_restarts}
    Roles: ${roles}
    Msg: ${msg}
    Structured Error Msg: ${structured_error_msg}
    UI URL: ${url}
    """


@dataclass
class AppStatus:
    """How an application stands.

    Attributes:
        state: of the application.
        num_restarts: how often it was started again.
        msg: what the scheduler says.
        structured_error_msg: the JSON that torchelastic writes about the first error, else "<NONE>".
        ui_url: page of the scheduler about it.
        roles: of the application, with their replicas.
    """

    state: AppState
    num_restarts: int = 0
    msg: str = ""
    structured_error_msg: str = NONE
    ui_url: str | None = None
    roles: list[RoleStatus] = field(default_factory=list)

    def is_terminal(self) -> bool:
        """Whether it will not change any more."""
        return is_terminal(self.state)

    def raise_for_status(self) -> None:
        """Do nothing where the application succeeded.

        Raises:
            AppStatusError: it did not.
        """
        if self.state is not AppState.SUCCEEDED:
            raise AppStatusError(self, f"the application did not succeed: {self}")

    def format(self, filter_roles: list[str] | None = None) -> str:
        """A text for people.

        Args:
            filter_roles: the roles to show; None for all.
        """
        chosen = [role for role in self.roles if filter_roles is None or role.role in filter_roles]
        return Template(_FORMAT).substitute(
            state=self.state.name,
            num_restarts=self.num_restarts,
            roles="".join(_format_replica(replica) for role in chosen for replica in _sorted(role.replicas)),
            msg=self.msg,
            structured_error_msg=self.structured_error_msg,
            url=self.ui_url,
        )

    def __repr__(self) -> str:
        import yaml

        fields: dict[str, Any] = asdict(self)
        fields["state"] = repr(self.state)
        for role in fields["roles"]:
            for replica in role["replicas"]:
                replica["state"] = repr(replica["state"])
        if self.structured_error_msg != NONE:
            fields["structured_error_msg"] = _parsed(self.structured_error_msg) or self.structured_error_msg
        return str(yaml.safe_dump({"AppStatus": fields}, default_flow_style=False))


def _sorted(replicas: list[ReplicaStatus]) -> list[ReplicaStatus]:
    return sorted(replicas, key=lambda replica: replica.id)


def _format_replica(replica: ReplicaStatus) -> str:
    error = _parsed(replica.structured_error_msg)
    if not error:
        return f"\n  {replica.role}[{replica.id}]:{replica.state.name}"
    message = error.get("message", {})
    if not isinstance(message, dict):
        message = {"message": str(message)}
    extra = message.get("extraInfo") or {}
    lines = [
        f"\n *{replica.role}[{replica.id}]:{replica.state.name} (exitcode: {message.get('errorCode', 'unknown')})",
        f"        timestamp: {_time(extra.get('timestamp'))}",
        f"        hostname: {replica.hostname}",
        f"        error_msg: {_short(str(message.get('message', '')))}",
    ]
    return "\n".join(lines)


def _parsed(text: str) -> dict[str, Any] | None:
    """What torchelastic wrote into the file of an error; None for anything else, which replicas may have written."""
    if text == NONE:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _time(seconds: Any) -> str:
    try:
        return str(datetime.fromtimestamp(int(seconds), tz=UTC).replace(tzinfo=None))
    except (TypeError, ValueError, OverflowError, OSError):
        return "unknown"


# Errors that come over RPC bring the remote traceback along; what happened stands before it.
_REMOTE = re.compile(r"^\w*\('On WorkerInfo\(.+\):\n")


def _short(message: str) -> str:
    return _REMOTE.sub("", message).partition("\nException")[0]
