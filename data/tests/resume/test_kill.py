"""Readers that are killed at any moment, over and over, lose no sample and repeat none.

Each reader is forked from one process that has imported everything, so that a kill costs milliseconds. The plain test
kills a few times; `FLAMBEAU_KILLS=200 pytest data/tests/resume` kills 200 times in all, and is the marked test.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="readers are forked")
sys.path.insert(0, str(Path(__file__).parent))

import trainee  # noqa: E402

sys.path.pop(0)

EPOCHS = 3


def steps_of(kind: str, folder: Path) -> tuple[list[list[int]], int]:
    """What a reader that nobody kills gives, and after how many batches the epochs end."""
    folder.mkdir()
    per_epoch = sum(1 for _ in trainee.LOADERS[kind](0))
    trainee.train(kind, str(folder), EPOCHS * per_epoch, 0)
    return trainee.read_notes(str(folder / "notes"))[0], per_epoch


def read_and_be_killed(kind: str, folder: Path, steps: int, workers: int, kill: tuple[int, float] | None) -> bool:
    """Fork a reader; kill it and its workers so many batches and seconds later. Returns whether it finished."""
    sys.stdout.flush()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.setpgid(0, 0)
        code = 1
        try:
            trainee.train(kind, str(folder), steps, workers, lambda: os.write(theirs, b"."))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(theirs)
    if kill is not None:
        batches, after_s = kill
        while batches > 0 and (noted := os.read(ours, batches)):
            batches -= len(noted)
        time.sleep(after_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # workers that outlive it for a moment
    os.close(ours)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the reader failed by itself"
    return not os.WIFSIGNALED(status)


def kill_again_and_again(kind: str, folder: Path, kills: int, seed: int) -> int:
    """Read epochs under kills until so many have struck; returns how many hit a reader in its work."""
    chance = random.Random(seed)
    expected, _ = steps_of(kind, folder / "undisturbed")
    struck = 0
    for attempt in range(1000):
        if struck >= kills:
            break
        run = folder / str(attempt)
        run.mkdir()
        finished = False
        while not finished:
            # From before the first batch on; the moment after the last note falls anywhere in the next batch.
            kill = (chance.randrange(9), chance.uniform(0.0, 0.003)) if struck < kills else None
            finished = read_and_be_killed(kind, run, len(expected), chance.choice([0, 1, 2, 3]), kill)
            struck += not finished
        check(kind, trainee.read_notes(str(run / "notes"))[0], expected)
    return struck


def check(kind: str, batches: list[list[int]], expected: list[list[int]]) -> None:
    if kind not in ("StatefulDataLoader of lines", "FastLoader of a node"):
        assert batches == expected  # the very sequence, whatever the number of workers
        return
    # Other numbers of workers take their turns otherwise, so epochs are compared as sets. Each ends where all is given.
    seen: Counter[int] = Counter()
    for batch in batches:
        seen.update(batch)
        assert max(seen.values()) - min(seen.get(n, 0) for n in range(trainee.COUNT)) <= 1, "repeated before all came"


def test_a_few_kills_cost_no_sample(tmp_path):
    for number, kind in enumerate(trainee.LOADERS):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert kill_again_and_again(kind, folder, 2, seed=number) >= 2


@pytest.mark.slow
@pytest.mark.skipif("FLAMBEAU_KILLS" not in os.environ, reason="set FLAMBEAU_KILLS=200 to kill so often")
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", trainee.LOADERS)
def test_many_kills_cost_no_sample(tmp_path, kind):
    kills = -(-int(os.environ["FLAMBEAU_KILLS"]) // len(trainee.LOADERS))
    assert kill_again_and_again(kind, tmp_path, kills, seed=kills) >= kills
