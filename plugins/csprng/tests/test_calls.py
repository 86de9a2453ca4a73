"""Which of torch's functions take a generator, and what they make of the rest of their arguments."""

from __future__ import annotations

import pytest
import torch

import flambeau.csprng as csprng


def seeded(seed=0, **options):
    return csprng.create_mt19937_generator(seed, **options)


HALF = torch.full((50,), 0.5)

# What is drawn with a generator has the shape and dtype that torch's own gives, and is drawn anew.
PROGRAMS = """
torch.rand(50, generator=g)
torch.rand((5, 10), generator=g, dtype=torch.float64)
torch.rand(size=(5, 10), generator=g)
torch.rand(50, generator=g, requires_grad=True)
torch.rand_like(HALF, generator=g)
torch.rand_like(HALF, generator=g, dtype=torch.float64)
torch.randn(5, 10, generator=g)
torch.randn(50, out=torch.empty(0), generator=g)
torch.randn_like(HALF, generator=g)
torch.randint(1000, (50,), generator=g)
torch.randint(-5, 1000, (5, 10), generator=g, dtype=torch.int16)
torch.randint(high=1000, size=(50,), generator=g)
torch.randint(low=-1000, high=9, size=(50,), generator=g, dtype=torch.float32)
torch.randint(1000, (50,), generator=g, out=torch.empty(0, dtype=torch.int32))
torch.randint_like(HALF, 1000, generator=g)
torch.randint_like(HALF, -1000, 1000, generator=g)
torch.randperm(50, generator=g)
torch.randperm(50, generator=g, dtype=torch.int16)
torch.randperm(50, generator=g, out=torch.empty(0, dtype=torch.int64))
torch.normal(HALF, 2.0, generator=g)
torch.normal(2.0, HALF, generator=g)
torch.normal(HALF, HALF.view(50, 1), generator=g)
torch.normal(0.0, 1.0, (50,), generator=g)
torch.normal(mean=0.0, std=1.0, size=(5, 10), generator=g, dtype=torch.float64)
torch.normal(HALF, HALF, generator=g, out=torch.empty(50))
torch.bernoulli(HALF, generator=g)
torch.bernoulli(torch.zeros(50), 0.5, generator=g)
torch.bernoulli(HALF, generator=g, out=torch.empty(0))
HALF.bernoulli(generator=g)
torch.multinomial(torch.ones(200), 50, generator=g)
torch.multinomial(torch.ones(2, 200), 50, replacement=True, generator=g)
torch.ones(200).multinomial(50, generator=g)
torch.empty(50).random_(generator=g)
torch.empty(50, dtype=torch.int8).random_(generator=g)
torch.empty(50, dtype=torch.int64).random_(100, generator=g)
torch.empty(50, dtype=torch.int64).random_(-100, to=100, generator=g)
torch.empty(50, dtype=torch.int64).random_(-2**63, None, generator=g)
torch.empty(50, dtype=torch.int32).random_(5, None, generator=g)
torch.empty(50).uniform_(generator=g)
torch.empty(50).uniform_(-1, 1, generator=g)
torch.empty(50).uniform_(to=3, generator=g)
torch.empty(5, 10).t().normal_(std=2, generator=g)
torch.empty(50, dtype=torch.bfloat16).normal_(3, generator=g)
torch.empty(50).log_normal_(generator=g)
torch.empty(50).cauchy_(generator=g)
torch.empty(50).exponential_(lambd=2, generator=g)
torch.empty(50).geometric_(0.1, generator=g)
torch.empty(50, dtype=torch.int32).geometric_(p=0.1, generator=g)
torch.empty(50).bernoulli_(generator=g)
torch.empty(50, dtype=torch.int32).bernoulli_(HALF, generator=g)
torch.nn.init.xavier_uniform_(torch.empty(5, 10), generator=g)
torch.nn.init.trunc_normal_(torch.empty(5, 10), generator=g)
""".strip().splitlines()


def draw(program, generator):
    return eval(program, {"torch": torch, "g": generator, "HALF": HALF.clone()})


@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_give_what_torch_gives_in_shape_and_dtype(program):
    ours, theirs = draw(program, seeded()), draw(program, torch.Generator())
    about = [(value.shape, value.dtype, value.requires_grad, value.stride()) for value in (ours, theirs)]
    assert about[0] == about[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_draw_anew_and_repeatably_and_leave_torchs_generator_alone(program):
    generator, before = seeded(), torch.get_rng_state()
    first, second = draw(program, generator), draw(program, generator)
    assert not torch.equal(first, second)
    assert torch.equal(draw(program, seeded()), first)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "program",
    [
        "torch.poisson(HALF, generator=g)",
        "torch.binomial(HALF, HALF, generator=g)",
        "torch.ops.aten.rand.default([3], generator=g)",
        "torch._sample_dirichlet(HALF, generator=g)",
    ],
)
def test_a_call_that_would_draw_from_torchs_own_generator_is_refused(program):
    with pytest.raises(TypeError):
        draw(program, seeded())


def test_what_is_refused_says_what_is_not():
    with pytest.raises(csprng.UnsupportedCallError, match=r"poisson cannot draw .* torch\.rand,"):
        torch.poisson(HALF, generator=seeded())


@pytest.mark.parametrize(
    "program",
    [
        "torch.empty(3).uniform_(2, 1, generator=g)",
        "torch.empty(3).normal_(0, -1, generator=g)",
        "torch.empty(3).exponential_(0, generator=g)",
        "torch.empty(3).geometric_(1.5, generator=g)",
        "torch.empty(3).cauchy_(0, 0, generator=g)",
        "torch.empty(3).log_normal_(0, 0, generator=g)",
        "torch.empty(3).bernoulli_(1.5, generator=g)",
        "torch.empty(3).bernoulli_(torch.full((3,), 1.5), generator=g)",
        "torch.empty(3).bernoulli_(torch.full((4,), 0.5), generator=g)",
        "torch.empty(3).random_(5, 2, generator=g)",
        "torch.empty(3, dtype=torch.int8).random_(1000, generator=g)",
        "torch.empty(3, dtype=torch.int64).uniform_(generator=g)",
        "torch.empty(3, dtype=torch.int64).normal_(generator=g)",
        "torch.rand(3, dtype=torch.int64, generator=g)",
        "torch.randn(3, dtype=torch.int64, generator=g)",
        "torch.randint(5, 5, (3,), generator=g)",
        "torch.randperm(-1, generator=g)",
        "torch.randperm(300, dtype=torch.uint8, generator=g)",
        "torch.normal(HALF, -HALF, generator=g)",
        "torch.bernoulli(HALF + 1, generator=g)",
        "torch.multinomial(torch.ones(3), 5, generator=g)",
        "torch.multinomial(-torch.ones(3), 2, generator=g)",
        "torch.empty(3, requires_grad=True).uniform_(generator=g)",
        "torch.empty(1).expand(3).random_(generator=g)",
    ],
)
def test_what_torch_refuses_is_refused(program):
    for generator in (seeded(), torch.Generator()):
        with pytest.raises((RuntimeError, NotImplementedError)):
            draw(program, generator)


def test_loaders_and_samplers_take_a_generator():
    data, generator = list(range(10)), csprng.create_random_device_generator()
    assert sorted(torch.utils.data.RandomSampler(data, generator=generator)) == data
    assert (
        sorted(torch.cat(list(torch.utils.data.DataLoader(data, shuffle=True, generator=generator))).tolist()) == data
    )
    parts = torch.utils.data.random_split(data, [4, 6], generator=generator)
    assert sorted([*parts[0], *parts[1]]) == data
    sampler = torch.utils.data.WeightedRandomSampler([0.0, 1.0, 1.0], 20, generator=generator)
    assert set(sampler) == {1, 2}


def test_a_default_device_is_kept():
    with torch.device("meta"):
        assert torch.rand(3, generator=seeded()).device.type == "meta"


def test_changes_in_place_are_seen_by_gradients():
    weight = torch.ones(3, requires_grad=True)
    buffer = torch.ones(3)
    product = weight * buffer
    buffer.uniform_(generator=seeded())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
