"""Recursions over time: what a loop gives, of any shape, with gradients of any order, on every tier."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import torch

from flambeau.rl.ops import generalized_advantage as advantages
from flambeau.rl.ops import recursion

SHAPES = [(2, 5, 3), (1, 1, 1), (3, 7, 1), (0, 4, 2), (2, 0, 2), (2, 3, 0)]
BOTH = ("backward_recursion", "forward_recursion")


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def looped(values, discounts, forward):
    rows = list(values.unbind(1))
    steps = range(1, len(rows)) if forward else reversed(range(len(rows) - 1))
    for step in steps:
        before = step - 1 if forward else step + 1
        rows[step] = values[:, step] + discounts[:, min(step, before) if forward else step] * rows[before]
    return torch.stack(rows, 1) if rows else values


def trajectories(*shape, dtype=torch.float64):
    reward, value, following = (numbers(*shape, seed=seed, dtype=dtype) for seed in range(3))
    done = numbers(*shape, seed=3) > 0.5
    return reward, value, following, done, done & (numbers(*shape, seed=4) > 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", BOTH)
def test_each_step_is_worth_itself_and_its_neighbour_discounted(name, shape, dtype):
    values, discounts = (numbers(*shape, seed=seed, dtype=dtype) for seed in range(2))
    expected = looped(values, discounts, name == "forward_recursion")
    torch.testing.assert_close(getattr(recursion, name)(values, discounts), expected)
    reference = getattr(recursion, f"_reference_{name.partition('_')[0]}")
    torch.testing.assert_close(reference(values, discounts), expected)


def test_long_rows_are_shared_between_threads():
    values, discounts = numbers(64, 900, 2), numbers(64, 900, 2, seed=1).clamp(-0.9, 0.9)
    for name in BOTH:
        expected = looped(values, discounts, name == "forward_recursion")
        torch.testing.assert_close(getattr(recursion, name)(values, discounts), expected)


def test_tensors_may_be_strided():
    values = torch.arange(24.0).view(3, 2, 4).transpose(0, 2)
    discounts = torch.tensor(0.5).expand(4, 2, 3)
    expected = recursion.backward_recursion(values.contiguous(), discounts.contiguous())
    torch.testing.assert_close(recursion.backward_recursion(values, discounts), expected)


@pytest.mark.parametrize("time_dim", [0, 1, 2, -1, -2, -4])
def test_time_is_any_dimension(time_dim):
    values, discounts = numbers(2, 3, 4, 5), numbers(2, 3, 4, 5, seed=1)
    moved = [x.movedim(time_dim, -1).reshape(-1, x.shape[time_dim], 1) for x in (values, discounts)]
    expected = looped(*moved, False).view(values.movedim(time_dim, -1).shape).movedim(-1, time_dim)
    torch.testing.assert_close(recursion.discounted_sum(values, discounts, time_dim), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    values, discounts = numbers(2, 50, 1, dtype=dtype), torch.tensor(0.75, dtype=dtype)
    result = recursion.discounted_sum(values, discounts, 1)
    wide = looped(values.float(), torch.full(values.shape, 0.75), False)
    assert result.dtype is dtype
    torch.testing.assert_close(result, wide.to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("values", "discounts", "message"),
    [
        (torch.ones(2, 3), torch.ones(2, 3), r"values have shape \(2, 3\), expected \(rows, time, features\)"),
        (torch.ones(1, 2, 3), torch.ones(1, 2, 2), r"discounts have shape \(1, 2, 2\), expected \(1, 2, 3\)"),
        (torch.ones(1, 2, 3), torch.ones(1, 2, 3).double(), "discounts have dtype .*float64, expected .*float32"),
        (torch.ones(1, 2, 3).int(), torch.ones(1, 2, 3).int(), "values have dtype .*int32, expected float32 or"),
    ],
)
def test_bad_input_is_named(values, discounts, message):
    for function in (recursion.backward_recursion, recursion._reference_backward, recursion._fake_backward):
        with pytest.raises(RuntimeError, match=f"backward_recursion: {message}"):
            function(values, discounts)
    with pytest.raises(RuntimeError, match=f"forward_recursion: {message}"):
        recursion.forward_recursion(values, discounts)


@pytest.mark.parametrize("name", BOTH)
def test_gradients_of_both_orders_are_right(name):
    values, discounts = (numbers(2, 4, 2, seed=seed, dtype=torch.float64).requires_grad_() for seed in range(2))
    function = getattr(recursion, name)
    assert torch.autograd.gradcheck(function, (values, discounts))
    assert torch.autograd.gradgradcheck(function, (values, discounts))


@pytest.mark.parametrize("name", BOTH)
def test_the_operators_keep_torchs_rules(name):
    operator = getattr(torch.ops.flambeau_rl, name).default
    torch.library.opcheck(operator, (numbers(2, 3, 2).requires_grad_(), numbers(2, 3, 2, seed=1).requires_grad_()))


@pytest.mark.parametrize("in_dims", [(0, 0), (2, None), (None, 1)])
def test_examples_of_vmap_are_rows(in_dims):
    shape = (3, 2, 4, 5)
    given = [
        numbers(*shape[1:], seed=at) if dim is None else numbers(*shape, seed=at).movedim(0, dim)
        for at, dim in enumerate(in_dims)
    ]
    expected = torch.stack(
        [
            recursion.backward_recursion(
                *(x if d is None else x.select(d, i) for x, d in zip(given, in_dims, strict=True))
            )
            for i in range(3)
        ]
    )
    torch.testing.assert_close(torch.vmap(recursion.backward_recursion, in_dims)(*given), expected)


def test_gradients_of_each_example_come_from_vmap():
    values, discounts = numbers(3, 1, 4, 2), numbers(3, 1, 4, 2, seed=1)
    gradient = torch.func.grad(lambda v, d: recursion.backward_recursion(v, d).square().sum(), argnums=(0, 1))
    got = torch.vmap(gradient)(values, discounts)
    expected = [
        torch.stack(one) for one in zip(*(gradient(v, d) for v, d in zip(values, discounts, strict=True)), strict=True)
    ]
    torch.testing.assert_close(got, tuple(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_advantages_are_discounted_sums_of_surprises(shape, dtype):
    reward, value, following, done, terminated = given = trajectories(*shape, dtype=dtype)
    delta = reward + 0.9 * following * (~terminated) - value
    expected = looped(delta, 0.9 * 0.8 * (~done).to(dtype), False)
    for function in (advantages.generalized_advantage, advantages._reference):
        advantage, target = function(*given, 0.9, 0.8)
        torch.testing.assert_close(advantage, expected)
        torch.testing.assert_close(target, expected + value)


def test_what_follows_the_end_is_not_read():
    reward, value, following, _, _ = trajectories(1, 3, 1)
    ended = torch.tensor([[[True], [True], [True]]])
    nowhere = torch.full_like(following, float("nan"))
    advantage, _ = advantages.generalized_advantage(reward, value, nowhere, ended, ended, 0.9, 0.8)
    torch.testing.assert_close(advantage, reward - value)


def test_gradients_of_advantages_are_right():
    given = trajectories(2, 4, 2)
    floats = [x.requires_grad_() for x in given[:3]]
    assert torch.autograd.gradcheck(lambda *x: advantages.generalized_advantage(*x, *given[3:], 0.9, 0.8), floats)
    assert torch.autograd.gradgradcheck(lambda *x: advantages.generalized_advantage(*x, *given[3:], 0.9, 0.8), floats)
    torch.library.opcheck(torch.ops.flambeau_rl.generalized_advantage.default, (*given, 0.9, 0.8))


def test_advantages_under_vmap_are_those_of_each_example():
    given = trajectories(3, 2, 4, 1)
    mapped = torch.vmap(lambda *x: advantages.generalized_advantage(*x, 0.9, 0.8))(*given)
    each = [advantages.generalized_advantage(*(x[i] for x in given), 0.9, 0.8) for i in range(3)]
    torch.testing.assert_close(mapped, tuple(torch.stack(one) for one in zip(*each, strict=True)))


@pytest.mark.parametrize(
    ("at", "bad", "message"),
    [
        (0, torch.ones(2, 3), r"reward has shape \(2, 3\), expected \(rows, time, features\)"),
        (0, torch.ones(2, 3, 1).int(), "reward has dtype torch.int32, expected float32 or float64; convert it"),
        (1, torch.ones(2, 3, 2).double(), r"value has shape \(2, 3, 2\), expected \(2, 3, 1\) as the reward"),
        (2, torch.ones(2, 3, 1), "next_value has dtype torch.float32, expected torch.float64"),
        (3, torch.ones(2, 3, 1), "done has dtype torch.float32, expected torch.bool"),
        (4, torch.ones(1, 3, 1).bool(), r"terminated has shape \(1, 3, 1\), expected \(2, 3, 1\) as the reward"),
    ],
)
def test_bad_trajectories_are_named(at, bad, message):
    given = list(trajectories(2, 3, 1))
    given[at] = bad
    for function in (advantages.generalized_advantage, advantages._reference, advantages._fake):
        with pytest.raises(RuntimeError, match=message):
            function(*given, 0.9, 0.8)


@pytest.mark.slow
def test_compiled_code_has_no_break():
    def value(values, discounts, *given):
        summed = recursion.discounted_sum(values, discounts, 0).sum()
        return summed + sum(one.sum() for one in advantages.generalized_advantage(*given, 0.9, 0.8))

    given = (numbers(3, 4, dtype=torch.float64), numbers(3, 4, seed=1, dtype=torch.float64), *trajectories(2, 3, 1))
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    leaves = [x.clone().requires_grad_() for x in given[:2]]
    torch.testing.assert_close(compiled(*leaves, *given[2:]), value(*given))
    compiled(*leaves, *given[2:]).backward()
    plain = [x.clone().requires_grad_() for x in given[:2]]
    value(*plain, *given[2:]).backward()
    torch.testing.assert_close([x.grad for x in leaves], [x.grad for x in plain])


COMPARE = """
import json, contextlib, torch
from flambeau.rl.ops import _recursion_triton as kernels, generalized_advantage as advantages, recursion

kernels._on = lambda device: contextlib.nullcontext()
differ = []
def draw(*shape, dtype, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
def compare(what, got, expected):
    tolerance = 1e-12 if expected.dtype is torch.float64 else 2e-5
    if not torch.allclose(got, expected, rtol=tolerance, atol=tolerance):
        differ.append([str(what), (got - expected).abs().max().item()])
for dtype in (torch.float32, torch.float64):
    for shape in ((2, 5, 3), (1, 1, 1), (3, 70, 1), (1, 40, 35), (1, 1500, 1), (0, 4, 2), (2, 0, 2)):
        values = draw(*shape, dtype=dtype, seed=0)
        discounts = draw(*shape, dtype=dtype, seed=1).clamp(-0.95, 0.95)
        for way in ("backward", "forward"):
            compare((way, shape, dtype), getattr(kernels, way + "_recursion")(values, discounts),
                    getattr(recursion, "_reference_" + way)(values, discounts))
        done = draw(*shape, dtype=dtype, seed=2) > 1
        given = (values, discounts, draw(*shape, dtype=dtype, seed=3), done, done & (values > 0), 0.9, 0.8)
        for got, expected in zip(kernels.generalized_advantage(*given), advantages._reference(*given), strict=True):
            compare(("advantage", shape, dtype), got, expected)
print(json.dumps(differ))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_the_triton_kernels_give_the_references_numbers():
    done = subprocess.run(
        [sys.executable, "-c", COMPARE],
        capture_output=True, text=True, timeout=280, env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []
