"""The pytest side of the conformance kit: `pytest --flambeau-conformance PLUGIN`.

Installed with flambeau-core and loaded by every pytest run on the machine, so it imports nothing until its option is
given. With the option, and no paths named on the command line, the conformance checks are all that runs.

A run with differential suites ends with their counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flambeau.core.testing.results import BoundCheck

_OPTION = "flambeau_conformance"
_LEVEL = "flambeau_conformance_level"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("flambeau", "conformance of Flambeau plugins")
    group.addoption(
        "--flambeau-conformance",
        action="append",
        default=[],
        dest=_OPTION,
        metavar="PLUGIN",
        help="check everything this plugin registers; may be given several times, 'all' means every plugin",
    )
    group.addoption(
        "--flambeau-conformance-level",
        choices=("default", "full"),
        default="default",
        dest=_LEVEL,
        help="full also compiles and exports each model, computes large models, and starts fresh interpreters",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Leave the project's own tests out where no path asks for them."""
    if config.getoption(_OPTION) and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose among the items
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add one item per check and subject."""
    for plugin in _chosen(config):
        collector = ConformanceCollector.from_parent(session, name=plugin, nodeid=f"conformance::{plugin}")
        items.extend(session.genitems(collector))  # a plugin that fails here is a collection error, like a test file
        session.testscollected = len(items)


def _chosen(config: pytest.Config) -> list[str]:
    names: list[str] = config.getoption(_OPTION)
    if not names:
        return []
    from flambeau.core.plugins.manager import discover

    found = {name: plugin.state for name, plugin in discover().items()}
    usable = [name for name, state in found.items() if state == "ok"]
    chosen = usable if "all" in names else list(dict.fromkeys(names))
    for name in chosen:
        if name not in usable:
            why = f"is {found[name]}; `flambeau doctor` says why" if name in found else "is not installed"
            raise pytest.UsageError(
                f"plugin {name!r} {why}. Plugins that can be checked: {', '.join(usable) or 'none'}."
            )
    return chosen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts of the differential suites of which a cell was run."""
    if "flambeau.core.testing.differential.suite" in sys.modules:
        from flambeau.core.testing.differential.report import summary

        if counts := summary():
            terminalreporter.section("differential suites")
            terminalreporter.write_line(counts)


class ConformanceCollector(pytest.Collector):
    """The checks of one plugin."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item per check and subject, in the order that lets subjects be built once."""
        from flambeau.core.testing.collection import plugin_checks

        for bound in plugin_checks(self.name, level=self.config.getoption(_LEVEL)):
            yield ConformanceItem.from_parent(self, name=f"{bound.kind}::{bound.subject}::{bound.check}", bound=bound)


class ConformanceItem(pytest.Item):
    """One check of one subject."""

    def __init__(self, *, bound: BoundCheck, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]  # pytest passes its own construction arguments
        self.bound = bound
        if bound.expected is not None:
            self.add_marker(pytest.mark.xfail(reason=bound.expected, strict=True))

    def runtest(self) -> None:
        """Ask."""
        from flambeau.core.testing.results import NotApplicable

        try:
            self.bound.ask()
        except NotApplicable as reason:
            pytest.skip(f"not applicable: {reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """The finding alone where the kit worded it, with a traceback where the subject raised something itself."""
        from flambeau.core.testing.results import CheckFailed

        heading = f"{self.bound.subject}: {self.bound.question}\n"
        if isinstance(excinfo.value, CheckFailed):
            return f"{heading}{excinfo.value}"
        return f"{heading}{super().repr_failure(excinfo)}"

    def reportinfo(self) -> tuple[str, int | None, str]:
        """Where the item is shown."""
        return f"conformance of {self.bound.subject}", None, f"{self.bound.check}:{self.bound.subject}"
