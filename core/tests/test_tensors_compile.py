"""Typed tensors under `torch.compile` and `torch.export`."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor

from flambeau.core.tensors import (
    TypedTensor,
    compiled,
    export,
    exported,
    functional,
    register_kernel,
    rewrap,
    set_return_type,
    summary,
    tensor_type,
    unwrap,
    wrap,
)

# Torch itself warns so while it compiles.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


@tensor_type(name="compiled-wave", fields={"rate": int, "span": tuple})
class Wave(TypedTensor):
    """Audio."""


class Mine(Wave):
    """A user's subclass."""


@tensor_type(name="compiled-whole-wave", fields={"rate": int, "span": tuple})
class Whole(TypedTensor, tree="leaf"):
    """Audio that pytree leaves whole."""


@functional
def resample(inpt: Tensor, factor: int) -> Tensor:
    return inpt[..., ::factor] - 1


@register_kernel(resample, Wave)
def resample_wave(inpt: Tensor, factor: int, *, rate: int) -> tuple[Tensor, dict[str, int]]:
    return inpt[..., ::factor] * rate + inpt.shape[-1], {"rate": rate // factor}


@register_kernel(resample, Whole)
def resample_whole(inpt: Tensor, factor: int, *, rate: int) -> tuple[Tensor, dict[str, int]]:
    return inpt[..., ::factor] * rate + inpt.shape[-1], {"rate": rate // factor}


@functional
def reverse(inpt: Tensor) -> Tensor:
    return inpt.flip(-1)


@register_kernel(reverse, Wave)
def reverse_wave(inpt: Tensor) -> Tensor:
    return inpt.flip(-1) * 2


class Pipeline(torch.nn.Module):
    def forward(self, sample: dict[str, Any]) -> dict[str, Any]:
        return {
            key: reverse(resample(value, 2)).clone() if isinstance(value, (Wave, Whole)) else value + 1
            for key, value in sample.items()
        }


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, inpt: Tensor) -> Tensor:
        return self.layer(inpt).relu()


class Resample(torch.nn.Module):
    def forward(self, inpt: Tensor) -> Tensor:
        return resample(inpt, 2)


def wave(*shape: int, cls: Any = Wave, rate: int = 6) -> Any:
    return cls(torch.randn(*shape or (3, 8)), rate=rate, span=(0, 1))


def questions(inpt: Any) -> Any:
    return inpt * inpt.rate + inpt.shape[0] + inpt.numel() + inpt.size(-1), inpt.to(torch.float64), inpt.dtype


CASES: dict[str, tuple[Any, Any]] = {
    "a functional": (lambda x: resample(x, 2), wave),
    "a functional, user's subclass": (lambda x: resample(x, 2), lambda: wave(cls=Mine)),
    "a model": (Model(), wave),
    "a pipeline over a tree": (Pipeline(), lambda: {"x": wave(), "y": torch.ones(2)}),
    "a pipeline over a tree with leaves": (Pipeline(), lambda: {"x": wave(cls=Whole), "y": torch.ones(2)}),
    "attributes": (questions, wave),
    "attributes of a leaf": (questions, lambda: wave(cls=Whole)),
    "a model on a leaf": (Model(), lambda: wave(cls=Whole)),
    "kept by the table": (lambda x: (x.clone(), x.detach(), x + 1), wave),
    "wrap": (lambda x: wrap(x * 2, like=x, rate=1), wave),
    "unwrap and rewrap": (lambda x: rewrap(*unwrap({"a": x})), wave),
}


def agree(result: Any, expected: Any) -> None:
    assert summary(result) == summary(expected)
    for ours, theirs in zip(pytree.tree_leaves(result), pytree.tree_leaves(expected), strict=True):
        if isinstance(ours, Tensor):
            torch.testing.assert_close(ours, theirs)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.compiler.reset()


@pytest.mark.parametrize("compiler", [compiled, torch.compile])
@pytest.mark.parametrize("name", CASES)
def test_compiled_whole_gives_what_eager_gives(name: str, compiler: Any) -> None:
    function, argument = CASES[name]
    value = argument()

    agree(compiler(function, fullgraph=True, backend="aot_eager")(value), function(value))


@pytest.mark.parametrize("compiler", [compiled, torch.compile])
@pytest.mark.parametrize("dynamic", [None, True])
def test_inductor_compiles_a_pipeline_and_a_model(compiler: Any, dynamic: bool | None) -> None:
    for name in ("a pipeline over a tree", "a pipeline over a tree with leaves", "a model", "a model on a leaf"):
        function, argument = CASES[name]
        value = argument()
        agree(compiler(function, fullgraph=True, dynamic=dynamic)(value), function(value))


def test_one_graph_serves_all_sizes_when_shapes_are_dynamic() -> None:
    count = torch._dynamo.testing.CompileCounter()  # type: ignore[no-untyped-call]
    function = compiled(lambda x: resample(x, 2), fullgraph=True, dynamic=True, backend=count)

    for length in (8, 10, 16):
        value = wave(3, length)
        agree(function(value), resample(value, 2))
    assert count.frame_count == 1


def test_new_metadata_make_a_new_graph_and_right_results() -> None:
    function = compiled(lambda x: resample(x, 2), fullgraph=True, backend="eager")

    for rate in (2, 4, 6, 8):
        value = wave(rate=rate)
        agree(function(value), resample(value, 2))


def test_a_compiled_function_serves_plain_and_typed_tensors() -> None:
    function = compiled(lambda x: resample(x, 2), fullgraph=True, backend="eager")
    value = wave()

    agree(function(value), resample(value, 2))
    agree(function(value.as_subclass(Tensor)), resample(value.as_subclass(Tensor), 2))


def test_compiled_is_a_decorator_and_keeps_the_name() -> None:
    @compiled(fullgraph=True, backend="eager")
    def double(inpt: Tensor, *, by: int = 2) -> Tensor:
        """Multiply."""
        return inpt * by

    assert (double.__name__, double.__doc__) == ("double", "Multiply.")
    agree(double(wave(), by=3).shape, torch.Size([3, 8]))


def test_gradients_through_a_compiled_functional() -> None:
    value = wave().requires_grad_()
    compiled(reverse, fullgraph=True, backend="aot_eager")(value).sum().backward()

    assert value.grad is not None
    assert torch.equal(value.grad, torch.full((3, 8), 2.0))


def test_return_types_count_inside_too() -> None:
    value = wave()
    with set_return_type("typed"):
        agree(compiled(lambda x: x * 2, fullgraph=True, backend="eager")(value), value * 2)


@pytest.mark.parametrize(
    ("module", "argument"),
    [
        (Model(), wave),
        (Resample(), wave),
        (Resample(), lambda: wave(cls=Mine)),
        (Pipeline(), CASES["a pipeline over a tree"][1]),
    ],
)
def test_exported_programs_take_and_give_typed_tensors_after_saving(module: Any, argument: Any) -> None:
    value = argument()
    program = torch.export.export(module, (value,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)

    agree(torch.export.load(file).module()(value), module(value))


def test_a_program_of_leaves_takes_and_gives_typed_tensors_after_saving() -> None:
    sample = {"x": wave(cls=Whole), "y": torch.ones(2)}
    file = io.BytesIO()
    torch.export.save(export(Pipeline(), (sample,)), file)
    file.seek(0)
    program = torch.export.load(file)

    agree(exported(program)(sample), Pipeline()(sample))
    with pytest.raises(Exception, match="spec"):
        exported(program)({"x": wave(cls=Whole, rate=2), "y": torch.ones(2)})


def test_export_of_leaves_with_dynamic_sizes() -> None:
    length = 2 * torch.export.Dim("half", min=2, max=64)
    program = export(Resample(), (wave(3, 8, cls=Whole),), dynamic_shapes={"args": ([{0: None, 1: length}],)})

    value = wave(3, 20, cls=Whole)
    agree(exported(program)(value), resample(value, 2))


def test_export_with_dynamic_sizes() -> None:
    length = 2 * torch.export.Dim("half", min=2, max=64)
    program = torch.export.export(Resample(), (wave(3, 8),), dynamic_shapes=([{0: None, 1: length}],))

    value = wave(3, 20)
    agree(program.module()(value), resample(value, 2))


def test_nothing_is_slower_or_other_after_an_export() -> None:
    """Exporting wraps fake tensors; ordinary ones behave as before."""
    torch.export.export(Resample(), (wave(),))
    value = wave()

    assert type(value + 1) is Tensor
    assert value.add_(1) is value
    assert value.shape == (3, 8)
    assert type(value.clone()) is Wave
