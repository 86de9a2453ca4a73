"""Generators: where keys come from, and what torch's functions take as `generator=`."""

from __future__ import annotations

import ctypes
import os
import random
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from flambeau.csprng.errors import GeneratorError, UnknownTokenError

__all__ = [
    "Generator",
    "MersenneTwisterGenerator",
    "RandomDeviceGenerator",
    "aes128_key_tensor",
    "create_mt19937_generator",
    "create_random_device_generator",
]

_KEY_BYTES = 16
_DEFAULT_SEED = 5489


if TYPE_CHECKING:  # checkers know no other way to say what `generator=` takes
    from torch import Generator as _Base
else:
    _Base = object


class Generator(_Base):
    """What stands for `torch.Generator`: torch hands a call with `generator=` over to it.

    It is no subclass, on purpose: torch would take such a one for its own and draw from the Mersenne Twister. A
    function that this package does not have raises `UnsupportedCallError`.

    Args:
        unbiased: integers are drawn without the small preference for low values that `word mod range` has.
    """

    def __init__(self, *, unbiased: bool = False) -> None:
        self.unbiased = unbiased

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What torch calls in place of a function that was given such a generator."""
        from flambeau.csprng._calls import call

        return call(func, args, dict(kwargs or {}))

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # torch's cannot be written either
        """Where keys are drawn: the CPU. They fill tensors of every device."""
        return torch.device("cpu")

    def random_bytes(self, count: int) -> bytes:
        """The next bytes."""
        raise TypeError(f"{type(self).__name__} has no source of bytes; use one that `flambeau.csprng` creates.")

    def manual_seed(self, seed: int) -> Generator:
        """Begin again from a seed.

        Raises:
            GeneratorError: the generator has no seed.
        """
        _no_seed(self)

    def initial_seed(self) -> int:
        """The seed that it began from; raises as `manual_seed`."""
        _no_seed(self)

    def get_state(self) -> Tensor:
        """What `set_state` takes; raises as `manual_seed`."""
        _no_seed(self)

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from a state of `get_state`; raises as `manual_seed`."""
        _no_seed(self)


class RandomDeviceGenerator(Generator):
    """Random bytes of the operating system or of the processor; see `create_random_device_generator`.

    It has no state: nothing can be repeated, forked or stored. Sent to another process it is another such generator.
    """

    def __init__(self, token: str | None = None, *, unbiased: bool = False) -> None:
        super().__init__(unbiased=unbiased)
        self.token = token
        self._draw = _source(token)

    def __repr__(self) -> str:
        return f"RandomDeviceGenerator({self.token or 'default'!r}{', unbiased=True' if self.unbiased else ''})"

    def __reduce__(self) -> Any:
        return _made_again, (self.token, self.unbiased)

    def random_bytes(self, count: int) -> bytes:
        """The next bytes.

        Raises:
            GeneratorError: the source gave none.
        """
        return self._draw(count)


class MersenneTwisterGenerator(Generator):
    """The 32-bit Mersenne Twister (Matsumoto and Nishimura, 1998), for tests: its numbers can be foretold.

    It refuses to go on in a forked child, and to be pickled, because both would repeat the numbers of this process.
    """

    def __init__(self, seed: int | None = None, *, unbiased: bool = False) -> None:
        super().__init__(unbiased=unbiased)
        self._twister = random.Random()
        self.manual_seed(_DEFAULT_SEED if seed is None else seed)

    def __repr__(self) -> str:
        return f"MersenneTwisterGenerator(<seeded>{', unbiased=True' if self.unbiased else ''})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A generator with a seed is not pickled: it would give the same numbers in two places. Create one there, "
            "with a seed of its own."
        )

    def random_bytes(self, count: int) -> bytes:
        """The next draws of 32 bits, each little-endian; of the last one what is needed.

        Raises:
            GeneratorError: this process was forked from the one that seeded it.
        """
        if os.getpid() != self._process:
            raise GeneratorError(
                "This generator was seeded before this process was forked, and would repeat the numbers of the other "
                "process; call `manual_seed` with a seed of this process."
            )
        draws = [self._twister.getrandbits(32).to_bytes(4, "little") for _ in range(-(-count // 4))]
        return b"".join(draws)[:count]

    def manual_seed(self, seed: int) -> MersenneTwisterGenerator:
        """Begin again from a seed, of which the low 32 bits count."""
        if not isinstance(seed, int):
            raise TypeError(f"seed is {seed!r}, expected an int.")
        self._seed, self._process = seed, os.getpid()
        self._twister.setstate((3, (*_initial_words(seed & 0xFFFFFFFF), 624), None))
        return self

    def initial_seed(self) -> int:
        """The seed that it began from."""
        return self._seed

    def get_state(self) -> Tensor:
        """(625,), int64: the twister's words and how many of them are used."""
        return torch.tensor(self._twister.getstate()[1], dtype=torch.int64)

    def set_state(self, new_state: Tensor) -> MersenneTwisterGenerator:
        """Go on from a state of `get_state`.

        Raises:
            GeneratorError: it is no such state.
        """
        if new_state.shape != (625,) or new_state.dtype != torch.int64:
            raise GeneratorError(
                f"new_state has shape {tuple(new_state.shape)} and dtype {new_state.dtype}, expected (625,) and "
                "torch.int64, as `get_state` gives it."
            )
        words = tuple(new_state.tolist())
        if not (all(0 <= word < 1 << 32 for word in words[:-1]) and any(words[:-1]) and 0 <= words[-1] <= 624):
            raise GeneratorError("new_state is no state of the Mersenne Twister; pass what `get_state` gave.")
        self._process = os.getpid()
        self._twister.setstate((3, words, None))
        return self


def create_random_device_generator(token: str | None = None, *, unbiased: bool = False) -> RandomDeviceGenerator:
    """A generator of random numbers that nobody can foretell.

    Args:
        token: where they come from: None, "default", "/dev/urandom", "/dev/random" (the operating system's source, all
            alike), "rdrand" or "rdseed" (the processor's, where it has them).
        unbiased: integers are drawn without the small preference for low values that `word mod range` has; upstream
            has it.

    Raises:
        UnknownTokenError: another token, or one that this processor does not have.

    Example:
        >>> generator = create_random_device_generator()
        >>> torch.empty(2, 3).uniform_(generator=generator).shape
        torch.Size([2, 3])
    """
    return RandomDeviceGenerator(token, unbiased=unbiased)


def create_mt19937_generator(seed: int | None = None, *, unbiased: bool = False) -> MersenneTwisterGenerator:
    """A generator for tests, whose numbers follow from a seed. They are not secure.

    Args:
        seed: of which the low 32 bits count; by default 5489.
        unbiased: as of `create_random_device_generator`.

    Example:
        >>> torch.randint(10, (4,), generator=create_mt19937_generator(1))
        tensor([7, 5, 6, 1])
    """
    return MersenneTwisterGenerator(seed, unbiased=unbiased)


def aes128_key_tensor(generator: Generator) -> Tensor:
    """A new key: the generator's next 16 bytes.

    Args:
        generator: of this package; torch's own is not fit for keys.

    Returns:
        (16,), uint8, on the CPU.

    Raises:
        TypeError: another generator.

    Example:
        >>> aes128_key_tensor(create_mt19937_generator())[:4]
        tensor([ 92, 187, 145, 208], dtype=torch.uint8)
    """
    if not isinstance(generator, Generator):
        raise TypeError(
            f"generator is a {type(generator).__name__}, expected one of `create_random_device_generator` or "
            "`create_mt19937_generator`."
        )
    return torch.frombuffer(bytearray(generator.random_bytes(_KEY_BYTES)), dtype=torch.uint8)


def _made_again(token: str | None, unbiased: bool) -> RandomDeviceGenerator:
    return RandomDeviceGenerator(token, unbiased=unbiased)


def _no_seed(generator: Generator) -> NoReturn:
    raise GeneratorError(
        f"{generator!r} has neither seed nor state; `create_mt19937_generator` makes a generator for tests that has."
    )


def _initial_words(seed: int) -> list[int]:
    """How the twister's 624 words follow from a seed (Knuth's linear recurrence, as the C++ standard has it)."""
    words = [seed]
    for position in range(1, 624):
        words.append((1812433253 * (words[-1] ^ (words[-1] >> 30)) + position) & 0xFFFFFFFF)
    return words


def _source(token: str | None) -> Callable[[int], bytes]:
    if token in _SYSTEM:
        return os.urandom
    if token in ("rdrand", "rdseed"):
        draw = _hardware(token == "rdseed")
        if draw is not None:
            return draw
    available = [repr(name) for name in _SYSTEM if name]
    available += [repr(name) for name, seeds in (("rdrand", False), ("rdseed", True)) if _hardware(seeds) is not None]
    raise UnknownTokenError(f"token is {token!r}, expected one of {', '.join(available)} on this processor.")


_SYSTEM = (None, "default", "/dev/urandom", "/dev/random")


def _hardware(seeds: bool) -> Callable[[int], bytes] | None:
    """The processor's source; None where it has none, or where the native library is not there to ask for it."""
    from flambeau.csprng.ops._library import LIBRARY

    if LIBRARY.load() is None:
        return None
    function = LIBRARY.function("fb_hardware_random", [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32], ctypes.c_int32)

    def draw(count: int) -> bytes:
        buffer = ctypes.create_string_buffer(count)
        if function(buffer, count, seeds):
            raise GeneratorError(
                f"The processor's {'RDSEED' if seeds else 'RDRAND'} gave no number; use the operating system's source, "
                "`create_random_device_generator()`."
            )
        return buffer.raw

    try:
        draw(8)
    except GeneratorError:
        return None
    return draw


if sys.byteorder != "little":
    raise ImportError("flambeau.csprng cuts bytes into numbers as little-endian processors do, and this one is not.")
