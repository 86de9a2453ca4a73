"""The tables of cells beside the tests are importable by their names."""

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def no_configuration(tmp_path, monkeypatch):
    """Neither library reads configuration of the machine."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def handlers_as_before():
    """Torchx's local scheduler leaves its handlers of signals behind; they end with the cell."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
