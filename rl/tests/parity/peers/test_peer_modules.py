"""Policies, values and exploration do the same as torchrl's, on tensordicts and on tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from spec_describing import describe_rl

from flambeau.core.testing.differential import Cell, Suite, program, read_table
from flambeau.core.testing.fill import fill_, tensor
from flambeau.data import tensordict as data
from flambeau.data.tensordict import nn as data_nn

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


def describe_sorted(value, recorder, where):
    """The peer adds keys to specs in the order of a set, which changes from one process to the next."""
    record = describe_rl(value, recorder, where)
    if isinstance(record, dict) and record.get("type") == "Composite":
        record["items"] = dict(sorted(record["items"].items()))
    return record


SUITE = Suite(
    "modules",
    ours="flambeau.rl.modules",
    peer="torchrl.modules",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
    describers=[describe_sorted],
    rtol=1e-4,
    atol=1e-5,
)
SPECS = ("Binary", "Bounded", "Categorical", "Composite", "MultiCategorical", "MultiOneHot", "OneHot", "Unbounded")


def names_of(library):
    """What programs see besides the library's names, of the side that the library is on."""
    if library.ours:
        import flambeau.rl.data.tensor_specs as specs

        collections, modules = data, data_nn
    else:
        import tensordict as collections
        import tensordict.nn as modules
        import torchrl.data as specs
    names = {name: getattr(specs, name) for name in SPECS}

    def td(**entries):
        return collections.TensorDict(entries, [2])

    def td5(**entries):
        return collections.TensorDict(entries, [2, 5])

    def recurrent(call):
        with library.set_recurrent_mode(True):
            return call()

    def within(kind):
        def run(call):
            with modules.set_interaction_type(kind):
                torch.manual_seed(0)
                return call()

        return run

    def net():
        layers = torch.nn.Sequential(torch.nn.Linear(3, 4), modules.NormalParamExtractor())
        return modules.TensorDictModule(layers, ["observation"], ["loc", "scale"])

    def operator():
        common = library.SafeModule(torch.nn.Linear(3, 4), ["o"], ["h"])
        policy = library.SafeModule(torch.nn.Linear(4, 2), ["h"], ["action"])
        return library.ActorValueOperator(common, policy, library.ValueOperator(torch.nn.Linear(4, 1), ["h"]))

    def steps(module, name):
        found = [getattr(module, name).item()]
        for count in (1, 3, 0, 100):
            module.step(count)
            found.append(getattr(module, name).item())
        return found

    def node(batch=False):
        entries = {
            "win_count": torch.tensor([1.0, 0.0, 3.0]), "visits": torch.tensor([2.0, 0.0, 4.0]),
            "total_visits": torch.tensor(6.0), "prior_prob": torch.tensor([0.2, 0.3, 0.5]),
            "sum_squared_rewards": torch.tensor([1.0, 0.0, 2.5]),
        }  # fmt: skip
        shape = [2] if batch else []
        return collections.TensorDict(
            {key: value.expand(*shape, *value.shape) for key, value in entries.items()}, shape
        )

    def planner(o):
        return torch.arange(8.0).view(4, 2).expand(*o.shape[:-1], 4, 2) + o.sum(-1)[..., None, None]

    def walked(module, marks):
        """What a module does step by step, while the observation grows."""
        state, seen = td(o=torch.zeros(2, 1)), []
        for mark in marks:
            state.set("is_init", torch.tensor(mark).bool().unsqueeze(-1))
            state = module(state)
            seen.append(state.clone())
            state.set("o", state.get("o") + 10)
        return seen

    def decisions():
        return td5(
            observation=tensor("o", (2, 5, 3)), action=tensor("a", (2, 5, 2)), return_to_go=tensor("r", (2, 5, 1))
        )

    values = torch.tensor([[1.0, 3.0, 2.0, 0.0], [0.0, 1.0, 5.0, 4.0]])
    return names | {
        "torch": torch, "nn": torch.nn, "TensorDict": collections.TensorDict,
        "TensorDictModule": modules.TensorDictModule, "td": td, "random": within("random"), "mode": within("mode"),
        "utils": library.utils, "models": library.models,
        "tensor": tensor, "fill_": fill_, "shapes": lambda m: {k: tuple(v.shape) for k, v in m.state_dict().items()},
        "node": node, "planner": planner, "walked": walked, "decisions": decisions,
        "deterministic": within("deterministic"), "td5": td5, "recurrent": recurrent,
        "H": lambda name, *shape: tensor(name, shape), "X": tensor("x", (2, 5, 3)),
        "I": lambda marks: torch.tensor(marks).bool().unsqueeze(-1), "net": net, "operator": operator, "steps": steps,
        "Q": values, "L": tensor("l", (2, 3, 4)).log_softmax(-2), "S": torch.arange(3.0), "O": tensor("o", (2, 3)),
        "A": torch.nn.functional.one_hot(torch.tensor([0, 3]), 4),
    }  # fmt: skip


def run(library, given, text):
    if not library.ours:  # the peer goes step by step with a package that is not there; the results are to be the same
        text = text.replace("recurrent_backend='scan'", "recurrent_backend='pad'")
    return program(text, names_of(library))(library, given)


for _area, _texts in read_table(HERE / "actor_programs.txt").items():
    for _text in _texts:
        SUITE.add(Cell(f"{_area}/{_text}", _area, lambda library, given, text=_text: run(library, given, text)))


def reaching(library, ends_after):
    """An environment of either library: a point that is moved, rewarded for being near 1, whose time is counted."""
    names = names_of(library)
    if library.ours:
        from flambeau.rl.envs.common import EnvBase
    else:
        from torchrl.envs import EnvBase

    class Reaching(EnvBase):
        def __init__(self):
            super().__init__(batch_size=torch.Size([]))
            self._batch_locked = False
            self.observation_spec = names["Composite"](x=names["Unbounded"]((2,)), time=names["Unbounded"]((1,)))
            self.state_spec = names["Composite"](x=names["Unbounded"]((2,)), time=names["Unbounded"]((1,)))
            self.action_spec, self.reward_spec = names["Bounded"](-1, 1, (2,)), names["Unbounded"]((1,))

        def _reset(self, tensordict=None):
            batch = tensordict.batch_size if tensordict is not None else torch.Size([])
            return names["TensorDict"]({"x": torch.zeros(*batch, 2), "time": torch.zeros(*batch, 1)}, batch)

        def _step(self, tensordict):
            x, time = tensordict["x"] + tensordict["action"], tensordict["time"] + 1
            reward = -(x - 1).square().sum(-1, keepdim=True) + 100 * (time > ends_after) * x[..., :1]
            entries = {"x": x, "time": time, "reward": reward, "done": time >= ends_after}
            return names["TensorDict"](entries, tensordict.batch_size)

        def _set_seed(self, seed):
            pass

    return Reaching()


class Return(torch.nn.Module):
    def forward(self, tensordict):
        rewards = tensordict["next", "reward"]
        return tensordict.set("advantage", rewards.flip(-2).cumsum(-2).flip(-2))


def plan(library, given, kind, batch, ends_after):
    env, sizes = (
        reaching(library, ends_after),
        {"planning_horizon": 3, "optim_steps": 3, "num_candidates": 12, "top_k": 4},
    )
    planner = library.CEMPlanner(env, **sizes) if kind == "cem" else library.MPPIPlanner(env, Return(), 0.7, **sizes)
    entries = {"x": tensor("x", (*batch, 2)), "time": torch.zeros(*batch, 1)}
    entries |= {name: torch.zeros(*batch, 1, dtype=torch.bool) for name in ("done", "terminated")}
    start = names_of(library)["TensorDict"](entries, list(batch))
    torch.manual_seed(0)
    return planner(start)["action"], planner.state_dict(), sorted(planner.in_keys), planner.out_keys


for _kind in ("cem", "mppi"):
    for _batch in ((), (2,), (2, 3)):
        for _ends in (2, 100):
            SUITE.add(
                Cell(
                    f"planners/{_kind}/{_batch}/{_ends}",
                    "planners",
                    lambda library, given, kind=_kind, batch=_batch, ends=_ends: plan(
                        library, given, kind, batch, ends
                    ),
                )
            )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
