"""Declaring tensor types and making typed tensors: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import enum
import subprocess
import sys
from typing import Any, Literal

import numpy as np
import pytest
import torch

from flambeau.core.errors import DuplicateNameError
from flambeau.core.registry import TENSOR_TYPES
from flambeau.core.tensors import (
    Field,
    MetadataError,
    Pad,
    TensorTypeError,
    TensorTypeInfo,
    TypedTensor,
    checked,
    set_checks,
    tensor_type,
)


class Window(enum.Enum):
    HANN = "hann"
    BOX = "box"


def positive(rate: int) -> bool:
    """greater than zero"""
    return rate > 0


@tensor_type(
    name="declared-wave",
    fields={"rate": Field(int, validator=positive), "window": Field(Window | None, default=None)},
    shape="... channels time",
    dtypes="floating",
)
class Wave(TypedTensor):
    """Audio."""


@tensor_type(name="declared-stereo", fields={"gain": {"type": float, "default": 1.0}}, shape="... 2 time")
class Stereo(Wave):
    """Adds a field to its parent's."""


class Louder(Wave):
    """A user's subclass, not declared itself."""


@tensor_type(name="declared-boxes", shape="... 4|5")
class Boxes(TypedTensor):
    """Boxes."""


def wave(*shape: int, **metadata: Any) -> Wave:
    return Wave(torch.zeros(*shape or (2, 8)), **{"rate": 16000, **metadata})


def test_metadata_become_attributes_and_defaults_fill_in() -> None:
    sound = wave()

    assert isinstance(sound, Wave)
    assert (sound.rate, sound.window) == (16000, None)
    assert TensorTypeInfo.of(sound).metadata(sound) == {"rate": 16000, "window": None}


def test_missing_metadata_is_refused_by_name() -> None:
    with pytest.raises(TensorTypeError, match=r"Wave: missing metadata: rate\. Call it as Wave\(data, rate=\.\.\.\)"):
        Wave(torch.zeros(2, 8))


def test_unknown_metadata_is_refused_by_name_with_the_nearest_field() -> None:
    with pytest.raises(TypeError, match=r"unknown metadata: rat; its fields are: rate, window\. Did you mean rate\?"):
        Wave(torch.zeros(2, 8), rat=16000)


def test_metadata_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        Wave(torch.zeros(2, 8), 16000)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("high", r"rate='high' is of type str, expected int"),
        (True, r"rate=True is of type bool, expected int"),
        (-1, r"rate=-1 was refused by its validator \(greater than zero\)"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(value: Any, words: str) -> None:
    with pytest.raises(MetadataError, match=words) as caught:
        wave(rate=value)

    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)


def test_a_validators_own_words_reach_the_user() -> None:
    def even(value: int) -> None:
        if value % 2:
            raise ValueError("it is odd")

    with pytest.raises(MetadataError, match="step=3 was refused: it is odd"):
        Field(int, validator=even).check("Grid", "step", 3)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (float, 3, "3"),
        (int | None, None, 1.5),
        (tuple[int, int], (4, 5), [4, 5]),
        (tuple[int, int], (4, 5), (4, 5, 6)),
        (tuple[str, ...], ("a", "b"), ("a", 1)),
        (Literal["soft", "hard"], "soft", "loud"),
        (list[int], [1], (1,)),
        (Window, Window.BOX, "box"),
        (None, None, 0),
    ],
)
def test_field_types_may_be_classes_unions_literals_and_tuples(kind: Any, good: Any, bad: Any) -> None:
    Field(kind).check("T", "x", good)
    with pytest.raises(MetadataError, match="T: x="):
        Field(kind).check("T", "x", bad)


def test_a_subtype_has_its_parents_fields_and_its_own() -> None:
    stereo = Stereo(torch.zeros(2, 8), rate=8000)

    assert (stereo.rate, stereo.window, stereo.gain) == (8000, None, 1.0)
    assert list(TensorTypeInfo.of(Stereo).fields) == ["rate", "window", "gain"]
    assert TensorTypeInfo.of(Stereo).layout.dtypes == ()


def test_an_undeclared_subclass_has_its_parents_declaration() -> None:
    louder = Louder(torch.zeros(2, 8), rate=8000)

    assert TensorTypeInfo.of(louder) is TensorTypeInfo.of(Wave)
    with pytest.raises(TensorTypeError, match="Louder: missing metadata: rate"):
        Louder(torch.zeros(2, 8))


def test_types_are_registered_by_name() -> None:
    entry = TENSOR_TYPES.entry("declared-wave")

    assert TENSOR_TYPES.resolve(entry.id) is Wave
    assert entry.info["fields"] == ["rate", "window"]


def test_a_second_type_of_the_same_name_is_refused() -> None:
    with pytest.raises(DuplicateNameError, match="declared-wave"):

        @tensor_type(name="declared-wave")
        class Other(TypedTensor):
            pass


def test_only_typed_tensors_have_a_declaration() -> None:
    with pytest.raises(TensorTypeError, match="Tensor is not a tensor type; derive it from TypedTensor"):
        TensorTypeInfo.of(torch.zeros(1))
    with pytest.raises(TensorTypeError, match="does not derive from TypedTensor"):
        tensor_type(name="declared-nothing")(torch.Tensor)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        ({"fields": {"shape": int}}, "a field cannot be called 'shape'"),
        ({"fields": {"dtype": int}}, "a field cannot be called 'dtype'"),
        ({"fields": {"two words": int}}, "a field cannot be called 'two words'"),
        ({"shape": "a ... b"}, r"'\.\.\.' was not understood"),
        ({"shape": "C -3"}, "'-3' was not understood"),
        ({"dtypes": "float"}, "'float' is neither a torch.dtype nor one of floating, complex"),
        ({"batch": "heap"}, "batch='heap'; use stack, list, pad or a function"),
        ({"batch": Pad(lengths="sizes")}, "Pad.lengths names no field: 'sizes'"),
        ({"propagate": {"no_such_op": "keep"}}, "torch.Tensor has no 'no_such_op'"),
        ({"propagate": {"add": "hold"}}, "'hold' is not 'keep', 'unwrap' or a rule"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(declaration: dict[str, Any], words: str) -> None:
    class Thing(TypedTensor):
        pass

    with pytest.raises(TensorTypeError, match=words):
        tensor_type(name="declared-thing", **declaration)(Thing)
    assert "declared-thing" not in TENSOR_TYPES


@pytest.mark.parametrize("data", [[[1.0, 2.0]], np.ones((1, 2)), torch.ones(1, 2), 3.0])
def test_data_may_be_whatever_torch_takes(data: Any) -> None:
    sound = Wave(data, rate=1)

    assert type(sound) is Wave
    assert torch.equal(sound.as_subclass(torch.Tensor), torch.as_tensor(data))


def test_memory_of_a_tensor_is_shared() -> None:
    data = torch.zeros(2, 8)
    sound = Wave(data, rate=1)
    sound.add_(1)

    assert data.sum() == 16


def test_dtype_device_and_gradients_are_as_asked() -> None:
    sound = Wave(torch.zeros(2, 8), rate=1, dtype=torch.float64, device="meta", requires_grad=True)

    assert (sound.dtype, sound.device.type, sound.requires_grad) == (torch.float64, "meta", True)


def test_gradients_asked_for_do_not_change_the_callers_tensor() -> None:
    data = torch.ones(2, 8)
    sound = Wave(data, rate=1, requires_grad=True)
    (sound * 3).sum().backward()

    assert not data.requires_grad
    assert sound.grad is not None
    assert torch.equal(sound.grad, torch.full((2, 8), 3.0))


def test_gradients_of_the_data_are_kept_unless_refused() -> None:
    data = torch.ones(2, 8, requires_grad=True)
    (Wave(data, rate=1) * 2).sum().backward()

    assert data.grad is not None
    assert data.grad.sum() == 32
    assert not Wave(data, rate=1, requires_grad=False).requires_grad


def test_a_typed_tensor_may_be_made_of_another() -> None:
    boxes = Boxes(Wave(torch.ones(2, 4), rate=1))

    assert type(boxes) is Boxes
    assert not hasattr(boxes, "rate")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: wave(8), r"Wave: shape \(8,\) does not fit '... channels time'"),
        (lambda: Wave(torch.zeros(2, 8, dtype=torch.int32), rate=1), "dtype int32 is not one of floating"),
        (lambda: Boxes(torch.zeros(3, 6)), r"shape \(3, 6\) does not fit '... 4\|5': 4\|5 cannot be 6"),
    ],
)
def test_shapes_and_dtypes_are_checked_when_asked(make: Any, words: str) -> None:
    make()
    with set_checks(True), pytest.raises(MetadataError, match=words):
        make()
    make()


def test_checks_can_be_set_for_good() -> None:
    try:
        set_checks(True)
        with pytest.raises(MetadataError):
            wave(8)
        with set_checks(False):
            wave(8)
    finally:
        set_checks(False)
    wave(8)


def test_equal_words_in_a_shape_are_equal_sizes() -> None:
    from flambeau.core.tensors import Layout

    square = Layout.of("... n n", None, ())
    assert square.shape_problem((5, 3, 3)) is None
    assert square.shape_problem((3, 4)) == "shape (3, 4) does not fit '... n n': n cannot be 4"
    assert Layout.of("n 3", None, ()).shape_problem((2, 2, 3)) is not None
    assert Layout.of(None, 2, ()).shape_problem((2,)) == "shape (2,) has 1 dimensions, expected at least 2"


def test_checked_functions_check_their_typed_arguments_and_result() -> None:
    @checked
    def first(sound: Wave, times: int) -> Boxes:
        return Boxes(torch.zeros(times, 6))

    with pytest.raises(TensorTypeError, match=r"first: sound is of type Tensor, expected Wave"):
        first(torch.zeros(2, 8), 1)
    with pytest.raises(MetadataError, match=r"first: sound: shape \(8,\)"):
        first(wave(8), 1)
    with pytest.raises(MetadataError, match=r"first: result: shape \(1, 6\)"):
        first(wave(), times=1)


def test_importing_core_does_not_import_torch_for_tensor_types() -> None:
    program = "import sys, flambeau.core; dir(flambeau.core); assert 'torch' not in sys.modules"

    subprocess.run([sys.executable, "-c", program], check=True)
