"""Several processes, processes that are killed, disks that are full, and file systems without locks."""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import filelock
import pytest

from flambeau.core import files
from flambeau.core.errors import DiskFullError
from flambeau.core.hub import downloads, fetch, temporary_files
from flambeau.core.testing.server import FileServer, Reply

MB = 1 << 20
DATA = random.Random(0).randbytes(50 * MB)
SHA = hashlib.sha256(DATA).hexdigest()
NAME = f"{SHA[:16]}-big.bin"
PROGRAM = (
    "import sys; from flambeau.core.hub import fetch; print(fetch(sys.argv[1], sha256=sys.argv[2], root=sys.argv[3]))"
)
NO_LOCKS = """
import filelock
def unsupported(*arguments, **options):
    raise NotImplementedError("no locks on this file system")
filelock.FileLock.acquire = unsupported
"""

pytestmark = pytest.mark.usefixtures("flambeau_home")
needs_sigkill = pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")


@pytest.fixture
def server():
    with FileServer({"big.bin": DATA}) as server:
        yield server


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def start(server, root):
    """Start a process that fetches the big file; what still runs at the end is killed."""
    started = []

    def start(program=PROGRAM):
        command = [sys.executable, "-c", program, server.url("big.bin"), SHA, str(root)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finished(process, root):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert Path(out.strip()) == root / NAME


def kill_at(server, root, start, size, *, before=0):
    """Let a process fetch up to `size` bytes and kill it when they are in its partial file."""
    server.next("big.bin", Reply(wait_after=size - before, gate=threading.Event()))
    process = start()
    end = time.monotonic() + 60
    while not any(path.stat().st_size == size for path in root.glob("*.part")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_four_processes_that_ask_for_one_file_fetch_it_once(server, root, start):
    for process in [start() for _ in range(4)]:
        finished(process, root)
    assert (root / NAME).read_bytes() == DATA
    assert server.sent() <= 1.3 * len(DATA)


@needs_sigkill
def test_after_a_kill_in_the_middle_the_next_process_fetches_the_rest(server, root, start):
    kill_at(server, root, start, 25 * MB)
    assert not (root / NAME).exists()
    before = server.sent()
    finished(start(), root)
    assert (root / NAME).read_bytes() == DATA
    assert server.sent() - before <= 0.6 * len(DATA)
    assert sorted(os.listdir(root)) == sorted([NAME, f"{NAME}.ok", f"{NAME}.lock"])


@needs_sigkill
def test_after_two_kills_the_rest_is_still_all_that_is_fetched(server, root, start):
    kill_at(server, root, start, 20 * MB)
    kill_at(server, root, start, 35 * MB, before=20 * MB)
    finished(start(), root)
    assert (root / NAME).read_bytes() == DATA
    assert [request.headers.get("range") for request in server.requests()] == [
        None, f"bytes={20 * MB}-", f"bytes={35 * MB}-",
    ]  # fmt: skip


@needs_sigkill
def test_a_process_that_lives_keeps_its_partial_file(server, root, start):
    gate = threading.Event()
    server.next("big.bin", Reply(wait_after=10 * MB, gate=gate))
    first = start(NO_LOCKS + PROGRAM)
    server.wait(lambda server: server.sent() == 10 * MB)
    finished(start(NO_LOCKS + PROGRAM), root)  # it neither adopts nor removes what the first is writing
    assert [request.headers.get("range") for request in server.requests()] == [None, None]
    gate.set()
    finished(first, root)
    assert (root / NAME).read_bytes() == DATA
    assert list(root.glob("*.part*")) == []


def test_processes_without_working_locks_do_more_work_and_no_harm(server, root, start):
    for process in [start(NO_LOCKS + PROGRAM) for _ in range(4)]:
        finished(process, root)
    assert (root / NAME).read_bytes() == DATA
    assert server.sent() == 4 * len(DATA)  # so the lock really is what saves the work
    assert sorted(os.listdir(root)) == [NAME, f"{NAME}.ok"]


@pytest.mark.parametrize("failure", [NotImplementedError("no locks"), OSError(38, "no locks"), OSError(37, "no locks")])
def test_a_file_system_that_refuses_locks_is_good_enough(server, root, monkeypatch, failure):
    def refuse(*arguments, **options):
        raise failure

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    assert fetch(server.url("big.bin"), sha256=SHA, root=root).read_bytes() == DATA


def test_a_lock_that_is_never_released_is_waited_for_aloud_and_not_for_ever(server, root, monkeypatch, capsys):
    monkeypatch.setenv("FLAMBEAU_PROGRESS", "1")
    monkeypatch.setattr(files, "_REPORT_EVERY_S", 0.5)
    hold = "import filelock, sys, time; held = filelock.FileLock(sys.argv[1]); held.acquire(); print(1, flush=True); "
    hold += "time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", hold, str(root / f"{NAME}.lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"1\n"
        try:
            assert fetch(server.url("big.bin"), sha256=SHA, root=root, timeout=0.2).read_bytes() == DATA
        finally:
            holder.kill()
    assert "another process is fetching it, waiting for" in capsys.readouterr().err


def orphan(root, *, host=None, pid=None, data=DATA[: 20 * MB], **changes):
    """A partial file as another process would have left it."""
    if pid is None:
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            pid = process.pid
    part = root / f"{NAME}.{host or temporary_files._host()}.{pid}.0123abcd.part"
    part.write_bytes(data)
    origin = {"url": "http://gone.invalid/", "etag": None, "last_modified": None, "total": len(DATA), "sha256": SHA}
    part.with_name(part.name + ".json").write_text(json.dumps(origin | changes))
    return part


def test_what_a_dead_process_left_is_adopted_by_copying(server, root):
    part = orphan(root)
    with part.open("r+b") as still_open:  # by a process that sleeps, on a file system that several machines share
        path = fetch(server.url("big.bin"), sha256=SHA, root=root)
        still_open.write(b"late and wrong")
        still_open.truncate(100)
    assert path.read_bytes() == DATA
    assert server.sent() == len(DATA) - 20 * MB
    assert not part.exists()


def test_leftovers_of_another_host_are_adopted_after_ten_minutes(server, root):
    part = orphan(root, host="elsewhere", pid=1)
    os.utime(part, (time.time() - 601,) * 2)
    fetch(server.url("big.bin"), sha256=SHA, root=root)
    assert server.sent() == len(DATA) - 20 * MB


def test_fresh_files_of_another_host_are_left_alone(server, root):
    part = orphan(root, host="elsewhere", pid=1)
    fetch(server.url("big.bin"), sha256=SHA, root=root)
    assert server.sent() == len(DATA)
    assert part.exists()


@pytest.mark.parametrize("changes", [{"sha256": "0" * 64}, {"sha256": None}, {"unknown": 1}])
def test_leftovers_of_something_else_are_removed_and_not_adopted(server, root, changes):
    part = orphan(root, **changes)
    fetch(server.url("big.bin"), sha256=SHA, root=root)
    assert server.sent() == len(DATA)
    assert not part.exists()


def test_leftovers_that_are_wrong_cost_one_more_fetch_and_do_no_harm(server, root):
    orphan(root, data=bytes(20 * MB))
    assert fetch(server.url("big.bin"), sha256=SHA, root=root).read_bytes() == DATA
    assert [request.headers.get("range") for request in server.requests()] == [f"bytes={20 * MB}-", None]


def test_a_partial_file_that_vanishes_is_fetched_by_the_next_mirror(server, root, monkeypatch):
    real = downloads.Partial.publish

    def vanish(partial, final):
        monkeypatch.undo()
        partial.path.unlink()
        real(partial, final)

    monkeypatch.setattr(downloads.Partial, "publish", vanish)
    path = fetch(server.url("big.bin"), sha256=SHA, root=root, mirrors=[server.url("/big.bin?2")])
    assert path.read_bytes() == DATA


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_during_a_fetch_can_fetch_the_same_file(server, root, monkeypatch):
    gate = threading.Event()
    server.next("big.bin", Reply(wait_after=MB, gate=gate))
    thread = threading.Thread(target=fetch, args=(server.url("big.bin"),), kwargs={"sha256": SHA, "root": root})
    thread.start()
    server.wait(lambda server: server.sent() == MB)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            fetch(server.url("big.bin"), sha256=SHA, root=root, timeout=2)
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    gate.set()
    thread.join()
    assert status == 0
    assert (root / NAME).read_bytes() == DATA


# --- disks --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount, "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system of a chosen size needs Linux and the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_file_that_does_not_fit_is_refused_before_it_is_asked_for(server, small_disk):
    with pytest.raises(DiskFullError, match=r"52,428,800 bytes.*flambeau weights purge") as caught:
        fetch(server.url("big.bin"), sha256=SHA, size=len(DATA), root=small_disk)
    assert caught.value.needed == len(DATA)
    assert caught.value.free < 17 * MB
    assert server.requests() == []


def test_a_file_that_turns_out_not_to_fit_is_refused_when_its_size_is_announced(server, small_disk):
    with pytest.raises(DiskFullError) as caught:
        fetch(server.url("big.bin"), root=small_disk)
    assert caught.value.needed == len(DATA)
    assert server.sent() < len(DATA) / 2  # what the sockets' buffers took
    assert list(small_disk.glob("*.part*")) == []


def test_a_disk_that_fills_up_while_writing_is_reported_and_not_left_full(server, small_disk):
    server.always["big.bin"] = Reply(chunked=True)  # so that nobody knows the size beforehand
    with pytest.raises(DiskFullError, match="flambeau weights purge"):
        fetch(server.url("big.bin"), sha256=SHA, root=small_disk)
    assert list(small_disk.glob("*.part*")) == []
    assert shutil.disk_usage(small_disk).free > 15 * MB


def test_a_partial_file_is_kept_when_something_else_fills_the_disk(server, small_disk):
    server.next("big.bin", Reply(body=DATA[: 4 * MB], chunked=True, cut_after=2 * MB))
    server.always["big.bin"] = Reply(status=404)
    url = server.url("big.bin")
    with pytest.raises(OSError, match="404"):
        fetch(url, sha256=SHA, size=12 * MB, root=small_disk)
    (small_disk / "something else").write_bytes(bytes(8 * MB))
    with pytest.raises(DiskFullError):
        fetch(url, sha256=SHA, size=12 * MB, root=small_disk)
    (part,) = small_disk.glob("*.part")
    assert part.stat().st_size == 2 * MB


def test_where_two_copies_do_not_fit_a_leftover_makes_room(server, small_disk):
    data = DATA[: 12 * MB]
    digest = hashlib.sha256(data).hexdigest()
    server.files["small.bin"] = data
    server.next("small.bin", Reply(cut_after=10 * MB), Reply(status=404))
    with pytest.raises(OSError, match="404"):
        fetch(server.url("small.bin"), sha256=digest, root=small_disk)
    assert fetch(server.url("small.bin"), sha256=digest, root=small_disk).read_bytes() == data


def test_a_full_disk_is_recognised_by_what_the_system_says_of_it(server, root, monkeypatch):
    usage = shutil.disk_usage(root)
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(DiskFullError, match=r"1,000 bytes left"):
        fetch(server.url("big.bin"), sha256=SHA, root=root)


def test_hosts_are_named_as_file_names_can_hold(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-7.cluster/example with a long name")
    assert temporary_files._host() == "gpu-7-cluster-ex"
