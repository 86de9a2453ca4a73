"""Value estimators write on tensordicts what torchrl's do, with every option."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import fill_, tensor

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

SUITE = Suite(
    "value-estimators",
    ours="flambeau.rl.objectives.value",
    peer="torchrl.objectives.value",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)
ESTIMATORS = {
    "TD0Estimator": {}, "TD1Estimator": {}, "TDLambdaEstimator": {"lmbda": 0.8}, "GAE": {"lmbda": 0.8},
}  # fmt: skip
OPTIONS = {
    "plain": {}, "shifted": {"shifted": True}, "shifted-twice": {"shifted": True, "shifted_budget": 2},
    "no-vmap": {"deactivate_vmap": True}, "chunks": {"value_chunk_size": 2}, "parts": {"num_chunks": 2},
    "differentiable": {"differentiable": True}, "gamma": {"gamma": torch.tensor(0.7)},
    "no-chunks": {"num_chunks": 0}, "two-ways": {"num_chunks": 2, "value_chunk_size": 2},
}  # fmt: skip
SHAPES = {"one": (6,), "two": (2, 6), "three": (2, 3, 4), "none": ()}
DATA = {
    "plain": lambda td: td, "no-terminated": lambda td: td.exclude(("next", "terminated")),
    "steps": lambda td: td.set("steps_to_next_obs", torch.full((*td.shape, 1), 2)),
    "stored": lambda td: td.set("state_value", td["next", "reward"] + 1),
    "truncated": lambda td: td.set(("next", "terminated"), torch.zeros(*td.shape, 1, dtype=torch.bool)),
    "named": lambda td: td.refine_names(*["time", *[None] * (td.ndim - 1)]),
}  # fmt: skip


def sides(library):
    if library.ours:
        from flambeau.data import tensordict as collections
        from flambeau.data.tensordict import nn as modules
    else:
        import tensordict as collections
        import tensordict.nn as modules
    return collections.TensorDict, modules.TensorDictModule


def estimated(name, options, shape, change, view):
    def run(library, given):
        TensorDict, Module = sides(library)
        net = Module(fill_(torch.nn.Linear(4, 1)), ["observation"], ["state_value"])
        done = tensor("done", (*shape, 1)) > 0.3
        following = {"observation": tensor("next", (*shape, 4)), "reward": tensor("reward", (*shape, 1))}
        following |= {"done": done, "terminated": done & (tensor("terminated", (*shape, 1)) > 0)}
        data = change(TensorDict({"observation": tensor("now", (*shape, 4)), "next": following}, shape))
        estimator = getattr(library, name)(**{"gamma": 0.9, "value_network": net, **ESTIMATORS[name], **options})
        return view(estimator, data)

    return run


def written(estimator, data):
    found = estimator(data)
    return {str(key): found[key] for key in sorted(found.keys(True, True), key=str)}


VIEWS = {
    "in_keys": lambda e, td: (e.in_keys, e.out_keys),
    "state": lambda e, td: dict(e.state_dict()),
    "estimate": lambda e, td: e.value_estimate(td),
    "renamed": lambda e, td: (e.set_keys(advantage="a", value_target="t"), sorted(map(str, e(td).keys()))),
    "unknown-key": lambda e, td: e.set_keys(zzz="a"),
    "no-key": lambda e, td: e.set_keys(reward=1),
}
for _name, (_option, _options), (_shape, _sizes) in product(ESTIMATORS, OPTIONS.items(), SHAPES.items()):
    if _shape == "two" or _option in ("plain", "shifted"):
        SUITE.add(Cell(f"options/{_name}/{_option}/{_shape}", "options",
                       estimated(_name, _options, _sizes, DATA["plain"], written)))  # fmt: skip
for _name, (_kind, _change), _shifted in product(ESTIMATORS, DATA.items(), (False, True)):
    SUITE.add(Cell(f"data/{_name}/{_kind}/{_shifted}", "data",
                   estimated(_name, {"shifted": _shifted}, (2, 6), _change, written)))  # fmt: skip
for _name, (_view, _function) in product(ESTIMATORS, VIEWS.items()):
    SUITE.add(Cell(f"views/{_name}/{_view}", "views", estimated(_name, {}, (2, 6), DATA["plain"], _function)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
