"""What lies beside the tests is importable by its name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_terminal_summary(terminalreporter):
    """How many recorded programs ran, and how many wait for names that the package does not have yet."""
    programs = sys.modules.get("programs")
    for topic, counts in sorted(getattr(programs, "COUNTS", {}).items()):
        terminalreporter.write_line(f"{topic}: {counts['run']} programs run, {counts['not built']} not built yet")
