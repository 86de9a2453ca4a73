"""The numbers: formulas, distributions, and what they do not depend on."""

from __future__ import annotations

import math
import struct

import pytest
import scipy.stats
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import flambeau.csprng as csprng
from flambeau.csprng import _fills

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
INTEGERS = (torch.bool, torch.uint8, *SIGNED)


def seeded(seed=0, **options):
    return csprng.create_mt19937_generator(seed, **options)


def words(seed, count, size, attempt=0):
    """The stream of the first key of a seed, made by another library and cut here."""
    key = bytes(csprng.aes128_key_tensor(seeded(seed)).tolist())
    blocks = b"".join(struct.pack("<QQ", block, attempt) for block in range(-(-count * size // 16)))
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    stream = encryptor.update(blocks)
    return [int.from_bytes(stream[at : at + size], "little") for at in range(0, count * size, size)]


def unit(word):
    return (word & (2**53 - 1)) * 2.0**-53


@pytest.mark.parametrize(
    ("dtype", "size", "values"),
    [
        (torch.bool, 4, 2), (torch.uint8, 4, 2**8), (torch.int8, 4, 2**7), (torch.int16, 4, 2**15),
        (torch.int32, 4, 2**31), (torch.int64, 8, 2**63), (torch.float32, 4, 2**24 + 1),
        (torch.float64, 8, 2**53 + 1), (torch.float16, 2, 2**11 + 1), (torch.bfloat16, 2, 2**8 + 1),
    ],
)  # fmt: skip
def test_random_is_a_word_modulo_the_values_of_the_dtype(dtype, size, values):
    drawn = torch.empty(201, dtype=dtype).random_(generator=seeded(7))
    expected = [word % values for word in words(7, 201, size)]
    assert drawn.to(torch.float64).tolist() == [float(value) for value in expected]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        *((dtype, 4) for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16)),
        *((dtype, 8) for dtype in (torch.int64, torch.float64, torch.float32, torch.bfloat16)),
    ],
)
@pytest.mark.parametrize(("low", "high"), [(0, 100), (3, 104), (17, 81)])
def test_random_between_two_numbers(dtype, size, low, high):
    drawn = torch.empty(201, dtype=dtype).random_(low, high, generator=seeded(8))
    assert drawn.tolist() == [word % (high - low) + low for word in words(8, 201, size)]


def test_random_over_every_integer_of_64_bits():
    drawn = torch.empty(101, dtype=torch.int64).random_(-(2**63), None, generator=seeded(9))
    assert drawn.view(torch.uint64).tolist() == [(word + 2**63) % 2**64 for word in words(9, 101, 8)]


def test_rejected_words_are_replaced_by_those_of_the_next_stream():
    values = 3 * 2**29
    drawn = torch.empty(401, dtype=torch.int32).random_(0, values, generator=seeded(10, unbiased=True))
    streams = [words(10, 401, 4, attempt) for attempt in range(12)]
    usable = 2**32 // values * values
    expected = [next(stream[i] for stream in streams if stream[i] < usable) % values for i in range(401)]
    assert drawn.tolist() == expected
    biased = torch.empty(401, dtype=torch.int32).random_(0, values, generator=seeded(10))
    assert drawn.tolist() != biased.tolist()


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_is_the_low_53_bits_of_a_word(dtype):
    drawn = torch.empty(201, dtype=dtype).uniform_(-2, 3, generator=seeded(11))
    expected = torch.tensor([unit(word) * 5 - 2 for word in words(11, 201, 8)], dtype=torch.float64).to(dtype)
    assert torch.equal(
        drawn, expected.clamp(max=math.nextafter(3.0, 0) if dtype is torch.float64 else _fills._below(3.0, dtype))
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers_stay_below_their_upper_end(dtype):
    drawn = torch.empty(100_000, dtype=dtype).uniform_(generator=seeded(12))
    assert (drawn >= 0).all() and (drawn < 1).all()
    assert float(drawn.max()) == _fills._below(1.0, dtype) or dtype in (torch.float32, torch.float64)
    assert torch.empty(5, dtype=dtype).uniform_(2, 2, generator=seeded()).tolist() == [2] * 5


def test_normal_is_that_of_box_and_muller():
    drawn = torch.empty(101, dtype=torch.float64).normal_(1, 2, generator=seeded(13))
    pairs = iter(words(13, 202, 8))
    expected = [
        math.sqrt(-2 * math.log1p(-unit(next(pairs)))) * math.cos(2 * math.pi * turn) * 2 + 1
        for turn in (unit(word) for word in pairs)
    ]
    torch.testing.assert_close(drawn, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "arguments", "formula"),
    [
        ("exponential_", (2,), lambda u: -math.log(1 - u) / 2),
        ("cauchy_", (1, 3), lambda u: 1 + 3 * math.tan(math.pi * (u - 0.5))),
        ("geometric_", (0.3,), lambda u: math.ceil(math.log(u) / math.log(1 - 0.3))),
        ("bernoulli_", (0.3,), lambda u: float(u < 0.3)),
    ],
)
def test_other_distributions_are_functions_of_a_uniform_number(name, arguments, formula):
    drawn = getattr(torch.empty(201, dtype=torch.float64), name)(*arguments, generator=seeded(14))
    expected = torch.tensor([formula(unit(word)) for word in words(14, 201, 8)], dtype=torch.float64)
    torch.testing.assert_close(drawn, expected)


def test_log_normal_numbers_are_exponentials_of_normal_ones():
    drawn = torch.empty(101, dtype=torch.float64).log_normal_(1, 2, generator=seeded(15))
    normal = torch.empty(101, dtype=torch.float64).normal_(1, 2, generator=seeded(15))
    torch.testing.assert_close(drawn, normal.exp())


def test_exponential_and_geometric_numbers_are_finite_and_positive_in_small_dtypes():
    for dtype in FLOATS:
        assert torch.empty(200_000, dtype=dtype).exponential_(generator=seeded(16)).isfinite().all()
        drawn = torch.empty(200_000, dtype=dtype).geometric_(0.5, generator=seeded(16))
        assert drawn.isfinite().all() and (drawn >= 1).all()


FILLS = {
    "random_": lambda tensor, g: tensor.random_(generator=g),
    "random_(6)": lambda tensor, g: tensor.random_(6, generator=g),
    "uniform_": lambda tensor, g: tensor.uniform_(generator=g),
    "normal_": lambda tensor, g: tensor.normal_(generator=g),
    "exponential_": lambda tensor, g: tensor.exponential_(generator=g),
    "geometric_": lambda tensor, g: tensor.geometric_(0.2, generator=g),
    "bernoulli_": lambda tensor, g: tensor.bernoulli_(0.2, generator=g),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_layout_threads_and_length_change_no_element(name, dtype):
    fill, count = FILLS[name], 70_001
    expected = fill(torch.empty(count, dtype=dtype), seeded(17))
    gaps = torch.zeros(count, 3, dtype=dtype)
    assert torch.equal(fill(gaps[:, 1], seeded(17)), expected)
    assert not gaps[:, ::2].any()
    assert torch.equal(fill(torch.empty(count - 5, dtype=dtype), seeded(17)), expected[:-5])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(fill(torch.empty(count, dtype=dtype), seeded(17)), expected)
    finally:
        torch.set_num_threads(before)


def test_every_implementation_of_aes_gives_the_same_numbers(engine):
    drawn = torch.empty(1003, dtype=torch.int64).random_(generator=seeded(18))
    assert drawn.tolist() == [word % 2**63 for word in words(18, 1003, 8)]


def test_a_tensor_without_elements_is_filled():
    assert torch.empty(0, 3).normal_(generator=seeded()).shape == (0, 3)


# Distributions: p-values of Kolmogorov and Smirnov's test, and of the chi-squared one, for a fixed seed


CONTINUOUS = {
    "uniform_(-1, 3)": scipy.stats.uniform(-1, 4),
    "normal_(1, 2)": scipy.stats.norm(1, 2),
    "log_normal_(0.5, 0.25)": scipy.stats.lognorm(0.25, scale=math.exp(0.5)),
    "exponential_(3)": scipy.stats.expon(scale=1 / 3),
    "cauchy_(1, 2)": scipy.stats.cauchy(1, 2),
}


def p_of_continuous(program, dtype, generator):
    name, _, rest = program.partition("(")
    arguments = eval(f"({rest[:-1]},)")
    drawn = getattr(torch.empty(10_000, dtype=dtype), name)(*arguments, generator=generator)
    return scipy.stats.kstest(drawn.double().numpy(), CONTINUOUS[program].cdf).pvalue


def p_of_integers(drawn, values):
    counts = torch.bincount(drawn.to(torch.int64), minlength=values)
    return scipy.stats.chisquare(counts.numpy()).pvalue


def p_of_geometric(dtype, generator):
    drawn = torch.empty(20_000, dtype=dtype).geometric_(0.3, generator=generator).to(torch.int64).clamp_(max=15)
    counts = torch.bincount(drawn, minlength=16)[1:]
    expected = [0.3 * 0.7**k for k in range(14)]
    expected.append(1 - sum(expected))
    return scipy.stats.chisquare(counts.numpy(), [20_000 * p for p in expected]).pvalue


@pytest.mark.parametrize("program", CONTINUOUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_continuous_distributions_are_right(program, dtype):
    assert p_of_continuous(program, dtype, seeded(19)) > 0.001


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_integers_are_equally_frequent(dtype):
    values = 2 if dtype is torch.bool else 37
    drawn = torch.empty(20_000, dtype=dtype).random_(0, values, generator=seeded(20))
    assert p_of_integers(drawn, values) > 0.001


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32, torch.int64])
def test_tries_until_success_are_right(dtype):
    assert p_of_geometric(dtype, seeded(21)) > 0.001


def test_orders_are_equally_frequent():
    generator, counts = seeded(22), {}
    for _ in range(6000):
        order = tuple(torch.randperm(3, generator=generator).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert scipy.stats.chisquare(list(counts.values())).pvalue > 0.001 and len(counts) == 6


def test_samples_follow_their_weights():
    weights = torch.tensor([1.0, 2.0, 0.0, 5.0])
    for replacement in (True, False):
        first = torch.multinomial(weights.expand(8000, 4), 2, replacement, generator=seeded(23))[:, 0]
        counts = torch.bincount(first, minlength=4)
        assert counts[2] == 0
        assert scipy.stats.chisquare(counts[[0, 1, 3]].numpy(), [1000, 2000, 5000]).pvalue > 0.001


@pytest.mark.slow
def test_distributions_are_right_from_random_seeds():
    # Of 400 tests of a right distribution, 4 in a million million times do more than 16 fall below a hundredth.
    generator = csprng.create_random_device_generator()
    values = [p_of_continuous(program, torch.float32, generator) for program in CONTINUOUS for _ in range(60)]
    values += [p_of_integers(torch.empty(5000).random_(0, 37, generator=generator), 37) for _ in range(50)]
    values += [p_of_geometric(torch.float32, generator) for _ in range(50)]
    assert sum(value < 0.01 for value in values) <= 20
    assert scipy.stats.kstest(values, "uniform").pvalue > 1e-6
