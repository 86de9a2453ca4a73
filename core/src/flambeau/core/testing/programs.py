"""Small programs of golden files: run them against our library and compare what they leave with the stored results.

A program uses the public names under upstream's module paths (`from tensordict import TensorDict`); before it runs, the
imports are rewritten to ours. It leaves its answer in `result`; `describe` turns it into plain data.

In a program these names exist: torch, math, os, json, tmp (an empty folder), of `flambeau.core.testing.fill`
T(name, *shape), I(name, *shape, high=n) and fill_ (fills a module by names of parameters), and grads(module). Random
draws are replaced while it runs: standard normal draws are fill values named "normal", uniform draws on [0, 1) are half
of the fill values named "uniform", plus one half.
"""

from __future__ import annotations

import contextlib
import enum
import json
import math
import os
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.distributions import normal

from flambeau.core.testing import fill

Describer = Callable[[Any, Callable[[Any], Any]], Any]
"""Takes an object of a domain apart: the object and `describe` -> plain data, or None where it is none of its kind."""

_DEEPEST = 12


def run_case(code: str, prelude: str, roots: Mapping[str, str], describers: Sequence[Describer] = ()) -> Any:
    """The description of what a program leaves in `result`, or of the exception that it raises.

    Args:
        code: the program.
        prelude: runs before it, in the same names.
        roots: name of an upstream package -> name of ours.
        describers: asked first how to describe a value.

    Returns:
        Plain data, as `json.dumps` takes it.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), fixed_draws():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        # A module of that name, so that classes which a program defines can be pickled.
        module = sys.modules["recorded_program"] = types.ModuleType("recorded_program")
        names = module.__dict__
        names |= {"torch": torch, "math": math, "os": os, "json": json, "tmp": folder}
        names |= {"fill_": fill.fill_, "grads": grads, "T": _tensor, "I": _integers}
        try:
            exec(compile(rewritten(prelude, roots), "<prelude>", "exec"), names)
            exec(compile(rewritten(code, roots), "<program>", "exec"), names)
            return describe(names["result"], describers)
        except Exception as error:
            return describe(error, describers)


def rewritten(code: str, roots: Mapping[str, str]) -> str:
    """The code with imports of upstream's packages turned to ours."""
    for name, root in roots.items():
        code = re.sub(rf"^(\s*(?:from|import)\s+){name}(?=[\s.])", rf"\g<1>{root}", code, flags=re.MULTILINE)
    return code


def grads(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The gradients that a module's parameters have."""
    return {name: each.grad for name, each in module.named_parameters() if each.grad is not None}


def _tensor(name: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return fill.tensor(name, shape, dtype)


def _integers(name: str, *shape: int, high: int = 2) -> torch.Tensor:
    return fill.integers(name, shape, high)


@contextlib.contextmanager
def fixed_draws() -> Iterator[None]:
    """Replace torch's random draws by fixed values."""

    def shape_of(size: Any) -> tuple[int, ...]:
        if len(size) == 1 and isinstance(size[0], (tuple, list, torch.Size)):
            size = size[0]
        return tuple(int(extent) for extent in size)

    def unit(size: Any) -> torch.Tensor:
        return (fill.tensor("uniform", shape_of(size)) + 1) / 2

    def randn(*size: Any, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
        size = options.pop("size", size)
        return fill.tensor("normal", shape_of(size)).to(dtype or torch.get_default_dtype())

    def rand(*size: Any, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
        size = options.pop("size", size)
        return unit(size).to(dtype or torch.get_default_dtype())

    def normal_values(mean: Any, std: Any, *_: Any, **__: Any) -> torch.Tensor:
        draws: torch.Tensor = mean + std * randn(*torch.broadcast_shapes(mean.shape, getattr(std, "shape", ())))
        return draws

    replaced = {
        (torch, "randn"): randn,
        (torch, "rand"): rand,
        (torch, "randn_like"): lambda x, **_: randn(*x.shape, dtype=x.dtype),
        (torch, "rand_like"): lambda x, **_: rand(*x.shape, dtype=x.dtype),
        (torch, "normal"): normal_values,
        (torch.Tensor, "uniform_"): lambda self, a=0.0, b=1.0, **_: self.copy_(a + (b - a) * unit(self.shape)),
        (torch.Tensor, "normal_"): lambda self, mean=0.0, std=1.0, **_: self.copy_(mean + std * randn(*self.shape)),
        (normal, "_standard_normal"): lambda shape, dtype, device: fill.tensor("normal", tuple(shape)).to(dtype),
    }
    before = {(owner, name): getattr(owner, name) for owner, name in replaced}
    for (owner, name), value in replaced.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)
        # What was compiled meanwhile made the compiler learn the replaced functions as torch's own.
        if (rules := sys.modules.get("torch._dynamo.trace_rules")) is not None:
            rules.clear_lru_cache()


def describe(value: Any, describers: Sequence[Describer] = (), depth: int = 0) -> Any:
    """Plain data for a result: tensors by their digests, collections with their order."""
    if depth > _DEEPEST:
        return "..."

    def inner(part: Any) -> Any:
        return describe(part, describers, depth + 1)

    for describer in describers:
        if (about_it := describer(value, inner)) is not None:
            return about_it
    if value is None or isinstance(value, (bool, str, int, float)):
        finite = not isinstance(value, float) or math.isfinite(value)
        return value if finite else str(value)
    for types_, about in _SIMPLE:
        if isinstance(value, types_):
            return about(value)
    kind = type(value).__name__
    if kind in ("NonTensorData", "NonTensorStack", "MetaData"):
        data = value.tolist() if kind == "NonTensorStack" else value.data
        return {"type": kind, "batch_size": list(value.batch_size), "data": inner(data)}
    if isinstance(value, torch.Tensor):
        return _described_tensor(value, inner)
    if hasattr(value, "batch_size") and hasattr(value, "keys"):
        return _described_tensordict(value, inner)
    if isinstance(value, dict):
        return {"dict": {str(key): inner(each) for key, each in value.items()}}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(str(each) for each in value)}
    if not isinstance(value, (list, tuple)) and hasattr(value, "tolist"):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    try:
        return [inner(each) for each in iter(value)]
    except TypeError:
        return {"object": kind}


_SIMPLE: tuple[tuple[Any, Any], ...] = (
    (BaseException, lambda value: {"raises": type(value).__name__}),
    (torch.Size, lambda value: {"size": list(value)}),
    ((torch.dtype, torch.device), str),
    (enum.Enum, lambda value: {"enum": f"{type(value).__name__}.{value.name}"}),
    (type, lambda value: {"class": value.__name__}),
)


def _described_tensor(value: torch.Tensor, inner: Callable[[Any], Any]) -> Any:
    if value.is_nested:
        return {"nested": [inner(each) for each in value.unbind(0)]}
    if value.numel() <= 24 and not value.is_complex():
        about = {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        return {"tensor": about | {"all": inner(value.detach().tolist())}}
    return {"tensor": fill.digest(value)}


def _described_tensordict(value: Any, inner: Callable[[Any], Any]) -> Any:
    items = {}
    for key in value.keys():  # noqa: SIM118  # a tensordict is iterated over its first dimension
        try:
            items[str(key)] = inner(value.get(key))
        except Exception as error:
            items[str(key)] = inner(error)
    about = {"type": type(value).__name__, "batch_size": list(value.batch_size), "keys": list(items), "items": items}
    with contextlib.suppress(Exception):  # not all that have keys have names of dimensions
        if any(name is not None for name in value.names):
            about["names"] = list(value.names)
    if value.device is not None:
        about["device"] = str(value.device)
    return about


def differs(got: Any, want: Any, where: str = "result", rtol: float = 1e-4, atol: float = 1e-5) -> str | None:
    """None where two descriptions agree, else one line that says where not."""
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(want, dict) and isinstance(got, dict):
        if set(got) != set(want):
            return f"{where}: fields {sorted(got)}, expected {sorted(want)}"
        if "at" in want and "values" in want:
            return _digests_differ(got, want, where, rtol, atol)
        parts = [(got[key], want[key], f"{where}.{key}") for key in want]
    elif isinstance(want, list) and isinstance(got, list):
        if len(got) != len(want):
            return f"{where}: {len(got)} items, expected {len(want)}"
        parts = [(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(got, want, strict=True))]
    elif isinstance(want, float) or isinstance(got, float):
        numbers = isinstance(got, (int, float)) and isinstance(want, (int, float))
        if not numbers or abs(got - want) > atol + rtol * abs(want):
            return f"{where}: {got!r}, expected {want!r}"
    elif got != want:
        return f"{where}: {got!r}, expected {want!r}"
    return next((fault for part in parts if (fault := differs(*part, rtol, atol)) is not None), None)


def _digests_differ(got: Any, want: Any, where: str, rtol: float, atol: float) -> str | None:
    for key in ("shape", "dtype", "at"):
        if got[key] != want[key]:
            return f"{where}.{key}: {got[key]}, expected {want[key]}"
    scale = abs(want["mean"]) + want["std"]
    pairs = [*zip(got["values"], want["values"], strict=True), (got["mean"], want["mean"]), (got["std"], want["std"])]
    for a, b in pairs:
        same = a == b or (math.isnan(a) and math.isnan(b))
        if not same and not abs(a - b) <= atol + rtol * max(abs(b), scale):
            return f"{where}: {a!r}, expected {b!r}"
    return None
