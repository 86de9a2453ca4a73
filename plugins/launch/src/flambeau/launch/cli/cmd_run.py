"""`flambeau launch run COMPONENT` and `flambeau launch builtins`."""

from __future__ import annotations

import argparse
import json
import pprint
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flambeau.launch.cli.argparse_util import torchxconfig_run
from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.cli.cmd_log import get_logs
from flambeau.launch.cli.stopping import Stop
from flambeau.launch.errors import ComponentNotFoundException, LaunchError, RunOptionError
from flambeau.launch.runner import Runner, config, get_runner
from flambeau.launch.schedulers import get_default_scheduler_name, get_scheduler_factories
from flambeau.launch.schedulers.api import Stream
from flambeau.launch.specs.apps import NONE
from flambeau.launch.specs.finder import get_builtin_source, get_components
from flambeau.launch.specs.options import CfgVal, runopts
from flambeau.launch.specs.status import AppState, AppStatus

__all__ = ["MISSING_COMPONENT_ERROR_MSG", "CmdBuiltins", "CmdRun"]

MISSING_COMPONENT_ERROR_MSG = (
    "which component? Name one, as in `flambeau launch run utils.echo`, or set component= in section [cli:run] of "
    ".flambeauconfig. `flambeau launch builtins` lists all."
)
_CHILDREN = ("local_cwd", "local_dir")
"""Schedulers whose applications are children of this process, from the moment that they start."""


class CmdBuiltins(SubCommand):
    """Lists all components."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Which source to print, if any."""
        subparser.add_argument("--print", metavar="NAME", help="print the source of this component, to copy and change")

    def run(self, args: argparse.Namespace) -> None:
        """Print them."""
        if args.print:
            print(get_builtin_source(args.print))
            return
        components = get_components()
        usable = {name: component for name, component in components.items() if not component.validation_errors}
        print(f"Found {len(usable)} builtin components:")
        for number, name in enumerate(sorted(usable), 1):
            print(f" {number:2d}. {name}")
        for name, component in components.items():
            if component.validation_errors:
                print(f"left out: {name}: {'; '.join(component.validation_errors)}", file=sys.stderr)


class CmdRun(SubCommand):
    """Submits a component, and where wanted waits for its end and prints its logs."""

    def __init__(self) -> None:
        self._subparser: argparse.ArgumentParser | None = None

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Scheduler, its options, and the component with its arguments."""
        names = list(get_scheduler_factories())
        self._subparser = subparser
        subparser.add_argument(
            *("-s", "--scheduler"),
            action=torchxconfig_run,
            choices=names,
            default=get_default_scheduler_name(),
            metavar="NAME",
            help=f"one of {', '.join(names)} (default: %(default)s)",
        )
        subparser.add_argument(
            *("-cfg", "--scheduler_args"),
            action=torchxconfig_run,
            default="",
            metavar="OPTIONS",
            help="options of the scheduler, as a=1,b=2; `flambeau launch runopts` lists them",
        )
        subparser.add_argument("--dryrun", action="store_true", help="print the request, and submit nothing")
        subparser.add_argument(
            "--print_request",
            action="store_true",
            help="print the request alone, as sbatch or kubectl read it, and submit nothing",
        )
        subparser.add_argument("--wait", action="store_true", help="wait for the end; local schedulers always do")
        subparser.add_argument(
            "--log", action="store_true", help="print logs, until the end; local schedulers always do"
        )
        subparser.add_argument("--tee_logs", action="store_true", help="the same as --log")
        subparser.add_argument(
            *("--workspace", "--buck-target"),
            action=torchxconfig_run,
            default=f"file://{Path.cwd()}",
            help="folder whose files the replicas shall have; empty for none (default: the current one)",
        )
        subparser.add_argument("--parent_run_id", action=torchxconfig_run, help="run that this one belongs to")
        subparser.add_argument(
            "--stdin",
            action="store_true",
            help="read all this from a JSON object on the standard input: scheduler, scheduler_args, component_name, "
            "component_args, workspace",
        )
        subparser.add_argument(
            "component_name_and_args",
            nargs=argparse.REMAINDER,
            metavar="COMPONENT ...",
            help="component, its arguments",
        )

    def run(self, args: argparse.Namespace) -> None:
        """Submit it; exits with 1 where it is waited for and does not succeed."""
        if args.stdin:
            _from_stdin(args)
        defaults = config.load_sections("component")
        with Stop() as stop, get_runner(component_defaults=defaults) as runner:
            self._run(runner, args, stop)

    def _run(self, runner: Runner, args: argparse.Namespace, stop: Stop) -> None:
        component, arguments = _component(args.component_name_and_args)
        options = runner.scheduler_run_opts(args.scheduler)
        cfg = args.scheduler_args if isinstance(args.scheduler_args, dict) else _options(options, args.scheduler_args)
        info = runner.dryrun_component(
            component, arguments, args.scheduler, cfg, args.workspace or None, args.parent_run_id
        )
        if args.print_request:
            print(runner._scheduler(args.scheduler).request_text(info))
            return
        if args.dryrun:
            assert info._app is not None
            print(f"\n=== APPLICATION ===\n{pprint.pformat(asdict(info._app), indent=2, width=80)}")
            print(f"\n=== SCHEDULER REQUEST ===\n{info}")
            return
        ours = args.scheduler in _CHILDREN and not info._cfg.get("detach")
        if ours:
            stop.listen()
        handle = runner.schedule(info)
        print(handle, flush=True)
        if ours or args.scheduler == "local_docker":
            self._accompany(runner, handle, stop)
        elif args.wait or args.log or args.tee_logs:
            self._wait(runner, handle, log=args.log or args.tee_logs)

    def _accompany(self, runner: Runner, handle: str, stop: Stop) -> None:
        """Print what an application on this machine says until it ends; it ends where this command is told to."""
        stop.listen()
        printer = _Printer(runner, handle, Stream.COMBINED)
        while stop.number is None:
            status = runner.status(handle)
            if status is None or status.is_terminal():
                printer.finish()
                _tell_end(handle, status)
                return
            time.sleep(0.02)
        runner.cancel(handle)
        printer.join()

    def _wait(self, runner: Runner, handle: str, *, log: bool) -> None:
        printer = _Printer(runner, handle, None) if log else None
        try:
            status = runner.wait(handle, wait_interval=1)
            if printer is not None:
                printer.finish()
        except KeyboardInterrupt:
            cancel = f"flambeau launch cancel {handle}"
            print(f"flambeau launch: interrupted; {handle} goes on. To end it: {cancel}", file=sys.stderr)
            sys.exit(130)
        _tell_end(handle, status)


def _tell_end(handle: str, status: AppStatus | None) -> None:
    """Exit with 1 where the application did not succeed."""
    if status is None:
        raise LaunchError(f"{handle} is not known to its scheduler any more, so nobody knows how it ended.")
    if status.state is not AppState.SUCCEEDED:
        print(_ending(handle, status), file=sys.stderr)
        sys.exit(1)


def _ending(handle: str, status: AppStatus) -> str:
    text = f"flambeau launch: {handle} {status.state.name}"
    if status.msg and status.msg != NONE:
        text += f": {status.msg}"
    return text if status.structured_error_msg == NONE else f"{text}\n{status.format()}"


class _Printer:
    """Prints logs while another thread waits for the end."""

    def __init__(self, runner: Runner, handle: str, streams: Stream | None) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._print, args=(runner, handle, streams), daemon=True)
        self._thread.start()

    def _print(self, runner: Runner, handle: str, streams: Stream | None) -> None:
        try:
            get_logs(sys.stdout, handle, None, should_tail=True, runner=runner, streams=streams)
        except Exception as error:  # in a thread: said where it is joined
            self._error = error

    def join(self, timeout_s: float = 5) -> None:
        """Wait until everything is printed."""
        self._thread.join(timeout_s)

    def finish(self, timeout_s: float = 30) -> None:
        """Wait likewise, and say what went wrong; an error of the logs does not change how the application ended."""
        self.join(timeout_s)
        if self._error is not None:
            print(f"flambeau launch: warning: logs: {self._error}", file=sys.stderr)


def _component(words: list[str]) -> tuple[str, list[str]]:
    """The component and its arguments; a name that configuration files have stands in for one that is missing."""
    configured = config.get_config("cli", "run", "component")
    words = words[1:] if words[:1] == ["--"] else words
    if words and not words[0].startswith("-"):
        return words[0], words[1:]
    if configured:
        return configured, words
    raise ComponentNotFoundException(MISSING_COMPONENT_ERROR_MSG)


def _options(options: runopts, text: str) -> dict[str, CfgVal]:
    """Options of a command line, where a name that nobody knows is a mistake."""
    from flambeau.launch.util.types import to_dict

    try:
        names: Mapping[str, Any] = to_dict(text)
    except ValueError as error:
        raise RunOptionError(f"-cfg {text}: {error}") from None
    if wrong := options.unknown(dict(names)):
        raise RunOptionError(f"-cfg {text}: {wrong}")
    return options.cfg_from_str(text)


def _from_stdin(args: argparse.Namespace) -> None:
    """Take what a JSON object on the standard input says."""
    try:
        given = json.load(sys.stdin)
    except ValueError as error:
        raise RunOptionError(f"--stdin: the standard input is not JSON: {error}.") from None
    known = {"scheduler", "scheduler_args", "component_name", "component_args", "workspace", "parent_run_id"}
    if not isinstance(given, dict) or "component_name" not in given or set(given) - known:
        raise RunOptionError(f"--stdin: expected a JSON object with component_name, and of {', '.join(sorted(known))}.")
    arguments = given.get("component_args", [])
    if isinstance(arguments, dict):
        arguments = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
    args.component_name_and_args = [given["component_name"], *map(str, arguments)]
    for name in ("scheduler", "scheduler_args", "workspace", "parent_run_id"):
        if name in given:
            setattr(args, name, given[name])
