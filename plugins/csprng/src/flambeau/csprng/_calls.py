"""What torch's functions do when they are given a generator of this package.

Torch hands every call with such a generator to `call`. Arguments are judged by torch itself, which gets the same call
with a tensor of one element and a generator of its own, and whose number nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.csprng import _fills
from flambeau.csprng.errors import UnsupportedCallError
from flambeau.csprng.generators import Generator

__all__ = ["SUPPORTED", "call"]

Arguments = tuple[Any, ...]
Options = dict[str, Any]


def call(func: Callable[..., Any], args: Arguments, options: Options) -> Any:
    """Do what a function of torch does, from a generator of this package.

    Args:
        func: torch's function or method.
        args: its positional arguments.
        options: its keyword arguments, with the generator among them.

    Raises:
        UnsupportedCallError: the function is not among those that draw from such a generator.
    """
    function = _FUNCTIONS.get(func)
    generator = options.pop("generator", None)
    if function is None or not isinstance(generator, Generator):
        name = getattr(func, "__name__", str(func))
        raise UnsupportedCallError(
            f"{name} cannot draw from a generator of flambeau.csprng, and torch's own would not be secure. These can: "
            f"{', '.join(SUPPORTED)}."
        )
    return function(generator, args, options)


_JUDGE = torch.Generator()


def _judge(method: Callable[..., Any], tensor: Tensor, args: Arguments, options: Options) -> None:
    """Raise what torch has to say against the arguments of a method that fills a tensor."""
    method(torch.empty(1, dtype=tensor.dtype, device="cpu"), *args, **options, generator=_JUDGE)


# Methods that fill a tensor. The first argument of `func` is the tensor, however it is passed.

Fill = Callable[..., None]


def _filling(method: Callable[..., Any], names: tuple[str, ...], defaults: tuple[Any, ...], fill: Fill) -> Any:
    """A method such as `tensor.normal_(mean, std)`, whose arguments `fill(tensor, *values, generator)` takes."""

    def fill_tensor(generator: Generator, args: Arguments, options: Options) -> Tensor:
        tensor: Tensor = args[0]
        _judge(method, tensor, args[1:], options)
        values = {**dict(zip(names, defaults, strict=True)), **dict(zip(names, args[1:], strict=False)), **options}
        fill(tensor, *(float(values[name]) for name in names), generator)
        return tensor

    return fill_tensor


def _random_(generator: Generator, args: Arguments, options: Options) -> Tensor:
    tensor: Tensor = args[0]
    _judge(torch.Tensor.random_, tensor, args[1:], options)
    bounds = [*args[1:]]
    if len(bounds) + len(options) == 0:
        _fills.random(tensor, generator)
        return tensor
    if len(bounds) == 1 and not options:
        low, high = 0, bounds[0]
    else:
        low = bounds[0] if bounds else options.get("from", 0)
        high = bounds[1] if len(bounds) > 1 else options.get("to")
    low = int(low)
    high = _fills.VALUES[tensor.dtype] if high is None else int(high)
    _fills.integers(tensor, low, high, generator)
    return tensor


def _bernoulli_(generator: Generator, args: Arguments, options: Options) -> Tensor:
    tensor: Tensor = args[0]
    probabilities = args[1] if len(args) > 1 else options.get("p", 0.5)
    if isinstance(probabilities, Tensor):
        _check_probabilities(probabilities)
        probabilities.expand(tensor.shape)
    else:
        _judge(torch.Tensor.bernoulli_, tensor, args[1:], options)
    _fills.bernoulli(tensor, probabilities, generator)
    return tensor


def _check_probabilities(values: Tensor) -> None:
    if not values.is_floating_point() or bool(((values < 0) | (values > 1) | values.isnan()).any()):
        raise RuntimeError("Probabilities are outside of [0, 1], or no floating-point numbers.")


# Functions that make a tensor, or fill `out=`


def _factory(fill: Callable[[Tensor, Generator], None], name: str) -> Any:
    def make(generator: Generator, args: Arguments, options: Options) -> Tensor:
        wanted = options.pop("requires_grad", False)
        made = torch.empty(*args, **options)
        if not made.is_floating_point():
            raise NotImplementedError(f'"{name}" not implemented for {made.dtype}; pass a floating-point dtype.')
        fill(made, generator)
        return made.requires_grad_(wanted)

    return make


def _like(fill: Callable[[Tensor, Generator], None], name: str) -> Any:
    def make(generator: Generator, args: Arguments, options: Options) -> Tensor:
        wanted = options.pop("requires_grad", False)
        made = torch.empty_like(*args, **options)
        if not made.is_floating_point():
            raise NotImplementedError(f'"{name}" not implemented for {made.dtype}; pass a floating-point dtype.')
        fill(made, generator)
        return made.requires_grad_(wanted)

    return make


def _standard_uniform(tensor: Tensor, generator: Generator) -> None:
    _fills.uniform(tensor, 0.0, 1.0, generator)


def _standard_normal(tensor: Tensor, generator: Generator) -> None:
    _fills.normal(tensor, 0.0, 1.0, generator)


def _randint(generator: Generator, args: Arguments, options: Options) -> Tensor:
    given = list(args)
    size = options.pop("size", None)
    if size is None:
        size = given.pop()
    low, high = _bounds(given, options)
    out, wanted = options.pop("out", None), options.pop("requires_grad", False)
    dtype = options.pop("dtype", None)
    if out is None:
        out = torch.empty(size, dtype=torch.int64 if dtype is None else dtype, **options)
    else:
        out.resize_(size)
    return _between(out, low, high, generator).requires_grad_(wanted)


def _randint_like(generator: Generator, args: Arguments, options: Options) -> Tensor:
    given = list(args)
    like = given.pop(0) if given else options.pop("input")
    low, high = _bounds(given, options)
    wanted = options.pop("requires_grad", False)
    return _between(torch.empty_like(like, **options), low, high, generator).requires_grad_(wanted)


def _bounds(given: list[Any], options: Options) -> tuple[int, int]:
    low = options.pop("low", given[0] if len(given) > 1 else 0)
    high = options.pop("high") if "high" in options else given[-1]
    return int(low), int(high)


def _between(tensor: Tensor, low: int, high: int, generator: Generator) -> Tensor:
    _judge(torch.Tensor.random_, tensor, (low, high), {})
    _fills.integers(tensor, low, high, generator)
    return tensor


def _randperm(generator: Generator, args: Arguments, options: Options) -> Tensor:
    count = args[0] if args else options.pop("n")
    wanted, out = options.pop("requires_grad", False), options.pop("out", None)
    made = torch.randperm(0, **options)  # torch's own objections; draws nothing
    if count < 0:
        raise RuntimeError(f"n is {count}, expected 0 or more.")
    largest = {torch.uint8: 256, torch.int8: 128, torch.int16: 1 << 15, torch.float16: 2049, torch.bfloat16: 257}
    if count > largest.get(made.dtype if out is None else out.dtype, count):
        raise RuntimeError(f"n is {count}, which is more than {made.dtype} can count to; pass a larger dtype.")
    made = made.new_empty(count) if out is None else out.resize_(count)
    _fills.permutation(made, generator)
    return made.requires_grad_(wanted)


def _normal(generator: Generator, args: Arguments, options: Options) -> Tensor:
    names = ("mean", "std", "size")
    given = {**dict(zip(names, args, strict=False)), **{name: options.pop(name) for name in names if name in options}}
    mean, std = given.get("mean", 0.0), given.get("std", 1.0)
    out, wanted = options.pop("out", None), options.pop("requires_grad", False)
    if "size" in given:
        out = torch.empty(given["size"], **options) if out is None else out.resize_(given["size"])
        return torch.Tensor.normal_(out, mean, std, generator=generator).requires_grad_(wanted)
    tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
    empty = [value.new_empty(0) if isinstance(value, Tensor) else value for value in (mean, std)]
    torch.normal(*empty, **options)
    if isinstance(std, Tensor) and bool((std < 0).any()):
        raise RuntimeError("normal expects all elements of std >= 0.0.")
    shape = torch.broadcast_shapes(*(value.shape for value in tensors))
    if out is None:
        out = torch.empty(shape, dtype=tensors[0].dtype, device=tensors[0].device)
    drawn = torch.empty(shape, dtype=torch.float64, device=out.device)
    _standard_normal(drawn, generator)
    return _written(out, (drawn * std + mean).to(out.dtype))


def _bernoulli(generator: Generator, args: Arguments, options: Options) -> Tensor:
    given = list(args)
    values = given.pop(0) if given else options.pop("input")
    probabilities = given.pop(0) if given else options.pop("p", None)
    out = options.pop("out", None)
    out = torch.empty_like(values) if out is None else out.resize_(values.shape)
    return _bernoulli_(generator, (out, values if probabilities is None else probabilities), {})


def _written(out: Tensor, values: Tensor) -> Tensor:
    return out.resize_(values.shape).copy_(values)


def _multinomial(generator: Generator, args: Arguments, options: Options) -> Tensor:
    names = ("input", "num_samples", "replacement")
    given = {"replacement": False, **dict(zip(names, args, strict=False)), **options}
    weights, count, out = given["input"], given["num_samples"], given.get("out")
    torch.multinomial(weights, count, given["replacement"], generator=torch.Generator(weights.device))
    drawn = _fills.multinomial(weights, count, given["replacement"], generator)
    return drawn if out is None else _written(out, drawn)


_FUNCTIONS: dict[Any, Callable[[Generator, Arguments, Options], Tensor]] = {
    torch.Tensor.random_: _random_,
    torch.Tensor.bernoulli_: _bernoulli_,
    torch.Tensor.uniform_: _filling(torch.Tensor.uniform_, ("from", "to"), (0.0, 1.0), _fills.uniform),
    torch.Tensor.normal_: _filling(torch.Tensor.normal_, ("mean", "std"), (0.0, 1.0), _fills.normal),
    torch.Tensor.log_normal_: _filling(torch.Tensor.log_normal_, ("mean", "std"), (1.0, 2.0), _fills.log_normal),
    torch.Tensor.cauchy_: _filling(torch.Tensor.cauchy_, ("median", "sigma"), (0.0, 1.0), _fills.cauchy),
    torch.Tensor.exponential_: _filling(torch.Tensor.exponential_, ("lambd",), (1.0,), _fills.exponential),
    torch.Tensor.geometric_: _filling(torch.Tensor.geometric_, ("p",), (None,), _fills.geometric),
    torch.rand: _factory(_standard_uniform, "rand"),
    torch.randn: _factory(_standard_normal, "randn"),
    torch.rand_like: _like(_standard_uniform, "rand_like"),
    torch.randn_like: _like(_standard_normal, "randn_like"),
    torch.randint: _randint,
    torch.randint_like: _randint_like,
    torch.randperm: _randperm,
    torch.normal: _normal,
    torch.bernoulli: _bernoulli,
    torch.Tensor.bernoulli: _bernoulli,
    torch.multinomial: _multinomial,
    torch.Tensor.multinomial: _multinomial,
}


def _spelled(func: Any) -> str:
    name = func.__name__
    return f"tensor.{name}" if getattr(torch.Tensor, name, None) is func else f"torch.{name}"


SUPPORTED = sorted(_spelled(func) for func in _FUNCTIONS)
"""Every call that takes a generator of this package, as it is written."""
