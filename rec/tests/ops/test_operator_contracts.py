"""Whatever an operator is asked for, its reference gives the same, and torch can trace it."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from operator_cases import CASES, copied, detached, leaves, spread

import flambeau.rec.ops
from flambeau.core.testing.fill import tensor

for _module in pkgutil.iter_modules(flambeau.rec.ops.__path__, "flambeau.rec.ops."):
    importlib.import_module(_module.name)
OPERATORS = sorted({name.partition("/")[0] for name in CASES})


def overload(name):
    return getattr(torch.ops.flambeau_rec, name.partition("/")[0]).default


def run(name, arguments):
    """Results, arguments afterwards and gradients; or what class of error there was."""
    try:
        result = overload(name)(*arguments)
    except (RuntimeError, LookupError) as error:
        return type(error).__name__, str(error)
    outputs = [one for one in leaves([result]) if one.requires_grad]
    if outputs:
        sum(
            (one * tensor(f"grad{at}", tuple(one.shape)).to(one.dtype)).sum() for at, one in enumerate(outputs)
        ).backward()
    given = list(leaves(arguments))
    plain = [one.detach() for one in leaves([result])]
    return plain, [one.detach() for one in given], [one.grad for one in given]


def outcomes():
    return {name: run(name, copied(arguments)) for name, arguments in CASES.items()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What every case gives in a process without native kernels."""
    path = tmp_path_factory.mktemp("reference") / "outcomes.pt"
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; import torch, test_operator_contracts as t; "
        f"torch.save(t.outcomes(), {str(path)!r})"
    )
    environment = {**os.environ, "FLAMBEAU_NATIVE": "off"}
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return torch.load(path)


def assert_alike(ours, expected):
    if isinstance(expected[0], str) or isinstance(ours[0], str):
        assert ours[0] == expected[0], (ours, expected)  # the class; wording tells the first fault, or all of them
        return
    for mine, other in zip(ours, expected, strict=True):
        for one, another in zip(mine, other, strict=True):
            if another is None or one is None:
                assert one is another
            else:
                assert one.dtype == another.dtype
                loose = one.dtype in (torch.float16, torch.bfloat16)
                torch.testing.assert_close(one, another, rtol=2e-2 if loose else 1e-5, atol=2e-2 if loose else 1e-6)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_native_kernel_gives_what_plain_torch_gives(operator, reference):
    for name, arguments in CASES.items():
        if name.startswith(f"{operator}/"):
            assert_alike(run(name, copied(arguments)), reference[name])


@pytest.mark.parametrize("operator", OPERATORS)
def test_gaps_between_numbers_make_no_difference(operator, reference):
    name = next(name for name in CASES if name.startswith(f"{operator}/"))
    ours, expected = run(name, spread(CASES[name])), reference[name]
    assert_alike(ours, expected)


def chosen(operator):
    """A few cases of an operator that end well, the most varied first."""
    named = {name: one for name, one in CASES.items() if name.startswith(f"{operator}/")}
    good = [name for name, one in named.items() if not isinstance(run(name, copied(one))[0], str)]
    return [good[0], good[len(good) // 2], good[-1]] if len(good) > 2 else good


RETURNS_WHAT_IT_WRITES = ("permute_2D_sparse_preallocated_out",)  # as upstream's schema says


# What a composite operator passes on is no leaf, and torch's examination looks for its gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("operator", [name for name in OPERATORS if name not in RETURNS_WHAT_IT_WRITES])
def test_torch_approves_of_the_registration(operator):
    for name in chosen(operator):
        arguments = copied(CASES[name])
        outputs = list(leaves([overload(name)(*copied(arguments))]))
        # torch's examination cannot add gradients of floats to results that are integers; `gradcheck` does, below.
        mixed = any(one.requires_grad for one in outputs) and any(not one.is_floating_point() for one in outputs)
        torch.library.opcheck(overload(name), detached(arguments) if mixed else arguments)


@pytest.mark.parametrize("operator", OPERATORS)
def test_it_compiles_in_one_graph(operator):
    name = chosen(operator)[0]
    operation = overload(name)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        compiled = torch.compile(lambda *given: operation(*given), fullgraph=True, backend="aot_eager", dynamic=True)
        arguments, again = copied(CASES[name]), copied(CASES[name])
        ours, expected = compiled(*arguments), operation(*again)
    for one, another in zip(leaves([ours]), leaves([expected]), strict=True):
        torch.testing.assert_close(one, another)
    for one, another in zip(leaves(arguments), leaves(again), strict=True):
        torch.testing.assert_close(one, another)


LEARNED = sorted({name.partition("/")[0] for name, one in CASES.items() if any(t.requires_grad for t in leaves(one))})


@pytest.mark.parametrize("operator", LEARNED)
def test_gradients_are_those_of_finite_differences(operator):
    name = next(
        name
        for name, one in CASES.items()
        if name.startswith(f"{operator}/") and any(t.requires_grad for t in leaves(one)) and "stray" not in name
    )
    flat = list(leaves(CASES[name]))
    learned = [at for at, one in enumerate(flat) if one.requires_grad]

    def function(*changed):
        given = iter([changed[learned.index(at)] if at in learned else one.clone() for at, one in enumerate(flat)])

        def put(value):
            if isinstance(value, torch.Tensor):
                return next(given)
            return [put(one) for one in value] if isinstance(value, (list, tuple)) else value

        result = overload(name)(*[put(one) for one in CASES[name]])
        return tuple(one for one in leaves([result]) if one.requires_grad)

    doubles = [flat[at].detach().double().requires_grad_() for at in learned]
    torch.autograd.gradcheck(function, doubles)
