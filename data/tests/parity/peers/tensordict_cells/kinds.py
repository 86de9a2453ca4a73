"""The kinds of tensor collections that every program meets, each with the same content where it can hold it.

`td` has leaves of several types, nested where the kind can; `x` and `y` hold floating-point numbers alone, `x` within
(0, 1), `y` within (1, 2). Batch size (3, 2).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

BATCH = (3, 2)
CLASSES = ("peer_classes_of_ours", "peer_classes_of_theirs")
"""Modules that hold the classes defined on top of each library, so that pickles and saved folders find them."""

_SOURCE = """
from __future__ import annotations
from dataclasses import dataclass, field
from typing import Any, Optional, Union
import torch
from torch import Tensor, nn


@library.tensorclass
class Point:
    a: Tensor
    b: Tensor
    n: library.TensorDict
    m: Optional[Tensor] = None

    def total(self):
        return self.a.sum()

    @property
    def double(self):
        return self.a * 2

    @classmethod
    def origin(cls):
        return cls(a=torch.zeros(2), b=torch.zeros(2), n=library.TensorDict(), batch_size=[2])


class Typed(library.typedtensordict.TypedTensorDict):
    a: Tensor
    b: Tensor
    n: Any


class Sub(library.TensorDict):
    pass


@library.tensorclass
class Tagged:
    a: Tensor
    label: str
    extra: Any = None
"""


def classes(library: Any) -> types.ModuleType:
    """The module of classes on top of a library."""
    name = CLASSES[0] if library.ours else CLASSES[1]
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.library = library  # type: ignore[attr-defined]
        sys.modules[name] = module
        try:
            exec(compile(_SOURCE, name, "exec", dont_inherit=True), vars(module))
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def leaf(*shape: int, offset: float = 0.0) -> torch.Tensor:
    """Different numbers within (0, 1), not sorted, plus an offset."""
    size = torch.Size(shape).numel()
    return ((torch.arange(size) * 7919 % (size + 1)).float() + 0.5).div(size + 2).add(offset).reshape(shape)


def mixed(library: Any) -> dict[str, Any]:
    """Leaves of several types, nested."""
    return {
        "a": leaf(*BATCH, 4),
        "b": torch.arange(6).reshape(BATCH),
        "n": {"c": leaf(*BATCH, offset=1.0), "m": {"d": torch.arange(30).reshape(*BATCH, 5) % 3 == 0}},
    }


def floats(library: Any, offset: float = 0.0) -> dict[str, Any]:
    """Leaves of floating-point numbers, nested."""
    return {
        "a": leaf(*BATCH, 4, offset=offset),
        "b": leaf(*BATCH, offset=offset),
        "n": {"c": leaf(*BATCH, 1, offset=offset)},
    }


def _plain(library: Any, content: dict[str, Any], **options: Any) -> Any:
    return library.TensorDict(content, batch_size=BATCH, **options)


def _flat(library: Any, content: dict[str, Any]) -> Any:
    return _plain(library, {key: value for key, value in content.items() if not isinstance(value, dict)})


def _lazy(library: Any, content: dict[str, Any], dim: int = 0) -> Any:
    return library.lazy_stack(list(_plain(library, content).unbind(dim)), dim)


def _ragged(library: Any, content: dict[str, Any]) -> Any:
    parts = []
    for at, part in enumerate(_plain(library, content).unbind(0)):
        part = part.clone()
        part["a"] = part["a"][..., : at + 1].clone()
        parts.append(part)
    return library.lazy_stack(parts)


def _uneven(library: Any, content: dict[str, Any]) -> Any:
    parts = [part.clone() for part in _plain(library, content).unbind(0)]
    parts[1]["only"] = leaf(2)
    return library.lazy_stack(parts)


def _sub(library: Any, content: dict[str, Any]) -> Any:
    whole = _plain(library, content)
    return torch.cat([whole, whole[:1]])._get_sub_tensordict(slice(0, 3))


def _sub_by_list(library: Any, content: dict[str, Any]) -> Any:
    whole = _plain(library, content)
    return torch.cat([whole[:1], whole])._get_sub_tensordict(torch.tensor([1, 2, 3]))


def _h5(library: Any, content: dict[str, Any]) -> Any:
    pathless = f"{len(list(library.folder.iterdir()))}.h5"
    return library.PersistentTensorDict.from_dict(_plain(library, content), library.folder / pathless)


def _memmap(library: Any, content: dict[str, Any]) -> Any:
    return _plain(library, content).memmap_()


def _consolidated(library: Any, content: dict[str, Any]) -> Any:
    return _plain(library, content).consolidate()


def _locked(library: Any, content: dict[str, Any]) -> Any:
    return _plain(library, content).lock_()


def _named(library: Any, content: dict[str, Any]) -> Any:
    return _plain(library, content, names=["time", "batch"])


def _device(library: Any, content: dict[str, Any]) -> Any:
    return _plain(library, content, device="cpu")


def _params(library: Any, content: dict[str, Any]) -> Any:
    return library.TensorDictParams(_plain(library, content))


def _tensorclass(library: Any, content: dict[str, Any]) -> Any:
    content = {**content, "n": _plain(library, content["n"])}
    return classes(library).Point(**content, batch_size=BATCH)


def _typed(library: Any, content: dict[str, Any]) -> Any:
    content = {**content, "n": _plain(library, content["n"])}
    return classes(library).Typed(**content, batch_size=BATCH)


def _subclass(library: Any, content: dict[str, Any]) -> Any:
    return classes(library).Sub(content, batch_size=BATCH)


def _non_tensor(library: Any, content: dict[str, Any]) -> Any:
    td = _plain(library, content)
    td["s"] = "text"
    td["n", "t"] = 1.5j
    td["u"] = library.NonTensorStack(*(library.NonTensorStack("a", str(at)) for at in range(3)))
    return td


def _scalar(library: Any, content: dict[str, Any]) -> Any:
    return library.TensorDict(content, batch_size=[])


def _requires_grad(library: Any, content: dict[str, Any]) -> Any:
    return _plain(library, content).apply(lambda t: t.requires_grad_() if t.is_floating_point() else t)


_MAKERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "nested": _plain,
    "flat": _flat,
    "lazy": _lazy,
    "lazy-dim-1": lambda library, content: _lazy(library, content, 1),
    "lazy-ragged": _ragged,
    "lazy-uneven-keys": _uneven,
    "sub": _sub,
    "sub-by-list": _sub_by_list,
    "h5": _h5,
    "memmap": _memmap,
    "consolidated": _consolidated,
    "locked": _locked,
    "named": _named,
    "device": _device,
    "params": _params,
    "tensorclass": _tensorclass,
    "typed": _typed,
    "subclass": _subclass,
    "non-tensor": _non_tensor,
    "scalar": _scalar,
    "requires-grad": _requires_grad,
}


def _inputs(make: Callable[[Any, dict[str, Any]], Any]) -> dict[str, Callable[[Any], Any]]:
    return {
        "td": lambda library: make(library, mixed(library)),
        "x": lambda library: make(library, floats(library)),
        "y": lambda library: make(library, floats(library, 1.0)),
    }


KINDS: Mapping[str, Mapping[str, Any]] = {name: _inputs(make) for name, make in _MAKERS.items()}


def kinds(*names: str) -> dict[str, Any]:
    """Some of the kinds."""
    return {name: KINDS[name] for name in names}
