"""Forests of what followed observations grow the trees that torchrl's do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_peer_envs import Names

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent
SUITE = Suite(
    "trees",
    ours=Names("flambeau.rl.data", "flambeau.data.tensordict"),
    peer=Names("torchrl.data", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
)
TABLE = read_table(HERE / "tree_programs.txt")


def rollout(library: Any, actions: list[int], done: bool, start: int = 0) -> Any:
    """Steps from an observation; what is seen is the digits of all actions so far."""
    seen = [start]
    for action in actions:
        seen.append(10 * seen[-1] + action)
    observations = torch.tensor(seen)
    follows: dict[str, Any] = {"observation": observations[1:]}
    steps: dict[str, Any] = {"observation": observations[:-1], "action": torch.tensor(actions), "next": follows}
    if done:
        ends = torch.zeros(len(actions), 1, dtype=torch.bool)
        steps["done"] = ends.clone()
        ends[-1] = True
        follows |= {"done": ends, "reward": observations[1:, None] / 2}
    return library.TensorDict(steps, [len(actions)])


def given(several: list[list[int]], done: bool = False) -> dict[str, Any]:
    """Rollouts, and functions that make forests and trees of them."""

    def rollouts(library: Any) -> Any:
        return [rollout(library, actions, done) for actions in several]

    def grown(library: Any) -> Any:
        def made(steps: Any) -> Any:
            forest = library.MCTSForest()
            for each in steps:
                forest.extend(each)
            return forest

        return made

    def tree(library: Any) -> Any:
        return lambda steps, **options: grown(library)(steps).get_tree(steps[0][0].exclude("next"), **options)

    return {
        "rollouts": rollouts,
        "grown": grown,
        "tree": tree,
        "root": lambda library: lambda steps: steps[0][0].exclude("next"),
    }


SHAPES = {
    "line": [[1, 2, 3]],
    "step": [[1]],
    "fork": [[1, 2, 3, 4], [1, 2, 5]],
    "fork at the root": [[1, 2], [3, 4], [5]],
    "forks in forks": [[1, 2, 3], [1, 2, 4, 5], [1, 6], [7, 8], [1, 2, 4, 9]],
    "twice": [[1, 2, 3], [1, 2, 3], [1, 2]],
    "longer": [[1, 2], [1, 2, 3, 4]],
}
LENT = {"torch": torch}
SUBJECTS = {name: given(shape) for name, shape in SHAPES.items()}
ENDED = {f"{name}, ended": given(shape, done=True) for name, shape in SHAPES.items()}
SUITE.add(*cross("tree", SUBJECTS | ENDED, TABLE["tree"], names=LENT))
SUITE.add(*cross("ended", ENDED, TABLE["ended"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
