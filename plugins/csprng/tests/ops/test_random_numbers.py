"""The operators of random numbers: native kernels against references, and what they refuse."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
import torch

from flambeau.csprng.ops import random_numbers as numbers
from flambeau.csprng.ops._library import LIBRARY

KEY = torch.arange(16, dtype=torch.uint8)
DTYPES = list(numbers._KINDS)
RANGES = [0, 1, 2, 3, 6, 257, 2**11 + 1, 2**16, 2**24 + 1, 2**31, 2**32 - 5, 2**53 + 1, 2**63, 2**63 + 5, 2**64 - 1]


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def test_the_native_library_is_built():
    assert LIBRARY.provider in ("dispatcher", "ctypes"), LIBRARY.reason


@functools.cache
def stream(first, blocks, attempt):
    return numbers.stream(KEY, first, blocks, attempt)


@pytest.mark.parametrize("word_bytes", [2, 4, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_integers_are_those_of_the_reference(dtype, word_bytes):
    for number, (values, unbiased) in enumerate(itertools.product(RANGES, (False, True))):
        base = (0, -3, 2**40)[number % 3]
        got, through_ctypes, expected = (torch.empty(133, dtype=dtype) for _ in range(3))
        numbers.fill_integers(got, KEY, word_bytes, values, base, unbiased=unbiased)
        numbers._native_integers(through_ctypes, KEY, word_bytes, signed(values), base, unbiased)
        numbers.integers_of(
            lambda key, *where: stream(*where), expected, KEY, word_bytes, signed(values), base, unbiased
        )
        assert torch.equal(got, expected), (values, unbiased, base)
        assert torch.equal(through_ctypes, expected), (values, unbiased, base)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_numbers_are_those_of_the_reference(dtype):
    got, through_ctypes, expected = (torch.empty(1001, dtype=dtype) for _ in range(3))
    for fill, output in (
        (numbers.fill_uniform, got), (numbers._native_uniform, through_ctypes), (numbers._uniform, expected),
    ):  # fmt: skip
        fill(output, KEY, -1.5, 4.0, 2.25)
    assert torch.equal(got, expected) and torch.equal(through_ctypes, expected)
    assert float(got.max()) == 2.25


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_numbers_are_those_of_the_reference_but_for_the_last_unit(dtype):
    got, through_ctypes, expected = (torch.empty(20_001, dtype=dtype) for _ in range(3))
    for fill, output in (
        (numbers.fill_normal, got), (numbers._native_normal, through_ctypes), (numbers._normal, expected),
    ):  # fmt: skip
        fill(output, KEY, 0.0, 1.0)
    assert torch.equal(got, through_ctypes)
    unit = torch.finfo(dtype).eps
    # Relative, though cosines near 0 are: what is left to a quarter of a turn is exact here, and rounded there.
    torch.testing.assert_close(got, expected, rtol=4 * unit, atol=1e-14)
    if dtype is torch.float32:
        assert (got != expected).float().mean() < 1e-3


def test_normal_numbers_are_no_longer_than_the_least_uniform_number_allows():
    most = math.sqrt(2 * 53 * math.log(2))
    drawn = torch.empty(2_000_000, dtype=torch.float64)
    numbers.fill_normal(drawn, KEY, 0.0, 1.0)
    assert drawn.isfinite().all() and float(drawn.abs().max()) < most


@pytest.mark.parametrize(("block", "count"), [(0, 0), (0, 1), (5, 8), (2**40, 1001)])
def test_words_are_those_of_the_reference(block, count):
    expected = numbers._random_words(KEY, block, count)
    assert torch.equal(numbers.random_words(KEY, block, count), expected)
    assert torch.equal(numbers._native_words(KEY, block, count), expected)


def test_words_of_a_later_block_go_on_where_the_stream_was_left():
    whole = numbers.random_words(KEY, 0, 40)
    assert torch.equal(numbers.random_words(KEY, 7, 26), whole[14:])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: numbers.fill_integers(torch.empty(3), KEY[:8], 4, 5), r"key has dtype torch.uint8 and shape \(8,\)"),
        (lambda: numbers.fill_integers(torch.empty(3), KEY.int(), 4, 5), "key has dtype torch.int32"),
        (lambda: numbers.fill_integers(torch.empty(3).half(), KEY, 4, 5), "output has dtype torch.float16"),
        (lambda: numbers.fill_integers(torch.empty(3, 2).t(), KEY, 4, 5), "output has gaps"),
        (lambda: numbers.fill_integers(torch.empty(3), KEY, 3, 5), "word_bytes is 3, expected 2, 4 or 8"),
        (lambda: numbers.fill_uniform(torch.empty(3).int(), KEY, 0.0, 1.0, 1.0), "expected float32 or float64"),
        (lambda: numbers.fill_normal(torch.empty(3).half(), KEY, 0.0, 1.0), "expected float32 or float64"),
        (lambda: numbers.fill_normal(torch.empty(3, 2).t(), KEY, 0.0, 1.0), "output has gaps"),
        (lambda: numbers.random_words(KEY, -1, 2), "block is -1 and count 2, expected 0 or more"),
        (lambda: numbers.random_words(KEY, 1, -2), "block is 1 and count -2"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: numbers._integers(torch.empty(3), KEY[:8], 4, 5, 0, False), r"shape \(8,\)"),
        (lambda: numbers._integers(torch.empty(3).half(), KEY, 4, 5, 0, False), "expected bool"),
        (lambda: numbers._integers(torch.empty(3, 2).t(), KEY, 4, 5, 0, False), "output has gaps"),
        (lambda: numbers._native_integers(torch.empty(3), KEY, 3, 5, 0, False), "word_bytes is 3"),
        (lambda: numbers._native_words(KEY, 1, -2), "block is 1 and count -2"),
    ],
)
def test_references_name_bad_arguments_alike(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_the_operators_keep_torchs_rules():
    ops = torch.ops.flambeau_csprng
    torch.library.opcheck(ops.random_words.default, (KEY, 3, 9))
    torch.library.opcheck(ops.fill_integers.default, (torch.zeros(3, 5), KEY, 4, 6, 1, True))
    torch.library.opcheck(ops.fill_uniform.default, (torch.zeros(3, 5), KEY, 0.0, 1.0, 1.0))
    torch.library.opcheck(ops.fill_normal.default, (torch.zeros(3, 5), KEY, 0.0, 1.0))
    message = torch.arange(32, dtype=torch.uint8)
    torch.library.opcheck(ops.crypt.default, (message, torch.zeros_like(message), KEY, 16, 0, None))
