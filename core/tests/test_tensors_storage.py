"""Copies, pickles, files, shared memory and records: class and metadata arrive with the elements."""

from __future__ import annotations

import copy
import enum
import io
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Parameter

from flambeau.core.errors import UnknownNameError
from flambeau.core.tensors import (
    Field,
    PerSample,
    TensorTypeError,
    TypedTensor,
    from_record,
    tensor_type,
    to_record,
)


class Window(enum.Enum):
    HANN = "hann"
    BOX = "box"


@tensor_type(
    name="stored-wave",
    fields={
        "rate": int,
        "window": Field(Window | None, default=None),
        "canvas": Field(tuple[int, int], default=(1, 2)),
        "kind": Field(torch.dtype, default=torch.float32),
        "source": Field(str, default="", batch="list"),
    },
)
class Wave(TypedTensor):
    """With metadata of all kinds."""


class Mine(Wave):
    """A user's subclass."""


def wave(cls: type[Wave] = Wave, **metadata: Any) -> Wave:
    return cls(torch.arange(6.0).reshape(2, 3), **{"rate": 3, "window": Window.BOX, "canvas": (4, 5), **metadata})


def saved(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "old pickle": lambda value: pickle.loads(pickle.dumps(value, protocol=2)),
    "torch.save": saved,
}


@pytest.mark.parametrize("cls", [Wave, Mine])
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_has_class_metadata_and_elements(way: str, cls: type[Wave]) -> None:
    sound = wave(cls, source="a")
    twin = COPIES[way](sound)

    assert type(twin) is cls
    assert (twin.rate, twin.window, twin.canvas, twin.source) == (3, Window.BOX, (4, 5), "a")
    assert torch.equal(twin, sound)
    assert twin.dtype == sound.dtype


@pytest.mark.parametrize("way", COPIES)
def test_batches_with_values_per_sample_are_copied_too(way: str) -> None:
    batch = wave()
    batch.source = PerSample(["a", "b"])

    assert COPIES[way](batch).source == PerSample(["a", "b"])
    assert type(COPIES[way](batch).source) is PerSample


def test_the_summary_names_enumeration_members() -> None:
    assert "window=BOX canvas=(4, 5) kind=torch.float32" in repr(wave())


def test_only_a_shallow_copy_shares_memory() -> None:
    sound = wave()

    assert copy.copy(sound).data_ptr() == sound.data_ptr()
    assert copy.deepcopy(sound).data_ptr() != sound.data_ptr()


def test_a_deep_copy_keeps_gradients_and_what_was_shared() -> None:
    sound = wave().requires_grad_()
    (sound * 2).sum().backward()
    first, second, view = copy.deepcopy([sound, sound, sound.detach()])

    assert first is second
    assert first.requires_grad
    assert first.grad is not None
    assert first.grad.tolist() == [[2.0] * 3] * 2
    assert view.data_ptr() == first.data_ptr()
    assert first.data_ptr() != sound.data_ptr()


def test_a_deep_copy_has_its_own_metadata() -> None:
    @tensor_type(name="stored-list", fields={"words": list})
    class Named(TypedTensor):
        pass

    named = Named(torch.ones(1), words=["a"])
    copy.deepcopy(named).words.append("b")
    assert named.words == ["a"]


def test_a_deep_copy_in_the_midst_of_a_graph_is_refused() -> None:
    sound = wave().requires_grad_().clone()

    with pytest.raises(RuntimeError, match=r"Wave: only tensors created by the user can be deep-copied.*detach\(\)"):
        copy.deepcopy(sound)


def test_a_parameter_stays_typed() -> None:
    weight = Parameter(wave())

    assert isinstance(weight, Parameter)
    assert type(weight) is Wave
    assert weight.rate == 3


def test_shared_memory_keeps_class_and_metadata() -> None:
    sound = wave(Mine)
    sound.share_memory_()

    assert sound.is_shared()
    assert (type(sound), sound.rate) == (Mine, 3)


def test_another_process_sees_the_same_memory_and_metadata() -> None:
    context = torch.multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    here, there = context.Pipe()
    queue = context.SimpleQueue()
    sound = wave(Mine)
    sound.share_memory_()
    process = context.Process(target=_fill_from, args=(queue, there))
    process.start()
    queue.put(sound)
    answer = here.recv()
    process.join()

    assert answer == ("Mine", Window.BOX)
    assert sound.tolist() == [[3.0] * 3] * 2


def _fill_from(queue: Any, connection: Any) -> None:
    sound = queue.get()
    sound.fill_(sound.rate)
    connection.send((type(sound).__name__, sound.window))


# ---- records


def test_a_record_is_json_and_a_plain_tensor() -> None:
    tensor, record = to_record(wave(source="a"))

    assert type(tensor) is Tensor
    assert record is not None
    assert json.loads(json.dumps(record)) == {
        "type": "stored-wave",
        "class": f"{__name__}:Wave",
        "metadata": {"rate": 3, "window": "BOX", "canvas": [4, 5], "kind": "float32", "source": "a"},
    }


@pytest.mark.parametrize("cls", [Wave, Mine])
def test_a_record_brings_the_tensor_back(cls: type[Wave]) -> None:
    tensor, record = to_record(wave(cls, kind=torch.float16))
    again: Any = from_record(tensor.clone(), json.loads(json.dumps(record)))

    assert (type(again), again.rate, again.window, again.canvas, again.kind) == (
        cls,
        3,
        Window.BOX,
        (4, 5),
        torch.float16,
    )


def test_records_of_batches_and_of_plain_tensors() -> None:
    batch = wave()
    batch.source = PerSample(["a", "b"])
    tensor, record = to_record(batch)

    assert from_record(tensor, json.loads(json.dumps(record))).source == PerSample(["a", "b"])  # type: ignore[attr-defined]
    bare = torch.ones(2)
    assert to_record(bare) == (bare, None)
    assert from_record(bare, None) is bare


def test_a_memory_map_of_the_plain_tensor_and_a_record_make_it_whole(tmp_path: Path) -> None:
    tensor, record = to_record(wave())
    tensor.numpy().tofile(tmp_path / "wave.memmap")
    mapped = torch.from_file(str(tmp_path / "wave.memmap"), shared=True, size=6).reshape(tensor.shape)
    again: Any = from_record(mapped, record)
    again.zero_()

    assert (type(again), again.rate) == (Wave, 3)
    assert (tmp_path / "wave.memmap").read_bytes() == bytes(24)


def test_metadata_without_a_json_form_say_what_to_declare() -> None:
    @tensor_type(name="stored-odd", fields={"value": object})
    class Odd(TypedTensor):
        pass

    with pytest.raises(TensorTypeError, match=r"of type set \(\{1\}\) has no JSON form; declare `encode` and `decode`"):
        to_record(Odd(torch.ones(1), value={1}))


def test_a_field_may_bring_its_own_json_form() -> None:
    @tensor_type(name="stored-set", fields={"value": Field(set, encode=sorted, decode=set)})
    class Odd(TypedTensor):
        pass

    tensor, record = to_record(Odd(torch.ones(1), value={2, 1}))
    assert record is not None
    assert record["metadata"] == {"value": [1, 2]}
    assert from_record(tensor, record).value == {1, 2}  # type: ignore[attr-defined]


def test_a_record_imports_nothing_that_is_not_registered() -> None:
    with pytest.raises(UnknownNameError):
        from_record(torch.ones(1), {"type": "stored-nowhere", "class": "os:system", "metadata": {}})


def test_a_record_with_other_fields_is_refused() -> None:
    with pytest.raises(TensorTypeError, match="unknown metadata: speed"):
        from_record(torch.ones(1), {"type": "stored-wave", "class": f"{__name__}:Wave", "metadata": {"speed": 1}})


plain_json = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)


@given(
    value=st.recursive(
        plain_json,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_json_values_survive(value: Any) -> None:
    declared = Field(object)

    assert declared.from_json(json.loads(json.dumps(declared.to_json(value)))) == value
