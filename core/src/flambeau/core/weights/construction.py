"""Building modules without giving their parameters memory or values.

Initialising a large network costs more than reading its checkpoint. Inside `empty_parameters` each parameter turns into
a meta tensor the moment a module registers it, so that initialisers run on nothing. Buffers, and tensors that are plain
attributes, stay real: no checkpoint would bring them back.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

# Where a parameter would have been, noted on its empty stand-in when that is not the CPU.
DEVICE_NOTE = "_flambeau_device"


class Construction(threading.local):
    """What the current thread is building; each thread has its own."""

    def __init__(self) -> None:
        self.empty = False
        # Real parameter -> its stand-in, so that a parameter registered twice stays one. Weak: a parameter that
        # nobody else holds is freed at once.
        self.stand_ins: WeakIdKeyDictionary = WeakIdKeyDictionary()


# What draws random values in place. The functions of `nn.init` are here as well, because the mode below is off while it
# lets a function run.
_DRAWING: frozenset[Any] = frozenset(
    {
        Tensor.bernoulli_,
        Tensor.cauchy_,
        Tensor.exponential_,
        Tensor.geometric_,
        Tensor.log_normal_,
        Tensor.normal_,
        Tensor.random_,
        Tensor.uniform_,
        nn.init.kaiming_uniform_,
        nn.init.normal_,
        nn.init.uniform_,
    }
)

_construction = Construction()
_hook_lock = threading.Lock()
_hooked = False


class WithoutDraws(TorchFunctionMode):
    """In this thread, filling a meta tensor with random values does nothing.

    It would change nothing anyway, but torch answers these calls in Python for meta tensors, and imports its compiler
    for that: 1.5 s and 80 MiB when measured, more than the rest of the work together.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Skip `func` if it draws values for a meta tensor."""
        kwargs = kwargs or {}
        if func in _DRAWING:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **kwargs)


def _stand_in(module: nn.Module, name: str, parameter: nn.Parameter) -> nn.Parameter | None:
    """Replace a parameter on registration; None leaves it as it is."""
    # Only plain parameters: what a subclass means (lazy, quantized, sharded) is lost on meta.
    if not _construction.empty or type(parameter) is not nn.Parameter or parameter.is_meta:
        return None
    if parameter in _construction.stand_ins:
        return _construction.stand_ins[parameter]  # type: ignore[no-any-return]
    empty = nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=parameter.requires_grad)
    empty.__dict__.update(parameter.__dict__)
    if parameter.device.type != "cpu":
        setattr(empty, DEVICE_NOTE, parameter.device)
    _construction.stand_ins[parameter] = empty
    return empty


def _install_hook() -> None:
    # Once, and for good: torch iterates over its hooks without a lock, so adding and removing them while another thread
    # builds a module would fail there. Outside `empty_parameters` the hook is one attribute look-up.
    global _hooked
    with _hook_lock:
        if not _hooked:
            register_module_parameter_registration_hook(_stand_in)  # type: ignore[arg-type]  # its result is used
            _hooked = True


@contextmanager
def empty_parameters() -> Iterator[None]:
    """Let modules that this thread builds have parameters on the meta device, without memory and values.

    Shapes, dtypes, strides, `requires_grad`, attributes and ties of parameters are as they would have been; buffers and
    plain tensors are real. Load values with `load_into`. Other threads are not affected, and an exception leaves
    nothing behind. `torch.device("meta")` differs: it takes the values of buffers too, and fails wherever a constructor
    reads a tensor.

    Example:
        >>> with empty_parameters():
        ...     layer = nn.Linear(4096, 4096)
        >>> layer.weight.device
        device(type='meta')
    """
    _install_hook()
    before = _construction.empty
    _construction.empty = True
    try:
        with WithoutDraws():
            yield
    finally:
        _construction.empty = before
        if not before:
            _construction.stand_ins = WeakIdKeyDictionary()


@contextmanager
def meta_device() -> Iterator[None]:
    """Build everything on the meta device, buffers and plain tensors too: for constructors that compute with them."""
    with torch.device("meta"), WithoutDraws():
        yield


@contextmanager
def real_parameters() -> Iterator[None]:
    """Suspend `empty_parameters` in this thread: parameters registered here are the ones that count."""
    before = _construction.empty
    _construction.empty = False
    try:
        yield
    finally:
        _construction.empty = before


def real_like(stand_in: nn.Parameter) -> nn.Parameter:
    """A parameter in place of an empty one, where it would have been, without values."""
    place = getattr(stand_in, DEVICE_NOTE, "cpu")
    real = nn.Parameter(torch.empty_like(stand_in, device=place), requires_grad=stand_in.requires_grad)
    real.__dict__.update(notes(stand_in))
    return real


def notes(stand_in: nn.Parameter) -> dict[str, Any]:
    """The attributes that a constructor gave to a parameter."""
    return {name: value for name, value in stand_in.__dict__.items() if name != DEVICE_NOTE}


def kept_outside() -> bool:
    """Whether anything still refers to a parameter that was replaced: it would never see the loaded values."""
    if not _construction.stand_ins:
        return False
    gc.collect()  # a reference cycle may be all that holds it
    return len(_construction.stand_ins) > 0
