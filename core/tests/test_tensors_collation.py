"""Samples to batches and back, by hand and through DataLoader with its worker processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from flambeau.core.tensors import (
    Field,
    MetadataError,
    Pad,
    PerSample,
    TensorTypeError,
    TypedTensor,
    collate,
    tensor_type,
    unbatch,
)


@tensor_type(name="collated-wave", fields={"rate": int, "source": Field(str, default="", batch="list")})
class Wave(TypedTensor):
    """Stacks; the rate must agree, sources are kept side by side."""


@tensor_type(name="collated-boxes", fields={"canvas": tuple[int, int]}, batch="list")
class Boxes(TypedTensor):
    """As many as there are: a list."""


@tensor_type(name="collated-padded", batch="pad")
class Padded(TypedTensor):
    """Padded with zeros."""


@tensor_type(
    name="collated-speech",
    fields={"length": Field(int, default=0)},
    batch=Pad(value=-1.0, lengths="length"),
)
class Speech(TypedTensor):
    """Padded, with the lengths kept."""


@tensor_type(name="collated-longest", batch=lambda samples: max(samples, key=len))
class Longest(TypedTensor):
    """A rule of its own."""


class Mine(Wave):
    """A user's subclass."""


def wave(value: float = 1.0, **metadata: Any) -> Wave:
    return Wave(torch.full((2,), value), **{"rate": 3, **metadata})


@pytest.mark.parametrize("batching", [collate, default_collate])
def test_stacked_samples_keep_class_and_metadata(batching: Any) -> None:
    batch = batching([wave(1, source="a"), wave(2, source="b")])

    assert (type(batch), batch.rate, batch.source) == (Wave, 3, PerSample(["a", "b"]))
    assert batch.tolist() == [[1.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize("batching", [collate, default_collate])
def test_a_users_subclass_is_kept(batching: Any) -> None:
    assert type(batching([Mine(torch.ones(2), rate=1)] * 2)) is Mine


def test_structures_collate_as_dataloader_does() -> None:
    batch = collate([{"x": wave(), "y": (1, Boxes(torch.zeros(n, 4), canvas=(5, 6)))} for n in (1, 2)])

    assert type(batch["x"]) is Wave
    assert torch.equal(batch["y"][0], torch.tensor([1, 1]))
    assert [(type(boxes), boxes.shape, boxes.canvas) for boxes in batch["y"][1]] == [
        (Boxes, (1, 4), (5, 6)),
        (Boxes, (2, 4), (5, 6)),
    ]


def test_metadata_that_differ_are_refused_with_both_values() -> None:
    with pytest.raises(MetadataError, match=r"Wave\.rate is 3 in sample 0 and 4 in sample 2; .*batch='list'"):
        collate([wave(), wave(), wave(rate=4)])


def test_metadata_of_different_types_do_not_agree() -> None:
    @tensor_type(name="collated-loose", fields={"value": object})
    class Loose(TypedTensor):
        pass

    with pytest.raises(MetadataError, match=r"Loose\.value is 1 in sample 0 and 1\.0 in sample 1"):
        collate([Loose(torch.ones(1), value=1), Loose(torch.ones(1), value=1.0)])
    same = collate([Loose(torch.ones(1), value=torch.tensor([1, 2])) for _ in range(2)])
    assert same.value.tolist() == [1, 2]


def test_samples_of_different_classes_are_refused_with_both() -> None:
    with pytest.raises(TensorTypeError, match="sample 0 is of type Wave, sample 1 of type Mine"):
        collate([wave(), Mine(torch.ones(2), rate=3)])
    with pytest.raises(TensorTypeError, match="sample 0 is of type Wave, sample 1 of type Tensor"):
        collate([wave(), torch.ones(2)])


def test_samples_of_different_shapes_are_refused_with_both() -> None:
    with pytest.raises(
        MetadataError, match=r"Wave sample 0 has shape \(2,\), sample 1 \(3,\); .*batch='list' or 'pad'"
    ):
        collate([wave(), Wave(torch.ones(3), rate=3)])


def test_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="the batch is empty"):
        collate([])


def test_padding_fills_up_to_the_largest_in_every_dimension() -> None:
    batch = collate([Padded(torch.ones(2, 3)), Padded(torch.ones(1, 4))])

    assert type(batch) is Padded
    assert batch.shape == (2, 2, 4)
    assert batch.sum((1, 2)).tolist() == [6.0, 4.0]
    with pytest.raises(MetadataError, match="samples have 1 and 2 dimensions"):
        collate([Padded(torch.ones(2)), Padded(torch.ones(2, 2))])


def test_padding_can_keep_the_lengths_and_take_them_off_again() -> None:
    sounds = [Speech(torch.ones(2, n)) for n in (3, 5, 1)]
    batch = collate(sounds)

    assert batch.length == PerSample([3, 5, 1])
    assert batch[0, 0].tolist() == [1.0, 1.0, 1.0, -1.0, -1.0]
    back = unbatch(batch)
    assert [piece.shape for piece in back] == [(2, 3), (2, 5), (2, 1)]
    assert {type(piece) for piece in back} == {Speech}


def test_a_rule_of_its_own() -> None:
    longest = collate([Longest(torch.ones(2)), Longest(torch.ones(5))])

    assert (type(longest), len(longest)) == (Longest, 5)


def test_unbatch_gives_the_samples_with_their_metadata() -> None:
    samples = [{"x": wave(n, source=str(n)), "y": n, "z": Boxes(torch.ones(n, 4), canvas=(1, 1))} for n in range(3)]

    for sample, again in zip(samples, unbatch(collate(samples)), strict=True):
        assert (type(again["x"]), again["x"].source, again["x"].tolist()) == (
            Wave,
            sample["x"].source,
            sample["x"].tolist(),
        )
        assert again["y"] == sample["y"]
        assert torch.equal(again["z"], sample["z"])


def test_unbatch_refuses_what_is_no_batch() -> None:
    with pytest.raises(ValueError, match=r"different numbers of samples \(a: 2, b: 3\)"):
        unbatch({"a": torch.ones(2), "b": torch.ones(3)})
    with pytest.raises(TensorTypeError, match="unbatch: int is no batch"):
        unbatch(3)


@given(values=st.lists(st.tuples(st.floats(-9, 9, width=32), st.text(max_size=3)), min_size=1, max_size=5))
def test_unbatch_undoes_collate(values: list[tuple[float, str]]) -> None:
    samples = [wave(value, source=source) for value, source in values]
    again = unbatch(collate(samples))

    assert [(piece.tolist(), piece.rate, piece.source) for piece in again] == [
        (sample.tolist(), sample.rate, sample.source) for sample in samples
    ]


def test_dataloader_in_this_process() -> None:
    loader = DataLoader([{"x": wave(n), "n": n} for n in range(4)], batch_size=2)  # type: ignore[arg-type]

    assert [(type(batch["x"]), batch["x"].rate, batch["n"].tolist()) for batch in loader] == [
        (Wave, 3, [0, 1]),
        (Wave, 3, [2, 3]),
    ]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_dataloader_that_pins() -> None:
    loader = DataLoader([wave(n) for n in range(4)], batch_size=2, pin_memory=True)  # type: ignore[arg-type]

    assert [(type(batch), batch.rate, batch.is_pinned()) for batch in loader] == [(Wave, 3, True)] * 2


PROGRAM = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
from flambeau.core.tensors import Field, TypedTensor, tensor_type

@tensor_type(name="worker-wave", fields={"rate": int, "source": Field(str, batch="list")})
class Wave(TypedTensor):
    pass

@tensor_type(name="worker-boxes", fields={"canvas": tuple}, batch="list")
class Boxes(TypedTensor):
    pass

class Mine(Wave):
    pass

class Sounds(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, index):
        cls = (Wave, Mine)[index // 3]
        return cls(torch.full((2,), index), rate=3, source=str(index)), Boxes(torch.ones(index, 4), canvas=(7, 8))

if __name__ == "__main__":
    loader = DataLoader(Sounds(), batch_size=3, num_workers=2, multiprocessing_context=sys.argv[1])
    for n, (sounds, boxes) in enumerate(loader):
        assert type(sounds) is (Wave, Mine)[n], type(sounds)
        assert sounds.rate == 3 and sounds.source == tuple(str(3 * n + i) for i in range(3))
        assert sounds[:, 0].tolist() == [3 * n, 3 * n + 1, 3 * n + 2] and sounds.is_shared()
        assert [(type(b), len(b), b.canvas) for b in boxes] == [(Boxes, 3 * n + i, (7, 8)) for i in range(3)]
    print("batches:", n + 1)
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_dataloader_with_worker_processes(start: str, tmp_path: Path) -> None:
    if start == "fork" and sys.platform == "win32":
        pytest.skip("Windows has no fork")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ran = subprocess.run([sys.executable, program, start], capture_output=True, text=True, timeout=200)

    assert ran.stdout == "batches: 2\n", ran.stderr


def test_a_plain_tensor_collates_as_ever() -> None:
    assert type(collate([torch.ones(2)] * 2)) is Tensor
