"""Tensors of the Open Inference Protocol: what fits its shape and type, and what does not."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flambeau.serve.errors import BadRequest
from flambeau.serve.wire.tensors import DATATYPES, bytes_elements, packed, unpacked


@given(st.sampled_from(sorted(DATATYPES)), st.data())
def test_arrays_come_back_as_they_were_by_json_and_by_bytes(datatype, data):
    array = data.draw(
        hnp.arrays(
            DATATYPES[datatype],
            hnp.array_shapes(min_dims=1, max_side=4, min_side=0),
            elements={"allow_nan": False, "allow_infinity": False} if datatype.startswith("FP") else None,
        )
    )
    head = {"name": "x", "shape": list(array.shape), "datatype": datatype}
    for tensor, raw in (
        ({**head, "data": array.tolist()}, None),
        ({**head, "data": array.ravel().tolist()}, None),
        (head, array.tobytes()),
    ):
        found = unpacked(*packed(tensor, raw))
        assert found.dtype == array.dtype and np.array_equal(found, array)


def test_integers_beyond_int64_are_not_made_floats():
    head, data = packed({"name": "x", "shape": [2], "datatype": "UINT64", "data": [0, 2**63 + 1]}, None)
    assert unpacked(head, data).tolist() == [0, 2**63 + 1]
    with pytest.raises(BadRequest, match="fractions"):
        packed({"name": "x", "shape": [2], "datatype": "UINT64", "data": [-1, 2**63 + 1]}, None)


def test_strings_have_their_lengths_before_them():
    head, data = packed({"name": "t", "shape": [1, 2], "datatype": "BYTES", "data": [["é", ""]]}, None)
    assert head == {"name": "t", "shape": [1, 2], "datatype": "BYTES"}
    assert data == struct.pack("<I", 2) + "é".encode() + struct.pack("<I", 0)
    assert bytes_elements(data) == ["é".encode(), b""]


@pytest.mark.parametrize(
    ("tensor", "raw", "why"),
    [
        ({"shape": [1], "datatype": "FP32", "data": [1]}, None, "no name"),
        ({"name": "x", "shape": [-1], "datatype": "FP32", "data": [1]}, None, "shape"),
        ({"name": "x", "shape": [True], "datatype": "FP32", "data": [1]}, None, "shape"),
        ({"name": "x", "shape": "1", "datatype": "FP32", "data": [1]}, None, "shape"),
        ({"name": "x", "shape": [1], "datatype": "BF16", "data": [1]}, None, "datatype is 'BF16'"),
        ({"name": "x", "shape": [2], "datatype": "FP32", "data": [1]}, None, "data has 1 numbers, its shape 2"),
        ({"name": "x", "shape": [1], "datatype": "UINT8", "data": [256]}, None, "beyond UINT8"),
        ({"name": "x", "shape": [1], "datatype": "INT32", "data": [0.5]}, None, "fractions"),
        ({"name": "x", "shape": [2], "datatype": "FP32", "data": [[1], [2, 3]]}, None, "no array"),
        ({"name": "x", "shape": [1], "datatype": "FP32", "data": ["a"]}, None, "numbers"),
        ({"name": "x", "shape": [1], "datatype": "FP32"}, b"123", "3 bytes for 1 elements of 4"),
        ({"name": "x", "shape": [1], "datatype": "BYTES"}, b"\5\0\0\0ab", "longer than what is left"),
        ({"name": "x", "shape": [1], "datatype": "BYTES"}, b"\5\0", "cut short"),
        ({"name": "x", "shape": [2], "datatype": "BYTES", "data": ["a"]}, None, "1 elements for the shape"),
        ({"name": "x", "shape": [1], "datatype": "BYTES", "data": [3]}, None, "strings"),
        ({"name": "x", "shape": [2**39, 2], "datatype": "INT8"}, b"", "0 bytes"),
    ],
)
def test_what_does_not_fit_is_refused(tensor, raw, why):
    with pytest.raises(BadRequest, match=why):
        packed(tensor, raw)
