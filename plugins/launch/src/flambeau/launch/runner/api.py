"""Submit applications, and watch over them."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

from flambeau.core.errors import close_names
from flambeau.launch.errors import SpecError, UnknownAppException, UnknownSchedulerException
from flambeau.launch.runner import config
from flambeau.launch.runner.events import log_event
from flambeau.launch.schedulers import SchedulerFactory, get_scheduler_factories
from flambeau.launch.schedulers.api import ListAppResponse, Scheduler, Stream
from flambeau.launch.specs.apps import NONE, AppDef, AppDryRunInfo
from flambeau.launch.specs.builders import materialize_appdef
from flambeau.launch.specs.finder import get_component
from flambeau.launch.specs.handles import AppHandle, make_app_handle, parse_app_handle
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.options import CfgVal, runopts
from flambeau.launch.specs.status import AppStatus
from flambeau.launch.tracker.api import (
    ENV_TORCHX_JOB_ID,
    ENV_TORCHX_PARENT_RUN_ID,
    ENV_TORCHX_TRACKERS,
    tracker_config_env_var_name,
)
from flambeau.launch.workspace.api import WorkspaceMixin

__all__ = ["NONE", "Runner", "get_configured_trackers", "get_runner"]

log = logging.getLogger(__name__)


def get_configured_trackers() -> dict[str, str | None]:
    """The trackers that configuration files name, with the file that each is made of; from `[torchx:tracker]`."""
    names = {**config.get_configs("torchx", "tracker"), **config.get_configs("launch", "tracker")}
    return {name: config.get_config("tracker", name, "config") or value or None for name, value in names.items()}


class UnknownBackend(UnknownSchedulerException, KeyError):
    """No scheduler has this name."""


class Runner:
    """Submits applications to schedulers by their names; a context manager that closes them at its end.

    Args:
        name: what handles have in their middle.
        scheduler_factories: name -> what makes the scheduler, which happens when it is first asked for.
        component_defaults: component -> argument -> default as text.
        scheduler_params: keywords for all factories.

    Example:
        >>> from flambeau.launch.components.utils import echo
        >>> with get_runner() as runner:
        ...     handle = runner.run(echo("hello"), "local_cwd")
        ...     print(runner.wait(handle, wait_interval=0.05).state)
        SUCCEEDED
    """

    def __init__(
        self,
        name: str,
        scheduler_factories: dict[str, SchedulerFactory],
        component_defaults: dict[str, dict[str, str]] | None = None,
        scheduler_params: dict[str, object] | None = None,
    ) -> None:
        self._name = name
        self._scheduler_factories = scheduler_factories
        self._scheduler_params = scheduler_params or {}
        self._scheduler_instances: dict[str, Scheduler[Any]] = {}
        self._apps: dict[AppHandle, AppDef] = {}
        self._component_defaults = component_defaults or {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.close()
        return None

    def close(self) -> None:
        """Close all schedulers; applications that are children of this process end. Called again, does nothing."""
        for scheduler in self._scheduler_instances.values():
            scheduler.close()

    def name(self) -> str:
        """The session's name."""
        return self._name

    def run_component(
        self,
        component: str,
        component_args: list[str],
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: str | None = None,
        parent_run_id: str | None = None,
    ) -> AppHandle:
        """Submit a component; as `dryrun_component`, then `schedule`.

        Returns:
            A handle, by which the application can be asked for.
        """
        info = self.dryrun_component(component, component_args, scheduler, cfg, workspace, parent_run_id)
        return self.schedule(info)

    def dryrun_component(
        self,
        component: str,
        component_args: list[str],
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: str | None = None,
        parent_run_id: str | None = None,
    ) -> AppDryRunInfo[Any]:
        """The request for a component, which reaches nobody.

        Args:
            component: name such as `utils.echo`, or `file.py:function`.
            component_args: words of a command line.
            scheduler: name of the scheduler.
            cfg: its options; configuration files add what is not given.
            workspace: folder whose files the replicas shall have; images are built for it here already.
            parent_run_id: run that this one belongs to, for trackers.

        Raises:
            ComponentNotFoundException: there is no such component.
            ComponentValidationException: it breaks the rules for components.
            SystemExit: its arguments cannot be read; argparse has said why.
        """
        found = get_component(component)
        app = materialize_appdef(found.fn, component_args, self._component_defaults.get(component))
        return self.dryrun(app, scheduler, cfg, workspace, parent_run_id)

    def run(
        self,
        app: AppDef,
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: str | None = None,
        parent_run_id: str | None = None,
    ) -> AppHandle:
        """Submit an application; as `dryrun`, then `schedule`."""
        with log_event("run", scheduler=scheduler, workspace=workspace):
            return self.schedule(self.dryrun(app, scheduler, cfg, workspace, parent_run_id))

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> AppHandle:
        """Submit a request that `dryrun` made, changed or not.

        Raises:
            SchedulerError: the scheduler refuses it, or cannot be reached.
        """
        name = dryrun_info._scheduler
        if name is None or dryrun_info._app is None:
            raise SpecError("the request names no scheduler or application; let Runner.dryrun make it.")
        images = ",".join(role.image for role in dryrun_info._app.roles)
        runcfg = json.dumps(dict(dryrun_info._cfg), default=str)
        with log_event("schedule", scheduler=name, app_image=images, runcfg=runcfg) as event:
            app_id = self._scheduler(name).schedule(dryrun_info)
            handle = make_app_handle(name, self._name, app_id)
            event._torchx_event.app_id = app_id
        self._apps[handle] = dryrun_info._app
        return handle

    def dryrun(
        self,
        app: AppDef,
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: str | None = None,
        parent_run_id: str | None = None,
    ) -> AppDryRunInfo[Any]:
        """The request for an application, which reaches nobody; see `dryrun_component`.

        The roles get environment variables by which they find their id and their trackers.

        Raises:
            SpecError: (a ValueError) the application has no roles, or a role no replicas.
            UnknownBackend: (a KeyError) there is no such scheduler.
            InvalidRunConfigException: an option is missing, or of a wrong type.
            WorkspaceError: (a ValueError) the workspace cannot be packed.
        """
        _validate(app)
        backend = self._scheduler(scheduler)
        options = dict(cfg or {})
        config.apply(scheduler, options)
        self._set_environment(app, scheduler, parent_run_id)
        resolved = backend.run_opts().resolve(options)
        with log_event("dryrun", scheduler=scheduler, runcfg=json.dumps(options, default=str), workspace=workspace):
            if workspace and isinstance(backend, WorkspaceMixin):
                for role in app.roles:
                    previous = role.image
                    backend.build_workspace_and_update_role(role, workspace, resolved)
                    if role.image != previous:
                        log.info("workspace %s is in %s, for role %s", workspace, role.image, role.name)
            info = backend.submit_dryrun(app, resolved)
        info._scheduler = scheduler
        return info

    def _set_environment(self, app: AppDef, scheduler: str, parent_run_id: str | None) -> None:
        trackers = get_configured_trackers()
        for role in app.roles:
            role.env[ENV_TORCHX_JOB_ID] = make_app_handle(scheduler, self._name, macros.app_id)
            if parent := parent_run_id or os.environ.get(ENV_TORCHX_PARENT_RUN_ID):
                role.env[ENV_TORCHX_PARENT_RUN_ID] = parent
            if trackers:
                role.env[ENV_TORCHX_TRACKERS] = ",".join(trackers)
                for name, file in trackers.items():
                    if file:
                        role.env[tracker_config_env_var_name(name)] = file

    def scheduler_run_opts(self, scheduler: str) -> runopts:
        """The options of a scheduler."""
        return self._scheduler(scheduler).run_opts()

    def scheduler_backends(self) -> list[str]:
        """Names of all schedulers."""
        return list(self._scheduler_factories)

    def status(self, app_handle: AppHandle) -> AppStatus | None:
        """How an application stands; None where the scheduler does not know it, or not any more."""
        scheduler, name, app_id = self._resolve(app_handle)
        with log_event("status", name, app_id):
            about = scheduler.describe(app_id)
        if about is None:
            self._apps.pop(app_handle, None)
            return None
        return AppStatus(
            about.state,
            about.num_restarts,
            about.msg,
            about.structured_error_msg,
            about.ui_url,
            about.roles_statuses,
        )

    def wait(self, app_handle: AppHandle, wait_interval: float = 10) -> AppStatus | None:
        """Wait until an application has ended.

        Args:
            app_handle: of the application.
            wait_interval: seconds between two questions.

        Returns:
            How it ended; None where the scheduler does not know it, or not any more.
        """
        while True:
            status = self.status(app_handle)
            if status is None or status.is_terminal():
                return status
            time.sleep(wait_interval)

    def cancel(self, app_handle: AppHandle) -> None:
        """Cancel an application; does nothing where it is not known or has ended."""
        scheduler, name, app_id = self._resolve(app_handle)
        with log_event("cancel", name, app_id):
            scheduler.cancel(app_id)

    def stop(self, app_handle: AppHandle) -> None:
        """As `cancel`, by its former name; does what it always did, with a warning."""
        import warnings

        warnings.warn("Runner.stop is called Runner.cancel now.", DeprecationWarning, stacklevel=2)
        self.cancel(app_handle)

    def describe(self, app_handle: AppHandle) -> AppDef | None:
        """The application behind a handle, as far as this runner or the scheduler remembers it; None for no memory."""
        scheduler, name, app_id = self._resolve(app_handle)
        with log_event("describe", name, app_id):
            if app := self._apps.get(app_handle):
                return app
            about = scheduler.describe(app_id)
        return AppDef(app_id, about.roles) if about else None

    def log_lines(
        self,
        app_handle: AppHandle,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """The lines that a replica wrote, with their ends; see `Scheduler.log_iter`.

        Raises:
            UnknownAppException: the scheduler does not know the application.
            LogsUnavailable: there is no such replica, or its logs are gone.
        """
        scheduler, name, app_id = self._resolve(app_handle)
        with log_event("log_lines", name, app_id):
            if not scheduler.exists(app_id):
                raise UnknownAppException(app_handle)
            return scheduler.log_iter(app_id, role_name, k, regex, since, until, should_tail, streams)

    def list(self, scheduler: str) -> list[ListAppResponse]:
        """The applications that a scheduler knows, with their handles."""
        with log_event("list", scheduler):
            apps = self._scheduler(scheduler).list()
        for app in apps:
            if app.app_handle == "<NOT_SET>":
                app.app_handle = make_app_handle(scheduler, self._name, app.app_id)
        return apps

    def _resolve(self, app_handle: AppHandle) -> tuple[Scheduler[Any], str, str]:
        backend, _, app_id = parse_app_handle(app_handle)
        return self._scheduler(backend), backend, app_id

    def _scheduler(self, name: str) -> Scheduler[Any]:
        if name not in self._scheduler_instances:
            factory = self._scheduler_factories.get(name)
            if factory is None:
                raise UnknownBackend(name, _known(name, self._scheduler_factories))
            self._scheduler_instances[name] = factory(self._name, **self._scheduler_params)
        return self._scheduler_instances[name]

    def __repr__(self) -> str:
        return f"Runner(name={self._name}, schedulers={self._scheduler_factories}, apps={self._apps})"


def _known(name: str, schedulers: Iterable[str]) -> str:
    from flambeau.launch.plugins import broken_plugins

    if why := broken_plugins().get(name):
        return f"{', '.join(schedulers)}; {why}"
    near = close_names(name, schedulers)
    return f"{', '.join(schedulers)}" + (f"; did you mean {' or '.join(near)}?" if near else "")


def _validate(app: AppDef) -> None:
    if not app.roles:
        raise SpecError(f"application {app.name!r} has no roles; give it at least one.")
    for role in app.roles:
        if not role.entrypoint:
            raise SpecError(f"role {role.name!r} of {app.name!r} names no program; set Role.entrypoint.")
        if role.num_replicas <= 0:
            raise SpecError(
                f"role {role.name!r} of {app.name!r} has {role.num_replicas} replicas; expected at least 1."
            )


def get_runner(
    name: str | None = None, component_defaults: dict[str, dict[str, str]] | None = None, **scheduler_params: Any
) -> Runner:
    """A runner over all schedulers that are installed.

    Args:
        name: of the session, which handles have in their middle.
        component_defaults: component -> argument -> default as text.
        scheduler_params: keywords for all schedulers, such as `cache_size` of local ones.
    """
    if name:
        import warnings

        warnings.warn(
            f"Names of sessions will go; begin the application's name with {name!r} instead.",
            FutureWarning,
            stacklevel=2,
        )
    return Runner(name or "torchx", get_scheduler_factories(), component_defaults, scheduler_params)
