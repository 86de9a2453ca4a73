"""Returns and advantages are torchrl's, for any trajectories, shapes, discounts and dimension of time."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

SUITE = Suite(
    "values",
    ours="flambeau.rl.objectives.value",
    peer="torchrl.objectives.value",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=2e-5,
    atol=2e-6,
)

# Functions and what they take before the values of states.
RETURNS = {
    "td1_return_estimate": (), "vec_td1_return_estimate": (), "td1_advantage_estimate": ("v",),
    "vec_td1_advantage_estimate": ("v",), "td_lambda_return_estimate": ("l",),
    "vec_td_lambda_return_estimate": ("l",), "td_lambda_advantage_estimate": ("l", "v"),
    "vec_td_lambda_advantage_estimate": ("l", "v"), "generalized_advantage_estimate": ("l", "v"),
    "vec_generalized_advantage_estimate": ("l", "v"), "vtrace_advantage_estimate": ("p", "m", "v"),
    "td0_advantage_estimate": ("v",),
}  # fmt: skip
ROLLING = [name for name in RETURNS if "td1" in name or "lambda" in name]
DONES = ("none", "all", "random", "last", "first", "truncated", "no-terminated")
LAYOUTS = {
    "plain": ((3, 8, 1), -2), "one-row": ((8, 1), -2), "features": ((2, 5, 3), -2), "batches": ((2, 3, 5, 1), -2),
    "one-step": ((3, 1, 1), -2), "time-first": ((8, 3, 1), 0), "time-last": ((3, 8), -1),
    "time-in-front": ((2, 6, 3, 1), 1), "long": ((2, 200, 1), -2),
}  # fmt: skip
DISCOUNTS = ("float", "tensor", "one", "each")


def drawn(name, shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(map(ord, name))))


def trajectories(shape, time_dim, ends, dtype=torch.float32):
    done = drawn("done", shape, 0) > 0.6
    terminated = done & (drawn("terminated", shape, 0) > 0)
    steps = torch.arange(shape[time_dim % len(shape)]).view(
        [-1 if at == time_dim % len(shape) else 1 for at in range(len(shape))]
    )
    if ends in ("none", "all"):
        done = terminated = torch.full(shape, ends == "all")
    elif ends in ("last", "first"):
        done = (steps == (shape[time_dim] - 1 if ends == "last" else 0)).expand(shape)
        terminated = done
    elif ends == "truncated":
        terminated = torch.zeros_like(done)
    given = {name: drawn(name, shape, 1).to(dtype) for name in ("next_state_value", "reward")}
    given |= {"done": done.clone(), "terminated": None if ends == "no-terminated" else terminated.clone()}
    others = {
        "v": drawn("v", shape, 2).to(dtype),
        "p": drawn("p", shape, 3).to(dtype) - 1,
        "m": drawn("m", shape, 4).to(dtype) - 1,
    }
    return given, others


def factor(kind, number, shape, name):
    return {
        "float": number,
        "tensor": torch.tensor(number),
        "one": torch.tensor([number]),
        "each": drawn(name, shape, 5).sigmoid(),
    }[kind]


def call(function, shape, time_dim, ends, gamma="float", lmbda="float", dtype=torch.float32, change=None, **options):
    def run(library, given):
        estimate = getattr(library.functional, function)
        tensors, others = trajectories(shape, time_dim, ends, dtype)
        others["l"] = factor(lmbda, 0.8, shape, "lambda")
        first = [factor(gamma, 0.9, shape, "gamma"), *(others[name] for name in RETURNS[function])]
        if change is not None:
            change(tensors)
        dim = {} if function == "td0_advantage_estimate" else {"time_dim": time_dim}
        return estimate(*first, **tensors, **{**dim, **options})

    return run


def add(name, area, run):
    SUITE.add(Cell(name, area, run))


for _function, _ends, (_layout, (_shape, _dim)) in product(RETURNS, DONES, LAYOUTS.items()):
    if not _function.startswith("td0") and (_layout == "plain" or _ends in ("random", "no-terminated")):
        add(f"ends/{_function}/{_ends}/{_layout}", "ends", call(_function, _shape, _dim, _ends))
for _function, _gamma, _lmbda in product(RETURNS, DISCOUNTS, DISCOUNTS):
    if _lmbda == "float" or "l" in RETURNS[_function]:
        add(
            f"discounts/{_function}/{_gamma}/{_lmbda}",
            "discounts",
            call(_function, (3, 8, 1), -2, "random", _gamma, _lmbda),
        )
for _function, _gamma, _lmbda, _rolling in product(ROLLING, DISCOUNTS, ("float", "each"), (True, False)):
    if _lmbda == "float" or "l" in RETURNS[_function]:
        add(
            f"rolling/{_function}/{_gamma}/{_lmbda}/{_rolling}",
            "discounts",
            call(_function, (3, 8, 1), -2, "random", _gamma, _lmbda, rolling_gamma=_rolling),
        )
for _function, _dtype in product(RETURNS, (torch.float64, torch.float16, torch.bfloat16)):
    add(f"dtypes/{_function}/{_dtype}", "dtypes", call(_function, (2, 6, 1), -2, "random", dtype=_dtype))
for _function in RETURNS:
    _bad = {
        "reward-shape": lambda given: given.update(reward=torch.ones(3, 8, 2)),
        "done-shape": lambda given: given.update(done=given["done"][..., 0]),
        "whole-rewards": lambda given: given.update(reward=given["reward"].int()),
        "double-rewards": lambda given: given.update(reward=given["reward"].double()),
        "float-done": lambda given: given.update(done=given["done"].float(), terminated=given["terminated"].float()),
    }
    for _name, _change in _bad.items():
        add(f"inputs/{_function}/{_name}", "inputs", call(_function, (3, 8, 1), -2, "random", change=_change))
    if not _function.startswith("td0"):
        add(f"inputs/{_function}/no-such-dim", "inputs", call(_function, (3, 8, 1), 3, "no-terminated"))
        for _name, _shape in {"no-rows": (0, 8, 1), "no-steps": (3, 0, 1)}.items():
            add(f"inputs/{_function}/{_name}", "inputs", call(_function, _shape, -2, "random"))
for _limit in ("0.7", "torch.tensor(0.7)"):
    for _which in ("rho_thresh", "c_thresh"):
        add(
            f"vtrace/{_which}/{_limit}",
            "vtrace",
            call("vtrace_advantage_estimate", (3, 8, 1), -2, "random", **{_which: eval(_limit)}),
        )
for _text in (
    "F.td0_return_estimate(0.9, n, r, t)", "F.td0_return_estimate(0.9, n, r, done=d)",
    "F.td0_return_estimate(torch.tensor(0.9), n, r, t)", "F.td0_return_estimate(0.9, n[:, 1:], r, t)",
    "F.td0_return_estimate(0.9, n, r)", "F.td0_return_estimate(0.9, 0.5, r, t)",
    "F.reward2go(r, d, 0.9)", "F.reward2go(r, ~d & d, 0.9)", "F.reward2go(r, d, 1.0)", "F.reward2go(r, d[..., 0], 0.9)",
    "F.reward2go(r.squeeze(-1), d.squeeze(-1), 0.9, time_dim=-1)", "F.reward2go(r, d, 0.9, time_dim=1)",
    "F.reward2go(r.double(), d, 0.9)", "F.reward2go(r, d, r.sigmoid())",
    "U._get_num_per_traj(e)", "U._get_num_per_traj_init(e)", "U._flatten_batch(x)",
    "U._split_and_pad_sequence(x, U._get_num_per_traj(e))",
    "U._split_and_pad_sequence(x, U._get_num_per_traj(e), return_mask=True)",
    "U._inv_pad_sequence(U._split_and_pad_sequence(x, U._get_num_per_traj(e)), U._get_num_per_traj(e))",
    "U._split_and_pad_sequence(torch.stack([x, x], -1), U._get_num_per_traj(e), time_dim=1)",
    "U.roll_by_gather(x, 0, torch.tensor([0, 1, 2, 3]))", "U.roll_by_gather(x, 1, torch.tensor([0, 3]))",
    "U.roll_by_gather(x, 1, torch.tensor([-1, 5]))", "U.roll_by_gather(x, 2, torch.tensor([0, 3]))",
):  # fmt: skip

    def _run(library, given, text=_text):
        tensors, _ = trajectories((3, 8, 1), -2, "random")
        names = dict(zip("nrdt", tensors.values(), strict=True))
        names |= {"e": torch.tensor([[False, True, False, False], [False, False, False, True]])}
        names |= {"x": torch.arange(8.0).view(2, 4), "torch": torch, "F": library.functional, "U": library.utils}
        return eval(text, names)

    add(f"alone/{_text}", "alone", _run)


def _gradients(function):
    def run(library, given):
        tensors, others = trajectories((2, 5, 1), -2, "random", torch.float64)
        leaves = [others["v"], tensors["next_state_value"], tensors["reward"]]
        for leaf in leaves:
            leaf.requires_grad_()
        others["l"] = 0.8
        first = [0.9, *(others[name] for name in RETURNS[function])]
        result = getattr(library.functional, function)(*first, **tensors)
        results = result if isinstance(result, tuple) else (result,)
        total = sum((one * one).sum() for one in results)
        return SimpleNamespace(grads=torch.autograd.grad(total, leaves, allow_unused=True)).grads

    return run


for _function in RETURNS:
    add(f"gradients/{_function}", "gradients", _gradients(_function))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
