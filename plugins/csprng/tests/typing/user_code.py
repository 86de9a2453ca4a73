"""Typical user code, which must type-check as it stands; it is never run."""

from __future__ import annotations

import torch
from torch import Tensor

import flambeau.csprng as csprng


def noise(shape: tuple[int, ...]) -> Tensor:
    generator = csprng.create_random_device_generator("/dev/urandom")
    key: Tensor = csprng.aes128_key_tensor(csprng.create_mt19937_generator(seed=5))
    return torch.randn(shape, generator=generator) + key.float().mean()


def round_trip(message: Tensor, key: Tensor, iv: Tensor) -> Tensor:
    secret: Tensor = csprng.encrypt(message, torch.empty_like(message), key, "aes128", "ctr", iv=iv)
    on_cuda: bool = csprng.supports_cuda()
    assert on_cuda or csprng.__version__
    return csprng.decrypt(secret, torch.empty_like(message), key, "aes128", "ctr", iv=iv)
