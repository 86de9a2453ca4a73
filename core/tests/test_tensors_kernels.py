"""Functionals: choosing the implementation by type, taking the type off at the door and putting it on at the exit."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from flambeau.core.errors import DuplicateNameError
from flambeau.core.tensors import (
    MetadataError,
    TensorTypeError,
    TypedTensor,
    functional,
    get_kernel,
    register_kernel,
    set_checks,
    tensor_type,
)


@tensor_type(name="kernel-wave", fields={"rate": int})
class Wave(TypedTensor):
    """Audio."""


@tensor_type(name="kernel-picture")
class Picture(TypedTensor):
    """Without metadata."""


class Mine(Wave):
    """A user's subclass."""


def wave(*values: float, rate: int = 4) -> Wave:
    return Wave(torch.tensor(values or (1.0, 2.0, 3.0)), rate=rate)


def reversing() -> Any:
    """A new functional, so that tests do not see each other's kernels."""

    @functional
    def reverse(inpt: Tensor, times: int = 1) -> Tensor:
        """Reverse the last dimension."""
        return inpt.flip(-1) * times

    return reverse


def test_plain_tensors_go_to_the_functions_own_body() -> None:
    reverse = reversing()

    assert reverse(torch.tensor([1, 2]), 3).tolist() == [6, 3]
    assert reverse(inpt=torch.tensor([1, 2]), times=2).tolist() == [4, 2]
    assert (reverse.__name__, reverse.__doc__) == ("reverse", "Reverse the last dimension.")


def test_a_typed_tensor_goes_to_its_kernel_and_keeps_type_and_metadata() -> None:
    reverse = reversing()
    seen: list[Any] = []

    @register_kernel(reverse, Wave)
    def reverse_wave(inpt: Tensor, times: int = 1) -> Tensor:
        seen.append(type(inpt * 1))
        return inpt.flip(-1) * times + 0.5

    result = reverse(wave(), times=2)
    assert (type(result), result.rate) == (Wave, 4)
    assert result.tolist() == [6.5, 4.5, 2.5]
    assert seen == [Tensor], "inside, operations give plain tensors"


def test_a_kernel_gets_the_metadata_it_names_and_may_return_changed_ones() -> None:
    @functional
    def resample(inpt: Tensor, factor: int) -> Tensor:
        return inpt[..., ::factor]

    @register_kernel(resample, Wave)
    def resample_wave(inpt: Tensor, factor: int, *, rate: int) -> tuple[Tensor, dict[str, int]]:
        return inpt[..., ::factor], {"rate": rate // factor}

    result = resample(wave(1, 2, 3, 4), 2)
    assert (result.tolist(), result.rate) == ([1.0, 3.0], 2)


def test_metadata_may_stand_among_the_positional_parameters() -> None:
    """Upstream: kernels of boxes take the format between the boxes and the functional's own arguments."""

    @functional
    def shift(inpt: Tensor, left: int, right: int = 0) -> Tensor:
        return inpt - left + right

    @register_kernel(shift, Wave)
    def shift_wave(inpt: Tensor, rate: int, left: int, right: int = 0) -> Tensor:
        return inpt * rate - left + right

    assert shift(wave(1.0), 2, right=5).tolist() == [7.0]
    assert shift(wave(1.0), 2, 5).tolist() == [7.0]


def test_an_argument_of_the_functional_wins_over_a_field_of_that_name() -> None:
    @functional
    def convert(inpt: Tensor, rate: int) -> Tensor:
        return inpt * rate

    @register_kernel(convert, Wave)
    def convert_wave(inpt: Tensor, rate: int) -> tuple[Tensor, dict[str, int]]:
        return inpt * rate, {"rate": rate}

    result = convert(wave(1.0, rate=4), 9)
    assert (result.tolist(), result.rate) == ([9.0], 9)


def test_unknown_metadata_returned_by_a_kernel_are_refused() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: (inpt, {"speed": 1}))

    with pytest.raises(TensorTypeError, match="Wave: unknown metadata: speed"):
        reverse(wave())


def test_without_wrapping_a_kernel_gets_the_typed_tensor_and_its_result_stays() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave, wrap=False)(lambda inpt: ("raw", inpt))

    sound = wave()
    assert reverse(sound) == ("raw", sound)


@pytest.mark.parametrize("cls", [Mine, Wave])
def test_a_users_subclass_is_served_by_its_parents_kernel_and_kept(cls: type[Wave]) -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: inpt + 100)

    result = reverse(cls(torch.zeros(2), rate=5))
    assert (type(result), result.rate, result.tolist()) == (cls, 5, [100.0, 100.0])


def test_the_exact_class_comes_before_its_parents() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: inpt + 1)
    assert reverse(Mine(torch.zeros(1), rate=1)).tolist() == [1.0]

    register_kernel(reverse, Mine)(lambda inpt: inpt + 2)
    assert reverse(Mine(torch.zeros(1), rate=1)).tolist() == [2.0], "registering forgets what was found before"
    assert reverse(wave(0.0)).tolist() == [1.0]


def test_a_type_without_kernel_is_treated_as_plain_and_gives_a_plain_result() -> None:
    result = reversing()(wave())

    assert type(result) is Tensor
    assert result.tolist() == [3.0, 2.0, 1.0]


def test_a_type_without_kernel_is_refused_where_there_is_no_fallback() -> None:
    @functional(fallback=False)
    def brighten(inpt: Tensor) -> Tensor:
        return inpt + 1

    register_kernel(brighten, Picture)(lambda inpt: inpt + 1)

    assert brighten(torch.zeros(1)).tolist() == [1.0]
    with pytest.raises(
        TensorTypeError,
        match=r"brighten has no kernel for Wave; it supports: Picture, Tensor\. "
        r"To add one: @register_kernel\(brighten, Wave\)",
    ):
        brighten(wave())


@pytest.mark.parametrize("value", ["text", 3, None, [1.0]])
def test_what_is_no_tensor_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=rf"reverse has no kernel for {type(value).__name__}; it supports: Tensor"):
        reversing()(value)


def test_a_functional_that_is_only_a_signature_serves_registered_types_alone() -> None:
    @functional(plain=False)
    def measure(inpt: Tensor) -> float:
        """How long it is."""

    register_kernel(measure, Wave)(lambda inpt, *, rate: inpt.numel() / rate)

    assert measure(wave(1, 2)) == 0.5
    with pytest.raises(TypeError, match="measure has no kernel for Tensor; it supports: Wave"):
        measure(torch.zeros(1))


def test_classes_that_are_no_tensors_can_have_kernels() -> None:
    reverse = reversing()
    register_kernel(reverse, str)(lambda text, times=1: text[::-1] * times)

    assert reverse("ab", 2) == "baba"


def test_a_missing_argument_is_reported_as_by_any_function() -> None:
    with pytest.raises(TypeError, match="missing its first argument"):
        reversing()()


def test_a_second_kernel_for_a_type_is_refused_and_the_first_stays() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: inpt + 1)

    with pytest.raises(DuplicateNameError, match=r"reverse: Wave already has the kernel .*<lambda>; .* Derive a class"):
        register_kernel(reverse, Wave)(lambda inpt: inpt + 2)
    assert reverse(wave(0.0)).tolist() == [1.0]


def test_the_same_kernel_may_be_registered_again() -> None:
    reverse = reversing()

    def kernel(inpt: Tensor) -> Tensor:
        return inpt + 1

    for _ in range(2):
        assert register_kernel(reverse, Wave)(kernel) is kernel


def test_several_results_are_all_typed() -> None:
    @functional
    def halves(inpt: Tensor) -> list[Tensor]:
        return list(inpt.chunk(2))

    register_kernel(halves, Wave)(lambda inpt: tuple(inpt.chunk(2)))

    pieces = halves(wave(1, 2, 3, 4))
    assert [type(pieces), *map(type, pieces)] == [tuple, Wave, Wave]
    assert [piece.rate for piece in pieces] == [4, 4]


def test_results_that_are_no_tensors_stay() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: [inpt.shape[-1], "x"])

    assert reverse(wave()) == [3, "x"]


def test_the_input_returned_as_it_is_stays_the_same_object() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: inpt)

    sound = wave()
    assert reverse(sound) is sound


def test_the_input_returned_with_other_metadata_is_a_new_object() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: (inpt, {"rate": 9}))

    sound = wave()
    result = reverse(sound)
    assert (result.rate, sound.rate) == (9, 4)
    assert result.data_ptr() == sound.data_ptr()


def test_a_tensor_that_someone_else_holds_is_not_changed_by_becoming_a_result() -> None:
    reverse = reversing()
    table = torch.ones(3)
    register_kernel(reverse, Wave)(lambda inpt: table)

    result = reverse(wave())
    assert (type(result), type(table)) == (Wave, Tensor)
    assert result.data_ptr() == table.data_ptr()


def test_gradients_flow_through() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: inpt.flip(-1) * torch.tensor([1.0, 10.0, 100.0]))

    sound = wave().requires_grad_()
    reverse(sound).sum().backward()
    assert sound.grad is not None
    assert sound.grad.tolist() == [100.0, 10.0, 1.0]


def test_inside_a_kernel_other_functionals_see_plain_tensors() -> None:
    inner, outer = reversing(), reversing()
    register_kernel(inner, Wave)(lambda inpt: inpt + 1000)
    register_kernel(outer, Wave)(lambda inpt: inner(inpt))

    result = outer(wave(1, 2))
    assert (type(result), result.tolist()) == (Wave, [2.0, 1.0])


def test_results_are_checked_when_checks_are_on() -> None:
    @tensor_type(name="kernel-pair", shape="... 2")
    class Pair(TypedTensor):
        pass

    reverse = reversing()
    register_kernel(reverse, Pair)(lambda inpt: inpt[..., :1])

    pair = Pair(torch.zeros(3, 2))
    assert reverse(pair).shape == (3, 1)
    with set_checks(True), pytest.raises(MetadataError, match=r"Pair: shape \(3, 1\) does not fit '... 2'"):
        reverse(pair)


def test_kernels_named_in_the_declaration() -> None:
    reverse = reversing()

    @tensor_type(name="kernel-declared", kernels={reverse: lambda inpt: inpt - 1})
    class Declared(TypedTensor):
        pass

    assert reverse(Declared(torch.zeros(1))).tolist() == [-1.0]


def test_get_kernel_gives_what_the_functional_would_call() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: inpt + 1)

    assert type(get_kernel(reverse, Mine)(Mine(torch.zeros(1), rate=1))) is Mine
    assert get_kernel(reverse, Tensor)(torch.tensor([1, 2])).tolist() == [2, 1]
    with pytest.raises(TypeError, match="no kernel for dict"):
        get_kernel(reverse, dict)


def test_a_function_that_dispatches_itself_can_have_kernels() -> None:
    """Upstream: a functional's body looks its kernel up."""

    def crop(inpt: Tensor) -> Any:
        return get_kernel(crop, type(inpt))(inpt)

    register_kernel(crop, Wave)(lambda inpt: inpt[:1])

    assert type(crop(wave())) is Wave
    with pytest.raises(TypeError, match="crop has no kernel for Tensor; it supports: Wave"):
        crop(torch.zeros(2))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that shows a functional of a private module under its own name."""
    folder = tmp_path / "kernelpkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("from kernelpkg._flips import flip\n")
    (folder / "_flips.py").write_text(
        "from flambeau.core.tensors import functional\n\n@functional\ndef flip(inpt):\n    return inpt.flip(-1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "kernelpkg"
    for name in ("kernelpkg", "kernelpkg._flips"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("path", ["kernelpkg:flip", "kernelpkg._flips:flip"])
@pytest.mark.parametrize("before", [True, False])
def test_a_functional_can_be_named_before_and_after_its_module_is_imported(
    package: str, path: str, before: bool
) -> None:
    if before:
        register_kernel(path, Wave)(lambda inpt: inpt + 1)
        assert package not in sys.modules, "naming a functional imports nothing"
    flip = importlib.import_module(package).flip
    if not before:
        register_kernel(path, Wave)(lambda inpt: inpt + 1)

    assert flip(wave(0.0)).tolist() == [1.0]
    assert get_kernel(path, Wave)(wave(0.0)).tolist() == [1.0]


def test_names_that_name_nothing_are_refused(package: str) -> None:
    importlib.import_module(package)

    with pytest.raises(TensorTypeError, match="module kernelpkg has no 'flop'"):
        register_kernel("kernelpkg:flop", Wave)(lambda inpt: inpt)
    with pytest.raises(TensorTypeError, match=r"'flip' is not of the form 'package\.module:function'"):
        register_kernel("flip", Wave)(lambda inpt: inpt)


def test_threads_may_meet_a_type_for_the_first_time_together() -> None:
    reverse = reversing()
    register_kernel(reverse, Wave)(lambda inpt: inpt + 1)
    classes = [type(f"Thread{n}", (Wave,), {}) for n in range(8)]
    results: list[Any] = []
    start = threading.Barrier(8)

    def work(cls: Any) -> None:
        start.wait()
        results.append(type(reverse(cls(torch.zeros(1), rate=1))) is cls)

    threads = [threading.Thread(target=work, args=(cls,)) for cls in classes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
