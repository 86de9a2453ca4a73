"""What averages gradients of the parameters that every process has, in one process."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed as dist

from flambeau.rec.distributed._data_parallel import with_own_buffers


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_modules_with_buffers_of_their_own_are_wrapped_without_a_warning_and_learn():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped = with_own_buffers(module, gradient_as_bucket_view=True)
    wrapped(torch.randn(4, 3)).square().sum().backward()
    assert wrapped.module is module
    assert not wrapped.broadcast_buffers
    assert all(param.grad is not None for param in module.parameters())
