"""From the command to the first line of the job, and to help, beside torchx.

    python plugins/launch/benchmarks/submit.py [--quick]

Milliseconds by the clock, the least of several runs in turn, of processes that start anew: `run -s local_cwd
utils.echo` until the line of the job is read, the command's end, and `--help`. Bounds: the first line comes no later
than torchx's, and help within 150 ms. The program exits with 1 where one is missed. Where torchx is not installed it is
left out. `--quick` runs everything once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec

QUICK = "--quick" in sys.argv
RUNS = 1 if QUICK else 7
HELP_MS = 150.0
OURS = (sys.executable, "-m", "flambeau.core", "launch")
PEER = (sys.executable, "-c", "import sys; from torchx.cli.main import main; main(sys.argv[1:])")
JOB = ("run", "-s", "local_cwd", "utils.echo", "--msg", "hello")


def first_line(program: tuple[str, ...]) -> tuple[float, float]:
    """Milliseconds until the job's line is read, and until the command ends."""
    begin = time.perf_counter()
    process = subprocess.Popen([*program, *JOB], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    first = next((time.perf_counter() for line in process.stdout if "hello" in line), float("inf"))
    process.wait()
    return (first - begin) * 1e3, (time.perf_counter() - begin) * 1e3


def shown_help(program: tuple[str, ...]) -> float:
    """Milliseconds until help is shown."""
    begin = time.perf_counter()
    subprocess.run([*program, "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begin) * 1e3


def main() -> int:
    """Print the table; 1 where a bound is missed."""
    programs = {"flambeau launch": OURS, **({"torchx": PEER} if find_spec("torchx") else {})}
    least = {name: [float("inf")] * 3 for name in programs}
    for _ in range(RUNS):
        for name, program in programs.items():
            taken = (*first_line(program), shown_help(program))
            least[name] = [min(pair) for pair in zip(least[name], taken, strict=True)]
    print(f"{'ms':18}" + "".join(f"{what:>14}" for what in ("first line", "end", "--help")))
    for name, values in least.items():
        print(f"{name:18}" + "".join(f"{value:14.0f}" for value in values))
    first, _, help_ms = least["flambeau launch"]
    late = first > least.get("torchx", [first])[0]
    return int(not QUICK and (late or help_ms > HELP_MS))


if __name__ == "__main__":
    sys.exit(main())
