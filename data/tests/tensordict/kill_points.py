"""Kills a writer at each of its system calls in turn, and says what a reader finds: run as a program by the tests.

    python kill_points.py FOLDER fresh|refresh

Prints one word for each point: "old", "new", "none" (nothing loads, as it should before a first save), or "torn".
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sys

import torch

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.memmap.errors import MissingLayoutError


def version(value: int) -> TensorDict:
    # One key that only the old version has, one that only the new has, and tensors of the same shapes in both.
    only = {"old_only": torch.zeros(3)} if value == 1 else {"new_only": {"x": torch.zeros(3)}}
    data = {"a": torch.full((3, 4), float(value)), "n": {"b": torch.full((3,), value)}, "s": f"version {value}", **only}
    return TensorDict(data, batch_size=[3])


def arm(calls: int) -> None:
    """Kill this process at its n-th call that changes something on the disk."""
    left = [calls]

    def counted(function):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in ("open", "pwrite", "replace", "mkdir", "unlink", "rmdir", "rename", "posix_fallocate", "link", "close"):
        setattr(os, name, counted(getattr(os, name)))
    for name in ("replace", "unlink", "mkdir", "rmdir"):
        setattr(pathlib.Path, name, counted(getattr(pathlib.Path, name)))


def found(folder: str) -> str:
    try:
        td = TensorDict.load_memmap(folder)
    except MissingLayoutError:
        return "none"
    values = {int(td["a"].unique().item()), int(td["n", "b"].unique().item()), int(td["s"][-1])}
    keys = set(td.keys())
    if values == {1} and keys == {"a", "n", "s", "old_only"}:
        return "old"
    return "new" if values == {2} and keys == {"a", "n", "s", "new_only"} else "torn"


def main() -> None:
    folder, kind = sys.argv[1], sys.argv[2]
    torch.set_num_threads(1)
    version(2).memmap(folder)  # imports what a save needs, once for all children
    for calls in range(1000):
        shutil.rmtree(folder, ignore_errors=True)
        if kind == "refresh":
            version(1).memmap(folder)
        child = os.fork()
        if child == 0:
            arm(calls)
            version(2).memmap(folder)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        killed = os.WIFSIGNALED(status)
        if not killed and status != 0:
            sys.exit(f"the writer that was left alone failed: status {status}")
        # A second look must see the same: the first may have finished the writer's work.
        print(found(folder) if found(folder) == found(folder) else "torn", flush=True)
        if not killed:
            return


if __name__ == "__main__":
    main()
