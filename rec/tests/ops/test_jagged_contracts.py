"""Whatever an operator on jagged tensors is asked for, its reference gives the same, and torch can trace it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from operator_cases import copied, leaves, spread
from sll_cases import JAGGED_CASES
from test_operator_contracts import assert_alike, overload, run

OPERATORS = sorted({name.partition("/")[0] for name in JAGGED_CASES})
# They give offsets back, as upstream's schemas say: one tensor is argument and result.
HAND_BACK = {
    "dense_to_jagged", "jagged_dense_bmm", "jagged_dense_dense_elementwise_add_jagged_output",
    "jagged_dense_elementwise_add_jagged_output", "jagged_dense_elementwise_mul", "jagged_softmax",
}  # fmt: skip
LEARNED = sorted(
    {name.partition("/")[0] for name, one in JAGGED_CASES.items() if any(given.requires_grad for given in leaves(one))}
)


def of(operator):
    return {name: one for name, one in JAGGED_CASES.items() if name.startswith(f"{operator}/")}


def outcomes():
    return {name: run(name, copied(arguments)) for name, arguments in JAGGED_CASES.items()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What every case gives in a process without native kernels."""
    path = tmp_path_factory.mktemp("reference") / "outcomes.pt"
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; import torch, test_jagged_contracts as t; "
        f"torch.save(t.outcomes(), {str(path)!r})"
    )
    environment = {**os.environ, "FLAMBEAU_NATIVE": "off"}
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return torch.load(path)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_native_kernel_gives_what_plain_torch_gives(operator, reference):
    for name, arguments in of(operator).items():
        assert_alike(run(name, copied(arguments)), reference[name])


@pytest.mark.parametrize("operator", OPERATORS)
def test_gaps_between_numbers_make_no_difference(operator, reference):
    name, arguments = next(iter(of(operator).items()))
    assert_alike(run(name, spread(arguments)), reference[name])


def chosen(operator):
    """A few cases of an operator that end well, the most varied first."""
    good = [name for name, one in of(operator).items() if not isinstance(run(name, copied(one))[0], str)]
    return [good[0], good[len(good) // 2], good[-1]]


# opcheck looks at the gradients of whatever an operator that calls others makes in between.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("operator", OPERATORS)
def test_torch_approves_of_the_registration(operator):
    checks = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for name in chosen(operator):
            schema = () if operator in HAND_BACK else ("test_schema",)
            torch.library.opcheck(overload(name), copied(JAGGED_CASES[name]), test_utils=(*schema, *checks))


@pytest.mark.parametrize("operator", OPERATORS)
def test_it_compiles_in_one_graph_with_sizes_that_are_not_known(operator):
    name = chosen(operator)[0]
    operation = overload(name)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda *given: operation(*given), fullgraph=True, backend="aot_eager", dynamic=True)
        arguments, again = copied(JAGGED_CASES[name]), copied(JAGGED_CASES[name])
        ours, expected = compiled(*arguments), operation(*again)
    for one, another in zip(leaves([ours]), leaves([expected]), strict=True):
        torch.testing.assert_close(one, another)


@pytest.mark.parametrize("operator", LEARNED)
def test_gradients_are_those_of_finite_differences_also_the_second_ones(operator):
    name = next(name for name, one in of(operator).items() if any(given.requires_grad for given in leaves(one)))
    flat = list(leaves(JAGGED_CASES[name]))
    learned = [at for at, one in enumerate(flat) if one.requires_grad]

    def function(*changed):
        given = iter([changed[learned.index(at)] if at in learned else one.clone() for at, one in enumerate(flat)])

        def put(value):
            if isinstance(value, torch.Tensor):
                return next(given)
            return [put(one) for one in value] if isinstance(value, (list, tuple)) else value

        result = overload(name)(*[put(one) for one in JAGGED_CASES[name]])
        return tuple(one for one in leaves([result]) if one.requires_grad)

    doubles = [flat[at].detach().double().requires_grad_() for at in learned]
    torch.autograd.gradcheck(function, doubles)
    torch.autograd.gradgradcheck(function, doubles)
