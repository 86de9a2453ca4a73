"""The kit's checks of operators and transforms: sound ones pass all, and each check catches one wrong its way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from flambeau.core.testing import Result, Sample, check_op, check_transform
from flambeau.core.testing.operators import OP_CHECKS, TRANSFORM_CHECKS


def smooth(x: Tensor, weight: float = 0.5) -> Tensor:
    """Sound: averages neighbours along the last dimension."""
    if x.dtype == torch.bool:
        raise TypeError("smooth: bool inputs have no mean; convert them first.")
    return weight * x + (1 - weight) * x.roll(1, -1)


def smooth_plainly(x: Tensor, weight: float = 0.5) -> Tensor:
    if x.numel() == 0:
        return x.clone()
    columns = [weight * x[..., i] + (1 - weight) * x[..., i - 1] for i in range(x.shape[-1])]
    return torch.stack(columns, -1)


def jitter(x: Tensor, *, generator: torch.Generator) -> Tensor:
    return x + torch.rand(x.shape, generator=generator, dtype=torch.float32).to(x.dtype)


X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
SMOOTH = Sample(
    "smooth", smooth, (X,), {"weight": 0.25}, reference=smooth_plainly, dtypes=("float32", "float64", "bfloat16"),
    rejects=("bool",), batched=(0,), differentiable=(0,), empty=(torch.zeros(0, 4),),
)  # fmt: skip


def by_name(results: list[Result]) -> dict[str, Result]:
    return {result.check: result for result in results}


def test_a_sound_operator_passes_every_check() -> None:
    results = by_name(check_op(SMOOTH, plugin="doc"))

    assert {name: str(result) for name, result in results.items() if result.status != "passed"} == {
        "same-generator-same-result": "not-applicable: same-generator-same-result:doc/smooth (it is not random.)"
    }
    assert len(results) == len(OP_CHECKS.checks)


def test_a_sound_random_operator_passes_what_applies() -> None:
    results = by_name(check_op(Sample("jitter", jitter, (X,), generator=True)))

    assert all(result.ok for result in results.values()), [str(r) for r in results.values() if not r.ok]
    assert results["same-generator-same-result"].status == "passed"


def wrong_for_float32(x: Tensor, weight: float) -> Tensor:
    return smooth(x, weight) + (1 if x.dtype == torch.float32 else 0)


def refuses_bfloat16(x: Tensor, weight: float) -> Tensor:
    if x.dtype == torch.bfloat16:
        raise NotImplementedError("no bfloat16")
    return smooth(x, weight)


def takes_anything(x: Tensor, weight: float) -> Tensor:
    return smooth(x.float() if x.dtype == torch.bool else x, weight)


def flattens(x: Tensor, weight: float) -> Tensor:
    return smooth(x.reshape(-1, 3, 4), weight)


def mixes_batch(x: Tensor, weight: float) -> Tensor:
    return smooth(x, weight) + (x.mean(0) if x.ndim > 3 else 0)


def ignores_strides(x: Tensor, weight: float) -> Tensor:
    return smooth(x.as_strided(x.shape, torch.empty(x.shape).stride()), weight)


def needs_elements(x: Tensor, weight: float) -> Tensor:
    return smooth(x, weight) + 0 * x.max()


def off_by_little(x: Tensor, weight: float) -> Tensor:
    return smooth(x, weight) + 1e-3


def detaches(x: Tensor, weight: float) -> Tensor:
    return smooth(x.detach(), weight)


def wrong_gradient(x: Tensor, weight: float) -> Tensor:
    return smooth(x, weight).detach() + (x - x.detach())


def branches(x: Tensor, weight: float) -> Tensor:
    return smooth(x, weight) if x.sum() > 1e9 else smooth(x, weight) + 0


def writes_input(x: Tensor, weight: float) -> Tensor:
    result = smooth(x, weight)
    x.mul_(2)
    return result


def touches_input(x: Tensor, weight: float) -> Tensor:
    return smooth(x.add_(0), weight)


def wrong_on_fake(x: Tensor, weight: float) -> Tensor:
    from torch._subclasses.fake_tensor import FakeTensor

    return smooth(x, weight)[..., :-1] if isinstance(x, FakeTensor) else smooth(x, weight)


@pytest.mark.parametrize(
    ("call", "check", "finding"),
    [
        (wrong_for_float32, "dtypes", "float32 and float64 disagree"),
        (refuses_bfloat16, "dtypes", "bfloat16 inputs raise NotImplementedError"),
        (takes_anything, "dtypes", "bool inputs are to be refused"),
        (flattens, "batch-dims", "has shape (4, 3, 4), expected (2, 2, 3, 4)"),
        (mixes_batch, "batch-dims", "leading dimensions (2,)"),
        (ignores_strides, "memory-layouts", "non-contiguous inputs"),
        (needs_elements, "empty-input", "max()"),
        (off_by_little, "agrees-with-plain-path", "against the plain path"),
        (detaches, "gradients", "detached"),
        (wrong_gradient, "gradients", "the gradient is wrong"),
        (branches, "compiles", "Unsupported"),
        (writes_input, "inputs-unmodified", "an input was modified"),
        (touches_input, "inputs-unmodified", "with the values it had"),
        (wrong_on_fake, "fake-agrees", "without data it gives"),
    ],
)
def test_a_faulty_operator_is_caught(call: Any, check: str, finding: str) -> None:
    result = by_name(check_op(replace(SMOOTH, call=call)))[check]

    assert result.status == "failed", result
    assert finding in result.message


def global_randomness(x: Tensor, *, generator: torch.Generator) -> Tensor:
    return x + torch.rand(x.shape)


def ignores_generator(x: Tensor, *, generator: torch.Generator) -> Tensor:
    return x + 1


@pytest.mark.parametrize(
    ("call", "finding"),
    [(global_randomness, "another global state"), (ignores_generator, "the generator is not used")],
)
def test_randomness_beside_the_generator_is_caught(call: Any, finding: str) -> None:
    result = by_name(check_op(Sample("random", call, (X,), generator=True)))["same-generator-same-result"]

    assert result.status == "failed"
    assert finding in result.message


@pytest.fixture
def library() -> Any:
    library = torch.library.Library("flambeau_kit", "FRAGMENT")
    yield library
    library._destroy()


def define(library: Any, name: str, *, fake: Any, python: Any) -> Any:
    library.define(f"{name}(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, python, "CompositeExplicitAutograd")
    torch.library.register_fake(f"flambeau_kit::{name}", fake, lib=library)
    return getattr(torch.ops.flambeau_kit, name)


def test_a_fake_rule_that_agrees_passes(library: Any) -> None:
    op = define(library, "double", fake=torch.empty_like, python=lambda x: x * 2)

    sample = Sample("double", lambda x: op(x), (X,), operator="flambeau_kit::double")
    assert by_name(check_op(sample))["fake-agrees"].status == "passed"


def test_an_operator_without_a_python_signature_can_be_the_sample(library: Any) -> None:
    op = define(library, "twofold", fake=torch.empty_like, python=lambda x: x * 2)

    result = by_name(check_op(Sample("twofold", op, (X,), operator="flambeau_kit::twofold")))["fake-agrees"]
    assert result.status == "passed", result.message


def test_a_fake_rule_that_disagrees_is_caught(library: Any) -> None:
    op = define(library, "half", fake=lambda x: x.new_empty(1), python=lambda x: x / 2)

    result = by_name(check_op(Sample("half", lambda x: op(x), (X,), operator="flambeau_kit::half")))["fake-agrees"]

    assert result.status == "failed"
    assert "opcheck" in result.message


def test_an_output_that_is_a_view_of_an_input_is_caught(library: Any) -> None:
    op = define(library, "same", fake=lambda x: x.view(x.shape), python=lambda x: x.view(x.shape))

    results = by_name(check_op(Sample("same", lambda x: op(x), (X,), operator="flambeau_kit::same")))

    assert "shares memory" in results["inputs-unmodified"].message


def test_an_operator_there_is_not_is_caught() -> None:
    result = by_name(check_op(Sample("absent", smooth, (X,), operator="flambeau_kit::absent")))["fake-agrees"]

    assert "no flambeau_kit::absent" in result.message


# Transforms


class Smooth:
    """Sound."""

    def __init__(self, weight: float = 0.25) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        return smooth(x, self.weight)

    def __repr__(self) -> str:
        return f"Smooth(weight={self.weight})"


class HoldsLambda(Smooth):
    def __init__(self) -> None:
        super().__init__()
        self.function = lambda x: x


class ForgetsWeight(Smooth):
    def __getstate__(self) -> dict[str, float]:
        return {"weight": 0.5}


class BareRepr(Smooth):
    __repr__ = object.__repr__


def test_a_sound_transform_passes_every_check_that_applies() -> None:
    results = by_name(check_transform(Sample("Smooth", Smooth(), (X,), batched=(0,)), plugin="doc"))

    assert all(result.ok for result in results.values()), [str(r) for r in results.values() if not r.ok]
    assert {results[name].status for name in ("pickles", "repr", "compiles", "batch-dims")} == {"passed"}
    assert set(results) == {check.name for check in TRANSFORM_CHECKS.checks}


@pytest.mark.parametrize(
    ("transform", "check", "finding"),
    [
        (HoldsLambda(), "pickles", "cannot be pickled"),
        (ForgetsWeight(), "pickles", "after pickle"),
        (BareRepr(), "repr", "not what a person can use"),
    ],
)
def test_a_faulty_transform_is_caught(transform: Smooth, check: str, finding: str) -> None:
    result = by_name(check_transform(Sample("Smooth", transform, (X,))))[check]

    assert result.status == "failed", result
    assert finding in result.message


def test_inputs_may_be_nested_and_other_than_tensors() -> None:
    def add(pair: dict[str, Tensor], times: int) -> list[Tensor]:
        return [pair["a"] + pair["b"]] * times

    results = by_name(check_op(Sample("add", add, ({"a": X, "b": X}, 2))))

    assert all(result.ok for result in results.values()), [str(r) for r in results.values() if not r.ok]
