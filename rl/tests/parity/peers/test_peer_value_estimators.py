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
    "TD0Estimator": {}, "TD1Estimator": {}, "TDLambdaEstimator": {"lmbda": 0.8}, "GAE": {"lmbda": 0.8}, "VTrace": {},
}  # fmt: skip
OPTIONS = {
    "plain": {}, "shifted": {"shifted": True}, "shifted-twice": {"shifted": True, "shifted_budget": 2},
    "no-vmap": {"deactivate_vmap": True}, "chunks": {"value_chunk_size": 2}, "parts": {"num_chunks": 2},
    "differentiable": {"differentiable": True}, "gamma": {"gamma": torch.tensor(0.7)},
    "advantage-key": {"advantage_key": "a"}, "value-key": {"value_key": "a"}, "target-key": {"value_target_key": "a"},
    "groups": {"group_key": "task"}, "no-groups": {"group_key": "nothing"},
    "no-chunks": {"num_chunks": 0}, "two-ways": {"num_chunks": 2, "value_chunk_size": 2},
}  # fmt: skip
# Options that not every estimator has.
OWN_OPTIONS = {
    "TD0Estimator": {"standard": {"average_rewards": True}}, "TD1Estimator": {"standard": {"average_rewards": True}},
    "TDLambdaEstimator": {"standard": {"average_rewards": True}, "plain": {"vectorized": False}},
    "GAE": {
        "standard": {"average_gae": True}, "auto-reset": {"auto_reset_env": True}, "plain": {"vectorized": False},
        "no-network": {"value_network": None},
    },
    "VTrace": {
        "standard": {"average_adv": True}, "rho": {"rho_thresh": 0.7}, "c": {"c_thresh": torch.tensor(0.5)},
        "no-network": {"value_network": None}, "no-actor": {"actor_network": None},
    },
}  # fmt: skip
GROUPED = {"all": {}, "groups": {"group_key": "task"}, "no-groups": {"group_key": "nothing"}}
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
    return collections.TensorDict, modules


def an_actor(library, modules):
    """Its action is the most probable one, as the one in the data is: torchrl scores a new one instead of that."""
    if library.ours:
        from flambeau.rl.modules import IndependentNormal, ProbabilisticActor
    else:
        from torchrl.modules import IndependentNormal, ProbabilisticActor
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), modules.NormalParamExtractor())
    normal = modules.TensorDictModule(fill_(net), ["observation"], ["loc", "scale"])
    return ProbabilisticActor(normal, ["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True)


def estimated(name, options, shape, change, view):
    def run(library, given):
        TensorDict, modules = sides(library)
        net = modules.TensorDictModule(fill_(torch.nn.Linear(4, 1)), ["observation"], ["state_value"])
        done = tensor("done", (*shape, 1)) > 0.3
        following = {"observation": tensor("next", (*shape, 4)), "reward": tensor("reward", (*shape, 1))}
        following |= {"done": done, "terminated": done & (tensor("terminated", (*shape, 1)) > 0)}
        following["truncated"] = done & ~following["terminated"]
        now = {"observation": tensor("now", (*shape, 4)), "task": (tensor("task", shape) > 0).long()}
        own = {"gamma": 0.9, "value_network": net, **ESTIMATORS.get(name, {})}
        if name == "VTrace":
            own["actor_network"] = actor = an_actor(library, modules)
            now["action"] = actor(TensorDict({"observation": now["observation"]}, shape))["action"].detach()
            now["action_log_prob"] = tensor("score", shape) - 3
        data = change(TensorDict({**now, "next": following}, shape))
        estimator = getattr(library, name)(**{**own, **options})
        return view(estimator, data)

    return run


def written(estimator, data):
    found = estimator(data)
    return {str(key): found[key] for key in sorted(found.keys(True, True), key=str)}


def made_for(estimator, **networks):
    """The same estimator as a loss module asks for it."""
    loss = torch.nn.Module()
    loss.functional = False
    for name, network in {**networks, "actor_network": getattr(estimator, "actor_network", None)}.items():
        setattr(loss, name, network)
    options = {"lmbda": 0.8} if hasattr(estimator, "lmbda") else {}
    return type(estimator).for_loss(loss, gamma=0.9, differentiable=True, **options)


VIEWS = {
    "in_keys": lambda e, td: (e.in_keys, e.out_keys),
    "state": lambda e, td: dict(e.state_dict()),
    "estimate": lambda e, td: e.value_estimate(td),
    "renamed": lambda e, td: (e.set_keys(advantage="a", value_target="t"), sorted(map(str, e(td).keys()))),
    "unknown-key": lambda e, td: e.set_keys(zzz="a"),
    "no-key": lambda e, td: e.set_keys(reward=1),
    "own-keys": lambda e, td: [
        getattr(e, f"{name}_key")
        for name in (
            "advantage",
            "value_target",
            "value",
            "reward",
            "done",
            "terminated",
            "steps_to_next_obs",
            "sample_log_prob",
        )
    ],
    "functional": lambda e, td: (e.is_functional, e.is_stateless, e.vmap_randomness),
    "randomness": lambda e, td: (e.set_vmap_randomness("different"), e.vmap_randomness),
    "for-loss-of-critic": lambda e, td: made_for(e, critic_network=e.value_network, value_network=None)(td),
    "for-loss-of-values": lambda e, td: made_for(e, value_network=e.value_network)(td),
    "for-no-loss": lambda e, td: made_for(e).value_network is None,
}
for _name, (_option, _options), (_shape, _sizes) in product(ESTIMATORS, OPTIONS.items(), SHAPES.items()):
    if _shape == "two" or _option in ("plain", "shifted"):
        SUITE.add(Cell(f"options/{_name}/{_option}/{_shape}", "options",
                       estimated(_name, _options, _sizes, DATA["plain"], written)))  # fmt: skip
for _name, (_kind, _change), _shifted in product(ESTIMATORS, DATA.items(), (False, True)):
    SUITE.add(Cell(f"data/{_name}/{_kind}/{_shifted}", "data",
                   estimated(_name, {"shifted": _shifted}, (2, 6), _change, written)))  # fmt: skip
for _name in ("TD0Estimate", "TD1Estimate"):
    SUITE.add(Cell(f"former/{_name}", "views", estimated(_name, {}, (2, 6), DATA["plain"], written)))
for _name, _own in OWN_OPTIONS.items():
    for (_option, _options), (_groups, _grouped) in product(_own.items(), GROUPED.items()):
        SUITE.add(Cell(f"own/{_name}/{_option}/{_groups}", "own options",
                       estimated(_name, _options | _grouped, (2, 6), DATA["plain"], written)))  # fmt: skip
for _name, (_view, _function) in product(ESTIMATORS, VIEWS.items()):
    SUITE.add(Cell(f"views/{_name}/{_view}", "views", estimated(_name, {}, (2, 6), DATA["plain"], _function)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
