"""What is known of local applications, in files, so that every process on the machine can ask for it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flambeau.launch.schedulers.ids import safe_id
from flambeau.launch.specs.status import AppState, is_terminal

__all__ = ["AppRecord", "ReplicaRecord", "is_alive", "process_start", "records_folder", "terminate_groups"]

KEPT_DAYS = 14
GRACE_S = 10.0


def records_folder() -> Path:
    """Where records lie: `launch/local` in Flambeau's folder."""
    from flambeau.core.environment import home

    folder = home() / "launch" / "local"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass
class ReplicaRecord:
    """One process.

    Attributes:
        replica_id: its number in the role.
        pid: of its process, which leads a group of its own; 0 before it started.
        started: when the system says that the process began; tells it from a later one of the same number.
        exitcode: None while it runs; negative for the signal that ended it.
        stdout: file of what it prints.
        stderr: likewise.
        combined: likewise.
        error_file: where torchelastic leaves what went wrong.
        restarts: how often it was started again.
    """

    replica_id: int
    pid: int = 0
    started: str = ""
    exitcode: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    combined: str | None = None
    error_file: str = ""
    restarts: int = 0


@dataclass
class AppRecord:
    """One application.

    Attributes:
        app_id: its id.
        session: its session's name.
        log_dir: of the application.
        owner: process that started it.
        owner_started: when that process began.
        state: name of the state.
        num_restarts: how often it was started again.
        roles: the replicas of each role.
        app: the application as text, for `describe`.
        msg: what went wrong.
        updated: seconds since the epoch.
    """

    app_id: str
    session: str
    log_dir: str
    owner: int
    owner_started: str
    state: str = AppState.PENDING.name
    num_restarts: int = 0
    roles: dict[str, list[ReplicaRecord]] = field(default_factory=dict)
    app: dict[str, Any] = field(default_factory=dict)
    msg: str = ""
    updated: float = 0.0

    @property
    def path(self) -> Path:
        """The file of this record."""
        return records_folder() / f"{self.app_id}.json"

    @property
    def cancelling(self) -> Path:
        """A file whose presence says that somebody cancelled the application."""
        return records_folder() / f"{self.app_id}.cancel"

    def replicas(self) -> Iterator[ReplicaRecord]:
        """All of them."""
        for replicas in self.roles.values():
            yield from replicas

    def save(self) -> None:
        """Write the record, as a whole; it says nothing after the machine went down, so nothing waits for the disk."""
        self.updated = time.time()
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(asdict(self)), encoding="utf-8")
        temporary.replace(self.path)

    @classmethod
    def load(cls, app_id: str) -> AppRecord | None:
        """The record of an application; None where there is none, or it is no record."""
        if safe_id(app_id) != app_id:  # ids come from command lines, and this one is none of ours
            return None
        path = records_folder() / f"{app_id}.json"
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            roles = {name: [ReplicaRecord(**one) for one in many] for name, many in fields.pop("roles").items()}
            return cls(**fields, roles=roles)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    @classmethod
    def load_all(cls) -> Iterator[AppRecord]:
        """All records, the oldest first; those that are older than two weeks are removed."""
        for path in sorted(records_folder().glob("*.json"), key=_changed):
            if time.time() - _changed(path) > KEPT_DAYS * 86400:
                path.unlink(missing_ok=True)
            elif record := cls.load(path.stem):
                yield record

    def current_state(self) -> AppState:
        """Where it stands, also where the process that watched over it is gone."""
        state = AppState[self.state]
        if is_terminal(state) or is_alive(self.owner, self.owner_started):
            return state
        if self.cancelling.exists():
            return AppState.CANCELLED
        if any(is_alive(replica.pid, replica.started) for replica in self.replicas()):
            return AppState.RUNNING
        codes = [replica.exitcode for replica in self.replicas()]
        return AppState.SUCCEEDED if codes and not any(code is None or code for code in codes) else AppState.FAILED


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def process_start(pid: int) -> str:
    """When a process began, in the system's own count; empty where the system does not say."""
    with contextlib.suppress(OSError, IndexError):
        # The name stands in brackets and may hold anything; the 20th field behind it is the start.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    return ""


def is_alive(pid: int, started: str) -> bool:
    """Whether this very process still runs; one that has ended and waits to be collected does not."""
    if pid <= 0:
        return False
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0] != "Z" and (not started or fields[19] == started)
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def terminate_groups(replicas: list[ReplicaRecord], grace_s: float = GRACE_S) -> None:
    """End processes with everything that they started: asked first, and forced after `grace_s` seconds."""
    groups = {replica.pid: replica.started for replica in replicas if is_alive(replica.pid, replica.started)}
    for pid in groups:
        _signal_group(pid, signal.SIGTERM)
    end = time.monotonic() + grace_s
    while groups and time.monotonic() < end:
        groups = {pid: started for pid, started in groups.items() if is_alive(pid, started)}
        time.sleep(0.02)
    for pid in groups:
        _signal_group(pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
