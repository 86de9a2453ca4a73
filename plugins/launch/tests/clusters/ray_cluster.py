"""A real Ray cluster on this machine, with its dashboard, in processes of their own.

python plugins/launch/tests/clusters/ray_cluster.py      start one, and keep it until Ctrl-C; prints its address
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from slurm import free_port

CPUS = 4
START_S = 300
# Ray gives up early where a machine is busy with other things: a dashboard has a minute to start, an agent half of one.
PATIENCE = {
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": str(START_S),
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": str(START_S),
    "RAY_agent_register_timeout_ms": str(START_S * 1000),
    "RAY_gcs_server_request_timeout_seconds": str(START_S),
    "RAY_health_check_failure_threshold": "60",
    "RAY_raylet_start_wait_time_s": str(START_S),
    "RAY_worker_register_timeout_seconds": str(START_S),
}


def missing() -> str:
    """Why no cluster can run here; empty where one can."""
    return "" if find_spec("ray") and find_spec("aiohttp_cors") else "needs ray[default]"


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Start a cluster, and end it; gives the address of its dashboard."""
    # Short: sockets lie below, whose paths may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="fr-", dir="/tmp"))
    dashboard = free_port()
    environment = {
        **os.environ,
        **PATIENCE,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        # With a token, clients would have to know it before they import ray, and other tests have done so already.
        "RAY_AUTH_MODE": "disabled",
        "RAY_DISABLE_IMPORT_WARNING": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    output = (folder / "start.out").open("wb")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"),
            *(f"--port={free_port()}", f"--dashboard-port={dashboard}", "--dashboard-host=127.0.0.1"),
            *("--node-ip-address=127.0.0.1", f"--num-cpus={CPUS}", "--num-gpus=0", f"--temp-dir={folder}"),
            *(f"--dashboard-agent-listen-port={free_port()}", "--object-store-memory=100000000"),
            "--include-dashboard=true",
        ],
        env=environment,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    output.close()
    address = f"127.0.0.1:{dashboard}"
    try:
        wait_for_dashboard(address, process, folder)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_dashboard(
    address: str, process: subprocess.Popen[bytes], folder: Path, timeout_s: float = START_S
) -> None:
    end = time.monotonic() + timeout_s
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}/api/jobs/", timeout=5):
                return
        except (OSError, TimeoutError):
            pass
        if process.poll() is not None or time.monotonic() > end:
            raise TimeoutError((folder / "start.out").read_text(errors="replace")[-2000:])
        time.sleep(0.5)


if __name__ == "__main__":
    if reason := missing():
        sys.exit(reason)
    with running() as cluster:
        print(cluster, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()
