"""Processes on this machine.

Replicas are children of the process that launches them, and end with it: when it is closed, interrupted or terminated.
With the option `detach` a process of their own watches over them instead, and they go on. Either way, other processes
of the same user can ask for their state, read their logs and cancel them.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from flambeau.launch.errors import LogsUnavailable, SchedulerError, SpecError
from flambeau.launch.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream, filter_regex
from flambeau.launch.schedulers.ids import make_unique, safe_id
from flambeau.launch.schedulers.local_apps import LocalApp, PopenRequest, RestartRule, first_error
from flambeau.launch.schedulers.local_images import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    LocalOpts,
    ReplicaParam,
)
from flambeau.launch.schedulers.local_logs import LogIterator
from flambeau.launch.schedulers.local_records import AppRecord, terminate_groups
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo, Role
from flambeau.launch.specs.handles import make_app_handle
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import CfgVal, runopts
from flambeau.launch.specs.status import AppState, ReplicaStatus, RoleStatus, is_terminal
from flambeau.launch.workspace.dir_workspace import TmpDirWorkspaceMixin

__all__ = [
    "COMBINED_LOG",
    "ENV_CUDA_VISIBLE_DEVICES",
    "NA",
    "STDERR_LOG",
    "STDOUT_LOG",
    "AppId",
    "AppName",
    "CWDImageProvider",
    "ImageProvider",
    "LocalDirectoryImageProvider",
    "LocalOpts",
    "LocalScheduler",
    "LogIterator",
    "PopenProtocol",
    "PopenRequest",
    "ReplicaParam",
    "RoleName",
    "SignalException",
    "create_directory_scheduler",
    "create_scheduler",
]

log = logging.getLogger(__name__)

STDOUT_LOG = "stdout.log"
STDERR_LOG = "stderr.log"
COMBINED_LOG = "combined.log"
NA: str = "<N/A>"
ENV_CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
AppId = str
AppName = str
RoleName = str
_FILES = {Stream.STDOUT: "stdout", Stream.STDERR: "stderr", Stream.COMBINED: "combined"}


class PopenProtocol(Protocol):
    """What is asked of a process: the part of `subprocess.Popen` that stand-ins for it need."""

    @property
    def pid(self) -> int:
        """Number of the process."""
        ...

    @property
    def returncode(self) -> int:
        """How it ended."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns how."""
        ...

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        ...

    def kill(self) -> None:
        """End it by force."""
        ...


class SignalException(Exception):
    """The process that launched applications was told to end; they were ended.

    Attributes:
        sigval: by which signal.
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


class LocalScheduler(TmpDirWorkspaceMixin, Scheduler[LocalOpts]):
    """Runs replicas as processes of this machine.

    Args:
        session_name: what handles have in their middle.
        image_provider_class: what knows the meaning of images, made of the options.
        cache_size: how many ended applications are remembered.
        extra_paths: folders that replicas find programs in, before all others.
    """

    def __init__(
        self,
        session_name: str,
        image_provider_class: Callable[[LocalOpts], ImageProvider] = CWDImageProvider,
        cache_size: int = 100,
        extra_paths: list[str] | None = None,
        *,
        backend: str = "local",
    ) -> None:
        if cache_size <= 0:
            raise SpecError(f"cache_size is {cache_size}; expected at least 1.")
        super().__init__(backend, session_name)
        self._image_provider_class = image_provider_class
        self._cache_size = cache_size
        self._extra_paths = extra_paths or []
        self._apps: dict[str, LocalApp] = {}
        self._temporary: list[str] = []
        self._closing = False

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("log_dir", type_=str, help="folder for what replicas print; a temporary one where not given")
        options.add(
            *(
                "prepend_cwd",
                bool,
                "whether programs in the current folder come before those that PATH of a role finds",
            ),
            default=False,
        )
        options.add(
            *("auto_set_cuda_visible_devices", bool),
            help="spread the GPUs of this machine over the replicas that ask for some, by CUDA_VISIBLE_DEVICES",
            default=False,
        )
        options.add(
            "detach", type_=bool, default=False, help="whether the application goes on when the launcher has ended"
        )
        return options

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Copy a workspace to a temporary folder, unless it is the current folder itself, where replicas run anyway."""
        path = workspace.removeprefix("file://")
        if Path(path).resolve() == Path.cwd():
            return
        super().build_workspace_and_update_role(role, workspace, cfg)
        if not cfg.get("detach"):
            self._temporary.append(role.image)

    def _submit_dryrun(self, app: AppDef, cfg: LocalOpts) -> AppDryRunInfo[PopenRequest]:
        return AppDryRunInfo(self._to_popen_request(app, cfg), _formatted)

    def _to_popen_request(self, app: AppDef, cfg: LocalOpts) -> PopenRequest:
        app_id = make_unique(safe_id(app.name))
        log_dir = str(Path(self._base_log_dir(cfg)) / self.session_name / app_id)
        provider = self._image_provider_class(cfg)
        request = PopenRequest(app_id, log_dir, {}, {}, detach=bool(cfg.get("detach")))
        for role in app.roles:
            folder = Path(log_dir) / safe_id(role.name)
            folders = [str(folder / str(number)) for number in range(role.num_replicas)]
            if any(folders == others for others in request.role_log_dirs.values()):
                raise SpecError(
                    f"two roles of {app.name!r} are named alike, {role.name!r}; give each a name of its own."
                )
            request.role_log_dirs[role.name] = folders
            request.role_params[role.name] = [
                self._param(role, number, request, provider, cfg, Path(path)) for number, path in enumerate(folders)
            ]
            if role.max_retries:
                request.restarts[role.name] = RestartRule(role.max_retries, role.retry_policy)
        self.auto_set_CUDA_VISIBLE_DEVICES(request.role_params, app, cfg)
        return request

    def _param(
        self, role: Role, number: int, request: PopenRequest, provider: ImageProvider, cfg: LocalOpts, folder: Path
    ) -> ReplicaParam:
        root = provider.fetch_role(role)
        values = macros.Values(root, request.app_id, str(number), "TORCHX_RANK0_HOST")
        filled = values.apply(role)
        filled.env = {
            # torchrun writes the logs of its workers below, and replicas what went wrong.
            "PET_LOG_DIR": str(Path(request.log_dir) / "torchelastic" / safe_id(role.name)),
            "TORCHELASTIC_ERROR_FILE": str(folder / "error.json"),
            "TORCHX_RANK0_HOST": "localhost",
            **filled.env,
            "PATH": self._path(filled.env.get("PATH", ""), bool(cfg.get("prepend_cwd")), provider.get_cwd(role.image)),
        }
        files = (str(folder / name) for name in (STDOUT_LOG, STDERR_LOG, COMBINED_LOG))
        return provider.get_replica_param(root, filled, *files)

    def _path(self, own: str, prepend_cwd: bool, cwd: str | None) -> str:
        folder = cwd or str(Path.cwd())
        parts = [folder, own] if prepend_cwd else [own, folder]
        return os.pathsep.join(part for part in [*self._extra_paths, *parts] if part)

    def _base_log_dir(self, cfg: LocalOpts) -> str:
        if chosen := cfg.get("log_dir"):
            return str(Path(chosen).absolute())
        if cfg.get("detach"):
            from flambeau.core.environment import home

            return str(home() / "launch" / "logs")
        folder = tempfile.mkdtemp(prefix="flambeau_launch_")
        self._temporary.append(folder)
        log.info("logs are in %s until the launcher ends; the option log_dir keeps them", folder)
        return folder

    def auto_set_CUDA_VISIBLE_DEVICES(
        self, role_params: dict[str, list[ReplicaParam]], app: AppDef, cfg: LocalOpts
    ) -> None:
        """Give every replica the GPUs that its role asks for, one after the other, where the machine has enough.

        Args:
            role_params: role -> its processes, whose environment is changed.
            app: the application.
            cfg: does nothing without the option `auto_set_cuda_visible_devices`.
        """
        if not cfg.get("auto_set_cuda_visible_devices"):
            return
        asked = sum(max(role.resource.gpu, 0) * role.num_replicas for role in app.roles)
        there = self._cuda_device_count() if asked else 0
        if asked > there:
            log.warning("%d GPUs are asked for, and this machine has %d; CUDA_VISIBLE_DEVICES is not set", asked, there)
            return
        first = 0
        for role in app.roles:
            for param in role_params[role.name]:
                last = first + max(role.resource.gpu, 0)
                if last > first:
                    param.env[ENV_CUDA_VISIBLE_DEVICES] = ",".join(map(str, range(first, last)))
                first = last

    def _cuda_device_count(self) -> int:
        """GPUs as the driver lists them, without loading CUDA."""
        folder = Path("/proc/driver/nvidia/gpus")
        return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0

    def schedule(self, dryrun_info: AppDryRunInfo[PopenRequest]) -> str:
        """Start the processes.

        Raises:
            SchedulerError: a program is not there, or may not be run.
        """
        if self._closing:
            raise SchedulerError("this scheduler was closed; make another one to launch applications.")
        request = dryrun_info.request
        for folders in request.role_log_dirs.values():
            for folder in folders:
                Path(folder).mkdir(parents=True, exist_ok=True)
        described = asdict(dryrun_info._app) if dryrun_info._app is not None else {}
        if request.detach:
            return self._detached(request, described)
        application = LocalApp(request, self.session_name, described)
        with _signals_wait():
            _watch_over(self)
            self._forget_oldest()
            self._apps[request.app_id] = application
            try:
                application.start()
            except OSError as error:
                del self._apps[request.app_id]
                name = dryrun_info._app.name if dryrun_info._app else request.app_id
                raise CannotStart(f"{name}: {error}") from None
        return request.app_id

    def _detached(self, request: PopenRequest, described: dict[str, Any]) -> str:
        """Let a process of its own start them, which is nobody's child, and wait until it did."""
        import json
        import select

        from flambeau.launch.schedulers.local_supervisor import encoded

        path = Path(request.log_dir) / "request.json"
        path.write_text(json.dumps(encoded(request, self.session_name, described)), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "flambeau.launch.schedulers.local_supervisor", str(path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], 60)
        answer = process.stdout.readline().strip() if ready else "the process that starts it does not answer"
        process.stdout.close()
        process.wait()
        if answer != "started":
            raise CannotStart(answer or "the process that starts it ended")
        return request.app_id

    def _forget_oldest(self) -> None:
        ended = [app_id for app_id, application in self._apps.items() if is_terminal(application.state)]
        for app_id in ended[: max(0, len(self._apps) - self._cache_size + 1)]:
            del self._apps[app_id]

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """What is known of an application, whichever process of this user launched it."""
        application = self._apps.get(app_id)
        record = application.record if application else AppRecord.load(app_id)
        if record is None:
            return None
        state = application.state if application else record.current_state()
        return DescribeAppResponse(
            app_id=app_id,
            state=state,
            num_restarts=record.num_restarts,
            msg=record.msg or NONE,
            structured_error_msg=first_error(record),
            ui_url=f"file://{record.log_dir}",
            roles_statuses=[_role_status(role, record, state) for role in record.roles],
            roles=_roles(record),
        )

    def list(self) -> list[ListAppResponse]:
        """The applications of the last two weeks, of all processes of this user."""
        return [
            ListAppResponse(record.app_id, record.current_state(), self._handle(record))
            for record in AppRecord.load_all()
        ]

    def _handle(self, record: AppRecord) -> str:
        return make_app_handle(self.backend, record.session, record.app_id)

    def _cancel_existing(self, app_id: str) -> None:
        if application := self._apps.get(app_id):
            application.cancel()
            return
        record = AppRecord.load(app_id)
        if record is None or is_terminal(record.current_state()):
            return
        record.cancelling.touch()
        terminate_groups(list(record.replicas()))
        # Whoever watches over it writes the last state down.
        import time

        end = time.monotonic() + 2
        while time.monotonic() < end and record.cancelling.exists():
            time.sleep(0.02)

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
        """The lines that a replica wrote; see `Scheduler.log_iter`. Lines have no times.

        Raises:
            LogsUnavailable: there is no such role or replica, or its logs were cleaned away.
        """
        if since or until:
            log.warning("local logs have no times; since and until are ignored")
        application = self._apps.get(app_id)
        record = application.record if application else AppRecord.load(app_id)
        if record is None:
            raise LogsUnavailable(
                f"{app_id} is not known on this machine; `flambeau launch list -s local_cwd` lists all."
            )
        replicas = record.roles.get(role_name)
        if replicas is None or not 0 <= k < len(replicas):
            known = ", ".join(f"{role}/0-{len(many) - 1}" for role, many in record.roles.items())
            raise LogsUnavailable(f"{app_id} has no replica {role_name}/{k}; it has {known}.")
        path = getattr(replicas[k], _FILES[streams or Stream.STDOUT])
        if path is None:
            raise LogsUnavailable(f"{app_id} keeps no {(streams or Stream.STDOUT).value} in a file.")
        lines = LogIterator(app_id, path, self, should_tail=should_tail).with_ends()
        return filter_regex(regex, lines) if regex else lines

    def close(self) -> None:
        """End all applications that were launched here and not detached, and remove temporary logs."""
        self._closing = True
        for application in list(self._apps.values()):
            if not is_terminal(application.state):
                application.cancel()
        for folder in self._temporary:
            shutil.rmtree(folder, ignore_errors=True)
        self._temporary.clear()
        _forget(self)


class CannotStart(SchedulerError, FileNotFoundError):
    """A program is not there, or may not be run."""


def _role_status(role: str, record: AppRecord, state: AppState) -> RoleStatus:
    def replica_state(code: int | None) -> AppState:
        if code is None:
            return state if is_terminal(state) else AppState.RUNNING
        if code == 0:
            return AppState.SUCCEEDED
        return AppState.CANCELLED if state is AppState.CANCELLED else AppState.FAILED

    return RoleStatus(
        role,
        [
            ReplicaStatus(one.replica_id, replica_state(one.exitcode), role, "localhost", _error_of(one.error_file))
            for one in record.roles[role]
        ],
    )


def _error_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8") if path else NONE
    except OSError:
        return NONE


def _roles(record: AppRecord) -> list[Role]:
    """The roles as far as the record holds them."""
    from flambeau.launch.specs.serialization import role_from_dict

    return [role_from_dict(role) for role in record.app.get("roles", [])]


def _formatted(request: PopenRequest) -> str:
    import pprint

    return pprint.pformat(asdict(request), indent=2, width=80)


_SCHEDULERS: set[LocalScheduler] = set()
_FORMER_HANDLERS: dict[int, Any] = {}


def _watch_over(scheduler: LocalScheduler) -> None:
    """End its applications when this process is told to end; by a signal only where the main thread asks for it."""
    _watch_this_process()
    if not _SCHEDULERS and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            # Whoever has a handler of his own keeps it.
            if (former := signal.getsignal(number)) in (signal.SIG_DFL, signal.default_int_handler):
                _FORMER_HANDLERS[number] = former
                signal.signal(number, _on_signal)
    _SCHEDULERS.add(scheduler)


def _forget(scheduler: LocalScheduler) -> None:
    _SCHEDULERS.discard(scheduler)
    if not _SCHEDULERS:
        _restore_handlers()


@functools.cache
def _watch_this_process() -> None:
    atexit.register(_close_all)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_begin_child)


def _begin_child() -> None:
    """A forked process has launched nothing: its end is not that of its parent's applications, and needs no handler."""
    _SCHEDULERS.clear()
    _restore_handlers()


def _restore_handlers() -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # Python lets no other thread do so; `_on_signal` then hands over itself
    for number, former in _FORMER_HANDLERS.items():
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, former)
    _FORMER_HANDLERS.clear()


def _close_all() -> None:
    for scheduler in list(_SCHEDULERS):
        scheduler.close()


class _Waiting:
    """Signals that wait for the end of what must not be interrupted."""

    blocks = 0
    number: int | None = None


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """A block at whose end signals come: an exception amid the start of a process would lose that process."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    _Waiting.blocks += 1
    try:
        yield
    finally:
        _Waiting.blocks -= 1
        if not _Waiting.blocks and _Waiting.number is not None:
            number, _Waiting.number = _Waiting.number, None
            _on_signal(number, None)


def _on_signal(number: int, frame: FrameType | None) -> None:
    watching = bool(_SCHEDULERS)
    former = _FORMER_HANDLERS.get(number, signal.SIG_DFL)
    if _Waiting.blocks:
        _Waiting.number = number
        return
    signal.signal(number, signal.SIG_DFL if watching else former)  # a second one ends the process at once
    if not watching:
        signal.raise_signal(number)
        return
    name = signal.Signals(number)
    _close_all()
    raise SignalException(f"ended by {name.name}, with everything that was launched", name)


def create_scheduler(
    session_name: str,
    cache_size: int = 100,
    extra_paths: list[str] | None = None,
    image_provider_class: Callable[[LocalOpts], ImageProvider] = CWDImageProvider,
    **kwargs: Any,
) -> LocalScheduler:
    """A scheduler of processes in the current folder."""
    return LocalScheduler(
        session_name, image_provider_class, cache_size, extra_paths, backend=str(kwargs.get("backend", "local_cwd"))
    )


def create_directory_scheduler(session_name: str, **kwargs: Any) -> LocalScheduler:
    """A scheduler of processes in the folder that the image names."""
    return create_scheduler(
        session_name, image_provider_class=LocalDirectoryImageProvider, **{"backend": "local_dir", **kwargs}
    )
