"""Codes of less than a byte count as columns, and are moved, cut and kept like any tensor."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.rec.errors import OptionError
from flambeau.rec.tensor_types import UInt2Tensor, UInt4Tensor, UIntXTensor, down_size, up_size

KINDS = {UInt4Tensor: 2, UInt2Tensor: 4}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def rows():
    return torch.arange(24, dtype=torch.uint8).view(3, 8)


def test_shapes_count_codes(kind):
    made = kind(rows())
    assert made.shape == (3, 8 * KINDS[kind])
    assert made.view(torch.uint8).data_ptr() == made.elem.data_ptr()


@given(
    kind=st.sampled_from(sorted(KINDS, key=str)), row=st.integers(0, 2), column=st.integers(0, 7),
    rows_=st.integers(0, 3), columns=st.integers(0, 8),
)  # fmt: skip
def test_blocks_of_codes_are_blocks_of_bytes(kind, row, column, rows_, columns):
    codes = KINDS[kind]
    found = kind(rows())[row : row + rows_, column * codes : (column + columns) * codes]
    assert torch.equal(found.elem, rows()[row : row + rows_, column : column + columns])


def test_blocks_share_memory_with_the_whole(kind):
    whole = kind(rows())
    whole[1:2, : 2 * KINDS[kind]].copy_(kind(torch.full((1, 2), 9, dtype=torch.uint8)))
    assert whole.elem[1].tolist() == [9, 9, *range(10, 16)]


def test_codes_are_copied_from_and_to_bytes(kind):
    made = kind(torch.zeros(3, 8, dtype=torch.uint8))
    made.copy_(rows())
    assert torch.equal(made, kind(rows()))
    assert torch.equal(torch.empty(3, 8, dtype=torch.uint8).copy_(made), rows())


def test_copies_and_archives_keep_the_kind(kind):
    made = kind(rows())
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    for found in (copy.deepcopy(made), made.clone(), torch.load(file, weights_only=False), made.to("cpu")):
        assert type(found) is kind and torch.equal(found, made)
    assert type(torch.zeros_like(made)) is kind and made.to("meta").elem.is_meta


def test_cuts_inside_of_a_byte_are_refused(kind):
    with pytest.raises(OptionError, match=r"codes 1 to .* are no whole bytes"):
        kind(rows())[:, 1:4]
    with pytest.raises(OptionError, match="cannot be selected"):
        kind(rows()).select(1, 0)


def test_codes_are_no_numbers(kind):
    for call in (lambda x: x + 1, lambda x: x.float(), lambda x: x.view(torch.int8)):
        with pytest.raises(NotImplementedError, match="bytes"):
            call(kind(rows()))


def test_only_bytes_hold_codes():
    with pytest.raises(OptionError, match=r"elem is torch.float32, expected bytes"):
        UIntXTensor(2, torch.ones(2, 2))
    with pytest.raises(OptionError, match="no multiple of 4"):
        down_size(4, torch.Size([3, 5]))
    assert up_size(4, torch.Size([3, 5])) == (3, 20)
