"""Fetching: what a cached file costs, what four processes and a killed one transfer, and how fast bytes come in.

    python core/benchmarks/hub.py

Times are CPU time, the best of several calls; byte counts are the server's own. The bounds are those the library holds
itself to; the program exits with 1 when one is missed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flambeau.core.hub import cached, extract_archive, fetch, verify
from flambeau.core.testing.server import FileServer, Reply

SIZE = 50 << 20
missed: list[str] = []
PROGRAM = "import sys; from flambeau.core.hub import fetch; fetch(sys.argv[1], sha256=sys.argv[2], root=sys.argv[3])"


def best_ms(work: Callable[[], object], *, times: int) -> float:
    """CPU milliseconds of the best of several calls."""
    durations = []
    for _ in range(times):
        start = time.process_time()
        work()
        durations.append(time.process_time() - start)
    return 1000 * min(durations)


def row(what: str, value: str, bound: str = "", *, met: bool = True) -> None:
    missed.extend([] if met else [what])
    print(f"{what:<58} {value:>16} {bound:>16}{'' if met else '  MISSED'}")


def start(url: str, digest: str, root: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, url, digest, str(root)])


def cached_file(server: FileServer, digest: str, root: Path) -> None:
    url = server.url("big.bin")
    path = fetch(url, sha256=digest, root=root)
    cost_ms = best_ms(lambda: fetch(url, sha256=digest, root=root), times=200)
    row("cached fetch", f"{cost_ms:.3f} ms", "< 1 ms", met=cost_ms < 1)
    row("cached()", f"{best_ms(lambda: cached(url, sha256=digest, root=root), times=200):.3f} ms")
    row("verify() of 50 MB, which reads it", f"{best_ms(lambda: verify(path), times=5):.0f} ms")


def four_processes(server: FileServer, digest: str, root: Path) -> None:
    before = server.sent()
    for process in [start(server.url("big.bin"), digest, root) for _ in range(4)]:
        assert process.wait() == 0
    share = (server.sent() - before) / SIZE
    row("4 processes, one 50 MB file: bytes sent", f"{share:.2f} x", "<= 1.3 x", met=share <= 1.3)


def killed(server: FileServer, digest: str, root: Path) -> None:
    server.next("big.bin", Reply(wait_after=SIZE // 2, gate=threading.Event()))
    process = start(server.url("big.bin"), digest, root)
    while not any(part.stat().st_size == SIZE // 2 for part in root.glob("*.part")):
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = server.sent()
    assert start(server.url("big.bin"), digest, root).wait() == 0
    share = (server.sent() - before) / SIZE
    row("killed at 50 %, fetched again: bytes sent", f"{100 * share:.0f} %", "<= 60 %", met=share <= 0.6)


def throughput(server: FileServer, digest: str, root: Path) -> None:
    import torch.hub

    url, target = server.url("big.bin"), root / "upstream.bin"

    def ours() -> None:
        with contextlib.suppress(FileNotFoundError):
            (root / "ours.bin").unlink()
        fetch(url, sha256=digest, filename="ours.bin", root=root, progress=False)

    def theirs() -> None:
        torch.hub.download_url_to_file(url, str(target), hash_prefix=digest, progress=False)

    a, b = best_ms(ours, times=3), best_ms(theirs, times=3)
    row("50 MB over loopback, verified (with the server's work)", f"{a:.0f} ms")
    row("  torch.hub.download_url_to_file, the same", f"{b:.0f} ms", f"ratio {a / b:.2f}")


def archive(root: Path) -> None:
    path = root / "files.tar"
    with tarfile.open(path, "w") as tar:
        for number in range(5000):
            info = tarfile.TarInfo(f"train/{number % 50}/{number}.bin")
            info.size = 2000
            tar.addfile(info, io.BytesIO(bytes(2000)))
    targets = iter(range(100))

    def theirs() -> None:
        with tarfile.open(path) as tar:
            tar.extractall(root / f"t{next(targets)}", filter="data")

    a = best_ms(lambda: extract_archive(path, root / f"o{next(targets)}"), times=3)
    b = best_ms(theirs, times=3)
    row("tar of 5,000 files of 2 kB, judged twice and written", f"{a:.0f} ms")
    row("  tarfile.extractall(filter='data'), the same", f"{b:.0f} ms", f"ratio {a / b:.2f}")


def main() -> int:
    data = random.Random(0).randbytes(SIZE)
    digest = hashlib.sha256(data).hexdigest()
    os.environ["FLAMBEAU_PROGRESS"] = "0"
    with FileServer({"big.bin": data}) as server, tempfile.TemporaryDirectory() as folder:
        os.environ["TORCH_HOME"] = folder
        row("what", "measured", "bound")
        for number, measure in enumerate((cached_file, four_processes, killed, throughput)):
            root = Path(folder, str(number))
            root.mkdir()
            measure(server, digest, root)
        archive(Path(folder))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
