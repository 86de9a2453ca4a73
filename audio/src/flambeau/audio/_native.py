"""The library of audio's native kernels, `torch.ops.flambeau_audio`."""

from __future__ import annotations

import functools

from flambeau.core.native import KernelLibrary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIBRARY = KernelLibrary("flambeau.audio", "_kernels", namespace="flambeau_audio")


@functools.cache
def kernel(name: str, arguments: str, result: str = "") -> Callable[..., Any]:
    """A C function of the library, typed by letters.

    Args:
        name: of the symbol, for example "fb_lfilter_f32".
        arguments: one letter each: p pointer, n int64, d double, b bool, t int32.
        result: one such letter, empty for void.
    """
    import ctypes

    kinds = {
        "p": ctypes.c_void_p,
        "n": ctypes.c_int64,
        "d": ctypes.c_double,
        "b": ctypes.c_bool,
        "t": ctypes.c_int32,
        "": None,
    }
    return LIBRARY.function(name, [kinds[letter] for letter in arguments], kinds[result])
