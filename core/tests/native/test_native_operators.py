"""An operator is declared once and behaves alike in every tier: results, gradients, tracing, errors."""

from __future__ import annotations

import os
import sys

import pytest

from flambeau.core.errors import DuplicateNameError

torch = pytest.importorskip("torch")

TIERS = {"dispatcher": "auto", "ctypes": "ctypes", "python": "off"}

FACTS = """
import json, torch
import toy_kernels as toy

scale = toy.scale
x = torch.arange(12.0)
leaf = torch.ones(3, requires_grad=True)
(first,) = torch.autograd.grad(scale(leaf, 4.0).sum(), leaf)
with torch.autocast("cpu", torch.bfloat16):
    cast = scale(torch.ones(2, dtype=torch.bfloat16), 1.0009765625)
    wide = scale(torch.ones(2), 2.0).dtype

def double_backward():
    (slope,) = torch.autograd.grad((scale(leaf, 2.0) ** 2).sum(), leaf, create_graph=True)
    slope.sum().backward()

def message(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)

print(json.dumps({
    "provider": toy.LIBRARY.operators["scale"]["provider"],
    "plain": scale(x, 2.0).tolist(),
    "strided": scale(x[::3], 2.0).tolist(),
    "empty": scale(x[:0], 2.0).tolist(),
    "gradient": first.tolist(),
    "double": message(double_backward),
    "autocast": [str(cast.dtype), str(wide)],
    "compiled": torch.compile(lambda v: scale(v, 3.0) + 1, fullgraph=True, backend="aot_eager")(x).tolist(),
}))
"""


@pytest.fixture(scope="module", params=TIERS)
def facts(request, toy, run_python):
    found = run_python(FACTS, toy, FLAMBEAU_NATIVE=TIERS[request.param])
    assert found["provider"] == request.param
    return found


def test_every_tier_gives_the_same_numbers(facts):
    assert facts["plain"] == [2.0 * i for i in range(12)]
    assert facts["strided"] == [0.0, 6.0, 12.0, 18.0]
    assert facts["empty"] == []


def test_every_tier_has_the_declared_gradient(facts):
    assert facts["gradient"] == [4.0, 4.0, 4.0]


def test_every_tier_refuses_a_second_derivative_that_is_not_declared(facts):
    assert "differentiate twice" in facts["double"]


def test_every_tier_computes_in_the_declared_dtype_under_autocast(facts):
    assert facts["autocast"] == ["torch.bfloat16", "torch.float32"]


def test_every_tier_compiles_without_graph_breaks(facts):
    assert facts["compiled"] == [3.0 * i + 1 for i in range(12)]


@pytest.fixture(scope="module")
def kernels(toy):
    sys.path.insert(0, str(toy))
    import toy_kernels

    assert toy_kernels.LIBRARY.provider == "dispatcher", toy_kernels.LIBRARY.reason
    yield toy_kernels
    sys.path.remove(str(toy))


def test_torch_finds_nothing_wrong_with_the_registration(kernels):
    torch.library.opcheck(kernels.scale, (torch.randn(5), 2.0))
    torch.library.opcheck(kernels.scale, (torch.randn(5, requires_grad=True), 2.0))


def test_an_operator_exports(kernels):
    class Double(torch.nn.Module):
        def forward(self, x):
            return kernels.scale(x, 2.0)

    length = torch.export.Dim("length", min=2)
    program = torch.export.export(Double(), (torch.ones(4),), dynamic_shapes=({0: length},))
    assert program.module()(torch.ones(7)).tolist() == [2.0] * 7


def test_integers_flags_and_several_results_cross_the_dispatcher(kernels):
    items, number = kernels.head(torch.arange(5.0), 2, True)
    assert (items.tolist(), number.item(), number.dtype) == ([0.0, -1.0], 2, torch.int64)
    assert kernels.head(torch.arange(5.0), 3, False)[0].tolist() == [0.0, 1.0, 2.0]


def test_optional_arguments_and_results_cross_the_dispatcher(kernels):
    x, weight = torch.arange(4.0), torch.tensor([1.0, 2.0, 0.5, 3.0])
    whole, first = kernels.weigh(x)
    assert (whole.tolist(), first) == ([0.0, 1.0, 2.0, 3.0], None)
    whole, first = kernels.weigh(x, weight, 2)
    assert (whole.tolist(), first.tolist()) == ([0.0, 2.0, 1.0, 9.0], [0.0, 2.0])
    assert kernels.weigh(x, None, 0)[1].shape == (0,)
    with pytest.raises(RuntimeError, match=r"weigh: weight has shape \(2,\)"):
        kernels.weigh(x, weight[:2], 1)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.transpose(0, 2),
        lambda x: x[:, 1:2, ::2],
        lambda x: x[0, 0, 0],
        lambda x: x[:, :0],
        lambda x: x[:1].expand(5, -1, -1),
        lambda x: x[:, :, :1],
    ],
)
def test_a_kernel_may_ask_for_its_input_without_gaps(kernels, view):
    x = view(torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4))
    assert torch.equal(kernels.pack(x), x)
    assert kernels.pack(x).is_contiguous()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.scale(torch.ones(2, 3), 1.0), r"scale: input is torch.float32 of shape \(2, 3\), expected"),
        (lambda k: k.scale(torch.ones(2).double(), 1.0), r"scale: input is torch.float64 of shape \(2,\), expected"),
        (lambda k: k.scale(torch.tensor(1.0), 1.0), r"scale: input is torch.float32 of shape \(\), expected"),
        (lambda k: k.head(torch.ones(2), 3, False), r"head: count is 3, expected 0 to 2\."),
    ],
)
def test_a_kernels_complaint_becomes_an_exception(kernels, call, message):
    with pytest.raises(RuntimeError, match=message):
        call(kernels)


def test_no_reference_to_an_argument_is_left_behind(kernels):
    x, y = torch.ones(3), torch.ones(3, dtype=torch.float64)
    before = x._use_count(), y._use_count()
    for _ in range(5):
        kernels.scale(x, 2.0)
        kernels.pack(y)
        with pytest.raises(RuntimeError, match="head: count"):
            kernels.head(x, 9, False)
        kernels.weigh(x, x, 2)
        with pytest.raises(RuntimeError, match="weigh: weight"):
            kernels.weigh(x, x[:1])
    assert (x._use_count(), y._use_count()) == before


@pytest.mark.skipif(
    not os.path.exists("/sys/kernel/mm/transparent_hugepage") or not os.path.exists("/proc/self/smaps"),
    reason="this system has no large pages to ask for",
)
def test_large_results_ask_for_large_pages(kernels):
    result = kernels.scale(torch.ones(1 << 22), 2.0)  # 16 MiB
    assert result.eq(2).all()
    middle, flags, inside = result.data_ptr() + (8 << 20), "", False
    with open("/proc/self/smaps") as maps:
        for line in maps:
            if "-" in (place := line.split()[0]) and ":" not in place:
                first, last = (int(end, 16) for end in place.split("-"))
                inside = first <= middle < last
            elif inside and line.startswith("VmFlags:"):
                flags = line
    assert " hg" in flags


def test_a_kernel_that_breaks_its_schema_is_caught(kernels):
    from flambeau.core.native import register_op

    forgetful = register_op("forgetful(Tensor x) -> Tensor", library=kernels.LIBRARY, fake=torch.empty_like)
    with pytest.raises(RuntimeError, match="gave 0 results, its schema says 1"):
        forgetful(torch.ones(1))


def test_registering_the_same_schema_again_gives_the_same_operator(kernels):
    from flambeau.core.native import register_op

    again = register_op(
        "scale(Tensor input, float factor) -> Tensor", library=kernels.LIBRARY, fake=lambda x, factor: x
    )
    assert again is kernels.scale


def test_a_name_cannot_be_registered_with_another_schema(kernels):
    from flambeau.core.native import register_op

    with pytest.raises(DuplicateNameError, match="toy::scale is registered as"):
        register_op("scale(Tensor input) -> Tensor", library=kernels.LIBRARY, fake=torch.empty_like)


@pytest.mark.parametrize("schema", ["", "scale", "toy::scale(Tensor x) -> Tensor", "(Tensor x) -> Tensor"])
def test_a_schema_without_a_plain_name_is_refused(kernels, schema):
    from flambeau.core.native import register_op

    with pytest.raises(ValueError, match="is no operator schema"):
        register_op(schema, library=kernels.LIBRARY, fake=torch.empty_like)


def on_cuda(operator, *args):
    """What the dispatcher would run for CUDA tensors, on tensors of the CPU."""
    return operator.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA), *args)


def test_the_reference_serves_where_triton_cannot_be_imported(kernels):
    assert "toy_triton" not in sys.modules
    assert on_cuda(kernels.scale, torch.ones(2), 5.0).tolist() == [5.0, 5.0]


def test_a_triton_kernel_is_imported_at_its_first_call(kernels, tmp_path, monkeypatch):
    from flambeau.core.native import register_op

    (tmp_path / "toy_later.py").write_text("def triple(x):\n    return x * 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    triple = register_op(
        "triple(Tensor x) -> Tensor", library=kernels.LIBRARY, fake=torch.empty_like, triton="toy_later:triple"
    )
    assert "toy_later" not in sys.modules
    assert on_cuda(triple, torch.ones(2)).tolist() == [3.0, 3.0]
    assert "toy_later" in sys.modules


def test_an_operator_without_reference_says_what_it_would_need(kernels):
    with pytest.raises(RuntimeError, match=r"toy::head has a native CPU kernel and no reference.*Move the tensors"):
        on_cuda(kernels.head, torch.ones(2), 1, False)
