"""Losses over two processes: gradients are those of one process with both batches."""

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
from flambeau.rl.data.tensor_specs import Bounded, OneHot
from flambeau.rl.modules import MLP, Actor, IndependentNormal, ProbabilisticActor, QValueActor, ValueOperator
from flambeau.rl.objectives import A2CLoss, ClipPPOLoss, DDPGLoss, DQNLoss, IQLLoss, SACLoss, SoftUpdate, TD3Loss

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


class Undrawn(IndependentNormal):
    """A normal distribution that always gives its mean."""

    def rsample(self, sample_shape=()):
        return self.mean.expand(*sample_shape, *self.mean.shape)

    sample = rsample


def value_loss(kind):
    """A loss on values that draws no numbers, so that two processes see what one does."""
    torch.manual_seed(0)
    spec = Bounded(-1, 1, (2,))
    critic = ValueOperator(MLP(6, 1, num_cells=[8]), ["observation", "action"])
    acting = Actor(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), ["observation"], spec=spec)
    layers = TensorDictModule(nn.Sequential(nn.Linear(4, 4), NormalParamExtractor()), ["observation"], ["loc", "scale"])
    exact = ProbabilisticActor(layers, ["loc", "scale"], distribution_class=Undrawn, spec=spec)
    state = ValueOperator(MLP(4, 1, num_cells=[8]), ["observation"])
    if kind == "dqn":
        return DQNLoss(QValueActor(MLP(4, 2, num_cells=[8]), in_keys=["observation"], spec=OneHot(2)))
    if kind == "td3":
        return TD3Loss(acting, critic, action_spec=spec, policy_noise=0.0)
    if kind == "ddpg":
        return DDPGLoss(acting, critic, delay_actor=True, delay_value=True)
    if kind == "iql":
        return IQLLoss(networks()[0], critic, state)
    return SACLoss(exact, critic, action_spec=spec)


def steps():
    torch.manual_seed(1)
    action = nn.functional.one_hot(torch.arange(8) % 2, 2).float()
    end = {name: torch.arange(8).unsqueeze(-1) == 3 for name in ("done", "terminated")}
    after = {"observation": torch.randn(8, 4), "reward": torch.randn(8, 1), **end}
    return TensorDict({"observation": torch.randn(8, 4), "action": action, "next": after}, [8])


def after_one_step(loss, run, data):
    """Gradients, and the targets that come of them."""
    updater = SoftUpdate(loss, tau=0.5)
    sum(value for name, value in run(data).items() if name.startswith("loss")).backward()
    gradients = {name: whole(each.grad).tolist() for name, each in loss.named_parameters() if each.grad is not None}
    torch.optim.SGD([each for each in loss.parameters() if each.requires_grad], lr=0.1).step()
    updater.step()
    targets = {name: whole(each).tolist() for name, each in loss.named_buffers() if name.startswith("target_")}
    return gradients, targets


def work_on_values(rank, port, kind, found):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=PROCESSES)
    try:
        loss = value_loss(kind)
        fully_shard(loss, ignored_params={each for each in loss.parameters() if each.ndim == 0})
        results = after_one_step(loss, loss, steps().chunk(PROCESSES)[rank])
        if rank == 0:
            found.put(results)
        dist.barrier()
    finally:
        dist.destroy_process_group()


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


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sac", "td3", "dqn", "ddpg", "iql"])
def test_two_processes_with_sharded_values_train_as_one(kind):
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work_on_values, (free_port(), kind, queue), nprocs=PROCESSES)
    loss = value_loss(kind)
    for two, one in zip(queue.get(), after_one_step(loss, loss, steps()), strict=True):
        assert one
        assert two.keys() == one.keys()
        for name, values in one.items():
            torch.testing.assert_close(torch.tensor(two[name]), torch.tensor(values), msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "ddp-functional", "fsdp", "fsdp-networks"])
@pytest.mark.parametrize("kind", list(LOSSES))
def test_two_processes_give_the_gradients_of_one(kind, way):
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, (free_port(), kind, way, queue), nprocs=PROCESSES)
    value, gradients = queue.get()
    one, by_one = expected(kind)
    torch.testing.assert_close(torch.tensor(value), one)
    names = {name.replace("_network_params", "_network"): each for name, each in gradients.items()}
    assert names.keys() == by_one.keys()
    for name, gradient in by_one.items():
        torch.testing.assert_close(torch.tensor(names[name]), gradient)
