"""Functions that programs use where a line of text is too short: classes to define, modules to build."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from tensordict_cells.kinds import classes, leaf


@dataclasses.dataclass
class point:  # lower case: it is used like a function
    """A plain dataclass."""

    left: Any
    right: Any


def within(manager: AbstractContextManager[Any], act: Callable[[Any], Any]) -> Any:
    """What a function of the entered object returns; the object is left afterwards."""
    with manager as entered:
        return act(entered)


def by_key(td: Any) -> Any:
    """A collection with its entries in the order of their keys, for results that a library puts together by chance."""
    entries = sorted(td.items(True, True), key=lambda entry: str(entry[0]))
    return [type(td), td.batch_size, td.names, td.is_locked, entries]


def opened(library: Any) -> dict[str, Any]:
    """Arguments with which a library reads pickled values from folders."""
    return {} if library.ours else {"allow_pickle": True}


_HEAD = """
from dataclasses import field
from typing import Any, Optional, Union
from typing import NotRequired
import torch
from torch import Tensor
"""


def _defined(library: Any, source: str) -> Any:
    """The class `Made` that a source defines, with the library's names."""
    scope: dict[str, Any] = {"library": library, "__name__": classes(library).__name__}
    exec(_HEAD + source, scope)
    return scope["Made"]


def _body(fields: str) -> str:
    return "".join(f"    {field.strip()}\n" for field in fields.split(";"))


def define(library: Any, fields: str, **options: bool) -> Any:
    """A tensorclass made by the decorator."""
    words = ", ".join(f"{name}={value}" for name, value in options.items())
    decorator = f"library.tensorclass({words})" if words else "library.tensorclass"
    return _defined(library, f"@{decorator}\nclass Made:\n{_body(fields)}")


def derive(library: Any, fields: str, *options: str) -> Any:
    """A tensorclass made by inheritance."""
    base = f"library.TensorClass[{', '.join(map(repr, options))}]" if options else "library.TensorClass"
    return _defined(library, f"class Made({base}):\n{_body(fields)}")


def derive_typed(library: Any, fields: str, *options: str) -> Any:
    """A typed tensordict."""
    base = "library.typedtensordict.TypedTensorDict"
    base += f"[{', '.join(map(repr, options))}]" if options else ""
    return _defined(library, f"class Made({base}):\n{_body(fields)}")


def inherit(library: Any) -> Any:
    """A tensorclass that inherits from another one."""
    base = "class Base(library.TensorClass):\n    a: Any\n    def hello(self):\n        return self.a + 1\n"
    return _defined(library, f"{base}class Made(Base):\n    b: Any\n")


def post(library: Any) -> Any:
    """A tensorclass with `__post_init__`."""
    body = "    a: Any\n    b: Any = None\n    def __post_init__(self):\n        self.b = self.a + 1\n"
    return _defined(library, f"@library.tensorclass\nclass Made:\n{body}")


def tagged(library: Any) -> Any:
    """An instance of a tensorclass with a text."""
    return classes(library).Tagged(a=leaf(2, 3), label="text", batch_size=[2])


def typed(library: Any) -> Any:
    """An instance of a typed tensordict."""
    return classes(library).Typed(a=leaf(2), b=leaf(2), n=leaf(2, 1), batch_size=[2])


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A layer with fixed weights."""
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(leaf(outputs, inputs))
        layer.bias.copy_(leaf(outputs))
    return layer


def lay(library: Any) -> Callable[[str, str], Any]:
    """A function that makes a module from one key to another, of four features."""
    return lambda key, out: library.nn.TensorDictModule(linear(4, 4), [key], [out])


def actor(library: Any) -> Callable[..., Any]:
    """A function that makes a probabilistic sequence from "a" to "o"."""

    def make(**options: Any) -> Any:
        split = nn.Sequential(linear(4, 4), library.nn.NormalParamExtractor())
        first = library.nn.TensorDictModule(split, ["a"], ["loc", "scale"])
        kind = torch.distributions.Normal
        last = library.nn.ProbabilisticTensorDictModule(["loc", "scale"], ["o"], distribution_class=kind, **options)
        return library.nn.ProbabilisticTensorDictSequential(first, last)

    return make


def decorated(library: Any) -> Callable[[Any], Any]:
    """A function that makes a module whose `forward` is decorated."""

    def make(decorator: Any) -> Any:
        class Decorated(nn.Module):
            in_keys = ["a", "b"]
            out_keys = ["o"]

            @decorator
            def forward(self, tensordict: Any) -> Any:
                return tensordict.set("o", tensordict.get("a") + tensordict.get("b"))

        return Decorated()

    return make


def composite(library: Any) -> Callable[[], Any]:
    """A function that makes parameters of two distributions."""

    def make() -> Any:
        content = {"c": {"loc": leaf(3), "scale": leaf(3)}, "n": {"d": {"logits": leaf(3, 4)}}}
        return library.TensorDict(content, batch_size=[3])

    return make


MODULE_INPUTS = {
    "td": lambda library: library.TensorDict({"a": leaf(3, 4), "b": leaf(3, 4), "n": {"c": leaf(3, 4)}}, [3]),
    "par": lambda library: library.TensorDict({"loc": leaf(3, 2), "scale": leaf(3, 2)}, [3]),
    "mod": lambda library: library.nn,
    "nn_distributions": lambda library: library.nn.distributions,
    "lay": lay,
    "actor": actor,
    "decorated": decorated,
    "composite": composite,
}


def compiled(function: Callable[..., Any], *inputs: Any) -> Any:
    """What the second call of a function gives that was compiled in one graph."""
    torch._dynamo.reset()
    fast = torch.compile(function, backend="eager", fullgraph=True)
    fast(*inputs)
    return fast(*inputs)


LENT: dict[str, Any] = {
    "by_key": by_key,
    "compiled": compiled,
    "define": define,
    "derive": derive,
    "derive_typed": derive_typed,
    "inherit": inherit,
    "linear": linear,
    "opened": opened,
    "point": point,
    "post": post,
    "tagged": tagged,
    "typed": typed,
    "within": within,
}
