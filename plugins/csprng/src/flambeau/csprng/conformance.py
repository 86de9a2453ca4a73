"""What the conformance kit needs to know to check this plugin; see `flambeau.core.testing`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from flambeau.core.testing import Sample
from flambeau.csprng.ops import crypt as crypt_module
from flambeau.csprng.ops import random_numbers

_KEY = torch.arange(16, dtype=torch.uint8)
_NUMBERS = {"dtypes": ("uint8",), "rejects": ("float32", "int64")}


def op_samples() -> Iterator[Sample]:
    """Samples of the operators; those that write into a tensor are given a copy of it, which is the result."""
    message = torch.arange(48, dtype=torch.uint8)
    for name, method in (("", crypt_module.ECB_ENCRYPT), (" in CTR", crypt_module.CTR_DECRYPT)):
        yield Sample(
            f"crypt{name}",
            _crypt,
            (message, torch.zeros(48, dtype=torch.uint8), _KEY, 16, method, None),
            reference=_crypt_plainly,
            dtypes=("uint8", "int8"),
            empty=(message[:0], message[:0], _KEY, 16, method, None),
            operator="flambeau_csprng::crypt",
        )
    yield Sample(
        "random_words",
        random_numbers.random_words,
        (_KEY, 3, 9),
        reference=random_numbers._random_words,
        empty=(_KEY, 3, 0),
        operator="flambeau_csprng::random_words",
        **_NUMBERS,  # type: ignore[arg-type]
    )
    filled = torch.zeros(3, 5, dtype=torch.uint8)
    yield Sample(
        "fill_integers",
        _integers,
        (filled, _KEY, 4, 6, 1, True),
        reference=_integers_plainly,
        dtypes=("uint8",),
        rejects=("float16",),
        empty=(filled[:0], _KEY, 4, 6, 1, True),
        operator="flambeau_csprng::fill_integers",
    )
    yield Sample(
        "fill_uniform",
        _uniform,
        (filled.double(), _KEY, -1.0, 2.0, 1.0),
        reference=_uniform_plainly,
        rejects=("float16",),
        empty=(filled[:0].double(), _KEY, -1.0, 2.0, 1.0),
        operator="flambeau_csprng::fill_uniform",
    )
    yield Sample(
        "fill_normal",
        _normal,
        (filled.double(), _KEY, 1.0, 2.0),
        reference=_normal_plainly,
        rejects=("float16",),
        empty=(filled[:0].double(), _KEY, 1.0, 2.0),
        operator="flambeau_csprng::fill_normal",
    )


def _crypt(input: Tensor, output: Tensor, key: Tensor, key_bytes: int, method: int, iv: Tensor | None) -> Tensor:
    output = output.clone(memory_format=torch.contiguous_format)
    torch.ops.flambeau_csprng.crypt(input, output, key, key_bytes, method, iv)
    return output


def _crypt_plainly(
    input: Tensor, output: Tensor, key: Tensor, key_bytes: int, method: int, iv: Tensor | None
) -> Tensor:
    output = output.clone()
    crypt_module._reference(input, output, key, key_bytes, method, iv)
    return output


def _integers(output: Tensor, key: Tensor, word_bytes: int, range: int, base: int, unbiased: bool) -> Tensor:
    output = output.clone(memory_format=torch.contiguous_format)
    torch.ops.flambeau_csprng.fill_integers(output, key, word_bytes, range, base, unbiased)
    return output


def _integers_plainly(output: Tensor, key: Tensor, word_bytes: int, range: int, base: int, unbiased: bool) -> Tensor:
    output = output.clone()
    random_numbers._integers(output, key, word_bytes, range, base, unbiased)
    return output


def _uniform(output: Tensor, key: Tensor, low: float, width: float, limit: float) -> Tensor:
    output = output.clone(memory_format=torch.contiguous_format)
    torch.ops.flambeau_csprng.fill_uniform(output, key, low, width, limit)
    return output


def _uniform_plainly(output: Tensor, key: Tensor, low: float, width: float, limit: float) -> Tensor:
    output = output.clone()
    random_numbers._uniform(output, key, low, width, limit)
    return output


def _normal(output: Tensor, key: Tensor, mean: float, deviation: float) -> Tensor:
    output = output.clone(memory_format=torch.contiguous_format)
    torch.ops.flambeau_csprng.fill_normal(output, key, mean, deviation)
    return output


def _normal_plainly(output: Tensor, key: Tensor, mean: float, deviation: float) -> Tensor:
    output = output.clone()
    random_numbers._normal(output, key, mean, deviation)
    return output
