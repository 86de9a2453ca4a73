"""The inputs of the cases."""

from __future__ import annotations

import math

import torch

from flambeau.core.testing.fill import tensor


def wav(name, shape, dtype=torch.float32):
    """A smooth test signal: three decaying partials plus a little noise, peak below 1."""
    t = torch.arange(shape[-1], dtype=torch.float64) / 16000.0
    base = (
        0.4 * torch.sin(2 * math.pi * 220 * t)
        + 0.2 * torch.sin(2 * math.pi * 1330 * t + 0.5)
        + 0.1 * torch.sin(2 * math.pi * 3100 * t + 1.0)
    )
    scale = 1.0 + 0.1 * torch.arange(math.prod(shape[:-1]), dtype=torch.float64).reshape(*shape[:-1], 1)
    return (base * scale * 0.6 + 0.1 * tensor(name, shape, torch.float64)).to(dtype)


def cplx(name, shape, dtype=torch.complex64):
    """Complex values with both parts in [-1, 1)."""
    real = torch.float64 if dtype == torch.complex128 else torch.float32
    return torch.complex(tensor(name + ".re", shape, real), tensor(name + ".im", shape, real))


def grad(function, x):
    """The output, and the gradient of its sum weighted with values named "cot", by the input."""
    x = x.detach().clone().requires_grad_()
    out = function(x)
    if out.is_complex():
        out = torch.view_as_real(out)
    (out * tensor("cot", tuple(out.shape), out.dtype)).sum().backward()
    return {"out": out.detach(), "grad": x.grad}
