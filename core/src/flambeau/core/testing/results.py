"""Checks with names, and what came of them.

A check is a function of one subject that returns when the subject is right, raises `CheckFailed` (or anything else)
when it is wrong, and raises `NotApplicable` when the question does not arise. `run` turns that into a `Result`.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Status = Literal["passed", "failed", "xfailed", "xpassed", "not-applicable"]
Level = Literal["default", "full"]

_Subject = TypeVar("_Subject")


class CheckFailed(AssertionError):
    """A subject does not do what its kind promises; the message says what was found and what was expected."""


class NotApplicable(Exception):  # not an error: the question does not arise for this subject
    """A check has nothing to say about a subject, and why."""


@dataclass(frozen=True)
class Result:
    """What came of one check of one subject.

    Args:
        check: name of the check, such as "eval-deterministic".
        subject: what was checked: "plugin/name", for operators with the sample behind it.
        status: "passed" and "failed" speak for themselves. "xfailed": failed, as the plugin declares with a reason.
            "xpassed": passed although declared to fail, which counts against the plugin until the declaration is
            removed. "not-applicable": the question does not arise.
        message: why, empty for a plain pass.
        seconds: wall time.
    """

    check: str
    subject: str
    status: Status
    message: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing has to be done about it."""
        return self.status in ("passed", "xfailed", "not-applicable")

    def __str__(self) -> str:
        return f"{self.status}: {self.check}:{self.subject}{f' ({self.message})' if self.message else ''}"


@dataclass(frozen=True)
class Check(Generic[_Subject]):
    """One named question about one kind of subject.

    Args:
        name: in the kebab-case of results.
        question: what a subject does that passes, one sentence.
        function: the check itself.
        level: "full" for what takes long and is asked on request only.
    """

    name: str
    question: str
    function: Callable[[_Subject], None]
    level: Level = "default"


class Catalogue(Generic[_Subject]):
    """The checks of one kind, in the order they are asked; filled by its decorator."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.checks: list[Check[_Subject]] = []

    def check(
        self, name: str, *, level: Level = "default"
    ) -> Callable[[Callable[[_Subject], None]], Callable[[_Subject], None]]:
        """Add the decorated function; the first line of its docstring is the question."""

        def decorate(function: Callable[[_Subject], None]) -> Callable[[_Subject], None]:
            question = (function.__doc__ or "").partition("\n")[0]
            self.checks.append(Check(name, question, function, level))
            return function

        return decorate

    def at(self, level: Level) -> Iterator[Check[_Subject]]:
        """The checks to ask: those of the default level, and with "full" all."""
        return (check for check in self.checks if level == "full" or check.level == "default")


@dataclass(frozen=True)
class BoundCheck:
    """One check of one subject, ready to be asked.

    Args:
        kind: "model", "dataset", "op", "transform", "tensor-type" or "plugin".
        check: the check's name.
        subject: the subject's name.
        question: what a subject does that passes.
        ask: raises `CheckFailed` or `NotApplicable`, or returns.
        expected: the reason why it is expected to fail, None where it is expected to pass.
    """

    kind: str
    check: str
    subject: str
    question: str
    ask: Callable[[], None]
    expected: str | None = None

    @property
    def name(self) -> str:
        """Name that expected failures refer to."""
        return f"{self.check}:{self.subject}"


def bind(
    catalogue: Catalogue[_Subject],
    subject: _Subject,
    name: str,
    *,
    level: Level,
    expected_failures: Mapping[str, str] | None = None,
) -> list[BoundCheck]:
    """The checks of a kind, each tied to one subject."""
    bound = []
    for check in catalogue.at(level):
        reason = expectation(f"{check.name}:{name}", expected_failures or {})
        ask = _Ask(check.function, subject)
        bound.append(BoundCheck(catalogue.kind, check.name, name, check.question, ask, reason))
    return bound


@dataclass(frozen=True)
class _Ask:
    function: Callable[[Any], None]
    subject: Any

    def __call__(self) -> None:
        self.function(self.subject)


def expectation(name: str, expected_failures: Mapping[str, str]) -> str | None:
    """The declared reason for a "check:subject", found by its name or by a wildcard pattern."""
    if name in expected_failures:
        return expected_failures[name]
    return next((reason for pattern, reason in expected_failures.items() if fnmatch.fnmatchcase(name, pattern)), None)


def run(bound: Iterable[BoundCheck]) -> list[Result]:
    """Ask each check and keep what came of it; a failing subject stops nothing."""
    return [_run_one(check) for check in bound]


def _run_one(bound: BoundCheck) -> Result:
    start = time.perf_counter()
    status: Status = "passed"
    message = ""
    try:
        bound.ask()
    except NotApplicable as reason:
        status, message = "not-applicable", str(reason)
    except CheckFailed as failure:
        status, message = "failed", str(failure)
    except Exception as error:  # whatever somebody else's code raises is a finding about it, as in any test runner
        status, message = "failed", f"{type(error).__name__}: {error}"
    if bound.expected is not None and status == "failed":
        status, message = "xfailed", f"{bound.expected} [{message}]"
    elif bound.expected is not None and status == "passed":
        status = "xpassed"
        message = f"expected to fail ({bound.expected}), but passes; remove it from `expected_failures`"
    return Result(bound.check, bound.subject, status, message, time.perf_counter() - start)
