"""A few hundred mutated files with fixed seeds: pictures, frames or the errors that they are to raise.

`nox -s fuzz -- vision` reads mutated files for as long as wanted.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

# By its path: other packages have a module of this name too.
_spec = importlib.util.spec_from_file_location("vision_fuzz_run", Path(__file__).with_name("run.py"))
assert _spec is not None and _spec.loader is not None
run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process by Linux's means")


@pytest.mark.parametrize(("kind", "count"), [("images", 600), ("videos", 300)])
def test_mutated_files_are_read_or_refused(kind, count):
    if kind == "videos":
        pytest.importorskip("av")
    script, _ = run.SCRIPTS[kind]
    done = run.batch(script, 0, count)
    assert done.returncode == 0, run.explain(script, done)
    assert 0.1 * count < int(done.stdout) < 0.9 * count  # neither all sound nor all refused: the mutations are telling
