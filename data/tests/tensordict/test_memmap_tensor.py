"""`MemoryMappedTensor`: a tensor over a file or shared memory."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.tensordict import MemoryMappedTensor
from flambeau.data.tensordict.memmap import implements_for_memmap
from flambeau.data.tensordict.memmap.keys import candidates, decode_key, encode_key

DTYPES = [torch.float32, torch.bfloat16, torch.bool, torch.int16, torch.uint8, torch.complex64, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (5, 2)])
def test_a_file_holds_the_elements_row_by_row(tmp_path, dtype, shape):
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    made = MemoryMappedTensor.from_tensor(tensor, filename=tmp_path / "x.memmap")
    again = MemoryMappedTensor.from_filename(tmp_path / "x.memmap", dtype, shape)
    assert torch.equal(made, tensor) and torch.equal(again, tensor) and again.dtype is dtype
    assert (tmp_path / "x.memmap").stat().st_size == tensor.nbytes


def test_strided_conjugated_and_differentiable_tensors_are_written_as_they_look(tmp_path):
    values = torch.complex(torch.arange(6.0), torch.ones(6)).reshape(2, 3)
    cases = {"transposed": values.T, "conjugated": values.conj(), "expanded": values[:1].expand(4, 3)}
    for name, tensor in {**cases, "parameter": torch.nn.Parameter(torch.ones(3))}.items():
        made = MemoryMappedTensor.from_tensor(tensor, filename=tmp_path / name)
        assert torch.equal(made, tensor.detach().resolve_conj())


def test_writes_reach_the_file_through_views_but_not_through_copies(tmp_path):
    made = MemoryMappedTensor.zeros(4, 3, filename=tmp_path / "x")
    made[1:3][0].fill_(1)
    made.unbind(0)[3].fill_(2)
    made.clone().fill_(9)
    (made + 0)[0] = 9
    made[torch.tensor([0])].fill_(9)
    again = MemoryMappedTensor.from_filename(tmp_path / "x", torch.float32, (4, 3))
    assert again[:, 0].tolist() == [0, 1, 0, 2]


def test_views_are_memory_mapped_and_results_are_plain():
    made = MemoryMappedTensor.from_tensor(torch.arange(6.0).reshape(2, 3))
    mapped = [made[0], made[:1], *made.unbind(1), *made.split(1), *made.chunk(2)]
    assert {type(tensor) for tensor in mapped} == {MemoryMappedTensor}
    plain = [made + 1, made.clone(), made.sum(), made[[0, 1]], made[made > 2], torch.stack([made, made])]
    assert {type(tensor) for tensor in plain} == {torch.Tensor}


def test_a_file_that_exists_is_kept_unless_asked(tmp_path):
    MemoryMappedTensor.from_tensor(torch.ones(3), filename=tmp_path / "x")
    with pytest.raises(RuntimeError, match="existsok=True"):
        MemoryMappedTensor.from_tensor(torch.zeros(3), filename=tmp_path / "x")
    old = MemoryMappedTensor.from_filename(tmp_path / "x", torch.float32, (3,))
    new = MemoryMappedTensor.from_tensor(torch.zeros(5), filename=tmp_path / "x", existsok=True)
    assert new.shape == (5,) and old.sum() == 3  # who maps the old file keeps it


def test_a_tensor_of_another_file_is_copied_only_on_request(tmp_path):
    made = MemoryMappedTensor.from_tensor(torch.ones(3), filename=tmp_path / "x")
    assert MemoryMappedTensor.from_tensor(made, filename=tmp_path / "x") is made
    with pytest.raises(RuntimeError, match="copy_existing=True"):
        MemoryMappedTensor.from_tensor(made, filename=tmp_path / "y")
    other = MemoryMappedTensor.from_tensor(made, filename=tmp_path / "y", copy_existing=True)
    other.zero_()
    assert made.sum() == 3


def test_pickles_hold_names_and_views_come_back_as_views(tmp_path):
    made = MemoryMappedTensor.from_tensor(torch.zeros(1000, 1000), filename=tmp_path / "x")
    data = pickle.dumps(made[10:20, 5])
    assert len(data) < 500
    pickle.loads(data).fill_(1)
    assert made.sum() == 10 and made[10:20, 5].sum() == 10


def test_another_process_writes_to_the_same_pages(tmp_path):
    made = MemoryMappedTensor.from_tensor(torch.zeros(4), filename=tmp_path / "x")
    code = "import pickle, sys; pickle.load(sys.stdin.buffer)[1:3].fill_(5)"
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(made), check=True)
    assert made.tolist() == [0, 5, 5, 0]


def test_shared_memory_is_handed_to_worker_processes():
    made = MemoryMappedTensor.from_tensor(torch.zeros(4))
    with pytest.raises(RuntimeError, match="no file"):
        _ = made.filename
    worker = torch.multiprocessing.get_context("spawn").Process(target=_fill, args=(made,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0 and made.tolist() == [3, 3, 3, 3]


def _fill(tensor: torch.Tensor) -> None:
    tensor.fill_(3)


def test_deep_copies_are_plain_and_constructors_agree_with_torch():
    made = MemoryMappedTensor.full((2, 3), fill_value=4)
    assert type(copy.deepcopy(made)) is torch.Tensor
    assert torch.equal(made, torch.full((2, 3), 4)) and made.dtype is torch.int64
    assert torch.equal(MemoryMappedTensor.ones_like(made), torch.ones_like(made))
    assert MemoryMappedTensor.empty([2], dtype=torch.bool).tolist() == [False, False]
    with pytest.raises(ValueError, match="pass None or 'cpu'"):
        MemoryMappedTensor.empty(2, device="meta")


def test_functions_can_be_taken_over():
    @implements_for_memmap(torch.special.ndtr)
    def ndtr(input):
        return "taken over"

    assert torch.special.ndtr(MemoryMappedTensor.zeros(2)) == "taken over"
    assert torch.special.ndtr(torch.zeros(1)).item() == 0.5


@given(st.text(max_size=40))
def test_every_key_has_a_file_name_of_its_own_that_stays_in_its_folder(key):
    name = encode_key(key)
    assert decode_key(name) == key
    assert name not in ("", ".", "..") and "/" not in name and "\\" not in name and "\0" not in name
    assert candidates(key)[0] == name


@pytest.mark.parametrize(
    ("key", "name"), [("a.b", "a.b"), ("c/d", "c%2Fd"), ("..", "%2E%2E"), ("", "%"), ("é", "é"), ("a b", "a%20b")]
)
def test_keys_are_encoded_as_other_programs_expect(key, name):
    assert encode_key(key) == name


@pytest.mark.parametrize("key", ["../x", "a/b", "..", "", "a\\b", "\0"])
def test_without_encoding_a_key_that_would_leave_the_folder_is_refused(key):
    with pytest.raises(ValueError, match="robust_key=True"):
        encode_key(key, robust=False)


def test_a_shape_is_given_by_position_or_by_name():
    for made in (
        MemoryMappedTensor.empty(shape=(2, 3)),
        MemoryMappedTensor.zeros(2, 3),
        MemoryMappedTensor.ones([2, 3]),
    ):
        assert made.shape == (2, 3) and made.dtype is torch.float32
    assert MemoryMappedTensor.ones(shape=torch.Size([2])).tolist() == [1.0, 1.0]
    assert MemoryMappedTensor.full(shape=(2,), fill_value=7).tolist() == [7, 7]
    for wrong in ({}, {"shape": (2,), "colour": 1}):
        with pytest.raises(TypeError):
            MemoryMappedTensor.zeros(**wrong)
    with pytest.raises(TypeError, match="give the shape"):
        MemoryMappedTensor.zeros((2,), shape=(2,))
