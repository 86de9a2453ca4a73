"""CRC-32C: known values, and the paths with and without the native kernel."""

from hypothesis import given
from hypothesis import strategies as st

from flambeau.data._crc32c import crc32c, masked_crc32c, portable

# RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
KNOWN = {
    b"": 0,
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
}


def test_known_values():
    assert {data: crc32c(data) for data in KNOWN} == KNOWN
    assert {data: portable(data) for data in KNOWN} == KNOWN


def test_the_masked_form_is_the_one_tfrecord_files_store():
    # The length field of a record of 0 bytes, as TensorFlow writes it.
    assert masked_crc32c(bytes(8)).to_bytes(4, "little").hex() == "29039807"


@given(st.binary(max_size=3000), st.integers(0, 2**32 - 1))
def test_the_paths_agree(data, before):
    assert portable(data * 2, before) == crc32c(data * 2, before)


@given(st.binary(max_size=2000), st.integers(0, 2000))
def test_a_checksum_can_be_continued(data, cut):
    for function in (crc32c, portable):
        assert function(data[cut:], function(data[:cut])) == function(data)


def test_any_buffer_will_do():
    data = bytes(range(256)) * 5
    assert crc32c(bytearray(data)) == crc32c(memoryview(data)) == crc32c(data)
