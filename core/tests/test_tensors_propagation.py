"""What operations on typed tensors return."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Parameter

from flambeau.core.tensors import Field, PerSample, TensorTypeInfo, TypedTensor, set_return_type, tensor_type, wrap


@tensor_type(name="propagated-wave", fields={"rate": int})
class Wave(TypedTensor):
    """All defaults."""


def doubled(function: Any, args: Any, kwargs: Any, result: Any) -> dict[str, Any]:
    return {"rate": args[0].rate * 2}


@tensor_type(
    name="propagated-ruled",
    fields={"rate": int},
    propagate={"add": "keep", torch.flip: "keep", "mul": doubled, "neg": lambda *_: None, "clone": "unwrap"},
)
class Ruled(TypedTensor):
    """With a table of its own."""


@tensor_type(
    name="propagated-boxes", fields={"label": Field(str, batch="list", default="")}, shape="... 4", index="keep"
)
class Boxes(TypedTensor):
    """Follows indexing while four coordinates are left."""


class Mine(Wave):
    """A user's subclass."""


def wave(*shape: int, **metadata: Any) -> Wave:
    return Wave(torch.arange(24.0).reshape(shape or (3, 8)), **{"rate": 3, **metadata})


def plain(tensor: Tensor) -> Tensor:
    return tensor.as_subclass(Tensor)


KEEPING = {
    "clone": lambda x: x.clone(),
    "torch.clone": torch.clone,
    "to dtype": lambda x: x.to(torch.float64),
    "to device": lambda x: x.to("meta"),
    "to nothing new": lambda x: x.to(torch.float32),
    "detach": lambda x: x.detach(),
    "requires_grad_": lambda x: x.requires_grad_(),
    "contiguous": lambda x: x.contiguous(),
    "add_": lambda x: x.add_(1),
    "augmented": lambda x: x.__iadd__(1),
    "zero_": lambda x: x.zero_(),
    "relu in place": lambda x: torch.nn.functional.relu(x, inplace=True),
    "relu_": torch.relu_,
}

UNWRAPPING = {
    "add": lambda x: x + 1,
    "reverse add": lambda x: 1 + x,
    "view": lambda x: x.view(24),
    "index": lambda x: x[0],
    "slice": lambda x: x[1:],
    "transpose": lambda x: x.T,
    "stack": lambda x: torch.stack([x, x]),
    "cat": lambda x: torch.cat([x, x]),
    "functional": lambda x: torch.nn.functional.relu(x),
    "comparison": lambda x: x > 1,
    "as_subclass": lambda x: x.as_subclass(Tensor),
    "double": lambda x: x.double(),
    "float, which has nothing to do": lambda x: x.float(),
    "positive, which has nothing to do": lambda x: x.positive(),
    "out": lambda x: torch.add(x, 1, out=torch.empty(3, 8)),
}


@pytest.mark.parametrize("cls", [Wave, Mine])
@pytest.mark.parametrize("name", KEEPING)
def test_operations_that_leave_the_meaning_alone_keep_type_and_metadata(name: str, cls: type[Wave]) -> None:
    result = KEEPING[name](cls(torch.ones(3, 8), rate=7))

    assert type(result) is cls
    assert result.rate == 7


@pytest.mark.parametrize("name", UNWRAPPING)
def test_other_operations_give_plain_tensors_with_the_same_elements(name: str) -> None:
    result = UNWRAPPING[name](wave())

    assert type(result) is Tensor
    assert torch.equal(result, UNWRAPPING[name](plain(wave())))


def test_a_result_that_someone_else_holds_is_not_changed_by_becoming_typed() -> None:
    held = torch.ones(2)

    def hand_out(tensor: Tensor) -> Any:
        if torch.overrides.has_torch_function_unary(tensor):
            return torch.overrides.handle_torch_function(hand_out, (tensor,), tensor)
        return held

    @tensor_type(name="propagated-held", propagate={hand_out: "keep"})
    class Held(TypedTensor):
        pass

    assert type(hand_out(Held(torch.ones(1)))) is Held
    assert type(held) is Tensor


def test_pinning_keeps_the_type_by_the_table() -> None:
    assert TensorTypeInfo.of(Wave).policies[Tensor.pin_memory] == "keep"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_pinning_and_moving_to_the_accelerator_keep_the_type() -> None:
    pinned = wave().pin_memory()

    assert (type(pinned), pinned.rate, pinned.is_pinned()) == (Wave, 3, True)
    assert type(pinned.cuda()) is Tensor
    assert type(pinned.to("cuda")) is Wave


def test_in_place_operations_return_the_object_itself() -> None:
    sound = wave()

    assert sound.mul_(2) is sound
    assert sound.unsqueeze_(0) is sound
    assert sound.shape == (1, 3, 8)


def test_lists_of_results_are_plain() -> None:
    assert {type(piece) for piece in wave().unbind(0)} == {Tensor}
    assert type(torch.max(wave(), dim=0).values) is Tensor


def test_several_types_in_one_operation_give_a_plain_result() -> None:
    assert type(wave() + Ruled(torch.ones(3, 8), rate=1)) is Tensor
    assert type(wave() + Parameter(torch.ones(3, 8))) is Tensor


def test_a_rule_that_keeps_goes_by_the_first_argument() -> None:
    first = Ruled(torch.ones(2), rate=1) + Ruled(torch.ones(2), rate=2)

    assert type(first) is Ruled
    assert first.rate == 1
    assert type(torch.ones(2) + Ruled(torch.ones(2), rate=2)) is Tensor


def test_rules_of_a_type() -> None:
    ruled = Ruled(torch.ones(2), rate=5)

    assert type(torch.flip(ruled, (0,))) is Ruled
    assert type(ruled.flip(0)) is Tensor, "the table named the function, not the method"
    assert (ruled * 2).rate == 10
    assert type(-ruled) is Tensor, "a rule that returns None unwraps"
    assert type(ruled.clone()) is Tensor


def test_a_rule_that_names_an_unknown_field_is_refused() -> None:
    @tensor_type(name="propagated-wrong", propagate={"mul": lambda *_: {"speed": 1}})
    class Wrong(TypedTensor):
        pass

    with pytest.raises(TypeError, match="Wrong: unknown metadata: speed"):
        Wrong(torch.ones(2)).mul(2)


def test_tensors_of_another_library_take_their_turn() -> None:
    class Foreign(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "foreign"

    assert wave() + torch.ones(3, 8).as_subclass(Foreign) == "foreign"


@pytest.mark.parametrize(
    "ask",
    [
        "shape", "ndim", "dtype", "device", "layout", "is_cuda", "requires_grad", "size()", "size(0)", "dim()",
        "numel()", "stride()", "is_contiguous()", "is_floating_point()", "element_size()", "__len__()",
    ],
)  # fmt: skip
def test_questions_are_answered_as_by_a_plain_tensor(ask: str) -> None:
    sound = wave()

    expected = eval(f"plain.{ask}", {"plain": plain(sound)})
    assert eval(f"sound.{ask}", {"sound": sound}) == expected


def test_requires_grad_can_be_set() -> None:
    sound = wave()
    sound.requires_grad = True

    assert sound.requires_grad
    assert (sound * 2).requires_grad


# ---- set_return_type


@pytest.mark.parametrize("kind", ["typed", "TVTensor"])
def test_typed_results_while_the_block_lasts(kind: str) -> None:
    with set_return_type(kind):
        result = wave(rate=9) + 1
        assert (type(result), result.rate) == (Wave, 9)
        assert type(wave() > 2) is Wave
        assert {type(piece) for piece in wave().unbind(0)} == {Wave}
        assert type(wave().as_subclass(Tensor)) is Tensor
        assert type(torch.stack([wave(), wave()])) is Wave
        mixed = torch.ones(3, 8) + wave(rate=9)
        assert (type(mixed), mixed.rate) == (Wave, 9)
        assert type(wave().max(0).values) is Wave
        assert type(torch.ones(3, 8) + 1) is Tensor
        assert wave().shape == torch.Size([3, 8])
    assert type(wave() + 1) is Tensor


@pytest.mark.parametrize(("typed", "back"), [("typed", "plain"), ("TVTensor", "Tensor")])
def test_a_plain_call_counts_at_once_and_everywhere(typed: str, back: str) -> None:
    seen: list[type] = []
    try:
        set_return_type(typed)
        assert type(wave() + 1) is Wave
        thread = threading.Thread(target=lambda: seen.append(type(wave() + 1)))
        thread.start()
        thread.join()
    finally:
        set_return_type(back)

    assert seen == [Wave]
    assert type(wave() + 1) is Tensor


def test_blocks_nest_and_restore_after_an_error() -> None:
    with set_return_type("typed"):
        with pytest.raises(KeyError), set_return_type("plain"):
            assert type(wave() + 1) is Tensor
            raise KeyError
        assert type(wave() + 1) is Wave
    assert type(wave() + 1) is Tensor


def test_a_plain_call_inside_a_block_counts_and_the_block_still_restores_its_outside() -> None:
    try:
        with set_return_type("typed"):
            set_return_type("plain")
            assert type(wave() + 1) is Tensor
        assert type(wave() + 1) is Tensor
    finally:
        set_return_type("plain")


def test_blocks_of_different_threads_do_not_meet() -> None:
    errors: list[str] = []
    start = threading.Barrier(4)

    def work(kind: str, expected: type) -> None:
        start.wait()
        for _ in range(300):
            with set_return_type(kind):
                if type(wave() + 1) is not expected:
                    errors.append(kind)

    threads = [threading.Thread(target=work, args=pair) for pair in [("typed", Wave), ("plain", Tensor)] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert type(wave() + 1) is Tensor, "whatever the order of entering and leaving, the default is what it was"


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'raw' is not known; use 'plain' \('Tensor'\) or 'typed' \('TVTensor'\)"):
        set_return_type("raw")


# ---- indexing


@pytest.mark.parametrize(
    ("index", "typed"),
    [
        (0, True), (slice(1), True), (..., True), ((..., slice(2)), False), ((..., 0), False),
        (torch.tensor([True, False, True]), True), ([0, 2], True), (None, True), ((0, 0), False),
    ],
)  # fmt: skip
def test_pieces_that_still_fit_the_shape_keep_their_type(index: Any, typed: bool) -> None:
    boxes = Boxes(torch.arange(24.0).reshape(3, 2, 4), label="a")
    piece = boxes[index] if index != (0, 0) else boxes[0, 0, 0]

    assert isinstance(piece, Boxes) == typed
    assert torch.equal(plain(boxes)[index] if index != (0, 0) else plain(boxes)[0, 0, 0], plain(piece))
    assert not typed or piece.label == "a"


@pytest.mark.parametrize(
    ("take", "names"),
    [
        (lambda b: [b[1]], ["q"]),
        (lambda b: [b[-1]], ["r"]),
        (lambda b: [b[1:]], [("q", "r")]),
        (lambda b: [b[[2, 0]]], [("r", "p")]),
        (lambda b: [b[torch.tensor([2, 0])]], [("r", "p")]),
        (lambda b: [b[torch.tensor([False, True, True])]], [("q", "r")]),
        (lambda b: [b[torch.tensor(2)]], ["r"]),
        (lambda b: [b[1, 0]], ["q"]),
        (lambda b: list(b.unbind(0)), ["p", "q", "r"]),
        (lambda b: list(b), ["p", "q", "r"]),
        (lambda b: list(b.split(2)), [("p", "q"), ("r",)]),
        (lambda b: list(torch.split(b, [1, 2], dim=0)), [("p",), ("q", "r")]),
        (lambda b: list(b.chunk(3)), [("p",), ("q",), ("r",)]),
        (lambda b: list(b.tensor_split((1,))), [("p",), ("q", "r")]),
        (lambda b: [b.select(0, 1)], ["q"]),
        (lambda b: [torch.select(b, dim=0, index=2)], ["r"]),
        (lambda b: [b.narrow(0, 1, 2)], [("q", "r")]),
        (lambda b: list(b.split(1, dim=1)), [("p", "q", "r"), ("p", "q", "r")]),
        (lambda b: list(b.unbind(dim=1)), [("p", "q", "r"), ("p", "q", "r")]),
    ],
)
def test_per_sample_metadata_follow_the_first_dimension(take: Any, names: list[Any]) -> None:
    boxes = wrap(torch.arange(24.0).reshape(3, 2, 4), like=Boxes(torch.zeros(4)))
    boxes.label = PerSample(["p", "q", "r"])

    pieces = take(boxes)
    assert {type(piece) for piece in pieces} == {Boxes}
    assert [piece.label for piece in pieces] == [PerSample(n) if isinstance(n, tuple) else n for n in names]
    assert all(map(torch.equal, map(plain, pieces), take(plain(boxes))))


@pytest.mark.parametrize("index", [(..., slice(None)), None, torch.tensor([[0, 1]]), True])
def test_where_the_index_does_not_tell_the_piece_is_plain(index: Any) -> None:
    boxes = Boxes(torch.arange(12.0).reshape(3, 4))
    boxes.label = PerSample(["p", "q", "r"])

    assert type(boxes[index]) is Tensor


def test_an_index_rule_sees_metadata_and_index() -> None:
    def rule(metadata: dict[str, Any], index: tuple[Any, ...]) -> dict[str, Any] | None:
        return {"start": metadata["start"] + (index[-1].start or 0)} if isinstance(index[-1], slice) else None

    @tensor_type(name="propagated-track", fields={"start": int}, index=rule)
    class Track(TypedTensor):
        pass

    track = Track(torch.arange(10.0), start=100)
    assert track[4:6].start == 104
    assert [piece.start for piece in track.split(5)] == [100, 105]
    assert type(track[0]) is Tensor


@given(start=st.integers(0, 9), stop=st.integers(0, 9), step=st.integers(1, 4))
def test_slices_take_the_same_samples_of_elements_and_metadata(start: int, stop: int, step: int) -> None:
    boxes = Boxes(torch.arange(9.0)[:, None].expand(9, 4))
    boxes.label = PerSample(map(str, range(9)))

    piece = boxes[start:stop:step]
    assert list(piece.label) == [str(int(row)) for row in piece[:, 0].tolist()]
