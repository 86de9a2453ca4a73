"""Generators: their sources, seeds, and what they refuse."""

from __future__ import annotations

import multiprocessing
import os
import pickle

import numpy as np
import pytest
import torch

import flambeau.csprng as csprng


def word(generator):
    return int.from_bytes(bytes(csprng.aes128_key_tensor(generator).tolist()), "little")


@pytest.mark.parametrize("seed", [None, 0, 1, 5489, 2**32 - 1, 2**32 + 7, -1])
def test_seeded_numbers_are_those_of_the_mersenne_twister(seed):
    generator = csprng.create_mt19937_generator(seed)
    expected = np.random.RandomState((5489 if seed is None else seed) % 2**32)._bit_generator.random_raw(8)
    keys = torch.cat([csprng.aes128_key_tensor(generator) for _ in range(2)])
    assert keys.view(torch.uint32).tolist() == expected.tolist()


def test_a_key_is_sixteen_bytes_on_the_cpu_and_new_each_time():
    generator = csprng.create_random_device_generator()
    keys = [csprng.aes128_key_tensor(generator) for _ in range(100)]
    assert {(key.shape, key.dtype, key.device.type) for key in keys} == {((16,), torch.uint8, "cpu")}
    assert len({bytes(key.tolist()) for key in keys}) == 100


@pytest.mark.parametrize("token", [None, "default", "/dev/urandom", "/dev/random"])
def test_every_name_of_the_systems_source_works(token):
    assert word(csprng.create_random_device_generator(token)) != word(csprng.create_random_device_generator(token))


@pytest.mark.parametrize("token", ["rdrand", "rdseed"])
def test_the_processors_source_gives_other_bytes_each_time_where_there_is_one(token):
    try:
        generator = csprng.create_random_device_generator(token)
    except ValueError as error:
        assert f"token is '{token}'" in str(error)
        return
    assert len(generator.random_bytes(13)) == 13
    assert word(generator) != word(generator)


def test_an_unknown_token_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="token is 'dice', expected one of 'default', '/dev/urandom', '/dev/random'"):
        csprng.create_random_device_generator("dice")


def test_a_seed_begins_the_numbers_again():
    generator = csprng.create_mt19937_generator(3)
    first = torch.rand(5, generator=generator)
    assert not torch.equal(torch.rand(5, generator=generator), first)
    assert torch.equal(torch.rand(5, generator=generator.manual_seed(3)), first)
    assert generator.initial_seed() == 3


def test_a_state_goes_on_where_it_was_taken():
    generator, other = csprng.create_mt19937_generator(3), csprng.create_mt19937_generator(4)
    torch.rand(5, generator=generator)
    other.set_state(generator.get_state())
    assert torch.equal(torch.rand(5, generator=generator), torch.rand(5, generator=other))


@pytest.mark.parametrize(
    "state", [torch.zeros(625, dtype=torch.int64), torch.ones(624, dtype=torch.int64), torch.full((625,), -1)]
)
def test_what_is_no_state_is_refused(state):
    with pytest.raises(csprng.GeneratorError, match="new_state"):
        csprng.create_mt19937_generator().set_state(state)


@pytest.mark.parametrize("call", ["manual_seed(1)", "initial_seed()", "get_state()", "set_state(None)"])
def test_a_random_device_has_neither_seed_nor_state(call):
    with pytest.raises(RuntimeError, match="neither seed nor state"):
        eval(f"generator.{call}", {"generator": csprng.create_random_device_generator()})


def test_a_seed_is_a_whole_number():
    with pytest.raises(TypeError, match=r"seed is 1\.5, expected an int"):
        csprng.create_mt19937_generator(1.5)


def test_keys_are_drawn_from_no_generator_of_torch():
    with pytest.raises(TypeError, match="generator is a Generator, expected one of"):
        csprng.aes128_key_tensor(torch.Generator())


def test_neither_reprs_nor_pickles_have_a_secret():
    device, seeded = csprng.create_random_device_generator(), csprng.create_mt19937_generator(123456)
    assert repr(device) == "RandomDeviceGenerator('default')"
    assert "123456" not in repr(seeded)
    assert pickle.loads(pickle.dumps(device)).token is None
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(seeded)


def _send_key(generator, sender):
    sender.send(word(generator))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_get_other_numbers(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("this system does not fork")
    context = multiprocessing.get_context(method)
    generator, keys = csprng.create_random_device_generator(), set()
    for _ in range(2):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send_key, args=(generator, sender))
        process.start()
        keys.add(receiver.recv())
        process.join()
    assert len({*keys, word(generator)}) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_seeded_generator_does_not_repeat_itself_in_a_forked_child():
    generator = csprng.create_mt19937_generator(1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            generator.random_bytes(4)
            answer = b"repeated"
        except csprng.GeneratorError:
            answer = b"refused " + generator.manual_seed(2).random_bytes(1).hex().encode()
        os.write(writer, answer)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).startswith(b"refused ")
