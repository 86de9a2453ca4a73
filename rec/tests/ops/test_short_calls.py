"""Calls of operators through `OPS` take a short way, on which they do the same."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import types

import pytest
import torch
from operator_cases import CASES, copied
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import flambeau.rec.ops
from flambeau.rec.ops._short_calls import OPS

for _module in pkgutil.iter_modules(flambeau.rec.ops.__path__, "flambeau.rec.ops."):
    importlib.import_module(_module.name)

TORCH = torch.ops.flambeau_rec
OFFSETS = torch.tensor([0, 2, 2, 5])
# A kernel of its own, and a function of that one.
BOTH = [
    ("jagged_2d_to_dense", lambda values: (values, OFFSETS, 3)),
    ("jagged_to_padded_dense", lambda values: (values, [OFFSETS], [3], 0.0)),
]


def outcome(operator, arguments):
    """What an operator gives, and does to its arguments; or its error."""
    given = copied(arguments)
    try:
        result = operator(*given)
    except Exception as error:
        return type(error), str(error)
    return result, given


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.isnan(), b.isnan()) and (
            torch.equal(a.nan_to_num(), b.nan_to_num())
        )  # fmt: skip
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    return a == b


FIRST = {name.partition("/")[0]: name for name in reversed(CASES)}  # of each operator


@pytest.mark.parametrize("name", FIRST.values(), ids=str)
def test_the_short_way_does_what_the_operator_does(name):
    called = name.partition("/")[0]
    plain = [one.detach() if isinstance(one, torch.Tensor) else one for one in copy.copy(list(CASES[name]))]

    assert same(outcome(getattr(OPS, called), plain), outcome(getattr(TORCH, called).default, plain))


def test_most_operators_take_it():
    shortened = [
        name
        for name in {case.partition("/")[0] for case in CASES}
        if isinstance(getattr(OPS, name), types.FunctionType)
    ]

    assert len(shortened) > 50


@pytest.mark.parametrize("name, arguments", BOTH)
def test_what_needs_a_gradient_gets_one(name, arguments):
    values = torch.randn(5, 4, requires_grad=True)

    getattr(OPS, name)(*arguments(values)).sum().backward()

    assert torch.equal(values.grad, torch.ones(5, 4))


@pytest.mark.parametrize("name, arguments", BOTH)
def test_nothing_is_kept_for_a_gradient_that_nobody_needs(name, arguments):
    learned = torch.randn(5, 4, requires_grad=True)

    assert not getattr(OPS, name)(*arguments(torch.randn(5, 4))).requires_grad
    with torch.no_grad():
        assert not getattr(OPS, name)(*arguments(learned)).requires_grad


@pytest.mark.parametrize("name, arguments", BOTH)
def test_a_result_can_be_changed_and_learned_from(name, arguments):
    result = getattr(OPS, name)(*arguments(torch.ones(5, 4)))

    result.requires_grad_()
    (result * 2).sum().backward()

    assert torch.equal(result.grad, torch.full((3, 3, 4), 2.0))


@pytest.mark.parametrize("name, arguments", BOTH)
def test_modes_see_the_operator(name, arguments):
    class Listening(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function.name())
            return function(*args, **(kwargs or {}))

    seen: list[str] = []
    with Listening():
        getattr(OPS, name)(*arguments(torch.ones(5, 4)))

    assert any(one.startswith("flambeau_rec::") for one in seen)


@pytest.mark.parametrize("name, arguments", BOTH)
def test_fake_tensors_stay_fake(name, arguments):
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(torch.ones(5, 4))
    result = None
    with mode:
        result = getattr(OPS, name)(*arguments(fake))

    assert type(result) is type(fake)
    assert result.shape == (3, 3, 4)


@pytest.mark.parametrize("name, arguments", BOTH)
def test_traces_and_compiled_programs_have_the_operator(name, arguments):
    def program(values):
        return getattr(OPS, name)(*arguments(values)) * 2

    values = torch.randn(5, 4)

    assert "flambeau_rec" in make_fx(program)(values).code
    assert torch.equal(torch.compile(program, fullgraph=True, backend="aot_eager")(values), program(values))


@pytest.mark.parametrize("name, arguments", BOTH)
def test_arguments_that_the_schema_does_not_have_are_refused(name, arguments):
    values = torch.ones(5, 4)
    with pytest.raises((TypeError, RuntimeError)):
        getattr(OPS, name)(*arguments(values), 1, 2)
    with pytest.raises((TypeError, RuntimeError)):
        getattr(OPS, name)(*arguments("values"))
    with pytest.raises((TypeError, RuntimeError)):
        getattr(OPS, name)()


def test_keyword_arguments_and_defaults_are_those_of_the_schema():
    values = torch.ones(5, 4)

    assert torch.equal(
        OPS.jagged_to_padded_dense(values, [OFFSETS], [3]),
        OPS.jagged_to_padded_dense(values=values, offsets=[OFFSETS], max_lengths=[3], padding_value=0.0),
    )


def test_transforms_see_the_operator():
    # torch has none for gradient formulas of operators in Python: they say so, and never give a gradient of zero.
    def total(operator):
        return lambda values: operator(values, OFFSETS, 3).sum()

    found = [outcome(torch.func.grad(total(one.jagged_2d_to_dense)), [torch.randn(5, 4)]) for one in (OPS, TORCH)]

    assert found[0][0] is RuntimeError
    assert found[0] == found[1]


@pytest.mark.parametrize("name, arguments", BOTH)
def test_graphs_by_name_have_the_operator(name, arguments):
    traced = torch.fx.symbolic_trace(lambda values: getattr(OPS, name)(*arguments(values)))

    assert any("flambeau_rec" in str(node.target) or name in str(node.target) for node in traced.graph.nodes)
    values = torch.randn(5, 4)
    assert torch.equal(traced(values), getattr(TORCH, name)(*arguments(values)))


def test_what_torch_has_of_an_operator_is_left_as_it_is():
    assert not isinstance(TORCH.jagged_2d_to_dense._op, types.FunctionType)
    assert TORCH.jagged_2d_to_dense(torch.ones(5, 4), OFFSETS, 3).shape == (3, 3, 4)


def bags(weights):
    """A batch that a kernel in Python gives to two shards."""
    ids, blocks = torch.tensor([1, 7, 3]), torch.tensor([5])
    return torch.tensor([2, 1]), ids, False, False, blocks, 2, weights


def test_kernels_in_python_leave_gradients_to_the_operator():
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    moved = OPS.block_bucketize_sparse_features(*bags(weights))[2]
    moved.backward(torch.tensor([10.0, 20.0, 30.0]))

    assert moved.tolist() == [1.0, 3.0, 2.0]
    assert weights.grad.tolist() == [10.0, 30.0, 20.0]


def test_kernels_in_python_leave_tensors_without_memory_to_the_operator():
    given = [one.to("meta") if isinstance(one, torch.Tensor) else one for one in bags(torch.ones(3))]

    result = OPS.block_bucketize_sparse_features(*given)

    assert all(one.is_meta for one in result[:3])
    listed = [torch.ones(2, dtype=torch.int64, device="meta")]
    assert all(one.is_meta for one in OPS.tbe_input_combine_with_length(listed, listed, [torch.empty(0)]))
