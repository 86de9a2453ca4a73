"""What every scheduler can do."""

from __future__ import annotations

import abc
import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeVar

from flambeau.launch.errors import SpecError
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.options import runopts
from flambeau.launch.specs.status import AppState, RoleStatus

__all__ = [
    "DAYS_IN_2_WEEKS",
    "DescribeAppResponse",
    "ListAppResponse",
    "Scheduler",
    "Stream",
    "filter_regex",
    "split_lines",
    "split_lines_iterator",
]

DAYS_IN_2_WEEKS = 14
T = TypeVar("T")


class Stream(str, Enum):  # noqa: UP042  (upstream: `str()` of a member is not its value)
    """What replicas write to."""

    STDOUT = "stdout"
    STDERR = "stderr"
    COMBINED = "combined"


@dataclass
class DescribeAppResponse:
    """What a scheduler knows of an application.

    Attributes:
        app_id: at the scheduler.
        state: where it stands.
        num_restarts: how often it was started again; -1 where the scheduler does not count.
        msg: what the scheduler says.
        structured_error_msg: the JSON that torchelastic writes about the first error, else "<NONE>".
        ui_url: page of the scheduler about it.
        roles_statuses: of the roles, with their replicas.
        roles: as far as the scheduler remembers them.
    """

    app_id: str = "<NOT_SET>"
    state: AppState = AppState.UNSUBMITTED
    num_restarts: int = -1
    msg: str = NONE
    structured_error_msg: str = NONE
    ui_url: str | None = None
    roles_statuses: list[RoleStatus] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)


@dataclass
class ListAppResponse:
    """One application of a listing.

    Attributes:
        app_id: at the scheduler.
        state: where it stands.
        app_handle: which `flambeau launch` takes.
    """

    app_id: str
    state: AppState
    app_handle: str = "<NOT_SET>"

    # Upstream: hashable by what identifies it, so that lists can be compared as sets.
    def __hash__(self) -> int:
        return hash((self.app_id, self.app_handle, self.state))


class Scheduler(abc.ABC, Generic[T]):
    """Submits applications to a backend and watches over them.

    Args:
        backend: name of the scheduler.
        session_name: what handles have in their middle.
    """

    def __init__(self, backend: str, session_name: str) -> None:
        self.backend = backend
        self.session_name = session_name

    def close(self) -> None:
        """Let go of what the scheduler holds; called again, does nothing. Jobs go on unless they are its children."""

    def submit(self, app: AppDef, cfg: T, workspace: str | None = None) -> str:
        """Submit an application.

        Args:
            app: the application; its roles' images are replaced where a workspace is built into them.
            cfg: options of the scheduler.
            workspace: folder whose files the replicas shall have.

        Returns:
            Its id at the scheduler.
        """
        from flambeau.launch.workspace.api import WorkspaceMixin

        resolved: Any = self.run_opts().resolve(cfg)  # type: ignore[arg-type]
        if workspace and isinstance(self, WorkspaceMixin):
            for role in app.roles:
                self.build_workspace_and_update_role(role, workspace, resolved)
        return self.schedule(self.submit_dryrun(app, resolved))

    @abc.abstractmethod
    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        """Send a request that `submit_dryrun` made; returns the application's id."""

    def submit_dryrun(self, app: AppDef, cfg: T) -> AppDryRunInfo[Any]:
        """The request for an application, which reaches nobody.

        Raises:
            InvalidRunConfigException: an option is missing, or of a wrong type.
        """
        resolved: Any = self.run_opts().resolve(cfg)  # type: ignore[arg-type]
        info = self._submit_dryrun(app, resolved)
        for role in app.roles:
            info = role.pre_proc(self.backend, info)
        info._app, info._cfg = app, resolved
        return info

    def request_text(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        """A request as the backend's own program reads it."""
        return str(dryrun_info)

    @abc.abstractmethod
    def _submit_dryrun(self, app: AppDef, cfg: T) -> AppDryRunInfo[Any]:
        """As `submit_dryrun`, with checked and completed options."""

    def run_opts(self) -> runopts:
        """The options of the scheduler, with those of its kind of workspace."""
        from flambeau.launch.workspace.api import WorkspaceMixin

        options = self._run_opts()
        if isinstance(self, WorkspaceMixin):
            options.update(self.workspace_opts())
        return options

    def _run_opts(self) -> runopts:
        return runopts()

    @abc.abstractmethod
    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What is known of an application; None where the scheduler does not know it."""

    @abc.abstractmethod
    def list(self) -> list[ListAppResponse]:
        """The applications that the scheduler knows, running and recent ones."""

    def exists(self, app_id: str) -> bool:
        """Whether the scheduler knows an application."""
        return self.describe(app_id) is not None

    @abc.abstractmethod
    def _cancel_existing(self, app_id: str) -> None:
        """Cancel an application that is there."""

    def cancel(self, app_id: str) -> None:
        """Cancel an application; does nothing where it is not known or has ended."""
        if self.exists(app_id):
            self._cancel_existing(app_id)

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """The lines that a replica wrote, with their ends.

        Args:
            app_id: of the application.
            role_name: of the role.
            k: number of the replica.
            regex: what lines must have in them.
            since: the earliest time of a line, where the scheduler keeps times.
            until: the latest.
            should_tail: go on until the replica ends.
            streams: what it wrote to; the scheduler's own choice where not given.

        Raises:
            NotImplementedError: the scheduler keeps no logs.
        """
        raise NotImplementedError(f"scheduler {self.backend!r} gives out no logs.")

    def _validate(self, app: AppDef, scheduler: str, cfg: T) -> None:
        """Refuse what the backend would refuse later, or run forever wrong.

        Raises:
            SpecError: (a ValueError) a role has no resource, where the backend needs one.
        """
        for role in app.roles:
            if role.resource.cpu < 0 and role.resource.memMB < 0 and role.resource.gpu < 0:
                raise SpecError(f"role {role.name!r} names no resource, which {scheduler} needs; set Role.resource.")


def filter_regex(regex: str, data: Iterable[str]) -> Iterable[str]:
    """The texts in which a pattern occurs."""
    pattern = re.compile(regex)
    return filter(pattern.search, data)


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends; only line feeds end lines, as progress bars return within theirs."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def split_lines_iterator(chunks: Iterable[str]) -> Iterable[str]:
    """The lines in texts that come one after the other.

    Upstream: every text ends a line, as clouds give whole events. `joined_lines` is for pieces of a stream.
    """
    for chunk in chunks:
        yield from split_lines(chunk)


def joined_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The lines in pieces of a stream, which may end anywhere, within characters too; the last one may lack its end."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    rest = ""
    for chunk in chunks:
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        yield from (f"{line}\n" for line in lines)
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest
