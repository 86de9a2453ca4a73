"""Encryption and decryption: published vectors, another library, dtypes, layouts, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

import flambeau.csprng as csprng
from flambeau.csprng import ciphers


@pytest.fixture(autouse=True)
def no_key_is_known(monkeypatch):
    monkeypatch.setattr(ciphers, "_reuse", ciphers._Reuse())


def tensor(value):
    value = bytes.fromhex(value) if isinstance(value, str) else value
    return torch.frombuffer(bytearray(value), dtype=torch.uint8) if value else torch.empty(0, dtype=torch.uint8)


def raw(value):
    return bytes(value.contiguous().view(-1).view(torch.uint8).tolist())


def both_ways(text, key, cipher, mode, **options):
    """The cipher text, after checking that it is deciphered to the text again."""
    secret = csprng.encrypt(
        text, torch.empty(-(-text.nbytes // 16) * 16, dtype=torch.uint8), key, cipher, mode, **options
    )
    back = csprng.decrypt(secret, torch.empty_like(text), key, cipher, mode, **options)
    assert raw(back) == raw(text)
    return raw(secret)


# FIPS 197, appendices B and C.
FIPS_197 = [
    ("aes128", "2b7e151628aed2a6abf7158809cf4f3c", "3243f6a8885a308d313198a2e0370734",
     "3925841d02dc09fbdc118597196a0b32"),
    ("aes128", "000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff",
     "69c4e0d86a7b0430d8cdb78070b4c55a"),
    ("aes192", "000102030405060708090a0b0c0d0e0f1011121314151617", "00112233445566778899aabbccddeeff",
     "dda97ca4864cdfe06eaf70a0ec0d7191"),
    ("aes256", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "00112233445566778899aabbccddeeff",
     "8ea2b7ca516745bfeafc49904b496089"),
]  # fmt: skip

# SP 800-38A, appendix F: the four blocks of every example.
TEXT = (
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
KEYS = {
    "aes128": "2b7e151628aed2a6abf7158809cf4f3c",
    "aes192": "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    "aes256": "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
}
ECB = {
    "aes128": "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf"
    "43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4",
    "aes192": "bd334f1d6e45f25ff712a214571fa5cc974104846d0ad3ad7734ecb3ecee4eef"
    "ef7afd2270e2e60adce0ba2face6444e9a4b41ba738d6c72fb16691603c18e0e",
    "aes256": "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870"
    "b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
}
CTR = {
    "aes128": "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
    "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
    "aes192": "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94"
    "1e36b26bd1ebc670d1bd1d665620abf74f78a7f6d29809585a97daec58c6b050",
    "aes256": "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
}


@pytest.mark.parametrize(("cipher", "key", "text", "expected"), FIPS_197)
def test_the_vectors_of_fips_197(engine, cipher, key, text, expected):
    assert both_ways(tensor(text), tensor(key), cipher, "ecb").hex() == expected


@pytest.mark.parametrize("cipher", KEYS)
def test_the_vectors_of_sp_800_38a(engine, cipher):
    assert both_ways(tensor(TEXT), tensor(KEYS[cipher]), cipher, "ecb").hex() == ECB[cipher]
    iv = tensor("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    assert both_ways(tensor(TEXT), tensor(KEYS[cipher]), cipher, "ctr", iv=iv).hex() == CTR[cipher]


def _known_answers(cipher, size):
    """NIST's known-answer tests of ECB by their rule: keys with growing runs of ones, and texts with such."""
    ones = [((1 << bits) - 1 << (8 * size - bits)).to_bytes(size, "big") for bits in range(1, 8 * size + 1, 5)]
    yield from ((key, bytes(16)) for key in ones)
    yield from ((bytes(size), ((1 << bits) - 1 << (128 - bits)).to_bytes(16, "big")) for bits in range(1, 129, 3))


@pytest.mark.parametrize("cipher", KEYS)
def test_variable_keys_and_texts_agree_with_another_library(engine, cipher):
    for key, text in _known_answers(cipher, len(KEYS[cipher]) // 2):
        expected = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(text)
        assert both_ways(tensor(text), tensor(key), cipher, "ecb") == expected


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16), st.binary(max_size=2000))
def test_counter_mode_with_an_initial_block_agrees_with_another_library(key, iv, text):
    expected = Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor().update(text)
    value = tensor(text)
    secret = csprng.encrypt(value, torch.empty_like(value), tensor(key), "aes128", "ctr", iv=tensor(iv))
    assert raw(secret) == expected
    assert raw(csprng.decrypt(secret, torch.empty_like(value), tensor(key), "aes128", "ctr", iv=tensor(iv))) == text


def test_the_counter_carries_over_all_sixteen_bytes(engine):
    key, text = os.urandom(16), bytes(16 * 600)
    for iv in (b"\xff" * 16, b"\x00" * 8 + b"\xff" * 7 + b"\xf0", b"\x01" * 7 + b"\xff" * 9):
        expected = Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor().update(text)
        assert both_ways(tensor(text), tensor(key), "aes128", "ctr", iv=tensor(iv)) == expected


def test_upstreams_counter_is_little_endian_from_zero(engine):
    key, text = os.urandom(16), os.urandom(16 * 300)
    counters = b"".join(block.to_bytes(8, "little") + bytes(8) for block in range(300))
    stream = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(counters)
    expected = bytes(a ^ b for a, b in zip(text, stream, strict=True))
    assert both_ways(tensor(text), tensor(key), "aes128", "ctr") == expected


DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["ecb", "ctr"])
def test_any_dtype_is_encrypted_as_its_bytes(dtype, mode):
    data = torch.arange(105).reshape(3, 5, 7).to(dtype)
    key = torch.arange(16, dtype=torch.uint8)
    size = -(-data.nbytes // 16) * 16
    expected = csprng.encrypt(tensor(raw(data)), torch.empty(size, dtype=torch.uint8), key, "aes128", mode)
    ciphers._reuse = ciphers._Reuse()
    secret = csprng.encrypt(data, torch.empty(size // 16, 2, dtype=torch.int64), key.view(torch.int32), "aes128", mode)
    assert raw(secret) == raw(expected)
    assert raw(csprng.decrypt(secret, torch.empty_like(data), key, "aes128", mode)) == raw(data)


@pytest.mark.parametrize("mode", ["ecb", "ctr"])
def test_tensors_with_gaps_are_read_and_written_where_they_lie(mode):
    key, data = torch.arange(32, dtype=torch.uint8)[::2], torch.randint(256, (8, 6), dtype=torch.uint8)
    around = torch.zeros(6, 2, 8, dtype=torch.uint8)
    secret = around.transpose(0, 2)[:, 1]
    returned = csprng.encrypt(data.t(), secret, key, "aes128", mode)
    assert returned is secret and not around[:, 0].any()
    ciphers._reuse = ciphers._Reuse()
    plain = csprng.encrypt(data.t().contiguous(), torch.empty(48, dtype=torch.uint8), key, "aes128", mode)
    assert raw(secret) == raw(plain)
    back = torch.empty(6, 16, dtype=torch.uint8)[:, ::2]
    assert torch.equal(csprng.decrypt(secret, back, key, "aes128", mode), data.t())


@pytest.mark.parametrize("mode", ["ecb", "ctr"])
def test_a_tensor_is_encrypted_in_place(mode):
    key, data = torch.arange(16), torch.randn(4, 16)
    key = key.to(torch.uint8)
    place = data.clone()
    assert csprng.encrypt(place, place, key, "aes128", mode) is place
    assert not torch.equal(place, data)
    csprng.decrypt(place, place.view(torch.int32), key, "aes128", mode)
    assert torch.equal(place, data)


def test_columns_of_one_matrix_do_not_overlap():
    matrix, key = torch.arange(64, dtype=torch.uint8).view(32, 2), torch.zeros(16, dtype=torch.uint8)
    expected = csprng.encrypt(matrix[:, 0].clone(), torch.empty(32, dtype=torch.uint8), key, "aes128", "ecb")
    csprng.encrypt(matrix[:, 0], matrix[:, 1], key, "aes128", "ecb")
    assert torch.equal(matrix[:, 1], expected) and torch.equal(matrix[:, 0], torch.arange(0, 64, 2, dtype=torch.uint8))


ZEROS = torch.zeros(64, dtype=torch.uint8)
KEY = torch.zeros(16, dtype=torch.uint8)

REFUSED = [
    ("encrypt(ZEROS, ZEROS.clone(), KEY, 'des', 'ecb')", "cipher is 'des', expected one of 'aes128', 'aes192'"),
    ("encrypt(ZEROS, ZEROS.clone(), KEY, 'aes128', 'cbc')", "mode is 'cbc', expected 'ecb' or 'ctr'"),
    ("encrypt(ZEROS, ZEROS.clone(), KEY, 'aes128', 'ecb', iv=KEY)", "iv is given for mode 'ecb'"),
    ("encrypt(ZEROS, ZEROS.clone(), KEY[:15], 'aes128', 'ecb')", "key has 15 bytes, expected 16"),
    ("encrypt(ZEROS, ZEROS.clone(), KEY, 'aes192', 'ecb')", "key has 16 bytes, expected 24; .* 192 bits"),
    ("decrypt(ZEROS, ZEROS.clone(), ZEROS, 'aes256', 'ecb')", "decrypt: key has 64 bytes, expected 32"),
    ("encrypt(ZEROS, ZEROS.clone(), KEY, 'aes128', 'ctr', iv=KEY[:8])", "iv has 8 bytes, expected 16"),
    ("encrypt(ZEROS[:20], ZEROS[:20].clone(), KEY, 'aes128', 'ecb')", "output has 20 bytes, expected 32, the input's"),
    ("encrypt(ZEROS[:20], ZEROS[:20].clone(), KEY, 'aes128', 'ctr')", "output has 20 bytes, expected 32"),
    ("decrypt(ZEROS[:20], ZEROS[:20].clone(), KEY, 'aes128', 'ecb')", "input has 20 bytes, expected whole blocks"),
    ("decrypt(ZEROS, ZEROS[:48].clone(), KEY, 'aes128', 'ecb')", "output has 48 bytes, expected the input's 64 or"),
    ("encrypt(ZEROS[:32], ZEROS[16:48], KEY, 'aes128', 'ecb')", "input and output overlap in memory"),
    ("encrypt(ZEROS[:20], ZEROS[:32], KEY, 'aes128', 'ecb')", "input and output overlap in memory"),
    ("encrypt(ZEROS.view(8, 8).t(), ZEROS, KEY, 'aes128', 'ecb')", "input and output overlap in memory"),
    ("encrypt(ZEROS, ZEROS[:1].expand(64), KEY, 'aes128', 'ecb')", "several elements of output are one place"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "message"), REFUSED)
def test_what_cannot_be_done_is_refused_by_name(program, message):
    with pytest.raises(RuntimeError, match=message):
        eval(f"csprng.{program}", {"csprng": csprng, "ZEROS": ZEROS.clone(), "KEY": KEY})


@pytest.mark.parametrize("tier", ["ctypes", "off"])
def test_every_tier_refuses_and_encrypts_alike(tier):
    program = f"""
import os, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import re, torch, flambeau.csprng as csprng
from test_ciphers import ECB, KEYS, REFUSED, TEXT, tensor, raw
from flambeau.csprng.ops._library import LIBRARY
for cipher, key in KEYS.items():
    secret = csprng.encrypt(tensor(TEXT), torch.empty(64, dtype=torch.uint8), tensor(key), cipher, "ecb")
    assert raw(secret).hex() == ECB[cipher]
for line, message in REFUSED:
    try:
        zeros = torch.zeros(64, dtype=torch.uint8)
        eval("csprng." + line, {{"csprng": csprng, "ZEROS": zeros, "KEY": zeros[:16].clone()}})
    except RuntimeError as error:
        assert re.search(message, str(error)), (line, error)
    else:
        raise AssertionError(line)
matrix = torch.arange(64, dtype=torch.uint8).view(32, 2)
csprng.encrypt(matrix[:, 0], matrix[:, 1], tensor(bytes(16)), "aes128", "ecb")
print(LIBRARY.provider)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "FLAMBEAU_NATIVE": tier}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["python" if tier == "off" else tier], done.stderr[-3000:]


def test_a_key_that_streams_twice_is_warned_of_once():
    data, out, key = torch.zeros(16), torch.empty(16), torch.arange(16, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        csprng.encrypt(data, out, key, "aes128", "ctr")
        csprng.decrypt(out, data, key, "aes128", "ctr")
        csprng.encrypt(data, out, key, "aes128", "ecb")
        csprng.encrypt(data, out, key, "aes128", "ctr", iv=key)
        csprng.encrypt(data, out, key + 1, "aes128", "ctr")
    with pytest.warns(csprng.KeyReuseWarning, match="Pass a new `iv`"):
        csprng.encrypt(data, out, key.view(torch.int64), "aes128", "ctr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        csprng.encrypt(data, out, key, "aes128", "ctr")


def test_keys_are_remembered_by_salted_digests_alone():
    key = torch.arange(16, dtype=torch.uint8)
    csprng.encrypt(torch.zeros(4), torch.empty(4), key, "aes128", "ctr")
    assert raw(key) not in b"".join(ciphers._reuse._met)
    other = ciphers._Reuse()
    other.meet(key)
    assert set(other._met) != set(ciphers._reuse._met)


def test_only_so_many_keys_are_remembered():
    for number in range(ciphers._Reuse.most + 10):
        ciphers._reuse.meet(torch.tensor([number, 0]))
    assert len(ciphers._reuse._met) == ciphers._Reuse.most


def test_a_tensor_without_elements_stays_so():
    empty = torch.empty(0)
    assert csprng.encrypt(empty, torch.empty(0), KEY, "aes128", "ecb").numel() == 0


def test_many_blocks_on_many_threads_are_those_of_one():
    data, key = torch.randint(256, (1 << 20,), dtype=torch.uint8), torch.arange(16, dtype=torch.uint8)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(csprng.encrypt(data, torch.empty_like(data), key, "aes128", "ctr", iv=key))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)
