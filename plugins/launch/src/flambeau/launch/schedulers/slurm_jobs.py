"""What Slurm knows of jobs, with accounting or without it.

`scontrol` knows all jobs that wait or run, and for some minutes those that have ended. `sacct` knows all, where the
cluster has accounting. What neither knows any more has left its exit code in its folder, if it came to its end.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flambeau.core.files import write_atomic
from flambeau.launch.errors import MissingBackend
from flambeau.launch.schedulers.programs import ProgramFailed, run_program
from flambeau.launch.schedulers.slurm_script import EXIT_CODE_FILE
from flambeau.launch.specs.status import AppState

__all__ = ["SLURM_STATES", "Component", "JobRecord", "components_of", "state_of", "states_by_sacct"]

SLURM_STATES: Mapping[str, AppState] = {
    "BOOT_FAIL": AppState.FAILED,
    "CANCELLED": AppState.CANCELLED,
    "COMPLETED": AppState.SUCCEEDED,
    "COMPLETING": AppState.RUNNING,
    "CONFIGURING": AppState.PENDING,
    "DEADLINE": AppState.FAILED,
    "FAILED": AppState.FAILED,
    "NODE_FAIL": AppState.FAILED,
    "OUT_OF_MEMORY": AppState.FAILED,
    "PENDING": AppState.PENDING,
    "PREEMPTED": AppState.FAILED,
    "REQUEUED": AppState.PENDING,
    "REQUEUE_FED": AppState.PENDING,
    "REQUEUE_HOLD": AppState.PENDING,
    "RESIZING": AppState.PENDING,
    "RESV_DEL_HOLD": AppState.PENDING,
    "REVOKED": AppState.FAILED,
    "RUNNING": AppState.RUNNING,
    "SIGNALING": AppState.RUNNING,
    "SPECIAL_EXIT": AppState.FAILED,
    "STAGE_OUT": AppState.RUNNING,
    "STOPPED": AppState.RUNNING,
    "SUSPENDED": AppState.PENDING,
    "TIMEOUT": AppState.FAILED,
}
# Of several components the worst counts; what still goes on counts before what has ended.
_ORDER = (AppState.RUNNING, AppState.PENDING, AppState.FAILED, AppState.CANCELLED, AppState.UNKNOWN, AppState.SUCCEEDED)


@dataclass
class JobRecord:
    """What a launch leaves for later ones.

    Attributes:
        job_id: Slurm's.
        folder: that the job starts in, and its logs are in.
        app: the application as plain values.
        submitted: seconds since the epoch.
        cancelled: whether it was cancelled by us.
    """

    job_id: str
    folder: str
    app: dict[str, Any] = field(default_factory=dict)
    submitted: float = field(default_factory=time.time)
    cancelled: bool = False

    @staticmethod
    def path(job_id: str) -> Path:
        """The file of a record."""
        from flambeau.core.environment import home

        return home() / "launch" / "slurm" / f"{job_id}.json"

    def save(self) -> None:
        """Write it."""
        path = self.path(self.job_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(asdict(self)))

    @classmethod
    def load(cls, job_id: str) -> JobRecord | None:
        """The record of a job; None where there is none."""
        if not job_id.isdigit():
            return None
        try:
            return cls(**json.loads(cls.path(job_id).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def exit_code(self) -> int | None:
        """What the job left behind at its end; None before."""
        try:
            return int((Path(self.folder) / EXIT_CODE_FILE.format(self.job_id)).read_text())
        except (OSError, ValueError):
            return None

    def state(self) -> AppState:
        """How it ended, as far as files tell."""
        code = self.exit_code()
        if code is not None:
            return AppState.FAILED if code else AppState.SUCCEEDED
        return AppState.CANCELLED if self.cancelled else AppState.UNKNOWN


@dataclass(frozen=True)
class Component:
    """One component of a job, as Slurm tells of it.

    Attributes:
        job_id: of the whole job.
        name: of the component, `role-number`.
        state: where it stands.
        reason: why it waits, or failed.
        nodes: where it runs.
        restarts: how often it was queued again.
        user: whose it is.
    """

    job_id: str
    name: str
    state: AppState
    reason: str
    nodes: str
    restarts: int
    user: str


_FIELD = re.compile(r"(\w+(?::\w+)*)=(.*?)(?=\s+\w[\w:/]*=|$)")


def components_of(job_id: str | None = None) -> list[Component]:
    """The components of a job, or of all jobs, that `scontrol` knows; empty where it knows none.

    Raises:
        SchedulerError: Slurm cannot be reached.
    """
    words = ["scontrol", "show", "job", "--oneliner", *([job_id] if job_id else [])]
    try:
        text = run_program(words)
    except ProgramFailed as error:
        if "Invalid job id" in error.stderr:
            return []
        raise
    return [_component(line) for line in text.splitlines() if line.startswith("JobId=")]


def _component(line: str) -> Component:
    fields = dict(_FIELD.findall(line))
    return Component(
        job_id=fields.get("HetJobId") or fields.get("ArrayJobId") or fields["JobId"],
        name=fields.get("JobName", ""),
        state=state_of(fields.get("JobState", "")),
        reason=fields.get("Reason", "None"),
        nodes=fields.get("NodeList", ""),
        restarts=int(fields.get("Restarts", "0")),
        user=fields.get("UserId", "").partition("(")[0],
    )


def state_of(word: str) -> AppState:
    """A state by Slurm's word for it, which may have more behind: `CANCELLED by 0`, `COMPLETED+`."""
    first = word.split()[0].rstrip("+") if word.split() else ""
    return SLURM_STATES.get(first, AppState.UNKNOWN)


def overall(states: list[AppState]) -> AppState:
    """The state of a job by those of its components."""
    return next((state for state in _ORDER if state in states), AppState.UNKNOWN)


def states_by_sacct(job_id: str | None = None) -> dict[str, list[tuple[str, AppState]]]:
    """Job -> names and states of its components, of the last two days or of one job; empty without accounting."""
    words = ["sacct", "--parsable2", "--noheader", "--allocations", "--format=JobID,JobName,State"]
    words += [f"--jobs={job_id}"] if job_id else ["--starttime=now-2days"]
    try:
        text = run_program(words)
    except (ProgramFailed, MissingBackend):  # accounting is off: other sources tell
        return {}
    found: dict[str, list[tuple[str, AppState]]] = {}
    for job, name, state in _rows(text):
        found.setdefault(re.split(r"[+_.]", job)[0], []).append((name, state_of(state)))
    return found


def _rows(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) == 3:
            yield cells[0], cells[1], cells[2]
