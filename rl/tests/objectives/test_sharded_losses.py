"""Losses on a policy's own steps over two processes: gradients are those of one process with both batches."""

from __future__ import annotations

import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import NormalParamExtractor, TensorDictModule
from flambeau.rl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
from flambeau.rl.objectives import A2CLoss, ClipPPOLoss

LOSSES = {"a2c": A2CLoss, "ppo": ClipPPOLoss}
PROCESSES = 2


def networks():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(layers, ["observation"], ["loc", "scale"]), ["loc", "scale"],
        distribution_class=IndependentNormal, return_log_prob=True,
    )  # fmt: skip
    return actor, ValueOperator(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), ["observation"])


def batch():
    torch.manual_seed(1)
    data = TensorDict({"observation": torch.randn(8, 4)}, [8])
    with torch.no_grad():
        data = networks()[0](data)
    for name in ("advantage", "value_target"):
        data[name] = torch.randn(8, 1)
    return data


def total(found):
    return sum(value for name, value in found.items() if name.startswith("loss_"))


def expected(kind):
    """The loss and the gradients of one process."""
    loss = LOSSES[kind](*networks(), functional=False)
    value = total(loss(batch()))
    value.backward()
    return value.detach(), {name: each.grad for name, each in loss.named_parameters()}


def whole(gradient):
    return gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient


def work(rank, port, kind, way, found):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=PROCESSES)
    try:
        loss = LOSSES[kind](*networks(), functional=way == "ddp-functional")
        run = loss
        if way.startswith("ddp"):
            run = DistributedDataParallel(loss)
        elif way == "fsdp-networks":
            fully_shard(loss.actor_network)
            fully_shard(loss.critic_network)
        else:
            fully_shard(loss)
        value = total(run(batch().chunk(PROCESSES)[rank]))
        value.backward()
        mean = value.detach().clone()
        dist.all_reduce(mean)
        gradients = {name: whole(each.grad) for name, each in loss.named_parameters()}
        if rank == 0:
            found.put((mean.item() / PROCESSES, {name: each.tolist() for name, each in gradients.items()}))
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "ddp-functional", "fsdp", "fsdp-networks"])
@pytest.mark.parametrize("kind", list(LOSSES))
def test_two_processes_give_the_gradients_of_one(kind, way):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, (port, kind, way, queue), nprocs=PROCESSES)
    value, gradients = queue.get()
    one, by_one = expected(kind)
    torch.testing.assert_close(torch.tensor(value), one)
    names = {name.replace("_network_params", "_network"): each for name, each in gradients.items()}
    assert names.keys() == by_one.keys()
    for name, gradient in by_one.items():
        torch.testing.assert_close(torch.tensor(names[name]), gradient)
