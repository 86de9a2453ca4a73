"""A real Slurm on this machine: munged, slurmctld and two slurmd as plain processes, in a folder of their own.

    python plugins/launch/tests/clusters/slurm.py      start one, and keep it until Ctrl-C; prints its SLURM_CONF

Needs Debian's packages `slurm-wlm` and `munge`, and root. Both nodes are this machine, so their names must resolve:
they are added to /etc/hosts for as long as the cluster runs. There is no accounting, as on many small clusters.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
NODES = ("flambeau-n1", "flambeau-n2")
HOSTS = Path("/etc/hosts")
MARK = "# nodes of flambeau's tests of Slurm"


@dataclass(frozen=True)
class Slurm:
    """A running cluster.

    Attributes:
        conf: its configuration, for SLURM_CONF.
        folder: of everything that it writes.
    """

    conf: Path
    folder: Path


def missing() -> str:
    """Why no cluster can run here; empty where one can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"needs {', '.join(absent)}: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "needs root, to start slurmd and munged"


@contextlib.contextmanager
def running() -> Iterator[Slurm]:
    """Start a cluster, and end it."""
    folder = Path(tempfile.mkdtemp(prefix="flambeau-slurm-"))
    folder.chmod(0o755)
    processes: list[subprocess.Popen[bytes]] = []
    hosts = HOSTS.read_text(encoding="utf-8")
    HOSTS.write_text(f"{hosts.rstrip()}\n127.0.0.1 {' '.join(NODES)}  {MARK}\n", encoding="utf-8")
    try:
        socket_path = start_munge(folder, processes)
        conf = configure(folder, socket_path)
        os.environ["SLURM_CONF"] = str(conf)
        processes.append(start("slurmctld", "-D", "-f", str(conf), log=folder / "slurmctld.out"))
        processes.extend(
            start("slurmd", "-D", "-N", node, "-f", str(conf), log=folder / f"{node}.out") for node in NODES
        )
        wait_until_idle()
        yield Slurm(conf, folder)
    finally:
        os.environ.pop("SLURM_CONF", None)
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            process.kill()
        kept = [line for line in HOSTS.read_text(encoding="utf-8").splitlines() if MARK not in line]
        HOSTS.write_text("\n".join(kept) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)


def start(*command: str, log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    with log.open("wb") as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)


def start_munge(folder: Path, processes: list[subprocess.Popen[bytes]]) -> Path:
    """munged with a key, a socket and a log of its own; it wants folders that nobody else may write to."""
    room = folder / "munge"
    room.mkdir(mode=0o755)
    key = room / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    path = room / "munge.socket"
    processes.append(
        start(
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={path}"),
            *(f"--log-file={room / 'munged.log'}", f"--pid-file={room / 'munged.pid'}", f"--seed-file={room / 'seed'}"),
            log=room / "munged.out",
        )
    )
    wait_for(path.exists, f"munged: {room / 'munged.out'}")
    return path


def configure(folder: Path, munge: Path) -> Path:
    cpus, memory = max(4, os.cpu_count() or 1), 4000
    ports = [free_port() for _ in range(3)]
    for name in ("state", *NODES):
        (folder / name).mkdir()
    lines = [
        "ClusterName=flambeau",
        f"SlurmctldHost={socket.gethostname()}(127.0.0.1)",
        f"SlurmctldPort={ports[0]}",
        "SlurmUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={munge}",
        "CredType=cred/munge",
        "MpiDefault=none",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "SchedulerType=sched/backfill",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none",
        "ReturnToService=2",
        "MinJobAge=600",
        "KillWait=5",
        "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0",
        "SlurmdParameters=config_overrides",
        f"StateSaveLocation={folder / 'state'}",
        f"SlurmdSpoolDir={folder}/%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/%n.pid",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"SlurmdLogFile={folder}/%n.log",
    ]
    for node, port in zip(NODES, ports[1:], strict=True):
        lines.append(
            f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} "
            f"RealMemory={memory} State=UNKNOWN"
        )
    lines.append(f"PartitionName=debug Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO")
    path = folder / "slurm.conf"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_idle() -> None:
    def idle() -> bool:
        done = subprocess.run(["sinfo", "-h", "-o", "%T %D"], capture_output=True, text=True)
        return done.stdout.split() == ["idle", str(len(NODES))]

    wait_for(idle, "the nodes are not idle; see the logs in the folder of SLURM_CONF")


def wait_for(condition, what: str, timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)


if __name__ == "__main__":
    if reason := missing():
        sys.exit(reason)
    with running() as cluster:
        print(f"export SLURM_CONF={cluster.conf}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()
