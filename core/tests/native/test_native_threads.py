"""Kernels run on torch's own threads, as many as torch may use, and never open a parallel region in a forked child."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")

PRELUDE = """
import ctypes, json, os, torch
import toy_kernels as toy

workers = toy.LIBRARY.function("fb_workers", [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32], None)

def threads_of(count, nthreads):
    ids = torch.zeros(count, dtype=torch.int64)
    workers(ids.data_ptr(), count, nthreads)
    assert (ids != 0).all(), "every item is visited"
    return sorted(set(ids.tolist()))

def alive():
    return len(os.listdir("/proc/self/task"))
"""


def test_as_many_threads_work_as_are_asked_for(toy, run_python):
    code = PRELUDE + (
        "torch.set_num_threads(4)\n"
        "print(json.dumps([[len(threads_of(items, n)) for items, n in [(64, 1), (64, 2), (64, 4), (3, 4), (1, 4)]]]))"
    )
    assert run_python(code, toy) == [[1, 2, 4, 3, 1]]


def test_torchs_own_pool_is_used(toy, run_python):
    code = PRELUDE + (
        "torch.set_num_threads(4)\n"
        "(torch.ones(1 << 22) * 2).sum()\n"
        "before = alive()\n"
        "used = len(threads_of(64, 4))\n"
        "print(json.dumps([used, alive() - before]))"
    )
    assert run_python(code, toy) == [4, 0]


def test_a_limit_of_one_thread_opens_no_region(toy, run_python):
    code = PRELUDE + (
        "torch.set_num_threads(1)\n"
        "before = alive()\n"
        "toy.scale(torch.ones(1 << 20), 2.0)\n"
        "print(json.dumps(alive() - before))"
    )
    assert run_python(code, toy, OMP_NUM_THREADS="1") == 0


def test_results_do_not_depend_on_the_number_of_threads(toy, run_python):
    code = PRELUDE + (
        "x, results = torch.randn(100_003), []\n"
        "for count in (1, 2, 3, 4):\n"
        "    torch.set_num_threads(count)\n"
        "    results.append(toy.scale(x, 1.1))\n"
        "print(json.dumps([torch.equal(result, results[0]) for result in results]))"
    )
    assert run_python(code, toy) == [True] * 4


@pytest.mark.parametrize("tier", ["auto", "ctypes"])
def test_a_child_forked_after_a_parallel_region_does_not_hang(toy, run_python, tier):
    # Without protection the child waits for ever on threads that did not survive the fork.
    code = PRELUDE + (
        "torch.set_num_threads(4)\n"
        "x = torch.ones(1 << 20)\n"
        "toy.scale(x, 2.0)\n"
        "assert len(threads_of(64, 4)) == 4\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if toy.scale(x, 2.0)[-1] == 2 and len(threads_of(64, 4)) == 1 else 1)\n"
        "print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))"
    )
    assert run_python(code, toy, timeout_s=60, FLAMBEAU_NATIVE=tier) == 0


def test_data_loader_workers_forked_after_a_parallel_region_do_not_hang(toy, run_python):
    code = PRELUDE + (
        "from torch.utils.data import DataLoader\n"
        "torch.set_num_threads(4)\n"
        "class Scaled(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, index): return toy.scale(torch.full((1 << 18,), float(index)), 2.0)[0]\n"
        "if __name__ == '__main__':\n"
        "    toy.scale(torch.ones(1 << 20), 2.0)\n"
        "    loader = DataLoader(Scaled(), num_workers=2, multiprocessing_context='fork')\n"
        "    print(json.dumps([batch.item() for batch in loader]))"
    )
    assert run_python(code, toy, timeout_s=60) == [0.0, 2.0, 4.0, 6.0]
