"""Local applications while they run: their processes, restarts and ends."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flambeau.launch.schedulers.local_images import ReplicaParam
from flambeau.launch.schedulers.local_records import GRACE_S, AppRecord, ReplicaRecord, process_start
from flambeau.launch.schedulers.streams import Tee
from flambeau.launch.specs.apps import NONE, RetryPolicy
from flambeau.launch.specs.status import AppState, is_terminal

__all__ = ["LocalApp", "PopenRequest", "RestartRule"]

FINISHED = "SUCCESS"
"""Upstream's name for the file that says how an application ended, however it did."""


@dataclass(frozen=True)
class RestartRule:
    """When the replicas of a role are started again.

    Attributes:
        max_retries: how often at most.
        policy: whether a failure restarts that replica alone, or the application.
    """

    max_retries: int = 0
    policy: RetryPolicy = RetryPolicy.APPLICATION


@dataclass
class PopenRequest:
    """Everything that is needed to start an application's processes.

    Attributes:
        app_id: its id.
        log_dir: folder of its logs.
        role_params: role -> its processes.
        role_log_dirs: role -> the folders of their logs.
        restarts: role -> when they are started again.
        detach: whether they outlive the process that starts them.
    """

    app_id: str
    log_dir: str
    role_params: dict[str, list[ReplicaParam]]
    role_log_dirs: dict[str, list[str]]
    restarts: dict[str, RestartRule] = field(default_factory=dict)
    detach: bool = False


class _Replica:
    """A process and the files it writes to."""

    def __init__(self, role: str, record: ReplicaRecord, param: ReplicaParam) -> None:
        self.role, self.record, self.param = role, record, param
        self.process: subprocess.Popen[bytes] | None = None
        self._tee: Tee | None = None

    def start(self) -> None:
        param, record = self.param, self.record
        stdout, stderr = _append(param.stdout), _append(param.stderr)
        try:
            # In a session of its own: the terminal's Ctrl-C reaches this process alone, which ends the group in order.
            self.process = subprocess.Popen(
                param.args, env=_environment(param.env), stdout=stdout, stderr=stderr, cwd=param.cwd,
                start_new_session=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            for file in (stdout, stderr):
                if file is not None:
                    file.close()
        record.pid, record.started, record.exitcode = self.process.pid, process_start(self.process.pid), None
        sources = [path for path in (param.stdout, param.stderr) if path]
        if param.combined and sources and self._tee is None:
            self._tee = Tee(Path(param.combined).open("ab", buffering=0), *sources)  # noqa: SIM115  (the Tee closes it)

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self.process is not None and self.record.exitcode is None:
            self.record.exitcode = self.process.poll()
        return self.record.exitcode

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and to everything that it started."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        """Finish the combined log."""
        if self._tee is not None:
            self._tee.close()
            self._tee = None


def _append(path: str | None) -> Any:
    return None if path is None else Path(path).open("ab", buffering=0)


def _environment(extra: dict[str, str]) -> dict[str, str]:
    """This process's environment with a replica's; the replica's PATH stands before ours."""
    environment = {**os.environ, **extra}
    if "PATH" in extra:
        environment["PATH"] = os.pathsep.join(filter(None, (extra["PATH"], os.environ.get("PATH", ""))))
    return environment


class LocalApp:
    """A running application. A thread watches over it: collects ends, starts again, ends the rest.

    Args:
        request: what to start.
        session: name of the session.
        described: the application as text, for its record.
    """

    def __init__(self, request: PopenRequest, session: str, described: dict[str, Any]) -> None:
        self.request = request
        roles = {role: [_record(n, p) for n, p in enumerate(params)] for role, params in request.role_params.items()}
        self.record = AppRecord(
            request.app_id,
            session,
            request.log_dir,
            os.getpid(),
            process_start(os.getpid()),
            roles=roles,
            app=described,
        )
        self._replicas = [
            _Replica(role, record, param)
            for role, params in request.role_params.items()
            for record, param in zip(roles[role], params, strict=True)
        ]
        self._cancelled = False
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name=f"watch {request.app_id}", daemon=True)

    @property
    def state(self) -> AppState:
        """Where it stands."""
        return AppState[self.record.state]

    def start(self) -> None:
        """Start all processes.

        Raises:
            OSError: one cannot be started, for example as there is no such program; the others are ended.
        """
        try:
            for replica in self._replicas:
                replica.start()
            self.record.state = AppState.RUNNING.name
            self.record.save()
            self._watcher.start()
        except BaseException as error:  # nobody watches over those that started
            self.record.msg = str(error)
            self._end_all()
            self._finish(AppState.FAILED if isinstance(error, Exception) else AppState.CANCELLED)
            raise

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; returns whether it came."""
        return self._ended.wait(timeout_s)

    def cancel(self) -> None:
        """End all processes and what they started; those that do not end by themselves within ten seconds, by force."""
        self._cancelled = True  # the thread that watches over them ends them, and nobody else
        end = time.monotonic() + 2 * GRACE_S
        # Without the event's lock: a signal's handler calls this, wherever the main thread stands.
        while not self._ended.is_set() and time.monotonic() < end:
            time.sleep(0.005)

    def structured_error(self) -> str:
        """What torchelastic wrote about the first error, else "<NONE>"."""
        return first_error(self.record)

    def _watch(self) -> None:
        interval = 0.002
        while not self._ended.is_set():
            if self._cancelled or self.record.cancelling.exists():
                self._cancelled = True
                self._end_all()
                self._finish(AppState.CANCELLED)
                return
            try:
                changed = self._collect()
            except OSError as error:  # a process cannot be started again
                self.record.msg = str(error)
                self._end_all()
                self._finish(AppState.FAILED)
                return
            if is_terminal(self.state):
                return
            interval = 0.002 if changed else min(interval * 1.5, 0.05)
            time.sleep(interval)

    def _collect(self) -> bool:
        """Take note of what ended, and act on it; returns whether anything did."""
        before = [replica.record.exitcode for replica in self._replicas]
        codes = [replica.poll() for replica in self._replicas]
        if codes == before:
            return False
        failed = next((replica for replica, code in zip(self._replicas, codes, strict=True) if code), None)
        if failed is not None:
            self._after_failure(failed)
        elif all(code == 0 for code in codes):
            self._finish(AppState.SUCCEEDED)
        else:
            self.record.save()
        return True

    def _after_failure(self, failed: _Replica) -> None:
        rule = self.request.restarts.get(failed.role, RestartRule())
        alone = rule.policy is RetryPolicy.REPLICA
        done = failed.record.restarts if alone else self.record.num_restarts
        if done >= rule.max_retries:
            self.record.msg = f"{failed.role}/{failed.record.replica_id} {_ending(failed.record.exitcode)}"
            self._end_all()
            self._finish(AppState.FAILED)
            return
        if alone:
            again = [failed]
        else:
            self._end_all()
            again = self._replicas
        self.record.num_restarts += 1
        for replica in again:
            replica.record.restarts += 1
            replica.start()
        self.record.save()

    def _end_all(self) -> None:
        """Ask all that still run to end, force those that do not, and what they left behind."""
        running = [replica for replica in self._replicas if replica.process is not None and replica.poll() is None]
        for replica in running:
            replica.signal(signal.SIGTERM)
        end = time.monotonic() + GRACE_S
        while time.monotonic() < end and any(replica.poll() is None for replica in running):
            time.sleep(0.01)
        for replica in self._replicas:
            replica.signal(signal.SIGKILL)  # also what the others' processes started and did not end
        for replica in running:
            if replica.process is not None:
                replica.record.exitcode = replica.process.wait()

    def _finish(self, state: AppState) -> None:
        for replica in self._replicas:
            replica.close()
        with contextlib.suppress(OSError):  # the folder may be gone, as nobody needs it any more
            _write_end(dataclasses.replace(self.record, state=state.name))  # before anybody sees that it ended
        self.record.state = state.name
        self.record.save()
        self.record.cancelling.unlink(missing_ok=True)
        self._ended.set()


def _record(number: int, param: ReplicaParam) -> ReplicaRecord:
    error_file = param.env.get("TORCHELASTIC_ERROR_FILE", "")
    return ReplicaRecord(
        number, stdout=param.stdout, stderr=param.stderr, combined=param.combined, error_file=error_file
    )


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"exited with {code}"


def _write_end(record: AppRecord) -> None:
    """Upstream: a file in the folder of the logs says how it ended."""
    roles = {
        role: [
            {name: getattr(one, name) for name in ("replica_id", "pid", "exitcode", "stdout", "stderr", "error_file")}
            for one in replicas
        ]
        for role, replicas in record.roles.items()
    }
    about = {
        "app_id": record.app_id,
        "log_dir": record.log_dir,
        "final_state": record.state,
        "last_updated": record.updated,
        "roles": roles,
    }
    (Path(record.log_dir) / FINISHED).write_text(json.dumps(about, indent=2), encoding="utf-8")


def first_error(record: AppRecord) -> str:
    """What torchelastic wrote about the error that came first, else "<NONE>"."""
    found: list[tuple[float, str]] = []
    for replica in record.replicas():
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            text = Path(replica.error_file).read_text(encoding="utf-8")
            found.append((float(json.loads(text)["message"]["extraInfo"]["timestamp"]), text))
    return min(found)[1] if found else NONE
