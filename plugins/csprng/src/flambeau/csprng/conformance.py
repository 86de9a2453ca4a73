"""What the conformance kit needs to know to check this plugin; see `flambeau.core.testing`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from flambeau.core.testing import Sample
from flambeau.csprng.ops import crypt as crypt_module
from flambeau.csprng.ops import random_numbers

_KEY = torch.arange(16, dtype=torch.uint8)


def op_samples() -> Iterator[Sample]:
    """Samples of the operators; those that write into a tensor get a new one at each call."""
    every = ("uint8", "int16", "int32", "int64", "float16", "float32", "float64")
    for name, mode in (("ecb", crypt_module.ECB_ENCRYPT), ("ctr", crypt_module.CTR_ENCRYPT)):
        yield Sample(
            f"crypt {name}",
            lambda message, mode=mode: _encrypted(torch.ops.flambeau_csprng.crypt.default, message, mode),
            (torch.arange(48, dtype=torch.uint8),),
            reference=lambda message, mode=mode: _encrypted(crypt_module._reference, message, mode),
            dtypes=every,
            empty=(torch.empty(0, dtype=torch.uint8),),
        )
    yield Sample(
        "random_words",
        random_numbers.random_words,
        (_KEY, 3, 9),
        reference=random_numbers._random_words,
        dtypes=("uint8",),
        rejects=("float32", "int64"),
        operator="flambeau_csprng::random_words",
    )
    yield Sample(
        "fill_integers",
        lambda key: _filled(torch.ops.flambeau_csprng.fill_integers.default, key, 4, 6, 1, True),
        (_KEY,),
        reference=lambda key: _filled(random_numbers._integers, key, 4, 6, 1, True),
        dtypes=("uint8",),
        rejects=("float32", "int64"),
    )
    yield Sample(
        "fill_uniform",
        lambda key: _filled(torch.ops.flambeau_csprng.fill_uniform.default, key, -1.0, 2.0, 1.0),
        (_KEY,),
        reference=lambda key: _filled(random_numbers._uniform, key, -1.0, 2.0, 1.0),
        dtypes=("uint8",),
        rejects=("float32", "int64"),
    )


def _encrypted(operator: object, message: Tensor, mode: int) -> Tensor:
    size = -(-message.numel() * message.element_size() // 16) * 16
    output = torch.empty(size, dtype=torch.uint8)
    operator(message, output, _KEY, 16, mode, None)  # type: ignore[operator]
    return output


def _filled(operator: object, key: Tensor, *arguments: object) -> Tensor:
    output = torch.empty(3, 5)
    operator(output, key, *arguments)  # type: ignore[operator]
    return output
