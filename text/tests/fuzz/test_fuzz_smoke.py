"""Some mutated files with fixed seeds: answers, or the errors that they are to raise.

`nox -s fuzz -- text` reads mutated files for as long as wanted.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

# By its path: other packages have a module of this name too.
_spec = importlib.util.spec_from_file_location("text_fuzz_run", Path(__file__).with_name("run.py"))
assert _spec is not None and _spec.loader is not None
run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run)

pytest.importorskip("sentencepiece")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process by Linux's means")


@pytest.mark.parametrize(("kind", "count"), [("vocabularies", 150), ("vectors", 150)])
def test_mutated_files_are_read_or_refused(kind, count):
    script, _ = run.SCRIPTS[kind]
    done = run.batch(script, 0, count)
    assert done.returncode == 0, run.explain(script, done)
    assert 0.05 * count < int(done.stdout) < 0.95 * count  # neither all sound nor all refused: the mutations tell
