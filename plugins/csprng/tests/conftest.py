"""Settings that all tests of csprng share."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import settings

# How long one example takes says more about what else the machine does.
settings.register_profile("csprng", deadline=None)
settings.load_profile("csprng")


@pytest.fixture(params=["bitsliced", "AES instructions", "AES instructions on 512 bits"])
def engine(request):
    """One implementation of AES after the other, as far as this processor has them."""
    from flambeau.csprng.ops._library import LIBRARY

    if LIBRARY.load() is None:
        pytest.skip("the native library is not built")
    choose = LIBRARY.function("fb_aes_engine", [ctypes.c_int32], ctypes.c_char_p)
    names = ["bitsliced", "AES instructions", "AES instructions on 512 bits"]
    if choose(names.index(request.param)) is None:
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    choose(-1)
