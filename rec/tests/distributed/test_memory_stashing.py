"""Weights and states wait on the host while they are not needed, and come back as they were."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from flambeau.rec.distributed.memory_stashing import MemoryStashingManager, chunked_copy_


@pytest.fixture(autouse=True)
def manager():
    yield MemoryStashingManager
    MemoryStashingManager.reset()


def lookup(*stashed):
    """Kernels as a sharded collection has them."""
    kernels = []
    for number, stash in enumerate(stashed):
        config = SimpleNamespace(embedding_tables=[SimpleNamespace(stash_weights=stash)])
        module = nn.Linear(4, 3 + number, bias=False)
        kernels.append(SimpleNamespace(config=config, emb_module=module))
    return SimpleNamespace(_emb_modules=kernels)


def held(module):
    return module.weight.untyped_storage().size()


def test_weights_of_tables_that_say_so_are_away_and_come_back(manager):
    given = lookup(True, False)
    first, second = (kernel.emb_module for kernel in given._emb_modules)
    before = first.weight.detach().clone()
    free, restore, wait = manager.stash_embedding_weights(given)
    assert held(first), "freed before it was asked for"
    free(None)
    assert not held(first) and held(second)
    assert torch.equal(manager.staged_cpu_view_for(first.weight), before)
    assert manager.staged_cpu_view_for(second.weight) is None
    restore(None)
    wait(None)
    assert torch.equal(first.weight, before)
    assert manager.staged_cpu_view_for(first.weight) is None


def test_there_is_nothing_to_do_without_such_tables(manager):
    assert manager.stash_embedding_weights(lookup(False)) is None
    assert manager.stash_emo_cache(lookup(True), None) is None


def test_hooks_of_a_backward_pass_bring_weights_back_in_time(manager):
    given = lookup(True)
    module = given._emb_modules[0].emb_module
    value = torch.ones(2, 4, requires_grad=True)
    middle = module(value)
    wanted = middle.detach().sum() * 0 + module.weight.detach().sum(0)
    output = middle.tanh() * 0 + middle
    free, restore, wait = manager.stash_embedding_weights(given)
    free(None)
    output.register_hook(restore)
    middle.register_hook(wait)
    output.sum().backward()
    assert torch.equal(value.grad[0], wanted)


@pytest.mark.parametrize("threaded", [False, True])
def test_what_an_optimizer_keeps_is_away_and_trains_on_afterwards(manager, threaded):
    modules = [nn.Linear(3, 2) for _ in range(2)]
    modules[1].load_state_dict(modules[0].state_dict())
    optimizers = [torch.optim.Adam(module.parameters()) for module in modules]
    for step in range(4):
        for number, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            optimizer.zero_grad()
            module(torch.full((1, 3), step + 1.0)).sum().backward()
            optimizer.step()
            if number or not step % 2:
                continue
            if threaded:
                manager.stash_optimizer_state_threaded(optimizer).result()
            else:
                manager.stash_optimizer_state(optimizer)
            kept = optimizer.state[module.weight]["exp_avg"]
            assert not kept.untyped_storage().size()
            if threaded:
                manager.restore_optimizer_state_threaded().result()
            else:
                manager.restore_optimizer_state()
    assert all(torch.equal(*pair) for pair in zip(*(module.parameters() for module in modules), strict=True))


def test_what_is_put_off_is_done_when_asked_for(manager):
    given = lookup(True)
    module = given._emb_modules[0].emb_module
    manager.set_delay_stash(True)
    free, _, wait = manager.stash_embedding_weights(given)
    free(None)
    assert held(module)
    manager.execute_pending_stashes()
    free(None)
    assert not held(module)
    wait(None)
    assert held(module)


def test_reset_brings_everything_back(manager):
    given = lookup(True)
    module = given._emb_modules[0].emb_module
    before = module.weight.detach().clone()
    manager.stash_embedding_weights(given)[0](None)
    manager.reset()
    assert torch.equal(module.weight, before)


@pytest.mark.parametrize("chunk", [0, 1, 8, 10**9])
def test_copies_in_parts_are_whole(chunk):
    source, target = torch.arange(30.0).view(5, 6), torch.zeros(30)
    chunked_copy_(target, source, chunk)
    assert torch.equal(target, source.view(-1))
    with pytest.raises(ValueError, match="expected the same"):
        chunked_copy_(torch.zeros(3), source)


def test_streams_are_asked_for_before_they_are_used(manager):
    assert not manager.is_enabled()
    with pytest.raises(AssertionError, match="call set_streams"):
        manager.h2d_stream()
    with pytest.raises(AssertionError, match="call set_streams"):
        manager.d2h_stream()
