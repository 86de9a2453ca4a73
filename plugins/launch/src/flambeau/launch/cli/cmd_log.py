"""`flambeau launch log HANDLE/ROLE/REPLICAS`."""

from __future__ import annotations

import argparse
import re
import sys
import threading
import time
from queue import Queue
from typing import TextIO

from flambeau.launch import specs
from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.cli.colors import ENDC, GREEN
from flambeau.launch.errors import LogsUnavailable, SpecError, UnknownAppException
from flambeau.launch.runner import Runner, get_runner
from flambeau.launch.schedulers.api import Stream
from flambeau.launch.specs.handles import make_app_handle
from flambeau.launch.specs.status import is_started

__all__ = ["ID_FORMAT", "CmdLog", "find_role_replicas", "get_logs", "print_log_lines", "validate"]

ID_FORMAT = "SCHEDULER://[SESSION_NAME]/APP_ID/[ROLE_NAME/[REPLICA_IDS,...]]"
_IDENTIFIER = re.compile(
    r"(?P<scheduler>[^:/]+)://(?P<session>[^/]*)/(?P<app>[^/]+)(?:/(?P<role>[^/]+)(?:/(?P<replicas>\d+(?:,\d+)*))?)?/?"
)
_EVERY_S = 0.02
_printing = threading.Lock()


def validate(job_identifier: str) -> None:
    """Refuse what names no application.

    Raises:
        SystemExit: it does not; the form is printed.
    """
    if not _IDENTIFIER.fullmatch(job_identifier):
        print(f"{job_identifier!r} names no application; expected {ID_FORMAT}", file=sys.stderr)
        sys.exit(1)


def print_log_lines(
    file: TextIO,
    runner: Runner,
    app_handle: str,
    role_name: str,
    replica_id: int,
    regex: str,
    should_tail: bool,
    exceptions: Queue[Exception],
    streams: Stream | None,
) -> None:
    """Print what a replica wrote, each line behind its role and number; an error goes to the queue."""
    try:
        for line in runner.log_lines(
            app_handle, role_name, replica_id, regex, should_tail=should_tail, streams=streams
        ):
            text = line if line.endswith("\n") else f"{line}\n"
            with _printing:  # replicas print whole lines, one after the other
                print(f"{GREEN}{role_name}/{replica_id}{ENDC} {text}", file=file, end="", flush=True)
    except Exception as error:  # in a thread: whoever joins it raises it
        exceptions.put(error)


def get_logs(
    file: TextIO,
    identifier: str,
    regex: str | None,
    should_tail: bool = False,
    runner: Runner | None = None,
    streams: Stream | None = None,
) -> None:
    """Print what an application's replicas wrote, all at once.

    Args:
        file: where to.
        identifier: application, role and replicas, see `ID_FORMAT`.
        regex: what lines must have in them.
        should_tail: go on until the application ends.
        runner: to ask; a new one where not given.
        streams: what they wrote to.

    Raises:
        UnknownAppException: the scheduler does not know the application.
        LogsUnavailable: a replica has no logs, or none any more.
    """
    validate(identifier)
    match = _IDENTIFIER.fullmatch(identifier)
    assert match is not None
    runner = runner or get_runner()
    handle = make_app_handle(match["scheduler"], match["session"] or "torchx", match["app"])
    app = _started(runner, handle)
    replicas = [int(number) for number in match["replicas"].split(",")] if match["replicas"] else None
    found = find_role_replicas(app, match["role"])
    if not found:
        known = ", ".join(role.name for role in app.roles)
        raise LogsUnavailable(f"{handle} has no role {match['role']!r}; it has {known or 'none that are known'}.")
    chosen = [(role, number) for role, number in found if replicas is None or number in replicas]
    if not chosen:
        raise LogsUnavailable(f"{handle} has no replica {match['replicas']} of role {match['role']!r}.")
    _print_all(file, runner, handle, chosen, regex or "", should_tail, streams)


def _started(runner: Runner, handle: str) -> specs.AppDef:
    """The application once it writes logs, or will not any more."""
    while True:
        status = runner.status(handle)
        app = runner.describe(handle) if status else None
        if status is None or app is None:
            raise UnknownAppException(handle)
        if is_started(status.state):
            return app
        time.sleep(1 if handle.partition("://")[0] not in ("local_cwd", "local_dir") else _EVERY_S)


def _print_all(
    file: TextIO,
    runner: Runner,
    handle: str,
    chosen: list[tuple[str, int]],
    regex: str,
    should_tail: bool,
    streams: Stream | None,
) -> None:
    errors: Queue[Exception] = Queue()
    threads = [
        threading.Thread(
            target=print_log_lines,
            args=(file, runner, handle, role, number, regex, should_tail, errors, streams),
            daemon=True,
        )
        for role, number in chosen
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not errors.empty():
        raise errors.get()


def find_role_replicas(app: specs.AppDef, role_name: str | None) -> list[tuple[str, int]]:
    """Role and number of all replicas, or of those of one role."""
    roles = [role for role in app.roles if role_name is None or role.name == role_name]
    return [(role.name, number) for role in roles for number in range(role.num_replicas)]


class CmdLog(SubCommand):
    """Prints what replicas wrote."""

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Whose lines, and which."""
        subparser.add_argument("--regex", help="print only lines in which this pattern occurs")
        subparser.add_argument("-t", "--tail", action="store_true", help="go on until the application ends")
        subparser.add_argument(
            "--streams",
            choices=[stream.value for stream in Stream],
            help="what they wrote to; the scheduler's own choice where not given",
        )
        subparser.add_argument("identifier", metavar=ID_FORMAT.replace("%", "%%"), help="which replicas")

    def run(self, args: argparse.Namespace) -> None:
        """Print them."""
        if args.regex:
            try:
                re.compile(args.regex)
            except re.error as error:
                raise SpecError(f"--regex {args.regex!r} is no pattern: {error}.") from None
        streams = Stream(args.streams) if args.streams else None
        with get_runner() as runner:
            get_logs(sys.stdout, args.identifier, args.regex, args.tail, runner, streams)
