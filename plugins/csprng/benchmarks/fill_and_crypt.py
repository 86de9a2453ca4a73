"""Random numbers beside torch's Mersenne Twister, and AES beside OpenSSL's, on one thread.

    python plugins/csprng/benchmarks/fill_and_crypt.py [--quick]

Milliseconds of CPU time for `random_()` and every distribution of 100 MB, the least of several repetitions, in turn;
gigabytes a second of AES-128 in counter mode on a tensor of 1 MB, beside `openssl speed` where the program is there;
microseconds for 1 KB. Bounds: a third of torch's time (of distributions all of it), half of OpenSSL's rate, 5
microseconds; the program exits with 1 where they are missed.
`--quick` runs everything once, on small tensors, to see that it runs.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

import torch

import flambeau.csprng as csprng

QUICK = "--quick" in sys.argv
REPETITIONS = 1 if QUICK else 3
MEGABYTES = 1 if QUICK else 100
DISTRIBUTIONS = {
    "uniform_": (), "normal_": (), "log_normal_": (), "cauchy_": (), "exponential_": (), "geometric_": (0.3,),
    "bernoulli_": (0.3,),
}  # fmt: skip


def least(*functions: Callable[[], object], calls: int = 1) -> list[float]:
    """The least seconds of CPU time of each, run in turn."""
    times = [float("inf")] * len(functions)
    for _ in range(REPETITIONS):
        for at, function in enumerate(functions):
            begin = time.thread_time()
            for _ in range(calls):
                function()
            times[at] = min(times[at], (time.thread_time() - begin) / calls)
    return times


def openssl_rate() -> float | None:
    """Gigabytes a second that OpenSSL reports; None where the program is not there."""
    program = shutil.which("openssl")
    if program is None or QUICK:
        return None
    command = [program, "speed", "-seconds", "2", "-evp", "aes-128-ctr", "-bytes", "1048576"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"AES-128-CTR\s+([\d.]+)k", output, re.IGNORECASE)
    return float(found[1]) / 1e6 if found else None


def main() -> int:
    """Print the table; 1 where a bound is missed."""
    torch.set_num_threads(1)
    generator, missed = csprng.create_random_device_generator(), 0
    for dtype in (torch.int64, torch.int32, torch.float64, torch.float32, torch.uint8):
        tensor = torch.zeros(MEGABYTES * 1_000_000 // dtype.itemsize, dtype=dtype)
        ours, theirs = least(lambda: tensor.random_(generator=generator), lambda: tensor.random_())  # noqa: B023
        print(f"random_ {dtype!s:14} {ours * 1e3:8.1f} ms   torch {theirs * 1e3:8.1f} ms   ratio {ours / theirs:.2f}")
        missed += not QUICK and ours / theirs > 1 / 3
    for dtype in (torch.float32, torch.float64):
        tensor = torch.zeros(MEGABYTES * 1_000_000 // dtype.itemsize, dtype=dtype)
        for name, given in DISTRIBUTIONS.items():
            fill = functools.partial(getattr(torch.Tensor, name), tensor, *given)
            ours, theirs = least(functools.partial(fill, generator=generator), fill)
            called = f"{name} {str(dtype).removeprefix('torch.')}"
            print(f"{called:23} {ours * 1e3:8.1f} ms   torch {theirs * 1e3:8.1f} ms   ratio {ours / theirs:.2f}")
            missed += not QUICK and ours > theirs

    key = csprng.aes128_key_tensor(generator)
    large, small = torch.zeros(1 << 20, dtype=torch.uint8), torch.zeros(1024, dtype=torch.uint8)
    (seconds,) = least(lambda: csprng.encrypt(large, large, key, "aes128", "ctr", iv=key), calls=20)
    rate, peer = len(large) / seconds / 1e9, openssl_rate()
    line = f"aes-128-ctr {rate:18.1f} GB/s"
    if peer is not None:
        line += f"   openssl {peer:6.1f} GB/s   ratio {rate / peer:.2f}"
        missed += rate < peer / 2
    print(line)
    for mode, options in (("ecb", {}), ("ctr", {"iv": key})):
        (seconds,) = least(lambda: csprng.encrypt(small, small, key, "aes128", mode, **options), calls=2000)  # noqa: B023
        print(f"1 KB in {mode} {seconds * 1e6:19.2f} us")
        missed += not QUICK and seconds > 5e-6
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
