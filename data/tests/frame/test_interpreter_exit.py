"""A process may end while threads compute frames that nobody waits for."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def run(code, *arguments):
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    values = np.random.default_rng(0).integers(0, 1 << 40, 20_000)
    pq.write_table(pa.table({"a": values}), path, row_group_size=2_000)
    return path


LOOP = """
    import sys, threading, time
    import flambeau.data.frame as ta
    from flambeau.data.frame import dtypes as dt, functional

    started = threading.Event()

    def compute():
        while True:
            frame = ta.scan_parquet(sys.argv[1])
            frame["hash"] = functional.sigrid_hash(frame["a"], 1, 100)
            frame["more"] = frame["a"].map(lambda value: value + 1, dtype=dt.int64)
            frame.collect()
            started.set()

    for _ in range(2):
        threading.Thread(target=compute, daemon=True).start()
    started.wait()
"""


@pytest.mark.parametrize("_attempt", range(3))  # without the wait, two of three ended by a signal
def test_a_process_ends_while_daemon_threads_compute(file, _attempt):
    done = run(LOOP, file)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_runs_at_exit_still_computes():
    code = """
        import atexit
        import flambeau.data.frame as ta

        atexit.register(lambda: print(ta.column([1, 2]).map(lambda value: value + 1).to_pylist()))
    """
    done = run(code)
    assert (done.returncode, done.stdout) == (0, "[2, 3]\n"), done.stderr


def test_what_runs_at_exit_after_the_engine_said_goodbye_still_computes():
    code = """
        import atexit

        def last():
            column = ta.column([1, 2])
            print((column + 1).to_pylist())

        atexit.register(last)
        import flambeau.data.frame as ta
        ta.column([1]).to_pylist()
    """
    done = run(code)
    assert (done.returncode, done.stdout) == (0, "[2, 3]\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_wait_for_the_queries_of_its_parent(file):
    code = f"""{LOOP}
    import os, warnings
    warnings.simplefilter("ignore")
    child = os.fork()
    if not child:
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = run(code, file)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
